//! A system call filter, handed to the kernel as the few instructions that it consists of.

use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W};
use std::io;

/// The kernel's name for this machine's native system call convention (`AUDIT_ARCH_*` in `linux/audit.h`).
#[cfg(target_arch = "x86_64")]
pub(crate) const THIS_WAY: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(crate) const THIS_WAY: u32 = 0xc000_00b7;
/// Numbers from here on belong to another convention, which x86 has as well.
pub(crate) const OTHER_WAY: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data` of the call's number, the calling convention, and the lower half of the first
/// argument.
pub(crate) const NUMBER: u32 = 0;
pub(crate) const WAY: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

/// Calls that run other programs, reach into other processes, or change the machine: not a sampler's business, whatever
/// its capabilities would allow.
const DENIED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
];

/// `SYS_open_tree_attr`, since Linux 6.15.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Older variants of some of them, which not every machine has.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[libc::c_long] =
    &[libc::SYS_fork, libc::SYS_vfork, libc::SYS_mknod, libc::SYS_ioperm, libc::SYS_iopl];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[libc::c_long] = &[];

/// What clone(2) can make in addition to a thread of this process: namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

pub(crate) fn step(operation: u32, number: u32, skipped_if: (u8, u8)) -> libc::sock_filter {
    libc::sock_filter { code: operation as u16, jt: skipped_if.0, jf: skipped_if.1, k: number }
}

pub(crate) fn load(offset: u32) -> libc::sock_filter {
    step(BPF_LD | BPF_W | BPF_ABS, offset, (0, 0))
}

pub(crate) fn end(answer: u32) -> libc::sock_filter {
    step(BPF_RET | BPF_K, answer, (0, 0))
}

/// `if the loaded value compares true with the number { block }`; `how` is one of the kernel's comparisons.
pub(crate) fn where_it(how: u32, number: u32, block: &[libc::sock_filter]) -> Vec<libc::sock_filter> {
    let length = u8::try_from(block.len()).expect("blocks written by hand are short");
    [&[step(BPF_JMP | how | BPF_K, number, (0, length))][..], block].concat()
}

/// Denies these calls (EPERM) to this thread and to those that it starts, for good, and also denies starting a process
/// or signalling any process but this one. The thread must already have no way to gain privileges.
///
/// # Errors
/// When the kernel has no filters.
pub(super) fn deny_all_that_changes() -> io::Result<()> {
    let allow = end(libc::SECCOMP_RET_ALLOW);
    let deny = [end(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32)];
    // clone3(2) takes its flags from memory, which a filter cannot read. Libraries then use clone(2).
    let unknown = [end(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32)];
    let threads_alone = [
        &[load(FIRST_ARGUMENT)][..],
        &where_it(BPF_JSET, NAMESPACES.cast_unsigned(), &deny),
        &where_it(BPF_JSET, libc::CLONE_THREAD.cast_unsigned(), &[allow]),
        &deny,
    ]
    .concat();
    // For a program that ends itself by a signal.
    let itself_alone = [&[load(FIRST_ARGUMENT)][..], &where_it(BPF_JEQ, std::process::id(), &[allow]), &deny].concat();
    let mut code = [
        &[load(WAY), step(BPF_JMP | BPF_JEQ | BPF_K, THIS_WAY, (1, 0)), deny[0], load(NUMBER)][..],
        &where_it(BPF_JGE, OTHER_WAY, &deny),
        &DENIED.iter().chain(DENIED_HERE).flat_map(|call| where_it(BPF_JEQ, *call as u32, &deny)).collect::<Vec<_>>(),
        &where_it(BPF_JEQ, libc::SYS_clone3 as u32, &unknown),
        &where_it(BPF_JEQ, libc::SYS_clone as u32, &threads_alone),
        &where_it(BPF_JEQ, libc::SYS_tgkill as u32, &itself_alone),
        &[allow],
    ]
    .concat();
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // SAFETY: the program has as many instructions as it says, and outlives the call, which copies it.
    let answer = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
