//! QEMU with the least privilege that it needs. QEMU parses what a guest sends, and whoever breaks into QEMU that way
//! should find nothing: not root, not a user that anything else has, no files but those handed over open, three
//! devices, and a filter of system calls.

use crate::local::CORE_BYTES;
use crate::local::confinement::{become_user, leave_open_files};
use crate::lock;
use rustix::fs::{CWD, Dev, FileType, Mode, makedev};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal, setrlimit};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use tare_core::fault::{Doing, Fault};

/// QEMU's own filter: no system calls that it does not need, no other user, no child, no change of priorities. Where
/// QEMU was built without it, the rest must suffice.
pub(super) const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
/// The first user id of guests' QEMU: each has its own, since one guest must not reach into another, whether of the
/// same form or of one beside it. They are the last ones below those that `useradd` hands out to users for their own
/// containers.
pub(crate) const FIRST_USER: u32 = 99_000;
/// How many there are: more than there are guests side by side on a machine.
pub(crate) const USERS: u32 = 256;
/// The device of KVM.
const KVM: &str = "/dev/kvm";

/// Files that QEMU is handed open, as it can open none itself. It refers to each by its number.
#[derive(Debug, Default)]
pub(super) struct Handed(Vec<OwnedFd>);

impl Handed {
    /// Adds a file and returns its number.
    pub(super) fn add(&mut self, file: impl Into<OwnedFd>) -> RawFd {
        let file = file.into();
        let number = file.as_raw_fd();
        self.0.push(file);
        number
    }

    /// Adds what QEMU reopens through `/proc/self/fd`, such as a guest's kernel: a file that everybody may read, or a
    /// copy of it in memory. Some distributions let only root read kernels.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn add_readable(&mut self, path: &Path) -> Result<RawFd, Fault> {
        let doing = || format!("read {}", path.display());
        let mut file = File::open(path).doing(doing())?;
        if file.metadata().doing(doing())?.mode() & 0o004 != 0 {
            return Ok(self.add(file));
        }
        let memory = rustix::fs::memfd_create("tare", rustix::fs::MemfdFlags::CLOEXEC).doing(doing())?;
        let mut copy = File::from(memory);
        io::copy(&mut file, &mut copy).doing(doing())?;
        Ok(self.add(copy))
    }
}

/// The path by which QEMU reopens a file that it was handed, where it opens files by path.
pub(super) fn again(number: RawFd) -> String {
    format!("/proc/self/fd/{number}")
}

/// How an argument names a file that QEMU uses as it is, and the argument that tells QEMU about the file.
pub(super) fn as_it_is(number: RawFd) -> (String, String) {
    (format!("/dev/fdset/{number}"), format!("fd={number},set={number}"))
}

/// The user of one guest's QEMU: no other Tare process uses it for as long as this is kept.
#[derive(Debug, Clone)]
pub(super) struct OwnUser {
    number: u32,
    _claim: Arc<File>,
}

impl OwnUser {
    /// Its user id.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    fn take() -> Result<OwnUser, Fault> {
        for number in FIRST_USER..FIRST_USER + USERS {
            if let Some(claim) = lock::claim_user(number)? {
                return Ok(OwnUser { number, _claim: Arc::new(claim) });
            }
        }
        let message = format!("all {USERS} users that there are for guests are taken by guests of this machine");
        Err(Fault::new(message).remedy("wait until others have ended, or ask for fewer guests"))
    }
}

/// What a child does to itself before it becomes QEMU.
#[derive(Debug)]
pub(super) struct Cell {
    parent: Pid,
    user: OwnUser,
    /// The device, if guests run on the processor itself.
    kvm: Option<Dev>,
    handed: Vec<RawFd>,
    cpus: Option<rustix::thread::CpuSet>,
}

impl Cell {
    /// For a guest's QEMU, which keeps `handed`, on these CPUs if any are named.
    ///
    /// # Errors
    /// When no user id is left for it.
    pub(super) fn new(kvm: bool, handed: &Handed, cpus: Option<rustix::thread::CpuSet>) -> Result<Cell, Fault> {
        let device = || std::fs::metadata(KVM).ok().map(|facts| facts.rdev());
        Ok(Cell {
            parent: rustix::process::getpid(),
            user: OwnUser::take()?,
            kvm: if kvm { device() } else { None },
            handed: handed.0.iter().map(AsRawFd::as_raw_fd).collect(),
            cpus,
        })
    }

    /// The user that it has in this cell, to be kept until it has ended.
    pub(super) fn user(&self) -> OwnUser {
        self.user.clone()
    }

    /// Runs in the child, between fork and exec: plain system calls only.
    ///
    /// # Errors
    /// What the kernel refuses, or that the parent is gone.
    pub(super) fn enter(&self) -> io::Result<()> {
        // A session of its own: Ctrl-C on the terminal is for Tare, which ends the guest in order.
        rustix::process::setsid()?;
        if let Some(cpus) = &self.cpus {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        leave_open_files()?;
        for number in &self.handed {
            // SAFETY: whoever started this child keeps them open until it runs.
            let file = unsafe { BorrowedFd::borrow_raw(*number) };
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?;
        }
        self.keep_three_devices()?;
        // Before Linux 5.12 the memory that io_uring shares with the kernel counts, for everybody but root.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
        // A core dump would be a dump of the guest's memory.
        setrlimit(Resource::Core, Rlimit { current: Some(CORE_BYTES), maximum: Some(CORE_BYTES) })?;
        become_user((self.user.number, self.user.number))?;
        // Killed when the thread that started it ends: nothing stays when Tare itself is killed. This is requested here
        // because a change of user resets it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(self.parent) {
            // The parent was gone before the signal was requested.
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// Replaces `/dev` by a folder with three devices, for this process alone. The original may be accessible to root
    /// alone, and may contain disks.
    fn keep_three_devices(&self) -> io::Result<()> {
        // SAFETY: this process has one thread, and shares nothing that it would lose.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
        rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
        rustix::mount::mount(c"tmpfs", c"/dev", c"tmpfs", flags, c"mode=0755,size=64k")?;
        let devices = [(c"/dev/null", makedev(1, 3), 0o666), (c"/dev/urandom", makedev(1, 9), 0o444)];
        let kvm = self.kvm.map(|device| (c"/dev/kvm", device, 0o666));
        for (path, device, mode) in devices.into_iter().chain(kvm) {
            rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::from(mode), device)?;
            // Regardless of this process's umask.
            rustix::fs::chmod(path, Mode::from(mode))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    fn inside(cell: Cell, script: &str) -> String {
        let mut shell = Command::new("/bin/bash");
        shell.args(["-c", script]);
        // SAFETY: `enter` makes plain system calls.
        unsafe { shell.pre_exec(move || cell.enter()) };
        let output = shell.output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }

    #[test]
    fn what_is_started_so_has_what_it_was_handed_and_no_more() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let mut new = File::options();
        new.read(true).write(true).create_new(true).mode(0o600);
        let mut file = new.open(folder.path().join("disk")).unwrap();
        let _secret = File::open("/etc/shadow").unwrap();
        let mut handed = Handed::default();
        let number = handed.add(file.try_clone().unwrap());
        let script = format!(
            "grep -E '^(Uid|Gid|Groups|CapPrm|CapEff|CapInh|CapAmb|NoNewPrivs):' /proc/self/status | tr -s '\\t ' ' '
             grep -E '^Max core' /proc/self/limits | tr -s ' '
             echo /dev/*; for fd in /proc/self/fd/*; do readlink $fd; done | grep -E 'shadow|disk'
             cat /etc/shadow; cat {}/disk; echo hello >&{number}",
            folder.path().display()
        );
        let cell = Cell::new(false, &handed, None).unwrap();
        let user = cell.user().number;
        assert!((FIRST_USER..FIRST_USER + USERS).contains(&user));
        let said = inside(cell, &script);
        for line in [
            format!("Uid: {user} {user} {user} {user}"),
            format!("Gid: {user} {user} {user} {user}"),
            "Groups: ".to_owned(),
            "CapPrm: 0000000000000000".to_owned(),
            "CapEff: 0000000000000000".to_owned(),
            "CapInh: 0000000000000000".to_owned(),
            "CapAmb: 0000000000000000".to_owned(),
            "NoNewPrivs: 1".to_owned(),
            "Max core file size 1 1 bytes".to_owned(),
            "/dev/null /dev/urandom".to_owned(),
            format!("{}/disk", folder.path().display()),
            "cat: /etc/shadow: Permission denied".to_owned(),
            format!("cat: {}/disk: Permission denied", folder.path().display()),
        ] {
            assert!(said.lines().any(|found| found.trim_end() == line.trim_end()), "{line:?} is missing in {said}");
        }
        let mut written = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut written).unwrap();
        assert_eq!(written, "hello\n");
    }

    #[test]
    fn no_two_guests_of_this_machine_are_the_same_user() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let cell = || Cell::new(false, &Handed::default(), None).unwrap();
        let (first, second) = (cell(), cell());
        assert_ne!(first.user().number, second.user().number);
        // The user stays taken while it is kept, even after its cell is gone.
        let kept = first.user();
        drop(first);
        assert_ne!(cell().user().number, kept.number);
        let freed = kept.number;
        drop(kept);
        // Other tests take some too.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while lock::claim_user(freed).unwrap().is_none() {
            assert!(std::time::Instant::now() < deadline, "{freed} is not given back");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    /// Kernels may have such permissions.
    #[test]
    fn a_file_that_root_alone_may_read_is_handed_over_as_a_copy() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel");
        for mode in [0o600, 0o644] {
            std::fs::write(&path, format!("kernel {mode:o}")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let mut handed = Handed::default();
            let number = handed.add_readable(&path).unwrap();
            let said = inside(Cell::new(false, &handed, None).unwrap(), &format!("cat {}", again(number)));
            assert_eq!(said, format!("kernel {mode:o}"));
        }
    }
}
