//! The sampler as a process: a plan on standard input, rows on standard output until standard input ends. Behind the
//! plan it is told when to rest. The profiler likewise; what it hands over at the end is of the span of time that
//! stands behind the plan.

use crate::away::away;
use crate::profile::Profiler;
use crate::root::Root;
use crate::sampler::Sampler;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufWriter, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::telemetry::{PROBE, RESTED, Rest, Scope};
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
    let (plan, told) = read_plan(stdin)?;
    let away = if plan.cpus.is_empty() { away(&Root::machine(), &plan.scopes) } else { Some(plan.cpus.clone()) };
    confine(&away.clone().unwrap_or_default())?;
    allow_many_files();
    if plan.profile {
        return profile(&plan.scopes, &told, stdout);
    }
    let mut sampler = Sampler::new(&Root::machine(), &[plan.scopes, vec![own_scope()]].concat())?;
    let mut out = BufWriter::new(stdout);
    let period = Duration::from_millis(plan.period_ms.max(1));
    let (mut due, mut rests) = (Instant::now(), Rests::default());
    loop {
        // Who reads the rows has gone: there is nothing left to sample for, and nobody to tell.
        if write_rows(&mut sampler, &mut out, &rests).is_err() {
            return Ok(());
        }
        due += period;
        // Ticks that were missed, as after the machine was suspended, are not made up for.
        while due < Instant::now() {
            due += period;
        }
        let rest = rests.before(due);
        let mut is_over = rests.wait(&told, rest.map_or(due, |(begin, _)| begin));
        if let Some((_, lasts)) = rest.filter(|_| !is_over) {
            // What was counted up to here, and what is counted from its end on, lie around the rest.
            if write_rows(&mut sampler, &mut out, &rests).is_err() {
                return Ok(());
            }
            let began = Instant::now();
            sampler.rest(true);
            is_over = rests.wait(&told, began + lasts);
            sampler.rest(false);
            rests.rested += began.elapsed();
            due = Instant::now();
        }
        if is_over {
            let _ = write_rows(&mut sampler, &mut out, &rests);
            return Ok(());
        }
    }
}

/// When the sampler rests.
#[derive(Default)]
struct Rests {
    /// When rests begin, and how long they last.
    queue: VecDeque<(Instant, Duration)>,
    /// How long it rested so far.
    rested: Duration,
}

impl Rests {
    /// Takes out the next one, if it begins before so long.
    fn before(&mut self, due: Instant) -> Option<(Instant, Duration)> {
        if self.queue.front()?.0 > due {
            return None;
        }
        self.queue.pop_front()
    }

    /// Waits until `until`, and takes in when to rest; true when it was told to end meanwhile.
    fn wait(&mut self, told: &Receiver<Value>, until: Instant) -> bool {
        loop {
            match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
                // What is no list of rests is nothing that a sampler is told.
                Ok(value) => {
                    let now = Instant::now();
                    let rests: Vec<Rest> = serde_json::from_value(value).unwrap_or_default();
                    self.queue.extend(rests.iter().map(|rest| (now + rest.after, rest.lasts)));
                }
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
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
fn profile(scopes: &[Scope], told: &Receiver<Value>, mut stdout: impl Write) -> Result<(), Fault> {
    let mut profiler = Profiler::begin(&Root::machine(), scopes);
    let mut said = |line: &str| writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if said("null").is_err() {
        return Ok(());
    }
    for round in 1_u32.. {
        match told.recv_timeout(COUNT_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(span) => {
                // Who says no span has given up, and wants nothing.
                let Ok((from_ns, to_ns)) = serde_json::from_value::<(u64, u64)>(span) else { break };
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

fn write_rows(sampler: &mut Sampler, out: &mut impl Write, rests: &Rests) -> std::io::Result<()> {
    for mut row in sampler.sample() {
        if row.scope == PROBE && !rests.rested.is_zero() {
            row.values.insert(RESTED.to_owned(), rests.rested.as_secs_f64());
        }
        serde_json::to_writer(&mut *out, &row)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Reads the plan and leaves a thread behind that hands on what stands behind it, and whose end is that of `stdin`.
fn read_plan(stdin: impl Read + Send + 'static) -> Result<(ProbePlan, Receiver<Value>), Fault> {
    let (tell_plan, plan) = channel();
    let (tell, told) = channel();
    let watch = move || {
        let mut said = serde_json::Deserializer::from_reader(stdin).into_iter::<Value>();
        let first = said.next().map(|first| first.and_then(serde_json::from_value::<ProbePlan>));
        if tell_plan.send(first).is_ok() {
            // However it ends: what cannot be read is not waited for.
            let _ = said.map_while(Result::ok).try_for_each(|more| tell.send(more));
        }
    };
    let thread = std::thread::Builder::new().name("stdin".to_owned()).spawn(watch);
    thread.map_err(|error| Fault::from_error("start a thread for the sampler", &error))?;
    let remedy = "send one JSON document with scopes, period_ms and cpus";
    match plan.recv() {
        Ok(Some(Ok(plan))) => Ok((plan, told)),
        Ok(Some(Err(error))) => Err(Fault::from_error("read the plan of the sampler", &error).remedy(remedy)),
        Ok(None) | Err(_) => Err(Fault::new("standard input ended before a plan came").remedy(remedy)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_are_taken_in_while_it_waits_and_come_in_their_order() {
        let (tell, told) = channel();
        let mut rests = Rests::default();
        let ms = Duration::from_millis;
        let asked = [Rest { after: ms(100), lasts: ms(20) }, Rest { after: ms(5_000), lasts: ms(30) }];
        tell.send(serde_json::to_value(asked).unwrap()).unwrap();
        tell.send(Value::Null).unwrap();
        let now = Instant::now();
        assert!(!rests.wait(&told, now + ms(10)));
        assert!(rests.before(now + ms(50)).is_none());
        let (begin, lasts) = rests.before(now + ms(1_000)).unwrap();
        assert!(begin >= now + ms(100) && lasts == ms(20));
        assert!(rests.before(now + ms(1_000)).is_none(), "the second one is far off");
        drop(tell);
        assert!(rests.wait(&told, Instant::now() + ms(60_000)), "nobody says anything any more");
    }
}
