//! Draws pauses.

use crate::clock::span_ns;
use crate::draw::Draw;
use tare_core::load::Distribution;

/// Draws from a distribution, in ns: the exponential by inversion, the normal by the Box-Muller transform; values
/// outside the bounds are moved to the bounds.
#[inline]
pub(crate) fn draw(distribution: &Distribution, draw: &mut Draw) -> u64 {
    match distribution {
        Distribution::Constant(length) => span_ns(*length),
        Distribution::Exponential { mean, max } => {
            let length = -(1.0 - draw.unit()).ln() * span_ns(*mean) as f64;
            (length as u64).min(span_ns(*max))
        }
        Distribution::Uniform { min, max } => {
            let (min, max) = (span_ns(*min), span_ns(*max));
            min + draw.below(max.saturating_sub(min).saturating_add(1))
        }
        Distribution::Normal { mean, sd, min, max } => {
            let radius = (-2.0 * (1.0 - draw.unit()).ln()).sqrt();
            let normal = radius * (std::f64::consts::TAU * draw.unit()).cos();
            let length = span_ns(*mean) as f64 + normal * span_ns(*sd) as f64;
            (length.max(0.0) as u64).clamp(span_ns(*min), span_ns(*max))
        }
    }
}

/// Draws the rest of a pause observed at a random moment, in ns: how far a user who has always been there is from the
/// next start. Its density is (1 - F(x)) / mean (Cox: Renewal theory, 1962, ch. 5): a pause drawn with its length as
/// its weight, of which a uniform share is left.
pub(crate) fn rest(distribution: &Distribution, source: &mut Draw) -> u64 {
    let longest_ns = match distribution {
        Distribution::Constant(length) => span_ns(*length) as f64,
        Distribution::Exponential { mean, max } => {
            let (mean, max) = (span_ns(*mean) as f64, span_ns(*max) as f64);
            let share = source.unit() * -(-max / mean.max(1.0)).exp_m1();
            return (-mean * (-share).ln_1p()) as u64;
        }
        Distribution::Uniform { max, .. } => span_ns(*max) as f64,
        // One value in 10^9 is more than six deviations above the mean.
        Distribution::Normal { mean, sd, min, max } => {
            (span_ns(*mean) as f64 + 6.0 * span_ns(*sd) as f64).clamp(span_ns(*min) as f64, span_ns(*max) as f64)
        }
    };
    loop {
        let length_ns = draw(distribution, source) as f64;
        if source.unit() * longest_ns <= length_ns {
            return (length_ns * source.unit()) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const N: usize = 200_000;

    fn moments(distribution: Distribution) -> (f64, f64) {
        let mut source = Draw::new(4, 4);
        let drawn: Vec<f64> = (0..N).map(|_| draw(&distribution, &mut source) as f64 / 1e9).collect();
        let mean = drawn.iter().sum::<f64>() / N as f64;
        (mean, drawn.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / N as f64)
    }

    fn near(found: f64, expected: f64, standard_error: f64) {
        assert!((found - expected).abs() < 5.0 * standard_error, "{found} instead of {expected}");
    }

    #[test]
    fn means_and_variances_are_the_formulas() {
        let (second, root) = (Duration::from_secs(1), (N as f64).sqrt());
        let (mean, variance) = moments(Distribution::Constant(second));
        assert_eq!((mean, variance), (1.0, 0.0));
        let (mean, variance) = moments(Distribution::Uniform { min: second, max: 4 * second });
        near(mean, 2.5, 0.866 / root);
        near(variance, 0.75, 0.671 / root);
        // Cut at b: mean 1 - e^-b, variance 1 - e^-2b - 2 b e^-b.
        let cut = Distribution::Exponential { mean: second, max: 2 * second };
        let (mean, variance) = moments(cut);
        let e = (-2.0_f64).exp();
        near(mean, 1.0 - e, 0.7 / root);
        near(mean, cut.mean_s(), 0.7 / root);
        near(variance, 1.0 - e * e - 4.0 * e, 1.0 / root);
        let (mean, variance) =
            moments(Distribution::Normal { mean: 10 * second, sd: second, min: second, max: 20 * second });
        near(mean, 10.0, 1.0 / root);
        near(variance, 1.0, std::f64::consts::SQRT_2 / root);
    }

    #[test]
    fn what_is_left_of_a_pause_is_half_its_second_moment_over_its_mean() {
        let second = Duration::from_secs(1);
        let e = (-2.0_f64).exp();
        // E(X^2) / 2 E(X); for the exponential cut at 2: E(X^2) = 2 - 6 e^-2 and E(X) = 1 - e^-2.
        let cases = [
            (Distribution::Constant(second), 0.5),
            (Distribution::Uniform { min: second, max: 3 * second }, (13.0 / 3.0) / 4.0),
            (Distribution::Exponential { mean: second, max: 2 * second }, (2.0 - 6.0 * e) / 2.0 / (1.0 - e)),
            (Distribution::Normal { mean: 4 * second, sd: second, min: second, max: 90 * second }, 17.0 / 8.0),
        ];
        for (shape, expected) in cases {
            let mut source = Draw::new(6, 6);
            let mean = (0..N).map(|_| rest(&shape, &mut source) as f64 / 1e9).sum::<f64>() / N as f64;
            near(mean, expected, 1.3 / (N as f64).sqrt());
        }
        let zero = Duration::ZERO;
        let nothing = Distribution::Normal { mean: zero, sd: second, min: zero, max: zero };
        assert_eq!(rest(&nothing, &mut Draw::new(1, 1)), 0);
    }

    proptest! {
        #[test]
        fn nothing_lies_outside_of_its_bounds(
            seed: u64,
            mean in 0..1000u64,
            sd in 0..5000u64,
            min in 0..100u64,
            more in 0..100u64,
        ) {
            let ms = Duration::from_millis;
            let (min, max) = (ms(min), ms(min + more));
            let mut source = Draw::new(seed, 0);
            let shapes = [
                Distribution::Normal { mean: ms(mean), sd: ms(sd), min, max },
                Distribution::Uniform { min, max },
            ];
            for shape in shapes {
                let drawn = Duration::from_nanos(draw(&shape, &mut source));
                prop_assert!(min <= drawn && drawn <= max);
            }
            let drawn = draw(&Distribution::Exponential { mean: ms(mean), max }, &mut source);
            prop_assert!(Duration::from_nanos(drawn) <= max);
        }
    }
}
