//! A tool as a process: started in a process group of its own, limited in time and output, and ended together with
//! everything it has started.

use crate::clock::{self, SECOND_NS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tare_core::command::{CappedOutput, CommandEnd, Ended};
use tare_core::fault::{Doing, Fault};
use tare_core::load::InsideUse;

/// How much a tool may print; one that prints more is ended.
const OUTPUT_MAX: usize = 16 << 20;
/// How much of the end of its standard error is kept for messages.
const STDERR_KEPT: usize = 8 << 10;
/// How often to check whether the load has been told to end.
const LOOK_NS: u64 = 50_000_000;
/// How long a tool that was told to end may take before it is killed.
const GRACE_NS: u64 = SECOND_NS;
/// How long its output may stay open after it has ended: another process holds it then.
const DRAIN: Duration = Duration::from_secs(1);

/// Raised by SIGTERM and SIGINT.
static ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn raise(_signal: libc::c_int) {
    ENDING.store(true, Ordering::Relaxed);
}

/// Lets SIGTERM and SIGINT end a running tool before they end this process.
pub(super) fn end_on_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let handler: extern "C" fn(libc::c_int) = raise;
        // SAFETY: the handler stores to an atomic and does nothing else, which is safe in a signal handler.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// What to run.
pub(super) struct Job<'a> {
    /// The program, as a path, and its arguments.
    pub program: &'a Path,
    pub arguments: &'a [String],
    pub environment: &'a [(String, String)],
    /// The directory where it starts; none is this process's own.
    pub directory: Option<&'a str>,
    /// How long it may take, ns.
    pub limit_ns: u64,
}

/// The outcome.
#[derive(Debug)]
pub(super) struct Outcome {
    pub ended: Ended,
    pub stdout: String,
    /// The end of its standard error.
    pub stderr: String,
    /// CPU time of the tool and the children it waited for, ns; 0 inside the form, where it is not the load's.
    pub cpu_ns: u64,
    /// When it began and ended, CLOCK_MONOTONIC, ns.
    pub span: (u64, u64),
    /// How long it took; inside the form, as measured by the host that ran it.
    pub took: Duration,
    /// What it used inside the form, if it ran there.
    pub inside: Option<InsideUse>,
}

impl Outcome {
    /// The outcome of a command that was run inside the form, between two moments of CLOCK_MONOTONIC.
    pub(super) fn inside(end: CommandEnd, span: (u64, u64)) -> Outcome {
        let CommandEnd { ended, stdout, stderr, took, cpu_s } = end;
        Outcome { ended, stdout, stderr, cpu_ns: 0, span, took, inside: Some(InsideUse { cpu_s }) }
    }

    /// The end of what it printed, for messages.
    pub(super) fn log(&self) -> String {
        let lines: Vec<&str> = self.stdout.lines().collect();
        let last = lines[lines.len().saturating_sub(15)..].join("\n");
        [self.stderr.trim_end(), last.as_str()]
            .iter()
            .filter(|part| !part.is_empty())
            .copied()
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Finds a program: an absolute path, or a name in the folders of PATH.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let runs = |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    if name.starts_with('/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    // To a shell an empty entry is the current directory, which anybody may have filled; here it is ignored.
    let folders = std::env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty());
    folders.map(|folder| folder.join(name)).find(runs)
}

/// Runs a job until it ends, its time limit is reached, or the load is told to end.
///
/// # Errors
/// When it could not be started, printed too much, or the load was told to end.
pub(super) fn run(job: &Job) -> Result<Outcome, Fault> {
    let mut command = Command::new(job.program);
    command.args(job.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The same format of numbers everywhere.
    command.env("LC_ALL", "C").envs(job.environment.iter().map(|(name, value)| (name, value)));
    command.process_group(0);
    if let Some(directory) = job.directory {
        command.current_dir(directory);
    }
    // SAFETY: between fork and exec only prctl(2) is called, which is a plain system call.
    unsafe { command.pre_exec(die_with_parent) };
    let cpu_before_ns = children_cpu_ns();
    let began_ns = clock::monotonic_ns();
    let mut running = Running::start(command, job.program)?;
    let ended = running.wait(began_ns.saturating_add(job.limit_ns));
    let ended_ns = clock::monotonic_ns();
    running.end_group();
    // If another process holds the pipe open, its output is not waited for any longer.
    let stdout = running.stdout.recv_timeout(DRAIN).ok();
    let stderr = running.stderr.recv_timeout(DRAIN).unwrap_or_default();
    let status = ended?;
    if !stdout.as_ref().is_some_and(CappedOutput::is_whole) && status.is_some() {
        return Err(Fault::new(format!("{} printed more than 16 MiB, or handed its output on", job.program.display())));
    }
    Ok(Outcome {
        ended: status.map_or(Ended::Late, Ended::of),
        stdout: stdout.unwrap_or_default().text(),
        stderr: stderr.text(),
        cpu_ns: children_cpu_ns() - cpu_before_ns,
        span: (began_ns, ended_ns),
        took: Duration::from_nanos(ended_ns - began_ns),
        inside: None,
    })
}

/// Called in the child, so that it does not outlive a load process that is killed.
fn die_with_parent() -> std::io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and affects only this process; the handlers set by
    // `end_on_signals` are reset to the default by exec, as handlers always are.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// CPU time, user and system, of all children that have been waited for, ns.
fn children_cpu_ns() -> u64 {
    // SAFETY: rusage is plain data for which zeros are valid, and getrusage(2) writes to nothing else.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * clock::SECOND_NS + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

struct Running {
    child: Child,
    group: Pid,
    stdout: Receiver<CappedOutput>,
    stderr: Receiver<CappedOutput>,
    gone: bool,
}

impl Running {
    fn start(mut command: Command, program: &Path) -> Result<Running, Fault> {
        let mut child = command.spawn().doing(format_args!("start {}", program.display()))?;
        let group = Pid::from_child(&child);
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        let (stdout, stderr) =
            (read(stdout, CappedOutput::start(OUTPUT_MAX)), read(stderr, CappedOutput::end(STDERR_KEPT)));
        Ok(Running { child, group, stdout, stderr, gone: false })
    }

    /// Waits for the end; `None` if the deadline came first.
    fn wait(&mut self, deadline_ns: u64) -> Result<Option<ExitStatus>, Fault> {
        let parent = rustix::process::getppid();
        let handle = pidfd_open(self.group, PidfdFlags::empty()).doing("watch the tool")?;
        loop {
            if let Some(status) = self.child.try_wait().doing("wait for the tool")? {
                self.gone = true;
                return Ok(Some(status));
            }
            // Once the process that started this one is gone, the result has no use.
            if ENDING.load(Ordering::Relaxed) || rustix::process::getppid() != parent {
                return Err(Fault::new("interrupted"));
            }
            let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
            if left_ns == 0 {
                return Ok(None);
            }
            let wait: Timespec = clock::timespec(left_ns.min(LOOK_NS));
            // Whatever ends the wait, the loop checks.
            let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&wait));
        }
    }

    /// Ends the tool and everything it has started, first by SIGTERM.
    fn end_group(&mut self) {
        let deadline_ns = clock::monotonic_ns() + GRACE_NS;
        if !self.gone {
            let _ = kill_process_group(self.group, Signal::TERM);
            while clock::monotonic_ns() < deadline_ns && !matches!(self.child.try_wait(), Ok(Some(_))) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // It does not matter if the group is already gone.
        let _ = kill_process_group(self.group, Signal::KILL);
        let _ = self.child.wait();
        self.gone = true;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.gone {
            self.end_group();
        }
    }
}

/// Reads a pipe to its end in a thread of its own. A tool whose pipe is closed early ends by SIGPIPE.
fn read(mut pipe: impl Read + Send + 'static, mut kept: CappedOutput) -> Receiver<CappedOutput> {
    let (out, result) = channel();
    std::thread::spawn(move || {
        let mut piece = [0; 16 << 10];
        while let Ok(length @ 1..) = pipe.read(&mut piece)
            && kept.add(&piece[..length])
        {}
        drop(pipe);
        // The output of an abandoned tool is not awaited.
        let _ = out.send(kept);
    });
    result
}
