//! An arm's values of one metric, and what they come to over trials.

use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::paired::{BLOCKS_MIN, BlockLogs, sd};
use crate::quantile::student_quantile;
use serde::Serialize;
use tare_core::record::TrialData;

/// An arm's values of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The arm.
    pub arm: String,
    /// By measured trial, in their order.
    pub values: Vec<BlockValue>,
    /// Trials whose value is only what it is at least: it lies among operations that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<u32>,
    /// The mean of the trials.
    pub mean: f64,
    /// The geometric mean of the trials; none when a value is zero or less.
    pub geometric_mean: Option<f64>,
    /// 95 % interval of the geometric mean over trials; it includes what differs between blocks, so compare forms by
    /// their ratios, not by these. None below 3 trials.
    pub interval: Option<Interval>,
}

/// A trial's value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BlockValue {
    /// The block.
    pub block: u32,
    /// The trial.
    pub trial: u32,
    /// The value, in the metric's unit.
    pub value: f64,
}

/// The trials of an arm, each with its value by `value_of`, together.
pub(crate) fn estimate(
    trials: &[&TrialData],
    value_of: impl Fn(&TrialData) -> Option<f64>,
    arm: &str,
) -> Option<Estimate> {
    let value = |trial: &&TrialData| {
        let planned = &trial.record.trial;
        let value = value_of(trial)?;
        value.is_finite().then_some(BlockValue { block: planned.block, trial: planned.index, value })
    };
    let of_arm = trials.iter().filter(|trial| trial.record.trial.arm() == arm);
    let values: Vec<BlockValue> = of_arm.filter_map(value).collect();
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().map(|value| value.value).sum::<f64>() / n;
    let logs: Option<Vec<f64>> = values.iter().map(|value| (value.value > 0.0).then(|| value.value.ln())).collect();
    let log_mean = logs.as_ref().map(|logs| logs.iter().sum::<f64>() / n);
    let interval = logs.filter(|logs| logs.len() >= BLOCKS_MIN).and_then(|logs| {
        let half = student_quantile(0.5 * (1.0 + CONFIDENCE), n - 1.0) * sd(&logs)? / n.sqrt();
        Some(Interval { low: (log_mean? - half).exp(), high: (log_mean? + half).exp() })
    });
    let at_least = Vec::new();
    Some(Estimate { arm: arm.to_owned(), values, at_least, mean, geometric_mean: log_mean.map(f64::exp), interval })
}

/// The log of a metric by block.
pub(crate) fn block_logs(estimate: &Estimate) -> BlockLogs {
    let positive = estimate.values.iter().filter(|value| value.value > 0.0);
    positive.map(|value| (value.block, value.value.ln())).collect()
}
