//! The users of an image on this machine. A service that runs as its image does is root, and may become whomever its
//! image names, in a user namespace of its own and nowhere else: to the machine all of them are users that nobody has.
//!
//! So such a service may own and change the files of its own root and volumes, and nothing of the machine's. What it
//! makes has on disk the owners that its image would give it, as in containers: volumes are shifted by their mounts.

use super::PROCESSES;
use super::attributes::shift_owners;
use super::confinement::{CAPABILITY_VERSION, check};
use crate::lock;
use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use tare_core::fault::{Doing, Fault};

/// How many users and groups an image has: those from 0 to 65535.
const USERS: u32 = 1 << 16;
/// The first number of this machine that stands for one of them. From here to 2147352575 nothing allocates ids by
/// itself: systemd calls them unused (<https://systemd.io/UIDS-GIDS/>), subordinate ids are below by default, and the
/// ranges of SSSD and FreeIPA end at 2000200000 by default.
const FIRST: u32 = 30_521 * USERS;
/// How many images may have numbers of their own at a time.
const SPACES: u32 = (2_147_352_576 - FIRST) / USERS;
/// Where the subordinate ids of this machine's users are listed.
const SUBORDINATE: [&str; 2] = ["/etc/subuid", "/etc/subgid"];
/// `CAP_SYS_ADMIN` of `linux/capability.h`, one bit.
const SYS_ADMIN: u32 = 1 << 21;

/// A user namespace in which the users of an image are others of this machine.
#[derive(Debug)]
pub(crate) struct Shift {
    /// What stands for its root.
    first: u32,
    namespace: OwnedFd,
    /// No other process has these numbers meanwhile.
    _claim: File,
}

impl Shift {
    /// A new one, with numbers that no other has.
    ///
    /// # Errors
    /// When this machine has no user namespaces, or this process may not make one.
    pub(crate) fn new() -> Result<Shift, Fault> {
        // From another number on than an earlier process, of which something may be left.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let subordinate: Vec<String> =
            SUBORDINATE.iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect();
        let next = || {
            let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id()) % SPACES;
            FIRST + number * USERS
        };
        let free = |first: &u32| !subordinate.iter().any(|text| is_in(text, *first));
        let claim = |first| lock::claim_user(first).map(|claimed| Some((first, claimed?))).transpose();
        let claimed = (0..SPACES).map(|_| next()).filter(free).find_map(claim).transpose()?;
        let (first, claim) = claimed.ok_or_else(|| {
            Fault::new(format!("{} give all numbers from {FIRST} on to somebody", SUBORDINATE.join(" and ")))
                .remedy("leave some of them free for services with 'as_image'")
        })?;
        let map = format!("0 {first} {USERS}\n");
        let namespace = namespace(first, [&map, &map]).doing("make a user namespace for a service with 'as_image'")?;
        Ok(Shift { first, namespace, _claim: claim })
    }

    /// What stands on this machine for a user and group of the image.
    pub(crate) fn here(&self, user: (u32, u32)) -> (u32, u32) {
        (self.first + user.0, self.first + user.1)
    }

    /// The namespace, for a process that is about to enter it.
    pub(super) fn namespace(&self) -> io::Result<OwnedFd> {
        self.namespace.try_clone()
    }

    /// Mounts a tree of this thread's mount namespace at another place in it, with the owners of its files shifted.
    ///
    /// # Errors
    /// When the kernel or the file system cannot do that.
    pub(super) fn mount(&self, tree: &Path, place: &Path) -> Result<(), Fault> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let copy = rustix::mount::open_tree(CWD, tree, flags).doing(format!("copy the mount of {}", tree.display()))?;
        let shifted = shift_owners(&copy, &self.namespace).doing(format!("shift the owners of {}", tree.display()));
        shifted.map_err(|fault| {
            fault.remedy("'as_image' needs Linux 5.19 and TARE_HOME on ext4, XFS or Btrfs; else use containers alone")
        })?;
        rustix::mount::move_mount(&copy, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).doing(format!(
            "mount {} at {}",
            tree.display(),
            place.display()
        ))
    }
}

/// A user namespace in which one user and group stand for another user and group of this machine: for mounts.
///
/// # Errors
/// When this machine has no user namespaces, or this process may not make one.
pub(crate) fn one_user(user: (u32, u32), here: (u32, u32)) -> io::Result<OwnedFd> {
    let [users, groups] = [(user.0, here.0), (user.1, here.1)].map(|(of, here)| format!("{of} {here} 1\n"));
    namespace(here.0, [&users, &groups])
}

/// Shifts the owners of the files of a mount that is not in place yet, see [`one_user`].
///
/// # Errors
/// When the kernel or the file system cannot do that.
pub(crate) fn shift_mount(mount: &OwnedFd, namespace: &OwnedFd) -> io::Result<()> {
    shift_owners(mount, namespace)
}

/// Whether one of the numbers from `first` on is in a range of subuid(5).
fn is_in(text: &str, first: u32) -> bool {
    text.lines().any(|line| {
        let mut fields = line.trim().split(':').skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
        let (begin, count) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
        begin < u64::from(first) + u64::from(USERS) && u64::from(first) < begin.saturating_add(count)
    })
}

/// A user namespace whose users and groups stand for those of this machine as these maps have it. A child makes it as
/// the user `first`, since a process with several threads cannot, and ends.
fn namespace(first: u32, [users, groups]: [&str; 2]) -> io::Result<OwnedFd> {
    let (mut told, tell) = io::pipe()?;
    let parent = std::process::id().cast_signed();
    // SAFETY: the child makes system calls alone, on plain numbers and what is here already, and never returns.
    let child = unsafe { libc::fork() };
    check(child.into())?;
    if child == 0 {
        let error = part(first).err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        // Whoever waits for it may have died before it asked to be killed then.
        // SAFETY: plain numbers.
        if unsafe { libc::getppid() } != parent {
            // SAFETY: it ends here, as a child may.
            unsafe { libc::_exit(1) }
        }
        // If nobody reads this, nobody wants the namespace.
        let _ = rustix::io::write(&tell, &[u8::try_from(error).unwrap_or(u8::MAX)]);
        loop {
            // SAFETY: plain numbers; it waits to be killed.
            unsafe { libc::pause() };
        }
    }
    drop(tell);
    let mut said = [0];
    let mut map = || {
        told.read_exact(&mut said)?;
        if said[0] != 0 {
            return Err(io::Error::from_raw_os_error(said[0].into()));
        }
        for (file, map) in [("uid_map", users), ("gid_map", groups)] {
            fs::write(format!("/proc/{child}/{file}"), map)?;
        }
        File::open(format!("/proc/{child}/ns/user"))
    };
    let made = map();
    // SAFETY: it is a child of this process that nobody else waits for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    made.map(OwnedFd::from)
}

/// What the child does: as a user of its own it makes the namespace. To the kernel this user has all processes in
/// there, so they are no more than one user may have, whomever they become. Plain system calls only.
fn part(first: u32) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: PROCESSES, rlim_max: PROCESSES };
    // SAFETY: the limit is a valid rlimit that outlives the call; the other calls take plain numbers.
    unsafe {
        check(libc::setrlimit(libc::RLIMIT_NPROC, &limit).into())?;
        check(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0).into())?;
        check(libc::syscall(libc::SYS_setresuid, first, first, first))?;
    }
    let (header, sets) = ([CAPABILITY_VERSION, 0], [SYS_ADMIN, SYS_ADMIN, 0, 0, 0, 0]);
    // SAFETY: a header of two numbers and two triples of sets, as this version has them, which outlive the call.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })?;
    // SAFETY: plain numbers. When the thread that waits for it dies, so does it; a change of user would clear that.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWUSER).into())?;
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0).into())?;
        // In a namespace below this one root would have all rights again. This setting is the new namespace's own.
        let most = libc::open(c"/proc/sys/user/max_user_namespaces".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(most.into())?;
        check(libc::write(most, c"0".as_ptr().cast(), 1) as libc::c_long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn numbers_that_somebody_has_stand_for_no_user_of_an_image() {
        let last = FIRST + USERS - 1;
        assert!(is_in(&format!("ada:100000:65536\nbob:{last}:1\n"), FIRST));
        assert!(is_in("all:1:4294967295\n", FIRST));
        assert!(!is_in(&format!("ada:100000:65536\nbob:{}:1\nbroken\n\n", last + 1), FIRST));
        assert!(!is_in(&format!("ada:{FIRST}:0\n"), FIRST));
    }

    #[test]
    fn users_of_an_image_are_others_here_and_files_are_shifted() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let (one, two) = (Shift::new().unwrap(), Shift::new().unwrap());
        let here = one.here((0, 5));
        assert!(here.0 >= FIRST && here.1 == here.0 + 5);
        assert_ne!(here.0, two.here((0, 0)).0);
        let stage = tempfile::tempdir().unwrap();
        let (tree, place) = (stage.path().join("tree"), stage.path().join("place"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&place).unwrap();
        std::os::unix::fs::chown(&tree, Some(7), Some(8)).unwrap();
        let look = || {
            crate::local::root::enter_namespace().unwrap();
            one.mount(&tree, &place).map(|()| fs::metadata(&place).unwrap())
        };
        match std::thread::scope(|scope| scope.spawn(look).join().unwrap()) {
            Ok(facts) => {
                assert_eq!((facts.uid(), facts.gid()), one.here((7, 8)));
            }
            Err(why) => println!("skipped: owners are not shifted here: {why}"),
        }
    }
}
