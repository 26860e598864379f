//! A client of the kernel's rtnetlink(7), for links, addresses and routes.
//!
//! Plain blocking calls on one socket: no async runtime to nest and no `ip` program, so it works in a guest that holds
//! only the agent, and on a socket that was opened in another network namespace.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::ffi::CStr;
use std::io;
use std::net::Ipv4Addr;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;

const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_DUMP: u16 = 0x300;
/// The listed objects have changed in the meantime, so some may be missing.
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_GATEWAY: u16 = 5;

const AF_INET: u8 = 2;
const IFF_UP: u32 = 1;
/// The multicast groups that report changes of links and of IPv4 addresses.
const NEWS: u32 = 0x1 | 0x10;
/// The kernel rejects longer names.
const NAME_MAX: usize = 15;

/// A message under construction; its length field is set when it is sent.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16) -> Message {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        Message(bytes)
    }

    /// `struct ifinfomsg`.
    fn link(mut self, index: u32, flags: u32, change: u32) -> Message {
        self.0.extend([0; 4]);
        for word in [index, flags, change] {
            self.0.extend(word.to_ne_bytes());
        }
        self
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        let length = u16::try_from(4 + value.len()).expect("attributes made here are short");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn name(self, name: &str) -> Message {
        let mut value = name.as_bytes().to_vec();
        value.push(0);
        self.attribute(IFLA_IFNAME, &value)
    }

    fn nest(mut self, kind: u16, inner: impl FnOnce(Message) -> Message) -> Message {
        let start = self.0.len();
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        let mut message = inner(self);
        let length = u16::try_from(message.0.len() - start).expect("attributes made here are short");
        message.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        message
    }
}

/// A network link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// Its number.
    pub(crate) index: u32,
    /// Its name.
    pub(crate) name: String,
    /// Whether it is a port of something that takes over what comes in by it, such as a bridge.
    pub(crate) is_port: bool,
}

/// A range of IPv4 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// Some address in it.
    pub(crate) address: Ipv4Addr,
    /// How many leading bits they all have in common.
    pub(crate) prefix: u8,
}

impl Range {
    /// Whether the two ranges have an address in common.
    pub(crate) fn overlaps(self, other: Range) -> bool {
        let shorter = u32::from(self.prefix.min(other.prefix));
        let mask = u32::MAX.checked_shl(32 - shorter).unwrap_or(0);
        self.address.to_bits() & mask == other.address.to_bits() & mask
    }
}

/// A connection to the kernel's network configuration in one network namespace.
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    /// Opens the configuration of the namespace that this thread is in.
    pub(crate) fn open() -> io::Result<Netlink> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        // `None` is protocol 0, which in this family is "route".
        Ok(Netlink(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?))
    }

    /// Opens the configuration of another namespace. The socket stays there; this thread does not move.
    pub(crate) fn open_in(namespace: BorrowedFd<'_>) -> io::Result<Netlink> {
        let enter = || {
            rustix::thread::move_into_link_name_space(namespace, Some(rustix::thread::LinkNameSpaceType::Network))?;
            Netlink::open()
        };
        std::thread::scope(|scope| scope.spawn(enter).join().expect("entering a namespace does not panic"))
    }

    /// Opens it only to receive changes of links and addresses.
    pub(crate) fn subscribed() -> io::Result<Netlink> {
        let netlink = Netlink::open()?;
        rustix::net::bind(&netlink.0, &rustix::net::netlink::SocketAddrNetlink::new(0, NEWS))?;
        Ok(netlink)
    }

    /// Discards all reports of changes, including the error that says there was no room for more of them.
    pub(crate) fn forget_news(&self) {
        let mut buffer = [0; 8192];
        loop {
            match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok(_) | Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Sends a message and collects the payloads of the answer, up to the acknowledgement.
    fn ask(&self, mut message: Message) -> io::Result<Vec<(u16, Vec<u8>)>> {
        let length = u32::try_from(message.0.len()).expect("messages made here are short");
        message.0[0..4].copy_from_slice(&length.to_ne_bytes());
        rustix::net::send(&self.0, &message.0, SendFlags::empty())?;
        let (mut answers, mut whole) = (Vec::new(), true);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let (count, _) = rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = &buffer[..count];
            while rest.len() >= 16 {
                let length = word(rest, 0) as usize;
                let kind = u16::from_ne_bytes([rest[4], rest[5]]);
                if length < 16 || length > rest.len() {
                    return Err(io::Error::other("the kernel's answer is cut short"));
                }
                whole &= u16::from_ne_bytes([rest[6], rest[7]]) & NLM_F_DUMP_INTR == 0;
                match kind {
                    NLMSG_DONE if !whole => return Err(io::ErrorKind::Interrupted.into()),
                    NLMSG_DONE => return Ok(answers),
                    NLMSG_ERROR => {
                        let code = word(rest, 16).cast_signed();
                        return if code == 0 { Ok(answers) } else { Err(io::Error::from_raw_os_error(-code)) };
                    }
                    _ => answers.push((kind, rest[16..length].to_vec())),
                }
                rest = &rest[length.next_multiple_of(4).min(rest.len())..];
            }
        }
    }

    /// Requests a list until one is complete: changes made in the meantime may be missing from it.
    fn list(&self, message: impl Fn() -> Message) -> io::Result<Vec<(u16, Vec<u8>)>> {
        const TRIES: usize = 100;
        let interrupted = |answer: &io::Result<_>| {
            answer.as_ref().is_err_and(|error: &io::Error| error.kind() == io::ErrorKind::Interrupted)
        };
        let mut tries = (0..TRIES).map(|_| self.ask(message()));
        let whole = tries.find(|answer| !interrupted(answer));
        whole.unwrap_or_else(|| Err(io::Error::other("the network changes faster than it can be read")))
    }

    /// All links.
    pub(crate) fn links(&self) -> io::Result<Vec<Link>> {
        let answers = self.list(|| Message::new(RTM_GETLINK, NLM_F_DUMP).link(0, 0, 0))?;
        let parse = |(_, payload): &(u16, Vec<u8>)| {
            let find = |wanted| attributes(payload, 16).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
            let info = find(IFLA_LINKINFO).unwrap_or_default();
            // What comes in by a link in a routing domain (VRF) stays the link's own.
            let routed = attributes(info, 0).any(|(kind, value)| kind == IFLA_INFO_SLAVE_KIND && value == b"vrf\0");
            let is_port = find(IFLA_MASTER).is_some() && !routed;
            let name = CStr::from_bytes_until_nul(find(IFLA_IFNAME)?).ok()?.to_string_lossy().into_owned();
            Some(Link { index: word(payload, 4), name, is_port })
        };
        Ok(answers.iter().filter_map(parse).collect())
    }

    fn index(&self, name: &str) -> io::Result<u32> {
        let links = self.links()?;
        let link = links.iter().find(|link| link.name == name);
        link.map(|link| link.index).ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Creates a bridge; `hardware` keeps its address from changing as ports come and go.
    pub(crate) fn create_bridge(&self, name: &str, hardware: [u8; 6]) -> io::Result<()> {
        self.create_bridge_as(0, name, hardware)
    }

    /// The same with a chosen number; 0 means any.
    pub(crate) fn create_bridge_as(&self, index: u32, name: &str, hardware: [u8; 6]) -> io::Result<()> {
        check_name(name)?;
        let message = Message::new(RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).link(index, 0, 0).name(name);
        let message = message.attribute(IFLA_ADDRESS, &hardware);
        self.ask(message.nest(IFLA_LINKINFO, |info| info.attribute(IFLA_INFO_KIND, b"bridge\0"))).map(drop)
    }

    /// Creates two joined links, the second one in another namespace.
    pub(crate) fn create_veth(&self, name: &str, peer: &str, namespace: BorrowedFd<'_>) -> io::Result<()> {
        use rustix::fd::AsRawFd;
        check_name(name)?;
        check_name(peer)?;
        let place = namespace.as_raw_fd().to_ne_bytes();
        let message = Message::new(RTM_NEWLINK, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL).link(0, 0, 0).name(name);
        let message = message.nest(IFLA_LINKINFO, |info| {
            info.attribute(IFLA_INFO_KIND, b"veth\0").nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |end| end.link(0, 0, 0).name(peer).attribute(IFLA_NET_NS_FD, &place))
            })
        });
        self.ask(message).map(drop)
    }

    /// Removes a link; returns whether it existed.
    pub(crate) fn delete(&self, name: &str) -> io::Result<bool> {
        let index = match self.index(name) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(false),
            other => other?,
        };
        match self.ask(Message::new(RTM_DELLINK, NLM_F_ACK).link(index, 0, 0)) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Brings a link up.
    pub(crate) fn up(&self, name: &str) -> io::Result<()> {
        let index = self.index(name)?;
        self.ask(Message::new(RTM_NEWLINK, NLM_F_ACK).link(index, IFF_UP, IFF_UP)).map(drop)
    }

    /// Writes a link's alias.
    pub(crate) fn set_alias(&self, name: &str, alias: &str) -> io::Result<()> {
        let index = self.index(name)?;
        let message = Message::new(RTM_NEWLINK, NLM_F_ACK).link(index, 0, 0);
        self.ask(message.attribute(IFLA_IFALIAS, alias.as_bytes())).map(drop)
    }

    /// Makes a link a port of a bridge.
    pub(crate) fn enslave(&self, name: &str, bridge: &str) -> io::Result<()> {
        let (index, bridge) = (self.index(name)?, self.index(bridge)?);
        let message = Message::new(RTM_NEWLINK, NLM_F_ACK).link(index, 0, 0);
        self.ask(message.attribute(IFLA_MASTER, &bridge.to_ne_bytes())).map(drop)
    }

    /// Gives a link an address.
    pub(crate) fn add_address(&self, name: &str, range: Range) -> io::Result<()> {
        let index = self.index(name)?;
        let mut message = Message::new(RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
        message.0.extend([AF_INET, range.prefix, 0, 0]);
        message.0.extend(index.to_ne_bytes());
        let octets = range.address.octets();
        self.ask(message.attribute(IFA_LOCAL, &octets).attribute(IFA_ADDRESS, &octets)).map(drop)
    }

    /// Adds a route through a gateway to the main table.
    pub(crate) fn add_route(&self, to: Range, via: Ipv4Addr) -> io::Result<()> {
        const MAIN_TABLE: u8 = 254;
        const BY_ADMINISTRATOR: u8 = 4;
        const UNICAST: u8 = 1;
        let mut message = Message::new(RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
        message.0.extend([AF_INET, to.prefix, 0, 0, MAIN_TABLE, BY_ADMINISTRATOR, 0, UNICAST]);
        message.0.extend(0_u32.to_ne_bytes());
        if to.prefix > 0 {
            message = message.attribute(RTA_DST, &to.address.octets());
        }
        self.ask(message.attribute(RTA_GATEWAY, &via.octets())).map(drop)
    }

    /// The IPv4 broadcast addresses of this machine's networks.
    pub(crate) fn broadcasts(&self) -> io::Result<Vec<Ipv4Addr>> {
        const BROADCAST: u8 = 3;
        let request = || {
            let mut request = Message::new(RTM_GETROUTE, NLM_F_DUMP);
            request.0.extend([AF_INET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            request
        };
        let parse = |(_, payload): &(u16, Vec<u8>)| {
            let value = attributes(payload, 12).find(|(kind, _)| *kind == RTA_DST)?.1;
            let octets: [u8; 4] = value.get(..4)?.try_into().ok()?;
            (*payload.get(7)? == BROADCAST).then(|| octets.into())
        };
        Ok(self.list(request)?.iter().filter_map(parse).collect())
    }

    /// Every IPv4 range that an address or a route of this machine covers, except the default route.
    pub(crate) fn ranges(&self) -> io::Result<Vec<Range>> {
        let request = |kind, header: &[u8]| {
            let mut request = Message::new(kind, NLM_F_DUMP);
            request.0.extend(header);
            request
        };
        let mut answers = self.list(|| request(RTM_GETADDR, &[AF_INET, 0, 0, 0, 0, 0, 0, 0]))?;
        answers.extend(self.list(|| request(RTM_GETROUTE, &[AF_INET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]))?);
        let parse = |(kind, payload): &(u16, Vec<u8>)| {
            // The prefix is the second byte of both headers, which are 8 and 12 bytes long.
            let (start, wanted) = if *kind == RTM_NEWADDR { (8, IFA_ADDRESS) } else { (12, RTA_DST) };
            let prefix = *payload.get(1)?;
            let value = attributes(payload, start).find(|(kind, _)| *kind == wanted)?.1;
            let octets: [u8; 4] = value.get(..4)?.try_into().ok()?;
            (prefix > 0).then_some(Range { address: octets.into(), prefix })
        };
        Ok(answers.iter().filter_map(parse).collect())
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The number of the link with this name, which the kernel gives to no other until the machine restarts.
pub(crate) fn link_index(name: &str) -> Option<u32> {
    let links = Netlink::open().ok()?.links().ok()?;
    links.into_iter().find(|link| link.name == name).map(|link| link.index)
}

fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name.len() > NAME_MAX {
        let message = format!("'{name}' cannot name a link: 1 to {NAME_MAX} bytes are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_ne_bytes(word.try_into().expect("four bytes were taken")))
}

/// The attributes of a payload after its header of `start` bytes.
fn attributes(payload: &[u8], start: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = payload.get(start..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*rest.first()?, *rest.get(1)?]));
        // The two top bits mean "nested" and "big-endian"; they are not part of the kind.
        let kind = u16::from_ne_bytes([*rest.get(2)?, *rest.get(3)?]) & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_a_link_and_its_range_is_known() {
        let netlink = Netlink::open().unwrap();
        assert!(netlink.links().unwrap().iter().any(|link| link.name == "lo"));
        let loopback = Range { address: Ipv4Addr::LOCALHOST, prefix: 32 };
        assert!(netlink.ranges().unwrap().iter().any(|range| range.overlaps(loopback)));
    }

    #[test]
    fn ranges_overlap_when_one_holds_the_other() {
        let range = |address: [u8; 4], prefix| Range { address: address.into(), prefix };
        assert!(range([10, 98, 0, 0], 16).overlaps(range([10, 98, 7, 1], 32)));
        assert!(range([10, 98, 7, 1], 32).overlaps(range([10, 0, 0, 0], 8)));
        assert!(!range([10, 98, 0, 0], 16).overlaps(range([10, 99, 0, 0], 16)));
        assert!(range([1, 2, 3, 4], 0).overlaps(range([10, 99, 0, 0], 16)));
    }

    #[test]
    fn a_name_that_the_kernel_would_cut_is_refused() {
        assert!(check_name("tabcdefmuchtoolong").is_err());
        assert!(check_name("tabcdefh").is_ok());
    }
}
