//! Keeps everybody but the load and this machine itself away from services that listen on the machine's own network.
//!
//! Such services commonly listen at every address, without a password. A BPF program is asked when the kernel looks for
//! the socket of a packet that belongs to no connection yet (`sk_lookup`), so packets of established connections cost
//! nothing more. It reports that nobody listens at a closed port, unless the packet came in by the loopback or the
//! load's link. What services bind is closed, in their own protocol and at their own address ([`Doors`]); where that
//! cannot be observed, the ports that a workload declares are closed entirely. Broadcast and multicast are kept out
//! elsewhere ([`ToAll`]). If this process is killed, services live on, and so does all of this ([`Pinned`]) until the
//! run is cleaned up.

use super::arrivals::Arrivals;
use super::closed::{CLOSED_MAX, Closed, KEY_PORT, Key, TRANSPORTS, key, put_ipv4, put_ipv6, where_closed};
use super::doors::Doors;
use super::low_ports::{LowPorts, UserHere};
use super::pinned::Pinned;
use super::seat::seat_link;
use super::to_all::ToAll;
use crate::netlink::Link;
use crate::register::{self, Kind as Made};
use crate::{lock, marks};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tare_bpf::Register::{self, R0, R1, R2, R6, R7, R8, R10};
use tare_bpf::{Attached, Instruction, Kind, Map, Program};
use tare_core::fault::Fault;
use tare_core::host::ServiceStart;

/// Stands for a port that was not closed by a user's bind: a service that may be root is [`SEVERAL`] here.
const NOBODY: u32 = 0;
/// Stands for the users of services that have all users of their images: no process has this number.
const SEVERAL: u32 = u32::MAX;
/// The index of the loopback in every network namespace.
const LOOPBACK: u32 = 1;

/// Offsets in `struct bpf_sk_lookup` of the family, the protocol, the local address and port, and the index of the link
/// that a packet came in by.
const FAMILY: i16 = 8;
const PROTOCOL: i16 = 12;
const LOCAL_IPV4: i16 = 40;
const LOCAL_IPV6: i16 = 44;
const LOCAL_PORT: i16 = 60;
const CAME_BY: i16 = 64;

/// The ports of a host's services on the machine's own network, closed to others for as long as these services run.
#[derive(Debug, Default)]
pub(crate) struct Fenced {
    fence: Option<Fence>,
    /// The users of the running services, by instance.
    users: BTreeMap<String, u32>,
    /// The instances whose declared ports are closed entirely.
    whole: BTreeSet<String>,
    low: LowPorts,
}

impl Fenced {
    /// Closes the ports of a service that is about to be started for `run`: those that it binds, recognised by the user
    /// that it has here; or, where its engine gives it another user that nobody knows, or it has all users of its
    /// image, those that it declares. In a guest there is no run's mark, and nobody but the load.
    ///
    /// If that cannot be done the service stays open, and the return value, which goes into the record, says so. The
    /// service may listen at its low ports, see [`LowPorts::allow`].
    ///
    /// # Errors
    /// When low ports cannot be allowed.
    pub(crate) fn close(&mut self, run: &str, start: &ServiceStart, user: UserHere) -> Result<String, Fault> {
        let user = if start.service.as_image { UserHere::Several } else { user };
        let low = self.low.allow(run, start.service.ports.values().copied(), (start.service.user.0, user))?;
        if !marks::run_directory(run).is_dir() {
            return Ok(low);
        }
        let closed = self.put_up_and_close(run, start, user);
        let open = |error| format!("; open to other machines too, as no fence stands: {error}");
        Ok(low + &closed.unwrap_or_else(open))
    }

    fn put_up_and_close(&mut self, run: &str, start: &ServiceStart, here: UserHere) -> io::Result<String> {
        if self.fence.is_none() {
            self.fence = Some(Fence::put_up(run, &Pinned::folder(run))?);
        }
        let fence = self.fence.as_mut().expect("it was put up right before");
        let user = if here == UserHere::Several { SEVERAL } else { start.service.user.0 };
        self.users.insert(start.instance.clone(), user);
        let undeclared = match &fence.doors {
            Ok(_) if here != UserHere::Same => here.why_not_told(),
            // Services of another run could have the same user.
            Ok(_) if !lock::is_held() => Some("this process has not locked the machine".to_owned()),
            Ok(doors) => doors.watch(user).map(|()| None)?,
            Err(error) => Some(error.to_string()),
        };
        if undeclared.is_some() {
            self.whole.insert(start.instance.clone());
            start.service.ports.values().try_for_each(|port| fence.close(*port, user))?;
        }
        let to_all = fence.to_all.as_ref().map_or_else(
            |error| Some(error.to_string()),
            |watched| watched.look().err().map(|error| error.to_string()).or_else(|| watched.failed()),
        );
        let killed = fence.not_pinned();
        let open = "; open to other machines too";
        let said = [
            undeclared.map(|error| format!("{open} where it declares no port: {error}")),
            to_all.map(|error| format!("{open} for what is sent to all: {error}")),
            killed.map(|error| format!("{open} if this process is killed: {error}")),
        ];
        Ok(said.into_iter().flatten().collect())
    }

    /// Opens the ports of a service that has ended: whoever listens there next is not ours.
    pub(crate) fn open(&mut self, start: &ServiceStart) {
        self.low.take_back(start.service.ports.values().copied(), start.service.user.0);
        let Some(fence) = &self.fence else { return };
        // Ports of bound sockets open as the sockets close: another service may use the same port number.
        if self.whole.remove(&start.instance) {
            start.service.ports.values().for_each(|port| fence.open(*port));
        }
        let user = self.users.remove(&start.instance);
        // If a workload gives one user to several services, the others' ports stay closed.
        if let Some(user) = user.filter(|user| !self.users.values().any(|other| other == user)) {
            fence.leave(user);
        }
    }
}

/// Ports of the network namespace that it was made in, closed to everybody but this machine and the load.
#[derive(Debug)]
struct Fence {
    closed: Closed,
    /// Kept for the test that asks the kernel what it costs.
    #[cfg_attr(not(test), expect(dead_code, reason = "what is attached holds the program"))]
    program: Program,
    /// The program filters packets before they reach sockets for as long as this is kept.
    _between: Attached,
    /// What closes undeclared ports, or why that cannot be had.
    doors: io::Result<Doors>,
    /// What keeps out broadcast and multicast, also on links that appear later, or why that cannot be had.
    to_all: io::Result<Arrivals>,
    /// What keeps all of it in place when this process is killed, or why that cannot be had.
    pinned: Arc<Mutex<io::Result<Pinned>>>,
}

impl Fence {
    /// Sets up a fence around no port yet. Load comes by the run's link, or by none if there is no such link. What
    /// outlives this process is named in `folder`, which is created.
    ///
    /// # Errors
    /// When the kernel lacks such programs, as before Linux 5.17, or does not let this process have one.
    fn put_up(run: &str, folder: &Path) -> io::Result<Fence> {
        Fence::open_to(LOOPBACK, link_index(&seat_link(run))?.unwrap_or(LOOPBACK), run, folder)
    }

    /// The same, for two links given by their indices.
    fn open_to(loopback: u32, load: u32, run: &str, folder: &Path) -> io::Result<Fence> {
        let closed = Map::new(CLOSED_MAX)?;
        let program = Program::load(Kind::SocketLookup, "tare_fence", c"GPL", &code(&closed, loopback, load))?;
        // The thread's namespace, which is not the process's if the thread has entered another.
        let between = program.attach_to_network(File::open("/proc/thread-self/ns/net")?)?;
        let doors = Doors::open(&closed);
        let attached = doors.iter().flat_map(Doors::attached).chain([&between]).collect::<Vec<_>>();
        let pinned = Arc::new(Mutex::new(Pinned::put_up(folder, &attached)));
        // What comes in by these links needs no watching.
        let (inner, run) = ([loopback, load], run.to_owned());
        let own = move |link: &Link| inner.contains(&link.index) || register::is_made(&run, Made::Link, &link.name);
        let names = Arc::clone(&pinned);
        let to_all = ToAll::new(&closed).and_then(|mut to_all| {
            // A failure to pin is reported elsewhere.
            Arrivals::watch(move || {
                let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
                to_all.cover(&own, names.as_mut().ok())
            })
        });
        Ok(Fence { closed, program, _between: between, doors, to_all, pinned })
    }

    /// Why the fence would not outlive this process, if so.
    fn not_pinned(&self) -> Option<String> {
        let pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        pinned.as_ref().err().map(io::Error::to_string)
    }

    /// Closes a port in both protocols at every address.
    fn close(&self, port: u16, user: u32) -> io::Result<()> {
        everywhere(port).into_iter().try_for_each(|key| self.closed.insert(key, user))
    }

    fn open(&self, port: u16) {
        for key in everywhere(port) {
            // One that was not closed is open.
            let _ = self.closed.remove(key);
        }
    }

    /// Opens everything that a user's services have bound, except what another user's socket has as well, which opens
    /// with that socket. Ports that were closed again for nobody in particular are opened too.
    fn leave(&self, user: u32) {
        let held = self.doors.as_ref().map(|doors| {
            doors.leave(user);
            doors.held()
        });
        let held = held.unwrap_or_default();
        let own = |(key, owner): &(Key, u32)| [user, NOBODY].contains(owner) && !held.contains(key);
        for (key, _) in self.closed.entries().into_iter().filter(own) {
            let _ = self.closed.remove(key);
        }
    }
}

/// A port in each protocol at every address.
fn everywhere(port: u16) -> [Key; 2] {
    TRANSPORTS.map(|transport| key(transport, SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))))
}

fn link_index(name: &str) -> io::Result<Option<u32>> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    match name_to_index(&socket, name) {
        Ok(index) => Ok(Some(index)),
        Err(rustix::io::Errno::NODEV) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// In words, where `packet` is what is asked about:
/// `packet.came_by != loopback and packet.came_by != load and key(packet.protocol, packet.local) in closed`
/// finds no socket; everything else is as it would be without this program.
fn code(closed: &Closed, loopback: u32, load: u32) -> Vec<Instruction> {
    const PACKET: Register = R6;
    const LINK: Register = R7;
    const IS_IPV4: Register = R8;
    const AS_EVER: [Instruction; 2] = [Instruction::set(R0, 1), Instruction::end()];
    const NOBODY: [Instruction; 2] = [Instruction::set(R0, 0), Instruction::end()];
    [
        &[Instruction::copy(PACKET, R1), Instruction::read_u32(LINK, PACKET, CAME_BY)][..],
        &Instruction::if_equal(LINK, loopback.cast_signed(), &AS_EVER),
        &Instruction::if_equal(LINK, load.cast_signed(), &AS_EVER),
        &[
            Instruction::read_u32(R1, PACKET, LOCAL_PORT),
            Instruction::read_u32(R2, PACKET, PROTOCOL),
            Instruction::shift_left(R2, 16),
            Instruction::or(R1, R2),
            Instruction::write_u32(R10, KEY_PORT, R1),
            Instruction::set(IS_IPV4, 0),
            Instruction::read_u32(R1, PACKET, FAMILY),
        ],
        &Instruction::if_equal(R1, libc::AF_INET, &[Instruction::set(IS_IPV4, 1)]),
        &Instruction::if_equal(IS_IPV4, 1, &put_ipv4(PACKET, LOCAL_IPV4)),
        &Instruction::if_equal(IS_IPV4, 0, &put_ipv6(PACKET, LOCAL_IPV6)),
        &where_closed(closed, IS_IPV4, &NOBODY),
        &AS_EVER,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{as_user, bind_ipv6_alone, in_own_network};
    use crate::sample;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;
    use tare_core::workload::Service;

    /// How often the program ran: for connections, and not for the data on them.
    #[test]
    fn what_is_said_on_a_connection_does_not_pass_it() {
        in_own_network(|| {
            let folder = tempfile::tempdir().unwrap();
            let fence = Fence::put_up("none00", &folder.path().join("fence")).unwrap();
            let _counted = tare_bpf::count_runs().unwrap();
            let runs = || fence.program.runs().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            fence.close(listener.local_addr().unwrap().port(), 5).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let mut server = listener.accept().unwrap().0;
            let connected = runs();
            assert!((1..=3).contains(&connected), "{connected} for a connection");
            let mut byte = [0];
            for _ in 0..1000 {
                client.write_all(&byte).unwrap();
                server.read_exact(&mut byte).unwrap();
                server.write_all(&byte).unwrap();
                client.read_exact(&mut byte).unwrap();
            }
            assert_eq!(runs(), connected);
        });
    }

    /// Both families, streams and datagrams, in a namespace of its own where the loopback is a link like any other.
    #[test]
    fn what_comes_by_another_link_finds_nobody() {
        in_own_network(|| {
            // Links that do not exist, so that the loopback is neither of the two.
            let folder = tempfile::tempdir().unwrap();
            let fence = Fence::open_to(78, 77, "none00", &folder.path().join("fence")).unwrap();
            for (any, to) in [("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "[::1]")] {
                let (stream, datagrams) = (TcpListener::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
                datagrams.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                let place = |port: u16| format!("{to}:{port}");
                let (first, second) = (stream.local_addr().unwrap().port(), datagrams.local_addr().unwrap().port());
                let reached = || {
                    let sender = UdpSocket::bind(any).unwrap();
                    sender.send_to(b"x", place(second)).unwrap();
                    (TcpStream::connect(place(first)).is_ok(), datagrams.recv(&mut [0; 8]).is_ok())
                };
                assert_eq!(reached(), (true, true), "{to}: nothing is closed");
                [first, second].iter().for_each(|port| fence.close(*port, 5).unwrap());
                assert_eq!(reached(), (false, false), "{to}: closed");
                [first, second].iter().for_each(|port| fence.open(*port));
                assert_eq!(reached(), (true, true), "{to}: open again");
                fence.close(first, 5).unwrap();
                assert!(TcpStream::connect(place(first)).is_err());
            }
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let place = listener.local_addr().unwrap();
            fence.close(place.port(), 5).unwrap();
            assert!(TcpStream::connect(place).is_err());
            drop(fence);
            assert!(TcpStream::connect(place).is_ok(), "it goes with its owner");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "and so does what it was named in");
        });
    }

    /// In its engine's user namespace, a service runs as a user that nothing here watches.
    #[test]
    fn the_declared_ports_of_whom_nobody_knows_are_closed_whole() {
        in_own_network(|| {
            let folder = tempfile::tempdir().unwrap();
            let fence = Fence::open_to(78, 77, "none00", &folder.path().join("fence")).unwrap();
            let mut fenced = Fenced { fence: Some(fence), ..Fenced::default() };
            let (declared, other) = (TcpListener::bind("0.0.0.0:0").unwrap(), TcpListener::bind("0.0.0.0:0").unwrap());
            let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
            let ports = BTreeMap::from([("main".to_owned(), port(&declared))]);
            let start = ServiceStart::on(Service { ports, ..sample::service("s") }, None);
            let datagrams = UdpSocket::bind(("0.0.0.0", port(&declared))).unwrap();
            datagrams.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let reached = || {
                let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
                sender.send_to(b"x", ("127.0.0.3", port(&declared))).unwrap();
                let streams = ["127.0.0.1", "127.0.0.2"].map(|to| TcpStream::connect((to, port(&declared))).is_ok());
                (streams, datagrams.recv(&mut [0; 8]).is_ok(), TcpStream::connect(("127.0.0.1", port(&other))).is_ok())
            };
            assert_eq!(reached(), ([true; 2], true, true), "nothing is closed");
            let said = fenced.put_up_and_close("none00", &start, UserHere::Another).unwrap();
            assert_eq!(reached(), ([false; 2], false, true), "closed in both protocols, at every address");
            if fenced.fence.as_ref().unwrap().doors.is_ok() {
                assert!(said.contains("open to other machines too where it declares no port: its engine"), "{said}");
            }
            fenced.open(&start);
            assert_eq!(reached(), ([true; 2], true, true), "open again");
        });
    }

    /// What strangers have at a service's port number, in another protocol or at another address.
    #[test]
    fn the_same_number_of_somebody_else_s_stays_open() {
        const USER: u32 = 95_003;
        in_own_network(|| {
            let folder = tempfile::tempdir().unwrap();
            let fence = Fence::open_to(78, 77, "none00", &folder.path().join("fence")).unwrap();
            let Ok(doors) = &fence.doors else { return println!("skipped: {:?}", fence.doors) };
            doors.watch(USER).unwrap();
            let reached = |place: &str, port: u16| TcpStream::connect(format!("{place}:{port}")).is_ok();

            let (_ours, place) = as_user(USER, || bind_ipv6_alone(SocketType::STREAM, 0));
            let port = place.port();
            let _other = TcpListener::bind(("0.0.0.0", port)).unwrap();
            assert_eq!((reached("[::1]", port), reached("127.0.0.1", port)), (false, true), "another family");
            let datagrams = UdpSocket::bind(("127.0.0.1", port)).unwrap();
            datagrams.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", ("127.0.0.1", port)).unwrap();
            assert!(datagrams.recv(&mut [0; 8]).is_ok(), "another protocol");

            let ours = as_user(USER, || TcpListener::bind("127.0.0.1:0").unwrap());
            let port = ours.local_addr().unwrap().port();
            let _other = TcpListener::bind(("127.0.0.2", port)).unwrap();
            assert_eq!((reached("127.0.0.1", port), reached("127.0.0.2", port)), (false, true), "another address");

            for every in ["0.0.0.0:0", "[::]:0"] {
                let ours = as_user(USER, || TcpListener::bind(every).unwrap());
                let port = ours.local_addr().unwrap().port();
                assert!(!reached("127.0.0.1", port) && !reached("127.0.0.2", port), "{every}");
                assert!(!reached("[::1]", port), "{every}");
            }
        });
    }

    #[test]
    fn who_stops_opens_nothing_that_another_has_bound_still() {
        const USERS: [u32; 2] = [95_004, 95_005];
        in_own_network(|| {
            let folder = tempfile::tempdir().unwrap();
            let fence = Fence::open_to(78, 77, "none00", &folder.path().join("fence")).unwrap();
            let Ok(doors) = &fence.doors else { return println!("skipped: {:?}", fence.doors) };
            USERS.iter().for_each(|user| doors.watch(*user).unwrap());
            let bind = |user: u32, place: SocketAddr| {
                as_user(user, || {
                    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
                    // This lets datagram sockets of several users share a port.
                    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
                    rustix::net::bind(&socket, &place).unwrap();
                    let place: SocketAddr = rustix::net::getsockname(&socket).unwrap().try_into().unwrap();
                    (socket, place)
                })
            };
            let (stays, place) = bind(USERS[0], "127.0.0.1:0".parse().unwrap());
            let (stops, _) = bind(USERS[1], place);
            drop(stops);
            fence.leave(USERS[1]);
            let closed: Vec<Key> = fence.closed.entries().into_iter().map(|(key, _)| key).collect();
            assert_eq!(closed, [key(TRANSPORTS[1], place)]);
            drop(stays);
            assert_eq!(fence.closed.entries(), []);
        });
    }

    /// What is left when the kernel has closed all descriptors of a process, which is what a kill does.
    #[test]
    fn it_outlives_its_process_until_it_is_taken_down() {
        in_own_network(|| {
            let folder = tempfile::tempdir().unwrap();
            let names = folder.path().join("fence");
            let fence = Fence::open_to(78, 77, "none00", &names).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let place = listener.local_addr().unwrap();
            fence.close(place.port(), 5).unwrap();
            match std::mem::replace(&mut *fence.pinned.lock().unwrap(), Err(io::ErrorKind::Other.into())) {
                Ok(pinned) => std::mem::forget(pinned),
                Err(error) => return println!("skipped: {error}"),
            }
            let count = 1 + if fence.doors.is_ok() { 3 } else { 0 } + usize::from(fence.to_all.is_ok());
            drop(fence);
            assert!(TcpStream::connect(place).is_err(), "the fence fell with its process");
            assert_eq!(super::super::pinned::names(&names).unwrap().len(), count);
            crate::network::take_down(&names).unwrap();
            assert!(TcpStream::connect(place).is_ok(), "it was taken down");
            assert_eq!(std::fs::read_dir(&names).unwrap().count(), 0, "its file system is not mounted any more");
        });
    }
}
