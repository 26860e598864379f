//! A trial that was loaded in slices: their figures one by one, and together.

use crate::cpu::{busy_cpu_s, serving_cpu_s};
use crate::histogram::add_recorded;
use crate::trial::{RATE, Spent, TrialFigures, figures, trial_metrics, window_ns};
use std::collections::BTreeMap;
use tare_core::load::{GeneratorHealth, LoadSummary};
use tare_core::telemetry::TelemetryRow;

/// A slice of load: what the generator and the counters brought.
pub type SliceLoad = (LoadSummary, Vec<TelemetryRow>);

/// What the slices of a trial come to.
#[derive(Debug)]
pub struct Sliced {
    /// Their loads as one: counts and histograms added, from the start of the first to the end of the last.
    pub load: LoadSummary,
    /// The figures of all of them together, over the time that was measured.
    pub figures: TrialFigures,
    /// The figures of each.
    pub by_slice: Vec<BTreeMap<String, f64>>,
}

/// Puts the slices of a trial together.
///
/// # Errors
/// When there is none, one of them measured nothing, or a histogram cannot be read.
pub fn sliced(slices: &[SliceLoad]) -> Result<Sliced, String> {
    let Some((first, rest)) = slices.split_first() else { return Err("no slice was measured".to_owned()) };
    let mut load = first.0.clone();
    for (other, _) in rest {
        add(&mut load, other)?;
    }
    // Whether the generator was the limit of a trial is asked of all of it.
    let awake: Option<Vec<&Vec<f64>>> = slices.iter().map(|(load, _)| Some(&load.health.as_ref()?.awake)).collect();
    if let (Some(health), Some(slices)) = (&mut load.health, awake) {
        let mean = |worker| slices.iter().filter_map(|awake| awake.get(worker)).sum::<f64>() / slices.len() as f64;
        health.awake = (0..health.awake.len()).map(mean).collect();
    }
    let by_slice: Result<Vec<BTreeMap<String, f64>>, String> =
        slices.iter().map(|(load, telemetry)| Ok(trial_metrics(load, telemetry)?.metrics)).collect();
    let spent = Spent {
        window_ns: slices.iter().map(|(load, _)| window_ns(load)).sum(),
        serving_cpu_s: slices.iter().map(|(load, telemetry)| serving_cpu_s(load, telemetry)).sum(),
        busy_cpu_s: slices.iter().map(|(load, telemetry)| busy_cpu_s(load, telemetry)).sum(),
    };
    Ok(Sliced { figures: figures(&load, &spent)?, by_slice: by_slice?, load })
}

/// Loads of several instances at the same moment as one: counts and histograms added, over the mean of their windows.
///
/// # Errors
/// When there is none or a histogram cannot be read.
pub fn side_by_side(loads: &[LoadSummary]) -> Result<LoadSummary, String> {
    let Some((first, rest)) = loads.split_first() else { return Err("no instance was loaded".to_owned()) };
    let mut load = first.clone();
    for other in rest {
        add(&mut load, other)?;
        add_windows(&mut load, other);
        load.generator_cpus += other.generator_cpus;
        load.metrics.clear();
    }
    // Their workers are not the same ones.
    if let Some(health) = &mut load.health {
        let all = || loads.iter().filter_map(|load| load.health.as_ref());
        health.busy = all().flat_map(|health| health.busy.clone()).collect();
        health.awake = all().flat_map(|health| health.awake.clone()).collect();
    }
    // Of what tools of others say, rates add up; percentiles without a histogram do not.
    let rates: Option<Vec<f64>> = loads.iter().map(|load| load.reported.get(RATE).copied()).collect();
    let rate = rates.map(|rates| (RATE.to_owned(), rates.iter().sum::<f64>()));
    if !rest.is_empty() {
        load.reported = rate.into_iter().collect();
    }
    // They began within milliseconds of each other: what one did before the others is not over a longer time.
    let mean = |of: fn(&LoadSummary) -> u64| {
        (loads.iter().map(|load| u128::from(of(load))).sum::<u128>() / loads.len() as u128) as u64
    };
    (load.measure_start_ns, load.measure_end_ns) =
        (mean(|load| load.measure_start_ns), mean(|load| load.measure_end_ns));
    Ok(load)
}

/// The least by the mean: 1 when all are served alike.
pub fn fairness(throughputs: &[f64]) -> Option<f64> {
    let mean = throughputs.iter().sum::<f64>() / throughputs.len() as f64;
    (mean > 0.0).then(|| throughputs.iter().copied().fold(f64::INFINITY, f64::min) / mean)
}

fn add(sum: &mut LoadSummary, other: &LoadSummary) -> Result<(), String> {
    sum.measure_start_ns = sum.measure_start_ns.min(other.measure_start_ns);
    sum.measure_end_ns = sum.measure_end_ns.max(other.measure_end_ns);
    for (name, operation) in &other.operations {
        let own = sum.operations.entry(name.clone()).or_default();
        own.count += operation.count;
        own.errors += operation.errors;
        own.empty += operation.empty;
        own.after_end += operation.after_end;
        let unreadable = |why: String| format!("the times of operation '{name}' cannot be read: {why}");
        add_recorded(&mut own.service_time, &operation.service_time).map_err(unreadable)?;
        add_recorded(&mut own.response_time, &operation.response_time).map_err(unreadable)?;
    }
    sum.dropped += other.dropped;
    sum.offered += other.offered;
    sum.started += other.started;
    sum.generator_cpu_s += other.generator_cpu_s;
    sum.late_acks = sum.late_acks.zip(other.late_acks).map(|(one, more)| one + more);
    sum.saturated = sum.saturated.take().or_else(|| other.saturated.clone());
    // What held in every slice is said once; what did not is said each time.
    let known = |sum: &LoadSummary, name: &str| sum.checks.iter().any(|check| check.name == name && check.passed);
    for check in &other.checks {
        if !check.passed || !known(sum, &check.name) {
            sum.checks.push(check.clone());
        }
    }
    for (kind, count) in &other.failures {
        *sum.failures.entry(kind.clone()).or_default() += count;
    }
    sum.facts.extend(other.facts.clone());
    sum.turns = sum.turns.zip(other.turns).map(|(own, others)| own.and(&others));
    if let (Some(own), Some(other)) = (&mut sum.health, &other.health) {
        worst(own, other);
    }
    Ok(())
}

/// Adds the windows of another instance to those of the same step. Percentiles of parts make none of the whole, so what
/// is left of the times is the worst by operation.
fn add_windows(sum: &mut LoadSummary, other: &LoadSummary) {
    for own in &mut sum.windows {
        own.times = None;
        let Some(other) = other.windows.iter().find(|window| window.number == own.number) else { continue };
        own.offered += other.offered;
        own.started += other.started;
        own.dropped += other.dropped;
        own.saturated = own.saturated.take().or_else(|| other.saturated.clone());
        for (name, counts) in &other.operations {
            let own = own.operations.entry(name.clone()).or_default();
            own.planned += counts.planned;
            own.answered += counts.answered;
            own.over_limit += counts.over_limit;
            own.failed += counts.failed;
            own.unanswered += counts.unanswered;
            own.p50_us = own.p50_us.max(counts.p50_us);
            own.p99_us = own.p99_us.max(counts.p99_us);
        }
    }
}

/// Makes a generator's health the worse of two: whether it was the limit is asked of the worst moment.
fn worst(own: &mut GeneratorHealth, other: &GeneratorHealth) {
    own.busy.iter_mut().zip(&other.busy).for_each(|(own, other)| *own = own.max(*other));
    own.late_p50_us = own.late_p50_us.max(other.late_p50_us);
    own.late_p99_us = own.late_p99_us.max(other.late_p99_us);
    own.late_max_us = own.late_max_us.max(other.late_max_us);
    own.late += other.late;
    own.lag_p99_us = own.lag_p99_us.max(other.lag_p99_us);
    own.lag_max_us = own.lag_max_us.max(other.lag_max_us);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::tests::operation;
    use tare_core::load::{Check, OperationSummary, WindowCounts, WindowRow, WindowTimes};
    use tare_core::telemetry::Vantage;

    /// A slice that begins at `start_s`, lasts two seconds, and in which `count` operations took `us` each.
    fn slice(start_s: u64, count: u64, us: u64) -> SliceLoad {
        let mut load = LoadSummary {
            measure_start_ns: start_s * 1_000_000_000,
            measure_end_ns: (start_s + 2) * 1_000_000_000,
            generator_cpu_s: 0.1,
            checks: vec![Check {
                always: false,
                outcome: false,
                name: "counts".into(),
                passed: true,
                detail: String::new(),
            }],
            ..LoadSummary::default()
        };
        load.operations.insert("get".into(), operation((0..count).map(|_| us * 1_000)));
        // Twenty microseconds of CPU for each operation, on counters that stand still between slices.
        let row = |second: u64| TelemetryRow {
            at_ns: (start_s + second) * 1_000_000_000,
            vantage: Vantage::Host,
            scope: "server".into(),
            serving: true,
            values: [("cpu_total_s".to_owned(), 20e-6 * count as f64 * second as f64 / 2.0)].into(),
        };
        (load, (0..3).map(row).collect())
    }

    #[test]
    fn slices_add_up_and_what_lies_between_them_does_not_count() {
        let slices = [slice(10, 3_000, 100), slice(100, 1_000, 900)];
        let sliced = sliced(&slices).unwrap();
        let near = |value: f64, wanted: f64| assert!((value / wanted - 1.0).abs() < 0.002, "{value}, not {wanted}");
        near(sliced.figures.metrics["throughput"], 1_000.0);
        near(sliced.figures.metrics["p50_us"], 100.0);
        near(sliced.figures.metrics["p90_us"], 900.0);
        near(sliced.figures.metrics["cpu_us_per_op"], 20.0);
        near(sliced.figures.metrics["generator_cpu_us_per_op"], 50.0);
        near(sliced.by_slice[0]["throughput"], 1_500.0);
        near(sliced.by_slice[1]["p50_us"], 900.0);
        assert_eq!(sliced.load.operations["get"].count, 4_000);
        assert_eq!(sliced.load.checks.len(), 1);
        assert_eq!((sliced.load.measure_start_ns, sliced.load.measure_end_ns), (10_000_000_000, 102_000_000_000));
    }

    #[test]
    fn loads_of_one_moment_add_up_over_one_window() {
        let (one, other) = (slice(10, 3_000, 100).0, slice(10, 1_000, 900).0);
        let late = LoadSummary {
            measure_start_ns: other.measure_start_ns + 20_000_000,
            measure_end_ns: other.measure_end_ns + 20_000_000,
            ..other
        };
        let health =
            |busy: f64, late_max_us: f64| GeneratorHealth { busy: vec![busy], late_max_us, ..Default::default() };
        let (one, late) = (
            LoadSummary { health: Some(health(0.2, 9.0)), ..one },
            LoadSummary { health: Some(health(0.9, 3.0)), ..late },
        );
        let worst = sliced(&[(one.clone(), Vec::new()), (late.clone(), Vec::new())]).unwrap().load.health.unwrap();
        assert_eq!((worst.busy, worst.late_max_us), (vec![0.9], 9.0), "the same worker, twice");
        let both = side_by_side(&[one, late]).unwrap();
        let all = both.health.as_ref().unwrap();
        assert_eq!((all.busy.clone(), all.late_max_us), (vec![0.2, 0.9], 9.0), "a worker each");
        assert_eq!((both.measure_start_ns, both.measure_end_ns), (10_010_000_000, 12_010_000_000));
        let metrics = trial_metrics(&both, &[]).unwrap().metrics;
        assert!((metrics["throughput"] - 2_000.0).abs() < 1e-6, "{metrics:?}");
        assert!((both.generator_cpu_s - 0.2).abs() < 1e-9);
        assert!(side_by_side(&[]).is_err());
        // A tool that tells its rate and no times.
        let tool = |rate: f64| {
            let counted = OperationSummary { count: 10, ..OperationSummary::default() };
            LoadSummary {
                measure_end_ns: 1_000_000_000,
                operations: [("x".to_owned(), counted)].into(),
                reported: [(RATE.to_owned(), rate), ("p99_us".to_owned(), 5.0)].into(),
                ..LoadSummary::default()
            }
        };
        let metrics = trial_metrics(&side_by_side(&[tool(7.0), tool(8.0)]).unwrap(), &[]).unwrap().metrics;
        assert!(metrics["throughput"] == 15.0 && !metrics.contains_key("p99_us"), "{metrics:?}");
        assert_eq!(fairness(&[3.0, 1.0]), Some(0.5));
        assert_eq!((fairness(&[]), fairness(&[0.0])), (None, None));
    }

    #[test]
    fn a_check_that_failed_in_any_slice_has_failed() {
        let mut slices = [slice(0, 10, 100), slice(5, 10, 100)];
        slices[1].0.checks[0].passed = false;
        assert!(sliced(&slices).unwrap().load.checks.iter().any(|check| !check.passed));
        assert!(sliced(&[]).is_err());
        slices[1].0.operations.clear();
        assert!(sliced(&slices).is_err(), "a slice in which nothing was answered");
    }

    #[test]
    fn windows_of_instances_are_added_step_by_step() {
        let loaded = |number: u64, answered: u64| {
            let get = WindowCounts { planned: 10, answered, p99_us: answered as f64, ..WindowCounts::default() };
            let row = |number| WindowRow {
                number,
                offered: 10,
                times: Some(WindowTimes::default()),
                operations: [("get".to_owned(), get.clone())].into(),
                ..WindowRow::default()
            };
            LoadSummary { windows: vec![row(number), row(7)], ..LoadSummary::default() }
        };
        let sum = side_by_side(&[loaded(0, 3), loaded(1, 5)]).unwrap();
        let told = |at: usize| {
            let window: &WindowRow = &sum.windows[at];
            (window.offered, window.operations["get"].answered, window.operations["get"].p99_us, window.times)
        };
        assert_eq!((told(0), told(1)), ((10, 3, 3.0, None), (20, 8, 5.0, None)));
    }
}
