//! When services are ready: those that do their work and end, and those that a command asks.

use crate::stage;

use stage::{Ran, Trouble, fresh, header, once, run, run_keeping};
use std::path::Path;
use std::time::Duration;
use tare_core::host::InstanceState;
use tare_core::load::LoadProfile;
use tare_core::record::{Header, TrialRecord};
use tare_core::trial::{Outcome, Stage};
use tare_core::workload::{Prepared, Readiness, Service};
use tare_runner::{Attempt, Event, read_record};

/// A service that does its work and ends, and the one that is loaded.
fn seeded() -> Header {
    let mut header = header(&["plain"], 1);
    let toy = header.workload.services[0].clone();
    let ready = Readiness::Ended { within: Duration::from_secs(1) };
    header.workload.services = vec![Service { name: "seed".to_owned(), ready, ..toy.clone() }, toy];
    header
}

/// The loaded service, which a command asks.
fn asked() -> Header {
    let mut header = header(&["plain"], 1);
    let seconds = Duration::from_secs;
    let command = ["ask", "-h"].map(str::to_owned).to_vec();
    header.workload.services[0].ready =
        Readiness::Command { command, every: seconds(1), timeout: seconds(5), within: seconds(20) };
    header
}

/// The steps of the first trial.
fn first(ran: &Ran) -> Vec<&str> {
    let until = ran.log.iter().position(|step| step == "close").expect("it is closed");
    ran.log[..=until].iter().map(String::as_str).collect()
}

fn first_record(path: &Path) -> TrialRecord {
    read_record(path).unwrap().trials.remove(0).record
}

#[test]
fn a_service_that_ends_is_gone_before_the_next_one_starts_and_nobody_asks_for_it() {
    let (_folder, path) = fresh();
    let ran = run(&path, &seeded(), &[], None);
    let wanted = [
        "open plain",
        "resources",
        "resources",
        "start seed",
        "stop seed",
        "start toy",
        "drive Ready",
        "drive Populate",
        "begin probe",
        "drive Run",
        "end probe",
        "files of toy",
        "stop toy",
        "close",
    ];
    assert_eq!(first(&ran), wanted);
    let record = first_record(&path);
    assert_eq!(record.outcome, Outcome::Measured);
    assert!(record.warnings.is_empty() && record.logs.is_empty(), "{:?}", record.warnings);
    assert!(record.finished.keys().eq(["seed"]) && record.mapped.keys().eq(["toy"]), "{:?}", record.finished);
}

#[test]
fn one_that_ends_otherwise_fails_the_trial_with_its_last_lines() {
    let (_folder, path) = fresh();
    let ran = run(&path, &seeded(), &[("plain", Trouble::SeedFails)], None);
    assert_eq!(first(&ran)[3..], ["start seed", "stop seed", "close"]);
    let record = first_record(&path);
    let Outcome::Failed { stage: Stage::Deploy, why } = &record.outcome else { panic!("{:?}", record.outcome) };
    assert_eq!(why.message, "service seed did not do its work: exit code 3");
    assert_eq!((why.log.as_str(), record.logs["seed"].as_str()), ("the last words", "the last words"));
    assert_eq!(record.service_ended.as_deref(), Some("seed"));
    assert!(record.finished.is_empty());
}

#[test]
fn what_a_service_printed_that_has_ended_is_kept_when_another_fails() {
    let (_folder, path) = fresh();
    let ran = run_keeping(&path, &seeded(), &[("plain", Trouble::DiesUnderLoad)], false);
    let kept = ran.events.iter().find_map(|event| match event {
        Event::KeptStanding { deployments } => Some(&deployments[0].services),
        _ => None,
    });
    let [seed, toy] = kept.expect("it is kept standing").as_slice() else { panic!("{kept:?}") };
    assert_eq!(seed.state, Some(InstanceState::Ended("exit code 0".to_owned())));
    assert!(seed.ways_in.is_empty() && seed.log == "the last words" && !toy.ways_in.is_empty(), "{seed:?}");
}

#[test]
fn data_that_a_service_loads_and_ends_are_kept() {
    let (_folder, path) = fresh();
    let mut header = seeded();
    let mut store = header.workload.services[1].clone();
    "store".clone_into(&mut store.name);
    store.volumes.insert("/data".to_owned(), tare_core::workload::Volume::of(1));
    header.workload.services.insert(0, store);
    header.workload.prepared = Some(Prepared { volumes: vec!["store".to_owned()], by: "seed".to_owned() });
    let ran = run(&path, &header, &[], None);
    let steps = first(&ran);
    let at = steps.iter().position(|step| *step == "start store").unwrap();
    let wanted = [
        "start store",
        "start seed",
        "stop seed",
        "stop store",
        "keep /places/store/0 of store seed",
        "restore /places/store/0 of store seed",
        "start store",
        "start seed",
        "stop seed",
        "start toy",
    ];
    assert_eq!(steps[at..at + wanted.len()], wanted);
    assert_eq!(steps[steps.len() - 3..], ["stop toy", "stop store", "close"]);
    assert_eq!(first_record(&path).outcome, Outcome::Measured);
}

#[test]
fn loads_are_tried_beside_a_service_that_has_ended() {
    let (settle, measure, timeout) = (Duration::ZERO, Duration::from_millis(400), Duration::from_secs(1));
    let attempt = Attempt { profile: LoadProfile::Closed { connections: 1, pipeline: 1 }, settle, measure, timeout };
    let (tried, log) =
        once(&seeded(), Trouble::None, |once, apparatus| once.load(apparatus, |load| load(&attempt).map(drop)));
    tried.unwrap();
    let wanted = ["open plain", "start seed", "stop seed", "start toy", "drive Ready", "drive Populate", "drive Run"];
    assert_eq!(log, [&wanted[..], &["stop toy", "close"]].concat());
}

#[test]
fn a_command_asks_until_it_succeeds_and_then_the_load_does() {
    let (_folder, path) = fresh();
    let ran = run(&path, &asked(), &[("plain", Trouble::WellInTime)], None);
    let ask = "begin ask -h beside toy";
    assert_eq!(first(&ran)[2..7], ["start toy", ask, ask, ask, "drive Ready"]);
    assert_eq!(first(&ran).iter().filter(|step| step.starts_with("begin ask")).count(), 3, "never again");
    assert_eq!(first_record(&path).outcome, Outcome::Measured);
}

#[test]
fn a_command_that_never_succeeds_is_told_with_what_it_printed() {
    let (_folder, path) = fresh();
    let ran = run(&path, &asked(), &[("plain", Trouble::Unwell)], None);
    let record = first_record(&path);
    let Outcome::Failed { stage: Stage::Deploy, why } = &record.outcome else { panic!("{:?}", record.outcome) };
    let wanted = "service toy was not ready within 20 s: the command 'ask -h' failed: exit code 1; it printed: fine \
                  but not yet";
    assert_eq!(why.message, wanted);
    let attempts = first(&ran).iter().filter(|step| step.starts_with("begin ask")).count();
    assert!((20..=21).contains(&attempts), "one a second: {attempts}");
    assert_eq!(record.service_ended, None);
}
