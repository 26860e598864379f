//! The mount points that a bundle lacks: created beside it, where its links lead, to be put over it.

use super::inside::{IN_MEMORY, open_inside};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// How many links may be followed on the way to something: as many as the kernel follows.
const MAX_LINKS: u32 = 40;

/// What something is mounted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stub {
    /// A directory.
    Directory,
    /// A file.
    File,
}

/// Whether the bundle lacks `path`, so that it was created among the stubs. Links on the way are followed inside the
/// bundle, and the directories on the way keep their owners and modes, since they will hide the bundle's.
pub(super) fn add_stub(bundle: &OwnedFd, stubs: &Path, path: &str, kind: Stub) -> std::io::Result<bool> {
    let (real, missing) = resolve(bundle, Path::new(path))?;
    let in_memory = IN_MEMORY.iter().any(|path| real.starts_with(&path[1..]));
    if missing.as_os_str().is_empty() || in_memory {
        return Ok(false);
    }
    let mut made = PathBuf::new();
    for part in real.components() {
        made.push(part);
        match fs::create_dir(stubs.join(&made)) {
            Ok(()) => copy_owner(bundle, &made, &stubs.join(&made))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    let place = stubs.join(real).join(missing);
    let folder = if kind == Stub::File { place.parent().unwrap_or(stubs) } else { &place };
    fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    if kind == Stub::File {
        fs::write(&place, "")?;
    }
    Ok(true)
}

/// Where `path` leads inside the bundle, with every link resolved relative to the bundle as root: the existing part,
/// which contains no link, and the missing part below it.
fn resolve(bundle: &OwnedFd, path: &Path) -> std::io::Result<(PathBuf, PathBuf)> {
    let (mut there, mut missing, mut links) = (PathBuf::new(), PathBuf::new(), 0);
    // The next part is the last element.
    let mut parts: Vec<_> = parts_of(path).collect();
    while let Some(part) = parts.pop() {
        if part == ".." {
            // The parent of the root is the root, as for a program that runs there.
            let _ = missing.pop() || there.pop();
            continue;
        }
        if !missing.as_os_str().is_empty() {
            missing.push(part);
            continue;
        }
        let next = there.join(&part);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat2(bundle, &next, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::NOENT) => {
                missing.push(part);
                continue;
            }
            found => found?,
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
        if kind != FileType::Symlink {
            there = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&found, "", Vec::new())?;
        let target = PathBuf::from(OsStr::from_bytes(target.as_bytes()));
        if target.is_absolute() {
            there = PathBuf::new();
        }
        parts.extend(parts_of(&target));
    }
    Ok((there, missing))
}

/// The components of a path, the last one first.
fn parts_of(path: &Path) -> impl Iterator<Item = OsString> {
    let named = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(named).map(|part| part.as_os_str().to_owned()).rev().collect::<Vec<_>>().into_iter()
}

/// Gives `to` the owner and mode that `path` has in the bundle.
pub(super) fn copy_owner(bundle: &OwnedFd, path: &Path, to: &Path) -> std::io::Result<()> {
    let from = open_inside(bundle, path)?;
    let data = fs::metadata(format!("/proc/self/fd/{}", from.as_raw_fd()))?;
    rustix::fs::chownat(
        CWD,
        to,
        Some(Uid::from_raw(data.uid())),
        Some(Gid::from_raw(data.gid())),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    fs::set_permissions(to, fs::Permissions::from_mode(data.mode() & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::inside::open_tree;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_within_the_bundle_and_have_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("x/deep")).unwrap();
        for (link, to) in [
            ("x/y", "../y"),
            ("tmp", "x/y"),
            ("a", "/b"),
            ("b", "a"),
            ("out", "../../../x/deep"),
            ("var", "x/deep/../new/./one"),
            ("x/deep/up", ".."),
            ("through", "x/deep/up/../missing"),
        ] {
            symlink(to, at(link)).unwrap();
        }
        let bundle = open_tree(folder.path()).unwrap();
        let found = |path: &str| {
            resolve(&bundle, Path::new(path))
                .map(|(there, missing)| format!("{} | {}", there.display(), missing.display()))
        };
        for (path, wanted) in [
            ("/tmp", " | y"),
            ("/x/deep", "x/deep | "),
            ("/out/more", "x/deep | more"),
            ("/var/lib", "x | new/one/lib"),
            ("/through", " | missing"),
            ("/none/../../x", "x | "),
        ] {
            assert_eq!(found(path).unwrap(), wanted, "{path}");
        }
        assert_eq!(found("/a/c").unwrap_err().raw_os_error(), Some(libc::ELOOP));
        let stubs = at("stubs");
        fs::create_dir(&stubs).unwrap();
        assert!(add_stub(&bundle, &stubs, "/tmp", Stub::Directory).unwrap());
        assert!(stubs.join("y").is_dir(), "where the link leads");
    }
}
