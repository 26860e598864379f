//! Interrupts and software interrupts: the kernel's work for the network, timers and devices, and on which CPU.

use crate::pace::Pace;
use crate::root::{KeptFile, Root};
use crate::scan::{hexadecimal, lines, number, words};
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use std::time::Duration;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "softirqs",
    about: "interrupts by CPU, software interrupts by kind, and packets dropped or delayed for lack of room or time",
    metrics: &[
        "softirqs_net_rx",
        "softirqs_net_tx",
        "softirqs_timer",
        "softirqs_sched",
        "softirqs_block",
        "interrupts",
        "softnet_drops",
        "softnet_squeezed",
    ],
    probe,
    reader: |root, _| Box::new(SoftirqsReader::new(root)),
};

fn probe(root: &Root) -> SourceState {
    if root.has("proc/softirqs") || root.has("proc/interrupts") {
        return SourceState::Ready;
    }
    SourceState::Unavailable {
        why: "/proc/softirqs and /proc/interrupts cannot be read, so the kernel's work for devices is unknown"
            .to_owned(),
        how_to_check: "head -2 /proc/softirqs /proc/interrupts".to_owned(),
    }
}

/// Both files have a column for each CPU, and one has a row for each queue of each device, so on a large machine
/// reading them takes milliseconds. This is the share of a CPU that it may take.
const SHARE: f64 = 0.0005;

struct SoftirqsReader {
    softirqs: Option<KeptFile>,
    interrupts: Option<KeptFile>,
    softnet: Option<KeptFile>,
    pace: Pace,
    /// Metrics of single CPUs and their last values. They are put at every reading; otherwise the CPUs would seem
    /// offline.
    by_cpu: Vec<(String, f64)>,
    buffer: Vec<u8>,
}

impl SoftirqsReader {
    fn new(root: &Root) -> SoftirqsReader {
        let open = |path: &str| KeptFile::open(root.path(path));
        SoftirqsReader {
            softirqs: open("proc/softirqs"),
            interrupts: open("proc/interrupts"),
            softnet: open("proc/self/net/softnet_stat").or_else(|| open("proc/net/softnet_stat")),
            pace: Pace::new(SHARE),
            by_cpu: Vec::new(),
            buffer: Vec::new(),
        }
    }
}

impl SourceReader for SoftirqsReader {
    fn read(&mut self, into: &mut Reading) {
        let SoftirqsReader { softirqs, interrupts, softnet, pace, by_cpu, buffer } = self;
        pace.keep(Duration::ZERO, || {
            if let Some(text) = softirqs.as_ref().and_then(|file| file.read(buffer)) {
                put_kinds(text, into);
            }
            if let Some(text) = interrupts.as_ref().and_then(|file| file.read(buffer)) {
                let named = |(cpu, count)| (format!("interrupts@{cpu}"), count as f64);
                *by_cpu = of_cpus(text).into_iter().map(named).collect();
            }
        });
        for (metric, value) in by_cpu {
            into.put(Of::Machine, metric, *value);
        }
        if let Some([drops, squeezed]) = softnet.as_ref().and_then(|file| file.read(buffer)).and_then(of_softnet) {
            into.put(Of::Machine, "softnet_drops", drops as f64);
            into.put(Of::Machine, "softnet_squeezed", squeezed as f64);
        }
    }
}

fn put_kinds(text: &[u8], into: &mut Reading) {
    for line in lines(text) {
        let mut columns = words(line);
        let metric = match columns.next() {
            Some(b"NET_RX:") => "softirqs_net_rx",
            Some(b"NET_TX:") => "softirqs_net_tx",
            Some(b"TIMER:") => "softirqs_timer",
            Some(b"SCHED:") => "softirqs_sched",
            Some(b"BLOCK:") => "softirqs_block",
            _ => continue,
        };
        into.put(Of::Machine, metric, columns.filter_map(number).sum::<u64>() as f64);
    }
}

/// The number of interrupts served by each CPU, from `/proc/interrupts`. Its first line names the CPUs that are online.
fn of_cpus(text: &[u8]) -> Vec<(u64, u64)> {
    let mut rows = lines(text);
    let cpus = words(rows.next().unwrap_or_default()).filter_map(|name| number(name.strip_prefix(b"CPU")?));
    let mut sums: Vec<(u64, u64)> = cpus.map(|cpu| (cpu, 0)).collect();
    for row in rows {
        let mut columns = words(row);
        // These count for the whole machine, in the first CPU's column.
        if matches!(columns.next(), Some(b"ERR:" | b"Err:" | b"MIS:")) {
            continue;
        }
        for (sum, count) in sums.iter_mut().zip(columns.map_while(number)) {
            sum.1 += count;
        }
    }
    sums
}

/// Packets dropped at a full backlog, and how often the time for processing packets ran out, from `softnet_stat`: a row
/// for each CPU, in hexadecimal.
fn of_softnet(text: &[u8]) -> Option<[u64; 2]> {
    lines(text)
        .filter_map(|line| {
            let mut columns = words(line).skip(1);
            Some([hexadecimal(columns.next()?)?, hexadecimal(columns.next()?)?])
        })
        .reduce(|sum, row| [sum[0] + row[0], sum[1] + row[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_6_18() {
        let mut reading = Reading::new(0);
        put_kinds(include_bytes!("fixtures/softirqs-6.18"), &mut reading);
        let values = reading.values(Of::Machine);
        let names = ["net_rx", "net_tx", "timer", "sched", "block"].map(|name| values[&format!("softirqs_{name}")]);
        assert_eq!(names, [262_867_524.0, 2_928.0, 781_057.0, 1_352_272.0, 1_131_203.0]);
        assert_eq!(of_cpus(include_bytes!("fixtures/interrupts-6.18")), [(0, 11_614_705), (1, 13_608_664)]);
        assert_eq!(of_softnet(include_bytes!("fixtures/softnet_stat-6.18")), Some([0, 84]));
    }

    #[test]
    fn cpus_that_are_offline_have_no_column() {
        let text = b"           CPU0       CPU3       \n  1:   5   6   GICv3  11 Level\n\
                     ERR:    4\nIPI0:    1   2   Rescheduling\n";
        assert_eq!(of_cpus(text), [(0, 6), (3, 8)]);
        assert_eq!((of_cpus(b""), of_softnet(b"")), (Vec::new(), None));
        assert_eq!(of_softnet(b"0000000a 00000010\n"), None, "a row that is no row");
    }

    #[test]
    fn values_of_cpus_stand_while_the_file_is_not_read_again() {
        let keep = tempfile::tempdir().unwrap();
        assert!(matches!(probe(&Root::at(keep.path())), SourceState::Unavailable { .. }));
        tare_testkit::files::write(&keep.path().join("proc/interrupts"), "  CPU0 CPU1\n 1: 5 6 x\n");
        let mut reader = SoftirqsReader::new(&Root::at(keep.path()));
        let mut reading = Reading::new(0);
        for _ in 0..3 {
            reading.start();
            reader.read(&mut reading);
            assert_eq!(reading.values(Of::Machine)["interrupts@1"], 6.0);
        }
    }
}
