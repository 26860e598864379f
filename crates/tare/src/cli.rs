//! The arguments of the verbs.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::units::typed_duration;

const RUN_HELP: &str = "\
Ctrl-C and SIGTERM take the current trial down and end the run, which `tare resume` continues. SIGUSR1 ends it after the \
block that is being measured, with a report and nothing left to resume.";

#[derive(Debug, Clone, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArgs {
    /// Study: a file, or the name of one in studies/
    #[arg(default_value = "canonical")]
    pub(crate) study: String,
    /// Preset to use, such as quick
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Run only this part of the study; may be repeated
    #[arg(long = "part", value_name = "NAME")]
    pub(crate) parts: Vec<String>,
    /// Run exactly this many blocks, overriding the study
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: Option<u32>,
    /// How to arrange the forms of a block, overriding the study
    #[arg(long, value_name = "NAME", value_parser = designs())]
    pub(crate) design: Option<Arrangement>,
    /// Also measure a known difference, such as 1%: a baseline with that share of extra, uncounted operations
    #[arg(long, value_name = "SHARE", value_parser = ruler)]
    pub(crate) ruler: Option<f64>,
    /// Run only this form and the baseline; may be repeated
    #[arg(long = "form", value_name = "NAME")]
    pub(crate) forms: Vec<String>,
    /// Run only as many of the planned blocks as end within this time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) at_most: Option<Duration>,
    /// How long to run load before measuring, such as 3s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) settle: Option<Duration>,
    /// How long to measure each trial, such as 10s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) measure: Option<Duration>,
    /// Seed for all random choices
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Write the record to this new directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Look for workloads here first, then beside the study, in workloads/ there and above, and in ./workloads
    #[arg(long, value_name = "DIR")]
    pub(crate) workloads: Option<PathBuf>,
    /// Also profile each form, in extra trials that do not count: flame graphs and system calls per operation
    #[arg(long)]
    pub(crate) profile: bool,
    /// Print the report as JSON; progress goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the full report: causes, CPU time, resources, methods
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Wait for a run in progress on this machine to end
    #[arg(long)]
    pub(crate) wait: bool,
    /// Keep the deployment of a failed trial standing until Enter, Ctrl-C or SIGTERM
    #[arg(long)]
    pub(crate) keep_failed: bool,
    /// Print the plan and the expected time without starting anything
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Whether what the services take from their images has been said already
    #[arg(skip)]
    pub(crate) image_said: bool,
}

impl RunArgs {
    /// These options as typed, to repeat a search or an explanation, which is about one form.
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
    /// Here --measure is the length of a window, --settle the time before each
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Search this workload without a study; --form then names layers, such as vm+container
    #[arg(long, value_name = "NAME", conflicts_with = "study")]
    pub(crate) workload: Option<String>,
    /// What to raise, with --workload: connections (closed), arrivals per second (open) or users who think (users)
    #[arg(long, value_enum, requires = "workload")]
    pub(crate) of: Option<PeakOf>,
    /// QoS: answer 99 of 100 operations of each kind within this time, such as 10ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) p99: Option<Duration>,
    /// First level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) start: Option<f64>,
    /// Give up below this level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) at_least: Option<f64>,
    /// Go no higher than this level
    #[arg(long, value_name = "LEVEL")]
    pub(crate) up_to: Option<f64>,
    /// Expected peak
    #[arg(long, value_name = "LEVEL")]
    pub(crate) hint: Option<f64>,
    /// How long to warm up before the windows around the peak, such as 90s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) warm: Option<Duration>,
    /// Number of windows around the peak
    #[arg(long, value_parser = clap::value_parser!(u32).range(24..=1_000))]
    pub(crate) windows: Option<u32>,
    /// Longest time under load for one search
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Duration>,
    /// Rules of the search
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

/// `tare peer` is a service of workloads: its settings are given, never derived from the machine.
#[derive(Debug, Args)]
pub(crate) struct PeerArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: std::net::SocketAddr,
    /// Number of serving threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,
    /// Whether to send answers at once (TCP_NODELAY)
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) nodelay: bool,
    /// Send buffer per connection, such as 256KiB; auto leaves it to the kernel
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = buffer)]
    pub(crate) send_buffer: Buffer,
    /// Receive buffer per connection; auto leaves it to the kernel
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = buffer)]
    pub(crate) receive_buffer: Buffer,
}

/// Size of a socket's buffer, bytes; none leaves it to the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer(pub(crate) Option<u32>);

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Record to resume [default: the latest in ./records]
    pub(crate) record: Option<PathBuf>,
    /// Wait for a run in progress on this machine to end
    #[arg(long)]
    pub(crate) wait: bool,
    /// Keep the deployment of a failed trial standing until Enter, Ctrl-C or SIGTERM
    #[arg(long)]
    pub(crate) keep_failed: bool,
    /// Print the report as JSON; progress goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the full report: causes, CPU time, resources, methods
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanArgs {
    /// Print what would be removed without removing it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also remove what is kept between runs: images of bundles, initial file systems of guests, prepared data; but not
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
    Paper,
    Json,
    Csv,
}

impl Format {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Terminal => "terminal",
            Format::Html => "html",
            Format::Paper => "paper",
            Format::Json => "json",
            Format::Csv => "csv",
        }
    }
}

const REPORT_HELP: &str = "\
`--format paper` makes a folder: paper.md with its drawings in figures/, and paper.html for printing. Several records \
make one paper. The folder must be new or empty; the paths of what was written are printed.";

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub(crate) struct ReportArgs {
    /// Record to render [default: the latest in ./records]; a paper may have several
    #[arg(value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "terminal")]
    pub(crate) format: Format,
    /// Print the full report on a terminal: causes, CPU time, resources, methods
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Write to this file instead of standard output; of a paper, the folder to make [default: ./paper]
    #[arg(long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// Print only the JSON Schema of the JSON format
    #[arg(long)]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Two to eight records: the one to compare with, then those to compare
    #[arg(required = true, num_args = 2..=8, value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const GATE_HELP: &str = "\
A bound is broken when the whole 95 % interval lies beyond it, kept when the whole interval lies within it, and \
inconclusive otherwise; the verdict then says how many blocks would probably decide it. Anything that cannot be judged \
is inconclusive too: a form that is emulated or was measured in fewer than 3 blocks, a metric whose A/A control differs \
or gives no noise floor.

Exit codes: 0 every bound is kept; 1 a bound is broken; 2 a mistake on the command line or in a record, nothing was \
judged; 3 no bound is broken and at least one is inconclusive (see --on-inconclusive).";

#[derive(Debug, Args)]
#[command(after_help = GATE_HELP)]
pub(crate) struct GateArgs {
    /// Record to judge [default: the latest in ./records]
    #[arg(long)]
    pub(crate) record: Option<PathBuf>,
    /// Record to compare with: no form's ratio to its baseline may have become worse
    #[arg(long, value_name = "RECORD")]
    pub(crate) baseline: Option<PathBuf>,
    /// How much worse a form may be than the baseline form of its own record, such as 5%
    #[arg(long, value_name = "PERCENT", value_parser = bound)]
    pub(crate) max_overhead: Option<f64>,
    /// How much worse a form may be than in the other record [default: 3%]
    #[arg(long, value_name = "PERCENT", value_parser = bound, requires = "baseline")]
    pub(crate) max_regression: Option<f64>,
    /// Judge only this form; may be repeated [default: all forms that are neither emulated nor left out]
    #[arg(long = "form", value_name = "NAME")]
    pub(crate) forms: Vec<String>,
    /// Judge this metric, such as p99 or cpu; may be repeated [default: throughput, or peak load after a search]
    #[arg(long = "metric", value_name = "NAME")]
    pub(crate) metrics: Vec<String>,
    /// Count an inconclusive bound as this
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
Exit codes: 0 success; 1 a record in a folder could not be read, the others were added; 2 a mistake on the command \
line, such as a path without a readable record.";

#[derive(Debug, Args)]
#[command(after_help = HISTORY_HELP)]
pub(crate) struct HistoryArgs {
    /// Study to follow: its records, and where a form's ratio to the baseline changed
    pub(crate) study: Option<String>,
    /// Show only this form
    #[arg(long, value_name = "NAME")]
    pub(crate) form: Option<String>,
    /// Follow this metric, such as p99 or cpu [default: throughput, or peak load after a search]
    #[arg(long, value_name = "NAME")]
    pub(crate) metric: Option<String>,
    /// Add this record, or every record in this folder, to the history; may be repeated
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
    /// Record of a load that rises in steps [default: the latest in ./records]
    #[arg(conflicts_with = "at")]
    pub(crate) record: Option<PathBuf>,
    /// Use separate records instead: a number and the record measured with it, such as 2=records/two; repeat for each
    /// number, and for each further record of a number
    #[arg(long, value_name = "N=RECORD")]
    pub(crate) at: Vec<String>,
    /// What the numbers in --at count
    #[arg(long, value_name = "WORD", default_value = "instances")]
    pub(crate) of: String,
    /// Show only this form
    #[arg(long, value_name = "NAME")]
    pub(crate) form: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const SERVE_HELP: &str = "\
Only this machine can reach the pages, and only a browser that has opened the printed link, which holds a new key each \
time. Records are read, and deleted only by you; `.tare-serve.sqlite` in their folder is an index that may be removed, \
`.tare-notes.json` holds your notes. The page Now can end the run in progress, if you may signal it. With --allow-run, \
whoever has the link can start runs as you.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// Folder of the records to show
    #[arg(long, value_name = "DIR", default_value = "records")]
    pub(crate) records: PathBuf,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// Also open the link in a browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Also have a page that makes studies and starts runs of them; a run needs root
    #[arg(long)]
    pub(crate) allow_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the CPU topology only: packages, NUMA nodes, caches, cores, and where devices are attached
    #[arg(long)]
    pub(crate) topology: bool,
    /// Skip the noise test, which takes 5 s
    #[arg(long)]
    pub(crate) no_noise: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Studies or workloads to check, as files or names, or lab files
    #[arg(required_unless_present = "schema")]
    pub(crate) files: Vec<String>,
    /// Print the JSON Schema of such files, for editors, instead of checking
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "files")]
    pub(crate) schema: Option<FileKind>,
    /// Look for workloads here first, then beside the study, in workloads/ there and above, and in ./workloads
    #[arg(long, value_name = "DIR")]
    pub(crate) workloads: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileKind {
    Study,
    Workload,
    Lab,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory to write the pages to
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
    if fits { Ok(Buffer(Some(bytes as u32))) } else { Err(format!("'{text}' is not a buffer size; use 4KiB to 1GiB")) }
}

fn bound(text: &str) -> Result<f64, String> {
    let share = tare_core::units::parse_percent(text)?;
    if share > 0.0 { Ok(share) } else { Err(format!("'{text}' is not a bound; write for example 5%")) }
}
