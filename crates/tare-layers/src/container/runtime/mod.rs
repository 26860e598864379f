//! A container without an engine: its root put together here, everything else by an OCI runtime, runc or crun, which is
//! what engines start containers with. So the features that an engine only gives together can be had one by one.
//!
//! A service's `config.json`, its layer and its log are in the trial's directory, as is what the runtime notes down;
//! its cgroups are `tare-<run>/<instance>`, as those of plain processes are. After a crash all of it is found by
//! [`crate::leftovers`], which knows these names already; mounts are in a namespace that goes with the last process.

mod config;
mod host;
mod launch;
mod program;

pub(super) use host::open;
#[cfg(any(test, fuzzing))]
pub(crate) use program::chew;

use super::options::ContainerOptions;
use program::Program;
use std::path::Path;
use tare_core::host::Availability;

/// Whether this machine has the runtime that the options ask for, and that starts containers here.
pub(super) fn probe(options: &ContainerOptions) -> Availability {
    let program = match Program::find(options.runtime) {
        Ok(program) => program,
        Err(fault) => return Availability::Unavailable(fault),
    };
    match program.refuses_below(Path::new("/sys/fs/cgroup")) {
        Some(why) => Availability::Unavailable(why),
        None => Availability::Ready(program.facts()),
    }
}
