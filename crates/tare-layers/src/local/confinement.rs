//! What a process that is about to become a service's program does to itself between fork and exec: its limits, and
//! everything that it gives up.

use super::{CORE_BYTES, OPEN_FILES, PROCESSES};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use tare_core::fault::Fault;
use tare_core::units::CpuSet;
use tare_core::workload::{why_not_in_image, why_not_user};

/// The capabilities that stay in the bounding set, one bit each: those that Docker leaves a container. A service is not
/// root and may gain no privileges, so it has none of them; but the forms are alike in this, too.
pub(crate) const BOUNDS: u64 = 0xa804_25fb;
/// Those that a service has which runs as its image does: its root user all of them, everybody else none. They are the
/// ones of [`BOUNDS`] without AUDIT_WRITE, MKNOD and NET_RAW, which Podman does not leave a container either, and which
/// would be without effect in a user namespace: so they are the same in every form.
pub(crate) const IMAGE_BOUNDS: u64 = 0x8004_05fb;
/// Sets of 64 bits, in two halves: `_LINUX_CAPABILITY_VERSION_3`.
pub(super) const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// What the child does between fork and exec, in order; it reports the number of each step as it begins it.
pub(super) const STEPS: [&str; 9] = [
    "join its cgroup",
    "leave this process's session",
    "leave behind what is open",
    "be bound to its CPUs",
    "have its memory bound to NUMA nodes",
    "be allowed its open files and processes",
    "become its user",
    "enter its directory",
    "run its program",
];

/// What the child does to itself.
pub(super) struct Confinement {
    pub(super) entrances: Vec<File>,
    /// Where each step's number is written.
    pub(super) progress: OwnedFd,
    pub(super) cpus: Option<libc::cpu_set_t>,
    pub(super) nodes: Option<NodeMask>,
    pub(super) user: (u32, u32),
    /// Whether it runs as its image does.
    pub(super) as_image: bool,
    /// The user namespace that `user` belongs to, if not this one.
    pub(super) namespace: Option<OwnedFd>,
    pub(super) directory: Option<CString>,
}

impl Confinement {
    /// Runs in the child, between fork and exec: plain system calls only.
    pub(super) fn apply(&self) -> io::Result<()> {
        let mut step = 0;
        let mut begin = || {
            // If nobody reads this, the message is merely less exact.
            let _ = rustix::io::write(&self.progress, &[step]);
            step += 1;
        };
        begin();
        for entrance in &self.entrances {
            rustix::io::write(entrance, b"0")?;
        }
        begin();
        // Otherwise an interrupt on the terminal would end the service before the load.
        rustix::process::setsid()?;
        begin();
        leave_open_files()?;
        begin();
        bind_to_cpus(self.cpus.as_ref())?;
        begin();
        bind_memory(self.nodes.as_ref())?;
        begin();
        for (resource, most) in
            [(libc::RLIMIT_NOFILE, OPEN_FILES), (libc::RLIMIT_NPROC, PROCESSES), (libc::RLIMIT_CORE, CORE_BYTES)]
        {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: the limit is a valid rlimit that outlives the call.
            check(unsafe { libc::setrlimit(resource, &limit) }.into())?;
        }
        begin();
        if let Some(namespace) = &self.namespace {
            // SAFETY: plain numbers.
            check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWUSER) }.into())?;
        }
        if self.as_image {
            become_image_user(self.user)?;
        } else {
            become_user(self.user)?;
        }
        begin();
        if let Some(directory) = &self.directory {
            rustix::process::chdir(directory.as_c_str())?;
        }
        begin();
        Ok(())
    }
}

/// Has this thread, and what it starts, run on these CPUs. Plain system calls only.
pub(crate) fn bind_to_cpus(cpus: Option<&libc::cpu_set_t>) -> io::Result<()> {
    let Some(cpus) = cpus else { return Ok(()) };
    // SAFETY: the mask is a valid cpu_set_t of the size given; 0 is this thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) }.into())
}

/// Has this thread, and what it starts, take its memory from these NUMA nodes. Plain system calls only.
pub(crate) fn bind_memory(nodes: Option<&NodeMask>) -> io::Result<()> {
    let Some(nodes) = nodes else { return Ok(()) };
    // The kernel reads one bit less than it is told.
    let bits = 8 * size_of::<NodeMask>() + 1;
    // SAFETY: the mask has as many bits as the call reads.
    check(unsafe { libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, nodes.as_ptr(), bits) })
}

/// Refuses users that no service may have, whoever recorded them: a record is read without a workload's checks.
///
/// # Errors
/// When it is root, unless the service runs as its image does, or not a user at all.
pub(crate) fn check_user(user: (u32, u32), as_image: bool) -> Result<(), Fault> {
    let why = if as_image { why_not_in_image(user) } else { why_not_user(user) };
    let Some(why) = why else { return Ok(()) };
    Err(Fault::new(format!("the service would run as {}:{}: {why}", user.0, user.1))
        .remedy("name another user in the workload, or none, and start a new run"))
}

/// Gives up root and every capability, for good: no program that it starts gets any back. Plain system calls only.
pub(crate) fn become_user(user: (u32, u32)) -> io::Result<()> {
    become_user_with(user, 0)
}

/// The same for a process that keeps these capabilities, one bit each; no program that it starts gets them.
pub(crate) fn become_user_with(user: (u32, u32), kept: u64) -> io::Result<()> {
    become_bounded(user, kept, BOUNDS)
}

/// The same for a user of an image: its root keeps what containers leave it, and so do the programs that it starts. No
/// program gets more, since set-user-id bits have no effect; root becomes another user by itself.
fn become_image_user(user: (u32, u32)) -> io::Result<()> {
    become_bounded(user, if user.0 == 0 { IMAGE_BOUNDS } else { 0 }, IMAGE_BOUNDS)
}

/// Leaves the keys of whoever started this process: they stay with it whatever its user is. Engines do so as well.
fn leave_keys() -> io::Result<()> {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: without a name it is a new keyring, which nobody else has.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>()) };
    match check(joined) {
        // This kernel has no keys, or a filter forbids the call, to what is started here as well.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => Ok(()),
        other => other,
    }
}

/// Becomes a user with these capabilities in the effective and permitted sets, and no more than `bounds` in the
/// bounding set, one bit each.
fn become_bounded(user: (u32, u32), kept: u64, bounds: u64) -> io::Result<()> {
    rustix::process::umask(rustix::fs::Mode::from(0o022));
    drop_from_bounds(bounds)?;
    // The raw calls: the C library's would try to change the threads of the parent, which are not here.
    // SAFETY: an empty list of groups needs no memory; the other calls take plain numbers.
    unsafe {
        if kept != 0 {
            check(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0).into())?;
        }
        check(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
        check(libc::syscall(libc::SYS_setresgid, user.1, user.1, user.1))?;
        check(libc::syscall(libc::SYS_setresuid, user.0, user.0, user.0))?;
        check(libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0).into())?;
    }
    leave_keys()?;
    // A change of user leaves the inheritable ones. Effective, permitted and inheritable; the lower halves first.
    let (mut header, mut had) = ([CAPABILITY_VERSION, 0], [0_u32; 6]);
    // SAFETY: a header of two numbers and room for two triples of sets, as this version has them.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), had.as_mut_ptr()) })?;
    // Root in a container may have had less.
    let (low, high) = (kept as u32 & had[1], (kept >> 32) as u32 & had[4]);
    let sets = [low, low, 0, high, high, 0];
    // SAFETY: a header of two numbers and two triples of sets, as this version has them, which outlive the call.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })?;
    // SAFETY: plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())
}

/// Leaves these in the bounding set.
fn drop_from_bounds(bounds: u64) -> io::Result<()> {
    for capability in (0..u64::BITS).filter(|capability| bounds & 1 << capability == 0) {
        // SAFETY: plain numbers.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } < 0 {
            let error = io::Error::last_os_error();
            // This kernel has no more of them.
            return if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) };
        }
    }
    Ok(())
}

/// Has every descriptor but the first three closed when the program begins: whoever started this process may have left
/// some open for its children.
pub(crate) fn leave_open_files() -> io::Result<()> {
    // SAFETY: plain numbers; what this process itself uses until then stays open.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) } == 0 {
        return Ok(());
    }
    // Before Linux 5.11: one by one.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::from(u16::MAX));
    for descriptor in 3..i32::try_from(most).unwrap_or(i32::MAX) {
        // SAFETY: a descriptor that is not open is an error and nothing else.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// The error of a system call that failed.
pub(crate) fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A CPU set in the kernel's form.
pub(crate) fn cpu_mask(cpus: &CpuSet) -> libc::cpu_set_t {
    // SAFETY: all zeroes is the empty set; it is plain data.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.cpus().iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) {
        // SAFETY: the number was checked to lie within the set.
        unsafe { libc::CPU_SET(cpu, &mut mask) };
    }
    mask
}

/// One bit for each NUMA node that a kernel may have.
pub(crate) type NodeMask = [u64; 16];

/// A set of NUMA nodes in the kernel's form.
pub(crate) fn node_mask(nodes: &[u32]) -> NodeMask {
    let mut mask = NodeMask::default();
    for node in nodes.iter().map(|node| *node as usize).filter(|node| *node < 8 * size_of::<NodeMask>()) {
        mask[node / 64] |= 1 << (node % 64);
    }
    mask
}
