//! What passes between the runner and the process that makes the load: a plan on its standard input, one JSON line
//! each on its standard output. Anything that reads the one and writes the other can drive load.

use crate::fault::Fault;
use crate::units::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// How operations are started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadProfile {
    /// Each of `connections` keeps `pipeline` operations in flight: the next starts when one is answered.
    Closed {
        /// How many connections.
        connections: u32,
        /// Operations in flight on each.
        pipeline: u32,
    },
}

/// What the process shall do with the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadTask {
    /// One operation, to see whether the service answers. A single try; the runner repeats it.
    Ready,
    /// Write the data set that the operations expect, and check that it is there.
    Populate,
    /// Drive the profile: settle, measure, drain, verify.
    Run,
}

/// A plan: one JSON document on the load process's standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// What to do.
    pub task: LoadTask,
    /// The protocol's name.
    pub protocol: String,
    /// The protocol's options, as checked when the workload was read.
    pub options: serde_json::Value,
    /// Where the service is reached.
    pub endpoint: SocketAddr,
    /// How operations are started.
    pub profile: LoadProfile,
    /// How long load runs before measuring starts.
    pub settle: Duration,
    /// How long is measured.
    pub measure: Duration,
    /// How long one operation may take before it counts as timed out.
    pub timeout: Duration,
    /// Seed of every random choice.
    pub seed: u64,
    /// CPUs for the workers, one each; empty leaves it to the kernel.
    pub cpus: CpuSet,
}

/// A line on the load process's standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadLine {
    /// Another second is over.
    Second(SecondRow),
    /// The task is done; the last line.
    Done(Box<LoadSummary>),
    /// The task failed; the last line.
    Failed(Fault),
}

/// One second of load, for progress and timelines. Percentiles are of service time within that second.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SecondRow {
    /// When the second ended: CLOCK_MONOTONIC of this machine, ns.
    pub at_ns: u64,
    /// Whether it belongs to what is measured, not to settling.
    pub measured: bool,
    /// How long it was, s; the last one may be short.
    pub seconds: f64,
    /// Operations answered correctly.
    pub operations: u64,
    /// Operations answered wrongly, with an error, or not at all.
    pub errors: u64,
    /// Median, us.
    pub p50_us: f64,
    /// 99th percentile, us.
    pub p99_us: f64,
    /// Largest, us.
    pub max_us: f64,
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
    /// Operations planned but never started, by reason.
    pub dropped: u64,
    /// CPU time of the load process while measuring, s: user and system.
    pub generator_cpu_s: f64,
    /// CPUs the load process had.
    pub generator_cpus: u32,
    /// Why the generator, not the service, may have been measured; this voids the trial.
    pub saturated: Option<String>,
    /// Checks of the answers and of the server's own counts.
    pub checks: Vec<Check>,
    /// Named outcomes other than a correct answer: "error reply", "timed out", "connection reset" ... and how many.
    pub failures: BTreeMap<String, u64>,
    /// Facts about what answered, for the record: server version and the like.
    pub facts: BTreeMap<String, String>,
}

/// What was measured of one operation. Histograms are HdrHistogram V2 with deflate, base64, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OperationSummary {
    /// Answered correctly within the time measured.
    pub count: u64,
    /// Answered wrongly, with an error, or not at all.
    pub errors: u64,
    /// From the actual send to the answer.
    pub service_time: String,
    /// From the planned start to the answer. In a closed loop the two are the same by definition.
    pub response_time: String,
}

/// A check that the work was really done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// Both sides of it, for the reader.
    pub detail: String,
}
