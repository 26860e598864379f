//! The law and its least-squares fit on the log scale.

use serde::Serialize;

/// The universal scalability law, X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)). N. J. Gunther: Guerrilla
/// Capacity Planning, Springer 2007.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Law {
    /// Throughput of one, in the unit of the throughput.
    pub lambda: f64,
    /// Contention: the share of the work that is done one after the other.
    pub sigma: f64,
    /// Coherence: the cost of each pair's keeping in step, as a share of the work of one.
    pub kappa: f64,
}

impl Law {
    /// Throughput with `n`.
    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / self.divisor(n)
    }

    fn divisor(&self, n: f64) -> f64 {
        1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0)
    }

    /// Where it bends over: beyond this number throughput falls. None when it never does.
    pub fn bend(&self) -> Option<f64> {
        (self.kappa > 0.0 && self.sigma < 1.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt())
    }
}

/// Steps after which the search for the least squares ends in any case; it takes about five.
const STEPS_MAX: usize = 50;

/// What is left of a column of length 1 when the others are taken out of it, squared, below which it is none of its
/// own.
const COLLINEAR: f64 = 1e-12;

/// How each coefficient (log lambda, sigma, kappa) answers to a change of the log of the throughput at each level.
pub(super) type Influence = [Vec<f64>; 3];

/// Fits the law to the logs of the throughput at `levels`, all with the same weight, so that each counts by its
/// relative error. `free` says whether sigma and kappa may vary or are 0. Coefficients may come out negative; the
/// divisor may not. None when the search does not end well.
pub(super) fn fit(levels: &[f64], logs: &[f64], free: [bool; 2]) -> Option<Law> {
    let scale = Scale::of(levels);
    let mut at = scale.start(levels, logs, free)?;
    let mut squares = scale.squares(levels, logs, at)?;
    for _ in 0..STEPS_MAX {
        let step = scale.step(levels, logs, at, free)?;
        let mut length = 1.0;
        // Halved until it leads downhill.
        let better = loop {
            let next: [f64; 3] = std::array::from_fn(|k| at[k] + length * step[k]);
            match scale.squares(levels, logs, next) {
                Some(found) if found <= squares => break Some((next, found)),
                _ if length < 1e-6 => break None,
                _ => length *= 0.5,
            }
        };
        let Some((next, found)) = better else { break };
        let moved = (0..3).map(|k| (next[k] - at[k]).abs()).fold(0.0, f64::max);
        (at, squares) = (next, found);
        if moved < 1e-12 {
            break;
        }
    }
    Some(scale.law(at))
}

/// How the coefficients of a fit with all of them free answer to the values it was made from: the linear fit around it.
pub(super) fn influence(levels: &[f64], law: &Law) -> Option<Influence> {
    let scale = Scale::of(levels);
    let at = [law.lambda.ln(), law.sigma * scale.sigma, law.kappa * scale.kappa];
    let rows: Option<Vec<[f64; 3]>> = levels.iter().map(|n| scale.slopes(*n, at, [true, true])).collect();
    let rows = rows?;
    let units = [1.0, scale.sigma, scale.kappa];
    let mut influence = [const { Vec::new() }; 3];
    for level in 0..levels.len() {
        let one: Vec<f64> = (0..levels.len()).map(|other| f64::from(u8::from(other == level))).collect();
        let change = least_squares(&rows, &one, [true, true])?;
        for (k, answers) in influence.iter_mut().enumerate() {
            answers.push(change[k] / units[k]);
        }
    }
    Some(influence)
}

/// Coefficients in units in which the divisor at the highest level is 1 + sigma + kappa: whatever the levels are, all
/// are of about the same size.
struct Scale {
    sigma: f64,
    kappa: f64,
}

impl Scale {
    fn of(levels: &[f64]) -> Scale {
        let highest = levels.iter().copied().fold(f64::MIN, f64::max);
        Scale { sigma: highest - 1.0, kappa: highest * (highest - 1.0) }
    }

    fn law(&self, at: [f64; 3]) -> Law {
        Law { lambda: at[0].exp(), sigma: at[1] / self.sigma, kappa: at[2] / self.kappa }
    }

    /// What the divisor grows by with each coefficient.
    fn terms(&self, n: f64) -> [f64; 2] {
        [(n - 1.0) / self.sigma, n * (n - 1.0) / self.kappa]
    }

    /// Derivatives of the log of the law.
    fn slopes(&self, n: f64, at: [f64; 3], free: [bool; 2]) -> Option<[f64; 3]> {
        let terms = self.terms(n);
        let divisor = 1.0 + at[1] * terms[0] + at[2] * terms[1];
        let of = |k: usize| if free[k] { -terms[k] / divisor } else { 0.0 };
        (divisor > 0.0).then(|| [1.0, of(0), of(1)])
    }

    fn residual(&self, n: f64, log: f64, at: [f64; 3]) -> Option<f64> {
        let terms = self.terms(n);
        let divisor = 1.0 + at[1] * terms[0] + at[2] * terms[1];
        (divisor > 0.0).then(|| log - (at[0] + n.ln() - divisor.ln()))
    }

    fn squares(&self, levels: &[f64], logs: &[f64], at: [f64; 3]) -> Option<f64> {
        levels.iter().zip(logs).map(|(n, log)| Some(self.residual(*n, *log, at)?.powi(2))).sum()
    }

    /// N / X is linear in 1 / lambda, sigma / lambda and kappa / lambda; weighted to relative errors, that is close.
    fn start(&self, levels: &[f64], logs: &[f64], free: [bool; 2]) -> Option<[f64; 3]> {
        let rows = levels.iter().zip(logs).map(|(n, log)| {
            let (weight, terms) = ((log - n.ln()).exp(), self.terms(*n));
            let of = |k: usize| if free[k] { terms[k] * weight } else { 0.0 };
            [weight, of(0), of(1)]
        });
        let [a, b, c] = least_squares(&rows.collect::<Vec<_>>(), &vec![1.0; levels.len()], free)?;
        let start = [-a.ln(), b / a, c / a];
        let fits = a > 0.0 && self.squares(levels, logs, start).is_some();
        let mean = levels.iter().zip(logs).map(|(n, log)| log - n.ln()).sum::<f64>() / levels.len() as f64;
        Some(if fits { start } else { [mean, 0.0, 0.0] })
    }

    /// Gauss and Newton's step.
    fn step(&self, levels: &[f64], logs: &[f64], at: [f64; 3], free: [bool; 2]) -> Option<[f64; 3]> {
        let rows: Option<Vec<[f64; 3]>> = levels.iter().map(|n| self.slopes(*n, at, free)).collect();
        let residuals: Option<Vec<f64>> = levels.iter().zip(logs).map(|(n, log)| self.residual(*n, *log, at)).collect();
        least_squares(&rows?, &residuals?, free)
    }
}

/// Solves for the coefficients that bring `rows` closest to `wanted`; those that are not free are 0. None when the rows
/// do not determine them.
fn least_squares(rows: &[[f64; 3]], wanted: &[f64], free: [bool; 2]) -> Option<[f64; 3]> {
    let used: Vec<usize> =
        [true, free[0], free[1]].iter().enumerate().filter(|(_, free)| **free).map(|(k, _)| k).collect();
    // Normal equations: at most three, each column in its own size.
    let sizes: Vec<f64> = used.iter().map(|k| rows.iter().map(|row| row[*k] * row[*k]).sum::<f64>().sqrt()).collect();
    let column = |at: usize, row: &[f64; 3]| row[used[at]] / sizes[at];
    let count = used.len();
    let mut table: Vec<Vec<f64>> = Vec::new();
    for at in 0..count {
        let product = |other: usize| rows.iter().map(|row| column(at, row) * column(other, row)).sum::<f64>();
        let right = rows.iter().zip(wanted).map(|(row, wanted)| column(at, row) * wanted).sum();
        table.push((0..count).map(product).chain([right]).collect());
    }
    for column in 0..count {
        let pivot = (column..count).max_by(|a, b| table[*a][column].abs().total_cmp(&table[*b][column].abs()))?;
        table.swap(column, pivot);
        let size = table[column][column].abs();
        if size.is_nan() || size < COLLINEAR {
            return None;
        }
        for row in (0..count).filter(|row| *row != column) {
            let factor = table[row][column] / table[column][column];
            let above = table[column].clone();
            table[row].iter_mut().zip(&above).skip(column).for_each(|(value, above)| *value -= factor * above);
        }
    }
    let mut solved = [0.0; 3];
    for (row, k) in used.iter().enumerate() {
        solved[*k] = table[row][count] / table[row][row] / sizes[row];
    }
    Some(solved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEVELS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    fn logs(law: &Law, levels: &[f64]) -> Vec<f64> {
        levels.iter().map(|n| law.at(*n).ln()).collect()
    }

    #[test]
    fn the_law_is_the_one_of_the_book() {
        // By hand: 100 * 10 / (1 + .05 * 9 + .001 * 90) = 1000 / 1.54.
        let law = Law { lambda: 100.0, sigma: 0.05, kappa: 0.001 };
        assert!((law.at(10.0) - 649.350_649).abs() < 1e-6);
        assert!((law.bend().unwrap() - 950.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(Law { kappa: 0.0, ..law }.bend(), None);
    }

    proptest! {
        #[test]
        fn without_noise_the_coefficients_are_found(
            lambda in 1.0f64..1e6, sigma in 0.0f64..0.5, kappa in 0.0f64..0.01, first in 1.0f64..40.0
        ) {
            let law = Law { lambda, sigma, kappa };
            let levels: Vec<f64> = LEVELS.iter().map(|n| n * first).collect();
            let found = fit(&levels, &logs(&law, &levels), [true, true]).unwrap();
            for n in &levels {
                prop_assert!((found.at(*n) / law.at(*n) - 1.0).abs() < 1e-6);
            }
            if first < 4.0 {
                prop_assert!((found.sigma - sigma).abs() < 1e-4 && (found.kappa - kappa).abs() < 1e-5, "{found:?}");
            }
        }
    }

    #[test]
    fn the_influence_is_what_a_small_change_does() {
        let law = Law { lambda: 100.0, sigma: 0.05, kappa: 0.001 };
        let exact = logs(&law, &LEVELS);
        let whole = influence(&LEVELS, &law).unwrap();
        for level in 0..LEVELS.len() {
            let mut changed = exact.clone();
            changed[level] += 1e-5;
            let other = fit(&LEVELS, &changed, [true, true]).unwrap();
            let moved = [(other.lambda / law.lambda).ln(), other.sigma - law.sigma, other.kappa - law.kappa];
            for k in 0..3 {
                let expected = whole[k][level] * 1e-5;
                assert!((moved[k] - expected).abs() < 1e-3 * expected.abs() + 1e-10, "{level} {k}: {moved:?}");
            }
        }
    }

    #[test]
    fn what_is_not_free_stays_zero() {
        let law = Law { lambda: 100.0, sigma: 0.05, kappa: 0.001 };
        let found = fit(&LEVELS, &logs(&law, &LEVELS), [true, false]).unwrap();
        assert_eq!(found.kappa, 0.0);
        assert!(found.sigma > 0.05);
    }

    #[test]
    fn levels_that_determine_nothing_are_refused() {
        assert_eq!(fit(&[2.0, 2.0, 2.0, 2.0], &[1.0, 1.1, 0.9, 1.0], [true, true]), None);
    }
}
