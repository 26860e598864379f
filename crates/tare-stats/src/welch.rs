//! Independent means together: their variance, and its degrees of freedom.

/// The variance of a sum or difference of independent means, and its degrees of freedom after Welch and Satterthwaite;
/// of each mean its own variance and the degrees of freedom of that. Without any spread there is nothing to weigh
/// them by: then all of them count.
pub(crate) fn satterthwaite(means: impl IntoIterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut variance, mut below, mut all) = (0.0, 0.0, 0.0);
    for (own, degrees) in means {
        variance += own;
        below += own * own / degrees;
        all += degrees;
    }
    (variance, if below > 0.0 { variance * variance / below } else { all })
}

#[cfg(test)]
mod tests {
    use super::satterthwaite;

    #[test]
    fn equals_add_their_degrees_and_the_noisier_one_decides() {
        let (variance, degrees) = satterthwaite([(2.0, 4.0), (2.0, 4.0)]);
        assert!((variance - 4.0).abs() < 1e-12 && (degrees - 8.0).abs() < 1e-12);
        let (_, degrees) = satterthwaite([(1e-9, 50.0), (1.0, 4.0)]);
        assert!((degrees - 4.0).abs() < 1e-6);
        assert_eq!(satterthwaite([(0.0, 3.0), (0.0, 4.0)]), (0.0, 7.0));
    }
}
