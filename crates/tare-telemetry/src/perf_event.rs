//! Opens an event that the kernel counts or samples: perf_event_open(2).

use std::fs::File;
use std::io::Error;
use std::os::fd::FromRawFd;

/// The kernel's `struct perf_event_attr`, up to its clock. A kernel that knows fewer fields accepts the others if they
/// are zero.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    /// Set by [`open`].
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_events: u32,
    pub(crate) breakpoint_type: u32,
    pub(crate) breakpoint_address: [u64; 2],
    pub(crate) branches: u64,
    pub(crate) user_registers: u64,
    pub(crate) user_stack: u32,
    pub(crate) clock: i32,
}

/// Whose events are meant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    /// The calling thread's.
    OwnThread,
    /// All of a CPU's.
    Cpu(u32),
}

/// Opens the event. It lasts until the file is closed.
///
/// # Errors
/// When the kernel does not know the event, or does not allow it.
pub(crate) fn open(mut attributes: Attributes, whose: Whose) -> Result<File, Error> {
    attributes.size = size_of::<Attributes>() as u32;
    let (pid, cpu): (libc::pid_t, libc::c_int) = match whose {
        Whose::OwnThread => (0, -1),
        Whose::Cpu(cpu) => (-1, cpu as libc::c_int),
    };
    const NO_GROUP: libc::c_int = -1;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: the call reads `size` bytes of the structure, which outlives the call, and writes to none of our memory.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, pid, cpu, NO_GROUP, CLOSE_ON_EXEC) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd as libc::c_int) })
}
