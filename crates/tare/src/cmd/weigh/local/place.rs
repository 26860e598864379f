//! Where the files of a command are copied to.

use crate::written::hand_to_caller;
use anyhow::{Context, Result, bail};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, mkdirat, openat};
use rustix::process::geteuid;
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The folder of the copies, in that of the workload.
pub(in crate::cmd::weigh) const ROOT: &str = "root";

/// A workload's folder in the making, which goes away when this is dropped.
pub(in crate::cmd::weigh) struct Place {
    folder: PathBuf,
    keep: bool,
}

impl Place {
    /// Makes the folder and, in it, the one of the copies, which is the user's alone until [`Place::open_root`].
    /// Returns that, opened, too.
    ///
    /// # Errors
    /// When they cannot be made, or the folder is there already.
    pub(super) fn make(folder: &Path, user: (u32, u32)) -> Result<(Place, OwnedFd)> {
        let doing = || format!("could not make the folder {}", folder.display());
        folder.parent().map_or(Ok(()), std::fs::create_dir_all).with_context(doing)?;
        DirBuilder::new().mode(0o700).create(folder).with_context(doing)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::open(folder, flags, Mode::empty()).with_context(doing)?;
        // Whoever owns the folder above can put another into its place.
        if fstat(&made).with_context(doing)?.st_uid != geteuid().as_raw() {
            bail!("could not make the folder {}: another user has put one into its place", folder.display());
        }
        let place = Place { folder: folder.to_owned(), keep: false };
        // In the one that is open, wherever its name leads by now; and both are handed over last.
        mkdirat(&made, ROOT, Mode::from_raw_mode(0o700)).with_context(doing)?;
        let root = openat(&made, ROOT, flags, Mode::empty()).with_context(doing)?;
        if geteuid().is_root() {
            fchown(&root, Some(Uid::from_raw(user.0)), Some(Gid::from_raw(user.1))).with_context(doing)?;
        }
        hand_to_caller(&made);
        Ok((place, root))
    }

    /// The folder of the copies.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.join(ROOT)
    }

    /// Lets every user look into the copies, as into the root of a system.
    ///
    /// # Errors
    /// When its mode cannot be changed.
    pub(super) fn open_root(&self, root: &OwnedFd) -> Result<()> {
        let changed = fchmod(root, Mode::from_raw_mode(0o755));
        changed.with_context(|| format!("could not change the mode of {}", self.root().display()))
    }

    /// Keeps it.
    pub(in crate::cmd::weigh) fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep {
            // The first failure is reported, not one of the cleanup.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn the_copies_are_the_users_and_all_goes_away_unless_it_is_kept() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("deep/weigh-x");
        let (place, root) = Place::make(&folder, (4242, 4243)).unwrap();
        let facts = place.root().symlink_metadata().unwrap();
        assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o777), (4242, 4243, 0o700));
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(Place::make(&folder, (4242, 4243)).is_err(), "it is there already");
        assert!(place.root().is_dir(), "and stays");
        place.open_root(&root).unwrap();
        assert_eq!(place.root().metadata().unwrap().mode() & 0o777, 0o755);
        drop(place);
        assert!(!folder.exists());
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let above = tempfile::tempdir().unwrap();
        let (folder, other) = (above.path().join("weigh-x"), above.path().join("other"));
        std::fs::create_dir(&other).unwrap();
        symlink(&other, &folder).unwrap();
        assert!(Place::make(&folder, (4242, 4243)).is_err());
        assert!(folder.is_symlink() && std::fs::read_dir(&other).unwrap().next().is_none());
    }
}
