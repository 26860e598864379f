//! `tare lab`: the machines of a lab.

mod check;
mod clean;
mod show;

use crate::cli::duration;
use crate::terminal::{columns, note, print};
use crate::{EXIT_FAILED, EXIT_OK, lab};
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tare_core::lab::Machine;
use tare_core::units::exact_duration;
use tare_layers::lab::Program;

/// See `Verb::Lab`.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    verb: LabVerb,
}

#[derive(Debug, Subcommand)]
enum LabVerb {
    /// List the machines and how each is reached, without reaching any
    List(ListArgs),
    /// Reach each machine, and report what it is, what it can measure and what its clock says
    Check(ReachArgs),
    /// Remove what dead runs left on the machines, as `tare clean` does on this one
    Clean(LabCleanArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Lab file [default: ~/.config/tare/lab.yaml]
    #[arg(long, value_name = "FILE")]
    lab: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ReachArgs {
    /// Only these machines [default: all]
    #[arg(value_name = "MACHINE")]
    machines: Vec<String>,
    /// Lab file [default: ~/.config/tare/lab.yaml]
    #[arg(long, value_name = "FILE")]
    lab: Option<PathBuf>,
    /// Give a machine up after this time; all are asked at once
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2m")]
    within: Duration,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct LabCleanArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Print what would be removed without removing it
    #[arg(long)]
    dry_run: bool,
    /// Also remove what is kept between runs, as `tare clean --all` does
    #[arg(long)]
    all: bool,
}

pub(crate) fn lab(args: &LabArgs) -> Result<u8> {
    match &args.verb {
        LabVerb::List(args) => list(args),
        LabVerb::Check(args) => {
            let findings = each(args, check::examine)?;
            let text = if args.json {
                serde_json::to_string_pretty(&findings)?
            } else {
                show::findings(&findings, columns(std::io::stdout()))
            };
            print(&text);
            Ok(exit_code(findings.iter().all(|finding| finding.fault.is_none())))
        }
        LabVerb::Clean(args) => {
            let LabCleanArgs { reach, dry_run, all } = args;
            let options = clean::Options { dry_run: *dry_run, all: *all, json: reach.json };
            let ends = each(reach, |machine, program, within| clean::clean(machine, program, within, options))?;
            let text = if reach.json {
                serde_json::to_string_pretty(&ends)?
            } else {
                show::cleaned(&ends, columns(std::io::stdout()))
            };
            print(&text);
            Ok(exit_code(ends.iter().all(clean::Cleaned::is_done)))
        }
    }
}

fn exit_code(done: bool) -> u8 {
    if done { EXIT_OK } else { EXIT_FAILED }
}

fn list(args: &ListArgs) -> Result<u8> {
    let lab = lab::find(args.lab.as_deref())?;
    let text = if args.json {
        let all: Vec<serde_json::Value> = lab.machines.iter().map(show::machine_as_json).collect();
        serde_json::to_string_pretty(&all)?
    } else {
        show::machines(&lab.machines, columns(std::io::stdout()))
    };
    print(&text);
    Ok(EXIT_OK)
}

/// Does something with each chosen machine, with all at once: what came of it, in the order of the lab.
fn each<T: Send>(args: &ReachArgs, act: impl Fn(&Machine, &Program, Duration) -> T + Sync) -> Result<Vec<T>> {
    let lab = lab::find(args.lab.as_deref())?;
    let machines = lab::chosen(&lab, &args.machines)?;
    let program = Program::own()?;
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    // On standard error, to keep results on standard output clean.
    note(&format!("reaching {}, within {}", names.join(", "), exact_duration(args.within)));
    let (act, program) = (&act, &program);
    Ok(std::thread::scope(|scope| {
        let asked: Vec<_> =
            machines.into_iter().map(|machine| scope.spawn(move || act(machine, program, args.within))).collect();
        asked.into_iter().map(|asked| asked.join().expect("asking a machine does not panic")).collect()
    }))
}

/// `tare agent` on a machine of a lab: answers over its pipes, and ends with them.
pub(crate) fn agent() -> ExitCode {
    match tare_layers::agent::serve_machine() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            // Who started it reads this behind what the way there says.
            eprintln!("tare agent: {fault}");
            ExitCode::FAILURE
        }
    }
}
