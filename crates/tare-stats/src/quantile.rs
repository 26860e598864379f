//! Quantiles of Student's t and of chi-squared.

use statrs::distribution::{ChiSquared, Continuous, ContinuousCDF, Normal, StudentsT};

/// The `probability` quantile of Student's t with `degrees` of freedom.
///
/// # Panics
/// When `degrees` is not positive.
pub fn student_quantile(probability: f64, degrees: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive");
    t.inverse_cdf(probability)
}

/// The `probability` quantile of chi-squared with `degrees` of freedom.
///
/// # Panics
/// When `degrees` is not positive.
pub(crate) fn chi_squared_quantile(probability: f64, degrees: f64) -> f64 {
    let chi_squared = ChiSquared::new(degrees).expect("degrees of freedom are positive");
    // From the cube of a normal (E. B. Wilson and M. M. Hilferty, 1931) a few of Newton's steps lead there, where it is
    // not near 0; intervals ask for hundreds of quantiles.
    let ninth = 2.0 / (9.0 * degrees);
    let mut x = degrees * (1.0 - ninth + Normal::standard().inverse_cdf(probability) * ninth.sqrt()).powi(3);
    for _ in 0..8 {
        let step = (chi_squared.cdf(x) - probability) / chi_squared.pdf(x);
        x -= step;
        if x <= 0.0 || !step.is_finite() {
            break;
        }
        if step.abs() <= 1e-9 * x {
            return x;
        }
    }
    chi_squared.inverse_cdf(probability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_agrees_with_the_printed_tables() {
        for (degrees, wanted) in [(2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042)] {
            let quantile = student_quantile(0.975, degrees);
            assert!((quantile - wanted).abs() < 5e-4, "df {degrees}: {quantile}");
        }
        assert!((student_quantile(0.8, 4.0) - 0.941).abs() < 5e-4);
    }

    #[test]
    fn chi_squared_agrees_with_the_printed_tables() {
        for (probability, degrees, wanted) in
            [(0.025, 3.0, 0.216), (0.95, 3.0, 7.815), (0.5, 10.0, 9.342), (0.975, 30.0, 46.979)]
        {
            let quantile = chi_squared_quantile(probability, degrees);
            assert!((quantile - wanted).abs() < 1e-3, "{probability}, df {degrees}: {quantile}");
        }
    }
}
