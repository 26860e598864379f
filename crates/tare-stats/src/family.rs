//! Several forms against one baseline: which error and which quantile their intervals are made with, so that with 95 %
//! probability all of them hold the truth.

use crate::analysis::Method;
use crate::paired::{BLOCKS_MIN, BlockLogs, Differences, Precision};
use crate::quantile::{DunnettTable, student_quantile};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use std::collections::BTreeSet;

/// The probability that the intervals hold.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Arms whose spread differs by this test are not pooled.
const LEVENE_P: f64 = 0.01;

/// How the intervals of one metric are made.
pub(crate) struct Family {
    pub(crate) method: Method,
    comparisons: u32,
    /// Standard error of a difference and its degrees of freedom, if pooled.
    pooled: Option<(f64, u32)>,
    dunnett: f64,
    /// Standard deviation of the differences and its degrees of freedom, if every arm had partners of its own.
    pairs: Option<(f64, u32)>,
}

impl Family {
    /// Chooses. `baseline`, `control` and `forms` (claimed ones: no control, nothing emulated) by block, log scale.
    /// The error is pooled when all of them were measured in the same blocks and do not differ in spread.
    pub(crate) fn choose(
        baseline: &BlockLogs,
        control: Option<&BlockLogs>,
        forms: &[&BlockLogs],
        table: &mut DunnettTable,
    ) -> Family {
        let enough = |arm: &BlockLogs| Differences::of(arm, baseline).n() >= BLOCKS_MIN;
        let forms: Vec<&BlockLogs> = forms.iter().copied().filter(|form| enough(form)).collect();
        let comparisons = forms.len() as u32;
        let mut arms = vec![baseline];
        arms.extend(control.filter(|control| enough(control)));
        arms.extend(forms);
        let mut family = Family { method: Method::None, comparisons, pooled: None, dunnett: f64::NAN, pairs: None };
        if arms.len() < 2 {
            return family;
        }
        family.method = Method::PairedBonferroni;
        if let Some((spread, degrees)) = pairs_spread(baseline, &arms[1..]) {
            family.method = Method::PairsPooled;
            family.pairs = Some((spread, degrees));
            return family;
        }
        let complete = arms.iter().all(|arm| arm.keys().eq(baseline.keys()));
        if complete && let Some((standard_error, degrees)) = pooled_error(&arms) {
            family.method = Method::Dunnett;
            family.pooled = Some((standard_error, degrees));
            family.dunnett = table.quantile(CONFIDENCE, comparisons.max(1), degrees);
        }
        family
    }

    /// The precision of a form's mean difference, adjusted for the family. None below 3 blocks.
    pub(crate) fn claim(&self, differences: &Differences) -> Option<Precision> {
        let tail = 0.5 * (1.0 - CONFIDENCE) / f64::from(self.comparisons.max(1));
        self.precision(differences, self.dunnett, 1.0 - tail)
    }

    /// The precision of the A/A control's for the noise floor, not adjusted: the floor must not be wider than need be.
    pub(crate) fn floor(&self, differences: &Differences) -> Option<Precision> {
        self.control(differences, 0.5 * (1.0 + CONFIDENCE))
    }

    /// The precision of the A/A control's for the alarm, shared out over so many compared metrics (Bonferroni): of runs
    /// in which nothing differs, at most 1 in 20 raises an alarm, in whichever metric.
    pub(crate) fn alarm(&self, differences: &Differences, metrics: usize) -> Option<Precision> {
        self.control(differences, 1.0 - 0.5 * (1.0 - CONFIDENCE) / metrics.max(1) as f64)
    }

    fn control(&self, differences: &Differences, level: f64) -> Option<Precision> {
        let quantile = self.pooled.map_or(f64::NAN, |(_, degrees)| student_quantile(level, f64::from(degrees)));
        self.precision(differences, quantile, level)
    }

    fn precision(&self, differences: &Differences, pooled_quantile: f64, own_level: f64) -> Option<Precision> {
        if differences.n() < BLOCKS_MIN {
            return None;
        }
        if let Some((standard_error, degrees)) = self.pooled {
            return Some(Precision { standard_error, degrees: f64::from(degrees), quantile: pooled_quantile });
        }
        if let Some((spread, degrees)) = self.pairs {
            let (standard_error, degrees) = (spread / (differences.n() as f64).sqrt(), f64::from(degrees));
            return Some(Precision { standard_error, degrees, quantile: student_quantile(own_level, degrees) });
        }
        differences.precision(own_level)
    }
}

/// Residual error of `log y ~ block + arm` over complete arms: the standard error of a difference of two arms,
/// sqrt(2 s^2 / n), and its degrees of freedom, (arms - 1)(blocks - 1). None when the arms differ in spread.
pub(crate) fn pooled_error(arms: &[&BlockLogs]) -> Option<(f64, u32)> {
    let (count, blocks) = (arms.len(), arms[0].len());
    let rows: Vec<Vec<f64>> = arms.iter().map(|arm| arm.values().copied().collect()).collect();
    let mean = |values: &mut dyn Iterator<Item = f64>, n: usize| values.sum::<f64>() / n as f64;
    let of_arm: Vec<f64> = rows.iter().map(|row| mean(&mut row.iter().copied(), blocks)).collect();
    let of_block: Vec<f64> = (0..blocks).map(|b| mean(&mut rows.iter().map(|row| row[b]), count)).collect();
    let grand = mean(&mut of_arm.iter().copied(), count);
    let residual = |arm: usize, block: usize| rows[arm][block] - of_arm[arm] - of_block[block] + grand;
    let residuals: Vec<Vec<f64>> =
        (0..count).map(|arm| (0..blocks).map(|block| residual(arm, block)).collect()).collect();
    // With two arms the residuals mirror each other, so there is nothing to test.
    if count > 2 && levene_p(&residuals) < LEVENE_P {
        return None;
    }
    let degrees = (count - 1) * (blocks - 1);
    let squares: f64 = residuals.iter().flatten().map(|residual| residual * residual).sum();
    Some(((2.0 * squares / degrees as f64 / blocks as f64).sqrt(), degrees as u32))
}

/// The spread of differences within pairs, where no two arms share a partner, so that their differences are
/// independent: pooled over arms, with sum (n - 1) degrees of freedom. None when partners are shared, there is but one
/// arm, or the arms differ in spread.
fn pairs_spread(baseline: &BlockLogs, arms: &[&BlockLogs]) -> Option<(f64, u32)> {
    let differences: Vec<Differences> = arms.iter().map(|arm| Differences::of(arm, baseline)).collect();
    let blocks: usize = differences.iter().map(Differences::n).sum();
    let distinct: BTreeSet<u32> = differences.iter().flat_map(|d| d.blocks.iter().copied()).collect();
    if arms.len() < 2 || distinct.len() < blocks {
        return None;
    }
    let residuals: Vec<Vec<f64>> =
        differences.iter().map(|d| d.values.iter().map(|value| value - d.mean()).collect()).collect();
    if levene_p(&residuals) < LEVENE_P {
        return None;
    }
    let degrees = blocks - arms.len();
    let squares: f64 = residuals.iter().flatten().map(|residual| residual * residual).sum();
    Some(((squares / degrees as f64).sqrt(), degrees as u32))
}

/// Levene's test for equal spread: one-way analysis of the absolute residuals.
fn levene_p(residuals: &[Vec<f64>]) -> f64 {
    let sizes: Vec<Vec<f64>> = residuals.iter().map(|row| row.iter().map(|value| value.abs()).collect()).collect();
    let (arms, total) = (sizes.len() as f64, sizes.iter().map(Vec::len).sum::<usize>() as f64);
    let means: Vec<f64> = sizes.iter().map(|row| row.iter().sum::<f64>() / row.len() as f64).collect();
    let grand = sizes.iter().flatten().sum::<f64>() / total;
    let between = means.iter().zip(&sizes).map(|(mean, row)| row.len() as f64 * (mean - grand).powi(2)).sum::<f64>();
    let within = sizes.iter().zip(&means).flat_map(|(row, mean)| row.iter().map(move |value| (value - mean).powi(2)));
    let f = between / (arms - 1.0) / (within.sum::<f64>() / (total - arms));
    if !f.is_finite() {
        return 1.0;
    }
    FisherSnedecor::new(arms - 1.0, total - arms).map_or(1.0, |distribution| distribution.sf(f))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Normal noise from a seed.
    pub(crate) struct Noise(pub(crate) Xoshiro256PlusPlus);

    impl Noise {
        pub(crate) fn uniform(&mut self) -> f64 {
            ((self.0.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        /// Box and Muller.
        pub(crate) fn normal(&mut self) -> f64 {
            (-2.0 * self.uniform().ln()).sqrt() * (2.0 * std::f64::consts::PI * self.uniform()).cos()
        }

        /// Arms in `blocks` blocks: a block effect of 3 %, and noise of 1 % of each deployment's own times `spread`.
        fn arms(&mut self, effects: &[f64], spread: &[f64], blocks: u32) -> Vec<BlockLogs> {
            let mut arms = vec![BlockLogs::new(); effects.len()];
            for block in 0..blocks {
                let shared = 0.03 * self.normal();
                for (arm, logs) in arms.iter_mut().enumerate() {
                    logs.insert(block, 4.0 + shared + effects[arm] + 0.01 * spread[arm] * self.normal());
                }
            }
            arms
        }
    }

    /// Of 2000 experiments: the share in which the intervals of all forms hold the truth, and that of the control.
    fn coverage(effects: &[f64], spread: &[f64], blocks: u32, drop_one: bool) -> (f64, f64) {
        const EXPERIMENTS: u32 = 2_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(20_260));
        let mut table = DunnettTable::default();
        let (mut all_hold, mut control_holds) = (0, 0);
        for _ in 0..EXPERIMENTS {
            let mut arms = noise.arms(effects, spread, blocks);
            if drop_one {
                arms[2].remove(&0);
            }
            let forms: Vec<&BlockLogs> = arms[2..].iter().collect();
            let family = Family::choose(&arms[0], Some(&arms[1]), &forms, &mut table);
            let holds = |arm: usize, precision: Option<Precision>, differences: &Differences| {
                let truth = effects[arm] - effects[0];
                precision.unwrap().interval(differences.mean()).contains(truth.exp())
            };
            let of = |arm: usize| Differences::of(&arms[arm], &arms[0]);
            all_hold += u32::from((2..arms.len()).all(|arm| holds(arm, family.claim(&of(arm)), &of(arm))));
            control_holds += u32::from(holds(1, family.floor(&of(1)), &of(1)));
        }
        (f64::from(all_hold) / f64::from(EXPERIMENTS), f64::from(control_holds) / f64::from(EXPERIMENTS))
    }

    // 2000 experiments at 95 % have a standard error of 0.5 %: the bounds below are three to four of them.
    #[test]
    fn intervals_of_a_family_hold_the_truth_as_often_as_they_say() {
        let (all, control) = coverage(&[0.0, 0.0, -0.14, -0.03, 0.0], &[1.0; 5], 5, false);
        assert!((0.93..=0.97).contains(&all), "simultaneous coverage {all}");
        assert!((0.93..=0.97).contains(&control), "coverage of the control {control}");
    }

    #[test]
    fn an_aa_experiment_of_one_form_is_covered() {
        let (all, control) = coverage(&[0.0, 0.0, 0.0], &[1.0; 3], 5, false);
        assert!((0.93..=0.97).contains(&all), "{all}");
        assert!((0.93..=0.97).contains(&control), "{control}");
    }

    #[test]
    fn with_an_incomplete_arm_the_intervals_are_conservative() {
        let (all, control) = coverage(&[0.0, 0.0, -0.14, 0.05], &[1.0; 4], 5, true);
        assert!((0.94..=0.99).contains(&all), "{all}");
        assert!((0.93..=0.97).contains(&control), "{control}");
    }

    #[test]
    fn treating_blocks_as_unpaired_would_be_noticed() {
        // The block effect is three times the noise: if it did not cancel, intervals would be several times wider.
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(3));
        let arms = noise.arms(&[0.0, 0.0, 0.0], &[1.0; 3], 10);
        let family = Family::choose(&arms[0], Some(&arms[1]), &[&arms[2]], &mut DunnettTable::default());
        let differences = Differences::of(&arms[2], &arms[0]);
        assert!(family.claim(&differences).unwrap().half_width() < 0.02);
    }

    #[test]
    fn arms_of_unequal_spread_are_not_pooled() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(11));
        let arms = noise.arms(&[0.0; 4], &[1.0, 1.0, 1.0, 30.0], 12);
        let forms: Vec<&BlockLogs> = arms[2..].iter().collect();
        let family = Family::choose(&arms[0], Some(&arms[1]), &forms, &mut DunnettTable::default());
        assert_eq!(family.method, Method::PairedBonferroni);
    }

    #[test]
    fn the_alarm_is_shared_out_over_the_metrics_there_are() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(8));
        let arms = noise.arms(&[0.0; 3], &[1.0; 3], 6);
        let family = Family::choose(&arms[0], Some(&arms[1]), &[&arms[2]], &mut DunnettTable::default());
        let differences = Differences::of(&arms[1], &arms[0]);
        let quantile = |metrics| family.alarm(&differences, metrics).unwrap().quantile;
        assert_eq!(quantile(1), family.floor(&differences).unwrap().quantile);
        assert!((quantile(4) - student_quantile(1.0 - 0.025 / 4.0, 10.0)).abs() < 1e-12);
    }

    #[test]
    fn two_blocks_make_no_interval() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(1));
        let arms = noise.arms(&[0.0; 3], &[1.0; 3], 2);
        let family = Family::choose(&arms[0], Some(&arms[1]), &[&arms[2]], &mut DunnettTable::default());
        assert_eq!(family.method, Method::None);
        assert_eq!(family.claim(&Differences::of(&arms[2], &arms[0])), None);
    }

    #[test]
    fn the_pooled_error_of_two_arms_is_the_paired_one() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(5));
        let arms = noise.arms(&[0.0; 2], &[1.0; 2], 6);
        let (pooled, degrees) = pooled_error(&[&arms[0], &arms[1]]).unwrap();
        let paired = Differences::of(&arms[1], &arms[0]).standard_error().unwrap();
        assert_eq!(degrees, 5);
        assert!((pooled / paired - 1.0).abs() < 1e-9, "{pooled} {paired}");
    }

    #[test]
    fn the_smallest_detectable_difference_is_found_in_four_of_five_runs() {
        const EXPERIMENTS: u32 = 1_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(77));
        // Standard error of a difference of two arms with 1 % noise, 10 blocks: .01 sqrt(2/10).
        let precision =
            Precision { standard_error: 0.01 * 0.2_f64.sqrt(), degrees: 18.0, quantile: student_quantile(0.975, 18.0) };
        let effect = precision.smallest_detectable();
        let (mut found, mut table) = (0, DunnettTable::default());
        for _ in 0..EXPERIMENTS {
            let arms = noise.arms(&[0.0, 0.0, effect], &[1.0; 3], 10);
            let family = Family::choose(&arms[0], Some(&arms[1]), &[&arms[2]], &mut table);
            let differences = Differences::of(&arms[2], &arms[0]);
            found += u32::from(!family.claim(&differences).unwrap().interval(differences.mean()).contains(1.0));
        }
        let power = f64::from(found) / f64::from(EXPERIMENTS);
        assert!((0.76..=0.85).contains(&power), "{power}");
    }
}
