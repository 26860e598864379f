//! When two forms may be called equal: not because no difference was found, but because none beyond a stated margin is
//! left to be found. Two one-sided tests; D. J. Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987).

use crate::analysis::Analysis;
use crate::paired::blocks_needed;
use crate::quantile::student_quantile;
use crate::ratios::{LeftCold, LeftStill, Ratio};
use crate::stalls::{Beyond, left_still};
use crate::verdict::Verdict;
use crate::warming::Warming;
use crate::warmth::slice_of_unknown_warmth;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::design::Arrangement;
use tare_core::record::Record;

/// The level of each of the two tests, shared out over the forms.
const LEVEL: f64 = 0.05;

/// Judges every form in every compared metric against the study's margin, a share. A form is equivalent when the
/// interval of its ratio at twice the level, 90 % for a single form, lies within 1 / (1 + margin) and 1 + margin:
/// around the ratio of operations over time, around that of trimmed means, and with what slices may have left in
/// either, or stalls have done where there are no trimmed means (`beyond`, by arm). And the A/A control must be
/// equivalent by the same test: where equals may differ by more than the margin, that two forms do not is luck. Where
/// nothing was decided, says how many blocks would bring the interval down to the margin.
pub(crate) fn declare(analysis: &mut Analysis, record: &Record, beyond: &BTreeMap<String, Beyond>) {
    left_cold(analysis, record);
    left_still(&mut analysis.metrics, beyond);
    let margin = record.header.study.design.margin();
    analysis.margin = margin;
    let control = analysis.control.clone();
    // A ruler's weight is known: it is in no verdict, and takes no share of the level.
    let rulers: BTreeSet<String> =
        analysis.arms.iter().filter(|arm| arm.weight.is_some()).map(|arm| arm.name.clone()).collect();
    let is_form = |ratio: &Ratio| ratio.arm != control && !rulers.contains(&ratio.arm);
    for metric in analysis.metrics.iter_mut().filter(|metric| metric.compared) {
        let forms = metric.ratios.iter().filter(|ratio| is_form(ratio) && ratio.interval.is_some()).count();
        let equals = metric.ratios.iter().find(|ratio| ratio.arm == control);
        let of_equals = |equals: &Ratio| {
            let left = equals.still.map_or(0.0, |still| still.share);
            is_within_but(equals, margin, 1, left)
        };
        let equals_are = !metric.control_differs && equals.is_some_and(of_equals);
        for ratio in metric.ratios.iter_mut().filter(|ratio| is_form(ratio)) {
            judge(ratio, margin, forms, equals_are);
        }
    }
}

/// Notes in each ratio of a chopped load what may be left of what forms are slower by while they get warm. In
/// throughput, which is that of second halves, up to half of what the halves differ by, as far as that may be; in
/// figures of whole turns all of it. Nobody knows where halves do not tell, the service is cold even in the longest
/// slices, or turns of several lengths were to be compared and could not be. So is what a form does more or less than
/// the baseline in others' turns, where it is enough to be named.
fn left_cold(analysis: &mut Analysis, record: &Record) {
    if !matches!(record.header.study.design.arrangement, Arrangement::Chop(_)) {
        return;
    }
    let is_unknown =
        slice_of_unknown_warmth(record, &analysis.warmth).is_some() || analysis.warmth.iter().any(|found| found.cold);
    for metric in &mut analysis.metrics {
        let left = if metric.name == "throughput" { Warming::left_in_throughput } else { Warming::at_most };
        for ratio in metric.ratios.iter_mut().filter(|ratio| ratio.arm != analysis.control) {
            let of_arm = analysis.warming.iter().find(|found| found.arm == ratio.arm).filter(|_| !is_unknown);
            // What a form does in others' turns, its own ones are spared.
            let worked = analysis.resting.iter().find(|found| found.form == ratio.arm);
            let spared = worked.map_or(0.0, |found| (found.share - found.of_baseline).abs());
            let share = of_arm.map(|found| left(found) + spared);
            ratio.cold = Some(LeftCold { share, decides: false });
        }
    }
}

/// Whether the interval of one of so many forms lies within the margin. Both estimates must say so: one that leaves out
/// a form's stalls, or the other's, has no say against it. What has no interval is not.
fn is_within(ratio: &Ratio, margin: f64, forms: usize) -> bool {
    is_within_but(ratio, margin, forms, 0.0)
}

/// Where it may be off by another share `left`.
fn is_within_but(ratio: &Ratio, margin: f64, forms: usize, left: f64) -> bool {
    let Some((error, degrees)) = ratio.standard_error.zip(ratio.degrees) else { return false };
    let farther = ratio.trimmed.map_or(0.0, |trimmed| trimmed.ln().abs()).max(ratio.ratio.ln().abs());
    let reach = farther + student_quantile(1.0 - LEVEL / forms.max(1) as f64, degrees) * error;
    reach + left.ln_1p() <= margin.ln_1p() && !ratio.trimming_differs
}

fn judge(ratio: &mut Ratio, margin: f64, forms: usize, equals_are: bool) {
    let decided = matches!(ratio.verdict, Verdict::Better | Verdict::Worse);
    if !decided && !matches!(ratio.verdict, Verdict::NoDifference | Verdict::WithinNoise) {
        return;
    }
    if ratio.bound.is_some() {
        // The truth lies farther off, nobody knows how far.
        ratio.equivalent = Some(false);
        return;
    }
    let mut within = is_within(ratio, margin, forms);
    if let Some(cold) = &ratio.cold {
        let still = cold.share.is_some_and(|left| is_within_but(ratio, margin, forms, left));
        let decides = within && !still;
        within = still;
        ratio.cold = Some(LeftCold { decides, ..*cold });
    }
    if let Some(still) = ratio.still {
        let decides = within && !is_within_but(ratio, margin, forms, still.share);
        within &= !decides;
        ratio.still = Some(LeftStill { decides, ..still });
    }
    let equivalent = within && equals_are;
    ratio.equivalent = Some(equivalent);
    ratio.equals_beyond_margin = within && !equals_are;
    if !decided && equivalent {
        ratio.verdict = Verdict::Equivalent;
    }
    if ratio.verdict == Verdict::NoDifference {
        ratio.blocks_needed = ratio.interval.and_then(|interval| {
            let half_width = 0.5 * (interval.high / interval.low).ln();
            blocks_needed(ratio.blocks.len(), half_width, margin.ln_1p(), 0.0)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::Noise;
    use crate::interval::Interval;
    use crate::paired::sd;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const MARGIN: f64 = 0.01;

    /// The ratio of an experiment of so many blocks with noise of 1 % in each.
    fn measured(truth: f64, blocks: u32, noise: &mut Noise) -> Ratio {
        let values: Vec<f64> = (0..blocks).map(|_| truth.ln() + 0.01 * noise.normal()).collect();
        let n = f64::from(blocks);
        let mean = values.iter().sum::<f64>() / n;
        let error = sd(&values).unwrap() / n.sqrt();
        let half = student_quantile(0.975, n - 1.0) * error;
        let interval = Interval { low: (mean - half).exp(), high: (mean + half).exp() };
        let verdict = if interval.contains(1.0) { Verdict::NoDifference } else { Verdict::Worse };
        Ratio {
            interval: Some(interval),
            standard_error: Some(error),
            degrees: Some(n - 1.0),
            ..Ratio::of_box(mean.exp(), blocks, verdict)
        }
    }

    /// Of 4000 experiments, the share that is called equivalent.
    fn share(truth: f64, blocks: u32) -> f64 {
        const EXPERIMENTS: u32 = 4_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(u64::from(blocks)));
        let called = (0..EXPERIMENTS).filter(|_| {
            let mut ratio = measured(truth, blocks, &mut noise);
            judge(&mut ratio, MARGIN, 1, true);
            ratio.equivalent == Some(true)
        });
        called.count() as f64 / f64::from(EXPERIMENTS)
    }

    // 4000 experiments at 5 % have a standard error of 0.34 %.
    #[test]
    fn forms_that_differ_by_the_margin_are_hardly_ever_called_equivalent() {
        for blocks in [5, 16, 40] {
            for truth in [1.01, 1.0 / 1.01] {
                let share = share(truth, blocks);
                assert!(share <= 0.06, "{blocks} blocks, {truth}: {share}");
            }
        }
    }

    #[test]
    fn equal_forms_are_called_equivalent_when_there_are_blocks_enough() {
        assert!(share(1.0, 5) < 0.3);
        assert!(share(1.0, 40) > 0.95);
    }

    #[test]
    fn where_equals_may_differ_by_more_nobody_is_called_equivalent() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(4));
        let mut ratio = measured(1.0, 400, &mut noise);
        judge(&mut ratio, MARGIN, 1, false);
        assert_eq!((ratio.equivalent, ratio.verdict), (Some(false), Verdict::NoDifference));
        assert!(ratio.equals_beyond_margin);
        // Five blocks of equals reach beyond 1 %, four hundred do not; nor do those that lie 2 % off, but differ.
        assert!(!is_within(&measured(1.0, 5, &mut noise), MARGIN, 1));
        assert!(is_within(&measured(1.0, 400, &mut noise), MARGIN, 1));
        assert!(!is_within(&measured(1.02, 400, &mut noise), MARGIN, 1));
        assert!(!is_within(&Ratio { standard_error: None, ..measured(1.0, 400, &mut noise) }, MARGIN, 1));
    }

    #[test]
    fn who_may_be_cold_in_slices_by_more_than_the_margin_is_not_called_equivalent() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(5));
        let clear = measured(1.0, 400, &mut noise);
        for (share, equivalent) in [(Some(0.001), true), (Some(0.009), true), (Some(0.0105), false), (None, false)] {
            let mut ratio = Ratio { cold: Some(LeftCold { share, decides: false }), ..clear.clone() };
            judge(&mut ratio, 0.0115, 1, true);
            assert_eq!(ratio.equivalent, Some(equivalent), "{share:?}: {ratio:?}");
            assert_eq!(ratio.cold.map(|cold| cold.decides), Some(!equivalent), "{share:?}");
        }
        // Where its own interval is wider than that, it is not the slices that decide.
        let mut wide = Ratio { cold: Some(LeftCold { share: None, decides: false }), ..measured(1.0, 3, &mut noise) };
        judge(&mut wide, 0.001, 1, true);
        assert_eq!((wide.equivalent, wide.cold.map(|cold| cold.decides)), (Some(false), Some(false)));
    }

    #[test]
    fn whose_stalls_may_carry_it_beyond_the_margin_is_not_called_equivalent() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(5));
        let clear = measured(1.0, 400, &mut noise);
        for (share, equivalent) in [(0.001, true), (0.009, true), (0.0105, false), (f64::INFINITY, false)] {
            let mut ratio = Ratio { still: Some(LeftStill { share, decides: false }), ..clear.clone() };
            judge(&mut ratio, 0.0115, 1, true);
            assert_eq!(ratio.equivalent, Some(equivalent), "{share}: {ratio:?}");
            assert_eq!(ratio.still.map(|still| still.decides), Some(!equivalent), "{share}");
        }
        // Where its own interval is wider than that, it is not the stalls that decide.
        let mut wide = Ratio { still: Some(LeftStill { share: 0.02, decides: false }), ..measured(1.0, 3, &mut noise) };
        judge(&mut wide, 0.001, 1, true);
        assert_eq!((wide.equivalent, wide.still.map(|still| still.decides)), (Some(false), Some(false)));
    }

    #[test]
    fn real_and_negligible_can_both_hold() {
        let mut ratio = measured(0.997, 400, &mut Noise(Xoshiro256PlusPlus::seed_from_u64(1)));
        judge(&mut ratio, MARGIN, 1, true);
        assert_eq!((ratio.verdict, ratio.equivalent), (Verdict::Worse, Some(true)));
    }

    #[test]
    fn what_is_undecided_says_how_many_blocks_it_takes() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(2));
        let undecided = (0..20).find_map(|_| {
            let mut ratio = measured(1.0, 4, &mut noise);
            judge(&mut ratio, MARGIN, 1, true);
            ratio.blocks_needed
        });
        let blocks = undecided.unwrap();
        // An experiment of so many has an interval that reaches about as far as the margin, or less far: Student's t
        // of more blocks is smaller.
        let Interval { low, high } = measured(1.0, blocks, &mut noise).interval.unwrap();
        assert!(0.5 * (high / low).ln() < 1.2 * MARGIN, "{blocks} blocks: {low} {high}");
    }

    #[test]
    fn what_makes_no_claim_is_not_called_equivalent() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(3));
        for verdict in [Verdict::Emulated, Verdict::Withheld, Verdict::TooFewBlocks, Verdict::NoNoiseFloor] {
            let mut ratio = Ratio { verdict, ..measured(1.0, 100, &mut noise) };
            judge(&mut ratio, MARGIN, 1, true);
            assert_eq!((ratio.equivalent, ratio.verdict), (None, verdict));
        }
    }
}
