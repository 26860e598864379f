use super::*;
use std::time::Duration;
use tare_core::load::{WindowCounts, WindowTimes};
use tare_core::plan::PlannedTrial;
use tare_core::qos::QuantileLimit;
use tare_core::record::TrialRecord;
use tare_core::telemetry::{TelemetryRow, Vantage};
use tare_core::trial::Outcome;

const SECOND: u64 = 1_000_000_000;

fn row(answered: u64) -> WindowRow {
    let get = WindowCounts { planned: answered, answered, p50_us: 40.0, p99_us: 90.0, ..WindowCounts::default() };
    WindowRow {
        from_ns: 10 * SECOND,
        to_ns: 20 * SECOND,
        operations: [("get".to_owned(), get)].into(),
        ..WindowRow::default()
    }
}

/// A trial whose service uses half a CPU until the window begins and a whole one within it.
fn trial(window: &WindowRow) -> TrialData {
    let planned = PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
    let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
    record.load = Some(LoadSummary { windows: vec![window.clone()], ..LoadSummary::default() });
    let used = |at: u64| if at < 10 { 0.5 * at as f64 } else { 5.0 + (at - 10) as f64 };
    let sample = |at: u64| TelemetryRow {
        at_ns: at * SECOND,
        vantage: Vantage::Host,
        scope: "server".into(),
        serving: true,
        values: [("cpu_total_s".to_owned(), used(at))].into(),
    };
    TrialData { record, seconds: Vec::new(), telemetry: (0..25).map(sample).collect() }
}

fn figure(name: &str, window: &WindowRow) -> Option<f64> {
    level_figure(name, &trial(window), window)
}

#[test]
fn a_window_has_figures_of_its_own() {
    let times = WindowTimes { count: 2_000, mean_us: 44.0, p50_us: 41.0, p99_us: 91.0 };
    let window = WindowRow { times: Some(times), ..row(2_000) };
    let told = |name| figure(name, &window).unwrap();
    assert_eq!((told("throughput"), told("mean_us"), told("p50_us"), told("p99_us")), (200.0, 44.0, 41.0, 91.0));
    assert!((told(CPU_PER_OP) - 5_000.0).abs() < 1e-6, "ten seconds of a CPU: {}", told(CPU_PER_OP));
    assert_eq!((told("failed_share"), figure("max_us", &window)), (0.0, None));
}

#[test]
fn what_cannot_be_known_of_a_window_is_absent() {
    let older = row(2_000);
    assert_eq!((figure("p99_us", &older), figure("mean_us", &older)), (Some(90.0), None), "of one operation only");
    let mut two = row(2_000);
    two.operations.insert("set".into(), two.operations["get"].clone());
    assert_eq!(figure("p99_us", &two), None, "percentiles of two operations make none of both");
    assert_eq!((figure("p99_us", &row(999)), figure("p50_us", &row(999))), (None, Some(40.0)), "too few for a p99");
    let limited = WindowRow { saturated: Some("late".into()), ..row(2_000) };
    assert_eq!((figure("throughput", &limited), figure("throughput", &row(0))), (None, None));
    let mut inside = trial(&older);
    inside.record.load.as_mut().unwrap().inside = Some(tare_core::load::InsideUse { cpu_s: Some(1.0) });
    assert_eq!(level_figure(CPU_PER_OP, &inside, &older), None, "a tool tells what it used in all");
}

#[test]
fn a_window_breaks_a_qos_by_its_worst() {
    let limit = QuantileLimit { quantile: 0.99, within: Duration::from_millis(5) };
    let qos = Qos { operations: [("*".to_owned(), vec![limit])].into(), failures: Some(0.05), ..Qos::default() };
    let mut window = row(1_000);
    let get = window.operations.get_mut("get").unwrap();
    get.over_limit = 10;
    assert_eq!(broken(&qos, &window), None, "one in a hundred may be late");
    window.operations.get_mut("get").unwrap().over_limit = 40;
    assert_eq!(broken(&qos, &window), Some(Broken::InWindow { criterion: "get p99 within 5 ms".into(), share: 0.04 }));
}

#[test]
fn equals_are_as_far_apart_as_where_they_are_farthest() {
    let estimate = |arm: &str, mean: f64| Estimate {
        arm: arm.into(),
        values: Vec::new(),
        at_least: Vec::new(),
        mean,
        geometric_mean: Some(mean),
        interval: None,
    };
    let metric = LevelMetric {
        name: "throughput".into(),
        title: String::new(),
        unit: String::new(),
        more_is_better: true,
        levels: vec![
            vec![estimate("a", 100.0), estimate("a again", 102.0)],
            vec![estimate("a", 100.0), estimate("a again", 80.0)],
            vec![estimate("a", 100.0)],
        ],
    };
    assert!((metric.equals_differ_by("a", "a again").unwrap() - 0.25).abs() < 1e-12);
    assert_eq!(metric.equals_differ_by("a", "b"), None);
}
