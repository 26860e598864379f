//! The usual distributions over a range of integers.

use crate::draw::Draw;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// A range of integers, including both ends, and how often each is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Spread {
    /// The smallest number.
    pub from: i64,
    /// The largest number.
    pub to: i64,
    /// How they are distributed.
    pub shape: Shape,
}

/// How the numbers of a range are distributed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Shape {
    /// All equally often.
    Uniform,
    /// The k-th in proportion to 1 / k^theta.
    Zipf {
        /// The exponent, above 0.
        theta: f64,
        /// Whether the frequent ones are scattered over the range, rather than at its beginning.
        scatter: bool,
    },
    /// TPC-C's non-uniform random number (clause 2.1.6): ((U(0, a) | U(from, to)) + c) % n + from.
    Nurand {
        /// Its A.
        a: u64,
        /// Its C, at most A.
        c: u64,
    },
    /// pgbench's `random_gaussian`: a normal distribution around the middle, cut off at `parameter` standard
    /// deviations, where the range ends.
    Gaussian {
        /// At least 2.
        parameter: f64,
    },
    /// pgbench's `random_exponential`: the density falls by a factor of exp(`parameter`) from the beginning to the end.
    Exponential {
        /// Above 0.
        parameter: f64,
    },
}

/// A [`Spread`], ready for drawing.
#[derive(Debug, Clone)]
pub(super) struct Numbers {
    from: i64,
    count: u64,
    law: Law,
}

#[derive(Debug, Clone)]
enum Law {
    Uniform,
    Zipf(Zipf, Option<Scatter>),
    Nurand { a: u64, c: u64 },
    Gaussian { parameter: f64 },
    Exponential { parameter: f64, least: f64 },
}

impl Numbers {
    pub(super) fn new(spread: &Spread) -> Self {
        assert!(spread.from <= spread.to, "a range was checked when it was read");
        let count = spread.to.abs_diff(spread.from) + 1;
        let law = match spread.shape {
            Shape::Uniform => Law::Uniform,
            Shape::Zipf { theta, scatter } => Law::Zipf(Zipf::new(count, theta), scatter.then(|| Scatter::new(count))),
            Shape::Nurand { a, c } => Law::Nurand { a, c },
            Shape::Gaussian { parameter } => Law::Gaussian { parameter },
            Shape::Exponential { parameter } => Law::Exponential { parameter, least: (-parameter).exp() },
        };
        Numbers { from: spread.from, count, law }
    }

    /// The next number.
    pub(super) fn draw(&self, draw: &mut Draw) -> i64 {
        let at = match &self.law {
            Law::Uniform => draw.below(self.count),
            Law::Zipf(zipf, scatter) => {
                let rank = zipf.draw(draw) - 1;
                scatter.as_ref().map_or(rank, |scatter| scatter.of(rank))
            }
            Law::Nurand { a, c } => return self.nurand(*a, *c, draw),
            Law::Gaussian { parameter } => self.share((gaussian(*parameter, draw) / parameter + 1.0) / 2.0),
            Law::Exponential { parameter, least } => {
                // The inverse of the distribution function; 1 - U is never 0.
                let above = least + (1.0 - least) * (1.0 - draw.unit());
                self.share(-above.ln() / parameter)
            }
        };
        self.from + at as i64
    }

    /// The number at a share of the range; rounding must not lead out of the range.
    fn share(&self, share: f64) -> u64 {
        ((share * self.count as f64) as u64).min(self.count - 1)
    }

    fn nurand(&self, a: u64, c: u64, draw: &mut Draw) -> i64 {
        let one = draw.below(a + 1) as i64;
        let other = self.from + draw.below(self.count) as i64;
        ((one | other) + c as i64).rem_euclid(self.count as i64) + self.from
    }
}

/// A normal deviate (Box-Muller) of at least -`limit` and below `limit`, drawn until it is.
fn gaussian(limit: f64, draw: &mut Draw) -> f64 {
    loop {
        let radius = (-2.0 * (1.0 - draw.unit()).ln()).sqrt();
        let deviate = radius * (TAU * draw.unit()).sin();
        if (-limit..limit).contains(&deviate) {
            return deviate;
        }
    }
}

/// Zipf's law by rejection-inversion (Hörmann and Derflinger, 1996): the inverse of the integral of x^-theta, corrected
/// by a rejection that is very rare. It needs no table, so any range costs the same.
#[derive(Debug, Clone)]
struct Zipf {
    count: f64,
    theta: f64,
    // The integral at the ends of the inverted interval.
    low: f64,
    high: f64,
    // A number this close below an integer needs no rejection test.
    surely: f64,
}

impl Zipf {
    fn new(count: u64, theta: f64) -> Self {
        let mut zipf = Zipf { count: count as f64, theta, low: 0.0, high: 0.0, surely: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.count + 0.5);
        zipf.surely = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.theta)
    }

    /// (x^(1-theta) - 1) / (1-theta), which is ln x for theta 1, without the cancellation near 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.theta) * log;
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { power.exp_m1() / power * log }
    }

    fn inverse(&self, y: f64) -> f64 {
        // Below -1 only because of rounding.
        let power = ((1.0 - self.theta) * y).max(-1.0);
        let log = if power.abs() < 1e-8 { y * (1.0 - power / 2.0) } else { power.ln_1p() / power * y };
        log.exp()
    }

    /// A rank from 1.
    fn draw(&self, draw: &mut Draw) -> u64 {
        loop {
            let y = self.high + draw.unit() * (self.low - self.high);
            let x = self.inverse(y);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.surely || y >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }
}

/// A bijection of the ranks of a range that moves neighbours far apart: multiplication by a number near the golden
/// section of the range and coprime to it.
#[derive(Debug, Clone)]
struct Scatter {
    factor: u64,
    count: u64,
}

impl Scatter {
    fn new(count: u64) -> Self {
        let mut factor = ((count as f64 * 0.618_033_988_749_894_9) as u64).max(1);
        while greatest_common_divisor(factor, count) != 1 {
            factor += 1;
        }
        Scatter { factor, count }
    }

    fn of(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.factor) % u128::from(self.count)) as u64
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::spread::assert_follows;
    use proptest::prelude::*;

    const DRAWS: u64 = 100_000;

    fn counts(spread: &Spread, seed: u64) -> Vec<u64> {
        let numbers = Numbers::new(spread);
        let mut draw = Draw::new(seed, 0);
        let mut counts = vec![0; spread.to.abs_diff(spread.from) as usize + 1];
        (0..DRAWS).for_each(|_| counts[(numbers.draw(&mut draw) - spread.from) as usize] += 1);
        counts
    }

    fn normalised(weights: impl Iterator<Item = f64>) -> Vec<f64> {
        let weights: Vec<f64> = weights.collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn uniform_numbers_are_all_alike() {
        let counts = counts(&Spread { from: -7, to: 42, shape: Shape::Uniform }, 1);
        assert_follows(&counts, &[1.0 / 50.0; 50]);
    }

    #[test]
    fn zipf_follows_its_law_around_and_away_from_one() {
        for (theta, seed) in [(0.01, 1), (0.5, 2), (0.99, 3), (1.0, 4), (1.000_000_001, 5), (1.07, 6), (3.0, 7)] {
            let shape = Shape::Zipf { theta, scatter: false };
            let law = normalised((1..=200).map(|k| f64::from(k).powf(-theta)));
            assert_follows(&counts(&Spread { from: 5, to: 204, shape }, seed), &law);
        }
    }

    #[test]
    fn a_scattered_zipf_has_the_same_frequencies_elsewhere() {
        let spread = |scatter| Spread { from: 0, to: 99, shape: Shape::Zipf { theta: 0.9, scatter } };
        let (mut near, mut far) = (counts(&spread(false), 9), counts(&spread(true), 9));
        assert_ne!(near, far);
        near.sort_unstable();
        far.sort_unstable();
        assert_eq!(near, far, "one draw a number, so the same seed gives the same counts in another order");
    }

    #[test]
    fn nurand_follows_the_exhaustive_count_of_its_definition() {
        for (a, c, from, to) in [(15, 0, 1, 30), (15, 7, 1, 30), (255, 123, 0, 999), (7, 3, 10, 12)] {
            let count = (to - from + 1) as usize;
            let mut law = vec![0.0; count];
            for one in 0..=a {
                for other in from..=to {
                    law[((one | other) + c) as usize % count] += 1.0;
                }
            }
            let shape = Shape::Nurand { a: a as u64, c: c as u64 };
            assert_follows(&counts(&Spread { from, to, shape }, 11), &normalised(law.into_iter()));
        }
    }

    /// The standard normal distribution function, by integrating its density (Simpson), accurate to 1e-9.
    fn phi(x: f64) -> f64 {
        let steps = 2000;
        let width = x / f64::from(steps);
        let density = |t: f64| (-t * t / 2.0).exp() / TAU.sqrt();
        let weight = |step| if step == 0 || step == steps { 1.0 } else { 2.0 + 2.0 * f64::from(step % 2) };
        0.5 + (0..=steps).map(|step| weight(step) * density(f64::from(step) * width)).sum::<f64>() * width / 3.0
    }

    #[test]
    fn gaussian_and_exponential_follow_the_formulas_of_pgbench() {
        let (from, to) = (1, 50);
        let count = 50.0;
        for parameter in [2.0, 2.5, 6.0] {
            let middle = 25.5;
            let below = |x: f64| phi(2.0 * parameter * (x - middle) / count) / (2.0 * phi(parameter) - 1.0);
            let law = (1..=50).map(|i| below(f64::from(i) + 0.5) - below(f64::from(i) - 0.5)).collect::<Vec<_>>();
            assert_follows(&counts(&Spread { from, to, shape: Shape::Gaussian { parameter } }, 21), &law);
        }
        for parameter in [0.1_f64, 2.5, 10.0] {
            let above = |x: f64| (-parameter * x / count).exp() / (1.0 - (-parameter).exp());
            let law = (0..50).map(|i| above(f64::from(i)) - above(f64::from(i) + 1.0)).collect::<Vec<_>>();
            assert_follows(&counts(&Spread { from, to, shape: Shape::Exponential { parameter } }, 22), &law);
        }
    }

    fn any_shape() -> impl Strategy<Value = Shape> {
        prop_oneof![
            Just(Shape::Uniform),
            (0.001..20.0f64, any::<bool>()).prop_map(|(theta, scatter)| Shape::Zipf { theta, scatter }),
            (0..100_000u64).prop_map(|a| Shape::Nurand { a, c: a / 3 }),
            (2.0..40.0f64).prop_map(|parameter| Shape::Gaussian { parameter }),
            (0.001..700.0f64).prop_map(|parameter| Shape::Exponential { parameter }),
        ]
    }

    proptest! {
        #[test]
        fn every_number_lies_in_its_range_and_comes_from_the_seed(
            shape in any_shape(), from in -(1i64 << 53)..(1 << 53), width in 0..(1u64 << 53), seed: u64,
        ) {
            let to = from.saturating_add_unsigned(width).min(1 << 53);
            let numbers = Numbers::new(&Spread { from, to, shape });
            let drawn = || {
                let mut draw = Draw::new(seed, 0);
                (0..20).map(|_| numbers.draw(&mut draw)).collect::<Vec<_>>()
            };
            prop_assert!(drawn().iter().all(|number| (from..=to).contains(number)), "{:?}", drawn());
            prop_assert_eq!(drawn(), drawn());
        }

        #[test]
        fn scattering_is_a_bijection(count in 1..3000u64) {
            let scatter = Scatter::new(count);
            let hit: std::collections::BTreeSet<u64> = (0..count).map(|rank| scatter.of(rank)).collect();
            prop_assert_eq!(hit.len() as u64, count);
        }
    }
}
