//! A filter of system calls, handed to the kernel as the few instructions that it is.

use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
use std::io;

/// What the kernel calls this machine's own way of calling it (`AUDIT_ARCH_*` of `linux/audit.h`).
#[cfg(target_arch = "x86_64")]
const THIS_WAY: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const THIS_WAY: u32 = 0xc000_00b7;
/// Numbers from here on are those of yet another way, which x86 has beside it.
const OTHER_WAY: u32 = 0x4000_0000;

/// Where `struct seccomp_data` holds the number of the call, and the way of calling.
const NUMBER: u32 = 0;
const WAY: u32 = 4;

/// What runs other programs, reaches into other processes, or changes the machine: not a sampler's business, whatever
/// its capabilities would allow.
const DENIED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
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
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
];

/// Denies these calls (EPERM) to this thread and to those that it starts, for good. They must have no way to gain
/// privileges already.
///
/// # Errors
/// When the kernel has no filters.
pub(super) fn deny_all_that_changes() -> io::Result<()> {
    let mut code = Vec::with_capacity(2 * DENIED.len() + 7);
    let step = |operation: u32, number: u32, skipped_if: (u8, u8)| libc::sock_filter {
        code: operation as u16,
        jt: skipped_if.0,
        jf: skipped_if.1,
        k: number,
    };
    let load = BPF_LD | BPF_W | BPF_ABS;
    let deny = step(BPF_RET | BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, (0, 0));
    code.extend([step(load, WAY, (0, 0)), step(BPF_JMP | BPF_JEQ | BPF_K, THIS_WAY, (1, 0)), deny]);
    code.extend([step(load, NUMBER, (0, 0)), step(BPF_JMP | BPF_JGE | BPF_K, OTHER_WAY, (0, 1)), deny]);
    for call in DENIED {
        code.extend([step(BPF_JMP | BPF_JEQ | BPF_K, *call as u32, (0, 1)), deny]);
    }
    code.push(step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, (0, 0)));
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // SAFETY: the program has as many instructions as it says, and outlives the call, which copies it.
    let answer = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
