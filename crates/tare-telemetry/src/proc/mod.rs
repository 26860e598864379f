//! Processes and all their descendants, from `/proc/<pid>`.
//!
//! A process belongs to the scope that names it, else to its parent's scope when it is first seen. It stays there until
//! it is gone, even if another process adopts it. So a scope that names a process in another scope's tree takes that
//! branch away from it, and no CPU second is counted twice.

mod counts;
mod members;
mod process;

use crate::root::Root;
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use counts::{Counts, NAMES};
pub(crate) use members::{Members, named};
use process::Process;
#[cfg(any(test, fuzzing))]
pub(crate) use process::chew as chew_stat;
pub(crate) use process::ticks;
use std::collections::{BTreeMap, HashMap};
use tare_core::telemetry::Scope;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "proc",
    about: "processes with their threads and descendants, from /proc/<pid>",
    metrics: &[
        "cpu_user_s",
        "cpu_system_s",
        "cpu_total_s",
        "cpu_guest_s",
        "cpu_on_s",
        "run_queue_wait_s",
        "context_switches_voluntary",
        "context_switches_involuntary",
        "migrations",
        "minor_faults",
        "major_faults",
        "memory_bytes",
        "threads",
        "disk_read_bytes",
        "disk_write_bytes",
    ],
    probe,
    reader: |root, scopes| Box::new(ProcReader::new(root, scopes)),
};

fn probe(root: &Root) -> SourceState {
    if root.has("proc/self/stat") || root.has("proc/1/stat") {
        return SourceState::Ready;
    }
    SourceState::Unavailable {
        why: "/proc is not mounted, so processes cannot be read".to_owned(),
        how_to_check: "ls /proc/self/stat".to_owned(),
    }
}

/// The invariant that every watched process has a scope.
const OWNED: &str = "only members of a scope are watched, and forgotten when they are gone";

struct ProcReader {
    root: Root,
    scopes: usize,
    members: Members,
    processes: BTreeMap<u32, Process>,
    /// By scope: usage of processes that are gone and whose parent is not watched.
    carried: Vec<Counts>,
    /// By scope and CPU: usage of threads whose processes are gone.
    left_on: Vec<BTreeMap<u32, f64>>,
    buffer: Vec<u8>,
}

impl ProcReader {
    fn new(root: &Root, scopes: &[Scope]) -> ProcReader {
        ProcReader {
            root: root.clone(),
            scopes: scopes.len(),
            members: Members::new(root, scopes),
            processes: BTreeMap::new(),
            carried: vec![Counts::default(); scopes.len()],
            left_on: vec![BTreeMap::new(); scopes.len()],
            buffer: Vec::new(),
        }
    }

    /// Starts watching processes that appeared since the last reading.
    fn admit(&mut self, listed: Vec<(u32, u32)>) {
        for (pid, _) in self.members.settle(listed) {
            if !self.processes.contains_key(&pid)
                && let Some(process) = Process::open(&self.root, pid, &mut self.buffer)
            {
                self.processes.insert(pid, process);
            }
        }
    }

    /// Credits the usage of processes that are gone to their nearest watched ancestor, else to the scope.
    fn bury(&mut self, gone: &BTreeMap<u32, (u32, Counts)>) {
        let mut by_heir: HashMap<u32, Counts> = HashMap::new();
        for (pid, (parent, used)) in gone {
            let mut heir = *parent;
            while let Some((further, _)) = gone.get(&heir)
                && *further != heir
            {
                heir = *further;
            }
            let scope = self.members.forget(*pid);
            let same_scope = scope.is_some() && self.members.owner(heir) == scope;
            match scope {
                _ if same_scope && self.processes.contains_key(&heir) => by_heir.entry(heir).or_default().add(used),
                Some(scope) => self.carried[scope].add(used),
                None => {}
            }
        }
        for (pid, process) in &mut self.processes {
            process.bury(&by_heir.remove(pid).unwrap_or_default());
        }
    }
}

impl SourceReader for ProcReader {
    fn read(&mut self, into: &mut Reading) {
        let listed = self.members.listed(&self.root, &mut self.buffer);
        let started = listed.is_some();
        let mut gone = BTreeMap::new();
        for (pid, process) in &mut self.processes {
            if !process.read(&self.root, started, &mut self.buffer) {
                gone.insert(*pid, (process.parent(), process.used()));
            }
        }
        for (pid, process) in self.processes.iter().filter(|(pid, _)| gone.contains_key(pid)) {
            let scope = self.members.owner(*pid).expect(OWNED);
            add_all(&mut self.left_on[scope], process.on());
        }
        self.processes.retain(|pid, _| !gone.contains_key(pid));
        self.bury(&gone);
        self.admit(listed.unwrap_or_default());

        let mut sums = self.carried.clone();
        let mut on = self.left_on.clone();
        let mut gauges = vec![(0.0, 0.0); self.scopes];
        let mut living = vec![false; self.scopes];
        for (pid, process) in &self.processes {
            let scope = self.members.owner(*pid).expect(OWNED);
            sums[scope].add(&process.used());
            add_all(&mut on[scope], process.on());
            gauges[scope].0 += process.resident_bytes();
            gauges[scope].1 += process.thread_count();
            living[scope] = true;
        }
        for (scope, (sum, on)) in sums.iter().zip(&on).enumerate() {
            for (cpu, seconds) in on {
                into.put(Of::Scope(scope), &format!("cpu_on_s@{cpu}"), *seconds);
            }
            for (counter, name) in NAMES.iter().enumerate() {
                if let Some(value) = sum.get(counter) {
                    into.put(Of::Scope(scope), name, value);
                }
            }
            if living[scope] {
                into.put(Of::Scope(scope), "memory_bytes", gauges[scope].0);
                into.put(Of::Scope(scope), "threads", gauges[scope].1);
            }
        }
    }
}

fn add_all(sums: &mut BTreeMap<u32, f64>, on: &BTreeMap<u32, f64>) {
    for (cpu, seconds) in on {
        *sums.entry(*cpu).or_default() += seconds;
    }
}
