//! Data sets that are kept: when they are made, when they are restored, and what becomes of trials when they cannot be.

use crate::stage;

use stage::{Ran, Trouble, fresh, header, outcomes, run, run_with};
use std::path::Path;
use tare_core::record::{Header, TrialRecord};
use tare_core::trial::{Outcome, Stage};
use tare_core::workload::{Prepared, Volume};
use tare_runner::{Ending, read_record};

const KEEP: &str = "keep /places/store/0 of store filler";
const RESTORE: &str = "restore /places/store/0 of store filler";
const FORGET: &str = "forget /places/store/0 of store filler";
/// All that makes the data, started for that alone and stopped again.
const MADE: [&str; 5] = ["start store", "start filler", "stop filler", "stop store", KEEP];

/// A store, a service that fills it, and the one that is loaded.
fn prepared(forms: &[&str], repeat: u32) -> Header {
    let mut header = header(forms, repeat);
    let toy = header.workload.services[0].clone();
    let named = |name: &str| {
        let mut service = toy.clone();
        service.name = name.to_owned();
        service
    };
    let (mut store, filler) = (named("store"), named("filler"));
    store.volumes.insert("/data".to_owned(), Volume::of(1));
    header.workload.services = vec![store, filler, toy.clone()];
    header.workload.prepared = Some(Prepared { volumes: vec!["store".to_owned()], by: "filler".to_owned() });
    header
}

/// What was done to deploy in each trial.
fn deployments(ran: &Ran) -> Vec<Vec<&str>> {
    let trials = ran.log.split(|line| line.starts_with("open ")).skip(1);
    let deploying = |trial: &&[String]| trial.iter().take_while(|line| *line != "drive Populate").count();
    let step = |line: &&str| ["start", "stop", "keep", "restore", "forget"].iter().any(|step| line.starts_with(step));
    trials.map(|trial| trial[..deploying(&trial)].iter().map(String::as_str).filter(step).collect()).collect()
}

fn trials(path: &Path) -> Vec<TrialRecord> {
    read_record(path).unwrap().trials.into_iter().map(|trial| trial.record).collect()
}

fn facts(path: &Path) -> Vec<String> {
    trials(path).iter().map(|trial| trial.facts["data"].clone()).collect()
}

/// Steps, after each other.
fn steps(parts: &[&[&'static str]]) -> Vec<&'static str> {
    parts.concat()
}

const ALL: [&str; 3] = ["start store", "start filler", "start toy"];

#[test]
fn data_are_kept_once_and_restored_in_every_trial_even_the_first() {
    let (_folder, path) = fresh();
    let ran = run(&path, &prepared(&["plain"], 2), &[], None);
    let deployments = deployments(&ran);
    assert_eq!(deployments[0], steps(&[&MADE, &[RESTORE], &ALL]));
    assert!(deployments.len() > 2);
    for other in &deployments[1..] {
        assert_eq!(*other, steps(&[&[RESTORE], &ALL]));
    }
    assert!(facts(&path).iter().all(|fact| fact == "restored from a kept copy"), "{:?}", facts(&path));
    assert!(trials(&path).iter().all(|trial| trial.outcome == Outcome::Measured && trial.warnings.is_empty()));
}

#[test]
fn where_volumes_stand_nowhere_each_trial_loads_and_says_so() {
    let (_folder, path) = fresh();
    let ran = run(&path, &prepared(&["guest"], 1), &[("guest", Trouble::Nowhere)], None);
    assert!(deployments(&ran).iter().all(|steps| *steps == ALL), "{:#?}", ran.log);
    assert!(facts(&path).iter().all(|fact| fact == "loaded in this deployment"));
    assert!(trials(&path).iter().all(|trial| trial.outcome == Outcome::Measured && trial.warnings.is_empty()));
}

#[test]
fn what_cannot_be_kept_is_loaded_without_a_warning() {
    let (_folder, path) = fresh();
    let ran = run(&path, &prepared(&["full"], 1), &[("full", Trouble::KeepFails)], None);
    assert_eq!(deployments(&ran)[0], steps(&[&MADE, &ALL]));
    assert!(facts(&path).iter().all(|fact| fact == "loaded in this deployment"));
    assert!(trials(&path).iter().all(|trial| trial.outcome == Outcome::Measured && trial.warnings.is_empty()));
}

#[test]
fn what_cannot_be_restored_is_loaded_with_a_warning() {
    let (_folder, path) = fresh();
    let ran = run(&path, &prepared(&["full"], 1), &[("full", Trouble::RestoreFails)], None);
    assert_eq!(deployments(&ran)[1], steps(&[&[RESTORE], &ALL]));
    let warning = "the kept data could not be restored and were loaded: no room";
    assert!(trials(&path).iter().all(|trial| trial.outcome == Outcome::Measured && trial.warnings == [warning]));
    assert!(facts(&path).iter().all(|fact| fact == "loaded in this deployment"));
}

#[test]
fn what_services_start_without_is_told_once_in_each_trial() {
    let (_folder, path) = fresh();
    let ran = run(&path, &prepared(&["plain"], 2), &[("plain", Trouble::Lacks)], None);
    assert_eq!(deployments(&ran)[0], steps(&[&MADE, &[RESTORE], &ALL]), "the first starts two of them twice");
    let told = ["store has no name", "filler has no name", "toy has no name"];
    assert!(trials(&path).iter().all(|trial| trial.outcome == Outcome::Measured && trial.warnings == told));
}

#[test]
fn a_copy_on_which_nothing_starts_fails_its_trial_and_is_made_anew() {
    let (_folder, path) = fresh();
    let once = |_: &str, opened| if opened == 0 { Trouble::BadCopy } else { Trouble::None };
    let ran = run_with(&path, &prepared(&["plain"], 1), &once, None);
    assert_eq!(deployments(&ran)[0][MADE.len()..][..3], [RESTORE, "start store", FORGET]);
    assert_eq!(deployments(&ran)[1], steps(&[&MADE, &[RESTORE], &ALL]));
    let first = &outcomes(&path)["plain"][0];
    assert!(matches!(first, Outcome::Failed { stage: Stage::Deploy, .. }), "{first:?}");
    let why = first.why().unwrap().message.clone();
    assert!(why.contains("restored from a kept copy") && why.contains("the files are damaged"), "{why}");
}

#[test]
fn what_does_not_come_up_is_not_kept() {
    let (_folder, path) = fresh();
    let ran = run(&path, &prepared(&["dead"], 1), &[("dead", Trouble::NeverReady)], None);
    assert_eq!(ran.ending, Ending::Complete);
    assert!(!ran.log.iter().any(|line| line.starts_with("keep") || line.starts_with("forget")), "{:#?}", ran.log);
    assert!(matches!(outcomes(&path)["dead"][0], Outcome::Failed { stage: Stage::Deploy, .. }));
    let count = |what: &str| ran.log.iter().filter(|line| *line == what).count();
    assert!(count("stop store") > 0);
    assert_eq!(count("start store"), count("stop store"));
}
