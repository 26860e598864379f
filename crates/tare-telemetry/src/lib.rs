//! What is read while a trial is measured, and what the machine is: sources of counters, the sampler that reads them
//! as a process of its own, the resource probe, the environment and the checks of `tare doctor`.
//!
//! **Architecture invariant:** a source knows no deployment form and no layer; it is handed process ids and cgroup
//! directories. What cannot be read is absent, never zero.

pub mod cgroup;
pub mod machine;
pub mod null;
mod prober;
pub mod proc;
mod root;
mod sampler;
mod scan;
mod serve;
mod source;

pub use prober::process_prober;
pub use root::Root;
pub use sampler::Sampler;
pub use serve::{ProbePlan, serve};
pub use source::{Of, Reading, SourceReader, SourceRow, SourceState};

/// The sources. Where two deliver the same metric of the same scope, the earlier one keeps it.
pub const SOURCES: &[SourceRow] = &[cgroup::ROW, proc::ROW, machine::ROW, null::ROW];
