//! How wide intervals will be, and how many blocks it takes until they are narrow.

use crate::paired::BLOCKS_MIN;
use crate::quantile::student_quantile;
use crate::sequential::{FIRST_LOOK, LOOK_EVERY};
use crate::width::reserve;
use statrs::function::gamma::ln_gamma;

/// More blocks than this are as good as never.
const BLOCKS_MAX: u32 = 1 << 20;

/// The half-width, log scale, that is to be expected of the interval of so many blocks whose differences have this
/// `variance`, at a one-sided `level` of Student's t. None where so few blocks have no interval.
pub fn expected_half_width(variance: f64, blocks: u32, level: f64) -> Option<f64> {
    let n = f64::from(blocks);
    let seen = || student_quantile(level, n - 1.0) * share_seen(n) * (variance / n).sqrt();
    (blocks as usize >= BLOCKS_MIN).then(seen)
}

/// How many blocks a run has done that goes on until its intervals reach no farther than `half_width`, log scale, and
/// has the reserve that ends it: it looks after six, and then after every other one.
pub(crate) fn blocks_until(variance: f64, half_width: f64, level: f64) -> u32 {
    let narrow = |blocks: u32| {
        let most = half_width / (1.0 + reserve(blocks as usize));
        expected_half_width(variance, blocks, level).is_some_and(|expected| expected <= most)
    };
    let look = |number: u32| FIRST_LOOK + LOOK_EVERY * number;
    let (mut before, mut enough) = (0, (BLOCKS_MAX - FIRST_LOOK) / LOOK_EVERY);
    if narrow(FIRST_LOOK) {
        return FIRST_LOOK;
    }
    while enough - before > 1 {
        let middle = before + (enough - before) / 2;
        if narrow(look(middle)) { enough = middle } else { before = middle }
    }
    look(enough)
}

/// The share of a standard deviation that the one of `n` values is on average: fewer show less of it.
fn share_seen(n: f64) -> f64 {
    (2.0 / (n - 1.0)).sqrt() * (ln_gamma(0.5 * n) - ln_gamma(0.5 * (n - 1.0))).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_first_look_that_is_narrow_enough() {
        // t(.975, 5) / sqrt 6 x 0.952 = 0.999: six blocks of a deviation of 1 % reach 1 %, and end for 7/6 of that.
        assert!((expected_half_width(1e-4, 6, 0.975).unwrap() - 0.00998).abs() < 2e-5);
        assert_eq!(expected_half_width(1e-4, 2, 0.975), None);
        assert_eq!(blocks_until(1e-4, 0.0117, 0.975), 6);
        assert_eq!(blocks_until(1e-4, 0.0116, 0.975), 8);
        let blocks = blocks_until(1e-2, 0.01, 0.975);
        let reached = |blocks| expected_half_width(1e-2, blocks, 0.975).unwrap();
        let most = |blocks: u32| 0.01 / (1.0 + 1.0 / f64::from(blocks));
        assert!(reached(blocks) <= most(blocks) && reached(blocks - 2) > most(blocks - 2), "{blocks}");
        assert_eq!(blocks_until(1e9, 0.01, 0.975), BLOCKS_MAX);
    }
}
