//! Which ports the users of services have bound, whether a workload declares them or not.
//!
//! A program of BPF runs whenever a process of this machine has bound a socket of IPv4 or IPv6 (`post_bind`, where the
//! port is known even if the kernel chose it). Where the process has the user of one of our services, and the socket is
//! of our network namespace, it writes the port down as closed before anybody can be answered there. It costs two looks
//! into tables a bind, and packets and connections nothing.
//!
//! It is told by users and not by cgroups: of a container of Docker's there is none before its first process runs. So
//! it is for whoever has this machine to oneself ([`crate::lock`]).

use crate::local::cgroup;
use rustix::net::{AddressFamily, SocketType};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use tare_bpf::Register::{self, R0, R1, R2, R3, R4, R6, R7, R8, R10};
use tare_bpf::{Attached, Function, Instruction, Kind, Map, Program};

/// How many ports may be closed at once: all, of both protocols.
pub(super) const CLOSED_MAX: u32 = 2 * 65_536;
/// How many users may be watched at once.
const USERS_MAX: u32 = 4096;

/// Closed ports, by [`key`], and the user for whom each is.
pub(super) type Closed = Map<u32, u32>;

/// The protocols whose ports are closed, by the kernel's numbers: TCP and UDP.
pub(super) const TRANSPORTS: [u32; 2] = [6, 17];

/// A port of a protocol.
pub(super) fn key(transport: u32, port: u16) -> u32 {
    transport << 16 | u32::from(port)
}

/// Where `struct bpf_sock` holds the protocol and the port that the socket was bound to.
const PROTOCOL: i16 = 12;
const BOUND_TO: i16 = 44;

/// Has ports closed as they are bound.
#[derive(Debug)]
pub(super) struct Doors {
    /// The watched users, and the network namespace in which each is watched.
    users: Map<u32, u64>,
    network: u64,
    /// Kept for the test that asks the kernel what they cost.
    #[cfg_attr(not(test), expect(dead_code, reason = "what is attached holds the programs"))]
    programs: [Program; 2],
    _at_each_bind: [Attached; 2],
}

impl Doors {
    /// Ports that are bound in this thread's network namespace are going to be written into `closed`.
    ///
    /// # Errors
    /// When no cgroups of version 2 are mounted, the kernel has no BPF for them, or another program stands alone there.
    pub(super) fn open(closed: &Closed) -> io::Result<Doors> {
        let root = cgroup::unified_root().map_err(io::Error::other)?;
        let root = root.ok_or_else(|| io::Error::other("no cgroup hierarchy of version 2 is mounted"))?;
        let root = File::open(root)?;
        let users = Map::new(USERS_MAX)?;
        let code = code(&users, closed);
        let load = |kind| Program::load(kind, "tare_doors", c"GPL", &code);
        let programs = [load(Kind::Bound4)?, load(Kind::Bound6)?];
        let attached = [programs[0].attach_to_cgroup(&root)?, programs[1].attach_to_cgroup(&root)?];
        Ok(Doors { users, network: this_network()?, programs, _at_each_bind: attached })
    }

    /// From now on this user's ports are closed.
    pub(super) fn watch(&self, user: u32) -> io::Result<()> {
        self.users.insert(user, self.network)
    }

    /// From now on they are not.
    pub(super) fn leave(&self, user: u32) {
        // One that was not watched needs no more.
        let _ = self.users.remove(user);
    }
}

/// The number of this thread's network namespace, as programs have it.
fn this_network() -> io::Result<u64> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let (mut number, mut size) = (0_u64, size_of::<u64>() as libc::socklen_t);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_NETNS_COOKIE);
    // SAFETY: the kernel writes at most `size` bytes, which the number has, and how many it were.
    let said = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut number).cast(), &raw mut size) };
    if said == 0 { Ok(number) } else { Err(io::Error::last_os_error()) }
}

/// Told in words: `if users[user] == socket.network { closed[key(socket.protocol, socket.bound_to)] = user }`, and the
/// bind is denied where that finds no room.
fn code(users: &Map<u32, u64>, closed: &Closed) -> [Instruction; 33] {
    const SOCKET: Register = R6;
    const NETWORK: Register = R7;
    const USER: Register = R8;
    let [users1, users2] = Instruction::set_map(R1, users);
    let [closed1, closed2] = Instruction::set_map(R1, closed);
    [
        Instruction::copy(SOCKET, R1),
        Instruction::call(Function::GroupAndUser),
        Instruction::copy(USER, R0),
        // On the stack, for what is looked up is pointed to.
        Instruction::write_u32(R10, -4, USER),
        users1,
        users2,
        Instruction::copy(R2, R10),
        Instruction::add(R2, -4),
        Instruction::call(Function::LookUp),
        Instruction::skip_if_equal(R0, 0, 21),
        Instruction::read_u64(NETWORK, R0, 0),
        Instruction::copy(R1, SOCKET),
        Instruction::call(Function::Network),
        Instruction::skip_if_same(R0, NETWORK, 1),
        Instruction::skip(16),
        Instruction::read_u32(R1, SOCKET, BOUND_TO),
        Instruction::read_u32(R2, SOCKET, PROTOCOL),
        Instruction::shift_left(R2, 16),
        Instruction::or(R1, R2),
        Instruction::write_u32(R10, -8, R1),
        closed1,
        closed2,
        Instruction::copy(R2, R10),
        Instruction::add(R2, -8),
        Instruction::copy(R3, R10),
        Instruction::add(R3, -4),
        Instruction::set(R4, 0),
        Instruction::call(Function::Update),
        Instruction::skip_if_equal(R0, 0, 2),
        // Denied.
        Instruction::set(R0, 0),
        Instruction::end(),
        Instruction::set(R0, 1),
        Instruction::end(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::thread::scope;

    /// A user that nobody is.
    const USER: u32 = 95_001;

    /// What `act` gives as a user, in a thread that ends with it.
    fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            // SAFETY: the raw call changes this thread alone, which ends here.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }, 0);
            act()
        };
        scope(|scope| scope.spawn(inside).join().unwrap())
    }

    /// Ports of both protocols and both families that the kernel has chosen, as keys, with what holds them.
    fn four() -> (Vec<u32>, impl Send) {
        let places = [SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))];
        let streams = places.map(|place| TcpListener::bind(place).unwrap());
        let datagrams = places.map(|place| UdpSocket::bind(place).unwrap());
        let streamed = streams.iter().map(|socket| key(TRANSPORTS[0], socket.local_addr().unwrap().port()));
        let sent = datagrams.iter().map(|socket| key(TRANSPORTS[1], socket.local_addr().unwrap().port()));
        (streamed.chain(sent).collect(), (streams, datagrams))
    }

    fn in_own_network() {
        // SAFETY: NEWNET gives this thread a network of its own; it ends with it.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
        crate::network::link_up("lo").unwrap();
    }

    #[test]
    fn what_a_user_binds_is_closed_here_and_nowhere_else() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: it needs root");
        }
        let inside = || {
            in_own_network();
            let closed = Map::new(CLOSED_MAX).unwrap();
            let doors = match Doors::open(&closed) {
                Ok(doors) => doors,
                Err(error) => return println!("skipped: {error}"),
            };
            let none = as_user(USER, four);
            assert_eq!(closed.entries(), [], "nobody is watched");
            doors.watch(USER).unwrap();
            let other = as_user(USER + 1, four);
            let elsewhere = as_user(USER, || scope(|scope| scope.spawn(in_other_network).join().unwrap()));
            assert_eq!(closed.entries(), [], "another user, or another network");
            let (mut bound, held) = as_user(USER, four);
            let mut entries = closed.entries();
            entries.sort_unstable();
            bound.sort_unstable();
            assert_eq!(entries, bound.into_iter().map(|key| (key, USER)).collect::<Vec<_>>());
            doors.leave(USER);
            let after = as_user(USER, four);
            assert_eq!(closed.entries().len(), 4, "what is bound afterwards stays open");
            drop((none, other, elsewhere, held, after));
        };
        scope(|scope| scope.spawn(inside).join().unwrap());
    }

    /// As root of a user namespace, which is how anybody may have a network of their own.
    fn in_other_network() -> Option<(Vec<u32>, impl Send)> {
        let flags = rustix::thread::UnshareFlags::NEWNET | rustix::thread::UnshareFlags::NEWUSER;
        // SAFETY: this thread alone is moved, and ends with it.
        unsafe { rustix::thread::unshare_unsafe(flags) }.ok().map(|()| four())
    }

    #[test]
    fn a_port_for_which_there_is_no_room_is_denied() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: it needs root");
        }
        let inside = || {
            in_own_network();
            let closed = Map::new(1).unwrap();
            let doors = match Doors::open(&closed) {
                Ok(doors) => doors,
                Err(error) => return println!("skipped: {error}"),
            };
            doors.watch(USER).unwrap();
            let (first, second) = as_user(USER, || (TcpListener::bind("0.0.0.0:0"), TcpListener::bind("0.0.0.0:0")));
            assert!(first.is_ok());
            assert_eq!(second.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        };
        scope(|scope| scope.spawn(inside).join().unwrap());
    }

    /// They are run for each bind, and for nothing else.
    #[test]
    fn neither_connections_nor_what_is_said_on_them_pass_it() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: it needs root");
        }
        let inside = || {
            in_own_network();
            let closed = Map::new(CLOSED_MAX).unwrap();
            let doors = match Doors::open(&closed) {
                Ok(doors) => doors,
                Err(error) => return println!("skipped: {error}"),
            };
            doors.watch(USER).unwrap();
            let listener = as_user(USER, || TcpListener::bind("127.0.0.1:0").unwrap());
            let place = listener.local_addr().unwrap();
            // Others of this machine may bind as well; who connects does not.
            let runs = || doors.programs.iter().map(|program| program.runs().unwrap()).sum::<u64>();
            let _counted = tare_bpf::count_runs().unwrap();
            let least = (0..20).map(|_| {
                let before = runs();
                for _ in 0..100 {
                    let mut client = TcpStream::connect(place).unwrap();
                    io::Write::write_all(&mut client, b"x").unwrap();
                    io::Read::read_exact(&mut listener.accept().unwrap().0, &mut [0]).unwrap();
                }
                runs() - before
            });
            assert_eq!(least.min(), Some(0), "for 100 connections");
            let before = runs();
            as_user(USER, || drop(TcpListener::bind("127.0.0.1:0").unwrap()));
            assert!(runs() > before, "a bind passes it");
        };
        scope(|scope| scope.spawn(inside).join().unwrap());
    }
}
