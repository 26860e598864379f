//! Profiled trials: run behind those that count, kept apart from them, and never among the figures.

use crate::stage;

use stage::{Trouble, fresh, header, run};
use std::path::Path;
use tare_core::profile::Profiled;
use tare_core::record::{Header, Record};
use tare_core::trial::Outcome;
use tare_runner::{Ending, read_record};
use tare_stats::analyse;

fn profiled(forms: &[&str], repeat: u32) -> Header {
    let mut header = header(forms, repeat);
    header.study.profile = Some(Profiled::All);
    header
}

fn read(path: &Path) -> Record {
    read_record(path).unwrap()
}

#[test]
fn they_come_last_and_no_figure_knows_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["with", "without"].map(|name| folder.path().join(name));
    let ran = run(&paths[0], &profiled(&["plain", "boxed"], 3), &[], None);
    assert_eq!(ran.ending, Ending::Complete);
    let own = [
        "open plain",
        "start toy",
        "drive Ready",
        "drive Populate",
        "begin probe",
        "begin profile",
        "drive Run",
        "end probe",
        "end profile",
        "stop toy",
        "close",
    ];
    let first = ran.log.iter().position(|line| line == "begin profile").expect("it was profiled") - 5;
    assert_eq!(ran.log[first..first + own.len()], own);
    let counted = run(&paths[1], &header(&["plain", "boxed"], 3), &[], None);
    assert_eq!(ran.log[..first], counted.log, "what counts is run as without profiles");
    let [with, without] = paths.map(|path| read(&path));
    assert_eq!(with.trials, without.trials);
    assert_eq!(analyse(&with).metrics, analyse(&without).metrics);
    assert_eq!(analyse(&with).arms, analyse(&without).arms);
    let forms: Vec<&str> = with.profiles.iter().map(|trial| trial.record.trial.form.as_str()).collect();
    assert_eq!(forms, ["plain", "boxed"]);
    for trial in &with.profiles {
        assert!(trial.record.trial.profiled && trial.record.outcome == Outcome::Measured);
        let profile = trial.record.profile.as_ref().expect("it was profiled");
        assert_eq!((profile.stacks[0].samples, profile.calls["toy"]["read"]), (3, 10.0));
        assert_eq!(profile.from_ns, trial.record.load.as_ref().unwrap().measure_start_ns);
    }
}

#[test]
fn one_that_fails_says_why_and_spoils_nothing() {
    let (_folder, path) = fresh();
    let ran = run(&path, &profiled(&["plain", "boxed"], 2), &[("boxed", Trouble::NoProfiler)], None);
    assert_eq!(ran.ending, Ending::Complete);
    let record = read(&path);
    assert!(record.trials.iter().all(|trial| trial.record.outcome == Outcome::Measured));
    let outcomes: Vec<&Outcome> = record.profiles.iter().map(|trial| &trial.record.outcome).collect();
    assert_eq!(*outcomes[0], Outcome::Measured);
    assert!(outcomes[1].why().is_some_and(|why| why.message.contains("nothing can be watched")));
}

#[test]
fn an_interrupted_one_is_run_when_the_run_goes_on() {
    let (_folder, path) = fresh();
    let header = profiled(&["plain", "boxed"], 1);
    // Three trials count, the first profile is the fourth.
    let ran = run(&path, &header, &[], Some(5));
    assert_eq!(ran.ending, Ending::Interrupted);
    let record = read(&path);
    assert_eq!((record.trials.len(), record.profiles.len()), (3, 1));
    assert!(record.end.is_some_and(|end| !end.is_whole()));
    let again = run(&path, &header, &[], None);
    assert_eq!(again.log.iter().filter(|line| line.starts_with("open")).count(), 1, "{:#?}", again.log);
    assert_eq!((again.ending, read(&path).profiles.len()), (Ending::Complete, 2));
}
