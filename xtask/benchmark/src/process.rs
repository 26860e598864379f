//! Programs run to their end on one CPU, with what they took.

use anyhow::{Context, Result, bail, ensure};
use std::fs::read_to_string;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The CPU of what is asked.
pub(crate) const SERVER_CPU: u32 = 0;
/// The CPU of what asks.
pub(crate) const CLIENT_CPU: u32 = 1;

/// How often the memory of a running program is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A program that ended by itself, and well.
#[derive(Debug, Clone, Default)]
pub(crate) struct Finished {
    pub(crate) stdout: String,
    /// User and system time of the whole program, s.
    pub(crate) cpu_s: f64,
    /// The most memory it had resident at one time, KiB. Read while it ran: what the kernel tells at the end counts
    /// the starting program's own memory too.
    pub(crate) peak_kib: u64,
    /// When it was started, and when it had ended.
    pub(crate) span: Option<(Instant, Instant)>,
}

/// `program` with `arguments` on this CPU only.
pub(crate) fn pinned(cpu: u32, program: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new("taskset");
    command.arg("-c").arg(cpu.to_string()).arg(program).args(arguments);
    command
}

/// Runs a command to its end, with `input` on its standard input.
///
/// # Errors
/// When it cannot be started, ends badly, or has not ended after `limit`.
pub(crate) fn run(command: &mut Command, input: &str, limit: Duration) -> Result<Finished> {
    let shown = format!("{command:?}").replace('"', "");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("could not start {shown}"))?;
    let pid = child.id();
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let (ended, end) = channel::<()>();
    let watch = thread::spawn(move || {
        let mut peak_kib = 0;
        while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(LOOK) {
            peak_kib = peak_kib.max(resident_peak_kib(pid));
            if start.elapsed() > limit {
                // The program is not reaped before `ended` is dropped, so the number is still its own.
                signal(pid, libc::SIGKILL);
            }
        }
        peak_kib
    });
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read what it is told says so by how it ends.
        let _ = stdin.write_all(input.as_bytes());
    }
    let (status, cpu_s) = await_end(&child)?;
    let span = Some((start, Instant::now()));
    drop(ended);
    let peak_kib = watch.join().unwrap_or_default();
    let (stdout, stderr) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    ensure!(start.elapsed() <= limit, "{shown} did not end within {limit:?}");
    if status != 0 {
        let tail: Vec<&str> = stdout.lines().chain(stderr.lines()).rev().take(12).collect();
        bail!("{shown} ended with {status:#x}:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    Ok(Finished { stdout, cpu_s, peak_kib, span })
}

/// Reads a stream to its end, so that its writer never waits.
fn drain(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a child: its wait status and its CPU time, s. The standard library does not tell the latter.
fn await_end(child: &Child) -> Result<(i32, f64)> {
    let pid = libc::pid_t::try_from(child.id()).context("a process id that is none")?;
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to writable memory of the right types, and the child is not reaped elsewhere.
        let waited = unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) };
        if waited == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        ensure!(error.kind() == std::io::ErrorKind::Interrupted, "could not wait for a program: {error}");
    }
    // SAFETY: all bytes were zero, which is a value of it, and the kernel has filled it in.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok((status, seconds(usage.ru_utime) + seconds(usage.ru_stime)))
}

/// Sends a signal to a process, which may have ended.
pub(crate) fn signal(pid: u32, number: i32) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: no memory is involved.
        unsafe { libc::kill(pid, number) };
    }
}

/// The most memory this process had resident so far, KiB; 0 when it has ended.
pub(crate) fn resident_peak_kib(pid: u32) -> u64 {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A process and all that it started, itself first.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let mut members = vec![pid];
    let mut at = 0;
    while at < members.len() {
        let children = read_to_string(format!("/proc/{0}/task/{0}/children", members[at])).unwrap_or_default();
        members.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        at += 1;
    }
    members
}

/// Where a program is found: on the path, or among the server programs that are not on everyone's path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps each version of PostgreSQL in a folder of its own; the newest is taken.
    let mut postgres: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    postgres.sort();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from).into_iter().chain(postgres.pop().map(|(_, folder)| folder));
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_is_measured() {
        let script = "read line; echo got $line; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.2";
        let finished = run(&mut shell(script), "this\n", Duration::from_secs(60)).unwrap();
        assert_eq!(finished.stdout, "got this\n");
        assert!(finished.cpu_s > 0.0 && finished.peak_kib > 100, "{finished:?}");
    }

    #[test]
    fn a_program_that_fails_or_does_not_end_is_an_error() {
        let failed = run(&mut shell("echo oh; exit 3"), "", Duration::from_secs(60)).unwrap_err();
        assert!(failed.to_string().contains("oh"), "{failed}");
        assert!(run(&mut shell("exec sleep 60"), "", Duration::from_millis(200)).is_err());
    }
}
