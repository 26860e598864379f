//! Reads a tree of files with everything that belongs to a bundle: what the digest covers and what is emitted.

use rustix::fs::{FileType, Mode, OFlags, major, minor};
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
    /// What it is.
    pub(crate) kind: Kind,
    /// Who owns it and who may do what.
    pub(crate) meta: Meta,
    /// Device and inode number, by which hard links are recognised.
    pub(crate) inode: (u64, u64),
    /// How many names it has.
    pub(crate) links: u64,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory.
    Folder,
    /// A regular file and its size in bytes.
    File(u64),
    /// A symbolic link and what it says.
    Link(Vec<u8>),
    /// A character device: major, minor.
    Char(u32, u32),
    /// A block device: major, minor.
    Block(u32, u32),
    /// A named pipe.
    Pipe,
    /// A socket's name; it means nothing in a bundle and is left out of it.
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

/// The entries of the tree under `root`, sorted by path, the root itself first.
pub(crate) fn read(root: &Path) -> Result<Vec<Entry>, Fault> {
    let mut entries = Vec::new();
    let mut folders = vec![Vec::new()];
    entries.push(read_entry(root, Vec::new())?);
    while let Some(folder) = folders.pop() {
        let place = place(root, &folder);
        for item in std::fs::read_dir(&place).doing(format_args!("list {}", place.display()))? {
            let item = item.doing(format_args!("list {}", place.display()))?;
            let mut path = folder.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(item.file_name().as_bytes());
            let entry = read_entry(root, path)?;
            if entry.kind == Kind::Folder {
                folders.push(entry.path.clone());
            }
            entries.push(entry);
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Where the entry `path` of the tree under `root` lies.
pub(crate) fn place(root: &Path, path: &[u8]) -> PathBuf {
    if path.is_empty() { root.to_path_buf() } else { root.join(OsStr::from_bytes(path)) }
}

/// A path for people.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

/// Opens a regular file of a tree for reading, following no link.
pub(crate) fn open_file(root: &Path, path: &[u8]) -> Result<File, Fault> {
    let place = place(root, path);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = rustix::fs::open(&place, flags, Mode::empty()).doing(format_args!("open {}", place.display()))?;
    Ok(File::from(fd))
}

fn read_entry(root: &Path, path: Vec<u8>) -> Result<Entry, Fault> {
    let place = place(root, &path);
    let what = || format!("read {}", place.display());
    let stat = rustix::fs::lstat(&place).doing(what())?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::RegularFile => Kind::File(u64::try_from(stat.st_size).unwrap_or(0)),
        FileType::Symlink => Kind::Link(rustix::fs::readlink(&place, Vec::new()).doing(what())?.into_bytes()),
        FileType::CharacterDevice => Kind::Char(major(stat.st_rdev), minor(stat.st_rdev)),
        FileType::BlockDevice => Kind::Block(major(stat.st_rdev), minor(stat.st_rdev)),
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        FileType::Unknown => return Err(Fault::new(format!("{} is of no known type", place.display()))),
    };
    let meta = Meta {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: stat.st_mtime,
        xattrs: read_xattrs(&place).doing(what())?,
    };
    #[allow(clippy::useless_conversion, reason = "it has 32 bits on other processors")]
    let links = u64::from(stat.st_nlink);
    Ok(Entry { path, kind, meta, inode: (stat.st_dev, stat.st_ino), links })
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
