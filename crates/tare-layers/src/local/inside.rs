//! Places inside a service's root: those that every form provides, and where a path leads relative to that root.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// Where the kernel's own file systems are.
pub(super) const KERNEL: [&str; 3] = ["/proc", "/dev", "/sys"];
/// Directories, in memory, that every form lets a service write to.
pub(super) const IN_MEMORY: [&str; 2] = ["/tmp", "/run"];

/// Opens a tree, to find places in it.
pub(super) fn open_tree(path: &Path) -> Result<OwnedFd, Fault> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).doing(format!("open {}", path.display()))
}

/// Opens `path` inside a root, following every link inside it.
pub(super) fn open_inside(root: &impl AsFd, path: impl AsRef<Path>) -> rustix::io::Result<OwnedFd> {
    let path = path.as_ref();
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// The path, as this thread sees it and free of links, of a place inside the root.
pub(super) fn place_of(root: &OwnedFd, path: impl AsRef<Path>) -> Result<String, Fault> {
    let path = path.as_ref();
    let place = open_inside(root, path).doing(format!("find {} in the service's root", path.display()))?;
    fs::read_link(format!("/proc/self/fd/{}", place.as_raw_fd()))
        .map(|path| path.display().to_string())
        .doing(format!("find {} in the service's root", path.display()))
}
