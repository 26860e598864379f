//! Who owns a run: the process that created it, while it lives.

use crate::marks::{RUN_ROOT, boot, is_run, run_directory};
use crate::processes;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that names the run's owner: a process, when it was started, and in which boot.
pub(crate) const OWNER_NOTE: &str = "owner";

/// A run's owner, as its note has it. Earlier versions wrote no boot.
pub(crate) struct Owner {
    pid: u32,
    started: u64,
    boot: Option<String>,
}

impl Owner {
    fn of(directory: &Path) -> Option<Owner> {
        let text = fs::read_to_string(directory.join(OWNER_NOTE)).ok()?;
        let mut words = text.split_whitespace();
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Owner { pid, started, boot: words.next().map(str::to_owned) })
    }

    /// The owner of the run with this id, if that has a directory here.
    pub(crate) fn of_run(run: &str) -> Option<Owner> {
        if is_run(run) { Owner::of(&run_directory(run)) } else { None }
    }

    /// A process that was started then, in this boot.
    #[cfg(test)]
    pub(crate) fn made(pid: u32, started: u64) -> Owner {
        Owner { pid, started, boot: None }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn lives(&self) -> bool {
        self.boot.as_deref().is_none_or(|of| of == boot()) && processes::start_time(self.pid) == Some(self.started)
    }
}

/// The boot in which a run began, if its directory says so.
pub(crate) fn boot_of(run: &str) -> Option<String> {
    Owner::of(&run_directory(run))?.boot
}

/// The runs that have a directory here, each with that directory and its owner; a directory without an owner is not
/// ours.
pub(crate) fn runs() -> Vec<(String, PathBuf, Owner)> {
    let entries = fs::read_dir(RUN_ROOT).into_iter().flatten().filter_map(Result::ok);
    let run = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        // It has a leading dot while it is being made or removed.
        let run = name.strip_prefix('.').unwrap_or(&name);
        let owner = Owner::of(&entry.path()).filter(|_| is_run(run))?;
        Some((run.to_owned(), entry.path(), owner))
    };
    entries.filter_map(run).collect()
}

/// The runs whose owner is still alive.
pub fn live_runs() -> Vec<String> {
    let alive = runs().into_iter().filter(|(_, _, owner)| owner.lives()).map(|(run, ..)| run);
    alive.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The runs whose owner is no longer alive.
pub(crate) fn dead_runs() -> Vec<String> {
    let dead = runs().into_iter().filter(|(_, _, owner)| !owner.lives()).map(|(run, ..)| run);
    dead.collect::<BTreeSet<_>>().into_iter().collect()
}
