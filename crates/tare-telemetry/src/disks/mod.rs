//! Disks of the machine: requests, bytes and waiting times.

use crate::parts::Parts;
use crate::root::{KeptFile, Root};
use crate::scan::{lines, number_at, words};
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use std::collections::HashMap;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "disks",
    about: "requests of the machine's whole disks, and the time they took",
    metrics: &NAMES,
    probe,
    reader: |root, _| Box::new(DisksReader::new(root)),
};

/// Its metrics, in the order of [`Disk::counters`]; flushes last, because not every kernel counts them.
const NAMES: [&str; 7] =
    ["disk_read_bytes", "disk_write_bytes", "disk_reads", "disk_writes", "disk_busy_s", "disk_wait_s", "disk_flushes"];

fn probe(root: &Root) -> SourceState {
    if root.has("proc/diskstats") {
        return SourceState::Ready;
    }
    SourceState::Unavailable {
        why: "/proc/diskstats cannot be read, so requests to disks are unknown".to_owned(),
        how_to_check: "cat /proc/diskstats".to_owned(),
    }
}

struct DisksReader {
    root: Root,
    file: Option<KeptFile>,
    whole: HashMap<String, bool>,
    clocks: HashMap<String, Clocks>,
    parts: Parts<{ NAMES.len() }>,
    buffer: Vec<u8>,
}

impl DisksReader {
    fn new(root: &Root) -> DisksReader {
        let file = KeptFile::open(root.path("proc/diskstats"));
        DisksReader {
            root: root.clone(),
            file,
            whole: HashMap::new(),
            clocks: HashMap::new(),
            parts: Parts::default(),
            buffer: Vec::new(),
        }
    }
}

impl SourceReader for DisksReader {
    fn read(&mut self, into: &mut Reading) {
        let Some(text) = self.file.as_ref().and_then(|file| file.read(&mut self.buffer)) else { return };
        self.parts.start();
        // A sum over only some of the disks would mislead, so a counter that one of them lacks is left out.
        let mut told = usize::MAX;
        let mut any = false;
        for line in lines(text) {
            let Some(name) = words(line).nth(2).and_then(|name| std::str::from_utf8(name).ok()) else { continue };
            let whole = match self.whole.get(name) {
                Some(whole) => *whole,
                None => *self.whole.entry(name.to_owned()).or_insert(is_whole_disk(&self.root, name)),
            };
            if let (true, Some(disk)) = (whole, Disk::parse(line)) {
                any = true;
                told = told.min(NAMES.len() - usize::from(disk.flushes.is_none()));
                let clocks = self.clocks.entry(name.to_owned()).or_default();
                let counters = disk.counters(clocks.unwrapped_ms(disk.reads, disk.times_ms));
                self.parts.put(name.as_bytes(), counters);
            }
        }
        let sums = self.parts.sums();
        for (name, sum) in NAMES.iter().zip(sums).take(if any { told } else { 0 }) {
            into.put(Of::Machine, name, sum);
        }
    }
}

/// A line of the file.
struct Disk {
    bytes: [u64; 2],
    reads: u64,
    writes: u64,
    flushes: Option<u64>,
    /// Busy; of all reads; of all writes; of all flushes.
    times_ms: [u64; 4],
}

impl Disk {
    /// Columns are those of the kernel's `iostats` document, after number and name; flushes since Linux 5.5.
    fn parse(line: &[u8]) -> Option<Disk> {
        let at = |column: usize| number_at(line, column + 2);
        Some(Disk {
            // Sectors of this file are 512 bytes whatever the disk's own are.
            bytes: [at(3)? * 512, at(7)? * 512],
            reads: at(1)?,
            writes: at(5)?,
            flushes: at(16),
            times_ms: [at(10)?, at(4)?, at(8)?, at(17).unwrap_or(0)],
        })
    }

    /// In the order of [`NAMES`], with these times.
    fn counters(&self, [busy, reads, writes, flushes]: [u64; 4]) -> [f64; NAMES.len()] {
        let seconds = |ms: u64| ms as f64 * 1e-3;
        let counts = [self.bytes[0], self.bytes[1], self.reads, self.writes].map(|count| count as f64);
        let [read_bytes, write_bytes, read, written] = counts;
        let flushed = self.flushes.unwrap_or(0) as f64;
        [read_bytes, write_bytes, read, written, seconds(busy), seconds(reads + writes + flushes), flushed]
    }
}

/// The times of a disk without what the kernel cuts off: it writes milliseconds in 32 bits, which requests that stand
/// side by side fill within days.
#[derive(Default)]
struct Clocks {
    reads: u64,
    last_ms: [u64; 4],
    cut_off_ms: [u64; 4],
}

impl Clocks {
    /// `reads` tells a clock that began anew from another disk of the same name.
    fn unwrapped_ms(&mut self, reads: u64, now_ms: [u64; 4]) -> [u64; 4] {
        if reads < self.reads {
            *self = Clocks::default();
        }
        for (clock, now) in now_ms.into_iter().enumerate() {
            if now < self.last_ms[clock] {
                self.cut_off_ms[clock] += 1 << 32;
            }
        }
        (self.reads, self.last_ms) = (reads, now_ms);
        std::array::from_fn(|clock| self.cut_off_ms[clock] + now_ms[clock])
    }
}

/// Whether a block device is a disk of its own: no partition of one, nothing stacked upon others, and no memory.
fn is_whole_disk(root: &Root, name: &str) -> bool {
    let stacked = ["loop", "ram", "zram", "dm-", "md", "sr", "fd"];
    !stacked.iter().any(|prefix| name.starts_with(prefix)) && root.has(format!("sys/block/{}", name.replace('/', "!")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn values(text: &str, disks: &[&str]) -> BTreeMap<String, f64> {
        let keep = tempfile::tempdir().unwrap();
        let root = Root::at(keep.path());
        assert!(matches!(probe(&root), SourceState::Unavailable { .. }));
        disks.iter().for_each(|disk| std::fs::create_dir_all(root.path(format!("sys/block/{disk}"))).unwrap());
        tare_testkit::files::write(&root.path("proc/diskstats"), text);
        let mut reading = Reading::new(0);
        DisksReader::new(&root).read(&mut reading);
        reading.values(Of::Machine)
    }

    #[test]
    fn linux_6_18() {
        let values = values(include_str!("fixtures/diskstats-6.18"), &["vda", "loop0", "zram0"]);
        let wanted: Vec<(&str, f64)> = NAMES
            .into_iter()
            .zip([44_224_138_752.0, 81_816_633_344.0, 2_174_823.0, 1_003_764.0, 226.128, 6_941.996, 92_032.0])
            .collect();
        for (name, value) in wanted {
            assert!((values[name] - value).abs() < 1e-6, "{name}: {}", values[name]);
        }
    }

    #[test]
    fn before_flushes_were_counted_they_are_absent() {
        let old = "   8       0 sda 10 1 80 500 20 2 160 700 0 900 1200\n\
                   8       1 sda1 10 1 80 500 20 2 160 700 0 900 1200\n";
        let values = values(old, &["sda"]);
        assert_eq!((values["disk_reads"], values["disk_writes"]), (10.0, 20.0));
        assert_eq!((values["disk_busy_s"], values["disk_wait_s"]), (0.9, 1.2));
        assert!(!values.contains_key("disk_flushes"));
    }

    #[test]
    fn a_clock_that_begins_anew_goes_on_and_another_disk_does_not() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.unwrapped_ms(5, [4_294_967_290, 1, 1, 0]), [4_294_967_290, 1, 1, 0]);
        assert_eq!(clocks.unwrapped_ms(6, [4, 2, 1, 0]), [4_294_967_300, 2, 1, 0]);
        assert_eq!(clocks.unwrapped_ms(1, [3, 1, 0, 0]), [3, 1, 0, 0]);
    }

    #[test]
    fn without_a_disk_there_is_nothing_to_tell() {
        assert_eq!(values(include_str!("fixtures/diskstats-6.18"), &[]), BTreeMap::new());
    }
}
