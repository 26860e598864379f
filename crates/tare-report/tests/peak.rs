//! The sample record as if it had been a search for the peak.

use crate::sample;

use sample::record;
use tare_core::fault::Fault;
use tare_core::load::LoadProfile;
use tare_core::peak::{PeakEnding, PeakOutcome, PeakPlan, PeakRules};
use tare_core::plan::plan_again;
use tare_core::record::{NULL_COST, PEAK_LOAD, Record, TrialData};
use tare_core::trial::Outcome;
use tare_report::{FORMATS, Style};
use tare_stats::analyse;

fn outcome(peak: f64) -> PeakOutcome {
    PeakOutcome {
        ending: PeakEnding::Found,
        rules: PeakRules::Staircase,
        unit: "users".into(),
        criteria: Vec::new(),
        peak: Some(peak),
        low: Some(0.99 * peak),
        high: Some(1.01 * peak),
        slope: None,
        binding: None,
        curve: Vec::new(),
        load_s: 1200.0,
        notes: Vec::new(),
        warnings: Vec::new(),
        windows: Vec::new(),
    }
}

fn search(trial: &mut TrialData, peak: f64) {
    trial.record.peak = Some(outcome(peak));
    trial.record.metrics = [(PEAK_LOAD.to_owned(), peak)].into();
}

/// Five blocks of searches, of which the second was run again because the baseline's was void.
fn searched() -> Record {
    let mut record = record();
    let usual = PeakPlan::usual(&LoadProfile::Closed { connections: 1, pipeline: 1 }, Vec::new()).unwrap();
    record.header.study.peak = Some(PeakPlan { unit: "users".into(), ..usual });
    record.header.environment.insert(NULL_COST.to_owned(), "0.0345".to_owned());
    let again = plan_again(&record.header.plan, 1, 5, record.header.plan.len() as u32, 1);
    for planned in again {
        let mut trial = record.trials.iter().find(|trial| trial.record.trial.arm() == planned.arm()).unwrap().clone();
        trial.record.trial = planned;
        record.trials.push(trial);
    }
    for trial in record.trials.iter_mut().filter(|trial| trial.record.outcome == Outcome::Measured) {
        let peak = 1000.0 + f64::from(trial.record.trial.block);
        search(trial, peak);
    }
    for trial in record.trials.iter_mut().filter(|trial| trial.record.trial.block == 1) {
        // It found something, and must not be used.
        if trial.record.trial.arm() == "native" {
            trial.record.outcome = Outcome::Invalid { why: Fault::new("the generator was saturated") };
            trial.record.metrics.clear();
        }
    }
    record
}

fn terminal(record: &Record) -> String {
    let row = FORMATS.iter().find(|row| row.name == "terminal").unwrap();
    (row.render)(record, &analyse(record), &Style { color: false, width: 120, verbose: true }).unwrap()
}

#[test]
fn only_searches_that_count_are_counted() {
    let text = terminal(&searched());
    // By hand: 1000, 1002, 1003, 1004 and 1005 have the mean 1002.8 and the deviation 1.92; t(.975, 4) = 2.776.
    assert!(text.contains("native: 1,003 users [1,000, 1,005] over 5 searches"), "{text}");
    // One block that counts, one that does not: the interval is that of the search which does.
    let mut short = searched();
    short.trials.retain(|trial| [1, 5].contains(&trial.record.trial.block));
    let text = terminal(&short);
    assert!(text.contains("native: 1,005 users; this one deployment [995, 1,015]"), "{text}");
}

#[test]
fn the_null_cost_is_shown_where_nothing_stands_beside_it() {
    let text = terminal(&searched());
    assert!(text.contains("apparatus  generator 0.0345 us CPU per op for bookkeeping"), "{text}");
    let mut unknown = searched();
    unknown.header.environment.remove(NULL_COST);
    assert!(!terminal(&unknown).contains("bookkeeping"));
}
