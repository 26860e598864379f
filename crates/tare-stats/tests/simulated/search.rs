//! Searches for the best of several forms: they end for what they found, and must not find what is not there.

use crate::simulated::error;
use crate::simulated::experiment::Experiment;
use crate::simulated::noise::{Random, SETTINGS, SHARED};
use crate::simulated::spread::{self, Luck};
use tare_core::design::Arrangement;
use tare_core::record::Record;
use tare_stats::{contest, decided, is_lead_look};

const BLOCKS_MAX: u32 = 32;

/// As the runner does it, looking after some blocks: the form that is called the best, if any, and after how many
/// blocks.
fn search(mut whole: Record) -> (Option<String>, u32) {
    whole.header.study.design.best_in = Some("throughput".to_owned());
    for blocks in (1..=BLOCKS_MAX).filter(|blocks| is_lead_look(*blocks) || *blocks == BLOCKS_MAX) {
        let mut first = whole.clone();
        first.trials.retain(|trial| trial.record.trial.block < blocks);
        if decided(&first) {
            return (contest(&first, "throughput").map(|contest| contest.leader), blocks);
        }
    }
    (None, BLOCKS_MAX)
}

#[test]
fn of_equals_none_is_called_the_best() {
    const EXPERIMENTS: u32 = 80;
    for setting in SETTINGS {
        for effects in [&[0.0][..], &[0.0, -0.1, 0.0]] {
            let experiment = Experiment::new(setting, Arrangement::Blocks, BLOCKS_MAX, 60.0).effects(effects);
            let mut random = Random::new(91);
            let wrong = (0..EXPERIMENTS).filter(|_| search(experiment.carry_out(&mut random)).0.is_some()).count();
            let share = wrong as f64 / f64::from(EXPERIMENTS);
            eprintln!("{}, {} placements: {share} call one of equals the best", setting.name, effects.len() + 1);
            assert!(share <= 0.05 + error(0.05, f64::from(EXPERIMENTS)), "{}: {share}", setting.name);
        }
    }
}

/// Whoever leads among equals was chosen for it: its interval must allow for all that might have led, noise floor or
/// not.
#[test]
fn the_leads_of_equals_hold_none_as_often_as_promised() {
    const EXPERIMENTS: u32 = 2_000;
    for forms in [1, 3] {
        let mut random = Random::new(94);
        let clear = (0..EXPERIMENTS).filter(|_| {
            let spreads = vec![1.0; forms + 2];
            let record = spread::carry_out(Luck::Normal, &spreads, &vec![0.0; forms], 6, &mut random);
            let contest = contest(&record, "throughput").expect("all were measured");
            contest.leads.iter().all(|lead| lead.interval.is_some_and(|interval| interval.low > 1.0))
        });
        let share = clear.count() as f64 / f64::from(EXPERIMENTS);
        eprintln!("of {} equals the leader's intervals exclude 1 in {share}", forms + 1);
        assert!(share <= 0.05 + error(0.05, f64::from(EXPERIMENTS)), "{forms} forms: {share}");
    }
}

#[test]
fn what_is_better_is_found_and_the_sooner_the_larger_it_is() {
    const EXPERIMENTS: u32 = 40;
    let blocks_of = |effect: f64| {
        let effects = [effect, 0.0, -0.05];
        let experiment = Experiment::new(SHARED, Arrangement::Blocks, BLOCKS_MAX, 60.0).effects(&effects);
        let mut random = Random::new(92);
        let found: Vec<(Option<String>, u32)> =
            (0..EXPERIMENTS).map(|_| search(experiment.carry_out(&mut random))).collect();
        let right = found.iter().filter(|(best, _)| best.as_deref() == Some("f1")).count();
        let blocks = found.iter().map(|(_, blocks)| f64::from(*blocks)).sum::<f64>() / f64::from(EXPERIMENTS);
        eprintln!("a lead of {effect}: found in {right} of {EXPERIMENTS}, after {blocks} blocks on average");
        assert!(right as f64 >= 0.9 * f64::from(EXPERIMENTS), "{effect}: {right}");
        blocks
    };
    let (large, small) = (blocks_of(0.2), blocks_of(0.08));
    assert!(large < small && large < 12.0, "{large} and {small} blocks");
}

#[test]
fn where_less_is_better_the_leader_has_less() {
    let experiment = Experiment::new(SHARED, Arrangement::Blocks, 12, 60.0).effects(&[0.3, 0.1]);
    let mut record = experiment.carry_out(&mut Random::new(93));
    for trial in &mut record.trials {
        let throughput = trial.record.metrics["throughput"];
        trial.record.metrics.insert("p99_us".to_owned(), 1e8 / throughput);
    }
    let [more, less] = ["throughput", "p99_us"].map(|metric| contest(&record, metric).expect("all were measured"));
    assert_eq!((more.leader.as_str(), less.leader.as_str()), ("f1", "f1"));
    assert!(more.decided && less.decided, "{more:?} {less:?}");
    for (more, less) in more.leads.iter().zip(&less.leads) {
        assert!(more.ratio > 1.1 && less.ratio < 0.9, "{more:?} {less:?}");
        assert!(less.interval.expect("twelve blocks make one").high < 1.0, "{less:?}");
    }
}
