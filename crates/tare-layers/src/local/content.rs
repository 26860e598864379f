//! What an image holds where a volume is: a new volume begins with it, as those that have a name do in engines.

use super::inside::{open_inside, open_tree};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// Copies what the bundle holds at `path` into a new volume, which gets that directory's owner and mode too. A bundle
/// without such a directory leaves the volume as it is. Files keep owners and modes, and several names of one file
/// become files of their own; pipes and sockets are left out. There must be fewer than `most` bytes.
///
/// Nobody else may be able to write to the volume yet: places in it are found by their paths.
///
/// # Errors
/// When something cannot be read or written.
pub(super) fn begin_with(bundle: &Path, path: &str, volume: &Path, most: u64) -> Result<(), Fault> {
    let tree = open_tree(bundle)?;
    let doing = || format!("copy what the image holds in {path}");
    let found = match open_inside(&tree, path) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        found => found.doing(doing())?,
    };
    // By descriptor: every link on the way was followed inside the bundle.
    let from = format!("/proc/self/fd/{}", found.as_raw_fd());
    let facts = fs::metadata(&from).doing(doing())?;
    if !facts.is_dir() {
        return Ok(());
    }
    let mut left = most;
    let copied = copy_entries(Path::new(&from), volume, &mut left).and_then(|()| dress(volume, &facts));
    copied.doing(doing()).map_err(|fault| match left {
        0 => fault.remedy(format!("give the volume {path} more space in the workload")).as_mistake(),
        _ => fault,
    })
}

/// Whether the bundle has a directory at `path`, by whatever links.
pub(crate) fn has_directory(bundle: &Path, path: &str) -> bool {
    let found = open_tree(bundle).ok().and_then(|tree| open_inside(&tree, path).ok());
    let facts = found.map(|found| fs::metadata(format!("/proc/self/fd/{}", found.as_raw_fd())));
    matches!(facts, Some(Ok(facts)) if facts.is_dir())
}

/// How deep folders may be follows from how long the path of a file may be.
///
/// `left` is how many bytes files may still have, as an image may give one file many names; 0 after an error if that is
/// the reason.
fn copy_entries(from: &Path, to: &Path, left: &mut u64) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        let (from, to) = (from.join(&name), to.join(&name));
        let facts = fs::symlink_metadata(&from)?;
        if facts.is_dir() {
            DirBuilder::new().mode(0o700).create(&to)?;
            copy_entries(&from, &to, left)?;
        } else if facts.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if facts.is_file() {
            let Some(rest) = left.checked_sub(facts.len()).filter(|rest| *rest > 0) else {
                *left = 0;
                return Err(io::ErrorKind::StorageFull.into());
            };
            *left = rest;
            let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to)?;
            io::copy(&mut fs::File::open(&from)?, &mut copy)?;
        } else {
            continue;
        }
        dress(&to, &facts)?;
    }
    Ok(())
}

/// Gives something its owner and mode; in this order, since a change of owner clears bits of the mode.
fn dress(path: &Path, facts: &Metadata) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(facts.uid()), Some(facts.gid()))?;
    if facts.is_symlink() {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(facts.mode() & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_volume_begins_with_what_the_image_holds_there() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let stage = tempfile::tempdir().unwrap();
        let (bundle, volume) = (stage.path().join("bundle"), stage.path().join("volume"));
        let data = bundle.join("srv/real");
        fs::create_dir_all(data.join("deep/er")).unwrap();
        fs::create_dir(&volume).unwrap();
        symlink("/srv/real", bundle.join("data")).unwrap();
        fs::write(data.join("deep/file"), "x").unwrap();
        fs::hard_link(data.join("deep/file"), data.join("again")).unwrap();
        symlink("../../../../etc", data.join("link")).unwrap();
        std::os::unix::fs::chown(data.join("deep/file"), Some(70), Some(71)).unwrap();
        fs::set_permissions(data.join("deep/file"), Permissions::from_mode(0o4750)).unwrap();
        std::os::unix::fs::chown(&data, Some(72), Some(73)).unwrap();
        fs::set_permissions(&data, Permissions::from_mode(0o1777)).unwrap();
        begin_with(&bundle, "/data", &volume, 3).unwrap();
        let facts = |name: &str| {
            let facts = fs::symlink_metadata(volume.join(name)).unwrap();
            (facts.uid(), facts.gid(), facts.mode() & 0o7777)
        };
        assert_eq!(facts(""), (72, 73, 0o1777));
        assert_eq!(facts("deep/file"), (70, 71, 0o4750));
        assert_eq!(fs::read(volume.join("again")).unwrap(), b"x");
        assert_eq!(fs::read_link(volume.join("link")).unwrap(), Path::new("../../../../etc"));
        assert!(volume.join("deep/er").is_dir());
        for nothing in ["/none", "/srv/real/again", "/srv/real/again/below"] {
            begin_with(&bundle, nothing, &volume, 3).unwrap();
        }
        let other = stage.path().join("other");
        fs::create_dir(&other).unwrap();
        let fault = begin_with(&bundle, "/data", &other, 2).unwrap_err();
        assert!(fault.mistake && fault.remedy.contains("more space"), "two names of a file are two files: {fault:?}");
        assert_eq!(facts(""), (72, 73, 0o1777), "it stays as it is");
    }
}
