//! Booted guests, and operations on all of them.

use super::block;
use super::process::Shared;
use super::qmp::Qmp;
use super::size::Size;
use crate::agent::{AgentHost, GuestPlan};
use std::panic::resume_unwind;
use std::path::PathBuf;
use tare_core::fault::Fault;
use tare_core::host::Facts;

/// A booted guest and everything that belongs to it on this machine.
pub(super) struct Guest {
    /// The instances that run in it.
    pub(super) holds: Vec<String>,
    pub(super) agent: AgentHost,
    pub(super) process: Shared,
    pub(super) qmp: Qmp,
    pub(super) size: Size,
    pub(super) plan: GuestPlan,
    pub(super) facts: Facts,
    /// Files and directories to remove when it is closed.
    pub(super) files: Vec<PathBuf>,
    /// The device that backs its writable disk, to be emptied when it is closed.
    pub(super) claim: Option<block::Claim>,
}

/// Removes what was made for a guest; its directory comes last, when it is empty.
pub(super) fn remove(files: &[PathBuf]) {
    for file in files {
        let _ = if file.is_dir() { std::fs::remove_dir(file) } else { std::fs::remove_file(file) };
    }
}

/// Does the same to every guest at once. Of several faults the first one is returned and, if there are several guests,
/// which one had it.
pub(super) fn on_each<T: Send>(
    guests: &mut [Guest],
    what: impl Fn(&mut Guest) -> Result<T, Fault> + Sync,
) -> Result<Vec<T>, Fault> {
    let several = guests.len() > 1;
    std::thread::scope(|scope| {
        let threads: Vec<_> = guests.iter_mut().map(|guest| scope.spawn(|| what(guest))).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        // All of them, before one guest's fault ends this.
        let results: Vec<Result<T, Fault>> = results.collect();
        let named = |(at, result): (usize, Result<T, Fault>)| {
            result.map_err(|fault| if several { fault.context(format!("guest {}", at + 1)) } else { fault })
        };
        results.into_iter().enumerate().map(named).collect()
    })
}
