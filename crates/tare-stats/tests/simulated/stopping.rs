//! Runs that end by themselves: for their width they may, for what they found they must not.

use crate::simulated::experiment::Experiment;
use crate::simulated::noise::{Random, SETTINGS, SHARED};
use crate::simulated::spread::{self, Luck};
use crate::simulated::{error, simulate};
use tare_core::design::Arrangement;
use tare_core::record::{PRECISE_ENOUGH, Record};
use tare_stats::{Ratio, analyse, is_look, precise_enough};

const BLOCKS_MAX: u32 = 40;
const EXPERIMENTS: u32 = 400;

/// The first `blocks` blocks of a record.
fn first(record: &Record, blocks: u32) -> Record {
    let mut first = record.clone();
    first.trials.retain(|trial| trial.record.trial.block < blocks);
    first
}

fn ratio(record: &Record) -> Ratio {
    let ratios = analyse(record).metrics.swap_remove(0).ratios;
    ratios.into_iter().find(|ratio| ratio.arm == "f1").expect("the form was measured")
}

/// As the runner does it: looks after fixed numbers of blocks, at the width.
fn by_precision(whole: &Record) -> (Record, u32) {
    let most = whole.header.study.repeat;
    for blocks in (1..most).filter(|blocks| is_look(*blocks)) {
        let mut record = first(whole, blocks);
        if precise_enough(&record) {
            record.end.as_mut().expect("there is an end").how = PRECISE_ENOUGH.to_owned();
            return (record, blocks);
        }
    }
    (whole.clone(), most)
}

#[test]
fn ending_for_precision_keeps_what_is_promised() {
    for (setting, target) in SETTINGS.into_iter().zip([0.008, 0.02, 0.05]) {
        let experiment = Experiment::new(setting, Arrangement::Blocks, BLOCKS_MAX, 60.0);
        let (mut random, mut called, mut blocks_done, mut earlier) = (Random::new(81), 0, 0, 0);
        for _ in 0..EXPERIMENTS {
            let mut whole = experiment.carry_out(&mut random);
            whole.header.study.design.half_width = Some(target);
            let (record, blocks) = by_precision(&whole);
            let interval = ratio(&record).interval.expect("six blocks make an interval");
            let half_width = 0.5 * (interval.high / interval.low).ln();
            let asked = f64::ln_1p(target);
            assert!(blocks == BLOCKS_MAX || (half_width - asked).abs() < 1e-9, "it claims what was asked for");
            called += u32::from(!interval.contains(1.0));
            blocks_done += blocks;
            earlier += u32::from(blocks < BLOCKS_MAX);
        }
        let experiments = f64::from(EXPERIMENTS);
        let (called, mean) = (f64::from(called) / experiments, f64::from(blocks_done) / experiments);
        eprintln!("{}: called different {called}, mean {mean} blocks, {earlier} ended early", setting.name);
        assert!(called <= 0.05 + error(0.05, experiments), "{}: {called}", setting.name);
        assert!(f64::from(earlier) > 0.5 * experiments, "{}: the rule was hardly tested: {earlier}", setting.name);
    }
}

/// A metric that goes up when the deciding one goes down is as narrow as that when the run ends, for no better reason.
#[test]
fn ending_for_the_width_of_one_metric_flatters_no_other() {
    ends_with("p99_us", 0.0);
}

/// Each of the metrics that are waited for may be the last to become narrow.
#[test]
fn ending_for_the_width_of_several_metrics_flatters_none() {
    ends_with("p50_us", 0.004);
}

/// Runs with two metrics that go together but for so much noise of the second's own, ended for their width, hold what
/// intervals promise.
fn ends_with(beside: &str, own: f64) {
    const EXPERIMENTS: u32 = 1_500;
    let (mut random, mut called, mut blocks_done) = (Random::new(83), [0, 0], 0);
    let mut noise = Random::new(84);
    for _ in 0..EXPERIMENTS {
        let mut whole = spread::carry_out(Luck::Normal, &[1.0, 1.0, 1.0], &[0.0], 16, &mut random);
        whole.header.study.design.half_width = Some(0.012);
        for trial in &mut whole.trials {
            let throughput = trial.record.metrics["throughput"];
            trial.record.metrics.insert(beside.to_owned(), 1e8 / throughput * (own * noise.normal()).exp());
        }
        let (record, blocks) = by_precision(&whole);
        blocks_done += blocks;
        let analysis = analyse(&record);
        let measured = analysis.metrics.iter().filter(|metric| !metric.ratios.is_empty());
        for (metric, called) in measured.zip(&mut called) {
            let ratio = metric.ratios.iter().find(|ratio| ratio.arm == "f1").expect("the form was measured");
            *called += u32::from(!ratio.interval.expect("six blocks make an interval").contains(1.0));
        }
    }
    let experiments = f64::from(EXPERIMENTS);
    let called = called.map(|called| f64::from(called) / experiments);
    let mean = f64::from(blocks_done) / experiments;
    eprintln!("two metrics that go together: called different {called:?}, mean {mean} blocks");
    assert!(mean < 14.0, "the rule was hardly tested: {mean}");
    assert!(called.iter().all(|called| *called <= 0.05 + error(0.05, experiments)), "{called:?}");
}

#[test]
fn ending_for_what_was_found_would_be_noticed() {
    let experiment = Experiment::new(SHARED, Arrangement::Blocks, 20, 60.0);
    let mut random = Random::new(82);
    let called = (0..150).filter(|_| {
        let whole = experiment.carry_out(&mut random);
        (5..=20).any(|blocks| !ratio(&first(&whole, blocks)).interval.expect("an interval").contains(1.0))
    });
    let share = called.count() as f64 / 150.0;
    eprintln!("looking after every block calls {share} different");
    assert!(share > 0.12, "{share}");
    // While the same experiments, looked at once, are as good as any.
    let once = simulate(&experiment, 150, 82).called;
    assert!(once <= 0.05 + error(0.05, 150.0), "{once}");
}
