//! The system calls by which a process names files, and the filter that has the kernel tell of them.

use crate::least::filter::{NUMBER, OTHER_WAY, THIS_WAY, WAY, end, load, step, where_it};
use crate::local::confinement::check;
use libc::{BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, c_long};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// What a call does with the file that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Runs it.
    Run,
    /// Opens it; the flags are this argument.
    Open(usize),
    /// Opens it; this argument is the address of a structure that begins with the flags.
    OpenHow(usize),
    /// Looks whether it is there, or what it is.
    Look,
    /// Makes, replaces or removes it.
    Change,
}

/// A call that names a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    number: c_long,
    /// The argument that is the folder to which the path is relative; the current folder if there is none.
    pub(super) folder: Option<usize>,
    /// The argument that is the address of the path.
    pub(super) path: usize,
    pub(super) way: Way,
}

const fn at(number: c_long, folder: usize, way: Way) -> Call {
    Call { number, folder: Some(folder), path: folder + 1, way }
}

const fn plain(number: c_long, path: usize, way: Way) -> Call {
    Call { number, folder: None, path, way }
}

const CALLS: &[Call] = &[
    plain(libc::SYS_execve, 0, Way::Run),
    at(libc::SYS_execveat, 0, Way::Run),
    at(libc::SYS_openat, 0, Way::Open(2)),
    at(libc::SYS_openat2, 0, Way::OpenHow(2)),
    at(libc::SYS_newfstatat, 0, Way::Look),
    at(libc::SYS_statx, 0, Way::Look),
    at(libc::SYS_faccessat, 0, Way::Look),
    at(libc::SYS_faccessat2, 0, Way::Look),
    at(libc::SYS_readlinkat, 0, Way::Look),
    plain(libc::SYS_chdir, 0, Way::Look),
    at(libc::SYS_mkdirat, 0, Way::Change),
    at(libc::SYS_unlinkat, 0, Way::Change),
    at(libc::SYS_renameat, 2, Way::Change),
    at(libc::SYS_renameat2, 2, Way::Change),
];

/// Older variants of some of them, which not every machine has.
#[cfg(target_arch = "x86_64")]
const CALLS_HERE: &[Call] = &[
    plain(libc::SYS_open, 0, Way::Open(1)),
    plain(libc::SYS_creat, 0, Way::Change),
    plain(libc::SYS_stat, 0, Way::Look),
    plain(libc::SYS_lstat, 0, Way::Look),
    plain(libc::SYS_access, 0, Way::Look),
    plain(libc::SYS_readlink, 0, Way::Look),
    plain(libc::SYS_mkdir, 0, Way::Change),
    plain(libc::SYS_unlink, 0, Way::Change),
    plain(libc::SYS_rmdir, 0, Way::Change),
    plain(libc::SYS_rename, 1, Way::Change),
];
#[cfg(not(target_arch = "x86_64"))]
const CALLS_HERE: &[Call] = &[];

/// The call of this number, if it names a file.
pub(super) fn call(number: libc::c_int) -> Option<&'static Call> {
    CALLS.iter().chain(CALLS_HERE).find(|call| call.number == c_long::from(number))
}

/// The instructions of a filter that has the kernel tell of these calls, and lets all others pass. Programs of another
/// calling convention are not told of.
pub(super) fn instructions() -> Vec<libc::sock_filter> {
    let (pass, tell) = (end(libc::SECCOMP_RET_ALLOW), [end(libc::SECCOMP_RET_USER_NOTIF)]);
    let told = |call: &Call| where_it(BPF_JEQ, call.number as u32, &tell);
    [
        &[load(WAY), step(BPF_JMP | BPF_JEQ | BPF_K, THIS_WAY, (1, 0)), pass, load(NUMBER)][..],
        &where_it(BPF_JGE, OTHER_WAY, &[pass]),
        &CALLS.iter().chain(CALLS_HERE).flat_map(told).collect::<Vec<_>>(),
        &[pass],
    ]
    .concat()
}

/// Has the kernel tell of these calls of this thread, and of whatever it starts, at the descriptor that is returned. It
/// is closed when a program begins. The thread must already have no way to gain privileges. Allocates nothing, so that
/// it may be called between fork and exec.
///
/// # Errors
/// When the kernel cannot, or somebody else watches this thread already.
pub(super) fn tell(code: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_ptr().cast_mut() };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the program has as many instructions as it says, and outlives the call, which only reads it.
    let descriptor = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    check(descriptor)?;
    // SAFETY: the call succeeded, so it is open and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_call_is_listed_once_and_known_by_its_number() {
        let numbers: BTreeSet<c_long> = CALLS.iter().chain(CALLS_HERE).map(|call| call.number).collect();
        assert_eq!(numbers.len(), CALLS.len() + CALLS_HERE.len());
        let found = call(libc::SYS_renameat2 as libc::c_int).unwrap();
        assert_eq!((found.folder, found.path, found.way), (Some(2), 3, Way::Change));
        assert_eq!(call(libc::SYS_read as libc::c_int), None);
    }
}
