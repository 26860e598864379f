//! What a record shows of how its ratios vary.

use super::spread::{MeanSquare, Spread};
use crate::analysis::Analysis;
use crate::arm::Arm;
use crate::estimate::block_logs;
use crate::paired::Differences;
use crate::ratios::MetricAnalysis;
use crate::voids::counted;
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::design::Arrangement;
use tare_core::record::{Record, TrialData};

/// How a ratio to the baseline varies, as one record or several show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Seen {
    /// The arm: a form, or where there is none besides the baseline, the A/A control.
    pub arm: String,
    /// The metric.
    pub metric: String,
    /// Its title, for readers.
    pub title: String,
    /// How it varies.
    pub spread: Spread,
}

/// How the ratios vary that a run with `until` waits for: by metric, in the order of the forms. A ratio that fewer than
/// two blocks show is not among them, nor is one of what ran emulated.
pub fn seen(record: &Record, analysis: &Analysis) -> Vec<Seen> {
    let trials = counted(record);
    let awaited = record.header.awaited_metrics();
    let mut all = Vec::new();
    let waited_for = |metric: &&MetricAnalysis| metric.compared && awaited.contains(&metric.name.as_str());
    for metric in analysis.metrics.iter().filter(waited_for) {
        let logs = |arm: &str| metric.estimates.iter().find(|estimate| estimate.arm == arm).map(block_logs);
        let Some(baseline) = logs(&analysis.baseline) else { continue };
        for arm in claimed(analysis) {
            let Some(own) = logs(&arm.name) else { continue };
            let Some(square) = MeanSquare::of(&Differences::of(&own, &baseline).values) else { continue };
            let inner = within(record, &trials, [&arm.name, &analysis.baseline], &metric.name);
            let spread = Spread { blocks: vec![(measured_s(record, &trials), square)], within: inner };
            let (arm, metric, title) = (arm.name.clone(), metric.name.clone(), metric.title.clone());
            all.push(Seen { arm, metric, title, spread });
        }
    }
    all
}

/// The arms of which something is claimed: the forms, or where there is none, the control.
fn claimed(analysis: &Analysis) -> Vec<&Arm> {
    let real = || analysis.arms.iter().filter(|arm| !arm.baseline && arm.weight.is_none() && !analysis.emulated(arm));
    let forms: Vec<&Arm> = real().filter(|arm| !arm.control).collect();
    if forms.is_empty() { real().collect() } else { forms }
}

/// How long each deployment was measured, s.
fn measured_s(record: &Record, trials: &[&TrialData]) -> f64 {
    let slices = trials.iter().map(|trial| trial.record.slices.len()).max().unwrap_or(0);
    if slices > 0 { slices as f64 * slice_s(record, slices) } else { record.header.study.measure.as_secs_f64() }
}

/// How long each of so many slices was measured, s.
fn slice_s(record: &Record, slices: usize) -> f64 {
    match &record.header.study.design.arrangement {
        Arrangement::Alternate(of) => of.measure.as_secs_f64(),
        _ => record.header.study.measure.as_secs_f64() / slices as f64,
    }
}

/// What a second of measuring varies by within a deployment, as the slices of the blocks show it.
fn within(record: &Record, trials: &[&TrialData], [arm, baseline]: [&str; 2], metric: &str) -> Option<MeanSquare> {
    let logs = |trial: &TrialData| -> BTreeMap<u32, f64> {
        let values = trial.record.slices.iter().filter_map(|slice| Some((slice.round, *slice.metrics.get(metric)?)));
        values.filter(|(_, value)| *value > 0.0).map(|(round, value)| (round, value.ln())).collect()
    };
    let of = |name: &str| -> BTreeMap<u32, BTreeMap<u32, f64>> {
        let own = trials.iter().filter(|trial| trial.record.trial.arm() == name);
        own.map(|trial| (trial.record.trial.block, logs(trial))).collect()
    };
    let bases = of(baseline);
    let squares = of(arm).into_iter().filter_map(|(block, slices)| {
        let square = MeanSquare::of(&Differences::of(&slices, bases.get(&block)?).values)?;
        let length_s = slice_s(record, slices.len());
        Some(MeanSquare { value: square.value * length_s, ..square })
    });
    MeanSquare::pooled(squares)
}
