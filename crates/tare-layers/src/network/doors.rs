//! Which ports the users of services have bound, whether a workload declares them or not.
//!
//! A BPF program runs whenever a process of this machine has bound an IPv4 or IPv6 socket (`post_bind`, where the port
//! is known even if the kernel chose it). If the process has the user of one of our services, and the socket is in our
//! network namespace, the program records protocol, address and port as closed before anybody can get an answer there:
//! the same number in another protocol or at another address may be somebody else's. Another program runs when a socket
//! is closed and, if it was the last that a service had bound there, opens the port: the kernel gives such a number to
//! somebody else next. They cost a few table look-ups per bind and one per closed socket, and nothing for packets or
//! the data on connections.
//!
//! Services are recognised by user and not by cgroup: a Docker container has no cgroup before its first process runs.
//! So this is only for a process that has the machine to itself ([`crate::lock`]).

use super::closed::{Closed, KEY, KEY_PORT, Key, call, mark_ipv6_alone, put_ipv4, put_ipv6};
use crate::cgroup::hierarchies;
use rustix::net::{AddressFamily, SocketType};
use std::collections::HashSet;
use std::io;
use std::os::fd::AsRawFd;
use tare_bpf::Register::{self, R0, R1, R2, R3, R4, R6, R7, R10};
use tare_bpf::{Attached, Function, Instruction, Kind, Map, Program};

/// How many sockets watched users may have bound at once: four times as many as a process may have open.
const BOUND_MAX: u32 = 65_536;
/// How many ports may be bound in a run, counting each protocol and address separately: all ports of both protocols at
/// two addresses. A service has more only on purpose; then nobody may bind another.
const PORTS_MAX: u32 = 4 * 65_536;
/// How many users may be watched at once.
const USERS_MAX: u32 = 4096;

/// Offsets in `struct bpf_sock` of the protocol, and the address and port that the socket was bound to.
const PROTOCOL: i16 = 12;
const BOUND_TO_IPV4: i16 = 24;
const BOUND_TO_IPV6: i16 = 28;
const BOUND_TO: i16 = 44;

/// Offsets in the kernel's `struct sock` of what `bpf_sock` leaves out: two bytes of the family, one of the state, and
/// one of bits, including the one for IPv6-only sockets. They have been there since Linux 3.13.
const FAMILY_AND_BITS: i32 = 16;
/// What the first three of them are while an IPv6 socket is being bound. If they differ, the layout has changed.
const IPV6_UNCONNECTED: i32 = libc::AF_INET6 | UNCONNECTED << 16;
const UNCONNECTED: i32 = 7;
/// The bit, in the last of them, for IPv6 only.
const OF_IPV6_ALONE: i32 = 1 << 5;

/// Has ports closed as they are bound.
#[derive(Debug)]
pub(super) struct Doors {
    /// The watched users, and the network namespace in which each is watched.
    users: Map<u32, u64>,
    network: u64,
    bound: Bound,
    /// Kept for the test that asks the kernel what they cost.
    #[cfg_attr(not(test), expect(dead_code, reason = "what is attached holds the programs"))]
    programs: [Program; 2],
    at_each_bind: [Attached; 2],
    at_each_close: Attached,
}

impl Doors {
    /// From now on, ports bound in this thread's network namespace are recorded in `closed`.
    ///
    /// # Errors
    /// When no version 2 cgroups are mounted as a whole, the kernel has no BPF for them, or another program is attached
    /// there exclusively.
    pub(super) fn open(closed: &Closed) -> io::Result<Doors> {
        let root = hierarchies::root_of_all()?;
        let users = Map::new(USERS_MAX)?;
        let bound = Bound { sockets: Map::new(BOUND_MAX)?, counts: Map::new(PORTS_MAX)? };
        let load = |kind| Program::load(kind, "tare_doors", c"GPL", &at_bind(kind, &users, &bound, closed));
        let programs = [load(Kind::Bound4)?, load(Kind::Bound6)?];
        // First, so that no recorded socket is forgotten.
        let at_close = Program::load(Kind::Closed, "tare_doors", c"GPL", &at_close(&bound, closed))?;
        let closes = at_close.attach_to_cgroup(&root)?;
        let binds = [programs[0].attach_to_cgroup(&root)?, programs[1].attach_to_cgroup(&root)?];
        Ok(Doors { users, network: this_network()?, bound, programs, at_each_bind: binds, at_each_close: closes })
    }

    /// What the kernel runs.
    pub(super) fn attached(&self) -> impl Iterator<Item = &Attached> {
        self.at_each_bind.iter().chain([&self.at_each_close])
    }

    /// From now on, this user's ports are closed.
    pub(super) fn watch(&self, user: u32) -> io::Result<()> {
        self.users.insert(user, self.network)
    }

    /// The ports that open sockets of watched users have bound. Each is opened when its last socket is closed.
    pub(super) fn held(&self) -> HashSet<Key> {
        self.bound.counts.entries().into_iter().filter(|(_, count)| *count > 0).map(|(key, _)| key).collect()
    }

    /// From now on, this user's ports are no longer closed.
    pub(super) fn leave(&self, user: u32) {
        // A user that was not watched needs nothing more.
        let _ = self.users.remove(user);
    }
}

/// The number of this thread's network namespace, as BPF programs see it.
pub(super) fn this_network() -> io::Result<u64> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let (mut number, mut size) = (0_u64, size_of::<u64>() as libc::socklen_t);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_NETNS_COOKIE);
    // SAFETY: the kernel writes at most `size` bytes, which the number has, and how many it wrote.
    let said = unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut number).cast(), &raw mut size) };
    if said == 0 { Ok(number) } else { Err(io::Error::last_os_error()) }
}

/// What watched users have bound. Several sockets may share a port: one for each worker of a server.
#[derive(Debug)]
struct Bound {
    /// The key of its port, by a socket's number.
    sockets: Map<u64, Key>,
    /// How many sockets have a port, by its key. A port that no socket has any more stays, with 0: removing it might
    /// also remove what another processor has counted there in the meantime.
    counts: Map<Key, u64>,
}

/// Where the programs keep on their stack, next to the key of a port, the keys and values for table calls: a socket's
/// number, a count, a user, a piece of kernel memory, and "nobody" in place of a user.
const NUMBER: i16 = -32;
const COUNT: i16 = -40;
const USER: i16 = -48;
const PART: i16 = -56;
const NOBODY: i16 = -64;

/// Puts a key into a table only if it is not there yet.
const ONLY_NEW: i32 = 1;

/// Ends a program: what was asked is allowed, or denied.
pub(super) const ALLOW: [Instruction; 2] = [Instruction::set(R0, 1), Instruction::end()];
const DENY: [Instruction; 2] = [Instruction::set(R0, 0), Instruction::end()];
/// Ends a program that has looked for a key and not found it.
const UNLESS_FOUND: [Instruction; 4] = [Instruction::skip_if_equal(R0, 0, 1), Instruction::skip(2), ALLOW[0], ALLOW[1]];
/// Ends a program that has tried to put a key into a full table.
const UNLESS_PUT: [Instruction; 3] = [Instruction::skip_if_equal(R0, 0, 2), DENY[0], DENY[1]];

/// In words:
/// `if users[user] == socket.network { sockets[socket.number] = key; counts[key] += 1; closed[key] = user }`, with the
/// key of `socket.protocol` and of where the socket was bound. The bind is denied if one of the tables is full.
fn at_bind(family: Kind, users: &Map<u32, u64>, bound: &Bound, closed: &Closed) -> Vec<Instruction> {
    const SOCKET: Register = R6;
    const NETWORK: Register = R7;
    let who = [
        Instruction::copy(SOCKET, R1),
        Instruction::call(Function::GroupAndUser),
        Instruction::write_u32(R10, USER, R0),
    ];
    let here = [
        Instruction::read_u64(NETWORK, R0, 0),
        Instruction::copy(R1, SOCKET),
        Instruction::call(Function::Network),
        Instruction::skip_if_same(R0, NETWORK, 2),
        ALLOW[0],
        ALLOW[1],
    ];
    let what = [
        Instruction::read_u32(R1, SOCKET, BOUND_TO),
        Instruction::read_u32(R2, SOCKET, PROTOCOL),
        Instruction::shift_left(R2, 16),
        Instruction::or(R1, R2),
        Instruction::write_u32(R10, KEY_PORT, R1),
    ];
    let number =
        [Instruction::copy(R1, SOCKET), Instruction::call(Function::Socket), Instruction::write_u64(R10, NUMBER, R0)];
    let place = if family == Kind::Bound4 {
        put_ipv4(SOCKET, BOUND_TO_IPV4).to_vec()
    } else {
        [put_ipv6(SOCKET, BOUND_TO_IPV6), where_every_address(&where_of_ipv6_alone(SOCKET, &mark_ipv6_alone()))]
            .concat()
    };
    let raise = [Instruction::set(R1, 1), Instruction::add_at_once_u64(R0, R1)];
    let mut put = call(Function::Update, &bound.counts, KEY, COUNT);
    put[6] = Instruction::set(R4, ONLY_NEW);
    // Another processor may have counted the first one in the meantime.
    let second =
        [&call(Function::LookUp, &bound.counts, KEY, COUNT)[..], &Instruction::if_equal(R0, 0, &DENY), &raise].concat();
    let first = [&[Instruction::write_number_u64(R10, COUNT, 1)][..], &put, &Instruction::unless_equal(R0, 0, &second)]
        .concat();
    let behind = i16::try_from(first.len()).expect("it is short");
    // A count that exists already is raised.
    let count = [Instruction::skip_if_equal(R0, 0, 3), raise[0], raise[1], Instruction::skip(behind)];
    [
        &who[..],
        &call(Function::LookUp, users, USER, USER),
        &UNLESS_FOUND,
        &here,
        &number,
        // A socket that had been bound before and lost its port again.
        &forget(bound, closed),
        &what,
        &place,
        &call(Function::Update, &bound.sockets, NUMBER, KEY),
        &UNLESS_PUT,
        &call(Function::LookUp, &bound.counts, KEY, COUNT),
        &count,
        &first,
        &call(Function::Update, closed, KEY, USER),
        &UNLESS_PUT,
        &ALLOW,
    ]
    .concat()
}

/// `if stack[KEY].address == [::] { block }`
fn where_every_address(block: &[Instruction]) -> Vec<Instruction> {
    let half = |half, block: &[Instruction]| {
        [&[Instruction::read_u64(R1, R10, KEY + half)][..], &Instruction::if_equal(R1, 0, block)].concat()
    };
    half(0, &half(8, block))
}

/// `if socket is IPv6-only { block }`. If that cannot be determined, it is taken not to be.
fn where_of_ipv6_alone(socket: Register, block: &[Instruction]) -> Vec<Instruction> {
    let bits = [
        &[
            Instruction::read_u32(R1, R10, PART),
            Instruction::shift_right(R1, 24),
            Instruction::and_number(R1, OF_IPV6_ALONE),
        ][..],
        &Instruction::unless_equal(R1, 0, block),
    ]
    .concat();
    [
        &[
            Instruction::copy(R1, R10),
            Instruction::add(R1, i32::from(PART)),
            Instruction::set(R2, 4),
            Instruction::copy(R3, socket),
            Instruction::add(R3, FAMILY_AND_BITS),
            Instruction::call(Function::ReadKernel),
            Instruction::read_u32(R1, R10, PART),
            Instruction::and_number(R1, 0x00ff_ffff),
        ][..],
        &Instruction::if_equal(R1, IPV6_UNCONNECTED, &bits),
    ]
    .concat()
}

/// `if key = sockets.take(stack[NUMBER]) { counts[key] -= 1; if counts[key] == 0 { closed.take(key) } }`. If another
/// processor has counted a socket at that key in the meantime, it is closed again: the other one counts first and then
/// closes, so either it closes after this has opened, or this sees its count.
fn forget(bound: &Bound, closed: &Closed) -> Vec<Instruction> {
    let word =
        |number: i16| [Instruction::read_u32(R1, R0, 4 * number), Instruction::write_u32(R10, KEY + 4 * number, R1)];
    let key: Vec<Instruction> = (0..5).flat_map(word).collect();
    let again = [&[Instruction::write_number_u32(R10, NOBODY, 0)][..], &call(Function::Update, closed, KEY, NOBODY)];
    let counted = [&[Instruction::read_u64(R1, R0, 0)][..], &Instruction::unless_equal(R1, 0, &again.concat())];
    let last = [
        &call(Function::Delete, closed, KEY, USER)[..],
        &call(Function::LookUp, &bound.counts, KEY, COUNT),
        &Instruction::unless_equal(R0, 0, &counted.concat()),
    ];
    let less = [
        &[Instruction::set(R1, -1), Instruction::add_at_once_u64(R0, R1), Instruction::read_u64(R1, R0, 0)][..],
        // Otherwise another socket still has the port.
        &Instruction::if_equal(R1, 0, &last.concat()),
    ];
    let known = [
        &key[..],
        &call(Function::Delete, &bound.sockets, NUMBER, KEY),
        &call(Function::LookUp, &bound.counts, KEY, COUNT),
        &Instruction::unless_equal(R0, 0, &less.concat()),
    ];
    [&call(Function::LookUp, &bound.sockets, NUMBER, KEY)[..], &Instruction::unless_equal(R0, 0, &known.concat())]
        .concat()
}

/// The socket's port is no longer bound.
fn at_close(bound: &Bound, closed: &Closed) -> Vec<Instruction> {
    let number = [Instruction::call(Function::Socket), Instruction::write_u64(R10, NUMBER, R0)];
    [&number[..], &forget(bound, closed), &ALLOW].concat()
}

#[cfg(test)]
mod tests;
