//! Runs carried out on the stage, and how they went.

use super::{Log, TestApparatus, TestClock, Trouble};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tare_core::record::Header;
use tare_core::trial::Outcome;
use tare_core::units::CpuSet;
use tare_runner::{Ending, Event, Once, Pace, RecordDir, Run, Stop, read_record};
use tempfile::TempDir;

/// A folder of the test's own, and where a record may come to lie in it.
pub(crate) fn fresh() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    (folder, path)
}

pub(crate) struct Ran {
    pub(crate) log: Vec<String>,
    pub(crate) ending: Ending,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn run(path: &Path, header: &Header, troubles: &[(&str, Trouble)], stop_in_run: Option<u32>) -> Ran {
    let always = |form: &str, _| troubles.iter().find(|(of, _)| *of == form).map_or(Trouble::None, |(_, it)| *it);
    run_with(path, header, &always, stop_in_run)
}

/// The same with troubles that come and go.
pub(crate) fn run_with(
    path: &Path,
    header: &Header,
    troubles: &dyn Fn(&str, u32) -> Trouble,
    stop_in_run: Option<u32>,
) -> Ran {
    run_paced(path, header, troubles, stop_in_run, Pace::untimed(&header.forms))
}

/// The same where this is known of how long trials take.
pub(crate) fn run_paced(
    path: &Path,
    header: &Header,
    troubles: &dyn Fn(&str, u32) -> Trouble,
    stop_in_run: Option<u32>,
    pace: Pace,
) -> Ran {
    run_on(path, header, troubles, (stop_in_run, None), pace)
}

/// The same where what fails is kept standing; whether the user `ends` the run when it is.
pub(crate) fn run_keeping(path: &Path, header: &Header, troubles: &[(&str, Trouble)], ends: bool) -> Ran {
    let always = |form: &str, _| troubles.iter().find(|(of, _)| *of == form).map_or(Trouble::None, |(_, it)| *it);
    run_on(path, header, &always, (None, Some(ends)), Pace::untimed(&header.forms))
}

fn run_on(
    path: &Path,
    header: &Header,
    troubles: &dyn Fn(&str, u32) -> Trouble,
    (stop_in_run, keeps_failed): (Option<u32>, Option<bool>),
    pace: Pace,
) -> Ran {
    let clock = TestClock::default();
    let log = Log::default();
    let stop = Stop::default();
    let mut apparatus = TestApparatus {
        log: log.clone(),
        clock: &clock,
        troubles,
        opened: BTreeMap::new(),
        hosts: BTreeMap::new(),
        kept: Vec::new(),
        stop_in_run,
        keeps_failed,
        stop: stop.clone(),
        runs: 0,
    };
    let (record, done) = if path.join("record.json").exists() {
        let done = read_record(path).unwrap().trials.into_iter().map(|trial| trial.record).collect();
        (RecordDir::open(path).unwrap(), done)
    } else {
        (RecordDir::create(path, header).unwrap(), Vec::new())
    };
    let cpus = CpuSet::new([0, 1]);
    let run = Run { header, generator_cpus: cpus.clone(), service_cpus: cpus, record, done, pace };
    let mut events = Vec::new();
    let ending = run.carry_out(&mut apparatus, &clock, &stop, &mut |event| events.push(event.clone()));
    let log = log.lock().unwrap().clone();
    Ran { log, ending: ending.unwrap(), events }
}

/// Deploys the first form once, outside of a plan, where each form has this trouble. What `work` returns, and what
/// hosts and loads were asked for.
pub(crate) fn once<T>(
    header: &Header,
    trouble: Trouble,
    work: impl FnOnce(&Once<'_>, &mut TestApparatus<'_>) -> T,
) -> (T, Vec<String>) {
    let (clock, log, stop) = (TestClock::default(), Log::default(), Stop::default());
    let mut apparatus = TestApparatus {
        log: log.clone(),
        clock: &clock,
        troubles: &|_, _| trouble,
        opened: BTreeMap::new(),
        hosts: BTreeMap::new(),
        kept: Vec::new(),
        stop_in_run: None,
        keeps_failed: None,
        stop: stop.clone(),
        runs: 0,
    };
    let cpus = CpuSet::new([0, 1]);
    let once = Once { header, generator_cpus: &cpus, service_cpus: &cpus, clock: &clock, stop: &stop };
    let worked = work(&once, &mut apparatus);
    let log = log.lock().unwrap().clone();
    (worked, log)
}

pub(crate) fn outcomes(path: &Path) -> BTreeMap<String, Vec<Outcome>> {
    let mut outcomes: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    for trial in read_record(path).unwrap().trials {
        outcomes.entry(trial.record.trial.arm()).or_default().push(trial.record.outcome);
    }
    outcomes
}
