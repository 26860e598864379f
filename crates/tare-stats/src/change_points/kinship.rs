//! What values of a series have in common with those before them.
//!
//! A machine that is a little slow tonight is so tomorrow as well. Such values say less of their mean than as many that
//! have nothing to do with each other, and a test that takes them for that finds changes where there are none.

/// Below this number of values nothing is known of what they have in common.
const VALUES_MIN: usize = 12;

/// It is taken for no more than this: beyond, a series wanders, and no number of values tells its mean.
const MOST: f64 = 0.8;

/// An estimate below this, by the root of the number of values, is taken for none: else a third of all series of
/// independent values would lose some of their weight.
const SEEN: f64 = 1.5;

/// The correlation of a value with the one before it, of a process of first order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kinship(f64);

/// One side of a split.
pub(super) struct Side {
    pub(super) mean: f64,
    /// Of single values about their true mean.
    pub(super) variance: f64,
    /// As many values without kinship would say as much of the mean.
    pub(super) count: f64,
}

impl Side {
    /// Degrees of freedom of the variance.
    pub(super) fn degrees(&self) -> f64 {
        (self.count - 1.0).max(1.0)
    }
}

impl Kinship {
    /// None at all.
    pub(super) const NONE: Kinship = Kinship(0.0);

    /// Of values that may have changed at `split`, or nowhere if that is 0: from what neighbours on one side are off
    /// its mean together. Means that are taken from the values themselves hide some of it, about (1 + 4 r) / n for each
    /// side (M. H. Quenouille 1956; F. H. C. Marriott and J. A. Pope, Biometrika 41 (1954)).
    pub(super) fn of(values: &[f64], split: usize) -> Kinship {
        let n = values.len() as f64;
        if values.len() < VALUES_MIN {
            return Kinship::NONE;
        }
        let (mut together, mut square, mut sides) = (0.0, 0.0, 0.0);
        for side in [&values[..split], &values[split..]].into_iter().filter(|side| !side.is_empty()) {
            sides += 1.0;
            let mean = side.iter().sum::<f64>() / side.len() as f64;
            square += side.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            together += side.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        }
        let seen = together / square;
        let found = seen + sides * (1.0 + 4.0 * seen.max(0.0)) / n;
        let known = found.is_finite() && found * n.sqrt() > SEEN;
        Kinship(if known { found.min(MOST) } else { 0.0 })
    }

    /// How many times the variance of the mean of `n` values is that of independent ones.
    fn factor(self, n: usize) -> f64 {
        let (mut factor, mut power) = (1.0, 1.0);
        for apart in 1..n {
            power *= self.0;
            if power < 1e-6 {
                break;
            }
            factor += 2.0 * (1.0 - apart as f64 / n as f64) * power;
        }
        factor
    }

    /// Of at least two values. Their own mean goes along with what they have in common, so they scatter less about it
    /// than about the true one: by (n - factor) / (n - 1).
    pub(super) fn side(self, values: &[f64]) -> Side {
        let (n, factor) = (values.len() as f64, self.factor(values.len()));
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Side { mean, variance: squares / (n - factor).max(1.0), count: n / factor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_values_count_as_many_as_they_are() {
        let none = Kinship(0.0);
        let side = none.side(&[1.0, 2.0, 3.0, 6.0]);
        assert_eq!((side.mean, side.count, side.degrees()), (3.0, 4.0, 3.0));
        assert!((side.variance - 14.0 / 3.0).abs() < 1e-12);
        assert_eq!(Kinship::of(&[1.0; 40], 20), none, "no differences at all");
        assert_eq!(Kinship::of(&[0.0, 1.0], 1), none, "too few to tell");
    }

    #[test]
    fn kin_count_for_less() {
        // By hand: two values of correlation r, of which the mean has the variance (1 + r) / 2.
        assert!((Kinship(0.6).factor(2) - 1.6).abs() < 1e-12);
        // Of many it is (1 - r) / (1 + r) of them.
        assert!((Kinship(0.6).factor(100_000) / 4.0 - 1.0).abs() < 1e-4);
        let slow: Vec<f64> = (0..40).map(|n| (0.3 * f64::from(n)).sin()).collect();
        assert!(Kinship::of(&slow, 20).0 > 0.5, "{:?}", Kinship::of(&slow, 20));
        let step: Vec<f64> = (0..40).map(|n| f64::from(n % 2) + if n < 20 { 0.0 } else { 0.5 }).collect();
        assert_eq!(Kinship::of(&step, 20), Kinship::NONE, "a step is no kinship");
    }
}
