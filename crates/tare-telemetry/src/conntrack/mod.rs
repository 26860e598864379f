//! The connection tracking table, by which addresses are translated on the way to a published port.

use crate::root::{KeptFile, Root};
use crate::scan::{hexadecimal, lines, number, words};
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "conntrack",
    about: "tracked connections: how many there are, and what the table refused",
    metrics: &["conntrack_entries", "conntrack_found", INSERTED, "conntrack_drops"],
    probe,
    reader: |root, _| Box::new(ConntrackReader::new(root)),
};

const INSERTED: &str = "conntrack_inserted";
const ENTRIES: &str = "proc/sys/net/netfilter/nf_conntrack_count";

fn probe(root: &Root) -> SourceState {
    if root.has(ENTRIES) {
        return SourceState::Ready;
    }
    SourceState::Unavailable {
        why: "connections are not tracked: nf_conntrack is not loaded".to_owned(),
        how_to_check: "lsmod | grep nf_conntrack; modprobe nf_conntrack, or start the container engine, which does"
            .to_owned(),
    }
}

/// The columns that add up to each metric.
const COLUMNS: &[(&str, &[&str])] = &[
    ("conntrack_found", &["found"]),
    (INSERTED, &["insert"]),
    ("conntrack_drops", &["drop", "early_drop", "insert_failed"]),
];

struct ConntrackReader {
    entries: Option<KeptFile>,
    counters: Option<KeptFile>,
    buffer: Vec<u8>,
}

impl ConntrackReader {
    fn new(root: &Root) -> ConntrackReader {
        let open = |path: &str| KeptFile::open(root.path(path));
        let counters = open("proc/self/net/stat/nf_conntrack").or_else(|| open("proc/net/stat/nf_conntrack"));
        ConntrackReader { entries: open(ENTRIES), counters, buffer: Vec::new() }
    }
}

impl SourceReader for ConntrackReader {
    fn read(&mut self, into: &mut Reading) {
        let entries = self.entries.as_ref().and_then(|file| file.read(&mut self.buffer));
        if let Some(entries) = entries.and_then(|text| number(text.trim_ascii())) {
            into.put(Of::Machine, "conntrack_entries", entries as f64);
        }
        let Some(text) = self.counters.as_ref().and_then(|file| file.read(&mut self.buffer)) else { return };
        for (metric, names) in COLUMNS {
            // Newer kernels leave the column `insert` at 0: not counted is not the same as none.
            let uncounted = |count: &u64| *metric == INSERTED && *count == 0;
            if let Some(count) = counted(text, names).filter(|count| !uncounted(count)) {
                into.put(Of::Machine, metric, count as f64);
            }
        }
    }
}

/// The sum of the columns of these names over the rows, one for each CPU; none where there is no such column.
fn counted(text: &[u8], names: &[&str]) -> Option<u64> {
    let mut rows = lines(text);
    let wanted = |name: &[u8]| names.iter().any(|wanted| wanted.as_bytes() == name);
    let columns: Vec<bool> = words(rows.next()?).map(wanted).collect();
    let of_row = |row| words(row).zip(&columns).filter(|(_, wanted)| **wanted).map(|(word, _)| hexadecimal(word));
    columns.contains(&true).then(|| rows.flat_map(of_row).flatten().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_testkit::files::write;

    #[test]
    fn linux_6_18() {
        let text = include_bytes!("fixtures/nf_conntrack-6.18");
        let sums = COLUMNS.iter().map(|(_, names)| counted(text, names)).collect::<Vec<_>>();
        assert_eq!(sums, [Some(0); 3]);
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = b"entries  searched found new drop early_drop insert insert_failed\n\
                     0000000a 00000001 00000010 00000002 00000001 00000002 00000005 00000004\n\
                     0000000a 00000001 00000001 00000002 00000000 00000000 00000001 00000000\n";
        let sums = COLUMNS.iter().map(|(_, names)| counted(text, names)).collect::<Vec<_>>();
        assert_eq!(sums, [Some(17), Some(6), Some(7)]);
        assert_eq!((counted(b"entries\n00000001\n", &["found"]), counted(b"", &["found"])), (None, None));
    }

    #[test]
    fn entries_are_a_gauge_and_no_counters_are_needed() {
        let keep = tempfile::tempdir().unwrap();
        let root = Root::at(keep.path());
        assert!(matches!(probe(&root), SourceState::Unavailable { .. }));
        write(&root.path(ENTRIES), "27\n");
        assert_eq!(probe(&root), SourceState::Ready);
        let values = || {
            let mut reading = Reading::new(0);
            ConntrackReader::new(&root).read(&mut reading);
            reading.values(Of::Machine)
        };
        assert_eq!(values(), [("conntrack_entries".to_owned(), 27.0)].into());
        write(&root.path("proc/net/stat/nf_conntrack"), include_str!("fixtures/nf_conntrack-6.18"));
        let counters = [("conntrack_drops".to_owned(), 0.0), ("conntrack_found".to_owned(), 0.0)];
        assert_eq!(values(), [("conntrack_entries".to_owned(), 27.0)].into_iter().chain(counters).collect());
    }
}
