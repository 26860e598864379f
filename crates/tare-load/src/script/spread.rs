//! Pearson's test of whether draws follow a law, for the tests of distributions.

/// Panics unless `counts` could have been drawn from `law` (probabilities of the same cells): chi-square beyond six
/// standard deviations in the approximation of Wilson and Hilferty, which chance exceeds once in a billion times. Cells
/// with an expected count below ten are merged.
pub(crate) fn assert_follows(counts: &[u64], law: &[f64]) {
    assert_eq!(counts.len(), law.len());
    assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-6, "the law adds up to {}", law.iter().sum::<f64>());
    let total = counts.iter().sum::<u64>() as f64;
    let (mut cells, mut rest) = (Vec::new(), (0.0, 0.0));
    for (count, share) in counts.iter().zip(law) {
        let cell = (*count as f64, share * total);
        if cell.1 < 10.0 { rest = (rest.0 + cell.0, rest.1 + cell.1) } else { cells.push(cell) }
    }
    if rest.1 >= 10.0 {
        cells.push(rest);
    } else if let Some(last) = cells.last_mut() {
        *last = (last.0 + rest.0, last.1 + rest.1);
    }
    let chi: f64 = cells.iter().map(|(seen, expected)| (seen - expected).powi(2) / expected).sum();
    let freedom = (cells.len() - 1).max(1) as f64;
    let limit = freedom * (1.0 - 2.0 / (9.0 * freedom) + 6.0 * (2.0 / (9.0 * freedom)).sqrt()).powi(3);
    assert!(chi <= limit, "chi-square is {chi:.1} with {freedom} degrees of freedom, above {limit:.1}");
}

#[test]
fn a_law_that_is_a_few_percent_off_is_found_out() {
    let off = std::panic::catch_unwind(|| assert_follows(&[53_000, 47_000], &[0.5, 0.5]));
    assert!(off.is_err());
    assert_follows(&[50_100, 49_900], &[0.5, 0.5]);
}
