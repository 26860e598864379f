//! Keeps everybody but the load, and this machine itself, from services that listen on the machine's own network.
//!
//! Such services commonly listen at every address, without a password. A program of BPF is asked where the kernel
//! looks for the socket of a packet that belongs to no connection yet (`sk_lookup`), so packets of connections cost
//! nothing more. It tells that nobody listens at a closed port, unless the packet came by the loopback or by the load's
//! link. It hangs on descriptors of this process alone: however the process ends, the kernel takes it away.

use super::seat::seat_link;
use crate::leftovers;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The index of the loopback in every network namespace.
const LOOPBACK: u32 = 1;
/// How many ports may be closed at once.
const PORTS_MAX: u32 = 65_536;

/// Commands of bpf(2), and what they are about, as `linux/bpf.h` numbers them.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_HASH: u32 = 1;
const PROGRAM_LOOKUP: u32 = 30;
const ATTACH_LOOKUP: u32 = 36;
/// Where `struct bpf_sk_lookup` holds the local port and the index of the link that a packet came by.
const LOCAL_PORT: i16 = 60;
const CAME_BY: i16 = 64;

/// The ports of a host's services on the machine's own network, closed to others as long as these services stand.
#[derive(Debug, Default)]
pub(crate) struct Fenced(Option<Fence>);

impl Fenced {
    /// Closes the ports of a service that is about to be started for `run`. In a guest there is no run's mark, and
    /// nobody but the load.
    ///
    /// Where that cannot be had the service stands open, and the answer, which is for the record, says so.
    pub(crate) fn close(&mut self, run: &str, ports: &BTreeMap<String, u16>) -> String {
        if !leftovers::run_directory(run).is_dir() {
            return String::new();
        }
        let mut close = || -> io::Result<()> {
            let fence = match self.0.take() {
                Some(fence) => fence,
                None => Fence::put_up(&seat_link(run))?,
            };
            let closed = ports.values().try_for_each(|port| fence.close(*port));
            self.0 = Some(fence);
            closed
        };
        close()
            .err()
            .map_or_else(String::new, |error| format!("; open to other machines too, as no fence stands: {error}"))
    }

    /// Opens the ports of a service that has ended: whoever listens there next is not ours.
    pub(crate) fn open(&self, ports: &BTreeMap<String, u16>) {
        let Some(fence) = &self.0 else { return };
        for port in ports.values() {
            // One that was not closed is open.
            let _ = fence.open(*port);
        }
    }
}

/// Ports of the network namespace that it was made in, closed to whoever is neither on this machine nor the load.
#[derive(Debug)]
struct Fence {
    closed: OwnedFd,
    /// Kept for the test that asks the kernel what it costs.
    #[cfg_attr(not(test), expect(dead_code, reason = "the link holds the program"))]
    program: OwnedFd,
    /// The program stands between packets and sockets for as long as this is open.
    _between: OwnedFd,
}

impl Fence {
    /// Puts one up around no port yet. Load comes by the link of this name, or by none where there is no such link.
    ///
    /// # Errors
    /// When the kernel knows no such programs, as before Linux 5.17, or does not let this process have one.
    fn put_up(load_link: &str) -> io::Result<Fence> {
        let closed = call(MAP_CREATE, &MapShape { kind: MAP_HASH, key: 4, value: 4, entries: PORTS_MAX, flags: 0 })?;
        let instructions = program(closed.as_raw_fd(), link_index(load_link)?.unwrap_or(LOOPBACK));
        Fence::with(closed, &instructions)
    }

    fn with(closed: OwnedFd, instructions: &[Instruction]) -> io::Result<Fence> {
        let program = load(instructions)?;
        // The thread's, which is not the process's where the thread has entered another.
        let network = File::open("/proc/thread-self/ns/net")?;
        let ends = (number(program.as_raw_fd()), number(network.as_raw_fd()));
        let shape = LinkShape { program: ends.0, target: ends.1, attach: ATTACH_LOOKUP, flags: 0 };
        Ok(Fence { closed, program, _between: call(LINK_CREATE, &shape)? })
    }

    fn close(&self, port: u16) -> io::Result<()> {
        let (key, value) = (u32::from(port), 1_u32);
        self.change(MAP_UPDATE, &raw const key, &raw const value)
    }

    fn open(&self, port: u16) -> io::Result<()> {
        let key = u32::from(port);
        self.change(MAP_DELETE, &raw const key, std::ptr::null())
    }

    fn change(&self, command: libc::c_int, key: *const u32, value: *const u32) -> io::Result<()> {
        let map = number(self.closed.as_raw_fd());
        raw(command, &EntryShape { map, padding: 0, key: key as u64, value: value as u64, flags: 0 }).map(drop)
    }
}

fn link_index(name: &str) -> io::Result<Option<u32>> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    match name_to_index(&socket, name) {
        Ok(index) => Ok(Some(index)),
        Err(rustix::io::Errno::NODEV) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// One instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u8,
    /// The register written to in the lower half, the one read from in the upper.
    registers: u8,
    offset: i16,
    value: i32,
}

/// Told in words, `packet` being what is asked about:
/// `packet.came_by == loopback or packet.came_by == load or packet.local_port not in closed`.
fn program(closed: RawFd, load: u32) -> [Instruction; 16] {
    let of = |code, to: u8, from: u8, offset, value| Instruction { code, registers: from << 4 | to, offset, value };
    let read = |to, from, offset| of(0x61, to, from, offset, 0);
    let jump_if_equal = |register, offset, value| of(0x15, register, 0, offset, value);
    [
        of(0xbf, 6, 1, 0, 0), // r6 = the packet
        read(7, 6, CAME_BY),
        jump_if_equal(7, 11, LOOPBACK.cast_signed()),
        jump_if_equal(7, 10, load.cast_signed()),
        read(1, 6, LOCAL_PORT),
        of(0x63, 10, 1, -4, 0), // on the stack, for the look-up takes a place
        of(0x18, 1, 1, 0, closed),
        of(0, 0, 0, 0, 0),     // the other half of the instruction before
        of(0xbf, 2, 10, 0, 0), // r2 = the place on the stack
        of(0x07, 2, 0, 0, -4),
        of(0x85, 0, 0, 0, 1), // r0 = the entry in the map, or 0
        jump_if_equal(0, 2, 0),
        of(0xb7, 0, 0, 0, 0), // no socket is found
        of(0x95, 0, 0, 0, 0),
        of(0xb7, 0, 0, 0, 1), // as without this program
        of(0x95, 0, 0, 0, 0),
    ]
}

fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let licence = c"GPL";
    call(
        PROGRAM_LOAD,
        &ProgramShape {
            kind: PROGRAM_LOOKUP,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            licence: licence.as_ptr() as u64,
            log: [0; 4],
            version: 0,
            flags: 0,
            name: *b"tare_fence\0\0\0\0\0\0",
            interface: 0,
            attach: ATTACH_LOOKUP,
        },
    )
}

#[repr(C)]
struct MapShape {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct EntryShape {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramShape {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    /// Its level, its size, and where it is: none is wanted.
    log: [u32; 4],
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct LinkShape {
    program: u32,
    target: u32,
    attach: u32,
    flags: u32,
}

fn number(descriptor: RawFd) -> u32 {
    descriptor.cast_unsigned()
}

/// A call that makes something.
fn call<T>(command: libc::c_int, shape: &T) -> io::Result<OwnedFd> {
    let made = raw(command, shape)?;
    // SAFETY: the kernel has just opened it for this call, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

fn raw<T>(command: libc::c_int, shape: &T) -> io::Result<RawFd> {
    // SAFETY: the shapes are those of the kernel for these commands, and what they point to outlives the call.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(shape), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as RawFd) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;

    const ENABLE_STATISTICS: libc::c_int = 32;

    /// How often the program was run: for connections, and not for what is said on them.
    #[test]
    fn what_is_said_on_a_connection_does_not_pass_it() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: it needs root");
        }
        let inside = || {
            // SAFETY: NEWNET gives this thread a network of its own; it ends with this closure.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
            crate::network::link_up("lo").unwrap();
            let fence = Fence::put_up("none").unwrap();
            let _counted = call(ENABLE_STATISTICS, &0_u32).unwrap();
            let runs = || -> u64 {
                let info = format!("/proc/thread-self/fdinfo/{}", fence.program.as_raw_fd());
                let text = std::fs::read_to_string(info).unwrap();
                text.lines().find_map(|line| line.strip_prefix("run_cnt:")).unwrap().trim().parse().unwrap()
            };
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            fence.close(listener.local_addr().unwrap().port()).unwrap();
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
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap());
    }

    /// Both families, streams and datagrams, in a namespace of its own in which the loopback is a link like others.
    #[test]
    fn what_comes_by_another_link_finds_nobody() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: it needs root");
        }
        let inside = || {
            // SAFETY: NEWNET gives this thread a network of its own; it ends with this closure.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
            crate::network::link_up("lo").unwrap();
            // The program as it is where the loopback has another index.
            let closed =
                call(MAP_CREATE, &MapShape { kind: MAP_HASH, key: 4, value: 4, entries: 8, flags: 0 }).unwrap();
            let mut instructions = program(closed.as_raw_fd(), 77);
            instructions[2].value = 78;
            let fence = Fence::with(closed, &instructions).unwrap();
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
                [first, second].iter().for_each(|port| fence.close(*port).unwrap());
                assert_eq!(reached(), (false, false), "{to}: closed");
                [first, second].iter().for_each(|port| fence.open(*port).unwrap());
                assert_eq!(reached(), (true, true), "{to}: open again");
                fence.close(first).unwrap();
                assert!(TcpStream::connect(place(first)).is_err());
            }
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let place = listener.local_addr().unwrap();
            fence.close(place.port()).unwrap();
            assert!(TcpStream::connect(place).is_err());
            drop(fence);
            assert!(TcpStream::connect(place).is_ok(), "it goes with its owner");
        };
        std::thread::scope(|scope| scope.spawn(inside).join().unwrap());
    }
}
