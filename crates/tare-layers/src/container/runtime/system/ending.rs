//! How a process has ended that somebody else collects. From Linux 6.15 on, the kernel tells whoever holds it.

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A process that is held, so that its end can be asked for.
pub(super) struct Watched(OwnedFd);

impl Watched {
    /// Holds the process that has this id now; `None` if there is none.
    pub(super) fn hold(pid: u32) -> Option<Watched> {
        pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok().map(Watched)
    }

    /// How it has ended, after its parent has collected it; `None` before that, and where the kernel does not tell.
    pub(super) fn end(&self) -> Option<ExitStatus> {
        let wanted = u64::from(libc::PIDFD_INFO_EXIT);
        // SAFETY: plain numbers, which may be zero.
        let mut told: libc::pidfd_info = unsafe { std::mem::zeroed() };
        told.mask = wanted;
        // SAFETY: the kernel reads and writes one such structure.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut told) };
        (answer == 0 && told.mask & wanted != 0).then(|| ExitStatus::from_raw(told.exit_code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_end_of_a_process_is_told_after_it_was_collected() {
        for script in ["read line; exit 7", "read line; kill -9 $$"] {
            let mut child =
                Command::new("sh").args(["-c", script]).stdin(std::process::Stdio::piped()).spawn().unwrap();
            let held = Watched::hold(child.id()).unwrap();
            assert_eq!(held.end(), None, "it still runs");
            drop(child.stdin.take());
            let status = child.wait().unwrap();
            // Before Linux 6.15 nothing is told.
            assert!(held.end().is_none_or(|end| end == status), "{:?} is not {status}", held.end());
        }
    }
}
