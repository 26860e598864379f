//! The verbs that a user may type.

use crate::cli::{
    CheckArgs, CleanArgs, CompareArgs, CompletionsArgs, DoctorArgs, GateArgs, HistoryArgs, ManArgs, PeakArgs, PeerArgs,
    ReportArgs, ResumeArgs, RunArgs, ScalingArgs,
};
use crate::cmd::advise::AdviseArgs;
use crate::cmd::bundle::BundleArgs;
use crate::cmd::explain::ExplainArgs;
use crate::cmd::load::LoadArgs;
use crate::cmd::place::PlaceArgs;
use crate::cmd::power::PowerArgs;
use crate::version::VERSION;
use clap::{Parser, Subcommand};

/// A scale for deployment forms: runs the same bits as plain processes, in containers, in virtual machines and in
/// containers inside virtual machines, drives the same load at each, and says what each form costs.
#[derive(Debug, Parser)]
#[command(name = "tare", version = VERSION.as_str(), max_term_width = 80, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 something failed, and was printed; 2 a mistake in what was typed or in a file, nothing was \
started; 3 `tare gate` could not tell, or `tare load` measured its own limit; 130 interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Carry out a study; without a name, the canonical one
    Run(RunArgs),
    /// Say how narrow a study's intervals will be here after how long, by a short calibration
    Power(PowerArgs),
    /// Search the greatest load that each form carries within its QoS
    Peak(PeakArgs),
    /// Find out which part of a form costs what, by switching its features on one by one
    Explain(ExplainArgs),
    /// Find out what would win back what a form costs, by trying its variants
    Advise(AdviseArgs),
    /// Find out on which CPUs a study's services do best
    Place(PlaceArgs),
    /// Go on with a run that was interrupted or killed
    Resume(ResumeArgs),
    /// Remove whatever dead runs left on this machine
    Clean(CleanArgs),
    /// Render a record: terminal, HTML, JSON or CSV
    Report(ReportArgs),
    /// Set two records side by side
    Compare(CompareArgs),
    /// Say whether a record keeps bounds on overhead and regression, for pipelines
    Gate(GateArgs),
    /// List the runs of this machine, or follow a form's cost from run to run
    History(HistoryArgs),
    /// Make load and say how it was answered: the generator by itself
    Load(LoadArgs),
    /// Say how throughput grows with connections, users or instances
    Scaling(ScalingArgs),
    /// Say what this host can weigh, and why not the rest
    Doctor(DoctorArgs),
    /// Build, list, show and remove bundles
    Bundle(BundleArgs),
    /// Check a study and its workload without starting anything
    Check(CheckArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
    /// Make load: a plan on standard input, lines on standard output
    #[command(hide = true)]
    Drive,
    /// Freeze services between turns: which ones, and orders, on standard input
    #[command(hide = true)]
    Freeze,
    /// Sample counters: a plan on standard input, lines on standard output
    #[command(hide = true)]
    Probe,
    /// Say what this process really gets
    #[command(hide = true)]
    Resources,
    /// Serve what the network is tested with: take, give and answer bytes
    #[command(hide = true)]
    Peer(PeerArgs),
    /// Serve a guest
    #[command(hide = true)]
    Agent,
}
