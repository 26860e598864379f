//! System calls, counted one by one by a program of a few instructions that the kernel runs at each of them.
//!
//! The program adds one to the count of the calling process and of the call, wherever it runs; who belongs to which
//! scope is looked up here. Nothing is written out per call, so nothing can be lost.

use std::fs::File;
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd};
use tare_core::fault::Fault;

/// As many pairs of a process and a call have room.
const ROOM: u32 = 65_536;

/// How often each process made each call so far.
pub(super) struct Calls {
    counts: File,
    /// Dropped, they end the counting.
    _program: File,
    _attached: File,
}

impl Calls {
    /// Counts from now on.
    ///
    /// # Errors
    /// Why this machine does not let it, and what would.
    pub(super) fn begin() -> Result<Calls, Fault> {
        let refused = |error: Error| {
            let fault = Fault::from_error("have the kernel count system calls (bpf)", &error);
            fault.remedy(match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => "run as root, on a kernel that is not locked down",
                _ => "use a kernel with CONFIG_BPF_SYSCALL and CONFIG_FTRACE_SYSCALLS",
            })
        };
        allow_locked_memory();
        let calls = Calls::attach().map_err(refused)?;
        // Where processes have other numbers here than they have to the kernel, no count could be told whose it is.
        let own = calls.read().into_iter().any(|count| count.pid == std::process::id());
        let strange =
            || Fault::new("processes have other numbers here than they have to the kernel's counter of calls");
        own.then_some(calls).ok_or_else(|| strange().remedy("run Tare on the machine itself, not in a container"))
    }

    fn attach() -> Result<Calls, Error> {
        let counts = make(MAP_CREATE, &MapCreate { kind: MAP_HASH, key: 8, value: 8, entries: ROOM, flags: 0 })?;
        let code = program(counts.as_raw_fd());
        let licence = c"MIT";
        let load = ProgramLoad {
            kind: RAW_TRACEPOINT,
            length: code.len() as u32,
            code: code.as_ptr() as u64,
            licence: licence.as_ptr() as u64,
            log: [0; 2],
            kernel: 0,
            flags: 0,
            // Its own time shows in the stacks, by this name.
            name: *b"tare_counts\0\0\0\0\0",
        };
        let program = make(PROGRAM_LOAD, &load)?;
        let place = c"sys_enter";
        let attach = Attach { name: place.as_ptr() as u64, program: program.as_raw_fd(), unused: 0 };
        let attached = make(RAW_TRACEPOINT_OPEN, &attach)?;
        Ok(Calls { counts, _program: program, _attached: attached })
    }

    /// What was counted so far. Of more pairs than have room, those that came last are not among them.
    pub(super) fn read(&self) -> Vec<Count> {
        let (mut key, mut next, mut value) = (u64::MAX, 0_u64, 0_u64);
        let mut counts = Vec::new();
        loop {
            let step = self.entry(&raw const key, &raw mut next);
            if ask(MAP_GET_NEXT_KEY, &step).is_err() || counts.len() > ROOM as usize {
                return counts;
            }
            key = next;
            let look = self.entry(&raw const key, &raw mut value);
            if ask(MAP_LOOKUP, &look).is_ok() {
                counts.push(Count { pid: (key >> 32) as u32, number: key as u32, count: value });
            }
        }
    }

    fn entry(&self, key: *const u64, into: *mut u64) -> MapEntry {
        MapEntry { map: self.counts.as_raw_fd(), unused: 0, key: key as u64, into: into as u64, flags: 0 }
    }
}

/// How often a process made a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    pub(super) pid: u32,
    /// The call's number.
    pub(super) number: u32,
    pub(super) count: u64,
}

/// An instruction as the kernel takes it: operation, registers (source in the upper half), offset, number.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction(u8, u8, i16, i32);

/// `counts[pid << 32 | call] += 1`, with the pid of the calling process.
fn program(counts: i32) -> [Instruction; 28] {
    // Registers: 0 is what a call of the kernel returns, 1 to 5 its arguments, 6 to 9 last, 10 is the stack's end.
    let of = |to: u8, from: u8| to | from << 4;
    let copy = |to, from| Instruction(0xbf, of(to, from), 0, 0);
    let set = |to, number| Instruction(0xb7, of(to, 0), 0, number);
    let call = |function| Instruction(0x85, 0, 0, function);
    // Its number as 64 bits, which take two instructions; source 1 says that it is a map's descriptor.
    let map = [Instruction(0x18, of(1, 1), 0, counts), Instruction(0, 0, 0, 0)];
    let key = [copy(2, 10), Instruction(0x07, of(2, 0), 0, -8)];
    let [map1, map2] = map;
    let [key1, key2] = key;
    const LOOKUP: i32 = 1;
    const UPDATE: i32 = 2;
    const PID_AND_THREAD: i32 = 14;
    [
        // The second argument of the tracepoint is the call's number.
        Instruction(0x79, of(6, 1), 8, 0),
        Instruction(0x67, of(6, 0), 0, 32),
        Instruction(0x77, of(6, 0), 0, 32),
        call(PID_AND_THREAD),
        Instruction(0x77, of(0, 0), 0, 32),
        Instruction(0x67, of(0, 0), 0, 32),
        Instruction(0x4f, of(6, 0), 0, 0),
        Instruction(0x7b, of(10, 6), -8, 0),
        map1,
        map2,
        key1,
        key2,
        call(LOOKUP),
        // Found: added to in one step, for several CPUs count.
        Instruction(0x15, of(0, 0), 3, 0),
        set(1, 1),
        Instruction(0xdb, of(0, 1), 0, 0),
        Instruction(0x05, 0, 9, 0),
        // Not found: the first of its kind.
        Instruction(0x7a, of(10, 0), -16, 1),
        map1,
        map2,
        key1,
        key2,
        copy(3, 10),
        Instruction(0x07, of(3, 0), 0, -16),
        set(4, 0),
        call(UPDATE),
        set(0, 0),
        Instruction(0x95, 0, 0, 0),
    ]
}

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROGRAM_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;

const MAP_HASH: u32 = 1;
const RAW_TRACEPOINT: u32 = 17;

/// What the kernel takes, as in bpf(2); the fields behind these are zero when they are not handed over.
trait Attributes {}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapEntry {
    map: i32,
    unused: u32,
    key: u64,
    into: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    length: u32,
    code: u64,
    licence: u64,
    log: [u64; 2],
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
struct Attach {
    name: u64,
    program: i32,
    unused: u32,
}

impl Attributes for MapCreate {}
impl Attributes for MapEntry {}
impl Attributes for ProgramLoad {}
impl Attributes for Attach {}

fn ask<T: Attributes>(command: libc::c_int, attributes: &T) -> Result<libc::c_long, Error> {
    // SAFETY: the kernel reads `size_of` bytes of the structure; the addresses in it are of objects that outlive the
    // call, and those that it writes to are eight bytes long, as the map's keys and values are.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}

/// The same for a command that hands out a descriptor.
fn make<T: Attributes>(command: libc::c_int, attributes: &T) -> Result<File, Error> {
    let descriptor = ask(command, attributes)?;
    // SAFETY: the kernel has just handed out this descriptor, and nobody else has it.
    Ok(unsafe { File::from_raw_fd(descriptor as libc::c_int) })
}

/// Kernels before 5.11 count such maps as locked memory.
fn allow_locked_memory() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Where it is not allowed, newer kernels do not need it.
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_this_process_are_counted_one_by_one() {
        let calls = match Calls::begin() {
            Ok(calls) => calls,
            Err(fault) => {
                println!("skipped: {fault}");
                return;
            }
        };
        let count = || {
            let own = |count: &&Count| count.pid == std::process::id() && i64::from(count.number) == libc::SYS_getppid;
            calls.read().iter().find(own).map_or(0, |count| count.count)
        };
        let before = count();
        for _ in 0..1234 {
            let _ = std::os::unix::process::parent_id();
        }
        assert_eq!(count() - before, 1234);
    }
}
