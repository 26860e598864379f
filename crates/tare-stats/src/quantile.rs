//! Quantiles: Student's t, and Dunnett's for several forms against one baseline.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::erf::erf;
use statrs::function::gamma::ln_gamma;
use std::collections::BTreeMap;

/// The `probability` quantile of Student's t with `degrees` of freedom.
///
/// # Panics
/// When `degrees` is not positive.
pub fn student_quantile(probability: f64, degrees: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive");
    t.inverse_cdf(probability)
}

/// The two-sided Dunnett quantile: with probability `confidence`, none of `comparisons` differences to one shared
/// control exceeds it, in units of their standard error, when nothing differs. All arms of the same size, `degrees`
/// of freedom of the pooled error. Dunnett, JASA 50 (1955) and Biometrics 20 (1964).
///
/// Not simulated but integrated: with z for the control's own deviation and s for the pooled sd over its expectation,
/// P(c) is the mean over s and z of [Phi(z + c s sqrt 2) - Phi(z - c s sqrt 2)]^comparisons.
///
/// # Panics
/// When there is no comparison or no degree of freedom.
pub fn dunnett_quantile(confidence: f64, comparisons: u32, degrees: u32) -> f64 {
    assert!(comparisons > 0 && degrees > 0, "a comparison needs an arm and a degree of freedom");
    // It lies between the quantile for one comparison and Bonferroni's; the margin is for rounding.
    let tail = 0.5 * (1.0 - confidence);
    let one = student_quantile(1.0 - tail, f64::from(degrees));
    if comparisons == 1 {
        return one;
    }
    let bonferroni = student_quantile(1.0 - tail / f64::from(comparisons), f64::from(degrees));
    let off = |c: f64| dunnett_probability(c, comparisons, f64::from(degrees)) - confidence;
    root(off, 0.99 * one, 1.01 * bonferroni)
}

/// Where the rising `f` is zero between `low` and `high`, to a millionth: regula falsi after Illinois, which needs a
/// third of the evaluations of halving.
fn root(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let (mut at_low, mut at_high) = (f(low), f(high));
    let mut last = f64::NAN;
    loop {
        let middle = (low * at_high - high * at_low) / (at_high - at_low);
        if (middle - last).abs() <= 1e-6 * middle || !middle.is_finite() {
            return if middle.is_finite() { middle } else { 0.5 * (low + high) };
        }
        let (at_middle, below) = (f(middle), last);
        last = middle;
        if at_middle < 0.0 {
            // The same end twice: the other one is made to count for less, so that it moves as well.
            if below < middle {
                at_high *= 0.5;
            }
            (low, at_low) = (middle, at_middle);
        } else {
            if below > middle {
                at_low *= 0.5;
            }
            (high, at_high) = (middle, at_middle);
        }
    }
}

/// Panels of the two integrals; with these the quantile is right to four digits.
const PANELS_SD: u32 = 120;
const PANELS_CONTROL: u32 = 80;

fn dunnett_probability(c: f64, comparisons: u32, degrees: f64) -> f64 {
    // s = sqrt(chi2/df) has the density 2 (df/2)^(df/2) / Gamma(df/2) s^(df-1) exp(-df s^2 / 2).
    let half = 0.5 * degrees;
    let log_scale = std::f64::consts::LN_2 + half * half.ln() - ln_gamma(half);
    let spread = 8.0 / degrees.sqrt();
    simpson((1.0 - spread).max(1e-9), 1.0 + spread, PANELS_SD, |s| {
        let density = (log_scale + (degrees - 1.0) * s.ln() - half * s * s).exp();
        density * all_within(c * s * std::f64::consts::SQRT_2, comparisons)
    })
}

fn all_within(reach: f64, comparisons: u32) -> f64 {
    simpson(-7.0, 7.0, PANELS_CONTROL, |z| {
        let one = normal_cdf(z + reach) - normal_cdf(z - reach);
        (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt() * one.powi(comparisons as i32)
    })
}

fn normal_cdf(z: f64) -> f64 {
    0.5 * (1.0 + erf(z / std::f64::consts::SQRT_2))
}

/// Simpson's rule; `panels` is even.
fn simpson(from: f64, to: f64, panels: u32, f: impl Fn(f64) -> f64) -> f64 {
    let step = (to - from) / f64::from(panels);
    let inner: f64 = (1..panels).map(|n| f(from + f64::from(n) * step) * if n % 2 == 1 { 4.0 } else { 2.0 }).sum();
    (f(from) + inner + f(to)) * step / 3.0
}

/// Dunnett quantiles that were worked out already: every metric of a record asks for the same.
#[derive(Default)]
pub(crate) struct DunnettTable(BTreeMap<(u32, u32), f64>);

impl DunnettTable {
    pub(crate) fn quantile(&mut self, confidence: f64, comparisons: u32, degrees: u32) -> f64 {
        *self.0.entry((comparisons, degrees)).or_insert_with(|| dunnett_quantile(confidence, comparisons, degrees))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::Noise;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn student_agrees_with_the_printed_tables() {
        for (degrees, wanted) in [(2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042)] {
            let quantile = student_quantile(0.975, degrees);
            assert!((quantile - wanted).abs() < 5e-4, "df {degrees}: {quantile}");
        }
        assert!((student_quantile(0.8, 4.0) - 0.941).abs() < 5e-4);
    }

    #[test]
    fn dunnett_agrees_with_the_printed_tables() {
        // Dunnett 1964, two-sided, 95 %: (comparisons, degrees of freedom, quantile).
        for (comparisons, degrees, wanted) in [(4, 20, 2.65), (2, 5, 3.03), (3, 10, 2.76), (2, 20, 2.38), (4, 36, 2.55)]
        {
            let quantile = dunnett_quantile(0.95, comparisons, degrees);
            assert!((quantile - wanted).abs() < 0.015, "k {comparisons}, df {degrees}: {quantile}, not {wanted}");
        }
    }

    #[test]
    fn dunnett_agrees_with_a_simulation() {
        // The maximum over k forms of |g_k - g_0| / sqrt 2 / s, g normal, s from 12 normals: 95 % stay below.
        let (mut noise, quantile) = (Noise(Xoshiro256PlusPlus::seed_from_u64(9)), dunnett_quantile(0.95, 6, 12));
        let draws = 40_000;
        let within = (0..draws).filter(|_| {
            let control = noise.normal();
            let chi2: f64 = (0..12).map(|_| noise.normal().powi(2)).sum();
            let reach = quantile * (chi2 / 12.0).sqrt() * std::f64::consts::SQRT_2;
            (0..6).map(|_| (noise.normal() - control).abs()).fold(0.0, f64::max) <= reach
        });
        let share = within.count() as f64 / f64::from(draws);
        assert!((share - 0.95).abs() < 0.005, "{share}");
    }

    #[test]
    fn one_comparison_is_students_t() {
        for degrees in [2, 4, 12, 200] {
            let student = student_quantile(0.975, f64::from(degrees));
            assert_eq!(dunnett_quantile(0.95, 1, degrees), student);
            let probability = dunnett_probability(student, 1, f64::from(degrees));
            assert!((probability - 0.95).abs() < 2e-4, "df {degrees}: {probability}");
        }
    }
}
