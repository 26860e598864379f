//! Quantiles of Student's t.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The `probability` quantile of Student's t with `degrees` of freedom.
///
/// # Panics
/// When `degrees` is not positive.
pub fn student_quantile(probability: f64, degrees: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, degrees).expect("degrees of freedom are positive");
    t.inverse_cdf(probability)
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
}
