//! What a single window says.

use statrs::function::beta::beta_reg;
use tare_core::peak::{Count, Criterion};

/// Where a window's share over the limit is cut off, in multiples of what is allowed. It bounds the pull of a single
/// disturbed window, and is part of what is measured: figures from another value do not compare.
pub const CAP: f64 = 5.0;

/// How unlikely a count must be under an allowed share before a short window counts as failed.
const CLEAR: f64 = 0.01;

/// A criterion's share over its limit, from -1 (nothing) over 0 (just what is allowed) to `CAP` - 1; none when there
/// was nothing to count.
pub fn score(count: &Count, criterion: &Criterion) -> Option<f64> {
    Some((count.share()? / criterion.allowed).min(CAP) - 1.0)
}

/// The score of the worst criterion. A window in which nothing at all was counted has the worst score there is: a
/// service that answers nothing keeps no QoS.
pub(crate) fn worst(counts: &[Count], criteria: &[Criterion]) -> f64 {
    let scores = counts.iter().zip(criteria).filter_map(|(count, criterion)| score(count, criterion));
    scores.reduce(f64::max).unwrap_or(CAP - 1.0)
}

/// The worst criterion's share over its limit in multiples of what is allowed, not cut off.
pub(crate) fn worst_multiple(counts: &[Count], criteria: &[Criterion]) -> f64 {
    let multiples = counts.iter().zip(criteria).filter_map(|(count, k)| Some(count.share()? / k.allowed));
    multiples.fold(0.0, f64::max)
}

/// Whether every criterion was kept in this window.
pub fn passes(counts: &[Count], criteria: &[Criterion]) -> bool {
    worst(counts, criteria) <= 0.0
}

/// Whether some criterion was broken beyond chance: were its share just the allowed one, so many over the limit would
/// be counted in less than one window of a hundred. Binomial, by the regularised incomplete beta function.
pub fn clearly_fails(counts: &[Count], criteria: &[Criterion]) -> bool {
    let tail = |count: &Count, allowed: f64| beta_reg(count.over, count.of - count.over + 1.0, allowed);
    let broken = |(count, criterion): (&Count, &Criterion)| {
        count.over > 0.0 && count.of >= count.over && tail(count, criterion.allowed) < CLEAR
    };
    counts.iter().all(|count| count.of <= 0.0) || counts.iter().zip(criteria).any(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criteria() -> Vec<Criterion> {
        ["get", "set"].map(|name| Criterion { name: name.into(), allowed: 0.01, late: true }).to_vec()
    }

    fn counts(get: (f64, f64), set: (f64, f64)) -> [Count; 2] {
        [Count { of: get.0, over: get.1 }, Count { of: set.0, over: set.1 }]
    }

    #[test]
    fn the_worst_criterion_decides_and_is_cut_off() {
        let criteria = criteria();
        assert!((worst(&counts((1000.0, 0.0), (1000.0, 15.0)), &criteria) - 0.5).abs() < 1e-12);
        assert_eq!(worst(&counts((1000.0, 900.0), (0.0, 0.0)), &criteria), CAP - 1.0);
        assert!(passes(&counts((1000.0, 10.0), (0.0, 0.0)), &criteria));
        assert!(!passes(&counts((1000.0, 11.0), (1000.0, 0.0)), &criteria));
    }

    #[test]
    fn silence_is_not_a_pass() {
        let nothing = counts((0.0, 0.0), (0.0, 0.0));
        assert!(!passes(&nothing, &criteria()) && clearly_fails(&nothing, &criteria()));
    }

    #[test]
    fn a_short_window_fails_beyond_chance_only() {
        // 3 or more of 100 at 1 % happen in 7.9 % of windows, 5 or more in 0.34 % (binomial tables).
        assert!(!clearly_fails(&counts((100.0, 3.0), (100.0, 0.0)), &criteria()));
        assert!(clearly_fails(&counts((100.0, 0.0), (100.0, 5.0)), &criteria()));
        assert!(clearly_fails(&counts((10.0, 10.0), (10.0, 0.0)), &criteria()));
    }
}
