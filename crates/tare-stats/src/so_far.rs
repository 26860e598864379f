//! Results of a run so far: each arm's throughput relative to the baseline's, block by block.

use std::collections::BTreeMap;
use tare_core::plan::PlannedTrial;

use crate::{Interval, ratio_text, student_quantile};

/// The fewest blocks that give an interval.
const BLOCKS_MIN: usize = 3;
/// Rates that something can have, operations per second.
const RATES: std::ops::Range<f64> = 1e-9..1e15;

/// Throughputs of the trials that were measured.
#[derive(Debug, Clone, Default)]
pub struct SoFar {
    baseline: String,
    /// By block, then by arm.
    blocks: BTreeMap<u32, BTreeMap<String, f64>>,
    /// By block that runs another one again: which one.
    again: BTreeMap<u32, u32>,
}

/// An arm's ratio to the baseline so far.
#[derive(Debug, Clone, PartialEq)]
pub struct RatioSoFar {
    /// The arm.
    pub arm: String,
    /// Blocks in which it and the baseline were measured.
    pub blocks: usize,
    /// `exp(mean log difference)`.
    pub ratio: f64,
    /// The 95 % interval of this arm alone; none below 3 blocks.
    pub interval: Option<Interval>,
}

impl RatioSoFar {
    /// Such as `0.65 [0.64, 0.66]`.
    pub fn text(&self) -> String {
        ratio_text(self.ratio, self.interval)
    }

    fn of(arm: &str, logs: &[f64]) -> RatioSoFar {
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let interval = (logs.len() >= BLOCKS_MIN).then(|| {
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let half = student_quantile(0.975, n - 1.0) * (variance / n).sqrt();
            Interval { low: (mean - half).exp(), high: (mean + half).exp() }
        });
        RatioSoFar { arm: arm.to_owned(), blocks: logs.len(), ratio: mean.exp(), interval }
    }
}

impl SoFar {
    /// No results yet, relative to this form.
    pub fn against(baseline: &str) -> SoFar {
        SoFar { baseline: baseline.to_owned(), ..SoFar::default() }
    }

    /// Adds a trial and its throughput, operations per second. A rate that nothing can have is none: events may be
    /// anybody's.
    pub fn note(&mut self, trial: &PlannedTrial, throughput: Option<f64>) {
        let Some(rate) = throughput.filter(|rate| RATES.contains(rate) && !trial.profiled) else { return };
        self.blocks.entry(trial.block).or_default().insert(trial.arm(), rate);
        self.again.extend(trial.again.map(|of| (trial.block, of)));
    }

    /// The ratio of every arm that was measured beside the baseline, in the order of their names: Student's t of the
    /// log ratios within blocks. A block that ran again is left out as in the report: once the second run has every arm
    /// that was measured in the first.
    pub fn ratios(&self) -> Vec<RatioSoFar> {
        let mut logs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (_, block) in self.blocks.iter().filter(|(block, _)| !self.is_replaced(**block)) {
            let Some(baseline) = block.get(&self.baseline) else { continue };
            for (arm, rate) in block.iter().filter(|(arm, _)| **arm != self.baseline) {
                logs.entry(arm).or_default().push((rate / baseline).ln());
            }
        }
        logs.iter().map(|(arm, logs)| RatioSoFar::of(arm, logs)).collect()
    }

    /// Whether a second run of this block replaces it.
    fn is_replaced(&self, block: u32) -> bool {
        let first = self.blocks.get(&block);
        let is_whole = |again: u32| {
            let second = self.blocks.get(&again);
            first.zip(second).is_some_and(|(first, second)| first.keys().all(|arm| second.contains_key(arm)))
        };
        self.again.iter().any(|(again, of)| *of == block && is_whole(*again))
    }

    /// Such as `container 0.65 [0.64, 0.66]; plain (A/A) 1.00 [0.99, 1.01]`, of the arms that have an interval. None
    /// while there are too few blocks.
    pub fn line(&self) -> Option<String> {
        let ratios = self.ratios().into_iter().filter(|ratio| ratio.interval.is_some());
        let texts: Vec<String> = ratios.map(|ratio| format!("{} {}", ratio.arm, ratio.text())).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_without_an_arm_of_the_first_replaces_nothing() {
        let mut so_far = SoFar::against("plain");
        let mut note = |block, form: &str, again, rate| {
            let (form, control) = (form.to_owned(), false);
            so_far.note(&PlannedTrial { index: 0, block, form, control, again, profiled: false }, Some(rate));
            so_far.ratios().iter().map(|ratio| (ratio.arm.clone(), ratio.blocks)).collect::<Vec<_>>()
        };
        let of = |arm: &str, blocks| (arm.to_owned(), blocks);
        note(0, "plain", None, 100.0);
        assert_eq!(note(0, "box", None, 80.0), [of("box", 1)]);
        note(1, "plain", Some(0), 100.0);
        // Both runs count, as in the report, until the second one has the arms of the first.
        assert_eq!(note(1, "other", Some(0), 90.0), [of("box", 1), of("other", 1)]);
        assert_eq!(note(1, "box", Some(0), 80.0), [of("box", 1), of("other", 1)]);
    }

    #[test]
    fn an_interval_shrinks_with_the_blocks() {
        let mut so_far = SoFar::against("plain");
        let trial = |block, form: &str, again| PlannedTrial {
            index: 0,
            block,
            form: form.to_owned(),
            control: false,
            again,
            profiled: false,
        };
        for block in 0..3 {
            assert_eq!(so_far.line(), None);
            assert!(so_far.ratios().iter().all(|ratio| ratio.interval.is_none()));
            let drift = 100.0 + 10.0 * f64::from(block);
            so_far.note(&trial(block, "plain", None), Some(drift));
            so_far.note(&trial(block, "box", None), Some(drift * if block == 1 { 0.82 } else { 0.80 }));
            so_far.note(&trial(block, "dead", None), None);
        }
        assert_eq!(so_far.line().unwrap(), "box 0.81 [0.78, 0.84]");
        // A block that is run again counts once, and its forms are not compared with those of the first run.
        so_far.note(&trial(7, "plain", Some(1)), Some(220.0));
        assert_eq!(so_far.line().unwrap(), "box 0.81 [0.78, 0.84]");
        so_far.note(&trial(7, "box", Some(1)), Some(176.0));
        assert_eq!(so_far.line().unwrap(), "box 0.800 [0.800, 0.800]");
        // What nothing can reach does not count.
        for rate in [0.0, -1.0, 1e-300, 1e300, f64::INFINITY, f64::NAN] {
            so_far.note(&trial(9, "plain", None), Some(rate));
        }
        so_far.note(&trial(9, "box", None), Some(1.0));
        assert_eq!(so_far.line().unwrap(), "box 0.800 [0.800, 0.800]");
    }
}
