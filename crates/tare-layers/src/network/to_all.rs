//! Keeps broadcast and multicast datagrams out of closed ports.
//!
//! The kernel hands such a datagram to every matching socket, without consulting the programs that are asked on socket
//! lookup. So a BPF program runs where packets come in ([`CameIn`]): there it costs other traffic a look at the kind of
//! packet, and the load nothing.

use super::came_in::{CameIn, DROP, IPV4, IPV6, NEXT, PACKET, PROTOCOL, begin};
use super::closed::{Closed, KEY_PORT, TRANSPORTS, call, put_ipv4, put_ipv6, where_closed};
use super::pinned::Pinned;
use crate::netlink::{Link, Netlink};
use std::io;
use std::net::Ipv4Addr;
use tare_bpf::Register::{self, R0, R1, R2, R3, R4, R5, R7, R8, R9, R10};
use tare_bpf::{Function, Instruction, Map};

/// The most broadcast addresses: one for each network that this machine is in, and two more.
const EVERYBODY_MAX: u32 = 4096;

/// The offset in `struct __sk_buff` of whom the link takes a packet to be for.
const FOR_WHOM: i16 = 4;
/// A link's view of a packet: for us, for all, or for those who joined a group. Higher numbers are for others, or
/// outgoing.
const FOR_US: i32 = 0;
const FOR_A_GROUP: i32 = 2;
/// The protocol number of UDP.
const UDP: i32 = TRANSPORTS[1] as i32;

/// Headers that may come between the IPv6 header and the datagram's and that give their length in units of 8 bytes:
/// hop-by-hop options, routing, destination options.
const EXTENSIONS: [i32; 3] = [0, 43, 60];
/// The header that says which fragment of a packet this is; it has 8 bytes.
const FRAGMENT: i32 = 44;
/// How many such headers are followed. A packet to all that has more of them is dropped.
const EXTENSIONS_MAX: usize = 6;

/// Where the program keeps headers on its stack: up to 40 bytes.
const HEADER: i16 = -64;

/// Has whatever comes in by other links watched.
#[derive(Debug)]
pub(super) struct ToAll {
    came_in: CameIn,
    /// The IPv4 broadcast addresses, in the byte order of packets.
    everybody: Map<u32, u32>,
}

impl ToAll {
    /// Watches no link yet.
    ///
    /// # Errors
    /// When the kernel has no BPF, or does not let this process load a program.
    pub(super) fn new(closed: &Closed) -> io::Result<ToAll> {
        let everybody = Map::new(EVERYBODY_MAX)?;
        let came_in = CameIn::load("tare_to_all", &code(closed, &everybody))?;
        Ok(ToAll { came_in, everybody })
    }

    /// See [`CameIn::cover`].
    ///
    /// # Errors
    /// The same, and when there are more networks than any machine has.
    pub(super) fn cover(&mut self, own: &dyn Fn(&Link) -> bool, pinned: Option<&mut Pinned>) -> io::Result<()> {
        // The addresses that every machine has come first, and a failure must not leave anything else unwatched.
        let found = Netlink::open().and_then(|netlink| netlink.broadcasts());
        let everybody = [Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED].into_iter().chain(found.iter().flatten().copied());
        let noted = everybody.map(|address| self.everybody.insert(u32::from_ne_bytes(address.octets()), 1));
        let noted = noted.fold(Ok(()), io::Result::and);
        let covered = self.came_in.cover(own, pinned);
        covered.and(noted).and(found.map(drop))
    }
}

/// Whom the link takes the packet to be for, and later the protocol of the next header.
const KIND: Register = R7;
/// 1 for IPv4, 0 for IPv6.
const IS_IPV4: Register = R8;
/// The packet's protocol, and later the offset of the next header.
const AT: Register = R9;

/// In words: `if packet is the first part of a datagram to all and key(packet) in closed { drop }`.
fn code(closed: &Closed, everybody: &Map<u32, u32>) -> Vec<Instruction> {
    [
        &begin()[..],
        &[Instruction::read_u32(KIND, PACKET, FOR_WHOM)],
        &Instruction::if_above(KIND, FOR_A_GROUP, &NEXT),
        &[Instruction::read_u32(AT, PACKET, PROTOCOL), Instruction::set(IS_IPV4, 2)],
        &Instruction::if_equal(AT, IPV4, &[Instruction::set(IS_IPV4, 1)]),
        &Instruction::if_equal(AT, IPV6, &[Instruction::set(IS_IPV4, 0)]),
        &Instruction::if_equal(IS_IPV4, 2, &NEXT),
        &Instruction::if_equal(IS_IPV4, 1, &of_ipv4(everybody)),
        &Instruction::if_equal(IS_IPV4, 0, &of_ipv6()),
        // In the datagram's header, the second number is the destination port.
        &header(4),
        &[
            Instruction::read_u16(R1, R10, HEADER + 2),
            Instruction::order_of_network_u16(R1),
            Instruction::or_number(R1, UDP << 16),
            Instruction::write_u32(R10, KEY_PORT, R1),
        ],
        &where_closed(closed, IS_IPV4, &DROP),
        &NEXT,
    ]
    .concat()
}

/// `stack[HEADER] = packet[AT..AT + bytes]`; if that fails, the program ends.
fn header(bytes: i32) -> Vec<Instruction> {
    let read = [
        Instruction::copy(R1, PACKET),
        Instruction::copy(R2, AT),
        Instruction::copy(R3, R10),
        Instruction::add(R3, i32::from(HEADER)),
        Instruction::set(R4, bytes),
        Instruction::set(R5, 1),
        Instruction::call(Function::Bytes),
    ];
    [&read[..], &Instruction::unless_equal(R0, 0, &NEXT)].concat()
}

/// Ends the program unless it is a datagram to all; otherwise the address is now in the key, and `AT` is the offset of
/// its header.
fn of_ipv4(everybody: &Map<u32, u32>) -> Vec<Instruction> {
    const PART: i16 = HEADER + 6;
    const TRANSPORT: i16 = HEADER + 9;
    const TO: i16 = HEADER + 16;
    // A link may take a packet to be for us alone although its address is a broadcast address.
    let is_everybodys = [&call(Function::LookUp, everybody, TO, TO)[..], &Instruction::if_equal(R0, 0, &NEXT)].concat();
    let is_to_all = [
        &[Instruction::read_u8(R1, R10, TO), Instruction::and_number(R1, 0xf0)][..],
        &Instruction::unless_equal(R1, 0xe0, &is_everybodys),
    ]
    .concat();
    [
        &[Instruction::set(AT, 0)][..],
        &header(20),
        &[Instruction::read_u8(R1, R10, TRANSPORT)],
        &Instruction::unless_equal(R1, UDP, &NEXT),
        // Without the first fragment, the others come to nothing.
        &[Instruction::read_u16(R1, R10, PART), Instruction::and_number(R1, i32::from(0x1fff_u16.to_be()))],
        &Instruction::unless_equal(R1, 0, &NEXT),
        &Instruction::if_equal(KIND, FOR_US, &is_to_all),
        &put_ipv4(R10, TO),
        // The header's length, in words, is in the lower half of its first byte.
        &[Instruction::read_u8(AT, R10, HEADER), Instruction::and_number(AT, 15), Instruction::shift_left(AT, 2)],
    ]
    .concat()
}

/// The same for IPv6, where the address alone says what is to all.
fn of_ipv6() -> Vec<Instruction> {
    const TRANSPORT: i16 = HEADER + 6;
    const TO: i16 = HEADER + 24;
    let begin = [
        &[Instruction::set(AT, 0)][..],
        &header(40),
        &[Instruction::read_u8(R1, R10, TO)],
        &Instruction::unless_equal(R1, 0xff, &NEXT),
        &put_ipv6(R10, TO),
        &[Instruction::read_u8(KIND, R10, TRANSPORT), Instruction::set(AT, 40)],
    ]
    .concat();
    let (extension, fragment) = (extension(), fragment());
    let walk = (0..EXTENSIONS_MAX).flat_map(|_| [&extension[..], &fragment].concat());
    let more = [&EXTENSIONS[..], &[FRAGMENT]].concat();
    let more = more.iter().flat_map(|kind| Instruction::if_equal(KIND, *kind, &DROP));
    let end = Instruction::unless_equal(KIND, UDP, &NEXT);
    begin.into_iter().chain(walk).chain(more).chain(end).collect()
}

/// Skips the next header if it is one of [`EXTENSIONS`].
fn extension() -> Vec<Instruction> {
    let is_one = EXTENSIONS.iter().flat_map(|kind| Instruction::if_equal(KIND, *kind, &[Instruction::set(R1, 1)]));
    let past = [
        &header(2)[..],
        &[
            Instruction::read_u8(KIND, R10, HEADER),
            Instruction::read_u8(R1, R10, HEADER + 1),
            Instruction::add(R1, 1),
            Instruction::shift_left(R1, 3),
            Instruction::add_register(AT, R1),
        ],
    ]
    .concat();
    [Instruction::set(R1, 0)].into_iter().chain(is_one).chain(Instruction::if_equal(R1, 1, &past)).collect()
}

/// Skips the next header if it is that of a first fragment.
fn fragment() -> Vec<Instruction> {
    let past = [
        &header(4)[..],
        &[
            Instruction::read_u8(KIND, R10, HEADER),
            Instruction::read_u16(R1, R10, HEADER + 2),
            Instruction::and_number(R1, i32::from(0xfff8_u16.to_be())),
        ],
        &Instruction::unless_equal(R1, 0, &NEXT),
        &[Instruction::add(AT, 8)],
    ]
    .concat();
    Instruction::if_equal(KIND, FRAGMENT, &past)
}

#[cfg(test)]
mod tests {
    use super::super::closed::{CLOSED_MAX, TRANSPORTS, key};
    use super::*;
    use crate::network::{as_inside, in_own_network, link_up_with_address, other_network, route_add, veth_create};
    use rustix::net::SocketType;
    use std::fs::File;
    use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
    use std::os::fd::{AsFd, AsRawFd};
    use std::time::{Duration, Instant};

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 1);
    const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 9, 8, 2);
    /// The broadcast addresses in the network that both share.
    const ALL: [Ipv4Addr; 3] = [Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 9, 8, 255), Ipv4Addr::new(224, 0, 0, 1)];

    /// The same for IPv6, in this thread's network, which is the lab's.
    fn all_of_ipv6(port: u16) -> SocketAddr {
        let link = crate::netlink::link_index("theirs").unwrap();
        SocketAddrV6::new(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), port, 0, link).into()
    }

    /// A network of its own that is connected to this thread's, as the lab's is to this machine.
    fn lab() -> File {
        let lab = other_network();
        veth_create("ours", "theirs", lab.as_fd()).unwrap();
        // Use an address at once, instead of waiting a second for objections.
        let at_once = |link: &str| std::fs::write(format!("/proc/sys/net/ipv6/conf/{link}/accept_dad"), "0").unwrap();
        at_once("ours");
        as_inside(&lab, || {
            at_once("theirs");
            link_up_with_address("theirs", THEIRS, 24).unwrap();
        });
        link_up_with_address("ours", OURS, 24).unwrap();
        as_inside(&lab, || route_add(Ipv4Addr::UNSPECIFIED, 0, OURS).unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while as_inside(&lab, || UdpSocket::bind("[::]:0").unwrap().connect(all_of_ipv6(9))).is_err() {
            assert!(Instant::now() < deadline, "the lab has no address of IPv6");
            std::thread::sleep(Duration::from_millis(10));
        }
        lab
    }

    /// Sends a datagram of this many bytes from the lab to everybody in a network.
    fn send(lab: &File, to: SocketAddr, bytes: usize, extended: bool) {
        as_inside(lab, || {
            let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
            socket.set_broadcast(true).unwrap();
            if extended {
                // A destination options header: the next header, its length, and four bytes of nothing.
                let header = [0_u8, 0, 1, 4, 0, 0, 0, 0];
                let (descriptor, size) = (socket.as_raw_fd(), header.len() as libc::socklen_t);
                let (level, option, start) = (libc::IPPROTO_IPV6, libc::IPV6_DSTOPTS, header.as_ptr().cast());
                // SAFETY: the kernel reads `size` bytes, which the header has.
                assert_eq!(unsafe { libc::setsockopt(descriptor, level, option, start, size) }, 0);
            }
            socket.send_to(&vec![0; bytes], to).unwrap();
        });
    }

    /// Sends what a link takes as a packet for one host alone, although its address is a broadcast address.
    fn send_to_one(lab: &File, hardware: [u8; 6], to: Ipv4Addr, port: u16) {
        let [port1, port2] = port.to_be_bytes();
        let mut packet = vec![0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend(THEIRS.octets().into_iter().chain(to.octets()));
        let sum: u32 = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = (0..2).fold(sum, |sum, _| (sum & 0xffff) + (sum >> 16));
        packet[10..12].copy_from_slice(&(!folded as u16).to_be_bytes());
        // From port 9, 9 bytes long, without a checksum.
        packet.extend([0, 9, port1, port2, 0, 9, 0, 0, b'x']);
        as_inside(lab, || {
            let socket = rustix::net::socket(rustix::net::AddressFamily::PACKET, SocketType::DGRAM, None).unwrap();
            let index = crate::netlink::link_index("theirs").unwrap().cast_signed();
            // SAFETY: plain numbers, of which zero is one.
            let mut place: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            (place.sll_family, place.sll_ifindex) = (libc::AF_PACKET as u16, index);
            (place.sll_protocol, place.sll_halen) = (0x0800_u16.to_be(), 6);
            place.sll_addr[..6].copy_from_slice(&hardware);
            let (start, size) = ((&raw const place).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t);
            // SAFETY: the kernel reads the packet and the place, with the sizes that they have.
            let sent =
                unsafe { libc::sendto(socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0, start, size) };
            assert_eq!(sent, 29);
        });
    }

    /// Whether something has arrived, and nothing more.
    fn heard(at: &UdpSocket) -> bool {
        at.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        at.recv(&mut [0; 8192]).is_ok()
    }

    /// The link's own hardware address.
    fn hardware(link: &str) -> [u8; 6] {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // SAFETY: plain numbers, of which zero is one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(link.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: the kernel reads the name and writes the address, and the request has room for both.
        assert_eq!(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) }, 0);
        // SAFETY: the kernel has just written it.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        std::array::from_fn(|at| data[at] as u8)
    }

    /// The whole table of ways, with what is received by each.
    fn ways(lab: &File, sockets: &[UdpSocket; 2]) -> Vec<(String, bool)> {
        let [of_ipv4, of_ipv6] = sockets;
        let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
        let mut all = Vec::new();
        for address in ALL {
            send(lab, (address, port(of_ipv4)).into(), 1, false);
            all.push((format!("{address}"), heard(of_ipv4)));
            send_to_one(lab, hardware("ours"), address, port(of_ipv4));
            all.push((format!("{address}, to one"), heard(of_ipv4)));
        }
        send(lab, (ALL[2], port(of_ipv4)).into(), 4000, false);
        all.push(("in parts".to_owned(), heard(of_ipv4)));
        send(lab, (ALL[0], port(of_ipv6)).into(), 1, false);
        all.push(("IPv4 at [::]".to_owned(), heard(of_ipv6)));
        let place = as_inside(lab, || all_of_ipv6(port(of_ipv6)));
        for (bytes, extended) in [(1, false), (1, true), (4000, false), (4000, true)] {
            send(lab, place, bytes, extended);
            all.push((format!("IPv6, {bytes}, {extended}"), heard(of_ipv6)));
        }
        all
    }

    #[test]
    fn what_the_lab_sends_to_all_is_heard_at_open_ports_alone() {
        in_own_network(|| {
            let lab = lab();
            let closed = Map::new(CLOSED_MAX).unwrap();
            let sockets = ["0.0.0.0:0", "[::]:0"].map(|place| UdpSocket::bind(place).unwrap());
            let heard_of_all = |wanted: bool, when: &str| {
                for (way, heard) in ways(&lab, &sockets) {
                    assert_eq!(heard, wanted, "{when}: {way}");
                }
            };
            heard_of_all(true, "nothing watches");
            let mut to_all = ToAll::new(&closed).unwrap();
            let none = |_: &Link| false;
            if let Err(error) = to_all.cover(&none, None) {
                return println!("skipped: {error}");
            }
            heard_of_all(true, "nothing is closed");
            let places = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
            // The same number, but somebody else's.
            for place in places {
                closed.insert(key(TRANSPORTS[0], place), 5).unwrap();
                closed.insert(key(TRANSPORTS[1], (OURS, place.port()).into()), 5).unwrap();
            }
            heard_of_all(true, "others are closed");
            places.iter().for_each(|place| closed.insert(key(TRANSPORTS[1], *place), 5).unwrap());
            heard_of_all(false, "they are closed");
            // This machine receives its own broadcasts.
            let sender = UdpSocket::bind((OURS, 0)).unwrap();
            sender.set_broadcast(true).unwrap();
            sender.send_to(b"x", (ALL[1], places[0].port())).unwrap();
            assert!(heard(&sockets[0]), "from this machine");
            // The load's link, and unicast, which is checked elsewhere.
            send(&lab, (OURS, places[0].port()).into(), 1, false);
            assert!(heard(&sockets[0]), "to one");
            drop(to_all);
            let mut to_all = ToAll::new(&closed).unwrap();
            to_all.cover(&|link| link.name == "ours", None).unwrap();
            heard_of_all(true, "it is the run's own link");
        });
    }
}
