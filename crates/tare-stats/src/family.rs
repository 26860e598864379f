//! Several forms against one baseline: which quantile their intervals are made with, so that with 95 % probability all
//! of them hold the truth.

use crate::paired::{BLOCKS_MIN, BlockLogs, Differences, Precision};
use serde::Serialize;

/// The probability that the intervals hold.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// How the intervals of a family of forms were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each form's own differences inside blocks give its error, Student's t, the level shared out over the forms
    /// (Šidák).
    OwnError,
    /// No interval: fewer than 3 blocks, or nothing to compare.
    None,
}

/// How the intervals of one metric are made.
///
/// Each form has the error of its own differences, with the degrees of freedom of these alone. Forms do differ in
/// spread, and with four or five blocks no test can tell by how much: an error pooled over five arms of which one is
/// five times as noisy makes that one's interval miss twice as often as it says.
///
/// The level is shared out after Šidák: were the forms' differences independent of each other, intervals of the level
/// 0.95^(1/k) would hold together in exactly 95 % of runs; that they share a baseline makes it more, up to 97 % where
/// the baseline has most of the noise. Z. Šidák, JASA 62 (1967).
pub(crate) struct Family {
    pub(crate) method: Method,
    comparisons: u32,
}

impl Family {
    /// Of `control` and `forms` (claimed ones: no control, nothing emulated) against the `baseline`, by block, log
    /// scale.
    pub(crate) fn of(baseline: &BlockLogs, control: Option<&BlockLogs>, forms: &[&BlockLogs]) -> Family {
        let enough = |arm: &BlockLogs| Differences::of(arm, baseline).n() >= BLOCKS_MIN;
        let comparisons = forms.iter().filter(|form| enough(form)).count() as u32;
        let any = comparisons > 0 || control.is_some_and(enough);
        Family { method: if any { Method::OwnError } else { Method::None }, comparisons }
    }

    /// The precision of a form's mean difference, adjusted for the family. None below 3 blocks.
    pub(crate) fn claim(&self, differences: &Differences) -> Option<Precision> {
        differences.precision(Family::level(self.comparisons))
    }

    /// The one-sided level of each of so many forms' intervals.
    pub(crate) fn level(comparisons: u32) -> f64 {
        0.5 * (1.0 + CONFIDENCE.powf(1.0 / f64::from(comparisons.max(1))))
    }

    /// The precision of the A/A control's for the noise floor, not adjusted: the floor must not be wider than need be.
    pub(crate) fn floor(&self, differences: &Differences) -> Option<Precision> {
        differences.precision(0.5 * (1.0 + CONFIDENCE))
    }

    /// The precision of the A/A control's for the alarm, shared out over so many compared metrics (Bonferroni): of runs
    /// in which nothing differs, at most 1 in 20 raises an alarm, in whichever metric.
    pub(crate) fn alarm(&self, differences: &Differences, metrics: usize) -> Option<Precision> {
        differences.precision(1.0 - 0.5 * (1.0 - CONFIDENCE) / metrics.max(1) as f64)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::quantile::student_quantile;
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
        let (mut all_hold, mut control_holds) = (0, 0);
        for _ in 0..EXPERIMENTS {
            let mut arms = noise.arms(effects, spread, blocks);
            if drop_one {
                arms[2].remove(&0);
            }
            let forms: Vec<&BlockLogs> = arms[2..].iter().collect();
            let family = Family::of(&arms[0], Some(&arms[1]), &forms);
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
        let family = Family::of(&arms[0], Some(&arms[1]), &[&arms[2]]);
        let differences = Differences::of(&arms[2], &arms[0]);
        assert!(family.claim(&differences).unwrap().half_width() < 0.02);
    }

    #[test]
    fn unequal_spreads_leave_the_intervals_what_they_are() {
        for spread in [&[1.0, 1.0, 3.0][..], &[1.0, 1.0, 1.0, 1.0, 5.0]] {
            for blocks in [4, 5, 12] {
                let (all, control) = coverage(&vec![0.0; spread.len()], spread, blocks, false);
                assert!((0.93..=0.97).contains(&all), "{spread:?}, {blocks} blocks: {all}");
                assert!((0.93..=0.97).contains(&control), "{spread:?}, {blocks} blocks, control: {control}");
            }
        }
    }

    #[test]
    fn a_noisy_form_has_its_own_error_and_not_its_neighbours() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(11));
        let arms = noise.arms(&[0.0; 4], &[1.0, 1.0, 1.0, 30.0], 12);
        let forms: Vec<&BlockLogs> = arms[2..].iter().collect();
        let family = Family::of(&arms[0], Some(&arms[1]), &forms);
        assert_eq!(family.method, Method::OwnError);
        let [quiet, noisy] = [2, 3].map(|arm| family.claim(&Differences::of(&arms[arm], &arms[0])).unwrap());
        assert_eq!((quiet.degrees, noisy.degrees), (11.0, 11.0));
        assert!(noisy.standard_error > 10.0 * quiet.standard_error, "{noisy:?} {quiet:?}");
    }

    #[test]
    fn the_alarm_is_shared_out_over_the_metrics_there_are() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(8));
        let arms = noise.arms(&[0.0; 3], &[1.0; 3], 6);
        let family = Family::of(&arms[0], Some(&arms[1]), &[&arms[2]]);
        let differences = Differences::of(&arms[1], &arms[0]);
        let quantile = |metrics| family.alarm(&differences, metrics).unwrap().quantile;
        assert_eq!(quantile(1), family.floor(&differences).unwrap().quantile);
        assert!((quantile(4) - student_quantile(1.0 - 0.025 / 4.0, 5.0)).abs() < 1e-12);
    }

    #[test]
    fn two_blocks_make_no_interval() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(1));
        let arms = noise.arms(&[0.0; 3], &[1.0; 3], 2);
        let family = Family::of(&arms[0], Some(&arms[1]), &[&arms[2]]);
        assert_eq!(family.method, Method::None);
        assert_eq!(family.claim(&Differences::of(&arms[2], &arms[0])), None);
    }

    #[test]
    fn the_level_is_shared_out_over_the_forms() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(5));
        let arms = noise.arms(&[0.0; 4], &[1.0; 4], 6);
        let differences = Differences::of(&arms[2], &arms[0]);
        let quantile = |forms: &[&BlockLogs]| Family::of(&arms[0], None, forms).claim(&differences).unwrap().quantile;
        assert!((quantile(&[&arms[2]]) - student_quantile(0.975, 5.0)).abs() < 1e-12);
        // Both of two independent intervals hold with 0.95: each with its root.
        let both = 0.5 * (1.0 + 0.95_f64.sqrt());
        assert!((quantile(&[&arms[2], &arms[3]]) - student_quantile(both, 5.0)).abs() < 1e-12);
    }

    #[test]
    fn the_smallest_detectable_difference_is_found_in_four_of_five_runs() {
        const EXPERIMENTS: u32 = 1_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(77));
        // Standard error of a difference of two arms with 1 % noise, 10 blocks: .01 sqrt(2/10).
        let precision =
            Precision { standard_error: 0.01 * 0.2_f64.sqrt(), degrees: 9.0, quantile: student_quantile(0.975, 9.0) };
        let effect = precision.smallest_detectable();
        let mut found = 0;
        for _ in 0..EXPERIMENTS {
            let arms = noise.arms(&[0.0, 0.0, effect], &[1.0; 3], 10);
            let family = Family::of(&arms[0], Some(&arms[1]), &[&arms[2]]);
            let differences = Differences::of(&arms[2], &arms[0]);
            found += u32::from(!family.claim(&differences).unwrap().interval(differences.mean()).contains(1.0));
        }
        let power = f64::from(found) / f64::from(EXPERIMENTS);
        assert!((0.76..=0.85).contains(&power), "{power}");
    }
}
