//! Programs, and where the kernel runs them.

use crate::code::Instruction;
use crate::kernel::{Attributes, Command, ask, make};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// When a program is run. The kernel checks it accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// At a place in the kernel's code, with pointers to what that place says; from Linux 4.17 on.
    Tracepoint,
    /// Where the socket of a packet is looked for that belongs to no connection yet; from Linux 5.9 on.
    SocketLookup,
    /// Where a process of a cgroup has bound a socket to an address of IPv4, which it is denied where the answer is 0;
    /// from Linux 4.17 on.
    Bound4,
    /// The same for IPv6.
    Bound6,
    /// Where a process of a cgroup is about to bind a socket to an address of IPv4, which it is denied where the answer
    /// is 0; where it is 3, to a port of the privileged too, which needs Linux 5.12.
    Bind4,
    /// The same for IPv6.
    Bind6,
    /// Where the last process that has a socket of IPv4 or IPv6 closes it; from Linux 5.9 on.
    Closed,
    /// Where a packet has come in by a link, before anything else is done with it; from Linux 6.6 on.
    CameIn,
}

impl Kind {
    fn number(self) -> u32 {
        match self {
            Kind::Tracepoint => 17,
            Kind::SocketLookup => 30,
            Kind::CameIn => 3,
            Kind::Bound4 | Kind::Bound6 | Kind::Closed => 9,
            Kind::Bind4 | Kind::Bind6 => 18,
        }
    }

    /// The kernel's number of the place where programs of the kind are attached.
    fn attaches(self) -> u32 {
        match self {
            Kind::Tracepoint => 0,
            Kind::SocketLookup => 36,
            Kind::Bind4 => 8,
            Kind::Bind6 => 9,
            Kind::Bound4 => 12,
            Kind::Bound6 => 13,
            Kind::Closed => 34,
            Kind::CameIn => 46,
        }
    }
}

/// As many bytes of a program's name as the kernel keeps, with a zero at the end.
const NAME: usize = 16;

/// A program that the kernel has checked.
#[derive(Debug)]
pub struct Program {
    descriptor: OwnedFd,
    kind: Kind,
}

/// For as long as this is kept, the kernel runs the program.
#[derive(Debug)]
pub struct Attached {
    link: OwnedFd,
}

impl Attached {
    /// Gives it a name in a file system of BPF's: the kernel runs the program until the file is removed, whatever
    /// becomes of this process.
    ///
    /// # Errors
    /// When the path is in no such file system, or taken; for tracepoints and counting.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let shape = Pinned { path: path.as_ptr() as u64, object: self.link.as_raw_fd(), flags: 0 };
        ask(Command::Pin, &shape).map(drop)
    }

    /// Whether it is still run for what comes in by a link: once the link has gone it is not, and another link may have
    /// its number. For [`Kind::CameIn`] alone.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn is_at_a_link(&self) -> io::Result<bool> {
        let mut facts = Facts::default();
        let size = size_of::<Facts>() as u32;
        let shape = Telling { object: self.link.as_raw_fd(), size, facts: (&raw mut facts) as u64 };
        ask(Command::Tell, &shape)?;
        Ok(facts.network_link != 0)
    }
}

impl Program {
    /// Hands it to the kernel. `name`, of 15 bytes at most, is what the kernel's listings call it; `licence` opens the
    /// functions that the kernel keeps for programs under the GPL.
    ///
    /// # Errors
    /// When the kernel knows no such programs, does not let this process have one, or finds that this one may go wrong.
    pub fn load(kind: Kind, name: &str, licence: &CStr, code: &[Instruction]) -> io::Result<Program> {
        assert!(name.len() < NAME, "{name} is longer than the kernel keeps");
        let mut bytes = [0; NAME];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let shape = Shape {
            kind: kind.number(),
            length: code.len() as u32,
            code: code.as_ptr() as u64,
            licence: licence.as_ptr() as u64,
            log: [0; 2],
            kernel: 0,
            flags: 0,
            name: bytes,
            device: 0,
            attaches: kind.attaches(),
        };
        Ok(Program { descriptor: make(Command::LoadProgram, &shape)?, kind })
    }

    /// Runs it at a place in the kernel's code, by that place's name (`sys_enter` is before each system call).
    ///
    /// # Errors
    /// When the kernel has no such place.
    pub fn attach_to_tracepoint(&self, place: &CStr) -> io::Result<Attached> {
        let shape = Tracepoint { name: place.as_ptr() as u64, program: self.descriptor.as_raw_fd(), unused: 0 };
        Ok(Attached { link: make(Command::OpenTracepoint, &shape)? })
    }

    /// Runs it where sockets are looked for in a network namespace.
    ///
    /// # Errors
    /// When this process may not.
    pub fn attach_to_network(&self, namespace: impl AsFd) -> io::Result<Attached> {
        self.attach(namespace.as_fd().as_raw_fd())
    }

    /// Runs it for what comes in by the link of this number, behind what others have there.
    ///
    /// # Errors
    /// When there is no such link, or this process may not.
    pub fn attach_to_link(&self, index: u32) -> io::Result<Attached> {
        self.attach(index.cast_signed())
    }

    /// Runs it for the processes of a cgroup of version 2, and of those below it, beside what others have there; from
    /// Linux 5.7 on.
    ///
    /// # Errors
    /// When this process may not, or when what another has there stands alone.
    pub fn attach_to_cgroup(&self, group: impl AsFd) -> io::Result<Attached> {
        self.attach(group.as_fd().as_raw_fd())
    }

    /// `target` is the number of a descriptor or a link.
    fn attach(&self, target: i32) -> io::Result<Attached> {
        let program = self.descriptor.as_raw_fd();
        let shape = Link { program, target, attaches: self.kind.attaches(), flags: 0 };
        Ok(Attached { link: make(Command::MakeLink, &shape)? })
    }

    /// How often it was run while [`count_runs`] held.
    ///
    /// # Errors
    /// When the kernel, before Linux 5.1, does not say.
    pub fn runs(&self) -> io::Result<u64> {
        // The table of descriptors is the thread's, as it may have left the process's.
        let account = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", self.descriptor.as_raw_fd()))?;
        let runs = account.lines().find_map(|line| line.strip_prefix("run_cnt:")?.trim().parse().ok());
        runs.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// Has the kernel count how often each program of this machine is run, and for how long, while the answer is kept; that
/// costs each of them a look at the clock. From Linux 5.8 on.
///
/// # Errors
/// When the kernel does not know how, or does not let this process ask.
pub fn count_runs() -> io::Result<Attached> {
    Ok(Attached { link: make(Command::CountRuns, &Counting { what: 0 })? })
}

#[repr(C)]
struct Pinned {
    path: u64,
    object: i32,
    flags: u32,
}

/// The beginning of `struct bpf_link_info` for a program at a link.
#[derive(Default)]
#[repr(C)]
struct Facts {
    kind: u32,
    number: u32,
    program: u32,
    unused: u32,
    network_link: u32,
    attaches: u32,
}

#[repr(C)]
struct Telling {
    object: i32,
    size: u32,
    facts: u64,
}

#[repr(C)]
struct Counting {
    what: u32,
}

#[repr(C)]
struct Shape {
    kind: u32,
    length: u32,
    code: u64,
    licence: u64,
    /// Its level, size and address: none is wanted.
    log: [u64; 2],
    kernel: u32,
    flags: u32,
    name: [u8; NAME],
    device: u32,
    attaches: u32,
}

#[repr(C)]
struct Tracepoint {
    name: u64,
    program: i32,
    unused: u32,
}

#[repr(C)]
struct Link {
    program: i32,
    target: i32,
    attaches: u32,
    flags: u32,
}

// SAFETY: these are the fields of `BPF_OBJ_PIN`, made by `Attached` alone.
unsafe impl Attributes for Pinned {}
// SAFETY: these are the fields of `BPF_OBJ_GET_INFO_BY_FD`, made by `Attached` alone.
unsafe impl Attributes for Telling {}
// SAFETY: this is the field of `BPF_ENABLE_STATS`.
unsafe impl Attributes for Counting {}
// SAFETY: these are the fields of `BPF_PROG_LOAD`, made by `Program` alone.
unsafe impl Attributes for Shape {}
// SAFETY: these are the fields of `BPF_RAW_TRACEPOINT_OPEN`, made by `Program` alone.
unsafe impl Attributes for Tracepoint {}
// SAFETY: these are the fields of `BPF_LINK_CREATE`, made by `Program` alone.
unsafe impl Attributes for Link {}
