//! Programs that are asked something. There is an end to how long they take and to how much they say.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};

/// How much a program may say, bytes.
const OUTPUT_MOST: usize = 1 << 20;
/// How often it is asked whether one has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether the standard error of a program is part of what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errors {
    /// Between the other lines, as on a terminal.
    Told,
    /// For who reads the output as data.
    Dropped,
}

/// What a program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) text: String,
    /// Whether it ended with exit code 0.
    pub(crate) is_well: bool,
}

/// Starts a program with its arguments, and returns what it has said once it has ended. One that takes longer than
/// `within`, or says more than a mebibyte, is ended with what it has started.
///
/// # Errors
/// When it cannot be started, or was ended.
pub(crate) fn said_by(mut command: Command, errors: Errors, within: Duration) -> Result<Said, Fault> {
    let name = command.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe().doing("make a pipe")?;
    let also = match errors {
        Errors::Told => Stdio::from(writer.try_clone().doing("make a pipe")?),
        Errors::Dropped => Stdio::null(),
    };
    // A group of its own, so that what it starts ends with it.
    command.stdin(Stdio::null()).stdout(writer).stderr(also).process_group(0);
    let (send, read) = channel();
    let reading = std::thread::Builder::new().name("reading".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let _ = reader.take(OUTPUT_MOST as u64 + 1).read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    reading.doing("start a thread")?;
    let end = Instant::now() + within;
    let mut child = command.spawn().doing(format!("start {name}"))?;
    // It holds the other end of the pipe, too.
    drop(command);
    let bytes = read.recv_timeout(within).ok();
    let is_too_long = bytes.as_ref().is_some_and(|bytes| bytes.len() > OUTPUT_MOST);
    let ended = if bytes.is_none() || is_too_long { None } else { ended_by(&mut child, end) };
    let (Some(bytes), Some(status)) = (bytes, ended) else {
        // The group has this number for as long as the child has not been waited for.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
        let what = if is_too_long { "said more than 1 MiB" } else { "took too long" };
        return Err(Fault::new(format!("{name} {what} and was ended")).remedy("try it in a terminal"));
    };
    Ok(Said { text: String::from_utf8_lossy(&bytes).into_owned(), is_well: status.success() })
}

/// How a child has ended, if it does so before `end`.
fn ended_by(child: &mut Child, end: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(LOOK_EVERY),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, errors: Errors, within: Duration) -> Result<Said, Fault> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        said_by(command, errors, within)
    }

    #[test]
    fn what_a_program_says_has_an_end() {
        let long = Duration::from_secs(60);
        let said = shell("echo out; echo error >&2; exit 2", Errors::Told, long).unwrap();
        assert_eq!((said.text.as_str(), said.is_well), ("out\nerror\n", false));
        let said = shell("echo out; echo error >&2", Errors::Dropped, long).unwrap();
        assert_eq!((said.text.as_str(), said.is_well), ("out\n", true));
        let fault = shell("while :; do echo again; done", Errors::Told, long).unwrap_err();
        assert_eq!(fault.message, "sh said more than 1 MiB and was ended");
        assert!(said_by(Command::new("/nowhere/nothing"), Errors::Told, long).is_err());
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended_with_what_it_started() {
        let began = Instant::now();
        let fault = shell("sleep 50 & sleep 50", Errors::Told, Duration::from_millis(100)).unwrap_err();
        assert_eq!(fault.message, "sh took too long and was ended");
        // One that ends and leaves something behind that keeps its output open, and one that closes that and stays.
        shell("sleep 50 & exit 0", Errors::Told, Duration::from_millis(100)).unwrap_err();
        shell("exec >&- 2>&-; sleep 50", Errors::Told, Duration::from_millis(100)).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(40));
    }
}
