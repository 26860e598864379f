//! The sampler as a process: a plan on standard input, rows on standard output until standard input ends. The profiler
//! likewise; what it hands over at the end is of the span of time that stands behind the plan.

use crate::away::away;
use crate::profile::Profiler;
use crate::root::Root;
use crate::sampler::Sampler;
use serde::{Deserialize, Serialize};
use std::io::{BufWriter, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::telemetry::{PROBE, Scope};
use tare_core::units::CpuSet;

/// What the sampler shall do: one JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbePlan {
    /// What to sample beside the machine.
    pub scopes: Vec<Scope>,
    /// How often, ms.
    pub period_ms: u64,
    /// CPUs for the sampler itself; empty keeps it away from those that services are bound to, where there are others.
    #[serde(default)]
    pub cpus: CpuSet,
    /// Whether the scopes are to be profiled, instead of sampled.
    #[serde(default)]
    pub profile: bool,
}

/// Serves `tare probe`: reads a [`ProbePlan`], then writes [`tare_core::telemetry::TelemetryRow`]s, one JSON document
/// a line, at once, every period, and a last time when `stdin` ends. A failure is one line on standard error and a
/// code other than 0.
pub fn serve(stdin: impl Read + Send + 'static, stdout: impl Write) -> ExitCode {
    match run(stdin, stdout) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn run(stdin: impl Read + Send + 'static, stdout: impl Write) -> Result<(), Fault> {
    let (plan, ended) = read_plan(stdin)?;
    let away = if plan.cpus.is_empty() { away(&Root::machine(), &plan.scopes) } else { Some(plan.cpus.clone()) };
    confine(&away.clone().unwrap_or_default())?;
    allow_many_files();
    if plan.profile {
        return profile(&plan.scopes, &ended, stdout);
    }
    let mut sampler = Sampler::new(&Root::machine(), &[plan.scopes, vec![own_scope()]].concat())?;
    let mut out = BufWriter::new(stdout);
    let period = Duration::from_millis(plan.period_ms.max(1));
    let mut due = Instant::now();
    loop {
        // Who reads the rows has gone: there is nothing left to sample for, and nobody to tell.
        if write_rows(&mut sampler, &mut out).is_err() {
            return Ok(());
        }
        due += period;
        // Ticks that were missed, as after the machine was suspended, are not made up for.
        while due < Instant::now() {
            due += period;
        }
        if wait_for_end(&ended, due) {
            let _ = write_rows(&mut sampler, &mut out);
            return Ok(());
        }
    }
}

/// The sampler itself, which is part of what the machine does.
fn own_scope() -> Scope {
    let (name, pids) = (PROBE.to_owned(), vec![std::process::id()]);
    Scope { name, serving: false, pids, cgroups: Vec::new() }
}

/// How often calls are counted. A load that stops between two counts is spread over the time between them, which takes
/// up to a quarter of that time from the calls before its end.
const COUNT_EVERY: Duration = Duration::from_millis(10);
/// Every how many counts samples are taken out of the kernel's rings, and processes are looked for.
const DRAIN_EVERY: u32 = 5;
const LOOK_EVERY: u32 = 10;

/// Says `null` when it has begun, then profiles until standard input ends, and hands over what was seen.
fn profile(scopes: &[Scope], ended: &Receiver<String>, mut stdout: impl Write) -> Result<(), Fault> {
    let mut profiler = Profiler::begin(&Root::machine(), scopes);
    let mut said = |line: &str| writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if said("null").is_err() {
        return Ok(());
    }
    for round in 1_u32.. {
        match ended.recv_timeout(COUNT_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(span) => {
                // Who says no span has given up, and wants nothing.
                let Ok((from_ns, to_ns)) = serde_json::from_str::<(u64, u64)>(&span) else { break };
                let profile = profiler.end(from_ns, to_ns);
                let text = serde_json::to_string(&profile).doing("write the profile down")?;
                return said(&text).doing("hand over the profile");
            }
        }
        if round.is_multiple_of(DRAIN_EVERY) {
            profiler.drain();
        }
        if round.is_multiple_of(LOOK_EVERY) {
            profiler.look();
        }
        profiler.count();
    }
    Ok(())
}

fn write_rows(sampler: &mut Sampler, out: &mut impl Write) -> std::io::Result<()> {
    for row in sampler.sample() {
        serde_json::to_writer(&mut *out, &row)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Reads the plan and leaves a thread behind that tells when `stdin` ends, and what stood behind the plan.
fn read_plan(stdin: impl Read + Send + 'static) -> Result<(ProbePlan, Receiver<String>), Fault> {
    let (tell_plan, plan) = channel();
    let (tell_end, end) = channel();
    let watch = move || {
        let mut stdin = stdin;
        let first = serde_json::Deserializer::from_reader(&mut stdin).into_iter::<ProbePlan>().next();
        let told = tell_plan.send(first);
        let mut rest = String::new();
        if told.is_ok() {
            // However it ends: what cannot be read is not waited for.
            let _ = stdin.take(REST_MAX).read_to_string(&mut rest);
        }
        let _ = tell_end.send(rest);
    };
    let thread = std::thread::Builder::new().name("stdin".to_owned()).spawn(watch);
    thread.map_err(|error| Fault::from_error("start a thread for the sampler", &error))?;
    let remedy = "send one JSON document with scopes, period_ms and cpus";
    match plan.recv() {
        Ok(Some(Ok(plan))) => Ok((plan, end)),
        Ok(Some(Err(error))) => Err(Fault::from_error("read the plan of the sampler", &error).remedy(remedy)),
        Ok(None) | Err(_) => Err(Fault::new("standard input ended before a plan came").remedy(remedy)),
    }
}

/// More than ever stands behind a plan, bytes.
const REST_MAX: u64 = 4096;

/// Waits until `due`; true when standard input has ended before.
fn wait_for_end(ended: &Receiver<String>, due: Instant) -> bool {
    match ended.recv_timeout(due.saturating_duration_since(Instant::now())) {
        Ok(_) | Err(RecvTimeoutError::Disconnected) => true,
        Err(RecvTimeoutError::Timeout) => false,
    }
}

fn confine(cpus: &CpuSet) -> Result<(), Fault> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus.cpus().iter().filter(|cpu| (**cpu as usize) < rustix::thread::CpuSet::MAX_CPU) {
        set.set(*cpu as usize);
    }
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| {
        let doing = format!("run the sampler on the CPUs {cpus}");
        Fault::from_error(doing, &error).remedy("name CPUs that are online and that this process may use")
    })
}

/// Files of watched processes are held open: lifts the soft limit to the hard one.
fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, files are opened anew each time: dearer, but right.
    let _ = setrlimit(Resource::Nofile, limit);
}
