//! Builds the program so that it does not show where, when and by whom.

use crate::output_of;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What cargo says of the workspace.
pub(crate) struct Metadata {
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// The platform for which is built, such as `x86_64-unknown-linux-gnu`.
    pub(crate) triple: String,
    /// Packages and how they depend on each other, for that platform.
    pub(crate) all: Value,
}

pub(crate) fn metadata(root: &Path) -> Result<Metadata> {
    let version = String::from_utf8(output_of(Command::new("rustc").arg("-vV").current_dir(root))?)?;
    let triple = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--locked", "--format-version=1", "--filter-platform", triple]).current_dir(root);
    let all: Value = serde_json::from_slice(&output_of(&mut cargo)?).context("cargo metadata is no JSON")?;
    let target = all["target_directory"].as_str().context("cargo metadata names no folder for builds")?;
    Ok(Metadata { target: target.into(), triple: triple.to_owned(), all })
}

/// Whether a variable of the environment would change what comes out.
fn changes_the_program(name: &str) -> bool {
    let others = ["RUSTC", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET", "TARE_COMMIT"];
    name.contains("RUSTFLAGS")
        || name.contains("CFLAGS")
        || name.starts_with("CARGO_PROFILE_")
        || others.contains(&name)
}

/// The program for release, of the commit that is checked out; `quick` leaves it as slow as it was written.
pub(crate) fn release(root: &Path, metadata: &Metadata, quick: bool) -> Result<PathBuf> {
    let changed = git(root, &["status", "--porcelain", "--untracked-files=no"])?;
    ensure!(
        changed.is_empty(),
        "these files differ from the commit that the program would name; commit or stash them, or package a program \
         of your own with --binary:\n{changed}"
    );
    let target = metadata.target.join("dist-build");
    let remapped = remapped(root, &target, &metadata.all);
    let flags: Vec<String> = remapped.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let c_flags: Vec<String> = remapped.iter().map(|(from, to)| format!("'-ffile-prefix-map={from}={to}'")).collect();
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--package", "tare", "--target-dir"]).arg(&target);
    // Arrays of the configuration are joined, so this goes beside what makes the program static.
    cargo.arg("--config").arg(format!("target.{}.rustflags={}", metadata.triple, Value::from(flags)));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if changes_the_program(&name) {
            cargo.env_remove(&*name);
        }
    }
    cargo.env("CFLAGS", c_flags.join(" ")).env("CC_SHELL_ESCAPED_FLAGS", "1").env("CARGO_INCREMENTAL", "0");
    cargo.env("SOURCE_DATE_EPOCH", time(root)?.to_string());
    if quick {
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    }
    let status = cargo.current_dir(root).stdin(Stdio::null()).status().context("could not run cargo")?;
    ensure!(status.success(), "the program does not build");
    let binary = target.join(&metadata.triple).join("release/tare");
    let bytes = fs::read(&binary).with_context(|| format!("could not read {}", binary.display()))?;
    for (path, _) in &remapped {
        let shows = bytes.windows(path.len()).any(|window| window == path.as_bytes());
        ensure!(!shows, "{} shows where it was built: it has {path} in it", binary.display());
    }
    Ok(binary)
}

/// The folders from which sources are compiled, and what they are called instead. Of several that fit a path the last
/// one holds, so what may lie in another one comes after it.
fn remapped(root: &Path, target: &Path, metadata: &Value) -> Vec<(String, &'static str)> {
    let packages = metadata["packages"].as_array().into_iter().flatten().filter(|package| !package["source"].is_null());
    // A folder for each registry or its mirror, and one for each package in it.
    let crates: BTreeSet<PathBuf> = packages
        .filter_map(|package| Some(Path::new(package["manifest_path"].as_str()?).ancestors().nth(2)?.to_owned()))
        .collect();
    let shown = |path: &Path| path.display().to_string();
    let mut all = vec![(shown(root), "/tare"), (shown(target), "/build")];
    all.extend(crates.iter().map(|path| (shown(path), "/crates")));
    all
}

/// The time of everything, in seconds since 1970: `SOURCE_DATE_EPOCH`, or that of the commit.
pub(crate) fn time(root: &Path) -> Result<u64> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(time) => time.parse().with_context(|| format!("SOURCE_DATE_EPOCH is no time in seconds: '{time}'")),
        Err(_) => git(root, &["log", "-1", "--format=%ct"])?.parse().context("git names no time of the commit"),
    }
}

/// What git says of the checkout.
pub(crate) fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = output_of(Command::new("git").args(arguments).current_dir(root));
    let output = output.context("a release is made of a commit, in a checkout of git")?;
    Ok(String::from_utf8(output)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_lies_in_another_folder_is_renamed_after_it() {
        let package = |manifest: &str| json!({"source": "registry", "manifest_path": manifest});
        let metadata = json!({"packages": [
            {"source": null, "manifest_path": "/src/crates/a/Cargo.toml"},
            package("/src/cargo/mirror/b-1.0/Cargo.toml"),
            package("/src/cargo/mirror/c-1.0/Cargo.toml"),
            package("/other/d-1.0/Cargo.toml"),
        ]});
        let all = remapped(Path::new("/src"), Path::new("/src/target"), &metadata);
        let all: Vec<(&str, &str)> = all.iter().map(|(from, to)| (from.as_str(), *to)).collect();
        let crates = [("/other", "/crates"), ("/src/cargo/mirror", "/crates")];
        assert_eq!(all, [("/src", "/tare"), ("/src/target", "/build"), crates[0], crates[1]]);
    }

    #[test]
    fn flags_of_the_environment_are_left_out_and_its_compiler_is_not() {
        for name in
            ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CFLAGS_x86_64_unknown_linux_gnu", "CARGO_PROFILE_RELEASE_LTO"]
        {
            assert!(changes_the_program(name), "{name}");
        }
        for name in ["CC", "PATH", "CARGO_HOME", "RUSTUP_TOOLCHAIN", "CARGO_BUILD_JOBS"] {
            assert!(!changes_the_program(name), "{name}");
        }
    }
}
