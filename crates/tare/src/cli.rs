//! What a user may type behind a verb.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::units::typed_duration;

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// The study: a file, or the name of one in studies/
    #[arg(default_value = "canonical")]
    pub(crate) study: String,
    /// Preset to use, such as quick
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Only this part of the study; may be repeated
    #[arg(long = "part", value_name = "NAME")]
    pub(crate) parts: Vec<String>,
    /// Exactly so many blocks, instead of what the study says
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,
    /// How the forms of a block stand beside each other, instead of what the study says
    #[arg(long, value_name = "NAME", value_parser = designs())]
    pub(crate) design: Option<Arrangement>,
    /// Weigh a known weight as well, such as 1%: the baseline with so many operations more than count
    #[arg(long, value_name = "SHARE", value_parser = ruler)]
    pub(crate) ruler: Option<f64>,
    /// Only these forms, besides the baseline; may be repeated
    #[arg(long = "form", value_name = "NAME")]
    pub(crate) forms: Vec<String>,
    /// As many whole blocks as end within this, such as 10m, of those that are planned
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) at_most: Option<Duration>,
    /// How long load runs before it counts, such as 3s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) settle: Option<Duration>,
    /// How long each trial is measured, such as 10s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) measure: Option<Duration>,
    /// Seed of every random choice
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Where to put the record; a new directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Where to look for workloads first; then beside the study, in workloads/ there and above, and in ./workloads
    #[arg(long, value_name = "DIR")]
    pub(crate) workloads: Option<PathBuf>,
    /// Also profile each form, in trials that never count: flame graphs, and system calls by operation
    #[arg(long)]
    pub(crate) profile: bool,
    /// Print the report as JSON; progress goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// End with the whole report: causes, CPU time, resources, methods
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Wait until a run that is under way on this machine has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Keep the deployment of a trial that fails standing, until Enter, Ctrl-C or SIGTERM
    #[arg(long)]
    pub(crate) keep_failed: bool,
    /// Print the plan and the expected time, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl RunArgs {
    /// What was typed of these for the one form that a search or an explanation is about, to be typed again.
    pub(crate) fn typed(&self) -> String {
        let options = [
            ("form", self.forms.first().cloned()),
            ("preset", self.preset.clone()),
            ("design", self.design.as_ref().map(|design| design.name().to_owned())),
            ("ruler", self.ruler.map(|share| format!("{}%", share * 100.0))),
            ("settle", self.settle.map(typed_duration)),
            ("measure", self.measure.map(typed_duration)),
            ("at-most", self.at_most.map(typed_duration)),
            ("workloads", self.workloads.as_ref().map(|folder| folder.display().to_string())),
        ];
        let typed = options.into_iter().filter_map(|(name, value)| Some(format!(" --{name} {}", value?)));
        typed.chain(self.profile.then(|| " --profile".to_owned())).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct PeakArgs {
    /// Here --measure is the length of a window, --settle what goes before each
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Search this workload, without a study; --form then names layers, as in vm+container
    #[arg(long, value_name = "NAME", conflicts_with = "study")]
    pub(crate) workload: Option<String>,
    /// What is raised, with --workload: arrivals a second, users who think, or connections
    #[arg(long, value_enum, requires = "workload")]
    pub(crate) of: Option<PeakOf>,
    /// The QoS: 99 of 100 operations of each kind answered within this, such as 10ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) p99: Option<Duration>,
    /// The first level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) start: Option<f64>,
    /// Give up below this level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) at_least: Option<f64>,
    /// Go no higher than this level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) up_to: Option<f64>,
    /// Where the peak is expected
    #[arg(long, value_name = "LEVEL")]
    pub(crate) hint: Option<f64>,
    /// How long load runs before the search looks closely, such as 90s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) warm: Option<Duration>,
    /// How many windows around the peak
    #[arg(long, value_parser = clap::value_parser!(u32).range(24..=1_000))]
    pub(crate) windows: Option<u32>,
    /// No search takes longer than this under load
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Duration>,
    /// By which rules
    #[arg(long, value_enum)]
    pub(crate) rules: Option<PeakRulesArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PeakOf {
    Closed,
    Open,
    Users,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PeakRulesArg {
    /// A staircase around the peak, with an interval
    Staircase,
    /// The search of Weathervane 2.2, for comparison
    Published,
}

/// A service of a workload: like one it states what it takes, and derives nothing from the machine.
#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: std::net::SocketAddr,
    /// Threads that serve
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Whether answers go out at once (TCP_NODELAY)
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) nodelay: bool,
    /// Send buffer of a connection, such as 256KiB; auto leaves it to the kernel
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = buffer)]
    pub(crate) send_buffer: Buffer,
    /// Receive buffer of a connection; auto leaves it to the kernel
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = buffer)]
    pub(crate) receive_buffer: Buffer,
}

/// A socket's buffer in bytes, or none where the kernel sizes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer(pub(crate) Option<u32>);

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The record; without one, the latest in ./records
    pub(crate) record: Option<PathBuf>,
    /// Wait until a run that is under way on this machine has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Keep the deployment of a trial that fails standing, until Enter, Ctrl-C or SIGTERM
    #[arg(long)]
    pub(crate) keep_failed: bool,
    /// Print the report as JSON; progress goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// End with the whole report: causes, CPU time, resources, methods
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Only say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also remove what is kept between runs: bundles' images, guests' initial file systems, prepared data; not
    /// the bundles themselves
    #[arg(long)]
    pub(crate) all: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Terminal,
    Html,
    Json,
    Csv,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Terminal => "terminal",
            Format::Html => "html",
            Format::Json => "json",
            Format::Csv => "csv",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The record; without one, the latest in ./records
    pub(crate) record: Option<PathBuf>,
    /// How to render it
    #[arg(long, value_enum, default_value = "terminal")]
    pub(crate) format: Format,
    /// All that there is, on a terminal: causes, CPU time, resources, methods
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Write it to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print the JSON Schema of the JSON format and nothing else
    #[arg(long)]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The record to compare with
    pub(crate) before: PathBuf,
    /// The record that is compared
    pub(crate) after: PathBuf,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const GATE_HELP: &str = "\
A bound is broken when the whole 95 % interval lies beyond it, kept when the whole interval lies within it, and \
inconclusive otherwise; then it is said how many blocks would probably tell. What cannot be judged is inconclusive as \
well: a form that is emulated or was measured in fewer than 3 blocks, a metric whose A/A control differs or gives no \
noise floor.

Exit codes: 0 every bound is kept; 1 a bound is broken; 2 a mistake in what was typed or in a record, nothing was judged; \
3 no bound is broken and at least one is inconclusive (see --on-inconclusive).";

#[derive(Debug, Args)]
#[command(after_help = GATE_HELP)]
pub(crate) struct GateArgs {
    /// The record that is judged; without one, the latest in ./records
    #[arg(long)]
    pub(crate) record: Option<PathBuf>,
    /// The record with which it is compared: no form's ratio to its baseline may have become worse
    #[arg(long, value_name = "RECORD")]
    pub(crate) baseline: Option<PathBuf>,
    /// How much worse than the baseline form of its own record a form may be, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = bound)]
    pub(crate) max_overhead: Option<f64>,
    /// How much worse than in the other record a form may be; 3% when nothing is said
    #[arg(long, value_name = "PERCENT", value_parser = bound, requires = "baseline")]
    pub(crate) max_regression: Option<f64>,
    /// Only this form; may be repeated. Without one, all that are neither emulated nor left out
    #[arg(long = "form", value_name = "NAME")]
    pub(crate) forms: Vec<String>,
    /// This metric, such as p99 or cpu, instead of the throughput or the peak load that was searched; may be repeated
    #[arg(long = "metric", value_name = "NAME")]
    pub(crate) metrics: Vec<String>,
    /// What an inconclusive bound counts as
    #[arg(long, value_enum)]
    pub(crate) on_inconclusive: Option<Inconclusive>,
    /// Also write the verdict as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Inconclusive {
    Fail,
    Pass,
}

const HISTORY_HELP: &str = "\
Exit codes: 0 done; 1 a record of a folder could not be read, the others are in the history; 2 a mistake in what was \
typed, such as a path without a record that can be read.";

#[derive(Debug, Args)]
#[command(after_help = HISTORY_HELP)]
pub(crate) struct HistoryArgs {
    /// The study to follow: every record of it, and where a form's ratio to the baseline changed
    pub(crate) study: Option<String>,
    /// Only this form
    #[arg(long, value_name = "NAME")]
    pub(crate) form: Option<String>,
    /// Follow this metric, such as p99 or cpu, instead of the throughput, or the peak load where that was searched
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Put this record, or every record in this folder, into the history; may be repeated
    #[arg(long, value_name = "RECORD")]
    pub(crate) add: Vec<PathBuf>,
    /// The same as STUDY
    #[arg(long = "study", value_name = "NAME", hide = true, conflicts_with = "study")]
    pub(crate) study_flag: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScalingArgs {
    /// A record whose load goes up in steps; without one, the latest in ./records
    #[arg(conflicts_with = "at")]
    pub(crate) record: Option<PathBuf>,
    /// Instead: a record that was measured with so many, such as 2=records/two; repeat it for each number, and for each
    /// further record of a number
    #[arg(long, value_name = "N=RECORD")]
    pub(crate) at: Vec<String>,
    /// What the numbers of --at count
    #[arg(long, value_name = "WORD", default_value = "instances")]
    pub(crate) of: String,
    /// Only this form
    #[arg(long, value_name = "NAME")]
    pub(crate) form: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Only what the CPUs are and share: packages, NUMA nodes, caches, cores, and where devices hang
    #[arg(long)]
    pub(crate) topology: bool,
    /// Leave out the noise test, which takes 5 s
    #[arg(long)]
    pub(crate) no_noise: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Studies or workloads: files, or names
    #[arg(required_unless_present = "schema")]
    pub(crate) files: Vec<String>,
    /// Print the JSON Schema of such files, for editors, and check nothing
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "files")]
    pub(crate) schema: Option<FileKind>,
    /// Where to look for workloads first; then beside the study, in workloads/ there and above, and in ./workloads
    #[arg(long, value_name = "DIR")]
    pub(crate) workloads: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileKind {
    Study,
    Workload,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where to write them
    pub(crate) dir: PathBuf,
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    tare_core::units::parse_duration(text)
}

fn ruler(text: &str) -> Result<f64, String> {
    let share = tare_core::units::parse_percent(text)?;
    tare_core::study::check_ruler(share).map(|()| share)
}

pub(crate) fn designs() -> impl TypedValueParser<Value = Arrangement> {
    PossibleValuesParser::new(Arrangement::all().map(|design| design.name())).map(|name| {
        let design = Arrangement::all().into_iter().find(|design| design.name() == name);
        design.expect("only names of designs are possible")
    })
}

fn buffer(text: &str) -> Result<Buffer, String> {
    if text == "auto" {
        return Ok(Buffer(None));
    }
    let bytes = tare_core::units::parse_bytes(text)?;
    let fits = (4096..=1 << 30).contains(&bytes);
    if fits {
        Ok(Buffer(Some(bytes as u32)))
    } else {
        Err(format!("'{text}' is no size of a buffer: from 4KiB to 1GiB"))
    }
}

fn bound(text: &str) -> Result<f64, String> {
    let share = tare_core::units::parse_percent(text)?;
    if share > 0.0 { Ok(share) } else { Err(format!("'{text}' is no bound: write for example 5%")) }
}
