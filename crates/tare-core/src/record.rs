//! The record of a run: what was measured, complete enough to render it again on another machine.
//! docs/src/record-format.md describes its layout on disk; these are the types of its parts.

use crate::fault::Fault;
use crate::host::{Facts, FilesSeen, ResourceReport, SeenFile};
use crate::load::{LoadSummary, OwnMetric, SecondRow, TurnLength, TurnUse};
use crate::peak::PeakOutcome;
use crate::placement::Placement;
use crate::plan::PlannedTrial;
use crate::profile::Profile;
use crate::study::Study;
use crate::telemetry::{RestHalf, TelemetryRow};
use crate::topology::Topology;
use crate::trial::{Outcome, Stage};
use crate::units::CpuSet;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub use crate::ending::{
    Asker, BUDGET_SPENT, COMPLETE, DECIDED, End, EndRequest, FITTED, INTERRUPTED, ON_REQUEST, PRECISE_ENOUGH,
};

/// The version of the record's format. A reader refuses a newer one.
pub const SCHEMA: u32 = 1;

/// The fact of the environment that says what an operation of the null protocol cost before the run, us of CPU.
pub const NULL_COST: &str = "generator.null_cpu_us_per_op";

/// The fact of the environment that says whether the kernel accounts for interrupts separately from the tasks that they
/// interrupt: "yes" or "no".
pub const INTERRUPTS_APART: &str = "cpu.interrupts_apart";

/// The prefix of a source's name in the environment facts that say why its counters were not read.
pub const NOT_COUNTED: &str = "not_counted.";

/// `record.json`: written once, before the first trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of Tare that made the record.
    pub tare: String,
    /// The run's id.
    pub run: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// The command that repeats it.
    pub command: String,
    /// The study.
    pub study: Study,
    /// The workload, options resolved.
    pub workload: Workload,
    /// The seed that was used.
    pub seed: u64,
    /// The trials, in their order.
    pub plan: Vec<PlannedTrial>,
    /// By form: what it is on this host.
    pub forms: BTreeMap<String, FormState>,
    /// The machine.
    pub environment: Facts,
    /// The machine's CPUs and what they share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// By service: the digest of its bundle.
    pub bundles: BTreeMap<String, String>,
    /// Which CPUs serve what: "generator", "system under test".
    pub placement: BTreeMap<String, String>,
}

/// `suite.json`: written once, before the first part of a study of several parts. Each part is a record of its own, in
/// a folder named after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteHeader {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of Tare that made the record.
    pub tare: String,
    /// The study's name.
    pub study: String,
    /// The question, in words.
    pub question: String,
    /// The preset that was chosen.
    pub preset: Option<String>,
    /// When it started, RFC 3339.
    pub started: String,
    /// The command that repeats it.
    pub command: String,
    /// The names of the parts, in their order.
    pub parts: Vec<String>,
}

/// A record of several parts, read into memory.
#[derive(Debug, Clone, PartialEq)]
pub struct SuiteRecord {
    /// The header.
    pub header: SuiteHeader,
    /// The records of the parts that were begun, in their order.
    pub parts: Vec<Record>,
}

/// What a form is on this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormState {
    /// The layers in words, options included.
    pub describe: String,
    /// Why its figures say nothing about the real thing, if they do not.
    pub emulated: Option<Fault>,
    /// Why it was left out, if it was.
    pub unavailable: Option<Fault>,
    /// Facts of its layers: engine and hypervisor versions, the guest's kernel.
    pub facts: Facts,
    /// Where its services run; none if that is not planned, as in a duet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

/// `trials/NNNN/trial.json`: written when the trial is over, before the next one starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Which trial of the plan.
    pub trial: PlannedTrial,
    /// When it started, RFC 3339.
    pub started: String,
    /// How long each stage took, s.
    pub stages: BTreeMap<Stage, f64>,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took until its load was known to be steady, s, if it settled until then: in the first block. Later
    /// blocks settle for the longest of these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady_after_s: Option<f64>,
    /// By service: the CPUs on which its threads were seen while it was measured, numbered as they are where it runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ran_on: BTreeMap<String, CpuSet>,
    /// What was noticed along the way and does not void it.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Whether it ran under emulation.
    #[serde(default)]
    pub emulated: bool,
    /// What was measured; also present when the trial is invalid, for diagnosis.
    pub load: Option<LoadSummary>,
    /// By service: what it had mapped, read inside the form.
    #[serde(default)]
    pub mapped: BTreeMap<String, Vec<SeenFile>>,
    /// By service: how the files it saw compare with its bundle's. Read in the first measured trial of each form.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FilesSeen>,
    /// By service: what it really got. Read in the first trial of each form.
    #[serde(default)]
    pub resources: BTreeMap<String, ResourceReport>,
    /// What the hosts said about themselves.
    #[serde(default)]
    pub facts: Facts,
    /// How a request reached the service.
    #[serde(default)]
    pub path: String,
    /// By service: the end of its output, kept when the trial is not measured.
    #[serde(default)]
    pub logs: BTreeMap<String, String>,
    /// The result of a search for the peak, with every window of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<PeakOutcome>,
    /// The value of each metric in this trial; only in a measured one. Names and units: [`TRIAL_METRICS`].
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// By metric whose quantile falls among failed operations: its lower bound, in its unit. Waiting for an answer that
    /// never comes takes longer than any wait that was answered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at_least: BTreeMap<String, f64>,
    /// The service that ended by itself, before it was ready or under load, if one did: the failure of the trial is
    /// then an outcome of the form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ended: Option<String>,
    /// By service that does its work and ends ([`Readiness::Ended`](crate::workload::Readiness::Ended)): how long it
    /// took to end, s. Nothing of it was left after that.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub finished: BTreeMap<String, f64>,
    /// By loaded instance, if there were several: the value of each metric at that instance alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub instances: BTreeMap<String, BTreeMap<String, f64>>,
    /// The slices of load it was measured in, if load alternated between deployments; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// A short load that had the machine to itself, after one that took turns with others: what the whole machine
    /// counted during it is due to this form. It counts for no metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<LoadSummary>,
    /// By length of turns, the shortest first: how fast its load was in them before it was measured, in the first block
    /// of a chopped load whose slice nobody chose. `tare-stats` derives the length of slices from this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<TurnLength>,
    /// How much CPU time its services used while others were loaded alone, as a share of one CPU: background work that
    /// falls into the others' turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resting_cpu: Option<f64>,
    /// By the arm whose turn it was, its own included: the CPU time that its services used then. Empty if load took no
    /// turns, or it was not counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_by_turn: BTreeMap<String, TurnUse>,
    /// In which half of each compared stretch of time its samplers rested, if they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_half: Option<RestHalf>,
    /// What profilers saw, in a trial that is profiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
}

/// A slice of load: one visit to a deployment between two switches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The round, from 0; each round visits every deployment of the block once.
    pub round: u32,
    /// The position among the block's slices, from 0: the order in which deployments were visited.
    pub place: u32,
    /// When counting began: CLOCK_MONOTONIC of this machine, ns.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The value of each metric in this slice alone.
    pub metrics: BTreeMap<String, f64>,
}

impl TrialRecord {
    /// The load that had the machine to itself, so that what the machine counted during it is due to it; none if the
    /// trial only took turns with others.
    pub fn load_alone(&self) -> Option<&LoadSummary> {
        self.alone.as_ref().or(self.load.as_ref().filter(|load| load.turns.is_none()))
    }

    /// The record of a trial that has just started: nothing is known about it yet.
    pub fn new(trial: PlannedTrial, started: String, outcome: Outcome) -> TrialRecord {
        TrialRecord {
            trial,
            started,
            stages: BTreeMap::new(),
            outcome,
            steady_after_s: None,
            ran_on: BTreeMap::new(),
            warnings: Vec::new(),
            emulated: false,
            load: None,
            mapped: BTreeMap::new(),
            files: BTreeMap::new(),
            resources: BTreeMap::new(),
            facts: BTreeMap::new(),
            path: String::new(),
            logs: BTreeMap::new(),
            peak: None,
            metrics: BTreeMap::new(),
            at_least: BTreeMap::new(),
            service_ended: None,
            finished: BTreeMap::new(),
            instances: BTreeMap::new(),
            slices: Vec::new(),
            alone: None,
            lengths: Vec::new(),
            resting_cpu: None,
            cpu_by_turn: BTreeMap::new(),
            rest_half: None,
            profile: None,
        }
    }
}

impl OwnMetric {
    /// As one of a trial's.
    pub fn metric(&self) -> TrialMetric<'_> {
        let OwnMetric { name, title, unit, more_is_better } = self;
        TrialMetric { name, title, unit, more_is_better: *more_is_better, compared: true }
    }
}

impl Header {
    /// The metrics of this record's trials: those of its own load, then [`TRIAL_METRICS`]. If a load has its own,
    /// ratios are made only of these and of CPU time: how often a tool ran adds nothing to them.
    pub fn metrics(&self) -> Vec<TrialMetric<'_>> {
        let own = &self.workload.protocol.metrics;
        let usual = TRIAL_METRICS.iter().map(|metric| TrialMetric {
            compared: metric.compared
                && (own.is_empty() || [BUSY_PER_OP, CPU_PER_OP, PEAK_LOAD].contains(&metric.name)),
            ..*metric
        });
        own.iter().map(OwnMetric::metric).chain(usual).collect()
    }

    /// The metric that decides how precise a run is: what a search looks for, otherwise the load's first own metric,
    /// otherwise the throughput.
    pub fn deciding_metric(&self) -> &str {
        if self.study.peak.is_some() {
            return PEAK_LOAD;
        }
        self.workload.protocol.metrics.first().map_or(THROUGHPUT, |metric| &metric.name)
    }

    /// The metrics that a study with `until` waits for, the deciding one first: if that is the throughput, p50 and CPU
    /// time per operation as well.
    pub fn awaited_metrics(&self) -> Vec<&str> {
        let deciding = self.deciding_metric();
        let besides: &[&str] = if deciding == THROUGHPUT { &["p50_us", BUSY_PER_OP] } else { &[] };
        [&[deciding], besides].concat()
    }
}

/// A figure of a trial.
#[derive(Debug, Clone, Copy)]
pub struct TrialMetric<'a> {
    /// Its name.
    pub name: &'a str,
    /// For readers.
    pub title: &'a str,
    /// The unit.
    pub unit: &'a str,
    /// Whether more is better.
    pub more_is_better: bool,
    /// Whether ratios and verdicts are made of it; otherwise it is only shown.
    pub compared: bool,
}

/// The name of the operations per second, which most studies are about.
const THROUGHPUT: &str = "throughput";

/// The name of the only figure of a trial that searched for the peak.
pub const PEAK_LOAD: &str = "peak_load";

/// The name of the throughput of the slowest instance relative to the mean of all, if several were loaded.
pub const FAIRNESS: &str = "fairness";

/// The name of the share of operations not answered correctly, dropped ones included.
pub const FAILED_SHARE: &str = "failed_share";

/// The name of the CPU time that serving took, per operation, as the kernel charged it to whatever was running.
pub const CPU_PER_OP: &str = "cpu_us_per_op";

/// The name of the CPU time that the whole machine used, per operation, the generator included, whatever was charged
/// for it.
pub const BUSY_PER_OP: &str = "cpu_busy_us_per_op";

/// The figures of a trial. Times are response times, from the planned start, as a user experiences them; service times,
/// from the actual send, are given as well if starts are planned. In quantiles, failed operations rank last; mean and
/// largest are those of the answered ones.
pub const TRIAL_METRICS: &[TrialMetric<'static>] = &[
    metric(THROUGHPUT, "throughput", "op/s", true, true),
    metric("p50_us", "p50", "us", false, true),
    metric("p99_us", "p99", "us", false, true),
    metric(BUSY_PER_OP, "CPU per op", "us", false, true),
    metric(CPU_PER_OP, "CPU per op, attributed", "us", false, true),
    metric("p90_us", "p90", "us", false, false),
    metric("p999_us", "p99.9", "us", false, false),
    metric("mean_us", "mean", "us", false, false),
    metric("max_us", "max", "us", false, false),
    metric("service_p50_us", "p50 of service times", "us", false, false),
    metric("service_p99_us", "p99 of service times", "us", false, false),
    metric("generator_cpu_us_per_op", "generator's CPU per op", "us", false, false),
    metric(FAILED_SHARE, "failed operations", "share", false, false),
    metric(FAIRNESS, "fairness", "least by mean", true, false),
    metric(PEAK_LOAD, "peak load", "load", true, true),
];

impl TrialMetric<'static> {
    /// The metric that a user means: by its name, by its name without the unit (`p99`), by its title, or by a word for
    /// the usual one of its kind (`cpu`, `peak`).
    pub fn called(name: &str) -> Option<&'static TrialMetric<'static>> {
        const WORDS: [(&str, &str); 2] = [("cpu", BUSY_PER_OP), ("peak", PEAK_LOAD)];
        let wanted = WORDS.iter().find(|(word, _)| *word == name).map_or(name, |(_, metric)| *metric);
        let is = |metric: &&TrialMetric<'_>| {
            metric.name == wanted
                || metric.name.strip_suffix("_us") == Some(wanted)
                || metric.title.eq_ignore_ascii_case(wanted)
        };
        TRIAL_METRICS.iter().find(is)
    }

    /// The metrics that ratios are made of, for a message: `throughput, p50_us, ...`.
    pub fn compared_names() -> String {
        let compared = TRIAL_METRICS.iter().filter(|metric| metric.compared).map(|metric| metric.name);
        compared.collect::<Vec<_>>().join(", ")
    }
}

const fn metric(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    more_is_better: bool,
    compared: bool,
) -> TrialMetric<'static> {
    TrialMetric { name, title, unit, more_is_better, compared }
}

/// A trial with its series.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialData {
    /// The trial.
    pub record: TrialRecord,
    /// `seconds.jsonl`: the load, second by second.
    pub seconds: Vec<SecondRow>,
    /// `telemetry.jsonl`: the machine and the services, second by second.
    pub telemetry: Vec<TelemetryRow>,
}

/// A whole record, read into memory: the report's only input.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The header.
    pub header: Header,
    /// The recorded trials, by index.
    pub trials: Vec<TrialData>,
    /// The recorded profiled trials, by index. They are separate because they never count.
    pub profiles: Vec<TrialData>,
    /// How the run ended: "complete", "fitted", "precise enough", "decided", "on request", "interrupted", "budget
    /// spent"; none while it runs or after a crash.
    pub end: Option<End>,
}

impl Record {
    /// The numbers of trials that were run but whose outcome the record no longer holds. A complete run had an outcome
    /// for every trial of its plan. In any other run, a block was begun only when those before it were whole, and
    /// blocks were run again only after all of the plan's blocks.
    pub fn lost(&self) -> Vec<u32> {
        let plan = &self.header.plan;
        let there: BTreeSet<u32> = self.trials.iter().map(|trial| trial.record.trial.index).collect();
        let planned = self.trials.iter().map(|trial| &trial.record.trial).filter(|trial| trial.again.is_none());
        let last_block = planned.map(|trial| trial.block).max();
        let was_run = |trial: &&PlannedTrial| match self.end.as_ref().map(|end| end.how.as_str()) {
            Some(COMPLETE) => true,
            Some(FITTED | PRECISE_ENOUGH | DECIDED | ON_REQUEST) => last_block.is_some_and(|last| trial.block <= last),
            _ => last_block.is_some_and(|last| trial.block < last),
        };
        let again = plan.len() as u32..there.last().copied().unwrap_or(0);
        let run = plan.iter().filter(was_run).map(|trial| trial.index).chain(again);
        run.filter(|index| !there.contains(index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_short_names() {
        let called = |name| TrialMetric::called(name).map(|metric| metric.name);
        for metric in TRIAL_METRICS {
            assert_eq!((called(metric.name), called(metric.title)), (Some(metric.name), Some(metric.name)));
        }
        for (word, name) in [
            ("p50", "p50_us"),
            ("p99", "p99_us"),
            ("p999", "p999_us"),
            ("p99.9", "p999_us"),
            ("cpu", "cpu_busy_us_per_op"),
            ("peak", PEAK_LOAD),
            ("mean", "mean_us"),
        ] {
            assert_eq!(called(word), Some(name), "{word}");
        }
        assert_eq!((called("p95"), called("speed"), called("")), (None, None, None));
    }
}
