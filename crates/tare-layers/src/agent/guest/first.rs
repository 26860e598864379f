//! Process 1 of a guest: the root, the modules, the mounts, the orphans, and the power switch.

use super::{GUEST_HELLO, GUEST_SAYS, MARKER, PROGRAM};
use crate::network;
use rustix::mount::{MountFlags, mount, mount_move};
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use tare_core::fault::{Doing, Fault};

/// Where the new root is put together before it becomes the root.
const NEW_ROOT: &str = "/root.new";
/// The modules in the initial file system, named so that they sort in the order to load them.
const MODULES: &str = "/modules";
/// The open files that services in the guest may have; the kernel starts process 1 with 4096.
const OPEN_FILES_MAX: u64 = 1 << 20;

/// Stage 1: from the initial file system to the new root.
pub(super) fn enter() -> Result<(), Fault> {
    mount_on("proc", "/proc", "proc", "")?;
    let command_line = fs::read_to_string("/proc/cmdline").doing("read the kernel's command line")?;
    if command_line.split_whitespace().any(|word| word == GUEST_HELLO) {
        println!("{GUEST_SAYS}");
        return std::io::stdout().flush().doing("write to the console");
    }
    mount_on("sysfs", "/sys", "sysfs", "")?;
    mount_on("devtmpfs", "/dev", "devtmpfs", "")?;
    load_modules();
    mount_on("tmpfs", NEW_ROOT, "tmpfs", "mode=0755")?;
    for folder in ["proc", "sys", "dev", "bin", "run/tare", "tmp", "etc", "var/lib", "bundles"] {
        let path = format!("{NEW_ROOT}/{folder}");
        fs::create_dir_all(&path).doing(format!("make {path}"))?;
    }
    fs::write(format!("{NEW_ROOT}{MARKER}"), "").doing("mark the guest")?;
    fs::copy("/init", format!("{NEW_ROOT}{PROGRAM}")).doing("copy the agent to the new root")?;
    // What stays in the initial file system stays in memory for good.
    let _ = fs::remove_dir_all(MODULES);
    let _ = fs::remove_file("/init");
    for folder in ["/proc", "/sys", "/dev"] {
        mount_move(folder, format!("{NEW_ROOT}{folder}")).doing(format!("move {folder}"))?;
    }
    std::env::set_current_dir(NEW_ROOT).doing("enter the new root")?;
    mount_move(".", "/").doing("move the new root")?;
    rustix::process::chroot(".").doing("change to the new root")?;
    std::env::set_current_dir("/").doing("enter the new root")?;
    Err(Fault::from_error("start the agent anew", &Command::new(PROGRAM).arg("agent").exec()))
}

/// Stage 2: keeps the system running while stage 3 serves.
pub(super) fn keep() -> Result<(), Fault> {
    mount_on("tmpfs", "/tmp", "tmpfs", "mode=1777")?;
    mount_on("devpts", "/dev/pts", "devpts", "mode=0620,ptmxmode=0666,gid=5")?;
    mount_on("tmpfs", "/dev/shm", "tmpfs", "mode=1777")?;
    mount_on("cgroup2", "/sys/fs/cgroup", "cgroup2", "")?;
    enable_controllers();
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").doing("let the guest forward packets")?;
    network::allow_all_ports();
    let _ = rustix::system::sethostname(b"tare-guest");
    let limit = rustix::process::Rlimit { current: Some(OPEN_FILES_MAX), maximum: Some(OPEN_FILES_MAX) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).doing("raise the limit of open files")?;
    let agent = Command::new(PROGRAM).arg("agent").spawn().doing("start the agent")?;
    bury_until(agent.id());
    Ok(())
}

/// Waits for every child, our own and the orphans that the kernel gives us, until `last` has ended.
fn bury_until(last: u32) {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the status of a child, and outlives the call.
        let pid = unsafe { libc::waitpid(-1, &mut status, 0) };
        if u32::try_from(pid) == Ok(last) {
            if status != 0 {
                eprintln!("tare agent: ended with wait status {status:#x}");
            }
            return;
        }
        // No children at all: the agent is gone too. Any other error is an interrupted call.
        if pid < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            return;
        }
    }
}

/// Ends the machine, by a restart, which ends the hypervisor (-no-reboot): not every machine can be switched off.
pub(super) fn power_off() -> ! {
    let _ = std::io::stdout().flush();
    rustix::fs::sync();
    // SAFETY: ends the machine, which runs nothing but this guest's services; no memory is involved.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_RESTART) };
    loop {
        std::thread::park();
    }
}

fn mount_on(source: &str, at: &str, kind: &str, data: &str) -> Result<(), Fault> {
    fs::create_dir_all(at).doing(format!("make {at}"))?;
    let data = CString::new(data).doing(format!("mount {at}"))?;
    match mount(source, at, kind, MountFlags::empty(), data.as_c_str()) {
        // A kernel that mounts devtmpfs itself got here first.
        Err(rustix::io::Errno::BUSY) => Ok(()),
        other => other.doing(format!("mount {kind} on {at}")),
    }
}

/// Enables every controller for the groups that will be made below the root of the control groups.
fn enable_controllers() {
    let Ok(there) = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers") else { return };
    for controller in there.split_whitespace() {
        // One by one: a controller that cannot be enabled must not hold back the others.
        let _ = fs::write("/sys/fs/cgroup/cgroup.subtree_control", format!("+{controller}"));
    }
}

/// Loads every module in the order of the names. A failure to load is reported on the console and is not fatal: what
/// really needed the module fails later with a better message.
fn load_modules() {
    let Ok(entries) = fs::read_dir(MODULES) else { return };
    let mut paths: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if let Err(error) = load_module(&path) {
            eprintln!("tare agent: could not load {}: {error}", path.display());
        }
    }
}

fn load_module(path: &Path) -> std::io::Result<()> {
    use std::os::fd::AsFd;
    let file = fs::File::open(path)?;
    match rustix::system::finit_module(file.as_fd(), c"", 0) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        other => Ok(other?),
    }
}
