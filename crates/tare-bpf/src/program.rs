//! Programs, and the places in the kernel where they run.

use crate::code::Instruction;
use crate::kernel::{Attributes, Command, ask, make};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where a program runs. The kernel checks the program accordingly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// At a raw tracepoint, with its arguments; from Linux 4.17 on.
    Tracepoint,
    /// When the kernel looks up the socket for a packet that belongs to no connection yet; from Linux 5.9 on.
    SocketLookup,
    /// After a process of a cgroup has bound a socket to an IPv4 address; a result of 0 denies that. From Linux 4.17
    /// on.
    Bound4,
    /// The same for IPv6.
    Bound6,
    /// Before a process of a cgroup binds a socket to an IPv4 address; a result of 0 denies that, and 3 allows even a
    /// privileged port, which needs Linux 5.12.
    Bind4,
    /// The same for IPv6.
    Bind6,
    /// When the last process that has an IPv4 or IPv6 socket closes it; from Linux 5.9 on.
    Closed,
    /// When a packet arrives at a network link, before anything else is done with it; from Linux 6.6 on.
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

    /// The kernel's number of the attach type.
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

/// The length of a program's name in the kernel, with a zero at the end, bytes.
const NAME: usize = 16;

/// A program that the kernel has checked.
#[derive(Debug)]
pub struct Program {
    descriptor: OwnedFd,
    kind: Kind,
}

/// An attached program: the kernel runs it while this value lives.
#[derive(Debug)]
pub struct Attached {
    link: OwnedFd,
}

impl Attached {
    /// Pins it in a BPF file system: the kernel runs the program until the file is removed, whatever becomes of this
    /// process.
    ///
    /// # Errors
    /// When the path is not in a BPF file system, or exists. Always for tracepoints and counting.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let shape = Pinned { path: path.as_ptr() as u64, object: self.link.as_raw_fd(), flags: 0 };
        ask(Command::Pin, &shape).map(drop)
    }

    /// Whether its network link still exists: once the link is gone, the program no longer runs, and another link may
    /// have its number. For [`Kind::CameIn`] only.
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
    /// Loads it into the kernel. `name`, of at most 15 bytes, is its name in the kernel's listings; `licence` decides
    /// whether it may call functions that the kernel reserves for programs under the GPL.
    ///
    /// # Errors
    /// When the kernel does not know such programs, does not allow this process to load one, or rejects this one.
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

    /// Runs it at the tracepoint of this name (`sys_enter` is before each system call).
    ///
    /// # Errors
    /// When the kernel has no such tracepoint.
    pub fn attach_to_tracepoint(&self, place: &CStr) -> io::Result<Attached> {
        let shape = Tracepoint { name: place.as_ptr() as u64, program: self.descriptor.as_raw_fd(), unused: 0 };
        Ok(Attached { link: make(Command::OpenTracepoint, &shape)? })
    }

    /// Runs it for socket lookups in a network namespace.
    ///
    /// # Errors
    /// When this process may not do that.
    pub fn attach_to_network(&self, namespace: impl AsFd) -> io::Result<Attached> {
        self.attach(namespace.as_fd().as_raw_fd())
    }

    /// Runs it for packets that arrive at the link with this index, after other programs there.
    ///
    /// # Errors
    /// When there is no such link, or this process may not do that.
    pub fn attach_to_link(&self, index: u32) -> io::Result<Attached> {
        self.attach(index.cast_signed())
    }

    /// Runs it for the processes of a cgroup of version 2 and of the cgroups below it, together with other programs
    /// there; from Linux 5.7 on.
    ///
    /// # Errors
    /// When this process may not do that, or when another program there is exclusive.
    pub fn attach_to_cgroup(&self, group: impl AsFd) -> io::Result<Attached> {
        self.attach(group.as_fd().as_raw_fd())
    }

    /// `target` is a descriptor or the index of a link.
    fn attach(&self, target: i32) -> io::Result<Attached> {
        let program = self.descriptor.as_raw_fd();
        let shape = Link { program, target, attaches: self.kind.attaches(), flags: 0 };
        Ok(Attached { link: make(Command::MakeLink, &shape)? })
    }

    /// How often it has run while [`count_runs`] was active.
    ///
    /// # Errors
    /// When the kernel does not say, as before Linux 5.1.
    pub fn runs(&self) -> io::Result<u64> {
        // The thread's own table, because a thread may have left the process's table of descriptors.
        let account = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", self.descriptor.as_raw_fd()))?;
        let runs = account.lines().find_map(|line| line.strip_prefix("run_cnt:")?.trim().parse().ok());
        runs.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// Makes the kernel count how often, and for how long, each BPF program on this machine runs, while the returned value
/// lives. That costs every run two readings of the clock. From Linux 5.8 on.
///
/// # Errors
/// When the kernel cannot do that, or does not allow it to this process.
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
    /// Level, size and address of the verifier's log, which is not requested.
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
