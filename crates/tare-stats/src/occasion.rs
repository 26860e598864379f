//! What two runs of the same thing differ by, over what their blocks show.
//!
//! Blocks say how exactly a ratio was measured on this occasion. On another one, after another boot and in other
//! memory, equals lie apart in another way, and no number of blocks in one run shows by how much. The A/A controls of
//! many runs do: their ratio is known to be 1, so what they lie off beyond their own errors is the occasions'.

use crate::analysis::{Analysis, Ratio};
use crate::welch::satterthwaite;
use serde::Serialize;
use std::collections::BTreeMap;

/// Runs below which nothing is learned.
const RUNS_MIN: usize = 6;

/// How far apart equals were in one run, in one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Equals {
    /// The log of the A/A control's ratio.
    pub log: f64,
    /// Its standard error, by the run's own blocks.
    pub standard_error: f64,
    /// The degrees of freedom of that.
    pub degrees: f64,
}

/// By metric that is compared: how far apart equals were in this run.
pub fn equals(analysis: &Analysis) -> BTreeMap<String, Equals> {
    let of_metric = |metric: &crate::MetricAnalysis| {
        let control = metric.ratios.iter().find(|ratio| ratio.arm == analysis.control)?;
        control.interval?;
        let (log, standard_error, degrees) = (control.ratio.ln(), control.standard_error?, control.degrees?);
        Some((metric.name.clone(), Equals { log, standard_error, degrees }))
    };
    analysis.metrics.iter().filter_map(of_metric).collect()
}

/// What occasions add to the error of a ratio, in one metric, as the A/A controls of past runs show it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Occasion {
    /// Of so many runs.
    pub runs: usize,
    /// The mean square of the controls' log ratios, whose truth is 0.
    squares: f64,
    /// The mean of their own squared errors, and its degrees of freedom.
    within: f64,
    within_degrees: f64,
}

/// By metric.
pub type Occasions = BTreeMap<String, Occasion>;

impl Occasion {
    /// From the A/A controls of past runs; none when they are fewer than six.
    pub fn learn(runs: &[Equals]) -> Option<Occasion> {
        if runs.len() < RUNS_MIN {
            return None;
        }
        let k = runs.len() as f64;
        let squares = runs.iter().map(|run| run.log.powi(2)).sum::<f64>() / k;
        let own = runs.iter().map(|run| (run.standard_error.powi(2) / k, run.degrees));
        let (within, within_degrees) = satterthwaite(own);
        Some(Occasion { runs: runs.len(), squares, within, within_degrees })
    }

    /// The standard deviation from occasion to occasion, log scale; 0 where the controls lie apart as far as blocks
    /// explain.
    pub fn deviation(&self) -> f64 {
        (self.squares - self.within).max(0.0).sqrt()
    }

    /// The variance of the difference of two runs' log ratios and its degrees of freedom: their own variances, each
    /// with its degrees, and twice what occasions add. Satterthwaite's degrees hold for differences of mean squares as
    /// well: F. E. Satterthwaite, Biometrics Bulletin 2 (1946).
    fn of_difference(&self, own: [(f64, f64); 2]) -> (f64, f64) {
        if self.squares <= self.within {
            return satterthwaite(own);
        }
        let variance = own[0].0 + own[1].0 + 2.0 * (self.squares - self.within);
        let below: f64 = own.iter().map(|(own, degrees)| own * own / degrees).sum();
        let below =
            below + 4.0 * self.squares.powi(2) / self.runs as f64 + 4.0 * self.within.powi(2) / self.within_degrees;
        (variance, variance * variance / below)
    }
}

/// The standard error of the difference of two runs' log ratios and its degrees of freedom, after Welch and
/// Satterthwaite. None when either has no interval: then its standard error makes no claim.
pub(crate) fn error_of_change(before: &Ratio, after: &Ratio, occasion: Option<&Occasion>) -> Option<(f64, f64)> {
    before.interval.and(after.interval)?;
    let own = |ratio: &Ratio| Some((ratio.standard_error?.powi(2), ratio.degrees?));
    let own = [own(before)?, own(after)?];
    let (variance, degrees) = occasion.map_or_else(|| satterthwaite(own), |occasion| occasion.of_difference(own));
    Some((variance.sqrt(), degrees))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::Noise;
    use crate::paired::sd;
    use crate::quantile::student_quantile;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// A run of equals: five blocks of 1 % each, on an occasion of its own.
    fn run(between: f64, noise: &mut Noise) -> Equals {
        let occasion = between * noise.normal();
        let values: Vec<f64> = (0..5).map(|_| occasion + 0.01 * noise.normal()).collect();
        let log = values.iter().sum::<f64>() / 5.0;
        Equals { log, standard_error: sd(&values).unwrap() / 5_f64.sqrt(), degrees: 4.0 }
    }

    /// Of 2000 pairs of runs that differ in nothing but their occasions, the share whose interval holds no change: by
    /// what twenty runs before them taught, and by nothing but their own blocks.
    fn coverage(between: f64) -> (f64, f64) {
        const PAIRS: u32 = 2_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(41));
        let (mut learned, mut alone) = (0, 0);
        for _ in 0..PAIRS {
            let past: Vec<Equals> = (0..20).map(|_| run(between, &mut noise)).collect();
            let pair = [run(between, &mut noise), run(between, &mut noise)];
            let own = pair.map(|run| (run.standard_error.powi(2), run.degrees));
            let holds = |(variance, degrees): (f64, f64)| {
                (pair[1].log - pair[0].log).abs() <= student_quantile(0.975, degrees) * variance.sqrt()
            };
            learned += u32::from(holds(Occasion::learn(&past).unwrap().of_difference(own)));
            alone += u32::from(holds(satterthwaite(own)));
        }
        (f64::from(learned) / f64::from(PAIRS), f64::from(alone) / f64::from(PAIRS))
    }

    // 2000 pairs at 95 % have a standard error of 0.5 %.
    #[test]
    fn what_occasions_add_is_learned_from_equals() {
        for between in [0.0, 0.003, 0.0055, 0.02] {
            let (learned, alone) = coverage(between);
            eprintln!("{between} between occasions: {learned} hold, {alone} by their own blocks");
            // What is estimated is never below 0, so where it is 0 intervals are somewhat too wide.
            assert!((0.93..=0.975).contains(&learned), "{between}: {learned}");
            assert!(between < 0.005 || alone < 0.9, "{between}: the occasions are too alike to test anything: {alone}");
        }
    }

    #[test]
    fn few_runs_teach_nothing_and_calm_ones_nothing_to_add() {
        let equals = Equals { log: 0.001, standard_error: 0.004, degrees: 4.0 };
        assert_eq!(Occasion::learn(&[equals; 5]), None);
        let calm = Occasion::learn(&[equals; 6]).unwrap();
        assert_eq!((calm.deviation(), calm.of_difference([(1.0, 4.0), (1.0, 4.0)])), (0.0, (2.0, 8.0)));
        let apart = Occasion::learn(&[Equals { log: 0.005, ..equals }; 6]).unwrap();
        assert!((apart.deviation() - 0.003).abs() < 1e-9, "{apart:?}");
    }
}
