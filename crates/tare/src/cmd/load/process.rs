//! The load process of `tare load`: started, listened to, ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::load::{LoadLine, LoadOrder, LoadPlan, LoadSummary, SecondRow};
use tare_runner::Stop;

/// How often it is looked whether the user wants an end.
const LOOK: Duration = Duration::from_millis(50);
/// How long the process may take to come to an end, besides the answers it waits for.
const END_WITHIN: Duration = Duration::from_secs(5);

/// How a load ended.
pub(super) enum Ended {
    /// As planned, or early but with all that was measured.
    Done(Box<LoadSummary>),
    /// Early, without a word: only the rows tell.
    Cut,
}

/// A load process under way; killed when dropped.
pub(super) struct LoadProcess {
    child: Child,
    orders: Option<ChildStdin>,
    lines: Receiver<Result<LoadLine, Fault>>,
    stderr: Option<JoinHandle<String>>,
}

impl LoadProcess {
    /// Starts it with a plan. A guided one is ended by [`LoadProcess::wait`].
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
        let mut text = serde_json::to_vec(plan).doing("encode the load plan")?;
        text.push(b'\n');
        stdin.write_all(&text).doing("hand the plan to the load process")?;
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
        let guided = matches!(plan.profile, tare_core::load::LoadProfile::Guided { .. });
        Ok(LoadProcess { child, orders: guided.then_some(stdin), lines, stderr: Some(stderr) })
    }

    /// Waits for the end: the planned one, or the one that the user wants. `measure` is how long a guided load is
    /// measured.
    ///
    /// # Errors
    /// What the load process says, or how it died.
    pub(super) fn wait(
        &mut self,
        measure: Duration,
        stop: &Stop,
        each_second: &mut dyn FnMut(&SecondRow),
    ) -> Result<Ended, Fault> {
        let mut ends: Option<Instant> = None;
        let mut given_up: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if stop.raised() && given_up.is_none() {
                given_up = Some(now + END_WITHIN);
                if self.orders.is_none() {
                    return Ok(Ended::Cut);
                }
            }
            if (stop.raised() || ends.is_some_and(|ends| now >= ends)) && self.orders.is_some() {
                self.order_end();
            }
            if given_up.is_some_and(|late| now >= late) {
                return Ok(Ended::Cut);
            }
            match self.lines.recv_timeout(LOOK) {
                Ok(Ok(LoadLine::Second(row))) => {
                    if row.measured && ends.is_none() {
                        let gone = Duration::from_secs_f64(row.seconds.max(0.0));
                        ends = Some(Instant::now() + measure.saturating_sub(gone));
                    }
                    each_second(&row);
                }
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

    fn order_end(&mut self) {
        let Some(mut orders) = self.orders.take() else { return };
        let mut text = serde_json::to_vec(&LoadOrder::End).expect("an order is plain data");
        text.push(b'\n');
        // A process that is gone has said why, or will be seen to have died.
        let _ = orders.write_all(&text);
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
