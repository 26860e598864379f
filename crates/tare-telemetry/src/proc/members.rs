//! Assigns processes to scopes.

use super::process::Stat;
use crate::root::{KeptFile, Root, read_once};
use crate::scan::{lines, number, words};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use tare_core::telemetry::Scope;

/// The scope of each process that a scope names.
pub(crate) fn named(scopes: &[Scope]) -> HashMap<u32, usize> {
    let of_scope = |(index, scope): (usize, &Scope)| scope.pids.iter().map(|pid| (*pid, index)).collect::<Vec<_>>();
    scopes.iter().enumerate().flat_map(of_scope).collect()
}

/// The scope of every process that has one: the scope that names it, else its parent's scope when it is first seen.
pub(crate) struct Members {
    owners: HashMap<u32, usize>,
    census: Census,
}

impl Members {
    /// For these scopes. At first only the named processes are known.
    pub(crate) fn new(root: &Root, scopes: &[Scope]) -> Members {
        Members { owners: named(scopes), census: Census::new(root) }
    }

    /// Assigns the processes of a scope's cgroups to it too, unless they have another scope. Such a process is settled
    /// when it is next listed.
    pub(crate) fn join_cgroups(&mut self, root: &Root, scopes: &[Scope], buffer: &mut Vec<u8>) {
        for (index, scope) in scopes.iter().enumerate() {
            for directory in &scope.cgroups {
                let Some(text) = read_once(&root.path(directory).join("cgroup.procs"), buffer) else { continue };
                for pid in lines(text).filter_map(number).filter_map(|pid| u32::try_from(pid).ok()) {
                    if let Entry::Vacant(place) = self.owners.entry(pid) {
                        place.insert(index);
                        self.census.forget(pid);
                    }
                }
            }
        }
    }

    /// Processes that were not listed before, with their parents; none if no process or thread was started since.
    pub(crate) fn listed(&mut self, root: &Root, buffer: &mut Vec<u8>) -> Option<Vec<(u32, u32)>> {
        self.census.arrived(root, buffer)
    }

    /// The listed processes that belong to a scope, with that scope. A child may be listed before its parent.
    pub(crate) fn settle(&mut self, mut listed: Vec<(u32, u32)>) -> Vec<(u32, usize)> {
        let mut settled = Vec::new();
        loop {
            let before = listed.len();
            listed.retain(|(pid, parent)| {
                let scope = self.owners.get(pid).or_else(|| self.owners.get(parent)).copied();
                if let Some(scope) = scope {
                    self.owners.insert(*pid, scope);
                    settled.push((*pid, scope));
                }
                scope.is_none()
            });
            if listed.len() == before {
                return settled;
            }
        }
    }

    /// Forgets all processes that were gone at the last listing, for callers that keep nothing of them.
    pub(crate) fn forget_gone(&mut self) {
        self.owners.retain(|pid, _| self.census.known.contains(pid));
    }

    /// The scope that a process belongs to.
    pub(crate) fn owner(&self, pid: u32) -> Option<usize> {
        self.owners.get(&pid).copied()
    }

    /// Forgets a process that is gone, because its number may be reused.
    pub(crate) fn forget(&mut self, pid: u32) -> Option<usize> {
        self.owners.remove(&pid)
    }
}

/// Knows which processes exist, and so which are new. Only the new ones are examined: a process cannot join a scope
/// later. Because numbers are reused, everything is examined again now and then.
struct Census {
    load: Option<KeptFile>,
    newest: Vec<u8>,
    known: HashSet<u32>,
    rounds: u32,
}

/// After this many listings all processes are examined again.
const FULL_EVERY: u32 = 30;

impl Census {
    fn new(root: &Root) -> Census {
        let load = KeptFile::open(root.path("proc/loadavg"));
        Census { load, newest: Vec::new(), known: HashSet::new(), rounds: 0 }
    }

    /// Makes a process be listed again.
    fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
        self.newest.clear();
    }

    /// Processes (and their parents) not seen before; none if no process or thread was started since the last call,
    /// according to the number of the newest one.
    fn arrived(&mut self, root: &Root, buffer: &mut Vec<u8>) -> Option<Vec<(u32, u32)>> {
        if let Some(text) = self.load.as_ref().and_then(|file| file.read(buffer)) {
            let newest = words(text).nth(4).unwrap_or_default();
            if !newest.is_empty() && newest == self.newest.as_slice() {
                return None;
            }
            self.newest = newest.to_vec();
        }
        let entries = std::fs::read_dir(root.path("proc")).ok()?;
        if self.rounds.is_multiple_of(FULL_EVERY) {
            self.known.clear();
        }
        self.rounds += 1;
        let mut now = HashSet::with_capacity(self.known.len() + 16);
        let mut arrived = Vec::new();
        for entry in entries.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            now.insert(pid);
            if self.known.contains(&pid) {
                continue;
            }
            let stat = read_once(&entry.path().join("stat"), buffer).and_then(Stat::parse);
            arrived.extend(stat.map(|stat| (pid, stat.parent)));
        }
        self.known = now;
        Some(arrived)
    }
}
