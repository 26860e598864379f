//! Copies trees with owners, modes, times and holes, sharing blocks where the file system can.

use rustix::fs::{Advice, AtFlags, CWD, OFlags, SeekFrom, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// Copies the tree `from` to `to`, which must not exist. Sockets are left out: without a listener they are useless.
///
/// # Errors
/// What could not be copied; part of the tree may then exist. Devices and files with several names always fail.
pub(super) fn tree(from: &Path, to: &Path) -> Result<(), Fault> {
    let facts = fs::symlink_metadata(from).doing(format_args!("read {}", from.display()))?;
    if facts.file_type().is_socket() {
        return Ok(());
    }
    one(from, to, &facts).doing(format_args!("copy {} to {}", from.display(), to.display()))?;
    if facts.is_dir() {
        let what = || format!("list {}", from.display());
        for item in fs::read_dir(from).doing(what())? {
            let name = item.doing(what())?.file_name();
            tree(&from.join(&name), &to.join(&name))?;
        }
    }
    // Last, because new entries change a directory's times, and a change of owner clears bits of the mode.
    dress(to, &facts).doing(format_args!("give {} its owner, mode and times", to.display()))
}

fn one(from: &Path, to: &Path, facts: &Metadata) -> io::Result<()> {
    let kind = facts.file_type();
    match () {
        () if kind.is_dir() => DirBuilder::new().mode(0o700).create(to),
        () if kind.is_symlink() => std::os::unix::fs::symlink(fs::read_link(from)?, to),
        () if kind.is_file() && facts.nlink() == 1 => content(from, to),
        () => Err(io::Error::new(io::ErrorKind::Unsupported, "it is a device, a pipe, or a file with several names")),
    }
}

fn content(from: &Path, to: &Path) -> io::Result<()> {
    let source = read(from)?;
    let copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    if rustix::fs::ioctl_ficlone(&copy, &source).is_ok() {
        return Ok(());
    }
    copy.set_len(source.metadata()?.len())?;
    let mut done = 0;
    loop {
        let begin = match rustix::fs::seek(&source, SeekFrom::Data(done)) {
            Err(Errno::NXIO) => return Ok(()),
            other => other?,
        };
        done = rustix::fs::seek(&source, SeekFrom::Hole(begin))?;
        let (mut here, mut there) = (begin, begin);
        while here < done {
            let left = usize::try_from(done - here).unwrap_or(usize::MAX);
            if rustix::fs::copy_file_range(&source, Some(&mut here), &copy, Some(&mut there), left)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Opens a file for reading, without following a link.
fn read(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

fn dress(path: &Path, facts: &Metadata) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(facts.uid()), Some(facts.gid()))?;
    if !facts.is_symlink() {
        fs::set_permissions(path, Permissions::from_mode(facts.mode() & 0o7777))?;
    }
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(facts.atime(), facts.atime_nsec()),
        last_modification: time(facts.mtime(), facts.mtime_nsec()),
    };
    Ok(rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Waits until everything on the file system of `path` is on disk.
///
/// # Errors
/// When it cannot be written.
pub(super) fn sync(path: &Path) -> Result<(), Fault> {
    let what = || format!("write {} to disk", path.display());
    let file = File::open(path).doing(what())?;
    rustix::fs::syncfs(&file).doing(what())
}

/// Drops the files of a tree, all of which must be on disk, from the page cache.
///
/// # Errors
/// When the tree cannot be read.
pub(super) fn release(path: &Path) -> Result<(), Fault> {
    let what = || format!("read {}", path.display());
    let facts = fs::symlink_metadata(path).doing(what())?;
    if facts.is_dir() {
        for item in fs::read_dir(path).doing(what())? {
            release(&item.doing(what())?.path())?;
        }
    } else if facts.is_file() {
        let file = read(path).doing(what())?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).doing(what())?;
    }
    Ok(())
}
