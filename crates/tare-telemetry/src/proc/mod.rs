//! Processes and all their descendants, from `/proc/<pid>`.
//!
//! A process belongs to the scope that names it, else to its parent's scope at the time it is first seen; it stays
//! there until it is gone, also when it is adopted. So a scope that names a process within another's tree takes that
//! branch away from it, and no CPU second is counted twice.

mod counts;
mod process;

use crate::root::{KeptFile, Root, read_once};
use crate::scan::words;
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use counts::{Counts, NAMES};
pub(crate) use process::ticks;
use process::{Process, Stat};
use std::collections::{BTreeMap, HashMap, HashSet};
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

struct ProcReader {
    root: Root,
    scopes: usize,
    /// The scope of every process that belongs to one.
    owners: HashMap<u32, usize>,
    processes: BTreeMap<u32, Process>,
    /// By scope: what processes had used that are gone and whose parent is not watched.
    carried: Vec<Counts>,
    /// By scope and CPU: what threads of processes that are gone had used there.
    left_on: Vec<BTreeMap<u32, f64>>,
    census: Census,
    buffer: Vec<u8>,
}

impl ProcReader {
    fn new(root: &Root, scopes: &[Scope]) -> ProcReader {
        let named =
            scopes.iter().enumerate().flat_map(|(index, scope)| scope.pids.iter().map(move |pid| (*pid, index)));
        ProcReader {
            root: root.clone(),
            scopes: scopes.len(),
            owners: named.collect(),
            processes: BTreeMap::new(),
            carried: vec![Counts::default(); scopes.len()],
            left_on: vec![BTreeMap::new(); scopes.len()],
            census: Census::new(root),
            buffer: Vec::new(),
        }
    }

    /// Starts watching processes that came since the last reading. A child may be listed before its parent.
    fn admit(&mut self, mut arrived: Vec<(u32, u32)>) {
        loop {
            let before = arrived.len();
            arrived.retain(|(pid, parent)| {
                let scope = self.owners.get(pid).or_else(|| self.owners.get(parent)).copied();
                if let Some(scope) = scope {
                    self.owners.insert(*pid, scope);
                    if !self.processes.contains_key(pid)
                        && let Some(process) = Process::open(&self.root, *pid, &mut self.buffer)
                    {
                        self.processes.insert(*pid, process);
                    }
                }
                scope.is_none()
            });
            if arrived.len() == before {
                return;
            }
        }
    }

    /// Hands what gone processes had used to their nearest watched ancestor, else to the scope.
    fn bury(&mut self, gone: &BTreeMap<u32, (u32, Counts)>) {
        let mut by_heir: HashMap<u32, Counts> = HashMap::new();
        for (pid, (parent, used)) in gone {
            let mut heir = *parent;
            while let Some((further, _)) = gone.get(&heir)
                && *further != heir
            {
                heir = *further;
            }
            let scope = self.owners.remove(pid);
            let same_scope = scope.is_some() && self.owners.get(&heir) == scope.as_ref();
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
        let arrived = self.census.arrived(&self.root, &mut self.buffer);
        let started = arrived.is_some();
        let mut gone = BTreeMap::new();
        for (pid, process) in &mut self.processes {
            if !process.read(&self.root, started, &mut self.buffer) {
                gone.insert(*pid, (process.parent(), process.used()));
            }
        }
        for (pid, process) in self.processes.iter().filter(|(pid, _)| gone.contains_key(pid)) {
            add_all(&mut self.left_on[self.owners[pid]], process.on());
        }
        self.processes.retain(|pid, _| !gone.contains_key(pid));
        self.bury(&gone);
        self.admit(arrived.unwrap_or_default());

        let mut sums = self.carried.clone();
        let mut on = self.left_on.clone();
        let mut gauges = vec![(0.0, 0.0); self.scopes];
        let mut living = vec![false; self.scopes];
        for (pid, process) in &self.processes {
            let scope = self.owners[pid];
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

/// Knows which processes there are, and so which are new. Only the new ones are looked at: a process cannot come to
/// belong to a scope later, except by a reused number, for which everything is looked at now and then.
struct Census {
    load: Option<KeptFile>,
    newest: Vec<u8>,
    known: HashSet<u32>,
    rounds: u32,
}

/// Every so many listings all processes are looked at again.
const FULL_EVERY: u32 = 30;

impl Census {
    fn new(root: &Root) -> Census {
        let load = KeptFile::open(root.path("proc/loadavg"));
        Census { load, newest: Vec::new(), known: HashSet::new(), rounds: 0 }
    }

    /// Processes (and their parents) not seen before; none when no process or thread was started since the last call,
    /// as the number of the newest one tells.
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
