//! The programs with tests: built, linted in the same pass, and asked what they test.

use crate::output_of;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program with tests.
pub(super) struct Program {
    /// The package, and the target where a package has more than one program: what its tests' full names begin with.
    prefix: String,
    path: PathBuf,
    /// The package's folder, in which its tests are run.
    folder: PathBuf,
}

/// A test.
#[derive(Debug, Clone)]
pub(super) struct Test {
    /// `package::target::module::test`; unit tests and the one integration program of a crate need no target.
    pub(super) name: String,
    /// Its name within its program.
    pub(super) within: String,
    /// The program.
    pub(super) program: PathBuf,
    /// Where it is run.
    pub(super) folder: PathBuf,
    /// Whether it is run in the guest and not here.
    pub(super) in_guest: bool,
}

/// Which programs with tests to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// All.
    All,
    /// Those of integration tests, which run the longest, and what they run.
    Integration,
    /// All, beside tests: as nice to others as tests that compute.
    RestBesideTests,
}

/// Builds tests with Clippy as the compiler: one pass over the workspace in place of two. `None` when something does
/// not build or a lint has something to say, which is shown.
pub(super) fn build(root: &Path, which: Which) -> Result<Option<Vec<Program>>> {
    let sysroot = output_of("rustc", &["--print", "sysroot"], root)?;
    let clippy = Path::new(sysroot.trim()).join("bin/clippy-driver");
    ensure!(clippy.exists(), "{} is missing; install it with 'rustup component add clippy'", clippy.display());
    let mut command = Command::new("nice");
    command.args(["-n", if which == Which::RestBesideTests { "19" } else { "0" }, "cargo"]);
    command.args(["test", "--workspace", "--no-run", "--locked", "--message-format=json-render-diagnostics"]);
    if which == Which::Integration {
        command.args(["--test", "*"]);
    }
    command.env("RUSTC_WORKSPACE_WRAPPER", root.join("xtask/lint.sh")).env("CLIPPY_DRIVER", clippy);
    command.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    command.current_dir(root).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut cargo = command.spawn().context("could not run cargo")?;
    let output = cargo.stdout.take().context("cargo has no output")?;
    let mut programs = Vec::new();
    for line in BufReader::new(output).lines() {
        let message: Value = serde_json::from_str(&line?).context("cargo printed something that is not JSON")?;
        programs.extend(program(&message));
    }
    Ok(cargo.wait()?.success().then_some(programs))
}

/// The program that a message of cargo's tells of, if it has tests.
fn program(message: &Value) -> Option<Program> {
    let is_test = message["profile"]["test"].as_bool()? && message["reason"] == "compiler-artifact";
    let path = message["executable"].as_str().filter(|_| is_test)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent()?.to_owned();
    let package = folder.file_name()?.to_str()?.to_owned();
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let own = kind == "test" && target != "integration";
    let prefix = if own { format!("{package}::{target}") } else { package };
    Some(Program { prefix, path: path.into(), folder })
}

/// All tests of the programs, sorted by name.
pub(super) fn tests(programs: &[Program], root: &Path) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for program in programs {
        let path = program.path.to_str().context("the path of the target directory is not UTF-8")?;
        for line in output_of(path, &["--list", "--format", "terse"], root)?.lines() {
            let Some(within) = line.strip_suffix(": test") else { continue };
            tests.push(Test {
                name: format!("{}::{within}", program.prefix),
                within: within.to_owned(),
                program: program.path.clone(),
                folder: program.folder.clone(),
                in_guest: false,
            });
        }
    }
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_is_linted_at_least_once() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let metadata = output_of("cargo", &["metadata", "--no-deps", "--format-version=1"], root).expect("it is ours");
        let metadata: Value = serde_json::from_str(&metadata).expect("cargo prints JSON");
        let targets = metadata["packages"].as_array().into_iter().flatten().flat_map(|package| {
            let targets = package["targets"].as_array().cloned().unwrap_or_default();
            targets.into_iter().map(|target| (package["name"].clone(), target))
        });
        let linter = include_str!("../../lint.sh");
        for (package, target) in targets.filter(|(_, target)| target["test"] == false) {
            let name = package.as_str().expect("packages have names");
            let compiled_with_the_tests = ["lib", "bin"].iter().any(|kind| target["kind"][0] == *kind);
            assert!(!compiled_with_the_tests || linter.contains(&format!("crates/{name}/")), "{target}");
        }
    }

    #[test]
    fn a_tests_full_name_begins_with_its_package() {
        let of = |kind: &str, target: &str| {
            let message = serde_json::json!({
                "reason": "compiler-artifact", "executable": "/t/x", "manifest_path": "/w/crates/scale/Cargo.toml",
                "profile": {"test": true}, "target": {"name": target, "kind": [kind]},
            });
            program(&message).expect("it is a program with tests").prefix
        };
        assert_eq!(of("lib", "scale"), "scale");
        assert_eq!(of("test", "integration"), "scale");
        assert_eq!(of("test", "guests"), "scale::guests");
    }
}
