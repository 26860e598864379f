//! The socket counters of a network namespace, from its `netstat` and `snmp`.

use crate::scan::pairs;

/// How many counters there are.
pub(crate) const COUNTERS: usize = 8;

/// Their metrics, in their order.
pub(crate) const NAMES: [&str; COUNTERS] = [
    "tcp_retransmits",
    "listen_drops",
    "listen_overflows",
    "syn_retransmits",
    "receive_drops",
    "request_queue_full",
    "zero_windows",
    "connections_accepted",
];

/// The names that add up to each counter. Kernels before 4.20 do not have all of them.
const OF_NETSTAT: &[(&str, usize)] = &[
    ("ListenDrops", 1),
    ("ListenOverflows", 2),
    ("TCPSynRetrans", 3),
    ("TCPRcvQDrop", 4),
    ("TCPBacklogDrop", 4),
    ("TCPReqQFullDrop", 5),
    ("TCPReqQFullDoCookies", 5),
    ("TCPToZeroWindowAdv", 6),
];

/// The same of `snmp`, with their groups.
const OF_SNMP: &[(&str, &str, usize)] =
    &[("Tcp:", "RetransSegs", 0), ("Udp:", "RcvbufErrors", 4), ("Tcp:", "PassiveOpens", 7)];

/// The counters. A counter is absent if neither file has any part of it.
pub(crate) type Counts = [Option<f64>; COUNTERS];

/// Reads both files; an empty text stands for one that cannot be read.
pub(crate) fn counts(netstat: &[u8], snmp: &[u8]) -> Counts {
    let mut counts = Counts::default();
    let mut add = |counter: usize, value: u64| *counts[counter].get_or_insert_default() += value as f64;
    for (name, value) in pairs(netstat, "TcpExt:") {
        if let Some((_, counter)) = OF_NETSTAT.iter().find(|(known, _)| known.as_bytes() == name) {
            add(*counter, value);
        }
    }
    for (group, known, counter) in OF_SNMP {
        if let Some((_, value)) = pairs(snmp, group).find(|(name, _)| *name == known.as_bytes()) {
            add(*counter, value);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_6_18() {
        let netstat = include_bytes!("fixtures/netstat-6.18");
        let snmp = include_bytes!("fixtures/snmp-6.18");
        let told = [2891.0, 3080.0, 3080.0, 8.0, 0.0, 0.0, 36_826.0, 190_109.0];
        assert_eq!(counts(netstat, snmp), told.map(Some));
    }

    #[test]
    fn what_a_kernel_does_not_count_is_absent() {
        let netstat = b"TcpExt: ListenOverflows ListenDrops\nTcpExt: 7 9\nIpExt: InOctets\nIpExt: 5\n";
        let only = |told: &[(usize, f64)]| {
            let mut counts = Counts::default();
            told.iter().for_each(|(counter, value)| counts[*counter] = Some(*value));
            counts
        };
        assert_eq!(counts(netstat, b""), only(&[(1, 9.0), (2, 7.0)]));
        assert_eq!(counts(b"", b"Udp: RcvbufErrors\nUdp: 4\n"), only(&[(4, 4.0)]));
        assert_eq!(counts(b"TcpExt: ListenDrops\n", b"Tcp:"), Counts::default());
    }
}
