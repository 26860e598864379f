//! The figures of one trial.

use crate::cpu::{busy_cpu_s, serving_cpu_s};
use crate::histogram::{Ranked, ranked_us, response_times, service_times, without_time};
use std::collections::BTreeMap;
use tare_core::load::LoadSummary;
use tare_core::record::{BUSY_PER_OP, CPU_PER_OP, FAILED_SHARE};
use tare_core::telemetry::TelemetryRow;

/// The quantiles of response times.
const QUANTILES: [(&str, f64); 4] = [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999)];

/// The same of service times.
const OF_SERVICE: [(&str, f64); 2] = [("service_p50_us", 0.5), ("service_p99_us", 0.99)];

/// What else is taken from a tool's own report where there is no histogram.
const REPORTED: [&str; 2] = ["mean_us", "max_us"];

/// A tool's own quantile leaves failed operations out. It stands as long as these are less than this share of those
/// beyond it.
const FAILED_OF_BEYOND: f64 = 0.1;

/// What is taken from a tool's own report wherever it says it.
pub(crate) const RATE: &str = "throughput";

/// The figures named in [`tare_core::record::TRIAL_METRICS`] of one trial. What cannot be known is absent, never zero:
/// a percentile of too few operations, CPU time without telemetry.
///
/// - `throughput`: correct operations a second of the time measured.
/// - `p50_us` ... `p999_us`: response times of all operations together, from merged histograms: from the planned start,
///   which in a closed loop is the send. Operations that failed or were dropped rank behind all others; a quantile
///   among them is known by what it is at least. `service_p50_us`, `service_p99_us`: the same from the send, where
///   that is another moment. Most tools of others have no histogram; then these are what it reported, and
///   `throughput` of any tool is, over the time that it measured itself.
/// - `mean_us`, `max_us`: response times of the answered ones.
/// - `cpu_busy_us_per_op`: busy time of all CPUs by correct operation, the generator's included; `cpu_us_per_op`: what
///   of it was charged to the serving processes. The kernel's work in software interrupts is charged to whatever task
///   was running, so part of it is the generator's.
/// - `failed_share`: operations not answered correctly or dropped, by all operations.
/// - What the load has of its own, as it says it.
///
/// A load of which not one operation succeeded has a throughput of 0 and a failed share of 1: that is what the service
/// did.
///
/// # Errors
/// When nothing was measured, or a histogram cannot be read.
pub fn trial_metrics(load: &LoadSummary, telemetry: &[TelemetryRow]) -> Result<TrialFigures, String> {
    let spent = Spent {
        window_ns: window_ns(load),
        serving_cpu_s: serving_cpu_s(load, telemetry),
        busy_cpu_s: busy_cpu_s(load, telemetry),
    };
    figures(load, &spent)
}

/// The time over which operations are counted, ns. Of a load that took turns it is that of its own turns, without what
/// the moves cost.
pub(crate) fn window_ns(load: &LoadSummary) -> u64 {
    load.turns.map_or(load.measure_end_ns.saturating_sub(load.measure_start_ns), |turns| turns.steady_ns())
}

/// What a trial came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrialFigures {
    /// The figures.
    pub metrics: BTreeMap<String, f64>,
    /// By quantile among operations that failed: what it is at least, us.
    pub at_least: BTreeMap<String, f64>,
}

/// What a load took, apart from what it brought.
pub(crate) struct Spent {
    pub(crate) window_ns: u64,
    pub(crate) serving_cpu_s: Option<f64>,
    pub(crate) busy_cpu_s: Option<f64>,
}

/// See [`trial_metrics`].
pub(crate) fn figures(load: &LoadSummary, spent: &Spent) -> Result<TrialFigures, String> {
    if spent.window_ns == 0 {
        return Err("the time measured is empty".to_owned());
    }
    let correct: u64 = load.operations.values().map(|operation| operation.count).sum();
    let errors: u64 = load.operations.values().map(|operation| operation.errors).sum();
    let failed = errors + load.dropped;
    if correct + failed == 0 {
        return Err("not one operation was begun".to_owned());
    }
    let times = response_times(load)?;
    let operations = correct as f64;
    let failed_share = failed as f64 / (operations + failed as f64);
    let per_operation_us = |seconds: f64| (correct > 0).then_some(seconds * 1e6 / operations);
    let timed = !times.is_empty();
    let figures = [
        ("throughput", Some(operations / (spent.window_ns as f64 / 1e9))),
        ("mean_us", timed.then(|| times.mean() / 1e3)),
        ("max_us", timed.then(|| times.max() as f64 / 1e3)),
        (BUSY_PER_OP, spent.busy_cpu_s.and_then(per_operation_us)),
        (CPU_PER_OP, spent.serving_cpu_s.and_then(per_operation_us)),
        ("generator_cpu_us_per_op", per_operation_us(load.generator_cpu_s)),
        (FAILED_SHARE, Some(failed_share)),
    ];
    let mut all = TrialFigures::default();
    all.metrics.extend(figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    all.metrics.extend(load.metrics.iter().map(|(name, value)| (name.clone(), *value)));
    let of_histogram = |times, quantile| ranked_us(times, without_time(load), quantile);
    if timed {
        all.rank(QUANTILES.iter().map(|(name, quantile)| (*name, of_histogram(&times, *quantile))));
    } else {
        all.rank(QUANTILES.iter().map(|(name, quantile)| (*name, reported(load, name, *quantile, failed_share))));
    }
    if let Some(times) = service_times(load)? {
        all.rank(OF_SERVICE.iter().map(|(name, quantile)| (*name, of_histogram(&times, *quantile))));
    }
    // A tool's rate is over the time that it measured itself, whether or not it brings a histogram.
    let holds = |name: &str| name == RATE || (!timed && REPORTED.contains(&name));
    let known = load.reported.iter().filter(|(name, _)| holds(name));
    all.metrics.extend(known.map(|(name, value)| (name.clone(), *value)));
    Ok(all)
}

/// A quantile that a tool reports, of those of its operations that did not fail.
fn reported(load: &LoadSummary, name: &str, quantile: f64, failed_share: f64) -> Option<Ranked> {
    let us = *load.reported.get(name)?;
    let few = failed_share <= FAILED_OF_BEYOND * (1.0 - quantile);
    Some(if few { Ranked::Known(us) } else { Ranked::AtLeast(us) })
}

impl TrialFigures {
    /// Takes quantiles for what is known of them.
    fn rank<'n>(&mut self, quantiles: impl IntoIterator<Item = (&'n str, Option<Ranked>)>) {
        for (name, ranked) in quantiles {
            match ranked {
                Some(Ranked::Known(us)) => self.metrics.insert(name.to_owned(), us),
                // Where nothing was answered, nobody knows how long anybody waited.
                Some(Ranked::AtLeast(us)) if us > 0.0 => self.at_least.insert(name.to_owned(), us),
                _ => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::tests::operation;
    use tare_core::record::TRIAL_METRICS;
    use tare_core::telemetry::Vantage;

    fn load() -> LoadSummary {
        let mut load = LoadSummary {
            measure_start_ns: 1_000_000_000,
            measure_end_ns: 11_000_000_000,
            generator_cpu_s: 0.5,
            ..Default::default()
        };
        load.operations.insert("get".into(), operation((1..=20_000).map(|n| n * 50)));
        load
    }

    /// The same, plus this many that failed.
    fn failing(errors: u64) -> LoadSummary {
        let mut load = load();
        load.operations.get_mut("get").unwrap().errors = errors;
        load
    }

    #[test]
    fn the_figures_are_those_one_would_work_out_by_hand() {
        let telemetry: Vec<TelemetryRow> = (0..13u64)
            .map(|second| TelemetryRow {
                at_ns: second * 1_000_000_000,
                vantage: Vantage::Host,
                scope: "server".into(),
                serving: true,
                values: [("cpu_total_s".to_owned(), 0.04 * second as f64)].into(),
            })
            .collect();
        let metrics = trial_metrics(&load(), &telemetry).unwrap().metrics;
        let near = |name: &str, wanted: f64| {
            let value = metrics[name];
            assert!((value / wanted - 1.0).abs() < 0.002, "{name}: {value}, not {wanted}");
        };
        near("throughput", 2_000.0);
        near("p50_us", 500.0);
        near("p99_us", 990.0);
        near("p999_us", 999.0);
        near("max_us", 1_000.0);
        near("mean_us", 500.0);
        near("cpu_us_per_op", 20.0);
        near("generator_cpu_us_per_op", 25.0);
        assert_eq!(metrics["failed_share"], 0.0);
        assert!(!metrics.contains_key(BUSY_PER_OP), "the machine was not sampled");
        assert!(metrics.keys().all(|name| TRIAL_METRICS.iter().any(|metric| metric.name == name)));
    }

    #[test]
    fn a_tools_own_report_stands_where_no_histogram_does() {
        let mut load = load();
        let reported = [("throughput", 2_100.0), ("p99_us", 77.0), ("cpu_us_per_op", 1.0)];
        load.reported = reported.map(|(name, value)| (name.to_owned(), value)).into();
        let own = trial_metrics(&load, &[]).unwrap().metrics;
        assert!(own["throughput"] == 2_100.0 && own["p99_us"] != 77.0, "a histogram is better than a report of times");
        load.operations.get_mut("get").unwrap().response_time.clear();
        let metrics = trial_metrics(&load, &[]).unwrap().metrics;
        assert_eq!((metrics["throughput"], metrics["p99_us"]), (2_100.0, 77.0));
        assert_eq!(metrics["generator_cpu_us_per_op"], 25.0);
        assert!(!metrics.contains_key("p50_us") && !metrics.contains_key("cpu_us_per_op"), "nobody reported them");
        load.reported.clear();
        assert!(trial_metrics(&load, &[]).unwrap_err().contains("no histogram"));
    }

    #[test]
    fn nothing_measured_is_an_error_not_a_zero() {
        assert!(trial_metrics(&LoadSummary::default(), &[]).is_err());
        let mut load = load();
        load.operations.clear();
        assert!(trial_metrics(&load, &[]).unwrap_err().contains("not one operation"));
    }

    #[test]
    fn who_failed_waited_longest() {
        // The n-th of those that were answered took n times 50 ns.
        let few = trial_metrics(&failing(150), &[]).unwrap();
        assert!((few.metrics["p99_us"] / (20_150.0 * 0.99 * 0.05) - 1.0).abs() < 1e-3, "{few:?}");
        assert!((few.metrics["p50_us"] / (20_150.0 * 0.50 * 0.05) - 1.0).abs() < 1e-3, "{few:?}");
        let many = trial_metrics(&failing(5_000), &[]).unwrap();
        assert_eq!(many.metrics["failed_share"], 0.2);
        assert!((many.metrics["p50_us"] / 625.0 - 1.0).abs() < 1e-3, "{many:?}");
        for name in ["p90_us", "p99_us", "p999_us"] {
            assert!(!many.metrics.contains_key(name), "{name} is one that failed: {many:?}");
            assert!((many.at_least[name] / 1000.0 - 1.0).abs() < 1e-3, "at least the longest: {many:?}");
        }
        let dropped = LoadSummary { dropped: 5_000, ..failing(0) };
        assert_eq!(trial_metrics(&dropped, &[]).unwrap(), many, "nor does anybody get an answer to what was dropped");
        let none = trial_metrics(&LoadSummary { operations: [("get".into(), none(7))].into(), ..load() }, &[]).unwrap();
        assert_eq!((none.metrics["throughput"], none.metrics["failed_share"]), (0.0, 1.0));
        assert!(none.at_least.is_empty() && !none.metrics.contains_key("p50_us"), "{none:?}");
    }

    /// An operation of which all failed.
    fn none(errors: u64) -> tare_core::load::OperationSummary {
        tare_core::load::OperationSummary { errors, ..Default::default() }
    }

    #[test]
    fn a_tools_quantile_is_a_bound_where_failures_could_decide_it() {
        let reported: BTreeMap<String, f64> = [("p50_us".to_owned(), 50.0), ("p99_us".to_owned(), 99.0)].into();
        let of = |errors| {
            let mut load = LoadSummary { reported: reported.clone(), ..failing(errors) };
            load.operations.get_mut("get").unwrap().response_time.clear();
            trial_metrics(&load, &[]).unwrap()
        };
        assert_eq!((of(2).metrics["p99_us"], of(2).at_least.len()), (99.0, 0));
        assert_eq!((of(100).metrics["p50_us"], of(100).at_least["p99_us"]), (50.0, 99.0));
    }
}
