//! Reading and writing files with the rights of a user, in a process that is root.

use crate::local::confinement::check;
use std::io;
use tare_core::fault::{Doing, Fault};

/// Has `work` done in a thread that finds, reads and makes files as this user and group would, without other groups:
/// whatever leads it astray, it reaches nothing that the user could not. What it makes belongs to the user. It may use
/// what this process has opened before. In a process that is not root nothing changes.
///
/// # Errors
/// When the kernel refuses.
///
/// # Panics
/// For root, whose rights are no bounds.
pub fn with_rights_of<T: Send>(user: (u32, u32), work: impl FnOnce() -> T + Send) -> Result<T, Fault> {
    assert_ne!(user.0, 0, "the rights of root are no bounds");
    let changes = rustix::process::geteuid().is_root();
    let done = || -> io::Result<T> {
        if changes {
            take_rights_of(user)?;
        }
        Ok(work())
    };
    let done = std::thread::scope(|scope| scope.spawn(done).join());
    match done {
        Ok(done) => done.doing(format_args!("read files as user {}", user.0)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Changes this thread alone, for good. The raw calls: those of the C library change all threads.
fn take_rights_of((user, group): (u32, u32)) -> io::Result<()> {
    // SAFETY: an empty list of groups needs no memory; the other calls take plain numbers.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
        // They return what held before, and tell of no failure.
        libc::syscall(libc::SYS_setfsgid, group);
        libc::syscall(libc::SYS_setfsuid, user);
        // No number changes nothing.
        let now = libc::syscall(libc::SYS_setfsuid, u32::MAX);
        if now as u32 == user { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    #[should_panic(expected = "the rights of root are no bounds")]
    fn nothing_is_done_with_the_rights_of_root() {
        let _ = with_rights_of((0, 0), || ());
    }

    #[test]
    fn what_only_root_may_read_is_not_read_and_what_is_made_is_the_users() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(at("secret"), "root's").unwrap();
        std::fs::set_permissions(at("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
        let read = with_rights_of((4242, 4243), || {
            std::fs::write(at("own"), "x").unwrap();
            std::fs::read(at("secret")).map_err(|error| error.kind())
        });
        assert_eq!(read.unwrap(), Err(io::ErrorKind::PermissionDenied));
        let facts = at("own").metadata().unwrap();
        assert_eq!((facts.uid(), facts.gid()), (4242, 4243));
        assert_eq!(std::fs::read(at("secret")).unwrap(), b"root's", "other threads are root as before");
    }
}
