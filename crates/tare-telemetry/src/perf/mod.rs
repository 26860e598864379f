//! Events of the processor: instructions, cycles and misses.
//!
//! They are counted by CPU and not by process. A counter that follows a process is saved and restored at each of its
//! context switches, which takes a microsecond, and in a guest a VM exit: it would slow down what is measured, most of
//! all where switches are frequent. Placement tells which service ran on which CPU.

mod event;

use crate::pace::Pace;
use crate::perf_event::Whose;
use crate::root::Root;
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use event::{BRANCH_MISSES, CACHE_MISSES, CYCLES, DTLB_MISSES, Event, INSTRUCTIONS, Kind};
use std::io::Error;
use std::time::Duration;
use tare_core::units::CpuSet;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "perf",
    about: "instructions, cycles and misses of the processor, by CPU",
    metrics: &["instructions", "cycles", "cache_misses", "branch_misses", "dtlb_misses"],
    probe,
    reader: |root, _| Box::new(PerfReader::new(root)),
};

/// What is counted, and whether it is also reported by CPU.
const KINDS: [(&str, Kind, bool); 5] = [
    ("instructions", INSTRUCTIONS, true),
    ("cycles", CYCLES, true),
    ("cache_misses", CACHE_MISSES, false),
    ("branch_misses", BRANCH_MISSES, false),
    ("dtlb_misses", DTLB_MISSES, false),
];

const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";

fn probe(root: &Root) -> SourceState {
    let Some(paranoid) = root.text(PARANOID) else {
        return SourceState::Unavailable {
            why: "the kernel is built without perf events".to_owned(),
            how_to_check: format!("cat /{PARANOID}; use a kernel with CONFIG_PERF_EVENTS"),
        };
    };
    let opened = Event::open(INSTRUCTIONS, Whose::OwnThread).and_then(|event| {
        // Some hypervisors offer a counter that never advances.
        std::hint::black_box((0..10_000_u64).fold(1, |a: u64, b| a.wrapping_mul(31).wrapping_add(b)));
        let counts = event.count().is_some_and(|count| count >= 10_000.0);
        // Counting its own thread may be allowed where counting a whole CPU is not.
        Event::open(INSTRUCTIONS, Whose::Cpu(first_cpu(root))).map(|_| counts)
    });
    said(opened, &paranoid)
}

fn said(opened: Result<bool, Error>, paranoid: &str) -> SourceState {
    let bare =
        "perf stat -e instructions true; run on bare metal, or give this guest a virtual PMU (QEMU: -cpu host,pmu=on)";
    let (why, how_to_check) = match opened {
        Ok(true) => return SourceState::Ready,
        Ok(false) => ("the processor's counters exist, but do not advance".to_owned(), bare.to_owned()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => (
            format!("the kernel refuses the processor's counters: kernel.perf_event_paranoid is {paranoid}"),
            "run as root, or sysctl -w kernel.perf_event_paranoid=0".to_owned(),
        ),
        Err(error) => (format!("the processor's counters cannot be opened: {error}"), bare.to_owned()),
    };
    SourceState::Unavailable { why, how_to_check }
}

fn online(root: &Root) -> Vec<u32> {
    let text = root.text("sys/devices/system/cpu/online").unwrap_or_default();
    CpuSet::parse(&text).map(|set| set.cpus().to_vec()).unwrap_or_default()
}

fn first_cpu(root: &Root) -> u32 {
    online(root).first().copied().unwrap_or(0)
}

/// To read a counter of another CPU the kernel interrupts that CPU; this is the share of a CPU that reading may take.
const SHARE: f64 = 0.001;

struct PerfReader {
    events: Vec<Counted>,
    pace: Pace,
}

/// An event on a CPU and its last count.
struct Counted {
    /// Its place in [`KINDS`].
    kind: usize,
    event: Event,
    count: Option<f64>,
    /// The metric of this CPU alone, if it is reported.
    of_cpu: Option<String>,
}

impl PerfReader {
    fn new(root: &Root) -> PerfReader {
        let mut events = Vec::new();
        for cpu in online(root) {
            for (kind, (name, what, by_cpu)) in KINDS.iter().enumerate() {
                // A processor need not have all of them.
                let Ok(event) = Event::open(*what, Whose::Cpu(cpu)) else { continue };
                let of_cpu = by_cpu.then(|| format!("{name}@{cpu}"));
                events.push(Counted { kind, event, count: None, of_cpu });
            }
        }
        PerfReader { events, pace: Pace::new(SHARE) }
    }
}

impl SourceReader for PerfReader {
    fn read(&mut self, into: &mut Reading) {
        let events = &mut self.events;
        self.pace.keep(Duration::ZERO, || {
            for counted in &mut *events {
                // A CPU that went offline keeps what it had counted.
                counted.count = counted.event.count().or(counted.count);
            }
        });
        put(events.iter().map(|counted| (counted.kind, counted.count, counted.of_cpu.as_deref())), into);
    }
}

/// Puts counts, each with its place in [`KINDS`] and the metric of its CPU alone.
fn put<'a>(counts: impl Iterator<Item = (usize, Option<f64>, Option<&'a str>)>, into: &mut Reading) {
    let mut sums: [Option<f64>; KINDS.len()] = [None; KINDS.len()];
    for (kind, count, of_cpu) in counts {
        let Some(count) = count else { continue };
        *sums[kind].get_or_insert_default() += count;
        if let Some(metric) = of_cpu {
            into.put(Of::Machine, metric, count);
        }
    }
    for ((name, ..), sum) in KINDS.iter().zip(sums) {
        if let Some(sum) = sum {
            into.put(Of::Machine, name, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_answers_is_said_with_a_way_out() {
        let answer = |opened| match said(opened, "4") {
            SourceState::Unavailable { why, how_to_check } => format!("{why} / {how_to_check}"),
            SourceState::Ready => "ready".to_owned(),
        };
        let errno = |number| Err(Error::from_raw_os_error(number));
        assert_eq!(answer(Ok(true)), "ready");
        assert!(answer(Ok(false)).contains("do not advance") && answer(Ok(false)).contains("PMU"));
        assert!(answer(errno(libc::EACCES)).contains("perf_event_paranoid is 4"));
        assert!(answer(errno(libc::ENOENT)).contains("bare metal"));
        let keep = tempfile::tempdir().unwrap();
        assert!(matches!(probe(&Root::at(keep.path())), SourceState::Unavailable { .. }));
    }

    #[test]
    fn cpus_add_up_and_what_has_no_counter_is_absent() {
        let mut reading = Reading::new(0);
        let counts = [(0, Some(5.0), Some("instructions@0")), (0, Some(7.0), Some("instructions@1")), (2, None, None)];
        put(counts.into_iter(), &mut reading);
        let wanted = [("instructions", 12.0), ("instructions@0", 5.0), ("instructions@1", 7.0)];
        assert_eq!(reading.values(Of::Machine), wanted.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn where_the_probe_says_ready_instructions_are_counted() {
        let root = Root::machine();
        if let SourceState::Unavailable { why, .. } = probe(&root) {
            println!("skipped: {why}");
            return;
        }
        let mut reader = PerfReader::new(&root);
        let mut reading = Reading::new(0);
        reader.read(&mut reading);
        assert!(reading.values(Of::Machine)["instructions"] > 0.0);
    }
}
