//! How a form's log ratio varies from deployment to deployment, as far as it was seen.
//!
//! What a block says of a form varies by what differs between deployments, and by what differs within one, of which
//! measuring longer leaves less: after `m` seconds the variance is between + within / m. Mean squares of blocks show
//! that sum, those of the slices of one deployment the second part of it. Few of them show it badly, so whatever is
//! worked out from them has limits (F. A. Graybill and C.-M. Wang, JASA 75 (1980), for sums; for differences of mean
//! squares N. Ting et al., J. Statistical Computation and Simulation 35 (1990), without their terms of products).

use crate::quantile::chi_squared_quantile;
use serde::Serialize;

/// The truth lies below the lower limit in one of ten cases, and above the upper one in another.
const BEYOND: f64 = 0.1;

/// A mean of squared deviations, log scale, and how many deviations are free.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanSquare {
    /// The mean.
    pub value: f64,
    /// Its degrees of freedom.
    pub degrees: f64,
}

impl MeanSquare {
    /// Several of the same variance as one; none of none.
    pub fn pooled(all: impl IntoIterator<Item = MeanSquare>) -> Option<MeanSquare> {
        let mut sum = (0.0, 0.0);
        for square in all {
            sum = (sum.0 + square.value * square.degrees, sum.1 + square.degrees);
        }
        (sum.1 > 0.0).then(|| MeanSquare { value: sum.0 / sum.1, degrees: sum.1 })
    }

    /// Of values around their mean; none below two.
    pub(crate) fn of(values: &[f64]) -> Option<MeanSquare> {
        let sd = crate::paired::sd(values)?;
        Some(MeanSquare { value: sd * sd, degrees: values.len() as f64 - 1.0 })
    }

    fn low(self) -> f64 {
        self.below(BEYOND)
    }

    /// What the truth is less than with this probability.
    fn below(self, probability: f64) -> f64 {
        self.value * self.degrees / chi_squared_quantile(1.0 - probability, self.degrees)
    }

    fn high(self) -> f64 {
        self.value * self.degrees / chi_squared_quantile(BEYOND, self.degrees)
    }
}

/// Something that is known within limits: in eight of ten cases the truth lies between them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The lower limit.
    pub low: f64,
    /// The best estimate.
    pub likely: f64,
    /// The upper limit.
    pub high: f64,
}

impl Range {
    /// The same of something that follows from it, and grows with it.
    pub(crate) fn map(self, of: impl Fn(f64) -> f64) -> Range {
        Range { low: of(self.low), likely: of(self.likely), high: of(self.high) }
    }

    /// The larger of two, as far as it is known.
    pub(crate) fn max(self, other: Range) -> Range {
        Range { low: self.low.max(other.low), likely: self.likely.max(other.likely), high: self.high.max(other.high) }
    }
}

/// What is known of how a log ratio varies.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Spread {
    /// By run: how long each deployment was measured, s, and the mean square of what its blocks showed.
    pub blocks: Vec<(f64, MeanSquare)>,
    /// What a second of measuring varies by within a deployment; none where nothing was measured in pieces.
    pub within: Option<MeanSquare>,
}

impl Spread {
    /// What two spreads of the same ratio say together.
    pub fn and(mut self, other: &Spread) -> Spread {
        self.blocks.extend(&other.blocks);
        self.within = MeanSquare::pooled(self.within.into_iter().chain(other.within));
        self
    }

    /// The variance of what a block says that measures each deployment for `measure_s`. None where no run had two
    /// blocks.
    pub fn at(&self, measure_s: f64) -> Option<Range> {
        let degrees: f64 = self.blocks.iter().map(|(_, square)| square.degrees).sum();
        if degrees <= 0.0 {
            return None;
        }
        let weights: Vec<f64> = self.blocks.iter().map(|(_, square)| square.degrees / degrees).collect();
        let seen = || self.blocks.iter().zip(&weights);
        // How much more of what varies within a deployment is left after this time than after those that were seen.
        let more: f64 = seen().map(|((seen_s, _), weight)| weight * (1.0 / measure_s - 1.0 / seen_s)).sum();
        let Some(within) = self.within else { return Some(self.bounded(measure_s, &weights)) };
        let mut terms: Vec<(f64, MeanSquare)> = seen().map(|((_, square), weight)| (*weight, *square)).collect();
        terms.push((more, within));
        let sum = sum_of(&terms);
        // What varies within a deployment is left, whatever was taken off.
        let likely = sum.likely.max(within.value / measure_s);
        // Either limit may miss; the second one a tenth as often, so that both together hardly miss more often.
        let low = if sum.low > 0.0 { sum.low } else { within.below(0.1 * BEYOND) / measure_s };
        Some(Range { low: low.min(likely), likely, high: sum.high.max(likely) })
    }

    /// The same where nobody knows how much of it measuring longer takes away: between nothing and all.
    fn bounded(&self, measure_s: f64, weights: &[f64]) -> Range {
        let scaled = |of: fn(f64, f64) -> f64| {
            let blocks = self.blocks.iter().zip(weights);
            let terms = blocks.map(|((seen_s, square), weight)| (weight * of(seen_s / measure_s, 1.0), *square));
            sum_of(&terms.collect::<Vec<_>>())
        };
        let (least, most) = (scaled(f64::min), scaled(f64::max));
        Range { low: least.low, likely: (least.likely * most.likely).sqrt(), high: most.high }
    }
}

/// A sum of mean squares, each with its factor, which may be negative.
fn sum_of(terms: &[(f64, MeanSquare)]) -> Range {
    let likely: f64 = terms.iter().map(|(factor, square)| factor * square.value).sum();
    let reach = |up: bool| {
        let part = |(factor, square): &(f64, MeanSquare)| {
            let limit = if (*factor > 0.0) == up { square.high() } else { square.low() };
            (factor * (limit - square.value)).powi(2)
        };
        terms.iter().map(part).sum::<f64>().sqrt()
    };
    Range { low: likely - reach(false), likely, high: likely + reach(true) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::Noise;
    use proptest::prelude::*;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// What `blocks` deployments show that are measured `slices` times for `slice_s` each.
    fn seen(noise: &mut Noise, between: f64, within: f64, (blocks, slices): (usize, usize), slice_s: f64) -> Spread {
        let (mut means, mut inner) = (Vec::new(), Vec::new());
        for _ in 0..blocks {
            let own = between.sqrt() * noise.normal();
            let values: Vec<f64> = (0..slices).map(|_| own + (within / slice_s).sqrt() * noise.normal()).collect();
            means.push(values.iter().sum::<f64>() / slices as f64);
            inner.extend(MeanSquare::of(&values));
        }
        let within = MeanSquare::pooled(inner).map(|square| MeanSquare { value: square.value * slice_s, ..square });
        Spread { blocks: vec![(slices as f64 * slice_s, MeanSquare::of(&means).unwrap())], within }
    }

    /// The shares of 1000 calibrations whose limits lie above and below the truth at `measure_s`.
    fn beyond(between: f64, within: f64, shape: (usize, usize), measure_s: f64) -> (f64, f64) {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(29));
        let truth = between + within / measure_s;
        let (mut above, mut below) = (0, 0);
        for _ in 0..1000 {
            let range = seen(&mut noise, between, within, shape, 0.3).at(measure_s).unwrap();
            assert!(range.low <= range.likely && range.likely <= range.high, "{range:?}");
            above += u32::from(range.low > truth);
            below += u32::from(range.high < truth);
        }
        (f64::from(above) / 1000.0, f64::from(below) / 1000.0)
    }

    // 1000 calibrations at 10 % have a standard error of 0.95 %: the bounds are three of them.
    #[test]
    fn limits_hold_the_truth_as_often_as_they_say_whatever_varies_most() {
        for (between, within) in [(1e-4, 0.0), (1e-4, 1e-5), (1e-4, 1e-4), (1e-5, 1e-4), (0.0, 1e-4)] {
            for shape in [(3, 3), (4, 4), (8, 4)] {
                for measure_s in [0.3 * shape.1 as f64, 3.0, 10.0] {
                    let (above, below) = beyond(between, within, shape, measure_s);
                    let what = format!("{between} {within} {shape:?} {measure_s}: {above} above, {below} below");
                    assert!(above <= 0.13 && below <= 0.13, "{what}");
                    // Limits that always hold would be no news: with no part to hide in, they miss as they say.
                    if within == 0.0 {
                        assert!(above >= 0.07 && below >= 0.07, "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn earlier_runs_narrow_what_a_calibration_leaves_open() {
        let square = |value, degrees| MeanSquare { value, degrees };
        let few = Spread { blocks: vec![(1.0, square(2e-4, 2.0))], within: Some(square(1e-4, 6.0)) };
        let many = few.clone().and(&Spread { blocks: vec![(3.0, square(1e-4, 20.0))], within: None });
        let width = |spread: &Spread| spread.at(3.0).map(|range| range.high / range.low).unwrap();
        assert!(width(&many) < 0.3 * width(&few), "{} {}", width(&many), width(&few));
        assert_eq!(many.within, few.within);
        assert_eq!(Spread::default().at(1.0), None);
    }

    proptest! {
        #[test]
        fn measuring_longer_never_makes_a_block_say_less(
            total in 1e-8..1e-2_f64, within in 1e-8..1e-2_f64, degrees in 1.0..30.0_f64, known in any::<bool>(),
            seen_s in 0.2..10.0_f64, short in 0.2..30.0_f64, longer in 1.0..10.0_f64,
        ) {
            let square = |value| MeanSquare { value, degrees };
            let spread = Spread { blocks: vec![(seen_s, square(total))], within: known.then(|| square(within)) };
            let (before, after) = (spread.at(short).unwrap(), spread.at(short * longer).unwrap());
            prop_assert!(after.likely <= before.likely * (1.0 + 1e-12), "{before:?} {after:?}");
            for range in [before, after] {
                prop_assert!(0.0 < range.low && range.low <= range.likely && range.likely <= range.high, "{range:?}");
            }
        }
    }
}
