//! An event of the processor, counted by the kernel.

use crate::perf_event::{self, Attributes, Whose};
use std::fs::File;
use std::io::{Error, Read};

/// What is counted: the kernel's numbers for it, as in perf_event_open(2).
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    kind: u32,
    config: u64,
}

const HARDWARE: u32 = 0;
const HARDWARE_CACHE: u32 = 3;

pub(super) const INSTRUCTIONS: Kind = Kind { kind: HARDWARE, config: 1 };
pub(super) const CYCLES: Kind = Kind { kind: HARDWARE, config: 0 };
pub(super) const CACHE_MISSES: Kind = Kind { kind: HARDWARE, config: 3 };
pub(super) const BRANCH_MISSES: Kind = Kind { kind: HARDWARE, config: 5 };
/// The data TLB (3), reads (0), misses (1).
pub(super) const DTLB_MISSES: Kind = Kind { kind: HARDWARE_CACHE, config: 3 | (1 << 16) };

/// Reads a count together with its time enabled and its time running.
const WITH_TIMES: u64 = 1 | 2;

/// An event that is being counted until it is dropped.
#[derive(Debug)]
pub(super) struct Event(File);

impl Event {
    pub(super) fn open(what: Kind, whose: Whose) -> Result<Event, Error> {
        let (kind, config) = (what.kind, what.config);
        let attributes = Attributes { kind, config, read_format: WITH_TIMES, ..Attributes::default() };
        perf_event::open(attributes, whose).map(Event)
    }

    /// The count so far; none if it has never had a counter, or if its CPU is gone.
    pub(super) fn count(&self) -> Option<f64> {
        let mut bytes = [0; 24];
        (&self.0).read_exact(&mut bytes).ok()?;
        counted(&bytes)
    }
}

/// Scales a reading: a count, its time enabled and its time running, ns. If there are more events than the processor
/// has counters, they take turns, and the count is extrapolated to the whole time.
fn counted(bytes: &[u8; 24]) -> Option<f64> {
    let number = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte]));
    let (count, wanted_ns, had_ns) = (number(0), number(1), number(2));
    (had_ns > 0).then(|| count as f64 * (wanted_ns as f64 / had_ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_had_to_share_stands_for_the_whole_time() {
        let reading = |numbers: [u64; 3]| {
            let mut bytes = [0; 24];
            for (at, number) in numbers.iter().enumerate() {
                bytes[at * 8..][..8].copy_from_slice(&number.to_ne_bytes());
            }
            counted(&bytes)
        };
        assert_eq!(reading([1000, 50, 50]), Some(1000.0));
        assert_eq!(reading([1000, 50, 25]), Some(2000.0));
        assert_eq!(reading([0, 50, 50]), Some(0.0));
        assert_eq!(reading([0, 50, 0]), None, "it was never counted, which is not zero");
    }

    /// What the kernel counts itself is there on every machine, so it tells whether the call is made right.
    #[test]
    fn an_event_of_the_kernel_is_counted() {
        const TASK_CLOCK: Kind = Kind { kind: 1, config: 1 };
        let event = match Event::open(TASK_CLOCK, Whose::OwnThread) {
            Ok(event) => event,
            Err(error) => {
                println!("skipped: perf_event_open: {error}");
                return;
            }
        };
        let before = event.count().expect("a clock is always counted");
        std::hint::black_box((0..100_000_u64).fold(1, |a: u64, b| a.wrapping_mul(31).wrapping_add(b)));
        assert!(event.count().expect("a clock is always counted") > before);
    }
}
