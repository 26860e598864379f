//! From the throughput at several levels to speed-up, efficiency and the law.

use super::caution::Caution;
use super::law::{Influence, Law, fit, influence};
use super::table::{LawFit, LevelRow, Parameter};
use crate::family::{CONFIDENCE, Family};
use crate::interval::Interval;
use crate::paired::{BLOCKS_MIN, BlockLogs, Differences, sd};
use crate::quantile::student_quantile;
use crate::welch::satterthwaite;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use std::collections::{BTreeMap, BTreeSet};

/// Levels below which three coefficients would only be solved for, not fitted.
const LEVELS_MIN: usize = 4;

/// How many times the lowest level the highest must be: over less, contention and coherence look the same.
const RANGE_MIN: f64 = 4.0;

/// A misfit that is more than noise (its p below [`MISFIT_P`]) and larger than this voids the fit; one larger than
/// [`MISFIT_ALWAYS`] does in any case.
const MISFIT_MAX: f64 = 0.02;
const MISFIT_ALWAYS: f64 = 0.1;
const MISFIT_P: f64 = 0.01;

/// The throughput at one level in one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelValue {
    /// Users, connections or instances; at least 1.
    pub level: f64,
    /// The block; of a record for each level ([`Pairing::Independent`]), the block of that record.
    pub block: u32,
    /// Operations per second.
    pub throughput: f64,
}

/// What the values at two levels have to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// A block has every level: what its machine and deployment did to all of them cancels.
    Blocks,
    /// Each level was measured by itself.
    Independent,
}

/// A sweep over levels, analysed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scaling {
    /// What the values at two levels have to do with each other.
    pub pairing: Pairing,
    /// Blocks with every level; of independent levels, the fewest blocks of any.
    pub blocks: usize,
    /// The levels, lowest first.
    pub levels: Vec<LevelRow>,
    /// The law; none when the levels do not allow one.
    pub law: Option<LawFit>,
    /// What a reader must know before believing it.
    #[serde(rename = "cautions_data")]
    pub cautions: Vec<Caution>,
}

/// Analyses a sweep. Values that are not positive and finite are left out; so are, with [`Pairing::Blocks`], levels
/// that were measured in fewer than two thirds of the blocks, and then blocks that lack a level.
///
/// The unit of all intervals is the block: by the linear fit around the solution, every block has its own coefficients,
/// whose mean is the fit's, and Student's t on them gives the interval, whatever the levels inside a block have in
/// common.
pub fn scaling(values: &[LevelValue], pairing: Pairing) -> Scaling {
    let mut cautions = Vec::new();
    let mut logs = by_level(values);
    if pairing == Pairing::Blocks {
        complete(&mut logs, &mut cautions);
    } else {
        cautions.push(Caution::LevelsApart);
    }
    let blocks = logs.iter().map(|(_, logs)| logs.len()).min().unwrap_or_default();
    let levels: Vec<f64> = logs.iter().map(|(level, _)| *level).collect();
    let logs: Vec<BlockLogs> = logs.into_iter().map(|(_, logs)| logs).collect();
    let means: Vec<f64> = logs.iter().map(|logs| logs.values().sum::<f64>() / logs.len() as f64).collect();
    let sweep = Sweep { pairing, levels, logs, means, blocks };
    let law = sweep.law(&mut cautions);
    if blocks < BLOCKS_MIN {
        cautions.push(Caution::NoIntervals { blocks, needed: BLOCKS_MIN });
    }
    let fitted = law.as_ref().filter(|law| law.fits).map(LawFit::law);
    Scaling { pairing, blocks, levels: sweep.rows(fitted), law, cautions }
}

impl LawFit {
    /// The law with its estimates.
    pub fn law(&self) -> Law {
        Law { lambda: self.lambda.value, sigma: self.sigma.value, kappa: self.kappa.value }
    }
}

/// By block: the sum of logs, and how many they are.
type BlockSums = BTreeMap<u32, (f64, f64)>;

/// The logs by level, lowest first; several values of one block are averaged.
fn by_level(values: &[LevelValue]) -> Vec<(f64, BlockLogs)> {
    let usable = values.iter().filter(|value| value.throughput > 0.0 && value.throughput.is_finite());
    let mut usable: Vec<&LevelValue> = usable.filter(|value| value.level >= 1.0 && value.level.is_finite()).collect();
    usable.sort_by(|a, b| a.level.total_cmp(&b.level));
    let mut sums: Vec<(f64, BlockSums)> = Vec::new();
    for value in usable {
        if sums.last().is_none_or(|(level, _)| *level != value.level) {
            sums.push((value.level, BTreeMap::new()));
        }
        let sum = sums.last_mut().map(|(_, blocks)| blocks.entry(value.block).or_default());
        let sum = sum.expect("a level was pushed if there was none");
        *sum = (sum.0 + value.throughput.ln(), sum.1 + 1.0);
    }
    let mean = |(block, (sum, n)): (u32, (f64, f64))| (block, sum / n);
    sums.into_iter().map(|(level, blocks)| (level, blocks.into_iter().map(mean).collect())).collect()
}

/// Leaves levels and blocks that make a whole table.
fn complete(logs: &mut Vec<(f64, BlockLogs)>, cautions: &mut Vec<Caution>) {
    let all: BTreeSet<u32> = logs.iter().flat_map(|(_, logs)| logs.keys().copied()).collect();
    let before = logs.len();
    logs.retain(|(_, logs)| 3 * logs.len() >= 2 * all.len());
    if logs.len() < before {
        cautions.push(Caution::LevelsLeftOut { levels: before - logs.len() });
    }
    let whole = |block: &u32| logs.iter().all(|(_, logs)| logs.contains_key(block));
    let kept: BTreeSet<u32> = all.iter().copied().filter(whole).collect();
    if kept.len() < all.len() {
        cautions.push(Caution::BlocksLeftOut { blocks: all.len() - kept.len() });
    }
    for (_, logs) in logs {
        logs.retain(|block, _| kept.contains(block));
    }
}

struct Sweep {
    pairing: Pairing,
    levels: Vec<f64>,
    logs: Vec<BlockLogs>,
    means: Vec<f64>,
    blocks: usize,
}

impl Sweep {
    fn rows(&self, law: Option<Law>) -> Vec<LevelRow> {
        if self.blocks == 0 {
            return Vec::new();
        }
        let others: Vec<&BlockLogs> = self.logs.iter().skip(1).collect();
        let family = Family::of(&self.logs[0], None, &others);
        let row = |(at, level): (usize, &f64)| {
            let log = self.means[at] - self.means[0];
            let half = if at == 0 { None } else { self.half_width(at, &family) };
            let interval = |log: f64| half.map(|half| Interval { low: (log - half).exp(), high: (log + half).exp() });
            let ideal = (level / self.levels[0]).ln();
            LevelRow {
                level: *level,
                throughput: self.means[at].exp(),
                speed_up: log.exp(),
                speed_up_interval: interval(log),
                efficiency: (log - ideal).exp(),
                efficiency_interval: interval(log - ideal),
                fitted: law.map(|law| law.at(*level)),
            }
        };
        self.levels.iter().enumerate().map(row).collect()
    }

    /// Half the width of the interval of a level's speed-up, log scale.
    fn half_width(&self, at: usize, family: &Family) -> Option<f64> {
        if self.pairing == Pairing::Blocks {
            return Some(family.claim(&Differences::of(&self.logs[at], &self.logs[0]))?.half_width());
        }
        let mut weights = vec![0.0; self.levels.len()];
        (weights[0], weights[at]) = (-1.0, 1.0);
        let (error, degrees) = self.error(&weights)?;
        let tail = 0.5 * (1.0 - CONFIDENCE) / (self.levels.len() - 1) as f64;
        Some(student_quantile(1.0 - tail, degrees) * error)
    }

    /// The standard error of a weighted sum of the levels' logs and its degrees of freedom. None below 3 blocks.
    fn error(&self, weights: &[f64]) -> Option<(f64, f64)> {
        if self.blocks < BLOCKS_MIN {
            return None;
        }
        if self.pairing == Pairing::Blocks {
            let of = |block: &u32| self.logs.iter().zip(weights).map(|(logs, weight)| weight * logs[block]).sum();
            let sums: Vec<f64> = self.logs[0].keys().map(of).collect();
            return Some((sd(&sums)? / (self.blocks as f64).sqrt(), self.blocks as f64 - 1.0));
        }
        let level = |(logs, weight): (&BlockLogs, &f64)| {
            let values: Vec<f64> = logs.values().copied().collect();
            let n = values.len() as f64;
            Some((weight.powi(2) * sd(&values)?.powi(2) / n, n - 1.0))
        };
        let levels: Vec<(f64, f64)> = self.logs.iter().zip(weights).map(level).collect::<Option<_>>()?;
        let (variance, degrees) = satterthwaite(levels);
        Some((variance.sqrt(), degrees))
    }

    fn law(&self, cautions: &mut Vec<Caution>) -> Option<LawFit> {
        let range = self.levels.last().zip(self.levels.first()).map_or(0.0, |(high, low)| high / low);
        if self.blocks == 0 || self.levels.len() < LEVELS_MIN {
            let levels = if self.blocks == 0 { 0 } else { self.levels.len() };
            cautions.push(Caution::TooFewLevels { levels, needed: LEVELS_MIN });
            return None;
        }
        if range < RANGE_MIN {
            cautions.push(Caution::NarrowRange { times: range, needed: RANGE_MIN });
            return None;
        }
        let free = fit(&self.levels, &self.means, [true, true]);
        let answers = free.and_then(|free| influence(&self.levels, &free));
        let Some(((free, answers), estimate)) = free.zip(answers).zip(free.and_then(|free| self.feasible(free))) else {
            cautions.push(Caution::Undetermined);
            return None;
        };
        let misfit = self.levels.iter().zip(&self.means).map(|(n, mean)| (mean - estimate.at(*n).ln()).abs());
        let misfit = misfit.fold(0.0, f64::max).exp_m1();
        let misfit_p = self.misfit_p(&estimate);
        let beyond_noise = misfit_p.map_or(misfit > 0.5 * MISFIT_ALWAYS, |p| p < MISFIT_P && misfit > MISFIT_MAX);
        let fits = !beyond_noise && misfit <= MISFIT_ALWAYS;
        if !fits {
            cautions.push(Caution::Misfit { off: misfit });
        }
        let sigma = self.parameter(estimate.sigma, free.sigma, &answers[1]);
        let kappa = self.parameter(estimate.kappa, free.kappa, &answers[2]);
        if sigma.interval.is_some_and(|interval| interval.high <= 0.0) {
            cautions.push(Caution::FasterAtFirst);
        }
        let bend = if fits { self.bend(&free, &answers, &kappa) } else { None };
        let lambda = self.lambda(&estimate, &free, &answers);
        Some(LawFit { lambda, sigma, kappa, bend, misfit, misfit_p, fits })
    }

    /// The fit whose coefficients are at least 0. If the free one is not, one of them or both are 0 in the best one.
    fn feasible(&self, free: Law) -> Option<Law> {
        let possible = |law: &Law| law.sigma >= 0.0 && law.kappa >= 0.0;
        if possible(&free) {
            return Some(free);
        }
        let choices = [[true, false], [false, true], [false, false]];
        let laws = choices.iter().filter_map(|free| fit(&self.levels, &self.means, *free)).filter(possible);
        laws.min_by(|a, b| self.squares(a).total_cmp(&self.squares(b)))
    }

    fn squares(&self, law: &Law) -> f64 {
        self.levels.iter().zip(&self.means).map(|(n, mean)| (mean - law.at(*n).ln()).powi(2)).sum()
    }

    /// The interval comes from the free fit, so that noise around 0 is not cut off before it is measured; its ends are
    /// then cut at 0, where nothing true can lie below.
    fn parameter(&self, value: f64, free: f64, influence: &[f64]) -> Parameter {
        let half = self.error(influence).map(|(error, degrees)| student_quantile(0.975, degrees) * error);
        let interval = half.map(|half| Interval { low: (free - half).max(0.0), high: (free + half).max(0.0) });
        Parameter { value, interval }
    }

    fn lambda(&self, estimate: &Law, free: &Law, answers: &Influence) -> Parameter {
        let half = self.error(&answers[0]).map(|(error, degrees)| student_quantile(0.975, degrees) * error);
        let around = |half: f64| Interval { low: free.lambda * (-half).exp(), high: free.lambda * half.exp() };
        Parameter { value: estimate.lambda, interval: half.map(around) }
    }

    fn bend(&self, free: &Law, answers: &Influence, kappa: &Parameter) -> Option<Parameter> {
        let certain = kappa.interval.is_some_and(|interval| interval.low > 0.0);
        let bend = free.bend().filter(|bend| certain && *bend < *self.levels.last().unwrap_or(&0.0))?;
        // log N* = (log(1 - sigma) - log kappa) / 2.
        let of = |(sigma, kappa): (&f64, &f64)| -0.5 * (sigma / (1.0 - free.sigma) + kappa / free.kappa);
        let influence: Vec<f64> = answers[1].iter().zip(&answers[2]).map(of).collect();
        let (error, degrees) = self.error(&influence)?;
        let half = student_quantile(0.975, degrees) * error;
        Some(Parameter { value: bend, interval: Some(Interval { low: bend * (-half).exp(), high: bend * half.exp() }) })
    }

    /// Lack of fit: the levels' distances from the law against what blocks differ by at a level (F test).
    fn misfit_p(&self, law: &Law) -> Option<f64> {
        if self.blocks < BLOCKS_MIN {
            return None;
        }
        let levels = self.levels.len() as f64;
        let mut within = 0.0;
        let mut degrees = 0.0;
        for (logs, mean) in self.logs.iter().zip(&self.means) {
            within += logs.values().map(|log| (log - mean).powi(2)).sum::<f64>();
            degrees += logs.len() as f64 - 1.0;
        }
        if self.pairing == Pairing::Blocks {
            let grand = self.means.iter().sum::<f64>() / levels;
            let of_block = |block: &u32| self.logs.iter().map(|logs| logs[block]).sum::<f64>() / levels - grand;
            within -= levels * self.logs[0].keys().map(|block| of_block(block).powi(2)).sum::<f64>();
            degrees -= self.blocks as f64 - 1.0;
        }
        let off = self.levels.iter().zip(&self.means).zip(&self.logs);
        let between: f64 = off.map(|((n, mean), logs)| logs.len() as f64 * (mean - law.at(*n).ln()).powi(2)).sum();
        let f = (between / (levels - 3.0)) / (within / degrees);
        if !f.is_finite() || f <= 0.0 {
            return Some(if between > 1e-18 { 0.0 } else { 1.0 });
        }
        FisherSnedecor::new(levels - 3.0, degrees).ok().map(|distribution| distribution.sf(f))
    }
}

#[cfg(test)]
mod tests;
