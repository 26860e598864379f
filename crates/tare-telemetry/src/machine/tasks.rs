//! The CPU time of all tasks of the machine together, kernel threads included, as exact as that of a control group.
//!
//! `/proc/stat` says what the timer tick found on a CPU. The scheduler knows how long each task ran: with version 1 of
//! control groups, the root group has the sum. With version 2 it does not, as `cpu.stat` of the root is made of the
//! ticks; there the sum is that of all groups right below the root and of the tasks that are in none, which are mostly
//! kernel threads.

use crate::parts::Parts;
use crate::root::{KeptFile, Root, read_once};
use crate::scan::{keyed, lines, number_at};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Of version 1: the directories in which the root group of CPU accounting may be mounted.
const VERSION_1: [&str; 2] = ["sys/fs/cgroup/cpuacct", "sys/fs/cgroup/cpu,cpuacct"];
/// Of version 2: where the root group is mounted.
const VERSION_2: &str = "sys/fs/cgroup";

/// Tasks in no group are some hundred, so they are read no more often.
const EVERY: Duration = Duration::from_millis(900);

/// Reads the sum.
pub(super) enum Tasks {
    /// The file in which the kernel keeps it, ns.
    Sum(KeptFile),
    /// It is added up.
    Added(Added),
}

impl Tasks {
    /// None where the root group cannot be seen, as in most containers.
    pub(super) fn new(root: &Root) -> Option<Tasks> {
        // Of groups of version 1 only the root has `release_agent`; of version 2, only the root lacks `cgroup.events`.
        let version_1 = VERSION_1.iter().find(|group| root.has(format!("{group}/release_agent")));
        if let Some(group) = version_1 {
            return KeptFile::open(root.path(format!("{group}/cpuacct.usage"))).map(Tasks::Sum);
        }
        let is_root =
            root.has(format!("{VERSION_2}/cgroup.controllers")) && !root.has(format!("{VERSION_2}/cgroup.events"));
        // Task 2 starts all kernel threads and is in no group. Where its time cannot be read, neither can theirs.
        let is_told = is_root && root.has("proc/2/schedstat");
        let loose = KeptFile::open(root.path(format!("{VERSION_2}/cgroup.threads"))).filter(|_| is_told)?;
        Some(Tasks::Added(Added {
            root: root.clone(),
            loose,
            files: HashMap::new(),
            parts: Parts::default(),
            at: None,
        }))
    }

    /// The CPU time of all tasks so far, s; none if it cannot be read, or was just now.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> Option<f64> {
        match self {
            Tasks::Sum(file) => Some(number_at(file.read(buffer)?, 0)? as f64 * 1e-9),
            Tasks::Added(added) => added.read(buffer),
        }
    }
}

/// The sum over groups, and over the tasks that are in none.
pub(super) struct Added {
    root: Root,
    /// Lists the tasks of the root group.
    loose: KeptFile,
    /// By task: what the scheduler says of it.
    files: HashMap<u64, KeptFile>,
    parts: Parts<1>,
    /// When it was read last.
    at: Option<Instant>,
}

impl Added {
    fn read(&mut self, buffer: &mut Vec<u8>) -> Option<f64> {
        if self.at.is_some_and(|at| at.elapsed() < EVERY) {
            return None;
        }
        self.at = Some(Instant::now());
        self.parts.start();
        for entry in std::fs::read_dir(self.root.path(VERSION_2)).ok()?.flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let used = read_once(&entry.path().join("cpu.stat"), buffer).and_then(|text| keyed(text, "usage_usec"));
            if let Some(us) = used {
                self.parts.put(entry.file_name().as_encoded_bytes(), [us as f64 * 1e-6]);
            }
        }
        let loose: Vec<u64> = lines(self.loose.read(buffer)?).filter_map(|line| number_at(line, 0)).collect();
        self.files.retain(|id, _| loose.contains(id));
        for id in loose {
            // A group is not named like a task, which begins with a slash here.
            let name = format!("/{id}");
            if !self.files.contains_key(&id) {
                let path = self.root.path(format!("proc/{id}/schedstat"));
                self.files.extend(KeptFile::open(path).map(|file| (id, file)));
            }
            // The first number is the time that it ran, ns.
            let ran = self.files.get(&id).and_then(|file| number_at(file.read(buffer)?, 0));
            if let Some(ns) = ran {
                self.parts.put(name.as_bytes(), [ns as f64 * 1e-9]);
            }
        }
        let [sum] = self.parts.sums();
        Some(sum)
    }
}
