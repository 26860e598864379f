//! Writes into one directory and nowhere else, whatever the paths say.

use crate::tree::{Kind, Meta, shown};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// The kernel's own limits for a path and a name, bytes.
const MAX_PATH: usize = 4096;
const MAX_NAME: usize = 255;
/// How deep a tree may be: removing one holds a directory open for each level.
const MAX_DEPTH: usize = 200;

/// A path below a root: no empty part, no `.`, no `..`, no leading slash. Empty for the root itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Below(Vec<u8>);

impl Below {
    /// Reads a path as archives write it: `./a/b`, `a/b/`, `a//b`.
    pub(crate) fn parse(raw: &[u8]) -> Result<Below, Fault> {
        let refuse = |why: &str| Err(Fault::new(format!("entry '{}' {why}", shown(&raw[..raw.len().min(300)]))));
        if raw.is_empty() || raw.contains(&0) {
            return refuse("has no usable name");
        }
        if raw.starts_with(b"/") {
            return refuse("has an absolute path");
        }
        if raw.len() > MAX_PATH {
            return refuse("has a longer path than a file system can hold");
        }
        let mut path = Vec::with_capacity(raw.len());
        let mut depth = 0;
        for part in raw.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => continue,
                b".." => return refuse("leads out of the archive with '..'"),
                part if part.len() > MAX_NAME => return refuse("has a longer name than a file system can hold"),
                _ if depth == MAX_DEPTH => return refuse("lies deeper than 200 directories"),
                part => {
                    depth += 1;
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(part);
                }
            }
        }
        Ok(Below(path))
    }

    /// The bytes of the path.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path of `name` in this directory.
    pub(crate) fn join(&self, name: &[u8]) -> Below {
        if self.0.is_empty() {
            return Below(name.to_vec());
        }
        Below([&self.0, &b"/"[..], name].concat())
    }

    /// The directory and the name in it; none for the root.
    pub(crate) fn split(&self) -> Option<(Below, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (Below(self.0[..slash].to_vec()), &self.0[slash + 1..]),
            None => (Below(Vec::new()), &self.0[..]),
        })
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }
}

/// A directory into which a tree is built.
pub(crate) struct Rooted {
    root: OwnedFd,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Rooted {
    /// Opens an existing directory as the root.
    pub(crate) fn open(root: &Path) -> Result<Rooted, Fault> {
        let root = rustix::fs::openat(CWD, root, FOLDER, Mode::empty())
            .doing(format_args!("open the directory {}", root.display()))?;
        Ok(Rooted { root })
    }

    /// What stands at `path`, without following a link; none if nothing does.
    pub(crate) fn kind(&self, path: &Below) -> Result<Option<FileType>, Fault> {
        let Some((folder, name)) = path.split() else { return Ok(Some(FileType::Directory)) };
        let Some(folder) = self.enter_existing(&folder)? else { return Ok(None) };
        kind_at(folder.as_fd(), name).map_err(|error| at(path, "look at", error))
    }

    /// Puts an entry at `path`, in place of what stands there; a directory over a directory keeps what is in it.
    /// Missing directories above it are made, and handed to `made`.
    pub(crate) fn put(
        &self,
        path: &Below,
        kind: &Kind,
        meta: &Meta,
        content: &mut dyn Read,
        made: &mut dyn FnMut(Below),
    ) -> Result<(), Fault> {
        let Some((folder_path, name)) = path.split() else {
            if *kind != Kind::Folder {
                return Err(Fault::new("the entry for the root of the tree is not a directory"));
            }
            return set_folder_meta(self.root.as_fd(), meta).map_err(|error| at(path, "set up", error));
        };
        let folder = self.enter_or_make(&folder_path, made)?;
        let folder = folder.as_fd();
        let here = kind_at(folder, name).map_err(|error| at(path, "look at", error))?;
        let keeps = *kind == Kind::Folder && here == Some(FileType::Directory);
        if here.is_some() && !keeps {
            remove_at(folder, name).map_err(|error| at(path, "replace", error))?;
        }
        match kind {
            Kind::Folder => {
                if !keeps {
                    rustix::fs::mkdirat(folder, name, Mode::RWXU).map_err(|error| at(path, "make", error))?;
                }
                let made = rustix::fs::openat(folder, name, FOLDER, Mode::empty());
                made.and_then(|made| set_folder_meta(made.as_fd(), meta)).map_err(|error| at(path, "set up", error))
            }
            Kind::File(size) => put_file(folder, name, *size, meta, content)
                .map_err(|fault| fault.context(format_args!("entry '{}'", shown(path.bytes())))),
            _ => put_special(folder, name, kind, meta).map_err(|error| at(path, "make", error)),
        }
    }

    /// Gives the file at `target` a second name.
    pub(crate) fn link(&self, path: &Below, target: &Below, made: &mut dyn FnMut(Below)) -> Result<(), Fault> {
        let refuse = |why: &str| {
            let (path, target) = (shown(path.bytes()), shown(target.bytes()));
            Err(Fault::new(format!("entry '{path}' is a hard link to '{target}', which {why}")))
        };
        let (Some((folder, name)), Some((from_folder, from))) = (path.split(), target.split()) else {
            return refuse("is a directory");
        };
        if path == target {
            return refuse("is itself");
        }
        let Some(from_folder) = self.enter_existing(&from_folder)? else { return refuse("does not exist") };
        match kind_at(from_folder.as_fd(), from).map_err(|error| at(target, "look at", error))? {
            None => return refuse("does not exist"),
            Some(FileType::Directory) => return refuse("is a directory"),
            Some(_) => {}
        }
        let folder = self.enter_or_make(&folder, made)?;
        if kind_at(folder.as_fd(), name).map_err(|error| at(path, "look at", error))?.is_some() {
            remove_at(folder.as_fd(), name).map_err(|error| at(path, "replace", error))?;
        }
        match rustix::fs::linkat(&from_folder, from, &folder, name, AtFlags::empty()) {
            Err(Errno::NOENT) => refuse("stood below what this entry replaces"),
            other => other.map_err(|error| at(path, "link", error)),
        }
    }

    /// Removes what stands at `path` with all below it, except what `keep` says; nothing there is no fault.
    pub(crate) fn remove(&self, path: &Below, keep: &dyn Fn(&Below) -> bool) -> Result<(), Fault> {
        let Some((folder, name)) = path.split() else { return self.clear(path, keep) };
        let Some(folder) = self.enter_existing(&folder)? else { return Ok(()) };
        let Some(kind) = kind_at(folder.as_fd(), name).map_err(|error| at(path, "look at", error))? else {
            return Ok(());
        };
        if kind == FileType::Directory {
            self.clear(path, keep)?;
            if keep(path) {
                return Ok(());
            }
            return match rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOTEMPTY) => Ok(()),
                Err(error) => Err(at(path, "remove", error)),
            };
        }
        if keep(path) {
            return Ok(());
        }
        rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(|error| at(path, "remove", error))
    }

    /// Removes what is in the directory `path`, except what `keep` says.
    pub(crate) fn clear(&self, path: &Below, keep: &dyn Fn(&Below) -> bool) -> Result<(), Fault> {
        let Some(folder) = self.enter_existing(path)? else { return Ok(()) };
        for name in names(folder.as_fd()).map_err(|error| at(path, "list", error))? {
            self.remove(&path.join(&name), keep)?;
        }
        Ok(())
    }

    /// Moves what stands at `from` to `to`, which must be free; the directory above `to` must exist.
    pub(crate) fn rename(&self, from: &Below, to: &Below) -> Result<(), Fault> {
        let (Some((old, from_name)), Some((new, to_name))) = (from.split(), to.split()) else {
            return Err(Fault::new("the root of a tree cannot be moved"));
        };
        let (Some(old), Some(new)) = (self.enter_existing(&old)?, self.enter_existing(&new)?) else {
            return Err(at(from, "move", Errno::NOENT));
        };
        rustix::fs::renameat(&old, from_name, &new, to_name).map_err(|error| at(from, "move", error))
    }

    /// The names in the directory `path`, sorted; none if it does not exist.
    pub(crate) fn list(&self, path: &Below) -> Result<Vec<Vec<u8>>, Fault> {
        let Some(folder) = self.enter_existing(path)? else { return Ok(Vec::new()) };
        names(folder.as_fd()).map_err(|error| at(path, "list", error))
    }

    /// The names in the directory `path`; none if something else stands there, and no names if nothing does.
    pub(crate) fn list_if_folder(&self, path: &Below) -> Result<Option<Vec<Vec<u8>>>, Fault> {
        match self.kind(path)? {
            None | Some(FileType::Directory) => self.list(path).map(Some),
            Some(_) => Ok(None),
        }
    }

    /// Opens the regular file at `path`; none if there is none.
    pub(crate) fn open_file(&self, path: &Below) -> Result<Option<File>, Fault> {
        let Some((folder, name)) = path.split() else { return Ok(None) };
        let Some(folder) = self.enter_existing(&folder)? else { return Ok(None) };
        if kind_at(folder.as_fd(), name).map_err(|error| at(path, "look at", error))? != Some(FileType::RegularFile) {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&folder, name, flags, Mode::empty()).map_err(|error| at(path, "open", error))?;
        Ok(Some(File::from(fd)))
    }

    /// Sets the modification time of the directory `path`, which changes whenever something is put into it.
    pub(crate) fn set_folder_time(&self, path: &Below, mtime: i64) -> Result<(), Fault> {
        let Some(folder) = self.enter_existing(path)? else { return Ok(()) };
        rustix::fs::futimens(&folder, &times(mtime)).map_err(|error| at(path, "set the time of", error))
    }

    fn enter_existing(&self, path: &Below) -> Result<Option<OwnedFd>, Fault> {
        let mut folder = self.root.try_clone().doing("open a directory")?;
        for part in path.parts() {
            folder = match rustix::fs::openat(&folder, part, FOLDER, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(blocked(path, part)),
                Err(error) => return Err(at(path, "enter", error)),
            };
        }
        Ok(Some(folder))
    }

    fn enter_or_make(&self, path: &Below, made: &mut dyn FnMut(Below)) -> Result<OwnedFd, Fault> {
        let mut folder = self.root.try_clone().doing("open a directory")?;
        let mut so_far = Below(Vec::new());
        for part in path.parts() {
            so_far = so_far.join(part);
            folder = match rustix::fs::openat(&folder, part, FOLDER, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    let mode = Mode::from_raw_mode(0o755);
                    let new = rustix::fs::mkdirat(&folder, part, mode)
                        .and_then(|()| rustix::fs::openat(&folder, part, FOLDER, Mode::empty()))
                        .and_then(|new| rustix::fs::fchmod(&new, mode).map(|()| new))
                        .map_err(|error| at(&so_far, "make", error))?;
                    made(so_far.clone());
                    new
                }
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(blocked(path, part)),
                Err(error) => return Err(at(path, "enter", error)),
            };
        }
        Ok(folder)
    }
}

/// An entry lies below something that is no directory: a file, or a link that would lead elsewhere.
fn blocked(path: &Below, part: &[u8]) -> Fault {
    let (path, part) = (shown(path.bytes()), shown(part));
    Fault::new(format!("an entry lies in '{path}', where '{part}' is a link or a file, not a directory"))
}

fn at(path: &Below, doing: &str, error: Errno) -> Fault {
    let fault = Fault::from_error(format_args!("{doing} '{}'", shown(path.bytes())), &error);
    match error {
        Errno::PERM => fault.remedy("run as root: owners, devices and attributes of files are kept"),
        Errno::NOSPC | Errno::DQUOT => fault.remedy("free some disk space where bundles are kept"),
        Errno::OPNOTSUPP => fault.remedy("keep bundles on ext4, xfs or btrfs, which hold extended attributes"),
        _ => fault,
    }
}

fn kind_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Option<FileType>, Errno> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn names(folder: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for item in rustix::fs::Dir::read_from(folder)? {
        let name = item?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn remove_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        other => return other,
    }
    let inner = rustix::fs::openat(folder, name, FOLDER, Mode::empty())?;
    for name in names(inner.as_fd())? {
        remove_at(inner.as_fd(), &name)?;
    }
    rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)
}

fn put_file(folder: BorrowedFd<'_>, name: &[u8], size: u64, meta: &Meta, content: &mut dyn Read) -> Result<(), Fault> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR).doing("make the file")?;
    let mut file = File::from(fd);
    let copied = std::io::copy(&mut content.take(size), &mut file).doing("write the file").map_err(|fault| {
        fault.remedy("check that the archive is whole and that there is disk space where bundles are kept")
    })?;
    if copied != size {
        return Err(Fault::new(format!("holds {copied} of the {size} bytes it announces: the archive is cut off")));
    }
    set_meta(file.as_fd(), meta).and_then(|()| rustix::fs::futimens(&file, &times(meta.mtime))).doing("set up the file")
}

fn put_special(folder: BorrowedFd<'_>, name: &[u8], kind: &Kind, meta: &Meta) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(meta.mode);
    match kind {
        Kind::Link(target) => rustix::fs::symlinkat(&target[..], folder, name)?,
        Kind::Char(major, minor) => {
            let device = rustix::fs::makedev(*major, *minor);
            rustix::fs::mknodat(folder, name, FileType::CharacterDevice, mode, device)?;
        }
        Kind::Block(major, minor) => {
            let device = rustix::fs::makedev(*major, *minor);
            rustix::fs::mknodat(folder, name, FileType::BlockDevice, mode, device)?;
        }
        Kind::Pipe => rustix::fs::mknodat(folder, name, FileType::Fifo, mode, 0)?,
        Kind::Folder | Kind::File(_) | Kind::Socket => unreachable!("made elsewhere or left out"),
    }
    let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
    rustix::fs::chownat(folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if !matches!(kind, Kind::Link(_)) {
        // The name was made just now in a directory only this process writes to, and it is no link.
        rustix::fs::chmodat(folder, name, mode, AtFlags::empty())?;
    }
    rustix::fs::utimensat(folder, name, &times(meta.mtime), AtFlags::SYMLINK_NOFOLLOW)
}

fn set_folder_meta(folder: BorrowedFd<'_>, meta: &Meta) -> Result<(), Errno> {
    let mut names = vec![0_u8; 65536];
    let length = match rustix::fs::flistxattr(folder, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        Err(error) => return Err(error),
    };
    for name in names[..length].split(|byte| *byte == 0) {
        if crate::tree::keeps_xattr(name) && !meta.xattrs.contains_key(name) {
            rustix::fs::fremovexattr(folder, OsStr::from_bytes(name))?;
        }
    }
    set_meta(folder, meta)
}

/// Owner first: changing it clears set-id bits and capabilities.
fn set_meta(file: BorrowedFd<'_>, meta: &Meta) -> Result<(), Errno> {
    rustix::fs::fchown(file, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(meta.mode))?;
    for (name, value) in &meta.xattrs {
        rustix::fs::fsetxattr(file, OsStr::from_bytes(name), value, XattrFlags::empty())?;
    }
    Ok(())
}

fn times(mtime: i64) -> Timestamps {
    let time = Timespec { tv_sec: mtime, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
