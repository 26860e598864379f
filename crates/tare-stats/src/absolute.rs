//! How far a form lies from its baseline in the metric's own unit: microseconds where a ratio alone would leave the
//! reader to multiply.

use crate::estimate::block_logs;
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::paired::Differences;
use crate::ratios::{MetricAnalysis, Ratio};
use serde::Serialize;

/// A form's distance from its baseline. It is worked out from the ratio, so it excludes 0 exactly where the ratio's
/// interval excludes 1, and a verdict on the one holds for the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AbsoluteDifference {
    /// The form's value less the baseline's, in the metric's unit.
    pub value: f64,
    /// Its interval, of the same probability as the ratio's; none where the ratio has none.
    pub interval: Option<Interval>,
}

/// The difference that `ratio` means at a baseline of `base`: `base * (ratio - 1)`, and the same at both ends. How well
/// `base` itself is known is left out: what differs between blocks differs for both forms.
pub fn difference_at(base: f64, ratio: &Ratio) -> AbsoluteDifference {
    let at = |ratio: f64| base * (ratio - 1.0);
    let interval = ratio.interval.map(|Interval { low, high }| Interval { low: at(low), high: at(high) });
    AbsoluteDifference { value: at(ratio.ratio), interval }
}

/// The difference of `arm` to `baseline`, at the geometric mean of the baseline's trials; none when the metric has no
/// ratio of it, or a value of the baseline is zero.
pub fn absolute_difference(metric: &MetricAnalysis, baseline: &str, arm: &str) -> Option<AbsoluteDifference> {
    let base = metric.estimates.iter().find(|estimate| estimate.arm == baseline)?.geometric_mean?;
    let ratio = metric.ratios.iter().find(|ratio| ratio.arm == arm)?;
    Some(difference_at(base, ratio))
}

/// An arm's value by that of another one that need not be the baseline, inside blocks, with its 95 % interval for this
/// pair alone (Student's t), no narrower than a run may claim that its width ended; none where no block has both. The
/// interval needs three blocks.
pub fn ratio_to(metric: &MetricAnalysis, arm: &str, reference: &str) -> Option<(f64, Option<Interval>)> {
    let logs = |name: &str| metric.estimates.iter().find(|estimate| estimate.arm == name).map(block_logs);
    let differences = Differences::of(&logs(arm)?, &logs(reference)?);
    let (n, mean) = (differences.n(), differences.mean());
    if n == 0 {
        return None;
    }
    let precision = differences.precision(0.5 * (1.0 + CONFIDENCE)).filter(|_| arm != reference);
    Some((mean.exp(), precision.map(|precision| metric.claim.elsewhere(precision).interval(mean))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{BlockValue, Estimate};
    use crate::verdict::Verdict;

    fn ratio(ratio: f64, interval: Option<(f64, f64)>) -> Ratio {
        let interval = interval.map(|(low, high)| Interval { low, high });
        Ratio { interval, ..Ratio::of_box(ratio, 3, Verdict::Worse) }
    }

    fn metric(geometric_mean: Option<f64>, ratios: Vec<Ratio>) -> MetricAnalysis {
        let estimate = Estimate {
            arm: "bare".into(),
            values: Vec::new(),
            at_least: Vec::new(),
            mean: 41.0,
            geometric_mean,
            interval: None,
        };
        MetricAnalysis {
            name: "p50_us".into(),
            title: "p50".into(),
            unit: "us".into(),
            more_is_better: false,
            noise_floor: None,
            ..MetricAnalysis::of_throughput(vec![estimate], ratios)
        }
    }

    #[test]
    fn a_difference_is_the_ratio_at_the_baseline() {
        let metric = metric(Some(40.0), vec![ratio(1.25, Some((1.2, 1.3)))]);
        let difference = absolute_difference(&metric, "bare", "box").unwrap();
        let interval = difference.interval.unwrap();
        let found = [difference.value, interval.low, interval.high];
        assert!(found.iter().zip([10.0, 8.0, 12.0]).all(|(found, wanted)| (found - wanted).abs() < 1e-9), "{found:?}");
    }

    #[test]
    fn it_excludes_zero_where_the_ratio_excludes_one() {
        for (low, high) in [(0.9, 0.99), (0.99, 1.01), (1.01, 1.1), (1.0, 1.1)] {
            let ratio = ratio(0.5 * (low + high), Some((low, high)));
            let holds_one = ratio.interval.unwrap().contains(1.0);
            assert_eq!(difference_at(7.0, &ratio).interval.unwrap().contains(0.0), holds_one, "{low} {high}");
        }
    }

    #[test]
    fn without_an_interval_or_a_baseline_none_is_made_up() {
        let found = |metric: &MetricAnalysis, arm| absolute_difference(metric, "bare", arm);
        let bare = metric(Some(40.0), vec![ratio(10.0, None)]);
        assert_eq!(found(&bare, "box"), Some(AbsoluteDifference { value: 360.0, interval: None }));
        assert_eq!(found(&bare, "crate"), None);
        assert_eq!(found(&metric(None, vec![ratio(1.0, None)]), "box"), None);
    }

    #[test]
    fn a_form_may_be_held_against_another_than_the_baseline() {
        let of = |arm: &str, values: [f64; 3]| {
            let value = |(block, value)| BlockValue { block, trial: block, value };
            let values = (0..).zip(values).map(value).collect();
            let at_least = Vec::new();
            Estimate { arm: arm.into(), values, at_least, mean: 0.0, geometric_mean: None, interval: None }
        };
        let mut metric = metric(None, Vec::new());
        metric.estimates = vec![of("box", [80.0, 41.0, 158.0]), of("crate", [100.0, 50.0, 200.0])];
        let (ratio, interval) = ratio_to(&metric, "box", "crate").unwrap();
        let interval = interval.unwrap();
        assert!((ratio - 0.803).abs() < 1e-3 && interval.low > 0.75 && interval.high < 0.86, "{ratio} {interval:?}");
        assert_eq!(ratio_to(&metric, "crate", "crate"), Some((1.0, None)));
        assert_eq!(ratio_to(&metric, "box", "bare"), None);
    }
}
