//! What a stop leaves that comes while a trial is verified, and a request to end after the block.

use crate::stage;

use stage::{Trouble, asker, fresh, header, run, run_with};
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::plan::plan;
use tare_core::trial::Outcome;
use tare_runner::{Ending, Event, read_record};
use tare_stats::{Missing, Warning, analyse};

#[test]
fn a_stop_while_files_are_compared_leaves_no_row_and_nothing_that_stands() {
    for arrangement in Arrangement::all() {
        let (_folder, path) = fresh();
        let mut header = header(&["plain", "box"], 1);
        header.study.measure = Duration::from_secs(60);
        header.study.design.arrangement = arrangement.clone();
        header.plan = plan(&header.study, &[], 7);
        let first = run(&path, &header, &[("box", Trouble::StoppedWhileCompared)], None);
        assert_eq!(first.ending, Ending::Interrupted, "{arrangement:?}");
        // What was measured before it is kept; the trial that it cut short did not fail, and its files do not differ.
        for trial in read_record(&path).unwrap().trials {
            assert_eq!((trial.record.trial.form.as_str(), trial.record.outcome), ("plain", Outcome::Measured));
        }
        let count = |what: &str| first.log.iter().filter(|line| line.starts_with(what)).count();
        assert!(count("open ") > 0 && count("open ") == count("close"), "{arrangement:?}: {:?}", first.log);
        assert_eq!(count("start "), count("stop "), "{arrangement:?}: {:?}", first.log);
        // A run that goes on repeats it, and compares its files.
        assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete, "{arrangement:?}");
        let record = read_record(&path).unwrap();
        assert_eq!(record.trials.len(), header.plan.len(), "{arrangement:?}");
        assert!(record.trials.iter().all(|trial| trial.record.outcome == Outcome::Measured), "{arrangement:?}");
        let mut boxed = record.trials.iter().filter(|trial| trial.record.trial.form == "box");
        assert!(boxed.any(|trial| trial.record.files.contains_key("toy")), "{arrangement:?}");
    }
}

#[test]
fn a_run_that_is_asked_to_end_does_so_after_its_block_and_says_who_asked() {
    for arrangement in Arrangement::all() {
        let (_folder, path) = fresh();
        let mut header = header(&["plain", "box"], 3);
        header.study.measure = Duration::from_secs(60);
        header.study.design.arrangement = arrangement.clone();
        header.plan = plan(&header.study, &[], 7);
        let second =
            |form: &str, opened| if (form, opened) == ("box", 1) { Trouble::AskedToEnd } else { Trouble::None };
        let ran = run_with(&path, &header, &second, None);
        assert_eq!(ran.ending, Ending::OnRequest, "{arrangement:?}");
        let told = ran.events.iter().filter(|event| **event == Event::EndAsked { by: asker() }).count();
        assert_eq!(told, 1, "{arrangement:?}");
        let record = read_record(&path).unwrap();
        let end = record.end.as_ref().unwrap();
        assert_eq!((end.how.as_str(), end.asked_by.as_ref()), ("on request", Some(&asker())), "{arrangement:?}");
        let boxed = record.trials.iter().filter(|trial| trial.record.trial.form == "box").count();
        assert!(boxed == 2 && record.trials.len() < header.plan.len(), "{arrangement:?}: {boxed}");
        assert!(record.lost().is_empty() && end.is_whole(), "{arrangement:?}: {:?}", record.lost());
        let warnings = analyse(&record).warnings;
        let by = Some(asker());
        let said = Warning::EndedOnRequest { by, there: record.trials.len(), planned: header.plan.len() };
        assert!(warnings.contains(&said), "{arrangement:?}: {warnings:?}");
        let unfinished = |warning: &Warning| matches!(warning, Warning::Missing { what: Missing::Unfinished { .. } });
        assert!(!warnings.iter().any(unfinished), "{arrangement:?}: {warnings:?}");
    }
}

#[test]
fn a_run_that_is_asked_to_end_in_its_last_block_is_complete_and_runs_none_again() {
    let (_folder, path) = fresh();
    let troubles = |form: &str, opened: u32| match (form, opened) {
        ("box", 0) => Trouble::WrongAnswers,
        ("box", 1) => Trouble::AskedToEnd,
        _ => Trouble::None,
    };
    let ran = run_with(&path, &header(&["plain", "box"], 2), &troubles, None);
    assert_eq!((ran.ending, read_record(&path).unwrap().trials.len()), (Ending::Complete, 6));
}
