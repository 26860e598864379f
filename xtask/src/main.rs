//! The project's own chores: `cargo xtask ci` is the gate, `cargo xtask tidy` checks rules that no compiler knows, and
//! `cargo xtask fuzz` feeds hostile input for as long as you like.

mod ci;
mod fuzz;
#[cfg(test)]
mod install_tests;
mod tidy;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Tare's chores.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Chore {
    /// Run the gate, which every change must pass: formatting, tidy, dependencies, lints, tests.
    Ci(ci::Wanted),
    /// Check the rules of CONTRIBUTING.md and ARCHITECTURE.md that a machine can check, and list all findings.
    Tidy,
    /// Fuzz all parsers of foreign bytes. Exit code 1 after a crash, 2 if something is missing.
    Fuzz(fuzz::Wanted),
    /// Compare Tare with other load tools, and measure its precision.
    #[command(name = "bench", disable_help_flag = true)]
    Benchmark(Handed),
    /// Build the release: a tarball, a Debian package and an image, reproducible from the commit.
    #[command(disable_help_flag = true)]
    Dist(Handed),
}

/// Arguments for a separate program.
#[derive(Args)]
struct Handed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    let chore = Chore::parse();
    let root = root();
    let done = match chore {
        Chore::Ci(wanted) => ci::run(&root, &wanted),
        Chore::Tidy => tidy::run(&root),
        Chore::Fuzz(wanted) => return ended(fuzz::run(&root, &wanted)),
        Chore::Benchmark(Handed { arguments }) => hand_on(&root, "xtask-benchmark", &arguments),
        Chore::Dist(Handed { arguments }) => hand_on(&root, "xtask-dist", &arguments),
    };
    ended(done.map(|well| if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// A usage error that only the chore itself can detect.
#[derive(Debug)]
struct Mistyped(String);

impl std::fmt::Display for Mistyped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistyped {}

/// The exit code of a chore; prints an error.
fn ended(done: Result<ExitCode>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            if error.is::<Mistyped>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// The folder of the workspace: where this crate was built from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Builds and runs a package of chores, whose dependencies the gate must not wait for.
fn hand_on(root: &Path, package: &str, arguments: &[OsString]) -> Result<bool> {
    let mut cargo = Command::new("cargo");
    cargo.args(["run", "--quiet", "--locked", "--package", package, "--"]).args(arguments).current_dir(root);
    Ok(cargo.status().context("could not run cargo")?.success())
}

/// The output of a command that must succeed.
fn output_of(program: &str, arguments: &[&str], folder: &Path) -> Result<String> {
    let command = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.with_context(|| format!("could not run {}", command()))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {}", command(), complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
