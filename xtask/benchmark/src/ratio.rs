//! Ratios of what was measured in the same rounds.

use tare_stats::student_quantile;

/// A ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    /// None below three rounds.
    pub(crate) interval: Option<(f64, f64)>,
}

/// The ratio of two lists, paired by round: the mean of the differences of logs, with Student's t for their spread.
/// None when there is no round in which both are above 0.
pub(crate) fn paired(above: &[f64], below: &[f64]) -> Option<Ratio> {
    let both = above.iter().zip(below).filter(|(above, below)| **above > 0.0 && **below > 0.0);
    let logs: Vec<f64> = both.map(|(above, below)| (above / below).ln()).collect();
    let n = logs.len() as f64;
    if logs.is_empty() {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n;
    let interval = (logs.len() >= 3).then(|| {
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let half = student_quantile(0.975, n - 1.0) * (variance / n).sqrt();
        ((mean - half).exp(), (mean + half).exp())
    });
    Some(Ratio { value: mean.exp(), interval })
}

/// `1.23 [1.20, 1.26]`; `-` when there is none.
pub(crate) fn show(ratio: Option<Ratio>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(Ratio { value, interval: None }) => figure(value),
        Some(Ratio { value, interval: Some((low, high)) }) => {
            format!("{} [{}, {}]", figure(value), figure(low), figure(high))
        }
    }
}

/// Three significant digits.
pub(crate) fn figure(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size => (2 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{value:.digits$}");
    let Some((whole, rest)) = text.split_once('.') else { return thousands(&text) };
    format!("{}.{rest}", thousands(whole))
}

fn thousands(whole: &str) -> String {
    let mut text = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = whole.len() - at;
        if at > 0 && left.is_multiple_of(3) && digit.is_ascii_digit() && !text.ends_with('-') {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// The middle of some values; not a number when there are none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_taken_inside_rounds() {
        // The second round was twice as slow for both: nothing of it is left in the ratio.
        let ratio = paired(&[1.1, 2.2, 1.1, 1.1], &[1.0, 2.0, 1.0, 1.0]).unwrap();
        let (low, high) = ratio.interval.unwrap();
        assert!((ratio.value - 1.1).abs() < 1e-12 && high - low < 1e-12);
        assert_eq!(paired(&[1.0, 2.0], &[2.0, 4.0]), Some(Ratio { value: 0.5, interval: None }));
        assert_eq!(paired(&[0.0], &[1.0]), None);
    }

    #[test]
    fn the_interval_is_students() {
        // Logs 0, 0.1, 0.2: mean 0.1, sd 0.1; t(.975, 2) = 4.302653.
        let ratio = paired(&[1.0, 0.1_f64.exp(), 0.2_f64.exp()], &[1.0; 3]).unwrap();
        let half = 4.302_653 * 0.1 / 3_f64.sqrt();
        let (low, high) = ratio.interval.unwrap();
        assert!((low.ln() - (0.1 - half)).abs() < 1e-6 && (high.ln() - (0.1 + half)).abs() < 1e-6);
    }

    #[test]
    fn figures_are_for_readers() {
        assert_eq!(figure(0.19444), "0.194");
        assert_eq!(figure(136_412.0), "136 412");
        assert_eq!(figure(9.999), "10.00");
        assert_eq!(figure(0.0), "0");
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), 2.5);
    }
}
