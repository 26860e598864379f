//! What a hostile program tries, from within its form. Each attempt is made by a child of its own, so that whatever it
//! changes goes with it.

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as LocalAddr, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What may succeed, in which forms, and why. What is not named here is refused everywhere. It is a bound: what a
/// machine or an engine refuses by itself is no mistake.
#[rustfmt::skip]
pub(crate) const ALLOWED: &[(&str, &[&str], &str)] = &[
    ("connect to the machine",
     &["native", "container", "host network", "runtime", "nspawn", "LXC", "guest", "container in a guest"],
     "services are not kept from the network"),
    ("make a user namespace", &["native", "runtime", "nspawn", "LXC", "guest"],
     "no filter of system calls keeps them from it, and the machine lets everybody"),
    ("mount in a user namespace", &["native", "runtime", "nspawn", "LXC", "guest"], "it is seen there and nowhere else"),
    ("reach a socket by its name", &["native", "host network", "runtime", "nspawn", "LXC"],
     "a socket without a file belongs to a network, and theirs is the machine's"),
    ("listen at a low port", &["container", "guest", "container in a guest"],
     "in a network of its own everybody is let"),
];

/// The same for a service that runs as its image does, beyond what every service may.
#[rustfmt::skip]
pub(crate) const ALLOWED_AS_IMAGE: &[(&str, &[&str], &str)] = &[
    ("become root", EVERYWHERE, "it is root there already"),
    ("become root's group", EVERYWHERE, "it is root there already"),
    ("run a set-user-id program", EVERYWHERE, "it is root there already"),
    ("join a group", EVERYWHERE, "root there chooses its groups, as entry scripts do"),
    ("change its root", EVERYWHERE, "one of the eleven capabilities"),
    ("listen at a low port", &["host network"], "one of the eleven capabilities"),
    ("write to its bundle", EVERYWHERE, "what it writes is its own copy"),
    ("add to its bundle", EVERYWHERE, "what it writes is its own copy"),
    ("fill /tmp", EVERYWHERE, "its /tmp is on the disk, which alone bounds it, as a volume"),
];

const EVERYWHERE: &[&str] = &["native", "container", "host network", "guest", "container in a guest"];

/// What other services may do and such a one may not: it would have all rights in such a namespace.
const NOT_AS_IMAGE: [&str; 2] = ["make a user namespace", "mount in a user namespace"];

/// A bundle of this program with a set-user-id program and a device.
pub(crate) fn hostile_tree(tree: &Path) {
    fs::copy(tree.join("bin/service"), tree.join("bin/raised")).unwrap();
    fs::set_permissions(tree.join("bin/raised"), fs::Permissions::from_mode(0o6755)).unwrap();
    let (place, all) = (tree.join("bin/node"), Mode::from(0o666));
    mknodat(CWD, &place, FileType::CharacterDevice, all, makedev(1, 1)).unwrap();
    fs::set_permissions(&place, fs::Permissions::from_mode(0o666)).unwrap();
}

/// Which of the attempts that a program tells of have succeeded where they may not; it has to tell of all.
pub(crate) fn not_allowed(form: &str, as_image: bool, said: &str) -> Vec<String> {
    let more = if as_image { ALLOWED_AS_IMAGE } else { &[] };
    let outcome = |attempt: &str| said.lines().find_map(|line| line.strip_prefix(attempt)?.strip_prefix(": "));
    let allowed = || ALLOWED.iter().chain(more);
    let refused = |attempt: &str| as_image && NOT_AS_IMAGE.contains(&attempt);
    let may = |attempt: &str| {
        !refused(attempt) && allowed().any(|(name, forms, _)| *name == attempt && forms.contains(&form))
    };
    let all =
        ATTEMPTS.iter().map(|(name, _)| (*name, outcome(name).unwrap_or_else(|| panic!("{form}: {name}: {said}"))));
    all.filter(|(name, outcome)| *outcome == "done" && !may(name)).map(|(name, _)| format!("{form}: {name}")).collect()
}

/// What is to be reached of others.
pub(crate) struct Others {
    /// A process of root's, by its number where the machine's processes are seen.
    pub(crate) pid: i32,
    /// A file of root's, by its path on the machine.
    pub(crate) file: String,
    /// A socket by a name without a file.
    pub(crate) name: String,
    /// Where something listens on the machine.
    pub(crate) place: SocketAddr,
}

type Attempt = (&'static str, fn(&Others) -> io::Result<()>);

/// What the call says.
fn call(answer: libc::c_long) -> io::Result<()> {
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

fn text(text: &str) -> CString {
    CString::new(text).expect("no zero is in it")
}

fn mount(what: &str, place: &str, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let (what, place, kind) = (text(what), text(place), text(kind));
    // SAFETY: texts that outlive the call.
    call(unsafe { libc::mount(what.as_ptr(), place.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) }.into())
}

fn node(kind: libc::mode_t, major: u32, minor: u32) -> io::Result<()> {
    let place = text("/tmp/node");
    // SAFETY: a text that outlives the call.
    call(unsafe { libc::mknod(place.as_ptr(), kind | 0o666, libc::makedev(major, minor)) }.into())
}

fn written(path: &str) -> io::Result<()> {
    // Nothing is written where it may: the bytes would count.
    OpenOptions::new().write(true).open(path).map(drop)
}

fn read(path: &str) -> io::Result<()> {
    let mut file = File::open(path)?;
    io::Read::read(&mut file, &mut [0]).map(drop)
}

fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<()> {
    // SAFETY: plain numbers.
    call(unsafe { libc::socket(family, kind, protocol) }.into())
}

/// A capability in the effective and the permitted set.
fn raise(bit: u32) -> io::Result<()> {
    let (header, sets) = ([0x2008_0522_u32, 0], [1_u32 << bit, 1 << bit, 0, 0, 0, 0]);
    // SAFETY: a header of two numbers and two triples of sets, as this version has them, which outlive the call.
    call(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })
}

fn is_root(said: &str) -> io::Result<()> {
    if said.split_whitespace().any(|id| id == "0") { Ok(()) } else { Err(Error::other("not root")) }
}

fn raised_program() -> io::Result<()> {
    let ids = Command::new("/bin/raised").args(["tool", "ids"]).output()?;
    is_root(&String::from_utf8_lossy(&ids.stdout))
}

/// A process of the machine's, looked into.
fn peeked(pid: i32) -> io::Result<()> {
    let mut byte = 0_u8;
    let own = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let other = libc::iovec { iov_base: 0x40_0000 as *mut _, iov_len: 1 };
    // SAFETY: one byte of this process's is written to; the other's address is not used here.
    let answer = unsafe { libc::process_vm_readv(pid, &raw const own, 1, &raw const other, 1, 0) };
    match call(answer as libc::c_long) {
        // It may look, and there is nothing at that address.
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
        other => other,
    }
}

/// Leaves the limits of its cgroup, where cgroups can be seen.
fn leaves_cgroup() -> io::Result<()> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"];
    // A file that root would create in the file system around cgroups moves nobody.
    let moved = |root: &str| OpenOptions::new().write(true).open(format!("{root}/cgroup.procs"))?.write_all(b"0");
    let written = roots.map(moved);
    written.into_iter().fold(Err(Error::other("there is none")), Result::or)
}

fn as_root_of_a_namespace(then: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    // SAFETY: plain numbers; this child has one thread.
    call(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into())?;
    then()
}

fn own_limit(resource: libc::__rlimit_resource_t, limit: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: the limit is a valid rlimit that outlives the call.
    call(unsafe { libc::setrlimit(resource, &limit) }.into())
}

fn many_files() -> io::Result<()> {
    let files: Vec<_> = (0..=tare_layers::local::OPEN_FILES).map(|_| File::open("/")).collect::<io::Result<_>>()?;
    drop(files);
    Ok(())
}

fn by_name(name: &str) -> io::Result<()> {
    UnixStream::connect_addr(&LocalAddr::from_abstract_name(name)?).map(drop)
}

fn connected(place: SocketAddr) -> io::Result<()> {
    TcpStream::connect_timeout(&place, Duration::from_secs(2)).map(drop)
}

fn real_time() -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the priority outlives the call; 0 is this thread.
    call(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) }.into())
}

fn traced(pid: i32) -> io::Result<()> {
    // SAFETY: the addresses are not used by this request.
    call(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0_usize, 0_usize) })
}

fn opened_by_handle() -> io::Result<()> {
    // What the root of many file systems is called: 8 bytes, of the first kind, inode 2 and generation 0.
    let handle: [u32; 4] = [8, 1, 2, 0];
    // SAFETY: a handle as long as it says, that outlives the call.
    call(unsafe { libc::syscall(libc::SYS_open_by_handle_at, libc::AT_FDCWD, handle.as_ptr(), libc::O_RDONLY) })
}

/// More memory than a service is given, a page at a time.
fn much_memory() -> io::Result<()> {
    let much = vec![1_u8; 4 * crate::stage::MEMORY as usize];
    std::hint::black_box(much.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    Ok(())
}

fn much_in(folder: &str) -> io::Result<()> {
    let place = format!("{folder}/much");
    let written = fs::write(&place, vec![1_u8; 2 * crate::stage::MEMORY as usize]);
    let _ = fs::remove_file(place);
    written
}

/// Every attempt by name. What each comes to in which form stands in `escapes.rs`.
#[rustfmt::skip]
#[expect(clippy::undocumented_unsafe_blocks, reason = "each is one call with plain numbers, or texts that outlive it")]
pub(crate) const ATTEMPTS: &[Attempt] = &[
    // Its user and what that may do.
    ("become root", |_| call(unsafe { libc::syscall(libc::SYS_setresuid, 0, 0, 0) })),
    ("become root's group", |_| call(unsafe { libc::syscall(libc::SYS_setresgid, 0, 0, 0) })),
    ("join a group", |_| call(unsafe { libc::syscall(libc::SYS_setgroups, 1, [0_u32].as_ptr()) })),
    ("run a set-user-id program", |_| raised_program()),
    ("raise a capability", |_| raise(12)),
    ("change its root", |_| call(unsafe { libc::chroot(c"/tmp".as_ptr()) }.into())),
    ("make a user namespace", |_| as_root_of_a_namespace(|| Ok(()))),
    ("mount in a user namespace", |_| as_root_of_a_namespace(|| mount("tmpfs", "/tmp", "tmpfs", 0))),
    ("join the machine's namespaces", |others| {
        let file = File::open(format!("/proc/{}/ns/mnt", others.pid))?;
        call(unsafe { libc::setns(std::os::fd::AsRawFd::as_raw_fd(&file), 0) }.into())
    }),
    // Devices and mounts.
    ("make a block device", |_| node(libc::S_IFBLK, 8, 0)),
    ("make a character device", |_| node(libc::S_IFCHR, 1, 1)),
    ("use a device of its bundle", |_| read("/bin/node")),
    ("read the machine's memory", |_| read("/dev/mem")),
    ("mount", |_| mount("tmpfs", "/tmp", "tmpfs", 0)),
    ("mount its root for writing", |_| mount("none", "/", "none", libc::MS_REMOUNT | libc::MS_BIND)),
    ("unmount", |_| call(unsafe { libc::umount2(c"/proc".as_ptr(), libc::MNT_DETACH) }.into())),
    ("replace its root", |_| call(unsafe { libc::syscall(libc::SYS_pivot_root, c"/".as_ptr(), c"/tmp".as_ptr()) })),
    // Other processes.
    ("trace another process", |others| traced(others.pid)),
    ("signal another process", |others| call(unsafe { libc::kill(others.pid, 0) }.into())),
    ("read another's memory", |others| peeked(others.pid)),
    ("read another's environment", |others| read(&format!("/proc/{}/environ", others.pid))),
    ("enter another's root", |others| fs::read_dir(format!("/proc/{}/root", others.pid)).map(drop)),
    ("slow another process down", |others| {
        call(unsafe { libc::setpriority(libc::PRIO_PROCESS, others.pid.cast_unsigned(), 19) }.into())
    }),
    ("raise its priority", |_| call(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -5) }.into())),
    ("run in real time", |_| real_time()),
    ("leave its cgroup", |_| leaves_cgroup()),
    // Files of the machine.
    ("read the machine's files", |others| read(&others.file)),
    ("read them by the first process", |others| read(&format!("/proc/1/root{}", others.file))),
    ("read them by their numbers", |_| opened_by_handle()),
    ("write to its bundle", |_| written("/bin/service")),
    ("add to its bundle", |_| File::create("/bin/more").map(drop)),
    // The machine itself.
    ("write a setting", |_| written("/proc/sys/kernel/core_pattern")),
    ("ask for a crash", |_| written("/proc/sysrq-trigger")),
    ("write to /sys", |_| written("/sys/kernel/mm/transparent_hugepage/enabled")),
    ("set the clock", |_| {
        let time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        call(unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) }.into())
    }),
    ("rename the machine", |_| call(unsafe { libc::sethostname(c"x".as_ptr(), 1) }.into())),
    ("load a module", |_| call(unsafe { libc::syscall(libc::SYS_init_module, 0, 0, c"".as_ptr()) })),
    ("restart the machine", |_| call(unsafe { libc::reboot(libc::RB_DISABLE_CAD) }.into())),
    ("add swap", |_| call(unsafe { libc::swapon(c"/tmp".as_ptr(), 0) }.into())),
    ("account processes", |_| call(unsafe { libc::acct(std::ptr::null()) }.into())),
    // The network.
    ("open a raw socket", |_| socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
    ("see the link's packets", |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 0)),
    ("listen at a low port", |_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 81)).map(drop)),
    ("speak to the engine", |_| UnixStream::connect("/run/docker.sock").map(drop)),
    ("reach a socket by its name", |others| by_name(&others.name)),
    ("connect to the machine", |others| connected(others.place)),
    // More than it was given.
    ("lift the limit of open files", |_| own_limit(libc::RLIMIT_NOFILE, 1 << 30)),
    ("lift the limit of processes", |_| own_limit(libc::RLIMIT_NPROC, 1 << 20)),
    ("open too many files", |_| many_files()),
    ("use too much memory", |_| much_memory()),
    ("fill /tmp", |_| much_in("/tmp")),
    ("fill /dev/shm", |_| much_in("/dev/shm")),
];

/// Makes every attempt, and prints a line for each.
pub(crate) fn all(others: &Others) {
    for (name, attempt) in ATTEMPTS {
        println!("{name}: {}", outcome(|| attempt(others)));
    }
}

/// How an attempt ends that a child makes.
fn outcome(attempt: impl FnOnce() -> io::Result<()>) -> String {
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = match attempt() {
            Ok(()) => 0,
            Err(error) => error.raw_os_error().unwrap_or(255),
        };
        // SAFETY: it ends this child and nothing else.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: it is this process's child, and the status outlives the call.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => "done".to_owned(),
        (true, code) => format!("refused, {}", Error::from_raw_os_error(code)),
        (false, _) => format!("refused, killed by signal {}", libc::WTERMSIG(status)),
    }
}
