//! Sockets of scopes with a network namespace of their own, such as containers on a bridge: retransmits, and drops at
//! full queues. The machine's own namespace is counted in the machine's row.
//!
//! Each namespace counts once for a scope, however many of its processes are in it, starting when it is first seen.

mod counts;

use crate::pace::Pace;
use crate::proc::Members;
use crate::root::{Root, read_once};
use crate::source::{Of, Reading, SourceReader, SourceRow, SourceState};
pub(crate) use counts::NAMES;
pub(crate) use counts::counts;
use counts::{COUNTERS, Counts};
use std::path::PathBuf;
use std::time::Duration;
use tare_core::telemetry::Scope;

/// The row of [`crate::SOURCES`].
pub const ROW: SourceRow = SourceRow {
    name: "sockets",
    about: "drops and retransmits of services in network namespaces of their own",
    metrics: &NAMES,
    probe,
    reader: |root, scopes| Box::new(SocketsReader::new(root, scopes)),
};

fn probe(root: &Root) -> SourceState {
    let why = if own_namespace(root).is_none() {
        "the kernel does not show which network namespace a process is in"
    } else if !root.has("proc/self/net/netstat") {
        "the kernel has no counters of sockets"
    } else {
        return SourceState::Ready;
    };
    let how_to_check = "as root: readlink /proc/self/ns/net; cat /proc/self/net/netstat".to_owned();
    SourceState::Unavailable { why: why.to_owned(), how_to_check }
}

fn own_namespace(root: &Root) -> Option<PathBuf> {
    std::fs::read_link(root.path("proc/self/ns/net")).ok()
}

/// How often processes are searched, and the share of a CPU that this may take.
const FINDING: (Duration, f64) = (Duration::from_secs(5), 0.0005);

struct SocketsReader {
    root: Root,
    scopes: Vec<Scope>,
    own: Option<PathBuf>,
    members: Members,
    finding: Pace,
    spaces: Vec<Namespace>,
    netstat: Vec<u8>,
    snmp: Vec<u8>,
}

/// A network namespace of a scope.
struct Namespace {
    scope: usize,
    /// Its name, such as `net:[4026532281]`.
    link: PathBuf,
    /// Processes seen in it.
    pids: Vec<u32>,
    first: Counts,
    last: Counts,
}

impl SocketsReader {
    fn new(root: &Root, scopes: &[Scope]) -> SocketsReader {
        SocketsReader {
            root: root.clone(),
            scopes: scopes.to_vec(),
            own: own_namespace(root),
            members: Members::new(root, scopes),
            finding: Pace::new(FINDING.1),
            spaces: Vec::new(),
            netstat: Vec::new(),
            snmp: Vec::new(),
        }
    }

    fn find(&mut self) {
        self.members.join_cgroups(&self.root, &self.scopes, &mut self.netstat);
        let Some(listed) = self.members.listed(&self.root, &mut self.netstat) else { return };
        self.members.forget_gone();
        for (pid, scope) in self.members.settle(listed) {
            let link = std::fs::read_link(self.root.path(format!("proc/{pid}/ns/net"))).ok();
            let Some(link) = link.filter(|link| self.own.as_ref().is_some_and(|own| own != link)) else { continue };
            let known = self.spaces.iter_mut().find(|space| space.scope == scope && space.link == link);
            match known {
                Some(space) if space.pids.contains(&pid) => {}
                Some(space) => space.pids.push(pid),
                None => {
                    let (first, last) = (Counts::default(), Counts::default());
                    self.spaces.push(Namespace { scope, link, pids: vec![pid], first, last });
                }
            }
        }
    }
}

impl Namespace {
    /// Reads it through a process that is still in it. Its files are not held open, because that would keep the
    /// namespace alive.
    fn read(&mut self, root: &Root, netstat: &mut Vec<u8>, snmp: &mut Vec<u8>) {
        let link = &self.link;
        let inside =
            |pid: &u32| std::fs::read_link(root.path(format!("proc/{pid}/ns/net"))).is_ok_and(|is| is == *link);
        while let Some(pid) = self.pids.first() {
            if !inside(pid) {
                self.pids.swap_remove(0);
                continue;
            }
            let net = root.path(format!("proc/{pid}/net"));
            let netstat = read_once(&net.join("netstat"), netstat).unwrap_or_default();
            let snmp = read_once(&net.join("snmp"), snmp).unwrap_or_default();
            for (index, now) in counts(netstat, snmp).into_iter().enumerate() {
                if let Some(now) = now {
                    self.first[index].get_or_insert(now);
                    self.last[index] = Some(self.last[index].map_or(now, |last| last.max(now)));
                }
            }
            return;
        }
    }

    /// What it has counted since it was first seen.
    fn counted(&self, index: usize) -> Option<f64> {
        Some(self.last[index]? - self.first[index]?)
    }
}

impl SourceReader for SocketsReader {
    fn read(&mut self, into: &mut Reading) {
        if let Some(begun) = self.finding.begin() {
            self.find();
            self.finding.end(begun, FINDING.0);
        }
        for space in &mut self.spaces {
            space.read(&self.root, &mut self.netstat, &mut self.snmp);
        }
        for scope in 0..self.scopes.len() {
            let own = || self.spaces.iter().filter(move |space| space.scope == scope);
            for (index, name) in NAMES.iter().enumerate().take(COUNTERS) {
                // The last counts of namespaces that are gone stay in the sum, so that it never falls.
                if own().any(|space| space.counted(index).is_some()) {
                    into.put(Of::Scope(scope), name, own().filter_map(|space| space.counted(index)).sum());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn process(root: &Path, pid: u32, parent: u32, namespace: &str, overflows: u32) {
        let directory = root.join(format!("proc/{pid}"));
        std::fs::create_dir_all(directory.join("ns")).unwrap();
        std::fs::create_dir_all(directory.join("net")).unwrap();
        let stat = format!("{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 10 4096 1 0\n");
        std::fs::write(directory.join("stat"), stat).unwrap();
        let netstat = format!("TcpExt: ListenOverflows ListenDrops\nTcpExt: {overflows} 0\n");
        std::fs::write(directory.join("net/netstat"), netstat).unwrap();
        let _ = symlink(namespace, directory.join("ns/net"));
    }

    fn values(reader: &mut SocketsReader, scope: usize) -> BTreeMap<String, f64> {
        let mut reading = Reading::new(2);
        reader.read(&mut reading);
        reading.values(Of::Scope(scope))
    }

    #[test]
    fn a_process_in_a_network_of_its_own_is_told_of() {
        let root = Root::machine();
        let mut child = std::process::Command::new("unshare").args(["-n", "sleep", "60"]).spawn().unwrap();
        let link = root.path(format!("proc/{}/ns/net", child.id()));
        let moved = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            std::fs::read_link(&link).ok() != own_namespace(&root)
        });
        if !moved || child.try_wait().unwrap().is_some() || probe(&root) != SourceState::Ready {
            println!("skipped: no network namespace can be made here");
        } else {
            let pids = vec![child.id()];
            let scope = Scope { name: "s".to_owned(), serving: true, pids, cgroups: Vec::new() };
            let told = values(&mut SocketsReader::new(&root, &[scope]), 0);
            assert_eq!((told["listen_drops"], told["tcp_retransmits"]), (0.0, 0.0));
        }
        let _ = child.kill();
        child.wait().unwrap();
    }

    #[test]
    fn a_namespace_counts_once_and_from_when_it_was_first_seen() {
        let keep = tempfile::tempdir().unwrap();
        let root = Root::at(keep.path());
        assert!(matches!(probe(&root), SourceState::Unavailable { .. }));
        std::fs::create_dir_all(keep.path().join("proc/self/ns")).unwrap();
        symlink("net:[1]", keep.path().join("proc/self/ns/net")).unwrap();
        process(keep.path(), 10, 1, "net:[2]", 5);
        process(keep.path(), 11, 10, "net:[2]", 5);
        process(keep.path(), 20, 1, "net:[1]", 900);
        let scope = |pid| Scope { name: "s".to_owned(), serving: true, pids: vec![pid], cgroups: Vec::new() };
        let mut reader = SocketsReader::new(&root, &[scope(10), scope(20)]);
        let first = BTreeMap::from([("listen_drops".to_owned(), 0.0), ("listen_overflows".to_owned(), 0.0)]);
        assert_eq!(values(&mut reader, 0), first);
        process(keep.path(), 11, 10, "net:[2]", 8);
        std::fs::remove_dir_all(keep.path().join("proc/10")).unwrap();
        assert_eq!(values(&mut reader, 0)["listen_overflows"], 3.0, "told by who is left");
        std::fs::remove_dir_all(keep.path().join("proc/11")).unwrap();
        assert_eq!(values(&mut reader, 0)["listen_overflows"], 3.0, "kept when it is gone");
        assert!(values(&mut reader, 1).is_empty(), "the machine's own namespace is the machine's");
    }
}
