//! What failed: the share of its operations that each arm did not answer correctly, with its interval, and how much
//! larger it is than the baseline's. As a difference of shares, for most baselines have none to divide by.
//!
//! Trials are what varies, so Student's t over them says how well a share is known. Where all trials have one and the
//! same share, as three that failed wholly, there is no spread to tell it by, which makes nothing certain. Then a trial
//! counts as one answer, yes or no, whatever number of operations it had: the least that so many trials can tell
//! (clusters whose members are all alike; L. Kish, Survey Sampling, 1965). The interval is E. B. Wilson's of so many
//! (JASA 22, 1927), and that of a difference is made of two (R. G. Newcombe, Statistics in Medicine 17, 1998, 873-890,
//! method 10).

use crate::arm::Arm;
use crate::bound::Lean;
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::paired::{BLOCKS_MIN, sd};
use crate::quantile::student_quantile;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::BTreeMap;
use tare_core::record::{FAILED_SHARE, Record, TrialData};

/// Shares that spread by less than this are one and the same, but for their last digits.
const NO_SPREAD: f64 = 1e-9;

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
    /// Its 95 % interval over trials (Student's t; Wilson's where all have the same share), cut off at 0 and 1. None
    /// below 3 trials, and where nothing failed in any: that says nothing of how seldom it does.
    pub interval: Option<Interval>,
    /// How much larger the share is than the baseline's; none for the baseline itself, and without a common block.
    pub more: Option<MoreFailed>,
    /// Trials in which a service ended by itself, before it was ready or under load. They are no part of the share.
    pub ended: Vec<u32>,
}

/// A difference of two shares.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MoreFailed {
    /// The mean difference inside blocks; positive where the arm fails more often.
    pub difference: f64,
    /// Its interval (Student's t, or Newcombe's of two where all blocks have the same difference; 95 % for all forms
    /// together by Šidák). None below 3 blocks, and where nothing failed.
    pub interval: Option<Interval>,
}

impl MoreFailed {
    /// Whether the interval excludes that they fail equally often.
    pub fn is_certain(&self) -> bool {
        self.interval.is_some_and(|interval| !interval.contains(0.0))
    }
}

/// The trials whose service ended by itself, those of blocks that were run again for another's sake among them: that a
/// second run was whole does not undo what a form did in the first.
pub(crate) fn ended(record: &Record) -> Vec<&TrialData> {
    record.trials.iter().filter(|trial| trial.record.service_ended.is_some()).collect()
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
    let level = 0.5 * (1.0 + CONFIDENCE);
    let (share, interval) = mean(&shares, level, |share| wilson(share, shares.len(), level))?;
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
    let interval = interval.map(|Interval { low, high }| Interval { low: low.max(0.0), high: high.min(1.0) });
    Some(FailedShare { arm: arm.to_owned(), failed, operations, kinds, share, interval, more: None, ended: Vec::new() })
}

fn more_failed(here: &BTreeMap<u32, f64>, there: &BTreeMap<u32, f64>, family: usize) -> Option<MoreFailed> {
    let both: Vec<(f64, f64)> = here.iter().filter_map(|(block, share)| Some((*share, *there.get(block)?))).collect();
    let differences: Vec<f64> = both.iter().map(|(here, there)| here - there).collect();
    let each = CONFIDENCE.powf(1.0 / family.max(1) as f64);
    let level = 0.5 * (1.0 + each);
    let of = |share: fn(&(f64, f64)) -> f64| both.iter().map(share).sum::<f64>() / both.len() as f64;
    let alike = |_| newcombe([of(|both| both.0), of(|both| both.1)], both.len(), level);
    let (difference, interval) = mean(&differences, level, alike)?;
    Some(MoreFailed { difference, interval })
}

/// The mean of values, and its interval at a one-sided level: by their spread, or what `alike` makes of their mean
/// where they have none. No interval where all are 0, and below three.
fn mean(values: &[f64], level: f64, alike: impl Fn(f64) -> Interval) -> Option<(f64, Option<Interval>)> {
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let any = values.iter().any(|value| *value != 0.0);
    let spread = sd(values).filter(|_| values.len() >= BLOCKS_MIN && any);
    let interval = spread.map(|spread| {
        let half = student_quantile(level, n - 1.0) * spread / n.sqrt();
        if spread < NO_SPREAD { alike(mean) } else { Interval { low: mean - half, high: mean + half } }
    });
    Some((mean, interval))
}

/// Wilson's interval of a share of so many yes or no, at a one-sided level.
fn wilson(share: f64, count: usize, level: f64) -> Interval {
    let n = count as f64;
    let z2 = Normal::standard().inverse_cdf(level).powi(2);
    let middle = share + z2 / (2.0 * n);
    let half = (z2 * share * (1.0 - share) / n + (z2 / (2.0 * n)).powi(2)).max(0.0).sqrt();
    let all = 1.0 + z2 / n;
    Interval { low: ((middle - half) / all).max(0.0), high: ((middle + half) / all).min(1.0) }
}

/// Newcombe's interval of the difference of two shares, the first less the second, of so many yes or no each.
fn newcombe([here, there]: [f64; 2], count: usize, level: f64) -> Interval {
    let [of_here, of_there] = [here, there].map(|share| wilson(share, count, level));
    let difference = here - there;
    Interval {
        low: difference - (here - of_here.low).hypot(of_there.high - there),
        high: difference + (of_here.high - here).hypot(there - of_there.low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_and_newcombe_agree_with_their_papers() {
        let near = |interval: Interval, low: f64, high: f64| {
            assert!((interval.low - low).abs() < 5e-5 && (interval.high - high).abs() < 5e-5, "{interval:?}");
        };
        // 81 of 263, and 0 of 20: Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3.
        near(wilson(81.0 / 263.0, 263, 0.975), 0.2553, 0.3662);
        near(wilson(0.0, 20, 0.975), 0.0, 0.1611);
        near(wilson(1.0, 3, 0.975), 0.4385, 1.0);
        // 10 of 10 less 0 of 10, ibidem 873-890, table II, method 10: that of 10 and 10.
        near(newcombe([1.0, 0.0], 10, 0.975), 0.6075, 1.0);
    }
}
