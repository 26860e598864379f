//! A real server in two forms side by side, under one load that moves between them every few milliseconds.

use crate::end_to_end::lab::{Lab, flat, text};
use tare_core::record::TrialData;
use tare_core::telemetry::{PROBE, RESTED};
use tare_core::trial::Outcome;

const STUDY: &str = "\
study: chopped
workload: redis
repeat: 1
design: chop
load: {closed: {connections: 10, pipeline: 1}}
time: {settle: 200ms, measure: 1s}
forms: {plain: [], boxed: [container: {}]}
";

#[test]
fn two_forms_and_the_control_take_turns_under_one_load() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let (said, record) = lab.run(STUDY);
    let (mut rates, mut at_work_ns, mut span_ns) = (std::collections::BTreeMap::new(), 0, 0);
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        let load = trial.load.as_ref().unwrap();
        let turns = load.turns.unwrap();
        // Turns of 10 ms, or ten response times where that is more.
        assert!(turns.turns >= 5 && turns.active_ns >= 1_000_000_000, "{arm}: {turns:?}");
        (at_work_ns, span_ns) = (at_work_ns + turns.active_ns, load.measure_end_ns - load.measure_start_ns);
        assert!(load.checks.iter().all(|check| check.passed), "{arm}: {:?}", load.checks);
        let operations: u64 = load.operations.values().map(|operation| operation.count).sum();
        let rate = operations as f64 / (turns.steady_ns() as f64 / 1e9);
        // To start and to drain takes a small part of a turn.
        assert!(turns.move_ns.is_some_and(|ns| ns.unsigned_abs() < turns.slice_ns / 5), "{arm}: {turns:?}");
        assert!((rate / trial.metrics["throughput"] - 1.0).abs() < 1e-9, "{arm}: {rate}");
        // Parts of the turns lie around the whole, moves included.
        let all = operations as f64 / (turns.active_ns as f64 / 1e9);
        let [lowest, highest] = [f64::min, f64::max].map(|either| load.batches.iter().copied().reduce(either));
        assert!(lowest.unwrap() > 0.0 && lowest.unwrap() <= all, "{arm}: {all}, {:?}", load.batches);
        assert!(highest.unwrap() >= all && load.batches.len() <= 8, "{arm}: {all}, {:?}", load.batches);
        assert!(trial.alone.as_ref().is_some_and(|alone| alone.turns.is_none()), "{arm}");
        assert!(trial.metrics["cpu_us_per_op"] > 0.0, "{arm}: {:?}", trial.metrics);
        rates.insert(arm, rate);
    }
    assert!(at_work_ns <= span_ns, "one at a time is at work: {at_work_ns} of {span_ns} ns");
    // The same server twice, met by whatever else the machine does at the same moments.
    let equal = rates["plain (A/A)"] / rates["plain"];
    assert!((0.8..1.25).contains(&equal), "{rates:?}");
    assert!(rates["boxed"] < rates["plain"], "a published port costs much: {rates:?}");
    assert!(said.contains("load chopped into") && said.lines().all(|line| line.chars().count() <= 80), "{said}");
}

#[test]
fn waiting_forms_are_frozen_if_the_study_says_so() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let (said, record) = lab.run(&STUDY.replace("design: chop", "design: {chop: {slice: 20ms, freeze: true}}"));
    assert!(said.contains("who waits frozen"), "{said}");
    assert_eq!(record.trials.len(), 3);
    for trial in record.trials.iter().map(|trial| &trial.record) {
        let arm = trial.trial.arm();
        assert_eq!(trial.outcome, Outcome::Measured, "{arm}");
        let turns = trial.load.as_ref().unwrap().turns.unwrap();
        let freeze_ns = turns.freeze_ns.unwrap_or_else(|| panic!("{arm} was not frozen in every turn"));
        assert!(freeze_ns > 0 && freeze_ns < turns.slice_ns / 2, "{arm}: {turns:?}");
    }
    let whole = flat(&lab.expect(0, &["report", text(&lab.path("record")), "--verbose"]));
    assert!(whole.contains("freezing the form before and thawing this one takes"), "{whole}");
}

/// When the sampler of a trial rested: the readings around each rest, s.
fn rests(trial: &TrialData) -> Vec<(f64, f64)> {
    let own = trial.telemetry.iter().filter(|row| row.scope == PROBE);
    let rows: Vec<(f64, f64)> =
        own.map(|row| (row.at_ns as f64 / 1e9, row.values.get(RESTED).copied().unwrap_or(0.0))).collect();
    rows.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| (pair[0].0, pair[1].0)).collect()
}

#[test]
fn the_samplers_of_all_forms_rest_together_and_the_report_says_what_they_cost() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap"]) else { return };
    let (_, record) = lab.run(&STUDY.replace("measure: 1s", "measure: 4s").replace("repeat: 1", "repeat: 2"));
    let first = rests(&record.trials[0]);
    assert_eq!(first.len(), 2, "twelve seconds have room for two: {first:?}");
    let half = |trial: &TrialData| trial.record.rest_half.expect("they rested");
    let in_other_half = |trial: &&TrialData| half(trial) != half(&record.trials[0]);
    assert_eq!(record.trials.iter().filter(in_other_half).count(), 3, "all of the other block");
    for trial in &record.trials {
        let arm = trial.record.trial.arm();
        assert_eq!(trial.record.outcome, Outcome::Measured, "{arm}");
        let same_block = |other: &&TrialData| other.record.trial.block == trial.record.trial.block;
        let first = rests(record.trials.iter().find(same_block).expect("itself at least"));
        for ((from_s, to_s), (first_s, _)) in rests(trial).into_iter().zip(&first) {
            assert!(
                (1.9..2.5).contains(&(to_s - from_s)) && (from_s - first_s).abs() < 0.5,
                "{arm}: {from_s} to {to_s}"
            );
        }
        assert_eq!(rests(trial).len(), 2, "{arm}");
        let load = trial.record.load.as_ref().unwrap();
        let turns = load.turns.unwrap();
        assert_eq!(load.spans.iter().map(|span| span.answers).sum::<u64>(), turns.answers, "{arm}");
        assert!(load.spans.iter().any(|span| span.used.cpu_ns > 0), "{arm}: {:?}", load.spans);
        // Gaps between readings are no stalls, and nothing is missing.
        assert!(trial.record.metrics["cpu_us_per_op"] > 0.0, "{arm}: {:?}", trial.record.metrics);
    }
    let cost = tare_stats::analyse(&record).apparatus.probe_cost.expect("samplers rested");
    assert_eq!((cost.trials, cost.rests, cost.interval), (6, 4, None), "{cost:?}");
    assert!((0.8..1.25).contains(&cost.ratio), "{cost:?}");
    assert!(cost.forms.iter().all(|form| form.cpu_per_op.is_some()), "{cost:?}");
    let whole = flat(&lab.expect(0, &["report", text(&lab.path("record")), "--verbose"]));
    assert!(whole.contains("operations than while it rests (4 rests)") && whole.contains(" probe boxed "), "{whole}");
}
