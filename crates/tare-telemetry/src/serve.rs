//! The sampler as a process: reads a plan from standard input and writes rows to standard output until standard input
//! ends. After the plan it may read when to rest. The profiler works likewise: after the plan it reads a span of time,
//! and writes the profile of that span.

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

/// What the sampler should do: one JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbePlan {
    /// What to sample in addition to the machine.
    pub scopes: Vec<Scope>,
    /// How often, ms.
    pub period_ms: u64,
    /// CPUs for the sampler itself; if empty, it avoids the CPUs to which services are bound, if there are others.
    #[serde(default)]
    pub cpus: CpuSet,
    /// Whether to profile the scopes instead of sampling them.
    #[serde(default)]
    pub profile: bool,
    /// Whether the sampler runs inside a guest, see [`Sampler::inside_a_guest`].
    #[serde(default)]
    pub inside: bool,
}

/// Runs `tare probe`: reads a [`ProbePlan`], then writes [`tare_core::telemetry::TelemetryRow`]s, one JSON document per
/// line: at once, every period, and a last time when `stdin` ends. A failure is one line on standard error and an exit
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
    if plan.inside {
        sampler = sampler.inside_a_guest();
    }
    let mut out = BufWriter::new(stdout);
    let period = Duration::from_millis(plan.period_ms.max(1));
    let (mut due, mut rests) = (Instant::now(), Rests::default());
    loop {
        // The reader of the rows is gone, so there is nothing left to do.
        if write_rows(&mut sampler, &mut out, &rests).is_err() {
            return Ok(());
        }
        due += period;
        // Missed periods, such as after the machine was suspended, are skipped.
        while due < Instant::now() {
            due += period;
        }
        let rest = rests.before(due);
        let mut is_over = rests.wait(&told, rest.map_or(due, |(begin, _)| begin));
        if let Some((_, lasts)) = rest.filter(|_| !is_over) {
            // Rows right before and after the rest separate its counts from the others.
            if write_rows(&mut sampler, &mut out, &rests).is_err() {
                return Ok(());
            }
            let began = Instant::now();
            sampler.rest(true);
            is_over = rests.wait(&told, began + lasts);
            sampler.rest(false);
            // `due` stays: a reading follows at once, and the next ones come at the usual times. With a whole period
            // from the end of the rest, readings after rests would be rarer than others.
            rests.rested += began.elapsed();
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
    /// When each rest begins, and how long it lasts.
    queue: VecDeque<(Instant, Duration)>,
    /// The total time of rests so far.
    rested: Duration,
}

impl Rests {
    /// Takes the next rest if it begins before `due`.
    fn before(&mut self, due: Instant) -> Option<(Instant, Duration)> {
        if self.queue.front()?.0 > due {
            return None;
        }
        self.queue.pop_front()
    }

    /// Waits until `until` and reads further rests; true if it was asked to end meanwhile.
    fn wait(&mut self, told: &Receiver<Value>, until: Instant) -> bool {
        loop {
            match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
                // Anything but a list of rests is ignored.
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

/// The sampler itself, so that its own costs are sampled too.
fn own_scope() -> Scope {
    let (name, pids) = (PROBE.to_owned(), vec![std::process::id()]);
    Scope { name, serving: false, pids, cgroups: Vec::new() }
}

/// How often calls are counted. If the load stops between two counts, its last calls are spread over the time between
/// them, which misplaces the calls of up to a quarter of that time.
const COUNT_EVERY: Duration = Duration::from_millis(10);
/// After how many counts samples are taken out of the kernel's rings, and after how many processes are searched.
const DRAIN_EVERY: u32 = 5;
const LOOK_EVERY: u32 = 10;

/// Writes `null` when it has begun, then profiles until standard input ends, and writes the profile.
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
                // Without a span the caller has given up and wants nothing.
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

/// Reads the plan, and starts a thread that passes on what follows the plan until `stdin` ends.
fn read_plan(stdin: impl Read + Send + 'static) -> Result<(ProbePlan, Receiver<Value>), Fault> {
    let (tell_plan, plan) = channel();
    let (tell, told) = channel();
    let watch = move || {
        let mut said = serde_json::Deserializer::from_reader(stdin).into_iter::<Value>();
        let first = said.next().map(|first| first.and_then(serde_json::from_value::<ProbePlan>));
        if tell_plan.send(first).is_ok() {
            // An error ends it like the end of the input.
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

/// Raises the soft limit on open files to the hard one, because files of watched processes are held open.
fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If that fails, files are opened each time, which costs more but works.
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
