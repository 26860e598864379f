//! Tare: a scale for deployment forms.
//!
//! **Architecture invariant:** this is the only crate that knows all others. It parses the command line, finds the
//! files, gives the runner an apparatus of real layers, and shows the results. `cmd/` has one file per verb; what verbs
//! share is beside it.

mod apparatus;
mod awake;
mod catalog;
mod cli;
mod cmd;
mod driver;
mod dry_run;
mod files;
mod history;
mod images;
mod kept;
mod lab;
mod layers;
mod machine;
mod mistake;
mod null_cost;
mod outlook;
mod paths;
mod places;
mod power;
mod progress;
mod ready;
mod records;
mod report;
mod run;
mod schema;
mod session;
mod sources;
mod standing;
mod suite;
mod terminal;
mod verbs;
mod version;
mod within;
mod written;

use clap::{CommandFactory, Parser};
use rustix::fs::Mode;
use std::process::ExitCode;
use verbs::{Cli, Verb};

/// Success.
pub(crate) const EXIT_OK: u8 = 0;
/// Failure; the reason was printed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// A mistake of the user's: a wrong flag or a wrong file. Nothing was started.
pub(crate) const EXIT_MISTAKE: u8 = 2;
/// `tare gate` was inconclusive: the bound lies inside the interval, or there is no interval.
pub(crate) const EXIT_INCONCLUSIVE: u8 = 3;
/// Interrupted by the user.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Makes new files unwritable for others, whatever the user's umask: root will use them again.
fn keep_others_from_writing() {
    let others = Mode::WGRP | Mode::WOTH;
    let before = rustix::process::umask(others);
    rustix::process::umask(before | others);
}

fn main() -> ExitCode {
    // In a guest the kernel appends arguments of its own, and nobody would read usage errors. On a machine of a lab
    // somebody speaks to the agent over pipes.
    if std::env::args_os().nth(1).is_some_and(|verb| verb == "agent") && !tare_layers::agent::is_piped() {
        tare_layers::agent::run_guest(tare_telemetry::guest_prober, layers::LAYERS);
    }
    paths::keep_current_directory_off_path();
    keep_others_from_writing();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(wrong) => return refuse(&wrong),
    };
    let done = match cli.verb {
        Verb::Weigh(args) => cmd::weigh::weigh(&args),
        Verb::Init(args) => cmd::weigh::init(&args),
        Verb::Run(args) => cmd::run::run(&args),
        Verb::Power(args) => cmd::power::power_of(&args),
        Verb::Peak(args) => cmd::peak::peak(&args),
        Verb::Explain(args) => cmd::explain::explain(&args),
        Verb::Advise(args) => cmd::advise::advise(&args),
        Verb::Place(args) => cmd::place::place(&args),
        Verb::Resume(args) => cmd::resume::resume(&args),
        Verb::Clean(args) => cmd::clean::clean(&args),
        Verb::Report(args) => cmd::report::report(&args),
        Verb::Compare(args) => cmd::compare::compare(&args),
        Verb::Gate(args) => cmd::gate::gate(&args),
        Verb::History(args) => cmd::history::history(&args),
        Verb::Serve(args) => cmd::serve::serve(&args),
        Verb::Load(args) => cmd::load::load(&args),
        Verb::Scaling(args) => cmd::scaling::scaling(&args),
        Verb::Doctor(args) => cmd::doctor::doctor(&args),
        Verb::Lab(args) => cmd::lab::lab(&args),
        Verb::Bundle(args) => cmd::bundle::bundle(&args),
        Verb::Import(args) => cmd::import::import(&args),
        Verb::Check(args) => cmd::check::check(&args),
        Verb::Completions(args) => cmd::manual::completions(&args, Cli::command()),
        Verb::Man(args) => cmd::manual::man(&args, Cli::command()),
        Verb::Drive => return cmd::drive(),
        Verb::Freeze => return cmd::freezing::serve(),
        Verb::Probe => return cmd::probe(),
        Verb::Resources => cmd::resources(),
        Verb::Peer(args) => cmd::peer(&args),
        Verb::Agent => return cmd::lab::agent(),
    };
    match done {
        Ok(EXIT_OK) if !terminal::all_was_printed() => ExitCode::from(EXIT_FAILED),
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            terminal::complain(&error);
            let fault = error.downcast_ref::<tare_core::fault::Fault>();
            let mistake = error.is::<mistake::Mistake>() || fault.is_some_and(|fault| fault.mistake);
            ExitCode::from(if mistake { EXIT_MISTAKE } else { EXIT_FAILED })
        }
    }
}

/// Shows help, the version, or a usage error. Clap wraps help to the terminal, but not usage.
fn refuse(wrong: &clap::Error) -> ExitCode {
    if wrong.use_stderr() {
        let text = wrong.to_string();
        let width = terminal::columns(std::io::stderr());
        if text.lines().any(|line| line.chars().count() > width) {
            terminal::note(&text);
            return ExitCode::from(EXIT_MISTAKE);
        }
    }
    wrong.exit()
}
