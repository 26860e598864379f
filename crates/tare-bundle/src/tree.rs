//! Reads a tree of files with everything that belongs to a bundle.

use crate::names::{self, Names, Room};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, major, minor};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Path relative to the root of the tree, without a leading slash; empty for the root itself.
    pub(crate) path: Vec<u8>,
    /// Its type.
    pub(crate) kind: Kind,
    /// Owner, permissions and the like.
    pub(crate) meta: Meta,
    /// Device and inode number, which identify hard links.
    pub(crate) inode: (u64, u64),
    /// How many names it has.
    pub(crate) links: u64,
}

/// The type of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory.
    Folder,
    /// A regular file and its size in bytes.
    File(u64),
    /// A symbolic link and its target.
    Link(Vec<u8>),
    /// A character device: major, minor.
    Char(u32, u32),
    /// A block device: major, minor.
    Block(u32, u32),
    /// A named pipe.
    Pipe,
    /// A socket. It is left out of bundles, where it would be meaningless.
    Socket,
}

impl Kind {
    /// Whether it is a device.
    pub(crate) fn is_device(&self) -> bool {
        matches!(self, Kind::Char(..) | Kind::Block(..))
    }
}

/// Metadata of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    /// Permission bits with set-id and sticky bits.
    pub(crate) mode: u32,
    /// Owner.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
    /// Modification time, seconds since 1970; kept, but no part of the digest.
    pub(crate) mtime: i64,
    /// Extended attributes that belong to the file rather than to the machine it lies on.
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Whether an extended attribute belongs to the file: a label of a security module or of an overlay file system
/// belongs to the machine.
pub(crate) fn keeps_xattr(name: &[u8]) -> bool {
    name == b"security.capability"
        || name.starts_with(b"user.")
        || name.starts_with(b"system.posix_acl_")
        || (name.starts_with(b"trusted.") && !name.starts_with(b"trusted.overlay."))
}

/// All entries of the tree under `root`, in the order of [`walk`]. For small trees.
pub(crate) fn read(root: &Path) -> Result<Vec<Entry>, Fault> {
    let mut entries = Vec::new();
    walk(root, |entry, _| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

/// Calls `each` for every entry of the tree under `root`, sorted by path, the root itself first. Holds no more in
/// memory than the names in the folders on the way to an entry. Every folder is opened from the one above it, so a link
/// that somebody puts in the place of a folder leads nowhere.
pub(crate) fn walk(root: &Path, mut each: impl FnMut(Entry, At<'_>) -> Result<(), Fault>) -> Result<(), Fault> {
    let room = Room::default();
    let top = rustix::fs::open(root, FOLDER, Mode::empty()).map_err(|error| unread(root, b"", error))?;
    let at = At { folder: top.as_fd(), name: b"." };
    each(at.entry(Vec::new()).map_err(|error| unread(root, b"", error))?, at)?;
    let mut levels = vec![Level::of(top, Vec::new(), &room).map_err(|error| unlisted(root, b"", error))?];
    while let Some(level) = levels.last_mut() {
        match level.next() {
            Next::Entry(number) => {
                let at = level.at(number);
                let entry =
                    at.entry(level.path_of(number)).map_err(|error| unread(root, &level.path_of(number), error))?;
                let is_folder = entry.kind == Kind::Folder;
                each(entry, at)?;
                if is_folder {
                    level.folders.push(number);
                }
            }
            Next::Into(number) => {
                let path = level.path_of(number);
                let open = rustix::fs::openat(&level.folder, level.names.get(number), FOLDER, Mode::empty());
                let below = open.and_then(|folder| Level::of(folder, path.clone(), &room));
                let below = below.map_err(|error| unlisted(root, &path, error))?;
                levels.push(below);
            }
            Next::Above => drop(levels.pop()),
        }
    }
    Ok(())
}

fn unread(root: &Path, path: &[u8], error: Errno) -> Fault {
    Fault::from_error(format_args!("read {}", place(root, path).display()), &error)
}

fn unlisted(root: &Path, path: &[u8], error: Errno) -> Fault {
    let place = place(root, path);
    match error {
        names::TOO_MANY => names::too_many(&place.display().to_string()),
        error => Fault::from_error(format_args!("list {}", place.display()), &error),
    }
}

/// To open a folder without following a link.
pub(crate) const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// To open a file for reading without following a link or waiting for the writer of a pipe.
pub(crate) const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Where an entry is: its name in an open folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    folder: BorrowedFd<'a>,
    name: &'a [u8],
}

impl At<'_> {
    /// Opens this entry, a regular file, for reading, without following a link.
    pub(crate) fn open(self, entry: &Entry) -> Result<File, Fault> {
        let fd = rustix::fs::openat(self.folder, self.name, FILE, Mode::empty());
        fd.map(File::from).doing(format_args!("open {}", shown(&entry.path)))
    }

    /// The entry's metadata; for a link its own, not its target's.
    pub(crate) fn stat(self) -> Result<Stat, Errno> {
        rustix::fs::statat(self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn entry(self, path: Vec<u8>) -> Result<Entry, Errno> {
        let stat = self.stat()?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Folder,
            FileType::RegularFile => Kind::File(u64::try_from(stat.st_size).unwrap_or(0)),
            FileType::Symlink => Kind::Link(rustix::fs::readlinkat(self.folder, self.name, Vec::new())?.into_bytes()),
            FileType::CharacterDevice => Kind::Char(major(stat.st_rdev), minor(stat.st_rdev)),
            FileType::BlockDevice => Kind::Block(major(stat.st_rdev), minor(stat.st_rdev)),
            FileType::Fifo => Kind::Pipe,
            FileType::Socket => Kind::Socket,
            FileType::Unknown => return Err(Errno::NOSYS),
        };
        // Before Linux 6.13 no call reads attributes by a folder and a name in it.
        let above = PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()));
        let meta = Meta {
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: stat.st_mtime,
            xattrs: read_xattrs(&above.join(OsStr::from_bytes(self.name)))?,
        };
        #[allow(clippy::useless_conversion, reason = "it has 32 bits on other processors")]
        let links = u64::from(stat.st_nlink);
        Ok(Entry { path, kind, meta, inode: (stat.st_dev, stat.st_ino), links })
    }
}

/// A folder that is being walked. Sorted by path, `a-b` comes before `a/b`: a folder's entries come after its siblings
/// whose names begin with the folder's name and go on with a byte below the slash.
struct Level<'room> {
    folder: OwnedFd,
    path: Vec<u8>,
    names: Names<'room>,
    /// The number of the next name.
    next: usize,
    /// The numbers of folders that were reported but not yet entered; the last one comes first.
    folders: Vec<usize>,
}

/// The next step: report an entry, enter a folder, or return to the folder above.
enum Next {
    Entry(usize),
    Into(usize),
    Above,
}

impl<'room> Level<'room> {
    fn of(folder: OwnedFd, path: Vec<u8>, room: &'room Room) -> Result<Level<'room>, Errno> {
        let names = Names::read(folder.as_fd(), room)?;
        Ok(Level { folder, path, names, next: 0, folders: Vec::new() })
    }

    fn next(&mut self) -> Next {
        let name = (self.next < self.names.len()).then(|| self.names.get(self.next));
        if let Some(number) = self.folders.last() {
            let folder = self.names.get(*number);
            let goes_on = name.and_then(|name| name.strip_prefix(folder)).and_then(|rest| rest.first());
            if goes_on.is_none_or(|byte| *byte > b'/') {
                let number = *number;
                self.folders.pop();
                return Next::Into(number);
            }
        }
        if name.is_none() {
            return Next::Above;
        }
        self.next += 1;
        Next::Entry(self.next - 1)
    }

    fn at(&self, number: usize) -> At<'_> {
        At { folder: self.folder.as_fd(), name: self.names.get(number) }
    }

    fn path_of(&self, number: usize) -> Vec<u8> {
        let name = self.names.get(number);
        if self.path.is_empty() { name.to_vec() } else { [&self.path[..], name].join(&b'/') }
    }
}

/// Where the entry `path` of the tree under `root` lies.
pub(crate) fn place(root: &Path, path: &[u8]) -> PathBuf {
    if path.is_empty() { root.to_path_buf() } else { root.join(OsStr::from_bytes(path)) }
}

/// A path for people.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

/// Opens a regular file of a tree for reading, without following a link.
pub(crate) fn open_file(root: &Path, path: &[u8]) -> Result<File, Fault> {
    let place = place(root, path);
    let fd = rustix::fs::open(&place, FILE, Mode::empty()).doing(format_args!("open {}", place.display()))?;
    Ok(File::from(fd))
}

fn read_xattrs(place: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
    let mut names = vec![0_u8; 1024];
    let length = loop {
        match rustix::fs::llistxattr(place, &mut names[..]) {
            Ok(length) => break length,
            Err(Errno::RANGE) => names.resize(names.len() * 4, 0),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        }
    };
    let mut xattrs = BTreeMap::new();
    // 64 KiB is the kernel's own limit for a value.
    let mut value = vec![0_u8; if length > 0 { 65536 } else { 0 }];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty() && keeps_xattr(name)) {
        match rustix::fs::lgetxattr(place, OsStr::from_bytes(name), &mut value[..]) {
            Ok(length) => drop(xattrs.insert(name.to_vec(), value[..length].to_vec())),
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(xattrs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn entries_come_in_the_order_of_their_paths(
            paths in prop::collection::vec(prop::collection::vec("(a|b)(-|\\.|0|a)?(-|b)?", 1..4), 0..30)
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut wanted = std::collections::BTreeSet::from([Vec::new()]);
            for path in paths {
                std::fs::create_dir_all(folder.path().join(path.join("/"))).unwrap();
                wanted.extend((1..=path.len()).map(|depth| path[..depth].join("/").into_bytes()));
            }
            let found = read(folder.path()).unwrap().into_iter().map(|entry| entry.path);
            prop_assert_eq!(found.collect::<Vec<_>>(), wanted.into_iter().collect::<Vec<_>>());
        }
    }
}
