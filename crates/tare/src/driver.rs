//! Starts the load process, sends it orders, reads its results, and ends it.

use crate::paths;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::load::{LoadLine, LoadOrder, LoadPlan, LoadSummary, LoadTask, SecondRow, WindowRow};
use tare_layers::local::LoadGroup;
use tare_runner::{RunInside, Stop};

/// How often to check whether the user has interrupted.
const LOOK: Duration = Duration::from_millis(100);
/// How long a load process may take to end after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(2);
/// How much of the end of the load process's standard error is kept for messages, bytes.
const STDERR_KEPT: usize = 4096;

/// Decides what a guided load does next: at the beginning, and after each window.
type NextOrder<'a> = dyn FnMut(Option<&WindowRow>) -> LoadOrder + 'a;

/// How to answer the load process's messages.
pub(crate) struct Asked<'a> {
    /// Receives every second of load.
    pub(crate) each_second: &'a mut dyn FnMut(&SecondRow),
    /// Decides what comes after each window of a guided load.
    pub(crate) next: Option<&'a mut NextOrder<'a>>,
    /// Runs a command inside the form, if there is one.
    pub(crate) inside: Option<&'a mut RunInside<'a>>,
}

/// A running load process; killed when dropped.
pub(crate) struct Driver {
    child: Child,
    /// Where orders go, as long as there may be more.
    told: Option<ChildStdin>,
    lines: Receiver<Result<LoadLine, Fault>>,
    stderr: Option<JoinHandle<String>>,
    /// Dropped last, which ends what tools have left running.
    _group: Option<LoadGroup>,
}

impl Driver {
    /// The command that starts a load process; callers may still change where it runs.
    pub(crate) fn command() -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg("drive").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // PATH finds a workload's tools; they get nothing else of the user's environment.
        command.env_clear().envs(paths::search_path().map(|path| ("PATH", path)));
        // A process group of its own, so that Ctrl-C reaches only Tare, which then decides.
        command.process_group(0);
        command
    }

    /// Starts it with a plan, in a run's control group if given.
    ///
    /// # Errors
    /// When it could not be started.
    pub(crate) fn start(mut command: Command, group: Option<LoadGroup>, plan: &LoadPlan) -> Result<Driver, Fault> {
        if let Some(group) = &group {
            group.take_in(&mut command)?;
        }
        let mut child = command.spawn().doing("start the load process")?;
        let mut stdin = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        let mut stderr = child.stderr.take().expect("standard error is piped");
        let mut plan = serde_json::to_vec(plan).doing("encode the load plan")?;
        plan.push(b'\n');
        stdin.write_all(&plan).doing("hand the plan to the load process")?;
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
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            let kept = text.len().saturating_sub(STDERR_KEPT);
            String::from_utf8_lossy(&text[kept..]).into_owned()
        });
        Ok(Driver { child, told: Some(stdin), lines, stderr: Some(stderr), _group: group })
    }

    /// Sends an order, and closes the input after the last one. If the load process has died, `hear` reports it.
    ///
    /// # Errors
    /// When the order cannot be encoded.
    pub(crate) fn tell(&mut self, order: &LoadOrder) -> Result<(), Fault> {
        let Some(told) = &mut self.told else { return Ok(()) };
        let mut line = serde_json::to_vec(order).doing("encode an order for the load")?;
        line.push(b'\n');
        let gone = told.write_all(&line).and_then(|()| told.flush()).is_err();
        if gone || *order == LoadOrder::End {
            self.told_all();
        }
        Ok(())
    }

    /// Closes the input: there will be no more orders.
    pub(crate) fn told_all(&mut self) {
        self.told = None;
    }

    /// The next message of the load process; none if it sends nothing for a moment.
    ///
    /// # Errors
    /// Why it failed, or how it died.
    pub(crate) fn hear(&mut self) -> Result<Option<LoadLine>, Fault> {
        match self.lines.recv_timeout(LOOK) {
            Ok(Ok(LoadLine::Failed(fault)) | Err(fault)) => Err(fault),
            Ok(Ok(line)) => {
                if let LoadLine::Done(_) = line {
                    let _ = self.child.wait();
                }
                Ok(Some(line))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.died()),
        }
    }

    /// Waits for the end of its task, and answers its messages on the way.
    ///
    /// # Errors
    /// Why it failed, how it died, that it took longer than `limit`, or that the user interrupted it.
    pub(crate) fn wait(
        &mut self,
        task: LoadTask,
        limit: Duration,
        stop: &Stop,
        asked: Asked,
    ) -> Result<LoadSummary, Fault> {
        let Asked { each_second, mut next, mut inside } = asked;
        let began = Instant::now();
        loop {
            if stop.raised() {
                return Err(Fault::new("interrupted"));
            }
            if began.elapsed() > limit {
                let limit = tare_core::units::show_duration(limit);
                return Err(Fault::new(format!("the load process did not end its task {task:?} within {limit}")));
            }
            match self.hear()? {
                Some(LoadLine::Second(row)) => each_second(&row),
                Some(LoadLine::Window(row)) if self.told.is_some() => {
                    if let Some(next) = &mut next {
                        self.tell(&next(Some(&row)))?;
                    }
                }
                Some(LoadLine::Inside(mut command)) => {
                    // A command need not run longer than anybody waits for it.
                    command.within = command.within.min(limit.saturating_sub(began.elapsed()));
                    let no_form = || Err(Fault::new("there is no form to run a command in"));
                    let went = inside.as_mut().map_or_else(no_form, |inside| inside(&command));
                    self.tell(&LoadOrder::Ran(Box::new(went)))?;
                }
                Some(LoadLine::Done(summary)) => return Ok(*summary),
                _ => {}
            }
        }
    }

    fn died(&mut self) -> Fault {
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        Fault::new(format!("the load process died without a message: {how}")).with_log(stderr)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SIGTERM first, so that it can end its tools before itself; then SIGKILL.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let given_up = Instant::now() + END_WITHIN;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < given_up {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
