//! Locks between Tare processes on one machine: one run at a time, and networks and users that no other process has
//! chosen.
//!
//! The kernel releases a lock when its holder dies, however it dies.

use crate::marks::RUN_ROOT;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use tare_core::fault::{Doing, Fault};

/// The file locked by the process that puts load on this machine.
const TURN: &str = "lock";

/// How many locks this process holds.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Whether this process holds the machine, so that no other Tare process puts load on it.
pub(crate) fn is_held() -> bool {
    HELD.load(Ordering::Relaxed) > 0
}

/// Exclusive use of this machine: while it is held, no other Tare process puts load on it.
#[derive(Debug)]
pub struct MachineLock {
    _file: File,
}

/// Who holds the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// What it said it is doing: `process 123: tare run canonical`.
    pub what: String,
    /// Since when.
    pub since: Option<SystemTime>,
}

impl MachineLock {
    /// Takes the machine for `what`, in words, or says who has it.
    ///
    /// # Errors
    /// When the lock's file cannot be made or written.
    pub fn take(what: &str) -> Result<Result<MachineLock, Holder>, Fault> {
        take_at(&Path::new(RUN_ROOT).join(TURN), what)
    }
}

fn take_at(path: &Path, what: &str) -> Result<Result<MachineLock, Holder>, Fault> {
    let doing = || format!("lock {}", path.display());
    let mut file = open(path).doing(doing())?;
    if !locked(&file).doing(doing())? {
        let mut said = String::new();
        let _ = file.read_to_string(&mut said);
        // Its holder writes this a moment after taking the lock.
        let what = Some(said.trim()).filter(|said| !said.is_empty()).unwrap_or("another process of Tare's").to_owned();
        let since = file.metadata().and_then(|meta| meta.modified()).ok();
        return Ok(Err(Holder { what, since }));
    }
    file.set_len(0).and_then(|()| file.rewind()).doing(doing())?;
    writeln!(file, "process {}: {what}", std::process::id()).doing(doing())?;
    HELD.fetch_add(1, Ordering::Relaxed);
    Ok(Ok(MachineLock { _file: file }))
}

impl Drop for MachineLock {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let no_link = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).expect("flags of open are of this type");
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(no_link).open(path)
}

/// Whether the lock is this file's now.
fn locked(file: &File) -> std::io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The claims of this process, held until it ends.
static CLAIMS: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Claims the networks `<first>.<second>.0.0/15` for this process until it ends: two processes that look at the same
/// moment would both find them free. False when another has them. A user who is not root can create no network, and
/// claims nothing.
pub(crate) fn claim_networks(first: u8, second: u8) -> bool {
    let path: PathBuf = Path::new(RUN_ROOT).join(format!("networks-{first}.{second}"));
    let Ok(file) = open(&path) else { return true };
    let claimed = locked(&file).unwrap_or(true);
    if claimed {
        CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }
    claimed
}

/// Claims a user id for as long as the result is kept: no other Tare process, and nothing else in this one, gets it in
/// the meantime. `None` when it is taken.
///
/// # Errors
/// When the lock's file cannot be made.
pub(crate) fn claim_user(number: u32) -> Result<Option<File>, Fault> {
    let path = Path::new(RUN_ROOT).join(format!("user-{number}"));
    let doing = || format!("lock {}", path.display());
    let file = open(&path).doing(doing())?;
    Ok(locked(&file).doing(doing())?.then_some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_the_other_is_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/lock");
        let first = take_at(&path, "tare run canonical").unwrap().expect("nobody has it");
        let holder = take_at(&path, "tare run other").unwrap().expect_err("it is taken");
        assert_eq!(holder.what, format!("process {}: tare run canonical", std::process::id()));
        assert!(holder.since.is_some());
        drop(first);
        let second = take_at(&path, "a").unwrap().expect("it was given back");
        let holder = take_at(&path, "b").unwrap().expect_err("it is taken again");
        assert!(holder.what.ends_with(": a"), "the first one's words are gone: {}", holder.what);
        drop(second);
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("lock"), folder.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        take_at(&path, "a").unwrap_err();
        assert!(!elsewhere.exists());
    }
}
