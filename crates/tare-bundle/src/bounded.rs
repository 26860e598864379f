//! Runs a workload's own command with bounds on its time, its output and the disk space it takes.

use crate::command;
use std::collections::VecDeque;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};

/// How much of the end of each output stream is kept, bytes.
const KEPT: usize = 64 << 10;
/// How often it is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait for its output after it has ended: another process may still hold the pipe open.
const DRAIN: Duration = Duration::from_secs(1);

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Went {
    /// Its exit status; `None` when it was killed because its time was up.
    pub(crate) status: Option<ExitStatus>,
    /// The end of its output.
    pub(crate) log: String,
}

/// Runs the command until it ends. It is killed after `within`, or as soon as `goes_on` fails; its children must be
/// set up to die with it. `package` is what to install when the command is missing.
///
/// # Errors
/// When it could not be started, and the error of `goes_on`.
pub(crate) fn run(
    command: &mut Command,
    package: &str,
    within: Duration,
    goes_on: &dyn Fn() -> Result<(), Fault>,
) -> Result<Went, Fault> {
    let began = Instant::now();
    let doing = format!("run {}", command.get_program().display());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(command::absent(&command.get_program().display().to_string(), package));
        }
        other => other.doing(&doing)?,
    };
    let out = read(child.stdout.take().expect("standard output is piped"));
    let err = read(child.stderr.take().expect("standard error is piped"));
    let ended = loop {
        match child.try_wait().doing(&doing)? {
            Some(status) => break Ok(Some(status)),
            None if began.elapsed() >= within => break Ok(None),
            None => {}
        }
        if let Err(fault) = goes_on() {
            break Err(fault);
        }
        std::thread::sleep(LOOK_EVERY.min(within));
    };
    // It fails when the command has ended already.
    let _ = child.kill();
    child.wait().doing(&doing)?;
    let mut log = out.recv_timeout(DRAIN).unwrap_or_default();
    log.push_str(&err.recv_timeout(DRAIN).unwrap_or_default());
    Ok(Went { status: ended.map_err(|fault: Fault| fault.with_log(log.clone()))?, log })
}

/// Reads to the end, and keeps the end.
fn read(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (mut kept, mut part) = (VecDeque::with_capacity(KEPT), [0; 8192]);
        while let Ok(count @ 1..) = from.read(&mut part) {
            kept.drain(..(kept.len() + count).saturating_sub(KEPT).min(kept.len()));
            kept.extend(&part[..count]);
        }
        // The receiver may be gone.
        let _ = sender.send(String::from_utf8_lossy(kept.make_contiguous()).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, within: Duration, goes_on: &dyn Fn() -> Result<(), Fault>) -> Result<Went, Fault> {
        run(Command::new("sh").args(["-c", script]), "dash", within, goes_on)
    }

    #[test]
    fn a_command_has_its_time_and_says_so_much() {
        let (long, fine) = (Duration::from_secs(60), || Ok(()));
        let went = shell("echo a; echo b >&2; exit 3", long, &fine).unwrap();
        assert_eq!((went.status.unwrap().code(), went.log.as_str()), (Some(3), "a\nb\n"));
        let went = shell("yes | head -c 10000000; echo the end", long, &fine).unwrap();
        assert!(went.log.len() <= 2 * KEPT && went.log.ends_with("the end\n"), "{}", went.log.len());
        let began = Instant::now();
        let went = shell("echo begun; exec sleep 60", Duration::from_millis(200), &fine).unwrap();
        assert!(went.status.is_none() && went.log == "begun\n", "{went:?}");
        let fault = shell("echo begun; exec sleep 60", long, &|| Err(Fault::new("the disk is full"))).unwrap_err();
        assert_eq!(fault.message, "the disk is full");
        assert!(began.elapsed() < long, "it was waited for");
    }
}
