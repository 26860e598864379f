//! What is usually done, on the same machines: it must fail here, or the machines are too kind to test anything.

use crate::simulated::experiment::Experiment;
use crate::simulated::noise::{Random, SETTINGS, SHARED};
use tare_core::design::Arrangement;
use tare_core::record::Record;
use tare_stats::student_quantile;

/// Welch's interval for the difference of two means: whether it holds `truth`.
fn welch_holds(a: &[f64], b: &[f64], truth: f64) -> bool {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let squared_error = |values: &[f64]| {
        let (mean, n) = (mean(values), values.len() as f64);
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0) / n
    };
    let (va, vb) = (squared_error(a), squared_error(b));
    let degrees = (va + vb).powi(2) / (va.powi(2) / (a.len() as f64 - 1.0) + vb.powi(2) / (b.len() as f64 - 1.0));
    (mean(b) - mean(a) - truth).abs() <= student_quantile(0.975, degrees) * (va + vb).sqrt()
}

/// The logs of throughput of an arm's windows of 15 s, all trials together.
fn windows(record: &Record, arm: &str) -> Vec<f64> {
    let trials = record.trials.iter().filter(|trial| trial.record.trial.arm() == arm);
    trials.flat_map(|trial| trial.seconds.iter().map(|row| (row.operations as f64 / row.seconds).ln())).collect()
}

/// The logs of throughput of an arm's trials.
fn trials(record: &Record, arm: &str) -> Vec<f64> {
    let trials = record.trials.iter().filter(|trial| trial.record.trial.arm() == arm);
    trials.map(|trial| trial.record.metrics["throughput"].ln()).collect()
}

#[test]
fn windows_taken_as_independent_miss_the_truth() {
    for setting in SETTINGS {
        let (mut random, mut holds) = (Random::new(71), 0);
        let experiment = Experiment::new(setting, Arrangement::Blocks, 10, 570.0).effects(&[-0.02]);
        for _ in 0..100 {
            let record = experiment.carry_out(&mut random);
            holds += u32::from(welch_holds(&windows(&record, "f0"), &windows(&record, "f1"), -0.02));
        }
        let coverage = f64::from(holds) / 100.0;
        eprintln!("{}: windows as independent cover {coverage}", setting.name);
        assert!(coverage < 0.75, "{}: {coverage}", setting.name);
    }
}

#[test]
fn all_of_one_form_before_the_other_misses_the_truth() {
    let (mut random, mut holds) = (Random::new(72), 0);
    let experiment = Experiment::new(SHARED, Arrangement::Blocks, 10, 570.0);
    for _ in 0..200 {
        let record = experiment.one_form_first(&mut random);
        holds += u32::from(welch_holds(&trials(&record, "f0"), &trials(&record, "f1"), 0.0));
    }
    let coverage = f64::from(holds) / 200.0;
    eprintln!("one form before the other covers {coverage}");
    assert!(coverage < 0.85, "{coverage}");
}
