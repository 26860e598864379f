//! Resolves the place of a file to write. Follows links on the way one by one and holds each folder open from then on,
//! so that what was checked is what is written to, whatever others do to the path meanwhile.

use crate::paths;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, openat, readlinkat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_layers::hands;

/// The most links that a path may lead through, as in the kernel.
const LINKS_MAX: usize = 40;
/// Flags to open a folder that is only passed through.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name in a folder, to write to.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) folder: OwnedFd,
    pub(super) name: OsString,
    /// The flags to open what is no regular file, such as a device; none if a regular file takes the place.
    pub(super) opened: Option<OFlags>,
}

impl Spot {
    /// `path` itself, even if its last part is a link.
    pub(super) fn at(path: &Path) -> std::io::Result<Spot> {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = openat(CWD, above, FOLDER, Mode::empty())?;
        Ok(Spot { folder, name: path.file_name().unwrap_or_default().to_owned(), opened: None })
    }

    /// What `path` leads to.
    ///
    /// # Errors
    /// When nothing can be written there, or when root would follow a link, or write to a pipe, of another user.
    pub(super) fn behind(path: &Path) -> Result<Spot, Fault> {
        let doing = format!("write {}", path.display());
        let mut way = Way::to(path).doing(&doing)?;
        loop {
            let Some(name) = way.ahead.pop_front() else { return Err(Errno::ISDIR).doing(doing) };
            let last = way.ahead.is_empty();
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = match openat(&way.folder, &name, flags, Mode::empty()) {
                Err(Errno::NOENT) if last => return Ok(way.end(name, None)),
                found => found.doing(&doing)?,
            };
            let facts = fstat(&found).doing(&doing)?;
            match FileType::from_raw_mode(facts.st_mode) {
                FileType::Directory => way.enter(found, name),
                FileType::Symlink => {
                    way.refuse_anothers(&name, &facts, "link")?;
                    if fstatfs(&way.folder).doing(&doing)?.f_type != PROC_SUPER_MAGIC {
                        way.follow(&found).doing(&doing)?;
                    } else if last {
                        return Ok(way.end(name, Some(OFlags::empty())));
                    } else {
                        // The kernel's own links lead to what is open, which may have no path.
                        let folder = openat(&way.folder, &name, FOLDER, Mode::empty()).doing(&doing)?;
                        way.enter(folder, name);
                    }
                }
                _ if !last => return Err(Errno::NOTDIR).doing(doing),
                FileType::RegularFile => return Ok(way.end(name, None)),
                _ => {
                    way.refuse_anothers(&name, &facts, "pipe or device")?;
                    return Ok(way.end(name, Some(OFlags::NOFOLLOW)));
                }
            }
        }
    }
}

/// A path that is being followed.
struct Way {
    /// The folder reached so far.
    folder: OwnedFd,
    path: PathBuf,
    /// The parts ahead, and how many links were followed.
    ahead: VecDeque<OsString>,
    links: usize,
}

impl Way {
    /// The beginning of the path.
    fn to(path: &Path) -> rustix::io::Result<Way> {
        let start = if path.is_absolute() { "/" } else { "." };
        let folder = openat(CWD, start, FOLDER, Mode::empty())?;
        Ok(Way { folder, path: PathBuf::from(start), ahead: parts(path).collect(), links: 0 })
    }

    fn enter(&mut self, folder: OwnedFd, name: OsString) {
        self.folder = folder;
        self.path.push(name);
    }

    /// Replaces a link by its target.
    fn follow(&mut self, link: &OwnedFd) -> rustix::io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        let target = PathBuf::from(OsString::from_vec(readlinkat(link, "", Vec::new())?.into_bytes()));
        if target.is_absolute() {
            (self.folder, self.path) = (openat(CWD, "/", FOLDER, Mode::empty())?, PathBuf::from("/"));
        }
        for part in parts(&target).rev() {
            self.ahead.push_front(part);
        }
        Ok(())
    }

    fn end(self, name: OsString, opened: Option<OFlags>) -> Spot {
        Spot { folder: self.folder, name, opened }
    }

    /// Refuses, for root, a link or pipe that another user owns and could have put there. Users other than root may
    /// write wherever the kernel lets them.
    fn refuse_anothers(&self, name: &OsString, facts: &Stat, what: &str) -> Result<(), Fault> {
        let behind = paths::behind_sudo();
        let owner = facts.st_uid;
        if owner == 0 || behind == Some(owner) || hands::is_own(&self.path, behind) {
            return Ok(());
        }
        let place = self.path.join(name);
        let text = format!(
            "{} is a {what} of user {owner}, in a folder to which users other than root can write: it could make root \
             overwrite any file",
            place.display()
        );
        let remedy =
            "name a file in a folder where only you may write, or run this without root, which it does not need";
        Err(Fault::new(text).remedy(remedy).as_mistake())
    }
}

/// The parts of a path below its start.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}
