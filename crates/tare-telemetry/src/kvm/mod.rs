//! VM exits, as KVM counts them in debugfs: what a guest costs on top of its own work.

use crate::parts::Parts;
use crate::proc::named;
use crate::root::{KeptFile, Root};
use crate::scan::number;
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
use std::collections::HashMap;
use tare_core::telemetry::Scope;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "kvm",
    about: "VM exits by reason, from KVM's own counters",
    metrics: &NAMES,
    probe,
    reader: |root, scopes| Box::new(KvmReader::new(root, scopes)),
};

const REASONS: usize = 4;
const NAMES: [&str; REASONS] = ["kvm_exits", "kvm_halt_exits", "kvm_io_exits", "kvm_mmio_exits"];

/// The files of each reason, on x86 and then on Arm; those of a reason that exist are added up.
const FILES: [&[&str]; REASONS] = [
    &["exits"],
    &["halt_exits", "wfi_exit_stat", "wfe_exit_stat"],
    &["io_exits"],
    &["mmio_exits", "mmio_exit_user", "mmio_exit_kernel"],
];

const DIRECTORY: &str = "sys/kernel/debug/kvm";

fn probe(root: &Root) -> SourceState {
    let (why, how_to_check) = if root.number(format!("{DIRECTORY}/exits")).is_some() {
        return SourceState::Ready;
    } else if root.has(format!("{DIRECTORY}/exits")) {
        // A kernel that is locked down denies debugfs even to root.
        (
            "the kernel refuses to show KVM's counters",
            "as root: cat /sys/kernel/debug/kvm/exits /sys/kernel/security/lockdown",
        )
    } else if root.has("sys/module/kvm") || root.has("dev/kvm") {
        let mount = "as root: mount -t debugfs none /sys/kernel/debug; cat /sys/kernel/debug/kvm/exits";
        ("KVM's counters cannot be read: debugfs is not mounted, not built in or not open to this user", mount)
    } else {
        ("KVM is not loaded, so no guest runs under it", "ls /dev/kvm; modprobe kvm_intel or kvm_amd")
    };
    SourceState::Unavailable { why: why.to_owned(), how_to_check: how_to_check.to_owned() }
}

/// A guest that runs: `kvm/<pid>-<number>`.
struct Guest {
    files: Vec<(usize, KeptFile)>,
    scope: Option<usize>,
}

struct KvmReader {
    root: Root,
    owners: HashMap<u32, usize>,
    guests: HashMap<String, Guest>,
    /// First for the machine, then for each scope.
    parts: Vec<Parts<REASONS>>,
    told: Vec<[bool; REASONS]>,
    buffer: Vec<u8>,
}

impl KvmReader {
    fn new(root: &Root, scopes: &[Scope]) -> KvmReader {
        let subjects = scopes.len() + 1;
        KvmReader {
            root: root.clone(),
            owners: named(scopes),
            guests: HashMap::new(),
            parts: (0..subjects).map(|_| Parts::default()).collect(),
            told: vec![[false; REASONS]; subjects],
            buffer: Vec::new(),
        }
    }

    fn guest(&self, name: &str) -> Guest {
        let open = |file: &&str| KeptFile::open(self.root.path(format!("{DIRECTORY}/{name}/{file}")));
        let of_reason = |(reason, files): (usize, &&[&str])| {
            files.iter().filter_map(open).map(move |file| (reason, file)).collect::<Vec<_>>()
        };
        let pid = name.split_once('-').and_then(|(pid, _)| pid.parse().ok());
        Guest {
            files: FILES.iter().enumerate().flat_map(of_reason).collect(),
            scope: pid.and_then(|pid: u32| self.owners.get(&pid)).copied(),
        }
    }
}

impl SourceReader for KvmReader {
    fn read(&mut self, into: &mut Reading) {
        let guests = self.root.names(DIRECTORY).into_iter().filter(|name| name.contains('-'));
        let now: Vec<String> = guests.collect();
        self.guests.retain(|name, _| now.contains(name));
        for name in now {
            if !self.guests.contains_key(&name) {
                let guest = self.guest(&name);
                self.guests.insert(name, guest);
            }
        }
        self.parts.iter_mut().for_each(Parts::start);
        for (name, guest) in &self.guests {
            let mut exits = [0.0; REASONS];
            for subject in std::iter::once(0).chain(guest.scope.map(|scope| scope + 1)) {
                guest.files.iter().for_each(|(reason, _)| self.told[subject][*reason] = true);
            }
            for (reason, file) in &guest.files {
                let count = file.read(&mut self.buffer).and_then(|text| number(text.trim_ascii()));
                exits[*reason] += count.unwrap_or(0) as f64;
            }
            for subject in std::iter::once(0).chain(guest.scope.map(|scope| scope + 1)) {
                self.parts[subject].put(name.as_bytes(), exits);
            }
        }
        for (subject, (parts, told)) in self.parts.iter_mut().zip(&self.told).enumerate() {
            let of = if subject == 0 { Of::Machine } else { Of::Scope(subject - 1) };
            let sums = parts.sums();
            for (name, (sum, told)) in NAMES.iter().zip(sums.iter().zip(told)) {
                if *told {
                    into.put(of, name, *sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn guest(root: &Root, name: &str, files: &[(&str, u64)]) {
        let directory = root.path(format!("{DIRECTORY}/{name}"));
        std::fs::create_dir_all(&directory).unwrap();
        for (file, count) in files {
            std::fs::write(directory.join(file), format!("{count}\n")).unwrap();
        }
    }

    #[test]
    fn guests_add_up_and_those_that_end_keep_what_they_had() {
        let keep = tempfile::tempdir().unwrap();
        let root = Root::at(keep.path());
        let said = |root: &Root| match probe(root) {
            SourceState::Unavailable { how_to_check, .. } => how_to_check,
            SourceState::Ready => panic!("there is no KVM"),
        };
        assert!(said(&root).contains("modprobe"));
        std::fs::create_dir_all(root.path("sys/module/kvm")).unwrap();
        assert!(said(&root).contains("mount -t debugfs"));
        guest(&root, "", &[]);
        std::fs::write(root.path(format!("{DIRECTORY}/exits")), "").unwrap();
        assert!(said(&root).contains("lockdown"));

        guest(&root, "", &[("exits", 0)]);
        assert_eq!(probe(&root), SourceState::Ready);
        let scope = Scope { name: "s".to_owned(), serving: true, pids: vec![70], cgroups: Vec::new() };
        let mut reader = KvmReader::new(&root, &[scope]);
        let mut reading = Reading::new(1);
        let mut values = |of| {
            reading.start();
            reader.read(&mut reading);
            reading.values(of)
        };
        assert_eq!(values(Of::Machine), BTreeMap::new(), "without a guest there is nothing to count");
        let all = [("exits", 1000), ("halt_exits", 200), ("io_exits", 30), ("mmio_exits", 4), ("tlb_flush", 9)];
        guest(&root, "70-11", &all);
        guest(&root, "71-11", &[("exits", 10), ("wfi_exit_stat", 3), ("mmio_exit_user", 2)]);
        let machine = values(Of::Machine);
        assert_eq!(NAMES.map(|name| machine[name]), [1010.0, 203.0, 30.0, 6.0]);
        assert_eq!(NAMES.map(|name| values(Of::Scope(0))[name]), [1000.0, 200.0, 30.0, 4.0]);
        std::fs::remove_dir_all(root.path(format!("{DIRECTORY}/70-11"))).unwrap();
        assert_eq!(values(Of::Machine)["kvm_exits"], 1010.0);
    }
}
