//! The system call bpf(2).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A command to the kernel, as `linux/bpf.h` numbers it.
#[derive(Debug, Clone, Copy)]
#[repr(i32)]
pub(crate) enum Command {
    MakeMap = 0,
    LookUp = 1,
    Update = 2,
    Delete = 3,
    NextKey = 4,
    LoadProgram = 5,
    Pin = 6,
    Tell = 15,
    OpenTracepoint = 17,
    MakeLink = 28,
    CountRuns = 32,
}

/// The fields of one command at the beginning of the kernel's `union bpf_attr`; the fields after them count as zero.
///
/// # Safety
/// The type has the layout that the kernel reads for its command, and the addresses in it are those of objects that
/// outlive the call and are as large as the kernel takes them to be.
pub(crate) unsafe trait Attributes {}

/// Gives the kernel a command and returns its answer.
///
/// # Errors
/// The kernel's own.
pub(crate) fn ask<T: Attributes>(command: Command, attributes: &T) -> io::Result<i32> {
    // SAFETY: by the promise of `Attributes`; the kernel reads no more than the size that it is told.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command as libc::c_int, std::ptr::from_ref(attributes), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as i32) }
}

/// The same for a command that returns a descriptor.
///
/// # Errors
/// The kernel's own.
pub(crate) fn make<T: Attributes>(command: Command, attributes: &T) -> io::Result<OwnedFd> {
    let descriptor = ask(command, attributes)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
