//! Which addresses a run's own networks have: none that anybody uses here, or that this machine communicates with.
//!
//! A route to a run's network diverts what is sent to an address in it from the host that has that address elsewhere.
//! So this machine's routes and addresses are not all that counts: most machines reach half the world by their default
//! route, including a resolver or a colleague's server in 10.0.0.0/8.

use crate::lock::claim_networks;
use crate::netlink::{Netlink, Range};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use tare_core::fault::{Doing, Fault};

/// Two neighbouring /16 networks that nothing on this machine uses: `(a, b)` with `b` even stands for a.b.0.0/16;
/// a.(b+1).0.0/16, meant for use inside guests, is free as well. No other Tare process gets the same ones until this
/// one ends. 198.18.0.0/15 is tried first, since it is reserved for network measurements (RFC 2544) and so is nobody's
/// own; then 10.254.0.0/15 and downwards, since people and cluster software choose low numbers.
///
/// # Errors
/// When addresses and routes cannot be listed or all of them are in use.
pub fn free_subnets() -> Result<(u8, u8), Fault> {
    let used = Netlink::open().and_then(|netlink| netlink.ranges());
    let used = used.doing("list the addresses and routes of this machine")?;
    let (own, forwarded) = (flows(), forwarded());
    let all = own.union(&forwarded).copied().collect();
    // What a dead run's containers sent to the world is tracked for days, and looks like a neighbour's traffic.
    let found = choose(&used, &all, claim_networks).or_else(|| choose(&used, &own, claim_networks));
    found.ok_or_else(|| {
        Fault::new("neither 198.18.0.0/15 nor two neighbouring /16 networks of 10.0.0.0/8 are free on this machine")
            .remedy("remove routes that cover 10.0.0.0/8, such as those of a VPN, while the study runs")
    })
}

/// The two ends of recent traffic; for a resolver only its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Flow(Option<Ipv4Addr>, Ipv4Addr);

impl Flow {
    /// Whether the traffic would go astray if these addresses were a run's. If both ends are in the range it was a
    /// run's own, as is what a bridge there sent to all its neighbours.
    fn crosses(self, range: Range) -> bool {
        let within = |address| range.overlaps(Range { address, prefix: 32 });
        let is_many = |address: Ipv4Addr| address.is_multicast() || address.is_broadcast();
        let of_many = is_many(self.1) || self.0.is_some_and(is_many);
        !of_many && within(self.1) != self.0.is_some_and(within)
    }
}

fn choose(used: &[Range], flows: &BTreeSet<Flow>, claim: impl Fn(u8, u8) -> bool) -> Option<(u8, u8)> {
    let is_free = |(first, second): (u8, u8)| {
        let range = Range { address: Ipv4Addr::new(first, second, 0, 0), prefix: 15 };
        !used.iter().any(|used| used.overlaps(range)) && !flows.iter().any(|flow| flow.crosses(range))
    };
    let private = (0..=127).rev().map(|half| (10, half * 2));
    std::iter::once((198, 18)).chain(private).find(|pair| is_free(*pair) && claim(pair.0, pair.1))
}

/// A missing file counts as empty.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// What this machine communicates with, as far as files tell: resolvers and sockets.
fn flows() -> BTreeSet<Flow> {
    let mut found = BTreeSet::new();
    for path in ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"] {
        found.extend(resolvers(&read(path)));
    }
    for path in ["/proc/net/tcp", "/proc/net/udp"] {
        found.extend(sockets(&read(path)));
    }
    found
}

/// What it forwards for others, if it keeps track of that.
fn forwarded() -> BTreeSet<Flow> {
    tracked(&read("/proc/net/nf_conntrack")).collect()
}

/// From resolv.conf(5).
fn resolvers(text: &str) -> impl Iterator<Item = Flow> {
    let servers = text.lines().filter_map(|line| line.trim_start().strip_prefix("nameserver"));
    servers.filter_map(|rest| Some(Flow(None, rest.split_whitespace().next()?.parse().ok()?)))
}

/// From /proc/net/tcp and udp: addresses are eight hexadecimal digits of a number as this machine stores it.
fn sockets(text: &str) -> impl Iterator<Item = Flow> {
    let address = |field: &str| {
        let digits = field.split(':').next()?;
        Some(Ipv4Addr::from(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes()))
    };
    let ends = text.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_whitespace().skip(1);
        Some(Flow(address(fields.next()?), address(fields.next()?)?))
    });
    ends.filter(|Flow(_, there)| !there.is_unspecified())
}

/// From /proc/net/nf_conntrack: each line has `src=` and `dst=` for both directions.
fn tracked(text: &str) -> impl Iterator<Item = Flow> {
    text.lines().flat_map(|line| {
        let value = |field: &str, name: &str| field.strip_prefix(name)?.parse::<Ipv4Addr>().ok();
        let of = move |name: &'static str| line.split_whitespace().filter_map(move |field| value(field, name));
        of("src=").zip(of("dst=")).map(|(source, target)| Flow(Some(source), target))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u8, second: u8, prefix: u8) -> Range {
        Range { address: Ipv4Addr::new(first, second, 0, 0), prefix }
    }

    #[test]
    fn subnets_avoid_what_is_used_on_either_half() {
        let none = BTreeSet::new();
        let chosen = |used: &[Range]| choose(&[used, &[range(198, 18, 15)]].concat(), &none, |_, _| true);
        assert_eq!(choose(&[], &none, |_, _| true), Some((198, 18)));
        assert_eq!(choose(&[range(198, 19, 24)], &none, |_, _| true), Some((10, 254)));
        assert_eq!(chosen(&[range(10, 254, 16)]), Some((10, 252)));
        assert_eq!(chosen(&[range(10, 255, 24), range(10, 252, 30)]), Some((10, 250)));
        assert_eq!(chosen(&[range(10, 128, 9)]), Some((10, 126)));
        assert_eq!(chosen(&[range(10, 0, 8)]), None);
        let others = |first, second| first == 10 && second != 254;
        assert_eq!(choose(&[], &none, others), Some((10, 252)), "another process has two");
    }

    #[test]
    fn subnets_avoid_whom_this_machine_speaks_with() {
        let chosen = |flows: Vec<Flow>| choose(&[range(198, 18, 15)], &flows.into_iter().collect(), |_, _| true);
        let resolver = resolvers("# ours\nsearch lab\nnameserver 10.255.255.53\nnameserver fd00::1\nnameserver\n");
        assert_eq!(chosen(resolver.collect()), Some((10, 252)));
        // 192.0.2.2 to 10.254.0.9, a listening socket, and one of a run that has ended.
        let ends = [[192, 0, 2, 2], [10, 254, 0, 9], [10, 252, 0, 1], [10, 252, 0, 2]].map(u32::from_ne_bytes);
        let text = format!(
            "  sl  local_address rem_address   st\n   0: 00000000:07E8 00000000:0000 0A 0\n   1: {:08X}:D28A \
             {:08X}:0050 06 0\n   2: {:08X}:0050 {:08X}:D28A 06 0\n",
            ends[0], ends[1], ends[2], ends[3]
        );
        assert_eq!(sockets(&text).count(), 2);
        assert_eq!(chosen(sockets(&text).collect()), Some((10, 252)));
        // A neighbour's guest communicates with a distant server through this machine's address.
        let text = "ipv4     2 tcp      6 9 ESTABLISHED src=172.17.0.2 dst=10.255.1.1 sport=1 dport=80 src=10.255.1.1 \
                    dst=192.0.2.2 sport=80 dport=1 [ASSURED] mark=0 zone=0\nipv6 10 udp 17 src=fe80::1 dst=fe80::2\n";
        assert_eq!(tracked(text).count(), 2);
        assert_eq!(chosen(tracked(text).collect()), Some((10, 252)));
        // The bridge of a killed run has told its neighbours which groups it listens to, and nobody has answered.
        let text =
            "ipv4     2 unknown  2 577 src=10.254.16.1 dst=224.0.0.22 [UNREPLIED] src=224.0.0.22 dst=10.254.16.1\n";
        assert_eq!(tracked(text).count(), 2);
        assert_eq!(chosen(tracked(text).collect()), Some((10, 254)));
    }

    #[test]
    fn this_machine_has_room_and_still_reaches_its_resolvers() {
        let (first, second) = free_subnets().unwrap();
        assert!(matches!((first, second), (198, 18) | (10, _)) && second % 2 == 0, "{first}.{second}");
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        assert!(resolvers(&text).all(|flow| !flow.crosses(range(first, second, 15))), "{first}.{second}: {text}");
    }
}
