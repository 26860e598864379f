//! Fisher's exact test: whether something befalls one form more often than the others.

use statrs::function::factorial::ln_binomial;

/// The two-sided p of `hits` among `of` trials against `other_hits` among `other_of`: the probability, when it befalls
/// every trial alike and the totals are as they are, of a table no likelier than this one. Fisher 1922.
pub(crate) fn fisher_p(hits: u32, of: u32, other_hits: u32, other_of: u32) -> f64 {
    debug_assert!(hits <= of && other_hits <= other_of, "more hits than trials");
    let (total, all) = (hits + other_hits, of + other_of);
    let log_p = |hits: u32| {
        let ways = |n: u32, k: u32| ln_binomial(u64::from(n), u64::from(k));
        ways(of, hits) + ways(other_of, total - hits) - ways(all, total)
    };
    let seen = log_p(hits);
    let possible = total.saturating_sub(other_of)..=total.min(of);
    // Tables that are equally likely differ in the last digits only.
    let sum: f64 = possible.map(log_p).filter(|log_p| *log_p <= seen + 1e-9).map(f64::exp).sum();
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_textbooks_come_out() {
        // Fisher's tea: 3 of 4 against 1 of 4, two-sided 0.4857; 4 of 4 against none, 2/70.
        assert!((fisher_p(3, 4, 1, 4) - 0.485_714).abs() < 1e-6);
        assert!((fisher_p(4, 4, 0, 4) - 2.0 / 70.0).abs() < 1e-9);
        assert_eq!(fisher_p(0, 5, 0, 30), 1.0);
        // 8 of 10 against 2 of 20, by a separate calculation.
        assert!((fisher_p(8, 10, 2, 20) - 0.000_291_26).abs() < 1e-7, "{}", fisher_p(8, 10, 2, 20));
    }

    #[test]
    fn it_does_not_matter_which_comes_first() {
        assert!((fisher_p(5, 9, 3, 14) - fisher_p(3, 14, 5, 9)).abs() < 1e-12);
    }
}
