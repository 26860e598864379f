//! What the kernel tells of watched processes: which files they name, and what they do with them.

use super::calls::{Call, Way, call};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The longest path that the kernel takes, bytes.
const PATH_MAX: usize = 4096;
/// Memory is mapped by pages of at least this size, bytes: a path may end right before one that is not.
const PAGE: u64 = 4096;
/// The most names that are kept, and how long they may be in all, bytes, so that a program that makes up names cannot
/// fill the memory.
const NAMES_MAX: usize = 50_000;
const NAMES_BYTES: usize = 64 << 20;
/// The call that asks whether a process still waits, as kernels before Linux 5.8 number it: in the wrong direction.
const STILL_WAITS_BEFORE: u32 = 0x8008_2102;
/// How often it is looked whether the watch is over.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What watched processes did with a path. With none of these they only looked whether it is there, or what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// It was to be run.
    pub run: bool,
    /// It was to be read, or listed if it is a folder.
    pub opened: bool,
    /// It was to be written, made, replaced or removed.
    pub changed: bool,
    /// It was not there when it was first to be changed.
    pub made: bool,
}

/// Absolute paths as they were named, with links on the way and `..` in them. Not all of them exist.
pub type Names = BTreeMap<PathBuf, Use>;

/// The names that were kept so far: no more than there is room for.
#[derive(Debug, Default)]
pub(super) struct Kept {
    names: Names,
    bytes: usize,
}

impl Kept {
    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.names.len()
    }

    /// Hands them over.
    pub(super) fn take(&mut self) -> Names {
        std::mem::take(self).names
    }

    fn note(&mut self, path: PathBuf, found: Use) {
        if !self.names.contains_key(&path) {
            let bytes = self.bytes + path.as_os_str().len();
            if self.names.len() >= NAMES_MAX || bytes > NAMES_BYTES {
                return;
            }
            self.bytes = bytes;
        }
        let known = self.names.entry(path).or_default();
        // What was changed before, and was there then, may have been removed since.
        let made = known.made || (found.made && !known.changed);
        *known = Use {
            run: known.run || found.run,
            opened: known.opened || found.opened,
            changed: known.changed || found.changed,
            made,
        };
    }
}

/// Keeps the names of what the kernel tells at `listener`, and lets each call go on, until no watched process is left,
/// or it is `over`.
pub(super) fn keep(listener: &OwnedFd, names: &Mutex<Kept>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let mut polled = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut polled, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) if polled[0].revents().contains(PollFlags::IN) => {}
            // Nobody is left who could be told of.
            Ok(_) | Err(_) => return,
        }
        // The process may have been killed while it waited.
        let Ok(told) = receive(listener) else { continue };
        if let Some(call) = call(told.data.nr)
            && let Some((path, found)) = read(listener, &told, call)
        {
            names.lock().unwrap_or_else(PoisonError::into_inner).note(path, found);
        }
        let _ = go_on(listener, told.id);
    }
}

fn receive(listener: &OwnedFd) -> io::Result<libc::seccomp_notif> {
    // SAFETY: plain numbers, which may be zero; the kernel asks for that.
    let mut told: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one such structure.
    let answer = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut told) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(told) }
}

fn go_on(listener: &OwnedFd, id: u64) -> io::Result<()> {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the kernel reads one such structure.
    let sent = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the process of this call still waits. If so, its number has not become another's.
fn still_waits(listener: &OwnedFd, id: u64) -> bool {
    let asked = |request| {
        // SAFETY: the kernel reads one such number.
        unsafe { libc::ioctl(listener.as_raw_fd(), request, &raw const id) == 0 }
    };
    asked(libc::SECCOMP_IOCTL_NOTIF_ID_VALID) || asked(STILL_WAITS_BEFORE as _)
}

/// The path that a call names, and what it is about to do with it; none of a descriptor, or if the process has ended.
fn read(listener: &OwnedFd, told: &libc::seccomp_notif, call: &Call) -> Option<(PathBuf, Use)> {
    let memory = File::open(format!("/proc/{}/mem", told.pid)).ok()?;
    // What is open stays the memory of this process, and no other's.
    if !still_waits(listener, told.id) {
        return None;
    }
    let named = text(&memory, told.data.args[call.path])?;
    if named.as_os_str().is_empty() {
        return None;
    }
    let path = if named.is_absolute() {
        named
    } else {
        let folder = match call.folder.map(|argument| told.data.args[argument] as i32) {
            None | Some(libc::AT_FDCWD) => format!("/proc/{}/cwd", told.pid),
            Some(descriptor) => format!("/proc/{}/fd/{descriptor}", told.pid),
        };
        let folder = fs::read_link(folder).ok().filter(|folder| folder.is_absolute())?;
        if !still_waits(listener, told.id) {
            return None;
        }
        folder.join(named)
    };
    let found = match call.way {
        Way::Run => Use { run: true, opened: true, ..Use::default() },
        Way::Look => Use::default(),
        Way::Change => Use { changed: true, ..Use::default() },
        Way::Open(argument) => of_flags(told.data.args[argument] as i32),
        Way::OpenHow(argument) => {
            let mut flags = [0; 8];
            memory.read_exact_at(&mut flags, told.data.args[argument]).ok()?;
            of_flags(u64::from_ne_bytes(flags) as i32)
        }
    };
    let made = found.changed && is_missing(&path);
    Some((path, Use { made, ..found }))
}

fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn of_flags(flags: i32) -> Use {
    if flags & libc::O_PATH != 0 {
        return Use::default();
    }
    let way = flags & libc::O_ACCMODE;
    let changed = way != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    Use { opened: way != libc::O_WRONLY, changed, ..Use::default() }
}

/// The text at an address, up to its first zero.
fn text(memory: &File, mut address: u64) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    while bytes.len() < PATH_MAX {
        let mut piece = vec![0; usize::try_from(PAGE - address % PAGE).ok()?];
        memory.read_exact_at(&mut piece, address).ok()?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            bytes.extend_from_slice(&piece[..end]);
            return Some(PathBuf::from(OsString::from_vec(bytes)));
        }
        address = address.checked_add(piece.len() as u64)?;
        bytes.extend(piece);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_is_done_with_a_file() {
        let of = |flags| (of_flags(flags).opened, of_flags(flags).changed);
        assert_eq!(of(libc::O_RDONLY | libc::O_CLOEXEC), (true, false));
        assert_eq!(of(libc::O_WRONLY | libc::O_CREAT), (false, true));
        assert_eq!(of(libc::O_RDWR), (true, true));
        assert_eq!(of(libc::O_PATH), (false, false));
    }

    #[test]
    fn a_path_is_read_from_memory_up_to_its_end() {
        let memory = File::open("/proc/self/mem").unwrap();
        let path = c"/a/path";
        assert_eq!(text(&memory, path.as_ptr() as u64), Some(PathBuf::from("/a/path")));
        assert_eq!(text(&memory, 16), None, "nothing is mapped there");
    }

    #[test]
    fn what_was_there_at_the_first_change_was_not_made() {
        let (mut kept, made) = (Kept::default(), Use { changed: true, made: true, ..Use::default() });
        let opened = Use { opened: true, ..Use::default() };
        kept.note("/new".into(), opened);
        kept.note("/new".into(), made);
        kept.note("/old".into(), opened);
        kept.note("/old".into(), Use { made: false, ..made });
        kept.note("/old".into(), made);
        let names = kept.take();
        assert_eq!((names[Path::new("/new")].made, names[Path::new("/old")].made), (true, false));
        assert!(names[Path::new("/old")].opened && names[Path::new("/old")].changed);
    }

    #[test]
    fn names_that_are_made_up_do_not_fill_the_memory() {
        let (mut many, mut long, changed) = (Kept::default(), Kept::default(), Use { changed: true, ..Use::default() });
        for number in 0..NAMES_MAX + 10 {
            many.note(format!("/{number:06}").into(), Use::default());
        }
        assert_eq!(many.count(), NAMES_MAX);
        many.note("/000001".into(), changed);
        assert!(many.take()[Path::new("/000001")].changed, "what is known is still told of");
        assert_eq!((many.count(), many.bytes), (0, 0));
        let length = 8 << 10;
        for number in 0..NAMES_BYTES / length + 10 {
            long.note(format!("/{number:0width$}", width = length - 1).into(), Use::default());
        }
        assert_eq!((long.count(), long.bytes), (NAMES_BYTES / length, NAMES_BYTES));
    }
}
