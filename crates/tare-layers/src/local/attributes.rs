//! Attributes of mounts, see mount_setattr(2).

use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::{CStr, CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Adds flags, all of them restrictions, to a mount and all mounts below it.
pub(super) fn restrict(place: impl AsRef<Path>, flags: MountFlags) -> rustix::io::Result<()> {
    let path = CString::new(place.as_ref().as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    // The restricting attributes of `mount_setattr` are the same bits as the flags of `mount`.
    let attr_set = u64::from(flags.bits());
    let wanted = libc::mount_attr { attr_set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    match set(libc::AT_FDCWD, &path, libc::AT_RECURSIVE, &wanted) {
        // Before Linux 5.12: at least the top mount.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            rustix::mount::mount_remount(place.as_ref(), MountFlags::BIND | flags, c"")
        }
        other => other.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL)),
    }
}

/// Has the files of a mount that is not in place yet owned by those who stand outside of a user namespace for their
/// owners in it.
pub(super) fn shift_owners(mount: &OwnedFd, namespace: &OwnedFd) -> io::Result<()> {
    let userns_fd = u64::from(namespace.as_raw_fd().cast_unsigned());
    let wanted = libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd };
    set(mount.as_raw_fd(), c"", libc::AT_EMPTY_PATH, &wanted)
}

fn set(directory: RawFd, path: &CStr, flags: c_int, wanted: &libc::mount_attr) -> io::Result<()> {
    let size = size_of::<libc::mount_attr>();
    // SAFETY: the path ends in NUL, and the attributes outlive the call, which reads `size` bytes of them.
    let result = unsafe {
        libc::syscall(libc::SYS_mount_setattr, directory, path.as_ptr(), flags, std::ptr::from_ref(wanted), size)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
