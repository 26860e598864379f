//! Finds how many connections suit a service: enough to keep it busy, and not so many that requests only queue.

use super::{FORM, Ground, form_to_look_at};
use crate::catalog;
use anyhow::Result;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::load::{LoadOrigin, LoadProfile, LoadSummary};
use tare_core::record::FAILED_SHARE;
use tare_core::study::Study;
use tare_core::workload::Workload;
use tare_runner::{Attempt, Stop, TryLoad};

/// The most connections that are tried.
const CONNECTIONS_MAX: u32 = 256;
/// More connections must raise the throughput by this factor to be worth it.
const GAIN: f64 = 1.05;
/// This many doublings without such a gain settle it; one may be chance.
const BEYOND: usize = 2;
/// No further number is tried after this many times as long as each is measured.
const BUDGET: u32 = 15;
/// How long load runs before it counts.
const SETTLE: Duration = Duration::from_millis(100);
/// How long each number of connections is measured; the second time is for services that answer nothing within the
/// first.
const MEASURES: [Duration; 2] = [Duration::from_millis(400), Duration::from_secs(2)];
/// How long one operation may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a tool is tried, and how much longer it may take: some need seconds to start.
const TOOL_MEASURE: Duration = Duration::from_secs(2);
const TOOL_TIMEOUT: Duration = Duration::from_secs(15);
/// If more than this share of the operations fail, the service cannot bear the load.
const FAILED_MOST: f64 = 0.01;

/// A number of connections, and what it came to in a closed loop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) connections: u32,
    pub(crate) operations_per_s: f64,
    /// The median response time.
    pub(crate) p50: Duration,
    /// Why more connections could not be tried, in words; none if more of them brought no gain.
    pub(crate) limited: Option<String>,
}

/// Deploys a workload once, writes its data set, and doubles the number of connections from 1 as long as that raises
/// the throughput by at least 5 %: for about six seconds at most, or thirty if the service is slow, and the seconds
/// that deploying takes. Parameters, options, instances and the load's origin are the study's; its forms and its load
/// profile have no meaning here.
///
/// # Errors
/// When the load is a tool, which has its own connections; when the workload was not deployed, or did not answer a
/// single connection; on an interrupt, or when something of it is left.
pub(crate) fn connections(
    ground: &Ground,
    study: &Study,
    workload: &mut Workload,
    say: &mut dyn FnMut(&str),
) -> Result<Found> {
    let spoken = &workload.protocol.protocol;
    if catalog::protocol(spoken).is_none_or(|protocol| !protocol.tells_seconds()) || study.from == LoadOrigin::Inside {
        let fault = Fault::new(format!("protocol '{spoken}' runs a tool, whose connections are its own"));
        return Err(fault.remedy("give the tool the number of connections").into());
    }
    let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let header = ground.header(short(ground, study, workload, closed), workload, say)?;
    ground.deploy(&header, |once, machine| once.load(machine, |load| climb(load, &ground.stop)))
}

/// The study with one form, in which the services can be reached, and this load.
fn short(ground: &Ground, study: &Study, workload: &Workload, load: LoadProfile) -> Study {
    let usual = Study::of(FORM, &study.workload, load, vec![form_to_look_at(workload, &ground.carrier)]);
    Study {
        from: study.from,
        timeout: study.timeout,
        placement: study.placement.clone(),
        kept: study.kept,
        instances: study.instances.clone(),
        options: study.options.clone(),
        parameters: study.parameters.clone(),
        ..usual
    }
}

/// What a tool told when it was tried.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tried {
    pub(crate) operations_per_s: f64,
    /// The median response time, if the tool tells one.
    pub(crate) p50: Option<Duration>,
    /// The share of the operations that failed.
    pub(crate) failed: f64,
    /// Why the tool itself may have been the limit, in words.
    pub(crate) busy: Option<String>,
}

/// Deploys a workload once and runs the tool that is its load once, with the load of the study. A tool that takes its
/// time from Tare is given two seconds.
///
/// # Errors
/// When the workload was not deployed; as a mistake, when the tool's output has no result; when the tool failed, or not
/// one operation succeeded; on an interrupt, or when something of it is left.
pub(crate) fn try_tool(
    ground: &Ground,
    study: &Study,
    workload: &mut Workload,
    say: &mut dyn FnMut(&str),
) -> Result<Tried> {
    let profile = study.load.clone();
    let header = ground.header(short(ground, study, workload, profile.clone()), workload, say)?;
    let attempt = Attempt { profile, settle: Duration::ZERO, measure: TOOL_MEASURE, timeout: TOOL_TIMEOUT };
    ground.deploy(&header, |once, machine| once.load(machine, |load| tried(&load(&attempt)?)))
}

/// What a tool's result came to.
fn tried(summary: &LoadSummary) -> Result<Tried, Fault> {
    let figures = tare_stats::trial_metrics(summary, &[]).map_err(Fault::new)?;
    let figure = |name: &str| figures.metrics.get(name).copied();
    let failed = figure(FAILED_SHARE).unwrap_or(0.0);
    let p50 = figure("p50_us").filter(|us| *us > 0.0).map(|us| Duration::from_secs_f64(us / 1e6));
    match figure("throughput").filter(|rate| *rate > 0.0) {
        Some(operations_per_s) => Ok(Tried { operations_per_s, p50, failed, busy: summary.saturated.clone() }),
        None => Err(Fault::new("the tool reports that none of its operations succeeded")),
    }
}

/// Doubles the number of connections until that is no gain any more.
fn climb(load: &mut TryLoad<'_>, stop: &Stop) -> Result<Found, Fault> {
    let began = Instant::now();
    let (first, measure) = first(load, stop)?;
    let (mut levels, mut limited) = (vec![first], None);
    while let Some(connections) = next(&levels) {
        if began.elapsed() >= BUDGET * measure {
            limited = Some(format!("there was no time to try {connections}"));
            break;
        }
        match level(load, connections, measure) {
            Ok(level) => levels.push(level),
            Err(fault) if stop.raised() => return Err(fault),
            Err(fault) => {
                limited = Some(fault.message);
                break;
            }
        }
    }
    Ok(Found { limited, ..levels.swap_remove(best(&levels)) })
}

/// The result of one connection, and how long it had to be measured.
fn first(load: &mut TryLoad<'_>, stop: &Stop) -> Result<(Found, Duration), Fault> {
    let mut last = None;
    for measure in MEASURES {
        match level(load, 1, measure) {
            Ok(level) => return Ok((level, measure)),
            Err(fault) if stop.raised() => return Err(fault),
            Err(fault) => last = Some(fault),
        }
    }
    Err(last.expect("at least one time was tried"))
}

fn level(load: &mut TryLoad<'_>, connections: u32, measure: Duration) -> Result<Found, Fault> {
    let profile = LoadProfile::Closed { connections, pipeline: 1 };
    let summary = load(&Attempt { profile, settle: SETTLE, measure, timeout: TIMEOUT })?;
    judged(connections, &summary)
}

/// What a load came to, unless it says nothing about what the service can do.
fn judged(connections: u32, summary: &LoadSummary) -> Result<Found, Fault> {
    let with = format!("with {connections} connection{}", if connections == 1 { "" } else { "s" });
    let figures = tare_stats::trial_metrics(summary, &[]).map_err(|why| Fault::new(format!("{with}, {why}")))?;
    let figure = |name: &str| figures.metrics.get(name).copied();
    let failed = figure(FAILED_SHARE).unwrap_or(0.0);
    if failed > FAILED_MOST {
        let kinds: Vec<String> = summary.failures.iter().map(|(kind, count)| format!("{count} x {kind}")).collect();
        let share = failed * 100.0;
        return Err(Fault::new(format!("{with}, {share:.0} % of the operations failed: {}", kinds.join(", "))));
    }
    // A single connection cannot use up the generator: it only waits.
    if let Some(why) = summary.saturated.as_ref().filter(|_| connections > 1) {
        return Err(Fault::new(format!("{with}, the generator was the limit: {why}")));
    }
    match (figure("throughput").filter(|rate| *rate > 0.0), figure("p50_us")) {
        (Some(operations_per_s), Some(p50_us)) => {
            let p50 = Duration::from_secs_f64(p50_us.max(0.0) / 1e6);
            Ok(Found { connections, operations_per_s, p50, limited: None })
        }
        _ => Err(Fault::new(format!("{with}, nothing was answered"))),
    }
}

/// The first number of connections that none of the later ones outdoes by a gain worth it.
fn best(levels: &[Found]) -> usize {
    let is_outdone = |at: usize| levels[at + 1..].iter().any(|later| outdoes(later, &levels[at]));
    (0..levels.len()).find(|at| !is_outdone(*at)).unwrap_or(0)
}

fn outdoes(later: &Found, earlier: &Found) -> bool {
    later.operations_per_s >= earlier.operations_per_s * GAIN
}

/// The number to try next; none once it is settled which is best.
fn next(levels: &[Found]) -> Option<u32> {
    let last = levels.last()?;
    let settled = levels.len() - 1 - best(levels) >= BEYOND;
    Some(last.connections * 2).filter(|next| *next <= CONNECTIONS_MAX && !settled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tare_core::load::OperationSummary;

    /// A load whose throughput is this function of the connections; it fails where that is none.
    fn served(connections: u32, rate: impl Fn(u32) -> Option<u64>) -> Result<LoadSummary, Fault> {
        let count = rate(connections).ok_or_else(|| Fault::new("too many clients"))?;
        let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        // By Little's law.
        histogram.record_n(u64::from(connections) * 1_000_000_000 / count, count).unwrap();
        let response_time = tare_testkit::histogram::encode(&histogram);
        let service_time = response_time.clone();
        let operation = OperationSummary { count, service_time, response_time, ..OperationSummary::default() };
        let operations = BTreeMap::from([("GET".to_owned(), operation)]);
        Ok(LoadSummary { measure_start_ns: 1, measure_end_ns: 1_000_000_001, operations, ..LoadSummary::default() })
    }

    fn climbed(rate: impl Fn(u32) -> Option<u64>) -> (Result<Found, Fault>, Vec<u32>) {
        let mut tried = Vec::new();
        let mut load = |attempt: &Attempt| {
            let LoadProfile::Closed { connections, .. } = attempt.profile else { panic!("{attempt:?}") };
            tried.push(connections);
            served(connections, &rate)
        };
        let found = climb(&mut load, &Stop::default());
        (found, tried)
    }

    #[test]
    fn connections_are_doubled_until_throughput_gains_nothing() {
        let (found, tried) = climbed(|connections| Some(u64::from(connections.min(8)) * 1000));
        let found = found.unwrap();
        assert_eq!((found.connections, found.limited), (8, None));
        assert!((found.operations_per_s - 8000.0).abs() < 1.0, "{}", found.operations_per_s);
        assert!((found.p50.as_secs_f64() - 0.001).abs() < 1e-5, "{:?}", found.p50);
        assert_eq!(tried, [1, 2, 4, 8, 16, 32], "two more, since one could be chance");
    }

    #[test]
    fn a_single_bad_moment_does_not_end_it() {
        let rate = |connections: u32| Some(if connections == 4 { 1900 } else { u64::from(connections.min(64)) * 1000 });
        assert_eq!(climbed(rate).0.unwrap().connections, 64);
        let (found, tried) = climbed(|_| Some(1000));
        assert_eq!((found.unwrap().connections, tried), (1, vec![1, 2, 4]), "one at a time is all that it does");
        assert_eq!(climbed(|connections| Some(u64::from(connections) * 1000)).0.unwrap().connections, 256);
    }

    #[test]
    fn a_tool_that_was_tried_tells_its_rate() {
        let told = |count: u64, errors: u64, throughput: f64| {
            let operation = OperationSummary { count, errors, ..OperationSummary::default() };
            let reported = BTreeMap::from([("throughput".to_owned(), throughput), ("p50_us".to_owned(), 1500.0)]);
            let operations = BTreeMap::from([("request".to_owned(), operation)]);
            let (measure_start_ns, measure_end_ns) = (1, 1_000_000_001);
            LoadSummary { measure_start_ns, measure_end_ns, operations, reported, ..LoadSummary::default() }
        };
        let found = tried(&told(500, 0, 500.0)).unwrap();
        assert_eq!((found.operations_per_s, found.p50), (500.0, Some(Duration::from_micros(1500))));
        let fault = tried(&told(0, 500, 0.0)).unwrap_err();
        assert!(fault.message.contains("none of its operations succeeded"), "{fault}");
    }

    #[test]
    fn what_refuses_more_gets_no_more() {
        let rate = |connections: u32| (connections <= 64).then(|| u64::from(connections) * 1000);
        let found = climbed(rate).0.unwrap();
        assert_eq!((found.connections, found.limited.as_deref()), (64, Some("too many clients")));
        let (found, tried) = climbed(|_| None);
        assert_eq!(found.unwrap_err().message, "too many clients");
        assert_eq!(tried, [1, 1], "for a longer time, too");
    }

    #[test]
    fn failures_and_a_busy_generator_say_nothing_of_the_service() {
        let load = served(2, |_| Some(1000)).unwrap();
        assert!(judged(2, &load).is_ok());
        let mut failing = load.clone();
        failing.operations.get_mut("GET").unwrap().errors = 1000;
        failing.failures.insert("status 404".to_owned(), 1000);
        let told = judged(2, &failing).unwrap_err().message;
        assert_eq!(told, "with 2 connections, 50 % of the operations failed: 1000 x status 404");
        let busy = LoadSummary { saturated: Some("its CPU was busy".to_owned()), ..load };
        assert!(judged(2, &busy).unwrap_err().message.contains("the generator was the limit: its CPU was busy"));
        assert!(judged(1, &busy).is_ok());
        assert!(judged(1, &LoadSummary::default()).unwrap_err().message.starts_with("with 1 connection, "));
    }
}
