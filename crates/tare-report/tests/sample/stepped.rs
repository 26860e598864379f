//! The sample as if its load had gone up in steps of users, on a service of three tiers that bends near the end.

use super::{CPUS, SECOND, measure_start_ns, noise, record};
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::load::{Behaviour, LoadProfile, Pause, UserConnections, WindowCounts, WindowRow, WindowTimes};
use tare_core::qos::{Qos, QuantileLimit};
use tare_core::record::{Record, TrialData};
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};

/// Users.
pub(crate) const LEVELS: [f64; 6] = [100.0, 250.0, 500.0, 750.0, 1_000.0, 1_200.0];
/// How long each of them counts, s.
const WINDOW_S: u64 = 4;
/// By tier: CPU by operation in the plain process, us.
const TIERS: [(&str, f64); 3] = [("web", 61.0), ("app", 240.0), ("database", 118.0)];

/// The record: the first form costs most in its web tier, and bends first.
pub(crate) fn stepped() -> Record {
    let mut record = record();
    let second = Duration::from_secs(1);
    let pause = Pause::Think(tare_core::load::Distribution::Constant(second));
    let (behaviour, connections) = (Behaviour::Mix, UserConnections::Own);
    let of = Box::new(LoadProfile::Users { users: 1_200, behaviour, pause, connections, ramp: second });
    let measure = Duration::from_secs(WINDOW_S);
    let study = &mut record.header.study;
    study.load =
        LoadProfile::Steps { of, levels: LEVELS.into(), warm: None, ramp: Duration::ZERO, settle: second, measure };
    let limit = QuantileLimit { quantile: 0.99, within: Duration::from_millis(40) };
    study.qos = Some(Qos { operations: [("*".to_owned(), vec![limit])].into(), ..Qos::default() });
    let service = record.header.workload.services[0].clone();
    let named = |(name, _): &(&str, f64)| tare_core::workload::Service { name: (*name).to_owned(), ..service.clone() };
    record.header.workload.services = TIERS.iter().map(named).collect();
    for trial in &mut record.trials {
        if trial.record.load.is_some() {
            step(trial);
        }
    }
    record
}

/// How much slower than the plain process, what it carries at most, op/s, and what a tier costs more.
fn manner(form: &str, tier: &str) -> (f64, f64, f64) {
    match (form, tier) {
        ("container", "web") => (1.2, 930.0, 1.62),
        ("container", _) => (1.2, 930.0, 1.06),
        ("container-hostnet", _) => (1.03, 1_130.0, 1.02),
        ("vm", _) => (9.0, 400.0, 8.0),
        _ => (1.0, 1_180.0, 1.0),
    }
}

fn start_ns(trial: &TrialData, level: usize) -> u64 {
    measure_start_ns(&trial.record.trial) + SECOND * (1 + level as u64 * (WINDOW_S + 1))
}

fn rate(trial: &TrialData, level: usize) -> f64 {
    let (_, most, _) = manner(&trial.record.trial.form, "");
    let wobble = 1.0 + noise(trial.record.trial.index * 10 + level as u32, 21);
    (0.95 * LEVELS[level]).min(most) * wobble
}

fn step(trial: &mut TrialData) {
    let form = trial.record.trial.form.clone();
    let (slower, most, _) = manner(&form, "");
    let window = |level: usize| {
        let answered = (rate(trial, level) * WINDOW_S as f64) as u64;
        let used = (0.95 * LEVELS[level] / most).min(0.93);
        let mean_us =
            2_400.0 * slower / (1.0 - used) * (1.0 + 3.0 * noise(trial.record.trial.index + level as u32, 22));
        let late = if mean_us > 25_000.0 { answered / 20 } else { answered / 400 };
        let get = WindowCounts { planned: answered, answered, over_limit: late, ..WindowCounts::default() };
        WindowRow {
            number: level as u64,
            level: LEVELS[level],
            from_ns: start_ns(trial, level),
            to_ns: start_ns(trial, level) + WINDOW_S * SECOND,
            offered: answered,
            started: answered,
            operations: BTreeMap::from([("get".to_owned(), get)]),
            times: Some(WindowTimes { count: answered, mean_us, p50_us: 0.7 * mean_us, p99_us: 4.6 * mean_us }),
            ..WindowRow::default()
        }
    };
    let mut windows: Vec<WindowRow> = (0..LEVELS.len()).map(window).collect();
    // In one trial of the last form that is real the generator was the limit at the end.
    if form == "container-hostnet" && trial.record.trial.block == 1 {
        windows[5].saturated = Some("starts were late".into());
    }
    trial.telemetry = telemetry(trial);
    if let Some(load) = trial.record.load.as_mut() {
        load.measure_end_ns = windows[5].to_ns;
        load.windows = windows;
    }
}

/// Samples at the ends of all windows, and one before and behind.
fn telemetry(trial: &TrialData) -> Vec<TelemetryRow> {
    let planned = &trial.record.trial;
    let mut rows = Vec::new();
    let mut push = |at_ns, vantage, scope: &str, serving, metric: &str, value: f64| {
        let values = BTreeMap::from([(metric.to_owned(), value)]);
        rows.push(TelemetryRow { at_ns, vantage, scope: scope.to_owned(), serving, values });
    };
    let guest = planned.form == "vm";
    let mut spent = BTreeMap::new();
    let first = measure_start_ns(planned) - SECOND;
    let edges = (0..LEVELS.len()).flat_map(|level| {
        let from = start_ns(trial, level);
        [(from, 0.0), (from + WINDOW_S * SECOND, rate(trial, level) * WINDOW_S as f64)]
    });
    for (at_ns, operations) in std::iter::once((first, 0.0)).chain(edges) {
        let mut all = 0.0;
        for (number, (tier, us)) in TIERS.iter().enumerate() {
            let (.., costs) = manner(&planned.form, tier);
            let wobble = 1.0 + noise(planned.index, 30 + number as u64);
            let seconds = spent.entry(*tier).or_insert(0.0);
            *seconds += operations * us * 1e-6 * costs * wobble;
            all += *seconds;
            let vantage = if guest { Vantage::Guest } else { Vantage::Host };
            push(at_ns, vantage, tier, true, "cpu_total_s", *seconds);
        }
        if guest {
            push(at_ns, Vantage::Host, "hypervisor", true, "cpu_total_s", 1.4 * all);
        }
        push(at_ns, Vantage::Host, WHOLE_MACHINE, false, "cpu_user_s", 1.2 * all * CPUS as f64 / 4.0);
    }
    rows
}
