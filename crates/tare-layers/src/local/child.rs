//! A child of this process by its process id: spawned here, or adopted when its parent ended.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use tare_core::workload::StopSignal;

/// A child that is reaped here and nowhere else; until then its id cannot pass to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnChild(Pid);

impl OwnChild {
    /// The child that this process spawned.
    pub(crate) fn spawned(child: &std::process::Child) -> OwnChild {
        OwnChild(Pid::from_child(child))
    }

    /// The child with this id; `None` when no process can have it.
    pub(crate) fn adopted(pid: u32) -> Option<OwnChild> {
        Pid::from_raw(i32::try_from(pid).ok()?).map(OwnChild)
    }

    /// Its process id.
    pub(crate) fn id(self) -> u32 {
        self.0.as_raw_nonzero().get().cast_unsigned()
    }

    /// How it has ended, which is reported once; `None` while it still runs.
    pub(crate) fn try_wait(self) -> std::io::Result<Option<ExitStatus>> {
        self.collect(WaitOptions::NOHANG)
    }

    /// Waits for its end.
    pub(crate) fn wait(self) -> std::io::Result<ExitStatus> {
        let ended = self.collect(WaitOptions::empty())?;
        ended.ok_or_else(|| std::io::Error::other("the kernel waited for no end"))
    }

    fn collect(self, options: WaitOptions) -> std::io::Result<Option<ExitStatus>> {
        loop {
            match waitpid(Some(self.0), options) {
                Ok(ended) => return Ok(ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()))),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends it a signal; it may have ended in the meantime.
    pub(crate) fn signal(self, signal: Signal) {
        let _ = kill_process(self.0, signal);
    }

    /// The same for the signal that asks it to end, which may be a real-time one.
    pub(crate) fn ask_to_end(self, by: StopSignal) {
        // SAFETY: plain numbers; a process that has ended is an error and nothing else.
        unsafe { libc::kill(self.0.as_raw_nonzero().get(), by.number()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "what is tested waits for it")]
    fn a_child_is_collected_once() {
        let spawned = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let child = OwnChild::spawned(&spawned);
        assert_eq!(OwnChild::adopted(child.id()), Some(child));
        assert_eq!(child.try_wait().unwrap(), None);
        child.signal(Signal::KILL);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(child.try_wait().is_err(), "it is collected already");
        assert_eq!(OwnChild::adopted(0), None);
    }
}
