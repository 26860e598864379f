//! What runs say of each other: changes of ratios, and what one teaches of how far apart equals lie.

use crate::records::{of_shares, study};
use tare_core::fault::Fault;
use tare_core::record::{PRECISE_ENOUGH, Record};
use tare_core::trial::Outcome;
use tare_stats::{Analysis, Change, Occasions, Ratio, analyse, changes, equals, student_quantile};

/// The record with every other trial of an arm void.
fn void_in_half(mut record: Record, arm: &str) -> Record {
    for trial in record.trials.iter_mut().map(|trial| &mut trial.record) {
        if trial.trial.arm() == arm && trial.trial.block % 2 == 0 {
            trial.outcome = Outcome::Invalid { why: Fault::new("it ran elsewhere") };
            trial.metrics.clear();
        }
    }
    record
}

fn control(analysis: &Analysis) -> &Ratio {
    analysis.metrics[0].ratios.iter().find(|ratio| ratio.arm == analysis.control).unwrap()
}

fn of_box(before: &Record, after: &Record) -> Change {
    let all = changes(&analyse(before), &analyse(after), &Occasions::new());
    all.into_iter().find(|change| change.form == "box").unwrap()
}

#[test]
fn who_is_void_in_half_of_a_run_has_not_changed() {
    let run = |share| of_shares(study(&["plain", "box"], 12), |arm| Some(if arm == "box" { share } else { 1.0 }));
    let (whole, slower) = (run(1.0), run(0.9));
    assert!(of_box(&whole, &slower).interval.unwrap().high < 1.0, "as long as its trials count");
    let void = void_in_half(slower, "box");
    for (before, after) in [(&whole, &void), (&void, &whole)] {
        let change = of_box(before, after);
        assert_eq!((change.before.blocks.len() + change.after.blocks.len(), change.interval), (18, None));
        assert_eq!((change.together, change.standard_error, change.degrees), (None, None, None));
    }
}

#[test]
fn where_equals_differ_nothing_has_changed() {
    let run = |equal: f64| {
        of_shares(study(&["plain", "box"], 12), move |arm| {
            Some(match arm {
                "plain" => 1.0,
                "box" => 0.9,
                _ => equal,
            })
        })
    };
    let (sound, unsound) = (run(1.0), run(1.3));
    assert!(of_box(&sound, &sound).interval.is_some());
    for (before, after) in [(&sound, &unsound), (&unsound, &sound)] {
        assert_eq!(of_box(before, after).interval, None);
    }
}

#[test]
fn intervals_of_all_changes_hold_together() {
    let record = of_shares(study(&["plain", "box", "net"], 12), |_| Some(1.0));
    let all = changes(&analyse(&record), &analyse(&record), &Occasions::new());
    assert_eq!(all.len(), 3, "the control is one of them");
    for change in all {
        let half = student_quantile(0.5 * (1.0 + 0.95_f64.powf(1.0 / 3.0)), change.degrees.unwrap());
        let (alone, together) = (change.interval.unwrap(), change.together.unwrap());
        assert!(together.low < alone.low && alone.high < together.high, "{change:?}");
        assert!((together.high.ln() - half * change.standard_error.unwrap()).abs() < 1e-9, "{change:?}");
    }
}

#[test]
fn equals_teach_with_their_own_error_and_not_with_the_one_that_is_claimed() {
    // With a form beside them, and without: then it is their own width that ended the run.
    for forms in [&["plain", "box"][..], &["plain"]] {
        let mut record = of_shares(study(forms, 6), |_| Some(1.0));
        let whole = analyse(&record);
        let own = equals(&whole)["throughput"];
        assert!((own.standard_error / control(&whole).standard_error.unwrap() - 1.0).abs() < 1e-9);
        assert!(own.degrees == 5.0 && (own.log - control(&whole).ratio.ln()).abs() < 1e-12, "{own:?}");
        record.header.study.design.half_width = Some(0.2);
        record.end.as_mut().unwrap().how = PRECISE_ENOUGH.into();
        let ended = analyse(&record);
        assert!(control(&ended).standard_error.unwrap() > 3.0 * own.standard_error, "{:?}", control(&ended));
        assert_eq!(equals(&ended)["throughput"], own, "{forms:?}");
    }
}

#[test]
fn equals_of_which_one_is_void_more_often_teach_nothing() {
    let record = || of_shares(study(&["plain", "box"], 12), |_| Some(1.0));
    let control = analyse(&record()).control;
    assert!(!equals(&analyse(&record())).is_empty());
    for arm in ["plain", control.as_str()] {
        assert!(equals(&analyse(&void_in_half(record(), arm))).is_empty(), "{arm}");
    }
    assert!(!equals(&analyse(&void_in_half(record(), "box"))).is_empty(), "what is a form's own");
}
