//! The counters of a process tree as a fixed row of numbers.

/// How many counters there are.
pub(super) const COUNTERS: usize = 12;
pub(super) const USER: usize = 0;
pub(super) const SYSTEM: usize = 1;
pub(super) const TOTAL: usize = 2;
pub(super) const GUEST: usize = 3;
pub(super) const WAIT: usize = 4;
pub(super) const VOLUNTARY: usize = 5;
pub(super) const INVOLUNTARY: usize = 6;
pub(super) const MIGRATIONS: usize = 7;
pub(super) const MINOR: usize = 8;
pub(super) const MAJOR: usize = 9;
pub(super) const READ: usize = 10;
pub(super) const WRITE: usize = 11;

/// Their metrics, in their order.
pub(super) const NAMES: [&str; COUNTERS] = [
    "cpu_user_s",
    "cpu_system_s",
    "cpu_total_s",
    "cpu_guest_s",
    "run_queue_wait_s",
    "context_switches_voluntary",
    "context_switches_involuntary",
    "migrations",
    "minor_faults",
    "major_faults",
    "disk_read_bytes",
    "disk_write_bytes",
];

/// A row of counters, each of which may be absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    values: [f64; COUNTERS],
    present: u16,
}

impl Counts {
    pub(super) fn get(&self, counter: usize) -> Option<f64> {
        (self.present & (1 << counter) != 0).then_some(self.values[counter])
    }

    pub(super) fn or_zero(&self, counter: usize) -> f64 {
        self.values[counter]
    }

    pub(super) fn set(&mut self, counter: usize, value: f64) {
        self.values[counter] = value;
        self.present |= 1 << counter;
    }

    /// Raises a counter to a value; a lower value has no effect.
    pub(super) fn raise(&mut self, counter: usize, value: f64) {
        let value = self.get(counter).map_or(value, |old| old.max(value));
        self.set(counter, value);
    }

    /// Adds what the other has.
    pub(super) fn add(&mut self, other: &Counts) {
        for (mine, theirs) in self.values.iter_mut().zip(other.values) {
            *mine += theirs;
        }
        self.present |= other.present;
    }
}
