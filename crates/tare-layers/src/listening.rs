//! At which TCP addresses a service listens and at which UDP ports it receives, whatever its workload declares.

use crate::cgroup::members_of_all;
use crate::processes;
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use tare_core::telemetry::Scope;

/// The kernel's TCP_LISTEN, as /proc/net/tcp writes it.
const LISTENING: &str = "0A";
/// The kernel's TCP_CLOSE: in /proc/net/udp, a socket that receives from anybody.
const UNCONNECTED: &str = "07";

/// A listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listener {
    /// Where it listens; an unspecified address means all.
    pub(crate) address: SocketAddr,
    /// The number of its inode, by which the descriptors of processes name it.
    pub(crate) inode: u64,
}

/// The network namespace of a process.
pub fn network_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Where the processes of a scope listen in this network namespace. An unspecified address means all. What they do in
/// namespaces that they have made themselves nobody can reach. What cannot be read, such as a process that has just
/// ended, is left out.
pub fn addresses(scope: &Scope, network: &Path) -> BTreeSet<SocketAddr> {
    places(scope, network, ["tcp", "tcp6"], LISTENING)
}

/// The UDP ports at which the processes of a scope receive from anybody in this network namespace; otherwise as
/// [`addresses`].
pub fn datagram_ports(scope: &Scope, network: &Path) -> BTreeSet<u16> {
    places(scope, network, ["udp", "udp6"], UNCONNECTED).iter().map(SocketAddr::port).filter(|port| *port > 0).collect()
}

/// The addresses of sockets in `state` in these tables of the kernel.
fn places(scope: &Scope, network: &Path, tables: [&str; 2], state: &str) -> BTreeSet<SocketAddr> {
    let mut table: Option<Vec<Listener>> = None;
    let mut found = BTreeSet::new();
    for pid in processes_of(scope) {
        if network_of(pid).is_none_or(|own| own != network) {
            continue;
        }
        let own = sockets(pid);
        // Of one that has just ended there is no table.
        table = table.or_else(|| sockets_beside(pid, tables, state));
        let table = table.as_deref().unwrap_or_default();
        found.extend(table.iter().filter(|listener| own.contains(&listener.inode)).map(|listener| listener.address));
    }
    found
}

/// Its processes and their descendants, and those in its control groups.
fn processes_of(scope: &Scope) -> BTreeSet<u32> {
    let mut found: BTreeSet<u32> = scope.pids.iter().copied().collect();
    found.extend(scope.pids.iter().flat_map(|pid| processes::descendants(*pid)));
    found.extend(members_of_all(&scope.cgroups));
    found
}

/// All sockets in `state` in the network namespace of a process; none if it has ended.
fn sockets_beside(pid: u32, tables: [&str; 2], state: &str) -> Option<Vec<Listener>> {
    let tables = tables.map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    tables[0].as_ref().ok()?;
    Some(tables.iter().flatten().flat_map(|text| in_state(text, state)).collect())
}

/// The inodes of the sockets that a process has open.
fn sockets(pid: u32) -> BTreeSet<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let inode = |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    entries.filter_map(|entry| inode(fs::read_link(entry.ok()?.path()).ok()?)).collect()
}

/// The listening sockets in the text of /proc/net/tcp or tcp6.
pub(crate) fn listeners(text: &str) -> Vec<Listener> {
    in_state(text, LISTENING)
}

/// The sockets in `state` in the text of such a table.
fn in_state(text: &str, state: &str) -> Vec<Listener> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let address = parse_address(fields.get(1)?)?;
        let inode = fields.get(9)?.parse().ok()?;
        (*fields.get(3)? == state).then_some(Listener { address, inode })
    };
    text.lines().skip(1).filter_map(parse).collect()
}

/// An address as the kernel writes it: words in the order of packets, as hexadecimal numbers of this machine.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let address = match address.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(8 * at)?);
            }
            IpAddr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn own_listeners_are_found_and_those_of_others_are_not() {
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        let every = TcpListener::bind("[::]:0");
        let here = network_of(std::process::id()).unwrap();
        let scope = |pid: u32| Scope { name: "s".to_owned(), serving: true, pids: vec![pid], cgroups: Vec::new() };
        let found = addresses(&scope(std::process::id()), &here);
        assert!(found.contains(&own.local_addr().unwrap()), "{found:?}");
        let elsewhere = addresses(&scope(std::process::id()), Path::new("net:[1]"));
        assert_eq!(elsewhere, BTreeSet::new(), "what is in another network cannot be reached from here");
        if let Ok(every) = &every {
            assert!(found.contains(&every.local_addr().unwrap()), "{found:?}");
        }
        assert_eq!(addresses(&scope(u32::MAX), &here), BTreeSet::new(), "there is no such process");
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = addresses(&scope(other.id()), &here);
        other.kill().and_then(|()| other.wait()).unwrap();
        assert!(!found.contains(&own.local_addr().unwrap()), "{found:?}");
    }

    #[test]
    fn ports_that_receive_from_anybody_are_found() {
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let bound = UdpSocket::bind("127.0.0.1:0").unwrap();
        bound.connect(own.local_addr().unwrap()).unwrap();
        let here = network_of(std::process::id()).unwrap();
        let pids = vec![std::process::id()];
        let scope = Scope { name: "s".to_owned(), serving: true, pids, cgroups: Vec::new() };
        let found = datagram_ports(&scope, &here);
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
        assert!(found.contains(&port(&own)) && !found.contains(&port(&bound)), "{found:?}");
    }

    #[test]
    fn only_listening_sockets_count() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000   108        0 4242 1 0\n   \
                    1: 0100007F:18EB 0100007F:C350 01 00000000:00000000 00:00000000 00000000   108        0 4343 1 0\n   \
                    2: not-an-address 0 0A 0 0 0 0 0 1 0 0\n";
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        // The kernel writes as the processor counts.
        if cfg!(target_endian = "little") {
            assert_eq!(listeners(text), [Listener { address: address("127.0.0.1:6379"), inode: 4242 }]);
            let at = |text: &str| parse_address(text).unwrap();
            assert_eq!(at("00000000000000000000000001000000:1F90"), address("[::1]:8080"));
            assert_eq!(at("0000000000000000FFFF00000100007F:0050"), address("127.0.0.1:80"), "IPv4 in IPv6");
        }
        assert_eq!(parse_address("00000000:0050"), Some(address("0.0.0.0:80")));
        assert_eq!(parse_address(&format!("{}:0050", "0".repeat(32))), Some(address("[::]:80")));
        assert_eq!(["", ":", "0:1", "0000000g:1", "00000000:10000"].map(parse_address), [None; 5]);
    }
}
