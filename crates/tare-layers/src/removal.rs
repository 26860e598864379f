//! Removes folders, whatever a service has made in them.
//!
//! A service can nest folders deeper than a process may have files open, or than its stack reaches. So what a folder of
//! the top holds is removed, or moved up into the top where it is a folder itself: no more than two are ever open. No
//! link is followed, whatever is put in a folder's place meanwhile.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::CString;
use std::io;
use std::path::Path;

/// Removes a folder with all that is in it, or a file.
///
/// # Errors
/// When it is not there, or not to be removed: a mount is below it, or this process may not.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata()?.is_dir() {
        return std::fs::remove_file(path);
    }
    let top = open(CWD, path)?;
    let mut moved = 0;
    loop {
        let names = names(&top)?;
        if names.is_empty() {
            break;
        }
        for name in names {
            if is_folder(unlinkat(&top, &name, AtFlags::empty()))? {
                empty(&top, &name, &mut moved)?;
                unlinkat(&top, &name, AtFlags::REMOVEDIR)?;
            }
        }
    }
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Empties a folder of the top: its folders go up.
fn empty(top: &OwnedFd, name: &CString, moved: &mut u64) -> io::Result<()> {
    let folder = open(top, name)?;
    for below in names(&folder)? {
        if !is_folder(unlinkat(&folder, &below, AtFlags::empty()))? {
            continue;
        }
        loop {
            *moved += 1;
            match renameat(&folder, &below, top, format!("moved-{moved}")) {
                // The service has one of that name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                went => break went?,
            }
        }
    }
    Ok(())
}

/// Whether something was not removed because it is a folder.
fn is_folder(removed: Result<(), Errno>) -> io::Result<bool> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(false),
        Err(Errno::ISDIR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn open(at: impl AsFd, name: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, how, Mode::empty())?)
}

fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let entries = Dir::read_from(folder)?.map(|entry| Ok(entry?.file_name().to_owned()));
    let mut names = entries.collect::<io::Result<Vec<CString>>>()?;
    names.retain(|name| ![c".", c".."].contains(&name.as_c_str()));
    Ok(names)
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
