//! Removes folders, whatever a service has put into them.
//!
//! A service can nest folders deeper than a process may have open files, or than its stack allows. So folders that hold
//! something are moved up into the top folder before they are emptied: no more than two folders are ever open. No link
//! is followed, even if one is put in a folder's place meanwhile.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

/// How many names of a folder are held in memory at a time.
const NAMES_AT_ONCE: usize = 1024;

/// Removes a folder with all that is in it, or a file.
///
/// # Errors
/// When it does not exist or cannot be removed: a mount is below it, or this process lacks the permission.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata()?.is_dir() {
        return std::fs::remove_file(path);
    }
    let top = open(CWD, path)?;
    let mut moved = 0;
    each(&top, &mut |name| {
        if is_folder(unlinkat(&top, name, AtFlags::empty()))? && is_full(unlinkat(&top, name, AtFlags::REMOVEDIR))? {
            empty(&top, name, &mut moved)?;
            unlinkat(&top, name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    })?;
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Empties a folder in the top folder. Folders in it that hold something are moved up.
fn empty(top: &OwnedFd, name: &CStr, moved: &mut u64) -> io::Result<()> {
    let folder = open(top, name)?;
    each(&folder, &mut |below| {
        let goes = !is_folder(unlinkat(&folder, below, AtFlags::empty()))?
            || !is_full(unlinkat(&folder, below, AtFlags::REMOVEDIR))?;
        if goes { Ok(()) } else { move_up(top, &folder, below, moved) }
    })
}

/// Moves a folder up into the top folder, under a name that is free there.
fn move_up(top: &OwnedFd, folder: &OwnedFd, below: &CStr, moved: &mut u64) -> io::Result<()> {
    let mut thinned = false;
    loop {
        *moved += 1;
        match renameat(folder, below, top, format!("moved-{moved}")) {
            // The service has made something of that name.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            // The top folder may have to grow, which a full disk does not allow. Removing files further down frees
            // space.
            Err(Errno::NOSPC | Errno::DQUOT) if !thinned => {
                thinned = true;
                let below = open(folder, below)?;
                for name in names(&below)? {
                    is_folder(unlinkat(&below, &name, AtFlags::empty()))?;
                }
            }
            went => return Ok(went?),
        }
    }
}

/// Calls `remove`, which must remove it, for everything in a folder, until the folder is empty.
fn each(folder: &OwnedFd, remove: &mut dyn FnMut(&CStr) -> io::Result<()>) -> io::Result<()> {
    loop {
        let names = names(folder)?;
        if names.is_empty() {
            return Ok(());
        }
        names.iter().try_for_each(|name| remove(name))?;
    }
}

/// Whether removing failed because it is a folder.
fn is_folder(removed: Result<(), Errno>) -> io::Result<bool> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(false),
        Err(Errno::ISDIR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Whether removing failed because the folder is not empty.
fn is_full(removed: Result<(), Errno>) -> io::Result<bool> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(false),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn open(at: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, how, Mode::empty())?)
}

/// Some of the names in a folder, because a service may have made millions. Empty if the folder is.
fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let is_entry = |name: &CString| ![c".", c".."].contains(&name.as_c_str());
    let entries = Dir::read_from(folder)?.map(|entry| Ok(entry?.file_name().to_owned()));
    entries.filter(|name| name.as_ref().map_or(true, is_entry)).take(NAMES_AT_ONCE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkdirat;

    #[test]
    fn what_is_nested_deeper_than_files_may_be_open_goes_and_what_links_name_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, tree) = (folder.path().join("outside"), folder.path().join("tree"));
        std::fs::create_dir_all(outside.join("kept")).unwrap();
        std::fs::create_dir(&tree).unwrap();
        let mut at = open(CWD, &tree).unwrap();
        for depth in 0..1500 {
            mkdirat(&at, "x", Mode::from(0o755)).unwrap();
            if depth % 100 > 0 {
                at = open(&at, "x").unwrap();
                continue;
            }
            // Names that are also those of what is moved up, one with something in it, and a way out.
            for (name, below) in [("moved-1", "moved-2"), ("y", "z")] {
                mkdirat(&at, name, Mode::from(0o700)).unwrap();
                mkdirat(open(&at, name).unwrap(), below, Mode::from(0o700)).unwrap();
            }
            for number in 0..if depth == 0 { NAMES_AT_ONCE + 10 } else { 3 } {
                mkdirat(&at, format!("empty-{number}"), Mode::from(0o700)).unwrap();
            }
            rustix::fs::symlinkat(&outside, &at, "out").unwrap();
            at = open(&at, "x").unwrap();
        }
        drop(at);
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("kept").is_dir());
        std::fs::write(&tree, "a file").unwrap();
        remove_tree(&tree).unwrap();
        assert_eq!(remove_tree(&tree).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
