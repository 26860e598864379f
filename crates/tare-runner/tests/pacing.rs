//! A time limit makes the plan fit: by how long trials take, in whole rounds, and so that the run ends complete.

use crate::stage;

use stage::{Ran, Trouble, fresh, header, run, run_paced, run_with};
use std::path::Path;
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::plan::plan;
use tare_core::profile::Profiled;
use tare_core::record::{Header, Record};
use tare_runner::{Ending, Event, FormPace, Pace, overheads, read_record};
use tare_stats::{Missing, Warning, analyse};

/// A plain process, whose trials take 2 s, and a box, in five blocks within `most` seconds.
fn within(most: u64) -> Header {
    let mut header = header(&["plain", "box"], 5);
    header.study.at_most = Some(Duration::from_secs(most));
    header
}

/// What was said of how many blocks fit: blocks, of how many, trials, and how many seconds another round takes.
fn fitted(ran: &Ran) -> Vec<(u32, u32, u32, u64)> {
    let said = ran.events.iter().filter_map(|event| match event {
        Event::Fitted { blocks, of, trials, round, .. } => Some((*blocks, *of, *trials, round.as_secs())),
        _ => None,
    });
    said.collect()
}

/// Of each trial that was begun: blocks in all, and how many seconds are left.
fn begun(ran: &Ran) -> Vec<(u32, u64)> {
    let begun = ran.events.iter().filter_map(|event| match event {
        Event::TrialStarted { blocks, left, .. } => Some((*blocks, left.as_secs())),
        _ => None,
    });
    begun.collect()
}

fn read(path: &Path) -> Record {
    read_record(path).unwrap()
}

#[test]
fn as_many_whole_blocks_as_fit_are_a_complete_run() {
    let (_folder, path) = fresh();
    let header = within(33);
    // 2 s + 2 s + 6 s: three blocks of 10 s are done after 30 s.
    let takes = [("box", Trouble::Takes(4))];
    let ran = run(&path, &header, &takes, None);
    assert_eq!(ran.ending, Ending::Fitted);
    assert_eq!(fitted(&ran), [(3, 5, 9, 10)], "it is said once");
    let begun = begun(&ran);
    assert!(begun[..3].iter().all(|(blocks, _)| *blocks == 5) && begun[3..].iter().all(|(blocks, _)| *blocks == 3));
    assert_eq!((begun[3].1, begun[6].1), (20, 10), "what does not fit is not awaited");
    let record = read(&path);
    assert_eq!((record.trials.len(), record.lost().len()), (9, 0));
    let end = record.end.as_ref().unwrap();
    assert!(end.how == "fitted" && end.is_whole());
    let analysis = analyse(&record);
    assert!(
        !analysis
            .warnings
            .iter()
            .any(|warning| matches!(warning, Warning::Missing { what: Missing::Unfinished { .. } })),
        "{:?}",
        analysis.warnings
    );
    assert!(analysis.arms.iter().all(|arm| (arm.measured, arm.planned) == (3, 3)), "{:?}", analysis.arms);
    // Nothing is left to run.
    let again = run(&path, &header, &takes, None);
    assert!(again.ending == Ending::Fitted && again.log.is_empty(), "{:#?}", again.log);
}

#[test]
fn the_number_of_blocks_does_not_depend_on_what_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let troubles = [("fine", Trouble::None), ("slow", Trouble::Slow), ("wrong", Trouble::WrongAnswers)];
    let trials = troubles.map(|(name, trouble)| {
        let path = folder.path().join(name);
        let ran = run(&path, &within(21), &[("box", trouble)], None);
        (ran.ending, read(&path).trials.len())
    });
    assert_eq!(trials, [(Ending::Fitted, 9); 3]);
}

#[test]
fn what_only_the_first_trial_takes_is_learnt_or_known() {
    let folder = tempfile::tempdir().unwrap();
    // Blocks of 20 s, then 6 s: after the first, another two seem to be too long.
    let first = |form: &str, opened| if (form, opened) == ("box", 0) { Trouble::Takes(14) } else { Trouble::None };
    let path = folder.path().join("learnt");
    let ran = run_with(&path, &within(52), &first, None);
    assert_eq!((ran.ending, fitted(&ran)), (Ending::Complete, vec![(2, 5, 6, 20), (5, 5, 15, 6)]));
    // Told by an earlier run what later trials take, it does not take the first for a measure.
    let known = overheads(&read(&path));
    assert_eq!(known["box"], Duration::ZERO);
    let of = |overhead| FormPace { overhead: Some(overhead), ..FormPace::default() };
    let pace = Pace::new(known.into_iter().map(|(form, overhead)| (form, of(overhead))).collect());
    let path = folder.path().join("known");
    let ran = run_paced(&path, &within(52), &first, None, pace);
    assert_eq!((ran.ending, fitted(&ran)), (Ending::Complete, vec![]));
    assert_eq!(begun(&ran)[0].1, 30, "15 trials of 2 s, as far as is known");
}

#[test]
fn what_settling_until_steady_may_take_is_foreseen() {
    let mut study = within(60).study;
    let pace = Pace::new([].into());
    let fixed = pace.of_trial(&study, "plain");
    study.design.steady_within = Some(study.settle + Duration::from_secs(60));
    assert_eq!(pace.of_trial(&study, "plain"), fixed + Duration::from_secs(60));
}

#[test]
fn a_round_that_was_begun_is_carried_out() {
    let (_folder, path) = fresh();
    let header = within(13);
    // Killed in the second of three blocks of 6 s, and started again when the time is almost over.
    assert_eq!(run(&path, &header, &[], Some(6)).ending, Ending::Interrupted);
    assert_eq!(read(&path).trials.len(), 5);
    let ran = run(&path, &header, &[("plain", Trouble::Takes(9)), ("box", Trouble::Takes(9))], None);
    assert_eq!(ran.ending, Ending::Fitted);
    let record = read(&path);
    assert!(record.trials.len() == 6 && record.lost().is_empty(), "{:?}", record.lost());
}

#[test]
fn of_duets_whole_rounds_are_carried_out() {
    let (_folder, path) = fresh();
    let mut header = within(0);
    header.study.design.arrangement = Arrangement::Duet;
    header.plan = plan(&header.study, &[], 7);
    // The first round is, however long it takes: the box and the control, each beside the baseline.
    let ran = run(&path, &header, &[], None);
    assert_eq!((ran.ending, fitted(&ran).len()), (Ending::Fitted, 1));
    let pairs: Vec<u32> = read(&path).trials.iter().map(|trial| trial.record.trial.block).collect();
    assert_eq!(pairs, [0, 0, 1, 1]);
}

#[test]
fn profiled_trials_are_counted_behind_what_counts() {
    let (_folder, path) = fresh();
    let mut header = within(33);
    header.study.profile = Some(Profiled::All);
    let ran = run(&path, &header, &[("box", Trouble::Takes(4))], None);
    assert!(ran.events.contains(&Event::RunStarted { trials: 17, done: 0 }));
    assert_eq!(fitted(&ran), [(3, 5, 11, 10)]);
    let begun = begun(&ran);
    // 2 s and 6 s of profiled trials on top; the last of them is the box's.
    assert_eq!((begun.len(), begun[3].1, begun[6].1, begun[9].1, begun[10].1), (11, 28, 18, 8, 6));
}
