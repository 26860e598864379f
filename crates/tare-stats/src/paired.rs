//! One pair of arms: differences inside blocks, on the log scale.

use crate::interval::Interval;
use crate::quantile::student_quantile;
use std::collections::BTreeMap;

/// Blocks below which no interval is printed.
pub(crate) const BLOCKS_MIN: usize = 3;

/// The log of a metric by block, of one arm.
pub(crate) type BlockLogs = BTreeMap<u32, f64>;

/// Differences to the baseline inside blocks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Differences {
    pub(crate) blocks: Vec<u32>,
    pub(crate) values: Vec<f64>,
}

impl Differences {
    /// `arm - baseline`, in the blocks that both were measured in.
    pub(crate) fn of(arm: &BlockLogs, baseline: &BlockLogs) -> Self {
        let both = arm.iter().filter_map(|(block, value)| Some((*block, value - baseline.get(block)?)));
        let (blocks, values) = both.unzip();
        Differences { blocks, values }
    }

    /// By how much these differ from others, in the blocks that both have.
    pub(crate) fn less(&self, other: &Differences) -> Differences {
        let logs =
            |of: &Differences| -> BlockLogs { of.blocks.iter().copied().zip(of.values.iter().copied()).collect() };
        Differences::of(&logs(self), &logs(other))
    }

    pub(crate) fn n(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Standard error of the mean from the differences' own spread; none below two blocks.
    pub(crate) fn standard_error(&self) -> Option<f64> {
        Some(sd(&self.values)? / (self.n() as f64).sqrt())
    }

    /// How exactly the mean is known by these differences alone, at a one-sided `level` of Student's t; none below
    /// three blocks.
    pub(crate) fn precision(&self, level: f64) -> Option<Precision> {
        let standard_error = self.standard_error().filter(|_| self.n() >= BLOCKS_MIN)?;
        let degrees = self.n() as f64 - 1.0;
        Some(Precision { standard_error, degrees, quantile: student_quantile(level, degrees) })
    }

    /// The Hodges-Lehmann estimate: the median of all pairwise means. It hardly moves when one block is odd, so it
    /// shows when the mean does.
    pub(crate) fn hodges_lehmann(&self) -> f64 {
        let walsh = self.values.iter().enumerate();
        let mut walsh: Vec<f64> =
            walsh.flat_map(|(n, a)| self.values[n..].iter().map(move |b| 0.5 * (a + b))).collect();
        walsh.sort_by(f64::total_cmp);
        let middle = walsh.len() / 2;
        if walsh.len() % 2 == 1 { walsh[middle] } else { 0.5 * (walsh[middle - 1] + walsh[middle]) }
    }
}

/// Sample standard deviation; none below two values.
pub(crate) fn sd(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// More blocks than this are no advice: nobody has the hours.
const BLOCKS_ADVISED_MAX: f64 = 100.0;

/// How many blocks bring an interval's half-width down to `wanted`, log scale: it shrinks with their root, except for
/// the share `fixed` of the variance that is not theirs. None when it is narrower already, or no reasonable number
/// would.
pub(crate) fn blocks_needed(blocks: usize, half_width: f64, wanted: f64, fixed: f64) -> Option<u32> {
    if half_width < wanted {
        return None;
    }
    let share = (wanted / half_width).powi(2) - fixed;
    let needed = (blocks as f64 * (1.0 - fixed) / share).ceil();
    (share > 0.0 && needed <= BLOCKS_ADVISED_MAX).then_some((needed as u32).max(blocks as u32 + 1))
}

/// How exactly a mean difference is known, and by which multiple of that its interval reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Precision {
    pub(crate) standard_error: f64,
    pub(crate) degrees: f64,
    pub(crate) quantile: f64,
}

impl Precision {
    /// Half the interval's width, log scale.
    pub(crate) fn half_width(&self) -> f64 {
        self.quantile * self.standard_error
    }

    /// The same, with an interval that reaches at least `half_width` on the log scale. It is the error that grows, not
    /// the quantile: whoever works with the error, for equivalence or against another run, claims no more either.
    pub(crate) fn at_least(self, half_width: f64) -> Precision {
        Precision { standard_error: self.standard_error.max(half_width / self.quantile), ..self }
    }

    /// The interval of the ratio around a mean log difference.
    pub(crate) fn interval(&self, mean: f64) -> Interval {
        Interval { low: (mean - self.half_width()).exp(), high: (mean + self.half_width()).exp() }
    }

    /// The log difference that an interval would find in four of five such runs: (quantile + t_.80) standard errors.
    pub(crate) fn smallest_detectable(&self) -> f64 {
        (self.quantile + student_quantile(0.8, self.degrees)) * self.standard_error
    }

    /// The log difference that would also lie beyond the noise floor, made of the A/A `control`'s precision, in four of
    /// five such runs.
    ///
    /// The floor of such a run is the control's half-width t s and its own distance from 1. That is half a normal
    /// deviate: .80 standard errors on average, with a variance of .36. The half-width varies with s, by t^2 / (2 df).
    /// Form and control share the baseline, but the sign of the control's deviation is lost in its distance, so the
    /// variances add to the form's own.
    pub(crate) fn smallest_beyond_floor(&self, control: &Precision) -> f64 {
        let of_floor = 0.36 + 0.5 * control.quantile.powi(2) / control.degrees;
        let spread = (self.standard_error.powi(2) + of_floor * control.standard_error.powi(2)).sqrt();
        control.half_width() + 0.80 * control.standard_error + student_quantile(0.8, self.degrees) * spread
    }
}

/// The smallest difference, as a share, that a run like this finds in four of five cases. A form's must also stand out
/// of the noise floor, given on the log scale with the precision of the A/A control, to be called one.
pub(crate) fn smallest_detectable(control: bool, precision: Precision, floor: Option<(f64, Precision)>) -> f64 {
    let found = precision.smallest_detectable();
    let log = match floor.filter(|_| !control) {
        Some((floor, control)) => found.max(precision.smallest_beyond_floor(&control)).max(floor),
        None => found,
    };
    log.exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn logs(values: &[f64]) -> BlockLogs {
        values.iter().enumerate().map(|(block, value)| (block as u32, value.ln())).collect()
    }

    fn precision(differences: &Differences) -> Precision {
        let degrees = differences.n() as f64 - 1.0;
        let standard_error = differences.standard_error().unwrap();
        Precision { standard_error, degrees, quantile: student_quantile(0.975, degrees) }
    }

    #[test]
    fn the_interval_is_the_one_worked_out_elsewhere() {
        // By a separate calculation: ln .86, .88, .87, .85, .89; mean -.139394, sd .018177; t(.975, 4) = 2.776445.
        let differences = Differences::of(&logs(&[86.0, 88.0, 87.0, 85.0, 89.0]), &logs(&[100.0; 5]));
        let interval = precision(&differences).interval(differences.mean());
        assert!((differences.mean().exp() - 0.869_885).abs() < 1e-6, "{}", differences.mean().exp());
        assert!((interval.low - 0.850_472).abs() < 1e-5, "{interval:?}");
        assert!((interval.high - 0.889_742).abs() < 1e-5, "{interval:?}");
    }

    #[test]
    fn only_blocks_that_both_have_count() {
        let mut arm = logs(&[2.0, 2.0, 2.0, 2.0]);
        arm.remove(&1);
        let differences = Differences::of(&arm, &logs(&[1.0, 50.0, 1.0]));
        assert_eq!(differences.blocks, [0, 2]);
        assert!((differences.mean().exp() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn hodges_lehmann_of_a_short_list() {
        // Walsh averages of 1, 2, 10: 1, 1.5, 5.5, 2, 6, 10; their median is (2 + 5.5) / 2.
        let differences = Differences { blocks: vec![0, 1, 2], values: vec![10.0, 1.0, 2.0] };
        assert!((differences.hodges_lehmann() - 3.75).abs() < 1e-12);
    }

    #[test]
    fn an_interval_is_widened_by_its_error_and_by_the_whole_of_it() {
        let own = Precision { standard_error: 0.001, degrees: 8.0, quantile: 2.5 };
        let widened = own.at_least(0.02);
        assert_eq!((widened.quantile, widened.degrees), (2.5, 8.0));
        assert!((widened.half_width() - 0.02).abs() < 1e-15 && (widened.standard_error - 0.008).abs() < 1e-15);
        assert_eq!(own.at_least(0.001), own);
        let exact = Precision { standard_error: 0.0, ..own }.at_least(0.02);
        assert!((exact.half_width() - 0.02).abs() < 1e-15, "{exact:?}");
        let interval = exact.interval(0.0);
        assert!(interval.low < 0.981 && interval.high > 1.02, "{interval:?}");
        assert_eq!(Precision { standard_error: 0.0, ..own }.at_least(0.0).half_width(), 0.0);
    }

    #[test]
    fn blocks_narrow_an_interval_with_their_root() {
        assert_eq!(blocks_needed(5, 0.02, 0.01, 0.0), Some(20));
        assert_eq!(blocks_needed(5, 0.02, 0.02, 0.0), Some(6));
        assert_eq!(blocks_needed(5, 0.01, 0.02, 0.0), None, "it is narrower already");
        assert_eq!(blocks_needed(5, 0.16, 0.01, 0.0), None, "1280 are no advice");
        assert_eq!(blocks_needed(5, 0.04, 0.009_999, 0.0), Some(81));
        assert_eq!(blocks_needed(5, 0.02, 0.01, 0.25), None, "what is not theirs is as wide as that");
        assert_eq!(blocks_needed(5, 0.02, 0.0, 0.0), None);
    }

    proptest! {
        #[test]
        fn a_to_b_is_one_over_b_to_a(a in proptest::collection::vec(0.1f64..1e6, 3..9), factor in 0.01f64..100.0) {
            let b: Vec<f64> = a.iter().enumerate().map(|(n, value)| value * (1.0 + 0.1 * n as f64)).collect();
            let scaled: Vec<f64> = b.iter().map(|value| value * factor).collect();
            let (forth, back) = (Differences::of(&logs(&b), &logs(&a)), Differences::of(&logs(&a), &logs(&b)));
            prop_assert!((forth.mean().exp() * back.mean().exp() - 1.0).abs() < 1e-9);
            let (up, down) = (precision(&forth).interval(forth.mean()), precision(&back).interval(back.mean()));
            prop_assert!((up.low * down.high - 1.0).abs() < 1e-9);
            // In another unit the ratio is the same.
            let a_scaled: Vec<f64> = a.iter().map(|value| value * factor).collect();
            let same = Differences::of(&logs(&scaled), &logs(&a_scaled));
            prop_assert!((same.mean() - forth.mean()).abs() < 1e-9);
        }
    }
}
