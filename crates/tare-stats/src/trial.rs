//! The figures of one trial.

use crate::cpu::{machine_cpu_s, serving_cpu_s};
use crate::histogram::{quantile_us, response_times, service_times};
use std::collections::BTreeMap;
use tare_core::load::LoadSummary;
use tare_core::telemetry::TelemetryRow;

/// What is taken from a tool's own report where there is no histogram.
const REPORTED: [&str; 6] = ["p50_us", "p90_us", "p99_us", "p999_us", "mean_us", "max_us"];

/// What is taken from a tool's own report wherever it says it.
pub(crate) const RATE: &str = "throughput";

/// The figures named in [`tare_core::record::TRIAL_METRICS`] of one trial. What cannot be known is absent, never zero:
/// a percentile of too few operations, CPU time without telemetry.
///
/// - `throughput`: correct operations a second of the time measured.
/// - `p50_us` ... `max_us`: response times of all operations together, from merged histograms: from the planned start,
///   which in a closed loop is the send. `service_p50_us`, `service_p99_us`: the same from the send, where that is
///   another moment. Most tools of others have no histogram; then these are what it reported, and `throughput` of any
///   tool is, over the time that it measured itself.
/// - `cpu_us_per_op`: CPU time of the serving processes, by correct operation; `cpu_machine_us_per_op`: of the whole
///   machine but the generator. The kernel's work in software interrupts is charged to whatever task was running, so
///   the first is attributed and the second an upper bound.
/// - `failed_share`: operations not answered correctly, by all operations.
/// - What the load has of its own, as it says it.
///
/// # Errors
/// When nothing was measured, or a histogram cannot be read.
pub fn trial_metrics(load: &LoadSummary, telemetry: &[TelemetryRow]) -> Result<BTreeMap<String, f64>, String> {
    let spent = Spent {
        window_ns: window_ns(load),
        serving_cpu_s: serving_cpu_s(load, telemetry),
        machine_cpu_s: machine_cpu_s(load, telemetry),
    };
    figures(load, &spent)
}

/// The time over which operations are counted, ns. Of a load that took turns it is that of its own turns.
pub(crate) fn window_ns(load: &LoadSummary) -> u64 {
    load.turns.map_or(load.measure_end_ns.saturating_sub(load.measure_start_ns), |turns| turns.active_ns)
}

/// What a load took, apart from what it brought.
pub(crate) struct Spent {
    pub(crate) window_ns: u64,
    pub(crate) serving_cpu_s: Option<f64>,
    pub(crate) machine_cpu_s: Option<f64>,
}

/// See [`trial_metrics`].
pub(crate) fn figures(load: &LoadSummary, spent: &Spent) -> Result<BTreeMap<String, f64>, String> {
    if spent.window_ns == 0 {
        return Err("the time measured is empty".to_owned());
    }
    let correct: u64 = load.operations.values().map(|operation| operation.count).sum();
    let errors: u64 = load.operations.values().map(|operation| operation.errors).sum();
    if correct == 0 {
        return Err(format!("not one operation was answered correctly ({errors} were not)"));
    }
    let times = response_times(load)?;
    let service = service_times(load)?;
    let of_service = |quantile| service.as_ref().and_then(|times| quantile_us(times, quantile));
    let operations = correct as f64;
    let per_operation_us = |seconds: f64| seconds * 1e6 / operations;
    let timed = !times.is_empty();
    let figures = [
        ("throughput", Some(operations / (spent.window_ns as f64 / 1e9))),
        ("p50_us", quantile_us(&times, 0.5)),
        ("p90_us", quantile_us(&times, 0.9)),
        ("p99_us", quantile_us(&times, 0.99)),
        ("p999_us", quantile_us(&times, 0.999)),
        ("mean_us", timed.then(|| times.mean() / 1e3)),
        ("max_us", timed.then(|| times.max() as f64 / 1e3)),
        ("service_p50_us", of_service(0.5)),
        ("service_p99_us", of_service(0.99)),
        ("cpu_us_per_op", spent.serving_cpu_s.map(per_operation_us)),
        ("cpu_machine_us_per_op", spent.machine_cpu_s.map(per_operation_us)),
        ("generator_cpu_us_per_op", Some(per_operation_us(load.generator_cpu_s))),
        ("failed_share", Some(errors as f64 / (operations + errors as f64))),
    ];
    let mut metrics: BTreeMap<String, f64> =
        figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    metrics.extend(load.metrics.iter().map(|(name, value)| (name.clone(), *value)));
    // A tool's rate is over the time that it measured itself, whether or not it brings a histogram.
    let holds = |name: &str| name == RATE || (!timed && REPORTED.contains(&name));
    let known = load.reported.iter().filter(|(name, _)| holds(name));
    metrics.extend(known.map(|(name, value)| (name.clone(), *value)));
    Ok(metrics)
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
        load.operations.get_mut("get").unwrap().errors = 5_000;
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
        let metrics = trial_metrics(&load(), &telemetry).unwrap();
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
        near("failed_share", 0.2);
        assert!(!metrics.contains_key("cpu_machine_us_per_op"), "the machine was not sampled");
        assert!(metrics.keys().all(|name| TRIAL_METRICS.iter().any(|metric| metric.name == name)));
    }

    #[test]
    fn a_tools_own_report_stands_where_no_histogram_does() {
        let mut load = load();
        let reported = [("throughput", 2_100.0), ("p99_us", 77.0), ("cpu_us_per_op", 1.0)];
        load.reported = reported.map(|(name, value)| (name.to_owned(), value)).into();
        let own = trial_metrics(&load, &[]).unwrap();
        assert!(own["throughput"] == 2_100.0 && own["p99_us"] != 77.0, "a histogram is better than a report of times");
        load.operations.get_mut("get").unwrap().response_time.clear();
        let metrics = trial_metrics(&load, &[]).unwrap();
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
}
