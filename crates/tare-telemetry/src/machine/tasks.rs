//! The CPU time of all tasks of the machine together, kernel threads included, as exact as that of a control group.
//!
//! `/proc/stat` says what the timer tick found on a CPU. The scheduler knows how long each task ran, and with version 1
//! of control groups the root group has the sum. With version 2 it does not: `cpu.stat` of the root is made of the
//! ticks, and what groups and single tasks say, read one after the other, adds up to some per cent more or less.

use crate::root::{KeptFile, Root};
use crate::scan::number_at;

/// Where the root group of CPU accounting may be mounted.
const ROOTS: [&str; 2] = ["sys/fs/cgroup/cpuacct", "sys/fs/cgroup/cpu,cpuacct"];

/// Reads the sum.
pub(super) struct Tasks(KeptFile);

impl Tasks {
    /// None where the root group cannot be seen, as in most containers.
    pub(super) fn new(root: &Root) -> Option<Tasks> {
        // Only the root group of a hierarchy has `release_agent`.
        let group = ROOTS.iter().find(|group| root.has(format!("{group}/release_agent")))?;
        KeptFile::open(root.path(format!("{group}/cpuacct.usage"))).map(Tasks)
    }

    /// The CPU time of all tasks so far, s; none if it cannot be read.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Option<f64> {
        Some(number_at(self.0.read(buffer)?, 0)? as f64 * 1e-9)
    }
}
