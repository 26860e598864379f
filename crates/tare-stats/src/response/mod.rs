//! What a load in steps came to at each of its levels: one way from idle to overload, in every form.
//!
//! A level's figure of a trial is that of its window alone, so a trial has one for each level. Over trials they are
//! estimated as those of whole trials are: the geometric mean over blocks, with Student's interval from three blocks
//! on.

mod costs;

pub(crate) use costs::service_costs;
pub use costs::{ArmCosts, CostRatio, PartCost, Seen, ServiceCosts};

use crate::arm::Arm;
use crate::cpu::serving_cpu_s;
use crate::estimate::{Estimate, estimate};
use crate::histogram::BEYOND_MIN;
use crate::peak::Asked;
use crate::qos::{Broken, QosKept};
use crate::ratios::MetricAnalysis;
use serde::Serialize;
use tare_core::load::{LoadProfile, LoadSummary, WindowRow};
use tare_core::peak::{Count, Criterion};
use tare_core::qos::Qos;
use tare_core::record::{CPU_PER_OP, FAILED_SHARE, Record, TrialData};

/// What a window has a figure of, by the names of a trial's metrics.
const KNOWN: [&str; 6] = ["throughput", "mean_us", "p50_us", "p99_us", CPU_PER_OP, FAILED_SHARE];

/// How a load in steps was answered, level by level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadResponse {
    /// What the levels count: `users`, `connections` or `op/s`.
    pub of: String,
    /// The levels, in the order of the steps.
    pub levels: Vec<f64>,
    /// Those metrics that a level has a figure of.
    pub metrics: Vec<LevelMetric>,
    /// By arm that was measured: how it fared at each level.
    pub fared: Vec<ArmLevels>,
}

/// One metric over all levels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelMetric {
    /// Its name.
    pub name: String,
    /// For readers.
    pub title: String,
    /// The unit.
    pub unit: String,
    /// Whether more is better.
    pub more_is_better: bool,
    /// By level: the estimate of each arm that has a figure there. Windows in which the generator may have been the
    /// limit are in none.
    pub levels: Vec<Vec<Estimate>>,
}

/// How an arm fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmLevels {
    /// The arm.
    pub arm: String,
    /// By level.
    pub levels: Vec<LevelState>,
}

/// How an arm fared at a level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelState {
    /// Measured trials with a window there.
    pub trials: u32,
    /// Those in which the generator may have been the limit, and which are left out for it.
    pub limited: u32,
    /// Those in which nothing was answered.
    pub silent: u32,
    /// How the windows that count kept the QoS, where the study has one.
    pub qos: Option<QosKept>,
}

impl LoadResponse {
    /// The metric of a name; none where a level has no figure of it.
    pub fn metric(&self, name: &str) -> Option<&LevelMetric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// How an arm fared at the level of a number.
    pub fn state(&self, arm: &str, level: usize) -> Option<&LevelState> {
        self.fared.iter().find(|fared| fared.arm == arm)?.levels.get(level)
    }
}

impl LevelMetric {
    /// An arm's estimate at the level of a number.
    pub fn estimate(&self, arm: &str, level: usize) -> Option<&Estimate> {
        self.levels.get(level)?.iter().find(|estimate| estimate.arm == arm)
    }

    /// How far apart the baseline and its A/A control lie at the level where they lie farthest apart, as a share.
    pub fn equals_differ_by(&self, baseline: &str, control: &str) -> Option<f64> {
        let value = |level, arm| self.estimate(arm, level).map(|e| e.geometric_mean.unwrap_or(e.mean));
        let apart = (0..self.levels.len()).filter_map(|level| {
            let ratio = value(level, control)? / value(level, baseline)?;
            Some(ratio.max(1.0 / ratio) - 1.0).filter(|apart| apart.is_finite())
        });
        apart.reduce(f64::max)
    }
}

/// What the levels of a load in steps count; none of any other load.
pub(crate) fn levels_of(load: &LoadProfile) -> Option<(&'static str, &[f64])> {
    let LoadProfile::Steps { of, levels, .. } = load else { return None };
    let unit = match **of {
        LoadProfile::Closed { .. } => "connections",
        LoadProfile::Users { .. } => "users",
        _ => "op/s",
    };
    Some((unit, levels))
}

/// The response of a record whose load went up in steps; none of any other, and where no window was recorded.
pub(crate) fn load_response(
    record: &Record,
    counted: &[&TrialData],
    arms: &[Arm],
    metrics: &[MetricAnalysis],
) -> Option<LoadResponse> {
    let (of, levels) = levels_of(&record.header.study.load)?;
    if !counted.iter().any(|trial| (0..levels.len()).any(|level| window(trial, level).is_some())) {
        return None;
    }
    let of_metric = |name: &&str| {
        let metric = metrics.iter().find(|metric| metric.name == **name)?;
        let at = |level: usize| -> Vec<Estimate> {
            let value = |trial: &TrialData| level_figure(name, trial, window(trial, level)?);
            arms.iter().filter_map(|arm| estimate(counted, value, &arm.name)).collect()
        };
        let by_level: Vec<Vec<Estimate>> = (0..levels.len()).map(at).collect();
        by_level.iter().any(|estimates| !estimates.is_empty()).then(|| LevelMetric {
            name: metric.name.clone(),
            title: metric.title.clone(),
            unit: metric.unit.clone(),
            more_is_better: metric.more_is_better,
            levels: by_level,
        })
    };
    let fared = |arm: &Arm| ArmLevels {
        arm: arm.name.clone(),
        levels: (0..levels.len()).map(|level| state(record, counted, &arm.name, level)).collect(),
    };
    Some(LoadResponse {
        of: of.to_owned(),
        levels: levels.to_vec(),
        metrics: KNOWN.iter().filter_map(of_metric).collect(),
        fared: arms.iter().filter(|arm| arm.measured > 0).map(fared).collect(),
    })
}

/// A trial's window at the level of a number.
fn window(trial: &TrialData, level: usize) -> Option<&WindowRow> {
    trial.record.load.as_ref()?.windows.iter().find(|window| window.number == level as u64)
}

fn answered(window: &WindowRow) -> u64 {
    window.operations.values().map(|counts| counts.answered).sum()
}

/// What a trial's windows came to: a metric's name and the level, such as `throughput@100`, unit and value.
pub fn level_figures(trial: &TrialData, response: &LoadResponse) -> Vec<(String, String, f64)> {
    let mut all = Vec::new();
    for (number, level) in response.levels.iter().enumerate() {
        let Some(window) = window(trial, number) else { continue };
        for metric in &response.metrics {
            let value = level_figure(&metric.name, trial, window);
            all.extend(value.map(|value| (format!("{}@{level}", metric.name), metric.unit.clone(), value)));
        }
    }
    all
}

/// A figure of one trial at one level. What cannot be known is absent, as it is of whole trials: a percentile of too
/// few operations or among those that failed, CPU time without telemetry, and all of a window in which the generator
/// may have been the limit.
fn level_figure(name: &str, trial: &TrialData, window: &WindowRow) -> Option<f64> {
    if window.saturated.is_some() {
        return None;
    }
    let seconds = window.to_ns.saturating_sub(window.from_ns) as f64 / 1e9;
    let answered = answered(window) as f64;
    if seconds <= 0.0 || answered == 0.0 {
        return None;
    }
    let failed = window.operations.values().map(|counts| counts.failed + counts.unanswered).sum::<u64>() as f64;
    // Among operations that failed there is no time to be read.
    let known = |count: u64, quantile: f64| {
        let all = count as f64 + failed;
        all * (1.0 - quantile) >= BEYOND_MIN - 1e-6 && failed <= all * (1.0 - quantile)
    };
    match name {
        "throughput" => Some(answered / seconds),
        "mean_us" => window.times.map(|times| times.mean_us),
        "p50_us" => percentiles(window).filter(|(count, ..)| known(*count, 0.5)).map(|(_, p50_us, _)| p50_us),
        "p99_us" => percentiles(window).filter(|(count, ..)| known(*count, 0.99)).map(|(.., p99_us)| p99_us),
        CPU_PER_OP => {
            let load = only(trial.record.load.as_ref()?, window)?;
            Some(serving_cpu_s(&load, &trial.telemetry)? * 1e6 / answered)
        }
        FAILED_SHARE => Some(failed / (failed + answered)),
        _ => None,
    }
}

/// How many times there are of all operations, p50 and p99. Older records have those of each operation alone, which is
/// the same where there is only one.
fn percentiles(window: &WindowRow) -> Option<(u64, f64, f64)> {
    if let Some(times) = &window.times {
        return Some((times.count, times.p50_us, times.p99_us));
    }
    let mut some = window.operations.values().filter(|counts| counts.answered > 0 && counts.p99_us > 0.0);
    let (one, none) = (some.next()?, some.next());
    none.is_none().then_some((one.answered, one.p50_us, one.p99_us))
}

/// The load as if only this window had been measured. None where a tool ran inside the form, which tells what it used
/// in all and not by window.
fn only(load: &LoadSummary, window: &WindowRow) -> Option<LoadSummary> {
    load.inside.is_none().then(|| LoadSummary {
        measure_start_ns: window.from_ns,
        measure_end_ns: window.to_ns,
        ..LoadSummary::default()
    })
}

fn state(record: &Record, counted: &[&TrialData], arm: &str, level: usize) -> LevelState {
    let of_arm = counted.iter().filter(|trial| trial.record.trial.arm() == arm);
    let windows: Vec<&WindowRow> = of_arm.filter_map(|trial| window(trial, level)).collect();
    let count = |is: &dyn Fn(&WindowRow) -> bool| windows.iter().filter(|window| is(window)).count() as u32;
    let used: Vec<&&WindowRow> = windows.iter().filter(|window| window.saturated.is_none()).collect();
    let qos = record.header.study.qos.as_ref().filter(|_| !used.is_empty()).map(|qos| {
        let broken: Vec<Option<Broken>> = used.iter().map(|window| broken(qos, window)).collect();
        let first = broken.iter().flatten().next().cloned();
        let kept = broken.iter().filter(|broken| broken.is_none()).count() as u32;
        QosKept { kept, of: used.len() as u32, broken: first }
    });
    LevelState {
        trials: windows.len() as u32,
        limited: count(&|window| window.saturated.is_some()),
        silent: count(&|window| answered(window) == 0),
        qos,
    }
}

/// What of a QoS a window broke most, by what a search judges windows by; none where it kept all of it.
fn broken(qos: &Qos, window: &WindowRow) -> Option<Broken> {
    let operations: Vec<String> = window.operations.keys().cloned().collect();
    let asked = Asked::of(qos, &operations);
    let counts = asked.counts(window);
    let off = |(criterion, count): (&Criterion, &Count)| {
        let share = count.over / count.of;
        (share > criterion.allowed).then(|| (share / criterion.allowed, share, criterion.name.clone()))
    };
    let worst = asked.criteria().iter().zip(&counts).filter_map(off).max_by(|a, b| a.0.total_cmp(&b.0));
    worst.map(|(_, share, criterion)| Broken::InWindow { criterion, share })
}

#[cfg(test)]
mod tests;
