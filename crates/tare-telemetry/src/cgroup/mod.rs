//! Cgroups, version 1 and 2. The files in a directory tell its version, so a machine with both needs no special case.

use crate::proc::ticks;
use crate::root::{KeptFile, Root};
use crate::scan::{keyed, lines, number, number_at, pressure_some_us, words};
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use std::path::PathBuf;
use tare_core::telemetry::Scope;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "cgroup",
    about: "CPU time, throttling, memory, reclaim and pressure of control groups, version 1 and 2",
    metrics: &[
        "cpu_total_s",
        "cpu_user_s",
        "cpu_system_s",
        "throttled_s",
        "throttled_periods",
        "cpu_quota_s",
        "cpu_period_s",
        "memory_bytes",
        "disk_read_bytes",
        "disk_write_bytes",
        "psi_cpu_some_s",
        "psi_memory_some_s",
        "psi_io_some_s",
        "memory_limit_hits",
        "reclaimed_pages",
        "refaults",
        "oom_kills",
    ],
    probe,
    reader: |root, scopes| Box::new(CgroupReader::new(root, scopes)),
};

fn probe(root: &Root) -> SourceState {
    let mounted = ["cgroup.controllers", "cpuacct", "cpu,cpuacct", "unified"];
    if mounted.iter().any(|name| root.has(format!("sys/fs/cgroup/{name}"))) {
        return SourceState::Ready;
    }
    SourceState::Unavailable {
        why: "no control groups are mounted, so throttling and the counters of containers cannot be read".to_owned(),
        how_to_check: "grep cgroup /proc/mounts".to_owned(),
    }
}

/// How a number is found in a file.
#[derive(Clone, Copy)]
enum At {
    /// It is the whole file.
    Whole,
    /// It is a word of the only line.
    Word(usize),
    /// It stands after a key.
    Key(&'static str),
    /// It is the sum of the numbers after those of these keys that exist.
    Keys(&'static [&'static str]),
    /// It is the total of the `some` line of a pressure file.
    Some,
    /// The sum over devices of `key=number`, as in `io.stat`.
    Devices(&'static str),
    /// The sum over devices of the lines `device key number`, as in the blkio files.
    Lines(&'static str),
}

/// A file, a number in it, its metric and its unit. The first that exists provides the metric.
type Known = (&'static str, At, &'static str, fn(u64) -> f64);

/// CPU figures of version 1 come first: if both versions are mounted, version 2 also has a `cpu.stat`.
const KNOWN: &[Known] = &[
    ("cpuacct.usage", At::Whole, "cpu_total_s", |ns| ns as f64 * 1e-9),
    ("cpuacct.usage_user", At::Whole, "cpu_user_s", |ns| ns as f64 * 1e-9),
    ("cpuacct.usage_sys", At::Whole, "cpu_system_s", |ns| ns as f64 * 1e-9),
    ("cpuacct.stat", At::Key("user"), "cpu_user_s", ticks),
    ("cpuacct.stat", At::Key("system"), "cpu_system_s", ticks),
    ("cpu.stat", At::Key("usage_usec"), "cpu_total_s", |us| us as f64 * 1e-6),
    ("cpu.stat", At::Key("user_usec"), "cpu_user_s", |us| us as f64 * 1e-6),
    ("cpu.stat", At::Key("system_usec"), "cpu_system_s", |us| us as f64 * 1e-6),
    ("cpu.stat", At::Key("throttled_time"), "throttled_s", |ns| ns as f64 * 1e-9),
    ("cpu.stat", At::Key("throttled_usec"), "throttled_s", |us| us as f64 * 1e-6),
    ("cpu.stat", At::Key("nr_throttled"), "throttled_periods", |count| count as f64),
    // Without a quota it is -1 or `max`, which is not read as a number.
    ("cpu.cfs_quota_us", At::Whole, "cpu_quota_s", |us| us as f64 / 1e6),
    ("cpu.cfs_period_us", At::Whole, "cpu_period_s", |us| us as f64 / 1e6),
    ("cpu.max", At::Word(0), "cpu_quota_s", |us| us as f64 / 1e6),
    ("cpu.max", At::Word(1), "cpu_period_s", |us| us as f64 / 1e6),
    ("cpu.pressure", At::Some, "psi_cpu_some_s", |us| us as f64 * 1e-6),
    ("memory.pressure", At::Some, "psi_memory_some_s", |us| us as f64 * 1e-6),
    ("io.pressure", At::Some, "psi_io_some_s", |us| us as f64 * 1e-6),
    ("memory.events", At::Keys(&["max", "high"]), "memory_limit_hits", |count| count as f64),
    ("memory.events", At::Key("oom_kill"), "oom_kills", |count| count as f64),
    // If memory and swap together have the same limit, as here, newer kernels count in neither of version 1's files.
    ("memory.failcnt", At::Whole, "memory_limit_hits", |count| count as f64),
    ("memory.oom_control", At::Key("oom_kill"), "oom_kills", |count| count as f64),
    ("memory.stat", At::Key("pgsteal"), "reclaimed_pages", |count| count as f64),
    ("memory.stat", At::Keys(&["pgsteal_kswapd", "pgsteal_direct"]), "reclaimed_pages", |count| count as f64),
    // In version 1 plain names count the group alone; those with `total_` include all groups below, as in version 2.
    ("memory.stat", At::Keys(TOTAL_REFAULTS), "refaults", |count| count as f64),
    ("memory.stat", At::Keys(REFAULTS), "refaults", |count| count as f64),
];

/// Pages that were needed again soon after they had been reclaimed. Kernels before 5.9 count files' only, in the third.
const REFAULTS: &[&str] = &["workingset_refault_file", "workingset_refault_anon", "workingset_refault"];
const TOTAL_REFAULTS: &[&str] =
    &["total_workingset_refault_file", "total_workingset_refault_anon", "total_workingset_refault"];

/// Read only for a scope without processes: the resident memory and I/O counters of processes mean the same in every
/// form, while a cgroup's memory includes the page cache.
const WITHOUT_PROCESSES: &[Known] = &[
    ("memory.usage_in_bytes", At::Whole, "memory_bytes", |bytes| bytes as f64),
    ("memory.current", At::Whole, "memory_bytes", |bytes| bytes as f64),
    ("blkio.throttle.io_service_bytes_recursive", At::Lines("Read"), "disk_read_bytes", |bytes| bytes as f64),
    ("blkio.throttle.io_service_bytes_recursive", At::Lines("Write"), "disk_write_bytes", |bytes| bytes as f64),
    ("io.stat", At::Devices("rbytes"), "disk_read_bytes", |bytes| bytes as f64),
    ("io.stat", At::Devices("wbytes"), "disk_write_bytes", |bytes| bytes as f64),
];

impl At {
    fn find(self, text: &[u8]) -> Option<u64> {
        match self {
            At::Whole => number(text.trim_ascii()),
            At::Word(index) => number_at(text, index),
            At::Key(key) => keyed(text, key),
            At::Keys(keys) => keys.iter().filter_map(|key| keyed(text, key)).reduce(|sum, value| sum + value),
            At::Some => pressure_some_us(text),
            At::Devices(key) => Some(
                lines(text)
                    .flat_map(words)
                    .filter_map(|word| number(word.strip_prefix(key.as_bytes())?.strip_prefix(b"=")?))
                    .sum(),
            ),
            At::Lines(key) => Some(
                lines(text)
                    .filter(|line| words(line).nth(1) == Some(key.as_bytes()))
                    .filter_map(|line| number(words(line).nth(2)?))
                    .sum(),
            ),
        }
    }
}

/// The place of a number, its metric and its unit.
type Number = (At, &'static str, fn(u64) -> f64);

/// A file of a scope and the numbers taken from it.
struct CgroupFile {
    scope: usize,
    path: PathBuf,
    file: KeptFile,
    numbers: Vec<Number>,
}

struct CgroupReader {
    files: Vec<CgroupFile>,
    buffer: Vec<u8>,
}

impl CgroupReader {
    fn new(root: &Root, scopes: &[Scope]) -> CgroupReader {
        let mut reader = CgroupReader { files: Vec::new(), buffer: Vec::new() };
        for (index, scope) in scopes.iter().enumerate() {
            reader.add_scope(root, index, scope);
        }
        reader
    }

    fn add_scope(&mut self, root: &Root, index: usize, scope: &Scope) {
        let mut delivered: Vec<&str> = Vec::new();
        let more = if scope.pids.is_empty() { WITHOUT_PROCESSES } else { &[] };
        for (name, at, metric, unit) in KNOWN.iter().chain(more) {
            if delivered.contains(metric) {
                continue;
            }
            for directory in &scope.cgroups {
                let path = root.path(directory).join(name);
                let Some(file) = KeptFile::open(path.clone()) else { continue };
                if file.read(&mut self.buffer).and_then(|text| at.find(text)).is_none() {
                    continue;
                }
                delivered.push(metric);
                let number = (*at, *metric, *unit);
                match self.files.iter_mut().find(|file| file.scope == index && file.path == path) {
                    Some(file) => file.numbers.push(number),
                    None => self.files.push(CgroupFile { scope: index, path, file, numbers: vec![number] }),
                }
                break;
            }
        }
    }
}

impl SourceReader for CgroupReader {
    fn read(&mut self, into: &mut Reading) {
        for CgroupFile { scope, file, numbers, .. } in &self.files {
            let Some(text) = file.read(&mut self.buffer) else { continue };
            for (at, metric, unit) in numbers {
                if let Some(value) = at.find(text) {
                    into.put(Of::Scope(*scope), metric, unit(value));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn values(files: &[(&str, &str)]) -> BTreeMap<String, f64> {
        let keep = tare_testkit::files::tree(files);
        let scope = Scope { name: "s".to_owned(), serving: true, pids: vec![1], cgroups: vec!["/".to_owned()] };
        let mut reading = Reading::new(1);
        CgroupReader::new(&Root::at(keep.path()), &[scope]).read(&mut reading);
        reading.values(Of::Scope(0))
    }

    fn wanted(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn a_quota_is_told_and_none_is_absent() {
        let quota = wanted(&[("cpu_quota_s", 0.06), ("cpu_period_s", 0.1)]);
        assert_eq!(values(&[("cpu.cfs_quota_us", "60000\n"), ("cpu.cfs_period_us", "100000\n")]), quota);
        assert_eq!(values(&[("cpu.max", "60000 100000\n")]), quota);
        let none = wanted(&[("cpu_period_s", 0.1)]);
        assert_eq!(values(&[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")]), none);
        assert_eq!(values(&[("cpu.max", "max 100000\n")]), none);
    }

    /// Recorded on Linux 6.18: a shell that read a file larger than its limit twice, then asked for more than it had.
    #[test]
    fn reclaim_of_version_1() {
        let all = values(&[
            ("memory.failcnt", include_str!("fixtures/v1-memory.failcnt")),
            ("memory.oom_control", include_str!("fixtures/v1-memory.oom_control")),
            ("memory.stat", include_str!("fixtures/v1-memory.stat")),
        ]);
        assert_eq!(all, wanted(&[("memory_limit_hits", 4857.0), ("oom_kills", 1.0), ("refaults", 117_912.0)]));
    }

    #[test]
    fn reclaim_of_version_2() {
        let events = "low 0\nhigh 3\nmax 35\noom 1\noom_kill 1\noom_group_kill 0\n";
        let stat = "anon 4096\nfile 0\nworkingset_refault_anon 2\nworkingset_refault_file 40\n\
                    pgscan 900\npgsteal 700\npgsteal_kswapd 500\npgsteal_direct 200\npgfault 5\n";
        let all = values(&[("memory.events", events), ("memory.stat", stat)]);
        let figures = [("memory_limit_hits", 38.0), ("oom_kills", 1.0), ("reclaimed_pages", 700.0), ("refaults", 42.0)];
        assert_eq!(all, wanted(&figures));
        let parts = values(&[("memory.stat", "workingset_refault 9\npgsteal_kswapd 5\npgsteal_direct 2\n")]);
        assert_eq!(parts, wanted(&[("reclaimed_pages", 7.0), ("refaults", 9.0)]));
        assert_eq!(values(&[("memory.stat", "anon 4096\n")]), BTreeMap::new());
    }
}
