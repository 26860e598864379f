//! What failed: the share of its operations that each arm did not answer correctly, with its interval, and how much
//! larger it is than the baseline's. As a difference of shares, for most baselines have none to divide by.

use crate::analysis::{Arm, Interval};
use crate::bound::Lean;
use crate::family::CONFIDENCE;
use crate::paired::{BLOCKS_MIN, sd};
use crate::quantile::student_quantile;
use crate::voids::replaced_blocks;
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::record::{FAILED_SHARE, Record, TrialData};

/// What failed of an arm's operations while they were measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedShare {
    /// The arm.
    pub arm: String,
    /// Operations that were not answered correctly, those that were dropped included.
    pub failed: u64,
    /// All operations.
    pub operations: u64,
    /// How they failed and how many, most frequent first.
    pub kinds: Vec<(String, u64)>,
    /// The mean over trials of the share that failed.
    pub share: f64,
    /// Its 95 % interval over trials (Student's t), cut off at 0 and 1. None below 3 trials, and where nothing failed
    /// in any: that says nothing of how seldom it does.
    pub interval: Option<Interval>,
    /// How much larger the share is than the baseline's; none for the baseline itself, and without a common block.
    pub more: Option<MoreFailed>,
    /// Trials in which a service ended by itself under load. They are no part of the share.
    pub ended: Vec<u32>,
}

/// A difference of two shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MoreFailed {
    /// The mean difference inside blocks; positive where the arm fails more often.
    pub difference: f64,
    /// Its interval (Student's t, 95 % for all forms together by Šidák). None below 3 blocks, and where nothing failed.
    pub interval: Option<Interval>,
}

impl MoreFailed {
    /// Whether the interval excludes that they fail equally often.
    pub fn is_certain(&self) -> bool {
        self.interval.is_some_and(|interval| !interval.contains(0.0))
    }
}

/// The trials whose service ended under load, of blocks that count.
pub(crate) fn ended(record: &Record) -> Vec<&TrialData> {
    let replaced = replaced_blocks(record);
    let counts = |trial: &&TrialData| !replaced.contains(&trial.record.trial.block);
    record.trials.iter().filter(counts).filter(|trial| trial.record.service_ended.is_some()).collect()
}

/// By arm: where the truth of its figures lies. An arm that in some trial served nothing that a figure could be made
/// of, for all operations failed or the service ended, is worse than the figures of its other trials.
pub(crate) fn leans(record: &Record, counted: &[&TrialData], arms: &[Arm]) -> BTreeMap<String, Lean> {
    let nothing = |trial: &&&TrialData| trial.record.metrics.get(FAILED_SHARE) == Some(&1.0);
    let silent: Vec<&TrialData> = counted.iter().filter(nothing).copied().chain(ended(record)).collect();
    let worse = |arm: &Arm| silent.iter().any(|trial| trial.record.trial.arm() == arm.name);
    let lean = |arm: &Arm| Lean { worse: worse(arm), better: false };
    arms.iter().map(|arm| (arm.name.clone(), lean(arm))).collect()
}

/// The failed shares of all arms that were measured; empty where nothing failed anywhere.
pub(crate) fn failed_shares(record: &Record, counted: &[&TrialData], arms: &[Arm]) -> Vec<FailedShare> {
    let baseline = arms.iter().find(|arm| arm.baseline).map(|arm| shares(counted, &arm.name)).unwrap_or_default();
    let forms = arms.iter().filter(|arm| !arm.baseline && !arm.control && arm.measured > 0).count();
    let of_arm = |arm: &Arm| {
        let mut row = failed_share(counted, &arm.name)?;
        row.ended = ended(record)
            .iter()
            .map(|trial| &trial.record.trial)
            .filter(|t| t.arm() == arm.name)
            .map(|t| t.index)
            .collect();
        let family = if arm.control { 1 } else { forms };
        row.more = if arm.baseline { None } else { more_failed(&shares(counted, &arm.name), &baseline, family) };
        Some(row)
    };
    let rows: Vec<FailedShare> = arms.iter().filter_map(of_arm).collect();
    if rows.iter().all(|row| row.share == 0.0 && row.ended.is_empty()) { Vec::new() } else { rows }
}

/// The failed share of each of an arm's trials, by block.
fn shares(counted: &[&TrialData], arm: &str) -> BTreeMap<u32, f64> {
    let of_arm = counted.iter().map(|trial| &trial.record).filter(|trial| trial.trial.arm() == arm);
    of_arm.filter_map(|trial| Some((trial.trial.block, *trial.metrics.get(FAILED_SHARE)?))).collect()
}

fn failed_share(counted: &[&TrialData], arm: &str) -> Option<FailedShare> {
    let shares: Vec<f64> = shares(counted, arm).into_values().collect();
    let (share, half) = mean(&shares, 0.5 * (1.0 + CONFIDENCE))?;
    let (mut failed, mut operations, mut kinds) = (0, 0, BTreeMap::<String, u64>::new());
    let of_arm = counted.iter().map(|trial| &trial.record).filter(|trial| trial.trial.arm() == arm);
    for load in of_arm.filter_map(|trial| trial.load.as_ref()) {
        let errors = load.operations.values().map(|operation| operation.errors).sum::<u64>() + load.dropped;
        failed += errors;
        operations += errors + load.operations.values().map(|operation| operation.count).sum::<u64>();
        for (kind, count) in &load.failures {
            *kinds.entry(kind.clone()).or_default() += count;
        }
        if load.dropped > 0 {
            *kinds.entry("dropped".to_owned()).or_default() += load.dropped;
        }
    }
    let mut kinds: Vec<(String, u64)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let interval = half.map(|half| Interval { low: (share - half).max(0.0), high: (share + half).min(1.0) });
    Some(FailedShare { arm: arm.to_owned(), failed, operations, kinds, share, interval, more: None, ended: Vec::new() })
}

fn more_failed(here: &BTreeMap<u32, f64>, there: &BTreeMap<u32, f64>, family: usize) -> Option<MoreFailed> {
    let differences: Vec<f64> = here.iter().filter_map(|(block, share)| Some(share - there.get(block)?)).collect();
    let each = CONFIDENCE.powf(1.0 / family.max(1) as f64);
    let (difference, half) = mean(&differences, 0.5 * (1.0 + each))?;
    let interval = half.map(|half| Interval { low: difference - half, high: difference + half });
    Some(MoreFailed { difference, interval })
}

/// The mean, and half the width of its interval at a one-sided level. None of the latter where all values are 0.
fn mean(values: &[f64], level: f64) -> Option<(f64, Option<f64>)> {
    let n = values.len() as f64;
    let any = values.iter().any(|value| *value != 0.0);
    let spread = sd(values).filter(|_| values.len() >= BLOCKS_MIN && any);
    let half = spread.map(|spread| student_quantile(level, n - 1.0) * spread / n.sqrt());
    (n > 0.0).then(|| (values.iter().sum::<f64>() / n, half))
}
