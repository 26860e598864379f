//! A command of this machine that runs something on another: its pipes, its end, and what it said.

use crate::noted::Noted;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::lab::WayThere;
use tare_core::units::exact_duration;

/// How often to look whether a command has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The most that is kept of what a command says on either output, bytes.
const SAID_MAX: u64 = 64 << 10;
/// How long a command may take to end by itself once what it ran has ended: it may have to say so there first.
const FAREWELL: Duration = Duration::from_secs(2);

/// How a command that ran something on another machine ended.
#[derive(Debug)]
pub(super) struct Ran {
    /// The exit code of what ran there.
    pub(super) code: i32,
    /// What it printed.
    pub(super) printed: String,
    /// What it, or the way there, said on standard error.
    pub(super) said: String,
}

/// Runs `words` on the other machine and waits for their end, until `deadline`.
///
/// # Errors
/// When the way there failed, or time is over. What the words end with is no error.
pub(super) fn run(way: &dyn WayThere, words: &[&str], input: Option<File>, deadline: Instant) -> Result<Ran, Fault> {
    let doing = || format!("run `{}` there", words.join(" "));
    let (printed, said) = (Noted::of(SAID_MAX).doing(doing())?, Noted::of(SAID_MAX).doing(doing())?);
    let mut command = prepared(&way.command(words, input.is_some()));
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    command.stdout(printed.stdio().doing(doing())?).stderr(said.stdio().doing(doing())?);
    let mut child = Ended(spawn(&mut command, way)?);
    loop {
        if let Some(status) = child.0.try_wait().doing(doing())? {
            let (code, said) = (status.code(), said.text());
            return match (way.broken(code, &said), code) {
                (Some(fault), _) => Err(fault),
                (None, Some(code)) => Ok(Ran { code, printed: printed.text(), said }),
                (None, None) => Err(Fault::new(format!("could not {}: it was killed", doing())).with_log(said)),
            };
        }
        if Instant::now() >= deadline {
            let fault = Fault::new(format!("the machine did not {} in the time that it was given", doing()));
            return Err(fault.with_log(said.text()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The command of a way. Messages are wanted in the language that is looked for in them.
fn prepared(words: &[String]) -> Command {
    let (program, arguments) = words.split_first().expect("a way has a program of its own");
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C");
    command
}

fn spawn(command: &mut Command, way: &dyn WayThere) -> Result<Child, Fault> {
    command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => way.absent(),
        _ => Fault::from_error(format!("start `{}`", way.words()), &error),
    })
}

/// A command that ends with whoever started it.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command whose pipes are in use. Clones are the same one; it is killed with the last of them.
#[derive(Clone)]
pub(super) struct Line {
    child: Arc<Mutex<Ended>>,
    said: Arc<Noted>,
    way: Arc<dyn WayThere>,
}

impl Line {
    /// Runs `words` on the other machine; the stream is their standard input and output.
    ///
    /// # Errors
    /// When the way's own program cannot be started.
    pub(super) fn open(way: &Arc<dyn WayThere>, words: &[&str]) -> Result<(Line, UnixStream), Fault> {
        let doing = || format!("make pipes for `{}`", way.words());
        let (near, far) = UnixStream::pair().doing(doing())?;
        let far = OwnedFd::from(far);
        let said = Noted::of(SAID_MAX).doing(doing())?;
        let mut command = prepared(&way.command(words, false));
        command.stdin(Stdio::from(far.try_clone().doing(doing())?)).stdout(Stdio::from(far));
        command.stderr(said.stdio().doing(doing())?);
        let child = Arc::new(Mutex::new(Ended(spawn(&mut command, way.as_ref())?)));
        Ok((Line { child, said: Arc::new(said), way: Arc::clone(way) }, near))
    }

    /// What was said on standard error so far.
    pub(super) fn said(&self) -> String {
        self.said.text()
    }

    /// The exit code of what ran there, once it has ended without the way being broken.
    pub(super) fn code_there(&self) -> Option<i32> {
        let code = self.end()??;
        if self.way.broken(Some(code), &self.said()).is_some() { None } else { Some(code) }
    }

    /// How it ended, if it has: its exit code, or none for a signal.
    fn end(&self) -> Option<Option<i32>> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.0.try_wait().ok().flatten().map(|status| status.code())
    }

    /// Why nothing comes over it any more, if it has ended.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let Some(code) = self.end() else { return Ok(()) };
        let said = self.said();
        Err(self.way.broken(code, &said).unwrap_or_else(|| {
            let how = code.map_or_else(|| "was killed".to_owned(), |code| format!("ended with exit code {code}"));
            Fault::new(format!("the agent there has ended, or never began: `{}` {how}", self.way.words()))
                .with_log(said.trim_end())
        }))
    }

    /// Waits a moment for its end, which is near.
    pub(super) fn await_end(&self) {
        let deadline = Instant::now() + FAREWELL;
        while self.end().is_none() && Instant::now() < deadline {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// The time left until `deadline`, or that there is none.
pub(super) fn left(deadline: Instant, given: Duration) -> Result<Duration, Fault> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Fault::new(format!("the machine took longer than {}, which it was given", exact_duration(given)))
            .remedy("give it more time: --within"));
    }
    Ok(left)
}
