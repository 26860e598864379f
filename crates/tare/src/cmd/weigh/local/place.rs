//! Where the files of a command are copied to.

use crate::written::make_new_folder;
use anyhow::{Context, Result};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown};
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
        make_new_folder(folder).with_context(doing)?;
        let place = Place { folder: folder.to_owned(), keep: false };
        DirBuilder::new().mode(0o700).create(place.root()).with_context(doing)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(place.root(), flags, Mode::empty()).with_context(doing)?;
        if rustix::process::geteuid().is_root() {
            fchown(&root, Some(Uid::from_raw(user.0)), Some(Gid::from_raw(user.1))).with_context(doing)?;
        }
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
