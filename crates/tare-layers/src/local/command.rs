//! A command beside a service: bounded in time and output, and ended together with everything that it has started.

use crate::cgroup::Group;
use crate::cgroup::counting::counts_cpu;
use crate::processes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io::{PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tare_core::command::{COMMAND_ERRORS_MAX, COMMAND_OUTPUT_MAX, CappedOutput, CommandEnd, Ended};
use tare_core::fault::{Doing, Fault};

/// How long a command that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long its output may stay open after all of it has ended: somebody else is holding it then.
const DRAIN: Duration = Duration::from_secs(1);

/// A running command. Its first process has its own session, and keeps its process id until it is reaped.
pub(crate) struct Command {
    leader: Pid,
    /// Becomes readable when the first process has ended.
    handle: OwnedFd,
    began: Instant,
    within: Duration,
    stdout: Receiver<CappedOutput>,
    stderr: Receiver<CappedOutput>,
    collected: bool,
}

impl Command {
    /// Watches a process that was just started, not before `began`.
    ///
    /// # Errors
    /// When the kernel does not let it be watched; it has then been killed.
    pub(super) fn watch(
        child: &Child,
        began: Instant,
        within: Duration,
        stdout: PipeReader,
        stderr: PipeReader,
    ) -> Result<Command, Fault> {
        let leader = Pid::from_child(child);
        let handle = pidfd_open(leader, PidfdFlags::empty()).doing("watch the command").inspect_err(|_| {
            let _ = kill_process(leader, Signal::KILL);
            let _ = collect(leader);
        })?;
        let (stdout, stderr) = (
            read(stdout, CappedOutput::start(COMMAND_OUTPUT_MAX)),
            read(stderr, CappedOutput::end(COMMAND_ERRORS_MAX)),
        );
        Ok(Command { leader, handle, began, within, stdout, stderr, collected: false })
    }

    /// The number of its first process.
    pub(super) fn id(&self) -> u32 {
        self.leader.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits for its end, for at most `patience`; `None` if it is still running. If its time is over, it is ended.
    ///
    /// # Errors
    /// When it printed too much, or something of it is left.
    pub(super) fn wait(&mut self, patience: Duration, group: &Group) -> Result<Option<CommandEnd>, Fault> {
        let by_itself = self.has_ended(patience.min(self.within.saturating_sub(self.began.elapsed())))?;
        if !by_itself && self.began.elapsed() < self.within {
            return Ok(None);
        }
        let took = self.began.elapsed();
        let (status, used_s) = self.end_all(group)?;
        // The service's group holds the command; if it counts CPU time, the telemetry has it from there.
        let counted = group.directories().iter().any(|directory| counts_cpu(directory));
        // If somebody holds a pipe open, its output is lost.
        let stdout = self.stdout.recv_timeout(DRAIN).ok();
        let stderr = self.stderr.recv_timeout(DRAIN).unwrap_or_default();
        if by_itself && !stdout.as_ref().is_some_and(CappedOutput::is_whole) {
            return Err(too_much());
        }
        let ended = if by_itself { Ended::of(status) } else { Ended::Late };
        Ok(Some(CommandEnd {
            ended,
            stdout: stdout.unwrap_or_default().text(),
            stderr: stderr.text(),
            took,
            cpu_s: Some(if counted { 0.0 } else { used_s }),
        }))
    }

    /// Ends it together with everything that it has started.
    ///
    /// # Errors
    /// When something of it is left.
    pub(super) fn end(&mut self, group: &Group) -> Result<(), Fault> {
        self.end_all(group).map(drop)
    }

    /// How its first process ended, and what it used, s.
    fn end_all(&mut self, group: &Group) -> Result<(ExitStatus, f64), Fault> {
        if !self.has_ended(Duration::ZERO)? {
            processes::signal_command(self.id(), group.members(), Signal::TERM);
            self.has_ended(GRACE)?;
        }
        // By its process id as well: it may not have got as far as joining its group.
        let _ = kill_process(self.leader, Signal::KILL);
        let killed = processes::kill_command(self.id(), &|| group.members());
        let collected = collect(self.leader).doing("wait for the end of the command")?;
        self.collected = true;
        killed.map(|()| collected)
    }

    fn has_ended(&self, within: Duration) -> Result<bool, Fault> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.handle, PollFlags::IN)], Some(&wait)) {
                Ok(count) => return Ok(count > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).doing("watch the command"),
            }
        }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        if !self.collected {
            // Only after a failure: anything else that it has started goes with the service's group.
            let _ = kill_process(self.leader, Signal::KILL);
            let _ = collect(self.leader);
        }
    }
}

/// The fault of a command that does not stop printing.
pub(crate) fn too_much() -> Fault {
    let most = COMMAND_OUTPUT_MAX >> 20;
    Fault::new(format!("the command printed more than {most} MiB, or handed its output on"))
        .remedy("let it print its result only")
}

/// Waits for a child's end and reaps it: how it ended, and its CPU time and that of the children it waited for, s.
fn collect(child: Pid) -> std::io::Result<(ExitStatus, f64)> {
    let mut status = 0;
    loop {
        // SAFETY: rusage is plain data for which zeros are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both places are valid and outlive the call, which writes nothing else.
        let waited = unsafe { libc::wait4(child.as_raw_nonzero().get(), &mut status, 0, &mut usage) };
        if waited > 0 {
            let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
            return Ok((ExitStatus::from_raw(status), seconds(usage.ru_utime) + seconds(usage.ru_stime)));
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Reads a pipe to its end in a thread of its own. A command whose pipe is closed early ends by SIGPIPE.
fn read(mut pipe: PipeReader, mut kept: CappedOutput) -> Receiver<CappedOutput> {
    let (out, result) = channel();
    std::thread::spawn(move || {
        let mut piece = [0; 16 << 10];
        while let Ok(length @ 1..) = pipe.read(&mut piece)
            && kept.add(&piece[..length])
        {}
        drop(pipe);
        // Nobody waits for the output of a command that was given up.
        let _ = out.send(kept);
    });
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "what is tested waits for them")]
    fn what_is_collected_says_how_it_ended_and_what_it_used() {
        let spawn = |script: &str| std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let busy = spawn("i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; exit 3");
        let (status, cpu_s) = collect(Pid::from_child(&busy)).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(cpu_s > 0.001 && cpu_s < 60.0, "{cpu_s}");
        let killed = spawn("kill -9 $$");
        assert_eq!(collect(Pid::from_child(&killed)).unwrap().0.signal(), Some(9));
        assert!(collect(Pid::from_child(&killed)).is_err(), "it is collected already");
    }
}
