//! Names for kernel programs, which let them outlive the process that attached them.
//!
//! Services live on when their run's process is killed, and so must what keeps others away from them. The names are in
//! a BPF file system mounted in the run's directory, so that whoever cleans up after the run finds it as one of the
//! run's mounts; when the names go, the programs go.

use crate::marks;
use rustix::fs::FsWord;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tare_bpf::Attached;

/// `BPF_FS_MAGIC`.
const BPF: FsWord = 0xcafe_4a11;

/// Programs that stay attached until this is dropped, or until another process takes down what is in its folder.
#[derive(Debug)]
pub(super) struct Pinned {
    folder: PathBuf,
    /// How many names have been given.
    names: usize,
}

impl Pinned {
    /// A folder for the names of one of a run's fences.
    pub(super) fn folder(run: &str) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        marks::run_directory(run).join(format!("fence-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Gives each a name in `folder`, which is created.
    ///
    /// # Errors
    /// When the kernel has no BPF file system, or this process may not mount it.
    pub(super) fn put_up(folder: &Path, attached: &[&Attached]) -> io::Result<Pinned> {
        fs::create_dir(folder)?;
        // From here on, whatever is half done is taken down.
        let mut pinned = Pinned { folder: folder.to_owned(), names: 0 };
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        rustix::mount::mount("tare", folder, "bpf", flags, Some(c"mode=0700"))?;
        attached.iter().try_for_each(|attached| pinned.add(attached).map(drop))?;
        Ok(pinned)
    }

    /// Gives another a name, and returns it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn add(&mut self, attached: &Attached) -> io::Result<PathBuf> {
        let name = self.folder.join(self.names.to_string());
        attached.pin(&name)?;
        self.names += 1;
        Ok(name)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // What is left of it is found by its mount.
        let _ = take_down(&self.folder).and_then(|()| fs::remove_dir(&self.folder));
    }
}

/// Whether programs are named at this place.
pub(crate) fn is_pinned(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_ok_and(|facts| facts.f_type == BPF)
}

/// The names of programs at this place. What the kernel itself has put there has a dot in its name, and stays.
pub(super) fn names(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().filter(|path| path.extension().is_none()).collect())
}

/// Removes the names at this place, and the file system that holds them. One by one: another mount namespace may have a
/// copy of the mount, which would keep the programs attached.
///
/// # Errors
/// When the kernel does not let this process.
pub(crate) fn take_down(folder: &Path) -> io::Result<()> {
    if !is_pinned(folder) {
        return Ok(());
    }
    for name in names(folder)? {
        fs::remove_file(name)?;
    }
    Ok(rustix::mount::unmount(folder, UnmountFlags::DETACH)?)
}
