//! Writes into one directory and nowhere else, whatever the paths say.
//!
//! A directory on the way to an entry may be a link, as `/lib` is on many systems: the entry is then put where the link
//! leads, seen from the tree's root, as for a program that runs there. A link that leads above the root, or in a
//! circle, is refused. A link at the end of a path is never followed: a new entry replaces it.

use crate::names::{self, Names, Room};
use crate::tree::{FILE, FOLDER, Kind, Meta, shown};
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
/// How many links may be followed on the way to an entry: as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// A path below a root: no empty part, no `.`, no `..`, no leading slash. Empty for the root itself. A leading slash in
/// an archive means the tree's root, as for every engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Below(Vec<u8>);

impl Below {
    /// Reads a path as archives write it: `./a/b`, `/a/b`, `a/b/`, `a//b`.
    pub(crate) fn parse(raw: &[u8]) -> Result<Below, Fault> {
        let refuse = |why: &str| Err(Fault::new(format!("entry '{}' {why}", shown(&raw[..raw.len().min(300)]))));
        if raw.is_empty() || raw.contains(&0) {
            return refuse("has no usable name");
        }
        if raw.len() > MAX_PATH {
            return refuse("has a path longer than file systems allow");
        }
        let mut path = Vec::with_capacity(raw.len());
        let mut depth = 0;
        for part in raw.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => continue,
                b".." => return refuse("leads out of the archive with '..'"),
                part if part.len() > MAX_NAME => return refuse("has a name longer than file systems allow"),
                _ if depth == MAX_DEPTH => return refuse("is more than 200 directories deep"),
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
    /// Memory for the names of the folders that are listed at a time.
    room: Room,
}

impl Rooted {
    /// Opens an existing directory as the root.
    pub(crate) fn open(root: &Path) -> Result<Rooted, Fault> {
        let root = rustix::fs::openat(CWD, root, FOLDER, Mode::empty())
            .doing(format_args!("open the directory {}", root.display()))?;
        Ok(Rooted::of(root))
    }

    /// An open directory as the root.
    pub(crate) fn of(root: OwnedFd) -> Rooted {
        Rooted { root, room: Room::default() }
    }

    /// Device and inode number of the root.
    pub(crate) fn inode(&self) -> Result<(u64, u64), Fault> {
        let facts = rustix::fs::fstat(&self.root).doing("look at the tree that is built")?;
        Ok((facts.st_dev, facts.st_ino))
    }

    /// Fails when `bytes` more and one file more would leave too little of the disk free.
    pub(crate) fn room_for(&self, bytes: u64) -> Result<(), Fault> {
        super::room::check(&self.root, bytes)
    }

    /// The type of what is at `path`, without following a link; none if nothing is there.
    pub(crate) fn kind(&self, path: &Below) -> Result<Option<FileType>, Fault> {
        let Some((folder, name)) = path.split() else { return Ok(Some(FileType::Directory)) };
        let Some(folder) = self.enter_existing(&folder)? else { return Ok(None) };
        kind_at(folder.fd.as_fd(), name).map_err(|error| at(path, "look at", error))
    }

    /// Puts an entry at `path` and replaces what is there; a directory put over a directory keeps its entries. Missing
    /// directories above it are made, and reported to `made`. Returns its path without links.
    pub(crate) fn put(
        &self,
        path: &Below,
        kind: &Kind,
        meta: &Meta,
        content: &mut dyn Read,
        made: &mut dyn FnMut(Below),
    ) -> Result<Below, Fault> {
        let Some((folder_path, name)) = path.split() else {
            if *kind != Kind::Folder {
                return Err(Fault::new("the entry for the root of the tree is not a directory"));
            }
            set_folder_meta(self.root.as_fd(), meta).map_err(|error| at(path, "set up", error))?;
            return Ok(path.clone());
        };
        let entered = self.enter_or_make(&folder_path, made)?;
        let (folder, path) = (entered.fd.as_fd(), &entered.entry(name)?);
        let here = kind_at(folder, name).map_err(|error| at(path, "look at", error))?;
        let keeps = *kind == Kind::Folder && here == Some(FileType::Directory);
        if here.is_some() && !keeps {
            self.remove_at(folder, name).map_err(|error| at(path, "replace", error))?;
        }
        match kind {
            Kind::Folder => {
                if !keeps {
                    rustix::fs::mkdirat(folder, name, Mode::RWXU).map_err(|error| at(path, "make", error))?;
                }
                let made = rustix::fs::openat(folder, name, FOLDER, Mode::empty());
                made.and_then(|made| set_folder_meta(made.as_fd(), meta)).map_err(|error| at(path, "set up", error))?;
            }
            Kind::File(size) => put_file(folder, name, *size, meta, content)
                .map_err(|fault| fault.context(format_args!("entry '{}'", shown(path.bytes()))))?,
            _ => put_special(folder, name, kind, meta).map_err(|error| at(path, "make", error))?,
        }
        Ok(path.clone())
    }

    /// Gives the file at `target` a second name. Returns the path of that without links.
    pub(crate) fn link(&self, path: &Below, target: &Below, made: &mut dyn FnMut(Below)) -> Result<Below, Fault> {
        let refuse = |why: &str| {
            let (path, target) = (shown(path.bytes()), shown(target.bytes()));
            Err(Fault::new(format!("entry '{path}' is a hard link to '{target}', which {why}")))
        };
        let (Some((folder, name)), Some((from_folder, from))) = (path.split(), target.split()) else {
            return refuse("is a directory");
        };
        let Some(from_folder) = self.enter_existing(&from_folder)? else { return refuse("does not exist") };
        match kind_at(from_folder.fd.as_fd(), from).map_err(|error| at(target, "look at", error))? {
            None => return refuse("does not exist"),
            Some(FileType::Directory) => return refuse("is a directory"),
            Some(_) => {}
        }
        let entered = self.enter_or_make(&folder, made)?;
        let (folder, place) = (entered.fd.as_fd(), entered.entry(name)?);
        if place == from_folder.entry(from)? {
            return refuse("is itself");
        }
        if kind_at(folder, name).map_err(|error| at(path, "look at", error))?.is_some() {
            self.remove_at(folder, name).map_err(|error| at(path, "replace", error))?;
        }
        match rustix::fs::linkat(&from_folder.fd, from, folder, name, AtFlags::empty()) {
            Err(Errno::NOENT) => refuse("was in a directory that this entry replaces"),
            other => other.map(|()| place).map_err(|error| at(path, "link", error)),
        }
    }

    /// Removes what is at `path` with all below it, except where `keep` is true. That nothing is there is no error.
    /// Folders are entered only if `enters` is true. Both are called with paths without links.
    pub(crate) fn remove(&self, path: &Below, keep: &dyn Fn(&Below) -> bool, enters: Enters<'_>) -> Result<(), Fault> {
        let Some((folder, name)) = path.split() else { return self.clear(path, keep, enters) };
        let Some(folder) = self.enter_existing(&folder)? else { return Ok(()) };
        let path = &folder.entry(name)?;
        let Some(kind) = kind_at(folder.fd.as_fd(), name).map_err(|error| at(path, "look at", error))? else {
            return Ok(());
        };
        if kind == FileType::Directory {
            self.clear(path, keep, enters)?;
            if keep(path) {
                return Ok(());
            }
            return match rustix::fs::unlinkat(&folder.fd, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOTEMPTY) => Ok(()),
                Err(error) => Err(at(path, "remove", error)),
            };
        }
        if keep(path) {
            return Ok(());
        }
        rustix::fs::unlinkat(&folder.fd, name, AtFlags::empty()).map_err(|error| at(path, "remove", error))
    }

    /// Removes the entries of the directory `path`, with `keep` and `enters` as for [`Rooted::remove`].
    pub(crate) fn clear(&self, path: &Below, keep: &dyn Fn(&Below) -> bool, enters: Enters<'_>) -> Result<(), Fault> {
        let Some(folder) = self.enter_existing(path)? else { return Ok(()) };
        if !enters(&folder.path) {
            return Ok(());
        }
        for name in self.names(&folder)?.iter() {
            self.remove(&folder.path.join(name), keep, enters)?;
        }
        Ok(())
    }

    /// Moves what is at `from` to `to`, which must be free; the directory above `to` must exist.
    pub(crate) fn rename(&self, from: &Below, to: &Below) -> Result<(), Fault> {
        let (Some((old, from_name)), Some((new, to_name))) = (from.split(), to.split()) else {
            return Err(Fault::new("the root of a tree cannot be moved"));
        };
        let (Some(old), Some(new)) = (self.enter_existing(&old)?, self.enter_existing(&new)?) else {
            return Err(at(from, "move", Errno::NOENT));
        };
        rustix::fs::renameat(&old.fd, from_name, &new.fd, to_name).map_err(|error| at(from, "move", error))
    }

    /// The names in the directory `path`, sorted; none if it does not exist.
    pub(crate) fn list(&self, path: &Below) -> Result<Names<'_>, Fault> {
        let folder = self.enter_existing(path)?;
        folder.map_or_else(|| Ok(Names::none(&self.room)), |folder| self.names(&folder))
    }

    fn names(&self, folder: &Entered) -> Result<Names<'_>, Fault> {
        Names::read(folder.fd.as_fd(), &self.room).map_err(|error| at(&folder.path, "list", error))
    }

    /// Removes what has this name, with all below it.
    fn remove_at(&self, folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            other => return other,
        }
        let inner = rustix::fs::openat(folder, name, FOLDER, Mode::empty())?;
        for name in Names::read(inner.as_fd(), &self.room)?.iter() {
            self.remove_at(inner.as_fd(), name)?;
        }
        rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)
    }

    /// The names in the directory `path`: `None` if something else is there, an empty list if nothing is.
    pub(crate) fn list_if_folder(&self, path: &Below) -> Result<Option<Names<'_>>, Fault> {
        match self.kind(path)? {
            None | Some(FileType::Directory) => self.list(path).map(Some),
            Some(_) => Ok(None),
        }
    }

    /// Opens the regular file at `path`; none if there is no such file.
    pub(crate) fn open_file(&self, path: &Below) -> Result<Option<File>, Fault> {
        let Some((folder, name)) = path.split() else { return Ok(None) };
        let Some(folder) = self.enter_existing(&folder)? else { return Ok(None) };
        let kind = kind_at(folder.fd.as_fd(), name).map_err(|error| at(path, "look at", error))?;
        if kind != Some(FileType::RegularFile) {
            return Ok(None);
        }
        // By now something else may be there.
        let fd = rustix::fs::openat(&folder.fd, name, FILE, Mode::empty()).map_err(|error| at(path, "open", error))?;
        let kind = rustix::fs::fstat(&fd).map_err(|error| at(path, "look at", error))?.st_mode;
        Ok((FileType::from_raw_mode(kind) == FileType::RegularFile).then(|| File::from(fd)))
    }

    /// The target of the link at `path`, as it is written; none if there is no link.
    pub(crate) fn link_target(&self, path: &Below) -> Result<Option<Vec<u8>>, Fault> {
        let Some((folder, name)) = path.split() else { return Ok(None) };
        let Some(folder) = self.enter_existing(&folder)? else { return Ok(None) };
        match rustix::fs::readlinkat(&folder.fd, name, Vec::new()) {
            Ok(target) => Ok(Some(target.into_bytes())),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(error) => Err(at(path, "look at", error)),
        }
    }

    /// Sets the modification time of the directory `path`. Every entry that is put into it changes it again.
    pub(crate) fn set_folder_time(&self, path: &Below, mtime: i64) -> Result<(), Fault> {
        let Some(folder) = self.enter_existing(path)? else { return Ok(()) };
        rustix::fs::futimens(&folder.fd, &times(mtime)).map_err(|error| at(path, "set the time of", error))
    }

    fn enter_existing(&self, path: &Below) -> Result<Option<Entered>, Fault> {
        self.enter(path, None)
    }

    fn enter_or_make(&self, path: &Below, made: &mut dyn FnMut(Below)) -> Result<Entered, Fault> {
        self.enter(path, Some(made)).map(|entered| entered.expect("what is missing is made"))
    }

    /// Opens the directory `path`, part by part, and resolves every link on the way itself. A missing part is created
    /// and reported to `made`; without `made` the result is `None`.
    fn enter(&self, path: &Below, mut made: Option<&mut dyn FnMut(Below)>) -> Result<Option<Entered>, Fault> {
        let mut here = self.top()?;
        let mut links = 0;
        // The next part is the last element.
        let mut parts: Vec<Vec<u8>> = path.parts().map(<[u8]>::to_vec).collect();
        parts.reverse();
        while let Some(part) = parts.pop() {
            if part == b".." {
                // Only link targets contain this, and they are resolved from the directory that the link is in.
                let Some((above, _)) = here.path.split() else { return Err(leads_out(path)) };
                here = self.enter(&above, None)?.ok_or_else(|| at(&above, "enter", Errno::NOENT))?;
                continue;
            }
            match rustix::fs::openat(&here.fd, &part[..], FOLDER, Mode::empty()) {
                Ok(fd) => here = Entered { fd, path: here.path.join(&part) },
                Err(Errno::NOENT) => {
                    let Some(made) = &mut made else { return Ok(None) };
                    here = here.make(&part)?;
                    made(here.path.clone());
                }
                Err(Errno::LOOP | Errno::NOTDIR) => {
                    let Ok(target) = rustix::fs::readlinkat(&here.fd, &part[..], Vec::new()) else {
                        return Err(blocked(path, &part));
                    };
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(in_circle(path));
                    }
                    if target.as_bytes().starts_with(b"/") {
                        here = self.top()?;
                    }
                    let target = target.as_bytes().split(|byte| *byte == b'/');
                    let target = target.filter(|part| !matches!(*part, b"" | b"."));
                    parts.extend(target.rev().map(<[u8]>::to_vec));
                }
                Err(error) => return Err(at(path, "enter", error)),
            }
        }
        Ok(Some(here))
    }

    fn top(&self) -> Result<Entered, Fault> {
        Ok(Entered { fd: self.root.try_clone().doing("open a directory")?, path: Below(Vec::new()) })
    }
}

/// Whether to enter a folder.
pub(crate) type Enters<'a> = &'a mut dyn FnMut(&Below) -> bool;

/// An open directory of the tree, and its path without links.
struct Entered {
    fd: OwnedFd,
    path: Below,
}

impl Entered {
    /// The path of the entry of this name. Fails if links have led deeper than a tree may be.
    fn entry(&self, name: &[u8]) -> Result<Below, Fault> {
        Below::parse(self.path.join(name).bytes())
    }

    fn make(&self, name: &[u8]) -> Result<Entered, Fault> {
        let (path, mode) = (self.entry(name)?, Mode::from_raw_mode(0o755));
        let fd = rustix::fs::mkdirat(&self.fd, name, mode)
            .and_then(|()| rustix::fs::openat(&self.fd, name, FOLDER, Mode::empty()))
            .and_then(|new| rustix::fs::fchmod(&new, mode).map(|()| new))
            .map_err(|error| at(&path, "make", error))?;
        Ok(Entered { fd, path })
    }
}

/// An entry is below something that is neither a directory nor a link to one.
fn blocked(path: &Below, part: &[u8]) -> Fault {
    let (path, part) = (shown(path.bytes()), shown(part));
    Fault::new(format!("an entry is in '{path}', where '{part}' is not a directory"))
}

/// An entry is below a link that leads out of the tree.
fn leads_out(path: &Below) -> Fault {
    Fault::new(format!("an entry is in '{}', where a link leads out of the tree with '..'", shown(path.bytes())))
}

/// An entry is below a link that leads back to itself.
fn in_circle(path: &Below) -> Fault {
    Fault::new(format!("an entry is in '{}', which takes more than {MAX_LINKS} links to reach", shown(path.bytes())))
}

fn at(path: &Below, doing: &str, error: Errno) -> Fault {
    let fault = Fault::from_error(format_args!("{doing} '{}'", shown(path.bytes())), &std::io::Error::from(error));
    match error {
        names::TOO_MANY => names::too_many(&shown(path.bytes())),
        Errno::PERM => fault.remedy("run as root, to set owners and attributes of files"),
        Errno::NOSPC | Errno::DQUOT => fault.remedy("free some disk space where bundles are kept"),
        Errno::OPNOTSUPP => fault.remedy("keep bundles on ext4, xfs or btrfs, which support extended attributes"),
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

fn put_file(folder: BorrowedFd<'_>, name: &[u8], size: u64, meta: &Meta, content: &mut dyn Read) -> Result<(), Fault> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR);
    let mut file = fd.map(File::from).map_err(std::io::Error::from).doing("make the file")?;
    let copied = std::io::copy(&mut content.take(size), &mut file).doing("write the file").map_err(|fault| {
        fault.remedy("check that the archive is complete and that there is disk space where bundles are kept")
    })?;
    if copied != size {
        return Err(Fault::new(format!("has only {copied} of {size} bytes: the archive is cut off")));
    }
    let set = set_meta(file.as_fd(), meta).and_then(|()| rustix::fs::futimens(&file, &times(meta.mtime)));
    set.map_err(std::io::Error::from).doing("set up the file")
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
        // It was made just now in a directory that only this process writes to, and it is not a link.
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

/// Sets the owner first: changing it clears set-id bits and capabilities.
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
