//! The project's own chores: `cargo xtask ci` is the gate, `cargo xtask tidy` the rules that no compiler knows.

mod benchmark;
mod ci;
mod tidy;

use anyhow::{Context, Result, ensure};
use clap::Parser;
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
    /// Tare beside others of its kind.
    #[command(name = "bench", subcommand)]
    Benchmark(benchmark::Comparison),
}

fn main() -> ExitCode {
    let chore = Chore::parse();
    let root = root();
    let done = match chore {
        Chore::Ci(wanted) => ci::run(&root, &wanted),
        Chore::Tidy => tidy::run(&root),
        Chore::Benchmark(comparison) => benchmark::run(&root, comparison),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace: where this crate was built from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
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
