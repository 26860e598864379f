//! The CPU time of all tasks of the machine together, kernel threads included, as exact as that of a control group.
//!
//! `/proc/stat` says what the timer tick found on a CPU. The scheduler knows how long each task ran. With version 1 of
//! control groups the root group has the sum. With version 2 the root's `cpu.stat` is made of the ticks; there the sum
//! is that of the groups right below the root, which count what has ended too, and of the tasks in the root group,
//! which are mostly kernel threads.

use crate::parts::Parts;
use crate::proc::ticks;
use crate::root::{KeptFile, Root, read_once};
use crate::scan::{after_name, keyed, lines, number_at};
use std::collections::{HashMap, HashSet};

/// Where the root group of CPU accounting may be mounted, of version 1.
const VERSION_1: [&str; 2] = ["sys/fs/cgroup/cpuacct", "sys/fs/cgroup/cpu,cpuacct"];
/// Where the root group of version 2 is mounted.
const VERSION_2: &str = "sys/fs/cgroup";

/// Reads the sum.
pub(super) enum Tasks {
    /// The kernel keeps it: a file with nanoseconds.
    Kept(KeptFile),
    /// It is added up.
    Added(Added),
}

impl Tasks {
    /// None where the root group cannot be seen, as in most containers.
    pub(super) fn new(root: &Root) -> Option<Tasks> {
        // Only the root group of a hierarchy has `release_agent`.
        if let Some(group) = VERSION_1.iter().find(|group| root.has(format!("{group}/release_agent"))) {
            return KeptFile::open(root.path(format!("{group}/cpuacct.usage"))).map(Tasks::Kept);
        }
        // Of version 2, every group but the root has `cgroup.events`.
        let has = |name: &str| root.has(format!("{VERSION_2}/{name}"));
        if !has("cgroup.controllers") || has("cgroup.events") {
            return None;
        }
        let loose = KeptFile::open(root.path(format!("{VERSION_2}/cgroup.threads")))?;
        Some(Tasks::Added(Added { root: root.clone(), loose, files: HashMap::new(), parts: Parts::default() }))
    }

    /// The CPU time of all tasks so far, s; none if it cannot be read.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>) -> Option<f64> {
        match self {
            Tasks::Kept(file) => Some(number_at(file.read(buffer)?, 0)? as f64 * 1e-9),
            Tasks::Added(added) => added.read(buffer),
        }
    }
}

/// The sum over groups, and over the tasks of the root group.
pub(super) struct Added {
    root: Root,
    /// Lists the tasks of the root group.
    loose: KeptFile,
    /// By task: where its time is told.
    files: HashMap<u64, TaskFile>,
    parts: Parts<1>,
}

impl Added {
    fn read(&mut self, buffer: &mut Vec<u8>) -> Option<f64> {
        self.parts.start();
        // Groups come last, close to what is read next and held against the sum: most of the time is theirs, while
        // single tasks are many, of which few run.
        self.read_loose(buffer)?;
        self.read_groups(buffer)?;
        let [sum] = self.parts.sums();
        Some(sum)
    }

    fn read_loose(&mut self, buffer: &mut Vec<u8>) -> Option<()> {
        let loose: HashSet<u64> = lines(self.loose.read(buffer)?).filter_map(|line| number_at(line, 0)).collect();
        // A task of another namespace of processes is listed as 0, and its files are not here.
        if loose.contains(&0) {
            return None;
        }
        self.files.retain(|id, _| loose.contains(id));
        for id in loose {
            if !self.files.contains_key(&id) {
                self.files.extend(TaskFile::open(&self.root, id, buffer).map(|file| (id, file)));
            }
            if let Some(ran) = self.files.get(&id).and_then(|file| file.read(buffer)) {
                // No group has a name with a slash in it.
                self.parts.put(format!("/{id}").as_bytes(), [ran]);
            } else {
                // It has ended. If another task has its number, the next reading opens the files of that one.
                self.files.remove(&id);
            }
        }
        Some(())
    }

    fn read_groups(&mut self, buffer: &mut Vec<u8>) -> Option<()> {
        for entry in std::fs::read_dir(self.root.path(VERSION_2)).ok()?.flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let used = read_once(&entry.path().join("cpu.stat"), buffer).and_then(|text| keyed(text, "usage_usec"));
            if let Some(us) = used {
                self.parts.put(entry.file_name().as_encoded_bytes(), [us as f64 * 1e-6]);
            }
        }
        Some(())
    }
}

/// Where the time of a task is told.
enum TaskFile {
    /// `/proc/<tid>/schedstat`, ns.
    Schedstat(KeptFile),
    /// `/proc/<tid>/task/<tid>/stat`, in hundredths of a second: where the kernel writes `0 0 0` into the former.
    /// `/proc/<tid>/stat` would tell of all threads of the process together.
    Stat(KeptFile),
}

impl TaskFile {
    fn open(root: &Root, id: u64, buffer: &mut Vec<u8>) -> Option<TaskFile> {
        let open = |name: &str| KeptFile::open(root.path(format!("proc/{id}/{name}")));
        let exact = open("schedstat").map(TaskFile::Schedstat).filter(|file| file.read(buffer).is_some());
        exact.or_else(|| open(&format!("task/{id}/stat")).map(TaskFile::Stat))
    }

    /// How long it ran, s.
    fn read(&self, buffer: &mut Vec<u8>) -> Option<f64> {
        match self {
            TaskFile::Schedstat(file) => {
                let text = file.read(buffer)?;
                // A listed task has run: its third number, how often, is 0 only where nothing is kept.
                number_at(text, 2).filter(|runs| *runs > 0)?;
                Some(number_at(text, 0)? as f64 * 1e-9)
            }
            TaskFile::Stat(file) => {
                // Fields 14 and 15 of proc_pid_stat(5); the word after the name is field 3.
                let fields = after_name(file.read(buffer)?)?;
                Some(ticks(number_at(fields, 11)?.saturating_add(number_at(fields, 12)?)))
            }
        }
    }
}
