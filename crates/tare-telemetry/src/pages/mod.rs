//! How memory is laid out: in huge or small pages, on the node of the CPU that asked for it or on another.

use crate::pace::Pace;
use crate::proc::Members;
use crate::root::{KeptFile, Root, read_once};
use crate::scan::{keyed, lines, words};
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::telemetry::Scope;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "pages",
    about: "memory of services in huge pages, and pages allocated on their own node or another",
    metrics: &["huge_bytes", "numa_local_pages", "numa_remote_pages"],
    probe,
    reader: |root, scopes| Box::new(PagesReader::new(root, scopes)),
};

const NODES: &str = "sys/devices/system/node";

fn probe(root: &Root) -> SourceState {
    if root.has("proc/self/smaps_rollup") || root.has(format!("{NODES}/node0/numastat")) {
        return SourceState::Ready;
    }
    SourceState::Unavailable {
        why: "the kernel (before 4.14, or without NUMA) reports neither huge pages nor memory by node".to_owned(),
        how_to_check: format!("cat /proc/self/smaps_rollup /{NODES}/node0/numastat"),
    }
}

/// For a `smaps_rollup` the kernel walks all pages of a process while holding its lock. So it is read only every few
/// samples, and less often if that takes more than this share of a CPU.
const EVERY: u32 = 5;
const SHARE: f64 = 0.0005;

/// What counts as huge, in kB. Memory of hugetlbfs is not part of the resident set.
const HUGE: [&str; 5] = ["AnonHugePages", "ShmemPmdMapped", "FilePmdMapped", "Private_Hugetlb", "Shared_Hugetlb"];

struct PagesReader {
    root: Root,
    scopes: Vec<Scope>,
    members: Members,
    processes: BTreeMap<u32, usize>,
    samples: u32,
    pace: Pace,
    huge: Vec<Option<f64>>,
    nodes: Vec<KeptFile>,
    buffer: Vec<u8>,
}

impl PagesReader {
    fn new(root: &Root, scopes: &[Scope]) -> PagesReader {
        let is_node = |name: &String| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
        let nodes = root.names(NODES).into_iter().filter(is_node);
        PagesReader {
            root: root.clone(),
            scopes: scopes.to_vec(),
            members: Members::new(root, scopes),
            processes: BTreeMap::new(),
            samples: 0,
            pace: Pace::new(SHARE),
            huge: vec![None; scopes.len()],
            nodes: nodes.filter_map(|name| KeptFile::open(root.path(format!("{NODES}/{name}/numastat")))).collect(),
            buffer: Vec::new(),
        }
    }

    fn read_huge(&mut self) {
        self.members.join_cgroups(&self.root, &self.scopes, &mut self.buffer);
        if let Some(listed) = self.members.listed(&self.root, &mut self.buffer) {
            self.members.forget_gone();
            let settled = self.members.settle(listed);
            self.processes.extend(settled.into_iter().filter(|(_, scope)| self.scopes[*scope].serving));
        }
        self.huge.fill(None);
        let PagesReader { root, processes, huge, buffer, .. } = self;
        processes.retain(|pid, scope| {
            let path = root.path(format!("proc/{pid}/smaps_rollup"));
            let bytes = read_once(&path, buffer).and_then(huge_bytes);
            if let Some(bytes) = bytes {
                *huge[*scope].get_or_insert_default() += bytes;
            }
            bytes.is_some()
        });
    }
}

impl SourceReader for PagesReader {
    fn read(&mut self, into: &mut Reading) {
        if self.samples.is_multiple_of(EVERY)
            && let Some(begun) = self.pace.begin()
        {
            self.read_huge();
            self.pace.end(begun, Duration::ZERO);
        }
        self.samples = self.samples.wrapping_add(1);
        for (scope, bytes) in self.huge.iter().enumerate() {
            if let Some(bytes) = bytes {
                into.put(Of::Scope(scope), "huge_bytes", *bytes);
            }
        }
        let mut sums: [Option<u64>; 2] = [None; 2];
        for node in &self.nodes {
            let Some(text) = node.read(&mut self.buffer) else { continue };
            for (sum, key) in sums.iter_mut().zip(["local_node", "other_node"]) {
                *sum = keyed(text, key).map(|pages| sum.unwrap_or(0) + pages).or(*sum);
            }
        }
        for (sum, metric) in sums.into_iter().zip(["numa_local_pages", "numa_remote_pages"]) {
            if let Some(pages) = sum {
                into.put(Of::Machine, metric, pages as f64);
            }
        }
    }
}

/// Bytes in huge pages according to a `smaps_rollup`. Kernels before 5.4 do not count huge pages of files; the text is
/// empty for a process that is gone or has no memory of its own.
fn huge_bytes(text: &[u8]) -> Option<f64> {
    let known = |line: &[u8]| {
        let key = words(line).next()?.strip_suffix(b":")?;
        let key = HUGE.iter().find(|known| known.as_bytes() == key)?;
        keyed(line, key)
    };
    lines(text).filter_map(known).reduce(|sum, kilobytes| sum + kilobytes).map(|sum| sum as f64 * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded of a program that asked for 16 MiB of huge pages and wrote to them.
    #[test]
    fn linux_6_18() {
        assert_eq!(huge_bytes(include_bytes!("fixtures/smaps_rollup-6.18")), Some(16_777_216.0));
        assert_eq!(huge_bytes(b"Rss: 8 kB\nAnonHugePages: 2048 kB\nShared_Hugetlb: 4096 kB\n"), Some(6_291_456.0));
        assert_eq!((huge_bytes(b""), huge_bytes(b"Rss: 8 kB\n")), (None, None));
    }

    #[test]
    fn nodes_add_up_and_huge_pages_are_read_now_and_then() {
        let keep = tempfile::tempdir().unwrap();
        let root = Root::at(keep.path());
        assert!(matches!(probe(&root), SourceState::Unavailable { .. }));
        let write = |file: &str, text: &str| drop(tare_testkit::files::write(&root.path(file), text));
        for (node, local) in [(0, 100), (1, 20)] {
            let text = format!("numa_hit 1\nnuma_miss 0\nlocal_node {local}\nother_node 7\n");
            write(&format!("{NODES}/node{node}/numastat"), &text);
        }
        write("proc/10/stat", "10 (x) S 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 10 4096 1 0\n");
        write("proc/10/smaps_rollup", "AnonHugePages: 2048 kB\n");
        assert_eq!(probe(&root), SourceState::Ready);
        let scope = Scope { name: "s".to_owned(), serving: true, pids: vec![10], cgroups: Vec::new() };
        let mut reader = PagesReader::new(&root, &[scope]);
        reader.pace = Pace::new(f64::INFINITY);
        let mut reading = Reading::new(1);
        let mut sample = |reading: &mut Reading| {
            reading.start();
            reader.read(reading);
            reading.values(Of::Scope(0)).get("huge_bytes").copied()
        };
        assert_eq!(sample(&mut reading), Some(2_097_152.0));
        assert_eq!(reading.values(Of::Machine)["numa_local_pages"], 120.0);
        assert_eq!(reading.values(Of::Machine)["numa_remote_pages"], 14.0);
        write("proc/10/smaps_rollup", "AnonHugePages: 0 kB\n");
        let later: Vec<Option<f64>> = (0..5).map(|_| sample(&mut reading)).collect();
        assert_eq!(later, [2_097_152.0, 2_097_152.0, 2_097_152.0, 2_097_152.0, 0.0].map(Some));
    }
}
