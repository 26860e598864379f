//! Copies the files of a command into a folder, from which a bundle is made.

use super::tree::{Tree, open_file};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, chmodat, fchmod, futimens, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::units::show_bytes;
use tare_runner::Stop;

/// How much is copied between two looks whether the user wants to end that, bytes.
const PIECE: u64 = 16 << 20;
/// Users that programs may ask for. Those of this machine are nobody's business.
const USERS: [(&str, &str); 2] = [
    ("etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
];

/// Where copying ends.
pub(super) struct Bounds<'a> {
    /// The most that is copied, bytes; holes in files count like what they read as.
    pub(super) bytes: u64,
    pub(super) stop: &'a Stop,
}

/// What was copied.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) files: usize,
    pub(super) bytes: u64,
    /// Each file and link, one line each.
    pub(super) list: String,
    /// Files that could not be read, or are gone.
    pub(super) unread: BTreeSet<PathBuf>,
}

/// Copies a tree into the open folder `root`. Everybody may read the copies, and execute those that somebody may: the
/// service has a user of its own. Nothing in it is set-user-id.
///
/// # Errors
/// When it cannot be written, or is too much; or when the user ended that.
pub(super) fn copy(tree: &Tree, root: &OwnedFd, bounds: &Bounds<'_>) -> Result<Copied, Fault> {
    let (mut copied, mut folders) = (Copied::default(), BTreeSet::new());
    for path in &tree.folders {
        make_folder(root, path, &mut folders)?;
    }
    for path in &tree.files {
        make_folder(root, path.parent().unwrap_or(path), &mut folders)?;
        let Some((file, facts)) = open_file(path) else {
            copied.unread.insert(path.clone());
            continue;
        };
        copied.bytes += copy_file(root, path, (&file, &facts), copied.bytes, bounds)?;
        copied.files += 1;
        copied.list += &format!("{}\n", path.display());
    }
    for (path, target) in &tree.links {
        make_folder(root, path.parent().unwrap_or(path), &mut folders)?;
        match symlinkat(target, root, below(path)) {
            // A link and what was found behind it have changed places meanwhile.
            Ok(()) | Err(Errno::EXIST) => copied.list += &format!("{} -> {}\n", path.display(), target.display()),
            Err(error) => return Err(Fault::from_error(format_args!("copy {}", path.display()), &error)),
        }
    }
    for (name, text) in USERS {
        make_folder(root, Path::new("/etc"), &mut folders)?;
        let made = make_file(root, Path::new(name)).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            Ok(fchmod(&file, Mode::from_raw_mode(0o644))?)
        });
        made.doing(format_args!("write /{name} for the service"))?;
    }
    Ok(copied)
}

/// A path relative to the root.
fn below(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Makes a folder with those above it, unless they are in `made`.
fn make_folder(root: &OwnedFd, path: &Path, made: &mut BTreeSet<PathBuf>) -> Result<(), Fault> {
    let mut missing: Vec<&Path> = path.ancestors().take_while(|above| !made.contains(*above)).collect();
    missing.retain(|above| !below(above).as_os_str().is_empty());
    for folder in missing.into_iter().rev() {
        let mode = Mode::from_raw_mode(0o755);
        let done = match mkdirat(root, below(folder), mode) {
            // The mode that it was made with is less what this process never gives.
            Ok(()) => chmodat(root, below(folder), mode, AtFlags::empty()),
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        };
        done.doing(format_args!("make a copy of the folder {}", folder.display()))?;
        made.insert(folder.to_owned());
    }
    Ok(())
}

fn make_file(root: &OwnedFd, path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(root, path, flags, Mode::from_raw_mode(0o600))?))
}

/// Returns its size, bytes; so many were copied `before`.
fn copy_file(
    root: &OwnedFd,
    path: &Path,
    (from, facts): (&File, &Metadata),
    before: u64,
    bounds: &Bounds<'_>,
) -> Result<u64, Fault> {
    let left = bounds.bytes.saturating_sub(before);
    if facts.len() > left {
        return Err(too_much(bounds));
    }
    let doing = || format!("copy {}", path.display());
    let mut to = make_file(root, below(path)).doing(doing())?;
    let mut bytes = 0;
    loop {
        if bounds.stop.raised() {
            return Err(Fault::new("interrupted"));
        }
        // It may grow meanwhile: one byte more than there is room for tells that.
        let piece = PIECE.min(left - bytes + 1);
        let done = io::copy(&mut from.take(piece), &mut to).doing(doing())?;
        bytes += done;
        if bytes > left {
            return Err(too_much(bounds));
        }
        if done < piece {
            break;
        }
    }
    let as_before = || -> io::Result<()> {
        let mode = if facts.mode() & 0o111 == 0 { 0o644 } else { 0o755 };
        fchmod(&to, Mode::from_raw_mode(mode))?;
        // Python takes what it has compiled only for a source of that time.
        let time = Timespec { tv_sec: facts.mtime(), tv_nsec: facts.mtime_nsec() };
        Ok(futimens(&to, &Timestamps { last_access: time, last_modification: time })?)
    };
    as_before().doing(doing())?;
    Ok(bytes)
}

fn too_much(bounds: &Bounds<'_>) -> Fault {
    let fault = Fault::new(format!("the command uses more than {} of files", show_bytes(bounds.bytes)));
    fault.remedy("put it into an image, or into a folder that a workload names").as_mistake()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn copies_are_readable_by_all_with_links_as_they_are() {
        let (from, to) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir().unwrap());
        let from = from.path().canonicalize().unwrap();
        let program = tare_testkit::files::write(&from.join("bin/server"), b"program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4700)).unwrap();
        symlink("server", from.join("bin/link")).unwrap();
        let tree = Tree {
            links: [(from.join("bin/link"), PathBuf::from("server"))].into(),
            files: BTreeSet::from([program.clone(), from.join("gone")]),
            folders: BTreeSet::from([from.join("empty")]),
            ..Tree::default()
        };
        let root = OwnedFd::from(File::open(to.path()).unwrap());
        let stop = Stop::default();
        let copied = copy(&tree, &root, &Bounds { bytes: 7, stop: &stop }).unwrap();
        assert_eq!((copied.files, copied.bytes), (1, 7));
        assert_eq!(copied.unread, BTreeSet::from([from.join("gone")]));
        assert!(copied.list.contains("bin/link -> server\n"), "{}", copied.list);
        let at = |path: &Path| to.path().join(below(path));
        let facts = at(&program).metadata().unwrap();
        assert_eq!((facts.mode() & 0o7777, facts.mtime()), (0o755, program.metadata().unwrap().mtime()));
        assert_eq!(fs::read_link(at(&from.join("bin/link"))).unwrap(), Path::new("server"));
        assert!(at(&from.join("empty")).is_dir());
        assert!(fs::read_to_string(to.path().join("etc/passwd")).unwrap().contains("nobody"));
        assert!(from.starts_with("/var/tmp"));
    }

    #[test]
    fn no_file_is_longer_than_what_may_be_copied() {
        let (from, stop) = (tempfile::tempdir_in("/var/tmp").unwrap(), Stop::default());
        let from = from.path().canonicalize().unwrap();
        let (some, hole) = (from.join("1"), from.join("2"));
        fs::write(&some, "12345").unwrap();
        File::create(&hole).unwrap().set_len(1 << 40).unwrap();
        let refused = |files: &[&PathBuf], bytes: u64| {
            let to = tempfile::tempdir().unwrap();
            let tree = Tree { files: files.iter().map(|file| (*file).clone()).collect(), ..Tree::default() };
            let root = OwnedFd::from(File::open(to.path()).unwrap());
            let fault = copy(&tree, &root, &Bounds { bytes, stop: &stop }).unwrap_err();
            assert!(!to.path().join(below(&hole)).exists(), "nothing of it is written");
            fault
        };
        for fault in [refused(&[&hole], 1 << 30), refused(&[&some, &hole], 1 << 30), refused(&[&some], 4)] {
            assert!(fault.mistake && fault.message.contains("of files"), "{fault}");
        }
        // It has grown since it was looked at.
        let (to, opened) = (tempfile::tempdir().unwrap(), open_file(&some).unwrap());
        fs::write(&some, "1234567").unwrap();
        let root = OwnedFd::from(File::open(to.path()).unwrap());
        let grown = copy_file(&root, Path::new("/1"), (&opened.0, &opened.1), 1, &Bounds { bytes: 7, stop: &stop });
        assert!(grown.unwrap_err().mistake);
        stop.raise();
        assert_eq!(refused(&[&some], 1 << 30).message, "interrupted");
    }
}
