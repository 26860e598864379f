//! Tare's load generator beside bare clients and the load tools that others wrote, and how fast Tare itself is.
//!
//! Every comparison has a fresh server on one CPU and one client at a time on another; in each round all tools have
//! their turn in an order of its own, and ratios are taken inside rounds, so that what else the machine does is in
//! both sides.

mod agreement;
mod busy;
mod by_hand;
mod calls;
mod closed;
mod freeze;
mod http;
mod known;
mod ours;
mod precision;
mod process;
mod quotas;
mod ratio;
mod records;
mod redis;
mod report;
mod serve;
mod servers;
mod sql;
mod tool;
mod toolbox;
mod users;
mod workshop;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser};
use report::Report;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use workshop::Workshop;

/// Compare Tare with other load tools, and measure its precision.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
enum Comparison {
    /// Compare the load generator's cost and accuracy with bare clients and other tools. Needs root and two CPUs.
    Load(Options),
    /// Measure half-widths of intervals by design, slice length and time. Needs root and two CPUs.
    Precision(precision::Options),
    /// Count how often Tare is right about equals and a known difference. Needs root and two CPUs.
    Known(known::Options),
    /// Check whether a CPU quota is named as the first cause of its cost. Needs root, two CPUs and a container engine.
    Quotas(quotas::Options),
    /// Time the pages of `tare serve` with ten thousand records. Needs neither root nor a second CPU.
    Serve(serve::Options),
}

/// How to compare.
#[derive(Args)]
struct Options {
    /// Run fewer and shorter rounds: shows that it works, not how large a difference is.
    #[arg(long)]
    quick: bool,
    /// Run only comparisons whose name begins like this; may be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Run only cases whose title contains this.
    #[arg(long)]
    case: Option<String>,
    /// Number of rounds.
    #[arg(long)]
    rounds: Option<u32>,
    /// Write the tables to docs/src/benchmarks.md; with --only or --case, in the places of their older versions.
    #[arg(long)]
    write: bool,
    /// Seed for the orders.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A group of comparisons: its name, what it is about, and what carries it out.
struct Part {
    name: &'static str,
    run: fn(&mut Workshop, &mut Report) -> Result<()>,
}

const PARTS: &[Part] = &[
    Part { name: "closed", run: closed::run },
    Part { name: "calls", run: calls::count },
    Part { name: "null", run: users::null },
    Part { name: "users", run: users::run },
    Part { name: "freeze", run: freeze::run },
    Part { name: "agreement", run: agreement::run },
];

fn main() -> ExitCode {
    let done = match Comparison::parse() {
        Comparison::Load(options) => run(&root(), &options),
        Comparison::Precision(options) => precision::run(&root(), &options).map(|()| true),
        Comparison::Known(options) => known::run(&root(), &options).map(|()| true),
        Comparison::Quotas(options) => quotas::run(&root(), &options).map(|()| true),
        Comparison::Serve(options) => serve::run(&root(), &options).map(|()| true),
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

/// The folder of the workspace: where this program was built from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
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

/// Carries out what was asked for and prints its tables. Whether every part went well.
fn run(root: &Path, options: &Options) -> Result<bool> {
    let whole = options.only.is_empty() && options.case.is_none();
    let mut shop = Workshop::open(root, options)?;
    let mut report = Report::new(&shop);
    let mut well = true;
    for part in PARTS {
        let begins = |name: &String| name.starts_with(part.name) || part.name.starts_with(name.as_str());
        if !options.only.is_empty() && !options.only.iter().any(begins) {
            continue;
        }
        if let Err(error) = (part.run)(&mut shop, &mut report) {
            well = false;
            report.say(&format!("**{} could not be carried out:** {error:#}", part.name));
        }
    }
    if options.write {
        let path = root.join("docs/src/benchmarks.md");
        let text = match whole {
            true => report.text(),
            false => report.merged_into(&std::fs::read_to_string(&path).unwrap_or_default(), shop.command()),
        };
        std::fs::write(path, text)?;
        println!("written: docs/src/benchmarks.md");
    }
    Ok(well)
}
