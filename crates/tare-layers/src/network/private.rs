//! Keeps a run's own networks private: ports that an engine publishes, containers' own addresses, guests.
//!
//! Nobody else on this machine uses their addresses, yet another machine that sends to one of them through this one
//! would get an answer: an address can be reached by any link, and engines translate whatever arrives for it, even for
//! the loopback, where a port is published when the load is on this machine. So packets that come in by links other
//! than the run's own, and are for one of its networks or for the loopback, are dropped there ([`CameIn`]). Packets
//! from the load and from this machine itself do not pass through it.

use super::arrivals::Arrivals;
use super::came_in::{CameIn, DROP, IPV4, NEXT, PACKET, PROTOCOL, begin};
use super::pinned::Pinned;
use crate::marks::run_directory;
use crate::netlink::Link;
use crate::register::{self, Kind};
use std::io;
use tare_bpf::Register::{R1, R2, R3, R4, R5, R10};
use tare_bpf::{Function, Instruction};

/// The number of the loopback in every network namespace.
const LOOPBACK: u32 = 1;
/// The offset of the destination address in the IPv4 header.
const TO: i32 = 16;
/// Where the program keeps it on its stack.
const ADDRESS: i16 = -8;
/// The bits that addresses in the run's two neighbouring networks have in common.
const COMMON: u32 = u32::from_ne_bytes([255, 254, 0, 0]);
/// The loopback addresses, and the bits that they have in common: nothing that comes in by a link is for them.
const LOOPBACKS: u32 = u32::from_ne_bytes([127, 0, 0, 0]);
const FIRST_BYTE: u32 = u32::from_ne_bytes([255, 0, 0, 0]);

/// The networks of a run, private for as long as this is kept, or until the run is cleaned up after.
#[derive(Debug)]
pub(super) struct Private {
    arrivals: Arrivals,
}

impl Private {
    /// Closes the run's networks to what comes in by others' links: those that exist by now, and those that appear
    /// later.
    ///
    /// # Errors
    /// When the kernel cannot do it, as before Linux 6.6, or does not let this process.
    pub(super) fn open(run: &str, subnets: (u8, u8)) -> io::Result<Private> {
        let mut came_in = CameIn::load("tare_private", &code(subnets))?;
        let folder = run_directory(run);
        let names = folder.join(format!("private-{}-{}", subnets.0, subnets.1));
        let mut pinned = folder.is_dir().then(|| Pinned::put_up(&names, &[])).transpose()?;
        let run = run.to_owned();
        let own = move |link: &Link| link.index == LOOPBACK || register::is_made(&run, Kind::Link, &link.name);
        Ok(Private { arrivals: Arrivals::watch(move || came_in.cover(&own, pinned.as_mut()))? })
    }

    /// Why the networks were open for a while, if they were.
    fn failed(&self) -> Option<String> {
        self.arrivals.failed()
    }
}

/// Why other machines can reach what is in such networks, if they can or could for a while.
pub(super) fn reached_by_others(networks: &io::Result<Private>) -> Option<String> {
    networks.as_ref().map_or_else(|error| Some(error.to_string()), Private::failed)
}

/// In words: `if packet is of IPv4 and (packet.to in networks or packet.to in loopbacks) { drop }`.
fn code(subnets: (u8, u8)) -> Vec<Instruction> {
    let networks = u32::from_ne_bytes([subnets.0, subnets.1, 0, 0]) & COMMON;
    let read = [
        Instruction::copy(R1, PACKET),
        Instruction::set(R2, TO),
        Instruction::copy(R3, R10),
        Instruction::add(R3, i32::from(ADDRESS)),
        Instruction::set(R4, 4),
        Instruction::set(R5, 1),
        Instruction::call(Function::Bytes),
    ];
    [
        &begin()[..],
        &[Instruction::read_u32(R1, PACKET, PROTOCOL)],
        &Instruction::unless_equal(R1, IPV4, &NEXT),
        // What is too short for an address stays 0, which is none of these.
        &[Instruction::write_number_u64(R10, ADDRESS, 0)],
        &read,
        &[Instruction::read_u32(R1, R10, ADDRESS), Instruction::and_number(R1, COMMON.cast_signed())],
        &Instruction::if_equal(R1, networks.cast_signed(), &DROP),
        &[Instruction::read_u32(R1, R10, ADDRESS), Instruction::and_number(R1, FIRST_BYTE.cast_signed())],
        &Instruction::if_equal(R1, LOOPBACKS.cast_signed(), &DROP),
        &NEXT,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{as_inside, in_own_network, link_up_with_address, other_network, route_add, veth_create};
    use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    #[test]
    fn the_lab_does_not_reach_a_run_s_own_networks() {
        const LINK: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
        in_own_network(|| {
            let lab = other_network();
            veth_create("ours", "theirs", lab.as_fd()).unwrap();
            link_up_with_address("ours", LINK, 24).unwrap();
            as_inside(&lab, || {
                link_up_with_address("theirs", Ipv4Addr::new(192, 0, 2, 2), 24).unwrap();
                route_add(Ipv4Addr::new(10, 0, 0, 0), 8, LINK).unwrap();
            });
            // The run's two networks, and one on either side of them.
            let private = [[10, 252, 0, 1], [10, 253, 7, 1]].map(Ipv4Addr::from);
            let beside = [[10, 251, 0, 1], [10, 254, 0, 1]].map(Ipv4Addr::from);
            for address in private.into_iter().chain(beside) {
                link_up_with_address("lo", address, 32).unwrap();
            }
            let listener = TcpListener::bind("0.0.0.0:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let reached = |address: Ipv4Addr| {
                let place = SocketAddr::new(IpAddr::V4(address), port);
                TcpStream::connect_timeout(&place, Duration::from_millis(500)).is_ok()
            };
            let from_lab = |address: Ipv4Addr| as_inside(&lab, || reached(address));
            assert!(private.into_iter().chain(beside).all(from_lab), "nothing is closed");
            let closed = match Private::open("none00", (10, 252)) {
                Ok(closed) => closed,
                Err(error) => return println!("skipped: {error}"),
            };
            assert_eq!(private.map(from_lab), [false, false]);
            assert!(beside.into_iter().chain([LINK]).all(from_lab), "others' networks are closed");
            assert!(private.into_iter().all(reached), "this machine is kept out");
            // Another pair of networks in the run, for a form that stands beside others.
            let another = Private::open("none00", (10, 254)).unwrap();
            assert_eq!(
                private.into_iter().chain(beside).map(from_lab).collect::<Vec<_>>(),
                [false, false, true, false]
            );
            drop(another);
            // A link that appears later, from the same lab.
            const LATE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
            veth_create("late", "later", lab.as_fd()).unwrap();
            link_up_with_address("late", LATE, 24).unwrap();
            as_inside(&lab, || {
                link_up_with_address("later", Ipv4Addr::new(203, 0, 113, 2), 24).unwrap();
                route_add(Ipv4Addr::new(10, 252, 0, 0), 15, LATE).unwrap();
            });
            let deadline = Instant::now() + Duration::from_secs(20);
            while private.into_iter().any(from_lab) {
                assert!(Instant::now() < deadline, "a link that came later is open");
            }
            assert!(from_lab(LATE), "it is no way in at all");
            drop(closed);
            assert!(private.into_iter().all(from_lab), "it goes with its owner");
        });
    }

    /// A datagram to a loopback port, as somebody in the lab may write it.
    fn datagram(port: u16) -> Vec<u8> {
        let mut header = vec![0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 2, 127, 0, 0, 1];
        let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum = words.sum::<u32>();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let [high, low] = port.to_be_bytes();
        [&[255; 6][..], &[2, 0, 0, 0, 0, 1, 8, 0], &header, &[0, 9, high, low, 0, 9, 0, 0, b'x']].concat()
    }

    /// Sends a frame as it is.
    fn send(link: &str, frame: &[u8]) {
        let index = rustix::net::netdevice::name_to_index(
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None).unwrap(),
            link,
        );
        // SAFETY: the address is a valid one of its kind, and it and the frame outlive the calls.
        unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(socket >= 0);
            let mut to: libc::sockaddr_ll = std::mem::zeroed();
            (to.sll_family, to.sll_ifindex) = (libc::AF_PACKET as u16, index.unwrap() as i32);
            let size = size_of_val(&to) as u32;
            let sent = libc::sendto(socket, frame.as_ptr().cast(), frame.len(), 0, (&raw const to).cast(), size);
            assert_eq!(sent, frame.len() as isize);
            libc::close(socket);
        }
    }

    /// Where engines translate what is for the loopback, it would get an answer; here the kernel is told to accept it.
    #[test]
    fn what_comes_in_for_the_loopback_is_dropped() {
        in_own_network(|| {
            let lab = other_network();
            veth_create("ours", "theirs", lab.as_fd()).unwrap();
            link_up_with_address("ours", Ipv4Addr::new(192, 0, 2, 1), 24).unwrap();
            as_inside(&lab, || link_up_with_address("theirs", Ipv4Addr::new(192, 0, 2, 2), 24).unwrap());
            std::fs::write("/proc/sys/net/ipv4/conf/ours/route_localnet", "1").unwrap();
            let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
            listener.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let port = listener.local_addr().unwrap().port();
            let heard = || {
                as_inside(&lab, || send("theirs", &datagram(port)));
                listener.recv(&mut [0; 8]).is_ok()
            };
            assert!(heard(), "nothing is closed");
            let closed = match Private::open("none00", (10, 252)) {
                Ok(closed) => closed,
                Err(error) => return println!("skipped: {error}"),
            };
            assert!(!heard(), "somebody of the lab is heard");
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", ("127.0.0.1", port)).unwrap();
            assert!(listener.recv(&mut [0; 8]).is_ok(), "this machine is kept out");
            drop(closed);
            assert!(heard(), "it goes with its owner");
        });
    }
}
