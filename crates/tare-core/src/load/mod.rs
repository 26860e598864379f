//! What passes between the runner and the process that makes the load: a plan on its standard input, JSON lines on its
//! standard output. Anything that reads the former and writes the latter can drive load.

mod behaviour;
mod distribution;
mod pauses;
mod profile;
pub(crate) mod read;
mod turns;

pub use behaviour::SpokenNames;
pub(crate) use behaviour::read_behaviours;
pub use distribution::Distribution;
pub use profile::{
    Arrivals, Behaviour, Branch, Companion, Condition, Ending, Followers, LoadProfile, Pause, UserConnections, WarmUp,
};
pub use turns::{TurnLength, TurnSpan, TurnUse, Turns, TurnsSummary};

use crate::command::{CommandEnd, CommandStart};
use crate::counted::{count, counts};
use crate::fault::Fault;
use crate::units::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Where the load comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadOrigin {
    /// From a network namespace of its own, as from another machine.
    Outside,
    /// From the host's loopback.
    Host,
    /// From inside the form, on the service's CPUs: the workload's tool runs there.
    Inside,
}

/// What the process is to do with the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadTask {
    /// One operation, to see whether the service answers. It is tried once; the runner repeats it.
    Ready,
    /// Write the data set that the operations expect, and check that it is there.
    Populate,
    /// Drive the profile: settle, measure, drain, verify.
    Run,
}

/// A plan: one JSON document on the load process's standard input. With a guided profile, and as answers to
/// [`LoadLine::Inside`], [`LoadOrder`]s follow it, one a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// What to do.
    pub task: LoadTask,
    /// The protocol's name.
    pub protocol: String,
    /// The protocol's options, as checked when the workload was read.
    pub options: serde_json::Value,
    /// Where the service is reached; [`LoadPlan::NOWHERE`] for a tool inside the form that needs no port.
    pub endpoint: SocketAddr,
    /// Further endpoints for connections, used in turn with `endpoint`: instances that form one site with it. Empty
    /// unless the workload says `spread: true`: otherwise each loaded instance has a plan of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<SocketAddr>,
    /// Where every instance of the load's deployment is reached: by service if that has one port, and by
    /// `service.port`. For what the service under load only passes on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, Vec<SocketAddr>>,
    /// How operations are started.
    pub profile: LoadProfile,
    /// How long load runs before measuring starts.
    pub settle: Duration,
    /// How long the measurement takes.
    pub measure: Duration,
    /// How long one operation may take before it counts as timed out.
    pub timeout: Duration,
    /// Seed of every random choice.
    pub seed: u64,
    /// CPUs for the workers, one each; empty leaves them to the kernel.
    pub cpus: CpuSet,
    /// By operation: response times above this are counted as over the limit; `*` stands for all that are not named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Duration>,
    /// Where to write the response times as an HdrHistogram log, if at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hdr_log: Option<PathBuf>,
    /// Addresses that load may be driven at, in addition to this machine's and private ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<IpAddr>,
    /// What a command run inside the form finds there; none if there is no form to run one in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
    /// The loads that this one takes turns with; with none, it has all the time for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Box<Turns>>,
    /// For a ruler, in a closed loop: how many correct answers are left uncounted for each that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

impl LoadPlan {
    /// The endpoint of a load that does not go to a port.
    pub const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

    /// A run of one second without settling, on any CPUs that the kernel gives, with ten seconds for each operation and
    /// seed 1. `options` are the protocol's, as in [`LoadPlan::options`].
    pub fn of(protocol: &str, options: serde_json::Value, endpoint: SocketAddr, profile: LoadProfile) -> LoadPlan {
        LoadPlan {
            task: LoadTask::Run,
            protocol: protocol.to_owned(),
            options,
            endpoint,
            also: Vec::new(),
            services: BTreeMap::new(),
            profile,
            settle: Duration::ZERO,
            measure: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            seed: 1,
            cpus: CpuSet::default(),
            limits: BTreeMap::new(),
            hdr_log: None,
            allowed: Vec::new(),
            inside: None,
            turns: None,
            weight: None,
        }
    }
}

/// What a command finds inside the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inside {
    /// The CPUs of the service, which the command shares.
    pub cpus: u32,
}

/// What a load process is told while it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadOrder {
    /// Go to a level, wait, count. Holds follow each other without a gap; the load stays at the last one's level.
    Hold(Hold),
    /// The result of the command that [`LoadLine::Inside`] asked for, or why it was not run.
    Ran(Box<Result<CommandEnd, Fault>>),
    /// Finish.
    End,
}

/// One level to be held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Its number, which identifies its row.
    pub number: u64,
    /// The level: operations a second, users, or connections.
    pub level: f64,
    /// How long the level holds before it counts, s.
    pub settle_s: f64,
    /// How long it counts, s.
    pub window_s: f64,
}

/// A line on the load process's standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadLine {
    /// Another second has passed.
    Second(SecondRow),
    /// A level was held, and every operation planned in its window has been answered or will not be.
    Window(WindowRow),
    /// Run this inside the form, beside the loaded service, and return the result: the load process itself is outside.
    Inside(Box<CommandStart>),
    /// The task is done; the last line.
    Done(Box<LoadSummary>),
    /// The task failed; the last line.
    Failed(Fault),
}

/// One second of load, for progress and timelines. Percentiles are of the response times of that second's answers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SecondRow {
    /// When the second ended: CLOCK_MONOTONIC of this machine, ns.
    pub at_ns: u64,
    /// Whether it belongs to what is measured, not to settling.
    pub measured: bool,
    /// Its length, s; the last one may be shorter.
    pub seconds: f64,
    /// Operations answered correctly.
    #[serde(deserialize_with = "count")]
    pub operations: u64,
    /// Operations answered wrongly, with an error, or not at all.
    #[serde(deserialize_with = "count")]
    pub errors: u64,
    /// Median, us.
    pub p50_us: f64,
    /// 99th percentile, us.
    pub p99_us: f64,
    /// Largest, us.
    pub max_us: f64,
    /// Operations whose planned start was in this second; in a closed loop, those that were started.
    #[serde(deserialize_with = "count", default)]
    pub offered: u64,
    /// Operations that were sent.
    #[serde(deserialize_with = "count", default)]
    pub started: u64,
    /// Operations that were planned but dropped before they were sent, because too many were in flight.
    #[serde(deserialize_with = "count", default)]
    pub dropped: u64,
}

/// The result of one level: of the operations whose planned start was in its window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WindowRow {
    /// The hold's number, or the step's, from 0.
    pub number: u64,
    /// The level.
    pub level: f64,
    /// When the window began, CLOCK_MONOTONIC, ns.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// Planned starts.
    #[serde(deserialize_with = "count")]
    pub offered: u64,
    /// Those that were sent.
    #[serde(deserialize_with = "count")]
    pub started: u64,
    /// Those that were dropped before they were sent, because too many were in flight.
    #[serde(deserialize_with = "count")]
    pub dropped: u64,
    /// By operation.
    pub operations: BTreeMap<String, WindowCounts>,
    /// The response times of all operations that do not linger, together; none if no such operation was answered, if
    /// several instances were loaded, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<WindowTimes>,
    /// Why the generator, not the service, may have been measured in this window.
    pub saturated: Option<String>,
}

/// Response times of one window, from the planned start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct WindowTimes {
    /// The number of correct answers.
    #[serde(deserialize_with = "count")]
    pub count: u64,
    /// Their mean, us.
    pub mean_us: f64,
    /// Median, us. Failed operations rank last; a quantile that falls among them is the largest of the others.
    pub p50_us: f64,
    /// 99th percentile, us, by the same rule.
    pub p99_us: f64,
}

/// The result of one operation within a window. Of the `planned`, those neither answered, failed nor dropped were
/// `unanswered` when the longest limit had passed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WindowCounts {
    /// Planned starts.
    #[serde(deserialize_with = "count")]
    pub planned: u64,
    /// Answered correctly.
    #[serde(deserialize_with = "count")]
    pub answered: u64,
    /// Answered correctly, but later than the operation's limit.
    #[serde(deserialize_with = "count")]
    pub over_limit: u64,
    /// Answered wrongly, with an error, or lost; dropped ones too.
    #[serde(deserialize_with = "count")]
    pub failed: u64,
    /// Not answered yet when the longest limit had passed.
    #[serde(deserialize_with = "count")]
    pub unanswered: u64,
    /// Median response time of those answered, us.
    pub p50_us: f64,
    /// 99th percentile, us.
    pub p99_us: f64,
}

/// How well the generator itself did while it measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GeneratorHealth {
    /// Share of its CPU that each worker used.
    pub busy: Vec<f64>,
    /// Share of the time in which each worker was not idle: it had something to do, with or without a CPU to do it on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awake: Vec<f64>,
    /// How late operations started through the generator's own fault, not counting the wait for a connection: median,
    /// us. Nothing is planned in a closed loop, so nothing is late there.
    pub late_p50_us: f64,
    /// 99th percentile, us.
    pub late_p99_us: f64,
    /// The latest, us.
    pub late_max_us: f64,
    /// Starts that were more than a millisecond late.
    #[serde(deserialize_with = "count")]
    pub late: u64,
    /// How long a round of the event loop took, from one wait to the next: 99th percentile, us.
    pub lag_p99_us: f64,
    /// The longest round, us.
    pub lag_max_us: f64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadSummary {
    /// When measuring began: CLOCK_MONOTONIC of this machine, ns.
    pub measure_start_ns: u64,
    /// When it ended.
    pub measure_end_ns: u64,
    /// By operation.
    pub operations: BTreeMap<String, OperationSummary>,
    /// Operations planned but never started, because too many were in flight.
    #[serde(deserialize_with = "count")]
    pub dropped: u64,
    /// Operations whose planned start was within the time measured; in a closed loop, those that were started.
    #[serde(deserialize_with = "count", default)]
    pub offered: u64,
    /// Operations that were sent within it.
    #[serde(deserialize_with = "count", default)]
    pub started: u64,
    /// CPU time of the load process while measuring, s: user and system.
    pub generator_cpu_s: f64,
    /// CPUs the load process had.
    pub generator_cpus: u32,
    /// How often, while measuring, received data were acknowledged only when the delayed-acknowledgement timer ran out,
    /// as counted by the kernel in the load's network namespace; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_acks: Option<u64>,
    /// Why the generator, not the service, may have been measured; this voids the trial.
    pub saturated: Option<String>,
    /// Checks of the answers and of the server's own counts.
    pub checks: Vec<Check>,
    /// Outcomes other than a correct answer, by name: "error reply", "status 404", "timed out" ... and how many of
    /// each.
    #[serde(deserialize_with = "counts")]
    pub failures: BTreeMap<String, u64>,
    /// Facts about the server that answered, for the record: its version and the like.
    pub facts: BTreeMap<String, String>,
    /// The generator's own health.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<GeneratorHealth>,
    /// The result of each level, if the profile has levels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowRow>,
    /// Figures that an external tool reported, by the name of a trial's metric; used if there is no histogram.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reported: BTreeMap<String, f64>,
    /// The values of the load's own metrics, by name; see [`OwnMetric`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// What a tool that ran inside the form used; none when the load came from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<InsideUse>,
    /// The result of its turns; none if it had all the time for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnsSummary>,
    /// By length of its turns, the shortest first, if several lengths were compared: how fast it was in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<TurnLength>,
    /// For turns of one length: replies a second in up to eight consecutive parts of them, each of about the same
    /// number of rounds. The same part of loads that took turns covers the same time. The cost of moves is included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<f64>,
    /// How fast it was over time, in turns of one length: consecutive spans of the turns that count, as far as there is
    /// room for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<TurnSpan>,
    /// The CPU time that everything serving this load used during each load's turns: first those of the plan's own
    /// load, then those of the loads beside it. Empty if it was not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_by_turn: Vec<TurnUse>,
    /// For a plan with turns: the result of each of its loads, its own first. All other fields are then empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_load: Vec<Result<LoadSummary, Fault>>,
}

/// A metric that a workload's load has in addition to those of every trial, such as one that a tool reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnMetric {
    /// Its name: none of [`TRIAL_METRICS`](crate::record::TRIAL_METRICS).
    pub name: String,
    /// For readers.
    pub title: String,
    /// The unit.
    pub unit: String,
    /// Whether more is better.
    pub more_is_better: bool,
}

/// What a tool inside the form used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InsideUse {
    /// Its CPU time that is in no serving scope of the telemetry, s; see [`CommandEnd::cpu_s`].
    pub cpu_s: Option<f64>,
}

/// What was measured of one operation. Histograms are HdrHistogram V2 with deflate, base64, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OperationSummary {
    /// Answered correctly within the time measured.
    #[serde(deserialize_with = "count")]
    pub count: u64,
    /// Answered wrongly, with an error, or not at all.
    #[serde(deserialize_with = "count")]
    pub errors: u64,
    /// Of those answered correctly: how many answers said that what was looked for does not exist.
    #[serde(deserialize_with = "count", default)]
    pub empty: u64,
    /// From the actual send to the answer.
    pub service_time: String,
    /// From the planned start to the answer. In a closed loop the two are the same by definition; otherwise both
    /// include the operations planned within the time measured, even those answered after its end.
    pub response_time: String,
    /// Whether an answer comes when there is news and not when it is requested, as with a long poll: its times then say
    /// nothing about the service, and an operation not answered yet is no failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lingers: bool,
    /// Refusals that came after the requester had ended, such as those of a long poll whose user has since logged out;
    /// for operations that linger, also closed connections and time limits. They are not failures, and are in no other
    /// count.
    #[serde(deserialize_with = "count", default, skip_serializing_if = "is_zero")]
    pub after_end: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The name of the one failure that is the generator's own: all its machine's ports for connections are in use.
pub const NO_LOCAL_PORT: &str = "no free local port";

/// A check that the work was really done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// The two values that were compared, for the reader.
    pub detail: String,
    /// Whether its failure also voids a search for the peak. A search overloads the service on purpose, so counts may
    /// be off; what must hold even then, such as that no data are lost, is checked with `always`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Whether its failure is an outcome of the service: it then voids nothing and becomes a warning. Any other failed
    /// check means that the figures are not what they seem, and voids the trial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outcome: bool,
}
