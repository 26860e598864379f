//! Sources of counters, the sampler that reads them in a process of its own, the resource probe, the description of the
//! machine and the checks of `tare doctor`.
//!
//! **Architecture invariant:** a source knows no deployment form and no layer; it is given process ids and cgroup
//! directories. What cannot be read is absent, never zero.

mod accounting;
mod away;
pub mod cgroup;
pub mod conntrack;
pub mod disks;
mod doctor;
mod environment;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod kvm;
pub mod machine;
mod noise;
pub mod null;
mod pace;
pub mod pages;
mod parts;
pub mod perf;
mod perf_event;
mod prober;
pub mod proc;
mod profile;
mod resources;
mod root;
mod sampler;
mod scan;
mod serve;
pub mod sockets;
pub mod softirqs;
mod source;
mod topology;
pub mod waits;

pub use doctor::{DoctorCheck, PROFILE, TELEMETRY, Verdict, checks, checks_at, disk_check, profiler_checks};
pub use environment::{environment, environment_at};
pub use noise::{NoiseReport, Spread, noise};
pub use prober::{guest_prober, process_prober};
pub use resources::{resource_report, resource_report_at};
pub use root::Root;
pub use sampler::Sampler;
pub use serve::{ProbePlan, serve};
pub use source::{Of, Reading, SourceReader, SourceRow, SourceState};
pub use topology::{topology, topology_at};

/// The sources. If two provide the same metric of a scope, the earlier one is used.
pub const SOURCES: &[SourceRow] = &[
    cgroup::ROW,
    proc::ROW,
    machine::ROW,
    disks::ROW,
    softirqs::ROW,
    conntrack::ROW,
    kvm::ROW,
    pages::ROW,
    perf::ROW,
    waits::ROW,
    sockets::ROW,
    null::ROW,
];
