//! How long CPUs had a task to run, by their run queues: `/proc/schedstat`, where the kernel has SCHEDSTATS.
//!
//! What a CPU did in the rest of its time, unless it was idle, it did between tasks: interrupts that found it idle, and
//! the way into idleness and out of it. A task that runs is counted when it leaves the CPU.

use crate::root::{KeptFile, Root};
use crate::scan::{keyed, lines, number_at};

/// Since this version times are in nanoseconds.
const NANOSECONDS_SINCE: u64 = 15;
/// The place of the time among the words of a CPU's line.
const RAN: usize = 7;

/// Reads the sum over CPUs.
pub(super) struct Occupied(KeptFile);

impl Occupied {
    /// None where the kernel does not have it.
    pub(super) fn new(root: &Root) -> Option<Occupied> {
        KeptFile::open(root.path("proc/schedstat")).map(Occupied)
    }

    /// Of how many CPUs it is told, and their time so far, s.
    pub(super) fn read(&self, buffer: &mut Vec<u8>) -> Option<(usize, f64)> {
        let text = self.0.read(buffer)?;
        keyed(text, "version").filter(|version| *version >= NANOSECONDS_SINCE)?;
        let of_cpus = lines(text).filter(|line| line.starts_with(b"cpu"));
        let ran: Vec<u64> = of_cpus.map(|line| number_at(line, RAN)).collect::<Option<_>>()?;
        Some((ran.len(), ran.iter().map(|ns| *ns as f64 * 1e-9).sum()))
    }
}
