//! The directories of a store, its locks, and the directories in which bundles are built.

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tare_core::fault::{Doing, Fault};

/// Directory in the store: the bundle of each recipe.
pub(crate) const RECIPES: &str = "recipes";

/// The directories of a store.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    root: PathBuf,
}

/// A directory in which something is built; removed with its content when dropped. The lock in it lives as long as the
/// process, so that others can see whether that still runs.
pub(crate) struct Workplace {
    pub(crate) path: PathBuf,
    _lock: File,
}

impl Drop for Workplace {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the store is opened next.
        let _ = tare_removal::remove_tree(&self.path);
    }
}

impl Places {
    /// Makes the directories that are missing and removes what dead processes left.
    pub(crate) fn open(root: &Path) -> Result<Places, Fault> {
        let what = || format!("use {} for bundles", root.display());
        let make = |path: &Path, mode| std::fs::DirBuilder::new().recursive(true).mode(mode).create(path);
        make(root, 0o755).doing(what()).map_err(|fault| fault.remedy("run as root, or name another directory"))?;
        let root = root.canonicalize().doing(what())?;
        let places = Places { root };
        for (name, mode) in [(RECIPES, 0o755), ("bundles", 0o755), ("kernels", 0o755), ("locks", 0o755)] {
            make(&places.root.join(name), mode).doing(what())?;
        }
        // Nobody else may read the data that services leave.
        for name in ["building", "prepared"] {
            make(&places.root.join(name), 0o700).doing(what())?;
        }
        places.sweep()?;
        Ok(places)
    }

    /// The bundles' directory.
    pub(crate) fn bundles(&self) -> PathBuf {
        self.root.join("bundles")
    }

    /// The kernels' directory.
    pub(crate) fn kernels(&self) -> PathBuf {
        self.root.join("kernels")
    }

    /// The recipes' directory.
    pub(crate) fn recipes(&self) -> PathBuf {
        self.root.join(RECIPES)
    }

    /// The data sets' directory.
    pub(crate) fn data_sets(&self) -> PathBuf {
        self.root.join("prepared")
    }

    /// Where the data set of this key stands.
    pub(crate) fn data_set(&self, key: &str) -> PathBuf {
        self.data_sets().join(key)
    }

    /// Where the bundle of this digest stands.
    pub(crate) fn bundle(&self, digest: &str) -> PathBuf {
        self.bundles().join(digest.trim_start_matches("sha256:"))
    }

    /// The file that names the bundle of a recipe.
    pub(crate) fn recipe(&self, key: &str) -> PathBuf {
        self.recipes().join(format!("{key}.json"))
    }

    /// Waits until no other process builds what `key` names, and makes others wait until the file is dropped.
    pub(crate) fn lock(&self, key: &str) -> Result<File, Fault> {
        let locked = lock_file(&self.lock_place(key), FlockOperation::LockExclusive);
        let refused = matches!(&locked, Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied);
        locked.doing(format_args!("lock the bundles in {}", self.root.display())).map_err(|fault| match refused {
            true => fault.remedy("run as the user who owns them, or set TARE_HOME to your own folder"),
            false => fault,
        })
    }

    /// The file that is locked while somebody builds what `key` names.
    pub(crate) fn lock_place(&self, key: &str) -> PathBuf {
        self.root.join("locks").join(key)
    }

    /// A new directory to build in, on the same file system as the store.
    pub(crate) fn workplace(&self) -> Result<Workplace, Fault> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let what = || format!("make a directory to build in under {}", self.root.display());
        // Prevents another process from removing the directory before its own lock is taken.
        let _guard = self.lock("sweep")?;
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = self.root.join("building").join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&path).doing(what())?;
        let lock = lock_file(&path.join("lock"), FlockOperation::NonBlockingLockExclusive).doing(what())?;
        Ok(Workplace { path, _lock: lock })
    }

    fn sweep(&self) -> Result<(), Fault> {
        let _guard = self.lock("sweep")?;
        let building = self.root.join("building");
        for item in std::fs::read_dir(&building).doing(format_args!("list {}", building.display()))?.flatten() {
            let lock = lock_file(&item.path().join("lock"), FlockOperation::NonBlockingLockExclusive);
            if !matches!(lock, Err(Errno::WOULDBLOCK)) {
                // What cannot be removed, such as a mount, does no harm.
                let _ = tare_removal::remove_tree(&item.path());
            }
        }
        Ok(())
    }
}

/// Opens and locks a file, creating it if it is missing.
pub(crate) fn lock_file(path: &Path, operation: FlockOperation) -> Result<File, Errno> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(path);
    let file = file.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    loop {
        match rustix::fs::flock(&file, operation) {
            Err(Errno::INTR) => {}
            other => return other.map(|()| file),
        }
    }
}

/// Writes a file with this mode atomically: it is complete or does not exist.
pub(crate) fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Fault> {
    let part = path.with_extension(format!("part-{}", std::process::id()));
    // A file left by a killed process would keep its own mode.
    let _ = std::fs::remove_file(&part);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&part)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&part, path))
        .doing(format_args!("write {}", path.display()))
}
