//! A container without an engine: Tare assembles its root, and an OCI runtime (runc, crun or youki, which engines use
//! too) does everything else. So features that an engine only gives together can be had one by one. System containers
//! of systemd-nspawn or LXC are started in the same way, see [`system`].
//!
//! A service's `config.json`, its layer and its log are in the trial's directory, as is the runtime's own state; its
//! cgroups are `tare-<run>/<instance>`, like those of plain processes. After a crash [`crate::leftovers`] finds all of
//! it, since it already knows these names; mounts are in a namespace that goes with the last process.

mod config;
mod host;
mod launch;
mod program;
mod system;

pub(super) use host::open;
#[cfg(any(test, fuzzing))]
pub(crate) use program::chew;
pub(super) use program::refuses_below;

use super::options::{ALONE, By, ContainerOptions, EngineKind};
use super::programs;
use program::Program;
use std::path::Path;
use tare_core::host::Availability;

/// The runtimes of this machine that can be called without an engine.
pub(super) fn installed() -> Vec<&'static str> {
    ALONE.into_iter().filter(|name| *name != "auto" && programs::find(name).is_some()).collect()
}

/// The ways to have system containers on this machine, each as it is asked for.
pub(super) fn systems() -> Vec<String> {
    let way = |(by, word): (By, &str)| {
        let facts = Program::of(&ContainerOptions::usual(by, EngineKind::Auto)).ok()?.facts();
        Some(format!("by: {word} ({})", super::words(&facts)))
    };
    [(By::Nspawn, "nspawn"), (By::Lxc, "lxc")].into_iter().filter_map(way).collect()
}

/// Whether this machine has the runtime that the options ask for, and whether it starts containers here.
pub(super) fn probe(options: &ContainerOptions) -> Availability {
    let program = match Program::of(options) {
        Ok(program) => program,
        Err(fault) => return Availability::Unavailable(fault),
    };
    match program.refuses_below(Path::new("/sys/fs/cgroup")) {
        Some(why) => Availability::Unavailable(why),
        None => Availability::Ready(program.facts()),
    }
}
