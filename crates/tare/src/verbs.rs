//! The verbs of the command line.

use crate::cli::{
    CheckArgs, CleanArgs, CompareArgs, CompletionsArgs, DoctorArgs, GateArgs, HistoryArgs, ManArgs, PeakArgs, PeerArgs,
    ReportArgs, ResumeArgs, RunArgs, ScalingArgs, ServeArgs,
};
use crate::cmd::advise::AdviseArgs;
use crate::cmd::bundle::BundleArgs;
use crate::cmd::explain::ExplainArgs;
use crate::cmd::import::ImportArgs;
use crate::cmd::lab::LabArgs;
use crate::cmd::load::LoadArgs;
use crate::cmd::place::PlaceArgs;
use crate::cmd::power::PowerArgs;
use crate::cmd::weigh::{InitArgs, WeighArgs};
use crate::version::VERSION;
use clap::{Parser, Subcommand};

/// A scale for deployment forms: runs the same bits as plain processes, in containers, in virtual machines and in
/// containers inside virtual machines, drives the same load at each, and reports what each form costs.
#[derive(Debug, Parser)]
#[command(name = "tare", version = VERSION.as_str(), max_term_width = 80, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 failure, with a message; 2 a mistake on the command line or in a file, nothing was started; 3 \
`tare gate` was inconclusive, or `tare load` measured its own limit; 130 interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Weigh an image, a Dockerfile, a Compose file, a package or a command: find out how to load it, and measure it in
    /// containers
    Weigh(Box<WeighArgs>),
    /// Write the workload and the study that `tare weigh` would run, for editing
    Init(Box<InitArgs>),
    /// Run a study, the canonical one by default
    Run(RunArgs),
    /// Predict how narrow a study's intervals will be on this machine, from a short calibration
    Power(PowerArgs),
    /// Search for the greatest load that each form carries within its QoS
    Peak(PeakArgs),
    /// Find out what each part of a form costs, by switching its features on one by one
    Explain(ExplainArgs),
    /// Find out which variants of a form win back what it costs
    Advise(AdviseArgs),
    /// Find the CPUs on which a study's services perform best
    Place(PlaceArgs),
    /// Continue a run that was interrupted or killed
    Resume(ResumeArgs),
    /// Remove what dead runs left on this machine
    Clean(CleanArgs),
    /// Render a record for the terminal, as HTML, JSON or CSV, or as a paper
    Report(ReportArgs),
    /// Compare two records, or up to eight with the first of them
    Compare(CompareArgs),
    /// Check a record against bounds on overhead and regression, for pipelines
    Gate(GateArgs),
    /// List the runs on this machine, or follow a form's cost from run to run
    History(HistoryArgs),
    /// Show records and the run in progress in a browser
    Serve(ServeArgs),
    /// Run only the load generator, against a server that is already running
    Load(LoadArgs),
    /// Show how throughput grows with connections, users or instances
    Scaling(ScalingArgs),
    /// Report what this machine can measure, and why not the rest
    Doctor(DoctorArgs),
    /// List, check and clean the machines of a lab
    Lab(LabArgs),
    /// Build, list, show and remove bundles
    Bundle(BundleArgs),
    /// Make a workload and a study from a Compose file
    Import(ImportArgs),
    /// Check studies, workloads and labs without starting anything
    Check(CheckArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Write the manual pages
    Man(ManArgs),
    /// Generate load: a plan on standard input, lines on standard output
    #[command(hide = true)]
    Drive,
    /// Freeze services between turns: their list, then orders, on standard input
    #[command(hide = true)]
    Freeze,
    /// Sample counters: a plan on standard input, lines on standard output
    #[command(hide = true)]
    Probe,
    /// Report the resources that this process really gets
    #[command(hide = true)]
    Resources,
    /// Serve network tests: receive, send and answer bytes
    #[command(hide = true)]
    Peer(PeerArgs),
    /// Serve a guest, or a machine of a lab
    #[command(hide = true)]
    Agent,
}
