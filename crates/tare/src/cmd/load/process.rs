//! The load process of `tare load`: started, listened to, ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::load::{LoadLine, LoadPlan, LoadSummary, SecondRow};
use tare_runner::Stop;

/// How often it is looked whether the user wants an end.
const LOOK: Duration = Duration::from_millis(50);
/// How long the process may take to come to an end when it is told to.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How a load ended.
pub(super) enum Ended {
    /// As planned.
    Done(Box<LoadSummary>),
    /// Early, without a word: only the rows tell.
    Cut,
}

/// A load process under way; killed when dropped.
pub(super) struct LoadProcess {
    child: Child,
    lines: Receiver<Result<LoadLine, Fault>>,
    stderr: Option<JoinHandle<String>>,
}

impl LoadProcess {
    /// Starts it with a plan.
    ///
    /// # Errors
    /// When it could not be started.
    pub(super) fn start(plan: &LoadPlan) -> Result<LoadProcess, Fault> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("drive").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that Ctrl-C reaches only this process, which then decides.
        command.process_group(0);
        let mut child = command.spawn().doing("start the load process")?;
        let mut stdin = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        let mut errors = child.stderr.take().expect("standard error is piped");
        let text = serde_json::to_vec(plan).doing("encode the load plan")?;
        stdin.write_all(&text).doing("hand the plan to the load process")?;
        drop(stdin);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let parsed = line
                    .doing("read from the load process")
                    .and_then(|line| serde_json::from_str(&line).doing(format!("read the load process's line {line}")));
                if sender.send(parsed).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            text
        });
        Ok(LoadProcess { child, lines, stderr: Some(stderr) })
    }

    /// Waits for the end: the planned one, or the one that the user wants.
    ///
    /// # Errors
    /// What the load process says, or how it died.
    pub(super) fn wait(&mut self, stop: &Stop, each_second: &mut dyn FnMut(&SecondRow)) -> Result<Ended, Fault> {
        loop {
            if stop.raised() {
                return Ok(Ended::Cut);
            }
            match self.lines.recv_timeout(LOOK) {
                Ok(Ok(LoadLine::Second(row))) => each_second(&row),
                Ok(Ok(LoadLine::Window(_))) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Ok(LoadLine::Done(summary))) => {
                    let _ = self.child.wait();
                    return Ok(Ended::Done(summary));
                }
                Ok(Ok(LoadLine::Failed(fault)) | Err(fault)) => return Err(fault),
                Err(RecvTimeoutError::Disconnected) => return Err(self.died()),
            }
        }
    }

    fn died(&mut self) -> Fault {
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        Fault::new(format!("the load process died without a word: {how}")).with_log(stderr)
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        // What it has started ends with it only if it is told first.
        if matches!(self.child.try_wait(), Ok(None)) {
            let pid = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let late = Instant::now() + END_WITHIN;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < late {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
