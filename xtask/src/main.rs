//! The project's own chores: `cargo xtask ci` is the gate, `cargo xtask tidy` the rules that no compiler knows,
//! `cargo xtask fuzz` hostile input for as long as one likes.

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
    /// Everything that must hold before a change is taken: formatting, tidy, lints, tests.
    Ci(ci::Wanted),
    /// The rules of CONTRIBUTING.md and ARCHITECTURE.md that a machine can check. Lists all findings at once.
    Tidy,
    /// What reads bytes of others, fed with hostile ones. Exit code 1 after a crash, 2 when something is missing.
    Fuzz(fuzz::Wanted),
    /// Tare beside others of its kind.
    #[command(name = "bench", disable_help_flag = true)]
    Benchmark(Handed),
    /// What is released: a tarball, a Debian package and an image, the same from the same commit.
    #[command(disable_help_flag = true)]
    Dist(Handed),
}

/// What is handed on to a program of its own.
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

/// What was typed is wrong, as only the chore itself can tell.
#[derive(Debug)]
struct Mistyped(String);

impl std::fmt::Display for Mistyped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistyped {}

/// The code of a chore's end; an error is said.
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

/// Builds a package of chores and runs it. It has dependencies that the gate must not wait for.
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
