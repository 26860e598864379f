//! Starts and reads the sampler. It is a process of its own, so that its costs can be told apart and it can have its
//! own CPUs.

use crate::serve::ProbePlan;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::profile::Profile;
use tare_core::telemetry::{Prober, Rest, Scope, TelemetryRow};
use tare_core::units::CpuSet;

/// How long the sampler may take to write its first rows, and its last.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long the profiler may take to find the names of what it saw.
const NAMING: Duration = Duration::from_secs(60);

/// A [`Prober`] whose sampler is this very program, started as `tare probe`.
///
/// # Errors
/// When this program cannot find itself.
pub fn process_prober() -> Result<Box<dyn Prober>, Fault> {
    prober(false)
}

/// The same inside a guest, where some of what is costly to read is left out.
///
/// # Errors
/// See [`process_prober`].
pub fn guest_prober() -> Result<Box<dyn Prober>, Fault> {
    prober(true)
}

fn prober(inside: bool) -> Result<Box<dyn Prober>, Fault> {
    let program = "/proc/self/exe";
    std::fs::metadata(program).doing("find this program in order to start its sampler")?;
    Ok(Box::new(ProcessProber { running: None, profiling: None, inside }))
}

struct ProcessProber {
    running: Option<Running<TelemetryRow>>,
    /// Sends `None` when it has begun, and the profile at its end.
    profiling: Option<Running<Option<Profile>>>,
    /// Whether it is inside a guest.
    inside: bool,
}

impl ProcessProber {
    fn plan(&self, scopes: &[Scope], period_ms: u64, profile: bool) -> ProbePlan {
        ProbePlan { scopes: scopes.to_vec(), period_ms, cpus: CpuSet::default(), profile, inside: self.inside }
    }
}

/// A process of this program that prints one `T` per line.
struct Running<T> {
    child: Child,
    rows: Receiver<T>,
    said: Receiver<String>,
    first: Vec<T>,
}

impl Prober for ProcessProber {
    fn begin(&mut self, scopes: &[Scope], period: Duration) -> Result<(), Fault> {
        if self.running.is_some() {
            return Err(Fault::new("sampling was started twice"));
        }
        let period_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut running = Running::start(&self.plan(scopes, period_ms, false))?;
        // The first rows show that it works; a broken sampler is noticed here, not at the end of the trial.
        match running.rows.recv_timeout(PATIENCE) {
            Ok(row) => running.first.push(row),
            Err(_) => return Err(running.fail("the sampler wrote nothing")),
        }
        self.running = Some(running);
        Ok(())
    }

    fn rest(&mut self, rests: &[Rest]) -> Result<(), Fault> {
        let Some(running) = &mut self.running else {
            return Err(Fault::new("sampling cannot pause: it was never started"));
        };
        let text = serde_json::to_string(rests).expect("times are numbers");
        let stdin = running.child.stdin.as_mut().expect("it was kept when it was started");
        let told = stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush());
        told.map_err(|error| running.fail(&format!("could not tell the sampler when to rest: {error}")))
    }

    fn end(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        let Some(mut running) = self.running.take() else {
            return Err(Fault::new("sampling cannot end: it was never started"));
        };
        drop(running.child.stdin.take());
        let mut rows = std::mem::take(&mut running.first);
        let until = Instant::now() + PATIENCE;
        // The reader drops its end when standard output ends, which is when the sampler is done.
        loop {
            match running.rows.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(row) => rows.push(row),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    return Err(running.fail("the sampler did not end when asked to"));
                }
            }
        }
        let status = running.child.wait().doing("wait for the sampler")?;
        if !status.success() {
            return Err(
                running.fail(&format!("the sampler died ({status}); the telemetry of this trial is incomplete"))
            );
        }
        Ok(rows)
    }

    fn begin_profile(&mut self, scopes: &[Scope]) -> Result<(), Fault> {
        if self.profiling.is_some() {
            return Err(Fault::new("profiling was started twice"));
        }
        let mut profiling = Running::start(&self.plan(scopes, 0, true))?;
        match profiling.rows.recv_timeout(PATIENCE) {
            Ok(None) => {}
            _ => return Err(profiling.fail("the profiler did not start")),
        }
        self.profiling = Some(profiling);
        Ok(())
    }

    fn end_profile(&mut self, from_ns: u64, to_ns: u64) -> Result<Profile, Fault> {
        let Some(mut profiling) = self.profiling.take() else {
            return Err(Fault::new("profiling cannot end: it was never started"));
        };
        let mut stdin = profiling.child.stdin.take().expect("it was kept when it was started");
        let told = stdin.write_all(format!("[{from_ns},{to_ns}]").as_bytes());
        drop(stdin);
        match told.map(|()| profiling.rows.recv_timeout(NAMING)) {
            Ok(Ok(Some(profile))) => Ok(profile),
            _ => Err(profiling.fail("the profiler returned no profile")),
        }
    }
}

impl<T: DeserializeOwned + Send + 'static> Running<T> {
    fn start(plan: &ProbePlan) -> Result<Running<T>, Fault> {
        let mut child = Command::new("/proc/self/exe")
            .arg("probe")
            // It needs nothing from the environment of whoever started Tare.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .doing("start the sampler")?;
        let mut stdin = child.stdin.take().expect("stdin was asked to be a pipe");
        let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
        let stderr = child.stderr.take().expect("stderr was asked to be a pipe");
        let (send_row, rows) = channel();
        let (send_said, said) = channel();
        let mut running = Running { child, rows, said, first: Vec::new() };
        let rows_thread = std::thread::Builder::new().name("sampler-rows".to_owned()).spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(row) = serde_json::from_str(&line) else { continue };
                if send_row.send(row).is_err() {
                    return;
                }
            }
        });
        let said_thread = std::thread::Builder::new().name("sampler-errors".to_owned()).spawn(move || {
            let mut text = String::new();
            let _ = stderr.take(64 << 10).read_to_string(&mut text);
            let _ = send_said.send(text);
        });
        if let Err(error) = rows_thread.and(said_thread) {
            return Err(running.fail(&format!("the sampler's output cannot be read: {error}")));
        }
        let text = serde_json::to_string(plan).expect("a plan holds numbers and text only");
        if let Err(error) = stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()) {
            return Err(running.fail(&format!("could not send the sampler its plan: {error}")));
        }
        running.child.stdin = Some(stdin);
        Ok(running)
    }

    /// Kills the sampler and returns a fault with its output.
    fn fail(&mut self, message: &str) -> Fault {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let said = self.said.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let fault = Fault::new(message).with_log(said.trim());
        if said.trim().is_empty() { fault } else { fault.context(said.trim().to_owned()) }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        // The trial failed, so it was dropped without an end; its sampler must not stay.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
