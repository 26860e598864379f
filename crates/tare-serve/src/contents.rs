//! What is in a record's folder. No link is followed, and no folder outside of it is entered.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Folders within each other, at most. A record has three.
const DEPTH_MOST: usize = 16;

/// Something in a record's folder.
pub(crate) struct Item<'a> {
    folder: &'a OwnedFd,
    name: &'a CStr,
    /// Where it is, below the record's folder.
    pub(crate) path: &'a Path,
    pub(crate) kind: FileType,
    /// Bytes of a file.
    pub(crate) bytes: u64,
    stat: &'a Stat,
}

impl Item<'_> {
    /// Adds to `state` what changes when it does, or when something else takes its place.
    pub(crate) fn mark(&self, state: &mut impl Hasher) {
        let Stat { st_ino, st_mode, st_size, st_mtime, st_mtime_nsec, st_ctime, st_ctime_nsec, .. } = self.stat;
        (self.path, st_ino, st_mode, st_size).hash(state);
        (st_mtime, st_mtime_nsec, st_ctime, st_ctime_nsec).hash(state);
    }

    /// Opens it, if it is a regular file.
    ///
    /// # Errors
    /// When it cannot be, or is no regular file any more.
    pub(crate) fn open(&self) -> io::Result<File> {
        // A pipe that was put in its place is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(self.folder, self.name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
    }
}

/// What is to be done with each item.
type Visit<'a> = dyn FnMut(&Item<'_>) -> io::Result<()> + 'a;

/// Visits everything in a folder, a folder before what is in it, by name.
///
/// # Errors
/// When a folder cannot be listed, folders are nested deeper than those of a record are, or a visit fails.
pub(crate) fn each(folder: &OwnedFd, visit: &mut Visit<'_>) -> io::Result<()> {
    below(folder, Path::new(""), 0, visit)
}

fn below(folder: &OwnedFd, path: &Path, depth: usize, visit: &mut Visit<'_>) -> io::Result<()> {
    for name in names(folder)? {
        let stat = match statat(folder, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Gone since.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let path: PathBuf = path.join(OsStr::from_bytes(name.to_bytes()));
        let kind = FileType::from_raw_mode(stat.st_mode);
        let bytes = if kind == FileType::RegularFile { u64::try_from(stat.st_size).unwrap_or_default() } else { 0 };
        visit(&Item { folder, name: name.as_c_str(), path: &path, kind, bytes, stat: &stat })?;
        if kind != FileType::Directory {
            continue;
        }
        if depth == DEPTH_MOST {
            return Err(io::Error::other(format!(
                "folders are nested deeper than {DEPTH_MOST}, which no record's are"
            )));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = openat(folder, name.as_c_str(), flags, Mode::empty())?;
        below(&inner, &path, depth + 1, visit)?;
    }
    Ok(())
}

fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if ![c".", c".."].contains(&name.as_c_str()) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_seen_and_not_followed_and_there_is_an_end_to_folders() {
        let above = tempfile::tempdir().unwrap();
        let record = above.path().join("record");
        std::fs::create_dir_all(record.join("trials/0000")).unwrap();
        std::fs::create_dir(above.path().join("outside")).unwrap();
        std::fs::write(above.path().join("outside/secret"), "secret").unwrap();
        std::fs::write(record.join("trials/0000/trial.json"), "12345").unwrap();
        symlink(above.path().join("outside"), record.join("link")).unwrap();
        symlink(above.path().join("outside/secret"), record.join("secret")).unwrap();
        let open = || OwnedFd::from(File::open(&record).unwrap());
        let mut seen = Vec::new();
        let listed = each(&open(), &mut |item| {
            seen.push((item.path.display().to_string(), item.kind, item.bytes));
            assert_eq!(item.open().is_ok(), item.kind == FileType::RegularFile, "{}", item.path.display());
            Ok(())
        });
        listed.unwrap();
        let wanted = [
            ("link", FileType::Symlink, 0),
            ("secret", FileType::Symlink, 0),
            ("trials", FileType::Directory, 0),
            ("trials/0000", FileType::Directory, 0),
            ("trials/0000/trial.json", FileType::RegularFile, 5),
        ];
        assert_eq!(seen, wanted.map(|(path, kind, bytes)| (path.to_owned(), kind, bytes)));
        std::fs::create_dir_all(record.join("d/".repeat(DEPTH_MOST + 2))).unwrap();
        assert!(each(&open(), &mut |_| Ok(())).unwrap_err().to_string().contains("nested"));
    }
}
