//! What a run saw of a weight that is known, in words.

use crate::words;
use tare_stats::{Analysis, Interval, MetricAnalysis, Ratio, percent_text};

/// `a planted 1.0 % was weighed as 1.1 % [0.7, 1.5] in throughput and 0.9 % [0.6, 1.2] in CPU per op`; none without a
/// ruler that was measured.
pub(crate) fn line(analysis: &Analysis) -> Option<String> {
    let arm = analysis.arms.iter().find(|arm| arm.weight.is_some())?;
    let of = |metric: &'_ MetricAnalysis| metric.ratios.iter().find(|ratio| ratio.arm == arm.name).cloned();
    let weighs = |metric: &&MetricAnalysis| metric.name == "throughput" || metric.name.starts_with("cpu");
    let weighed: Vec<(String, bool)> = words::compared(analysis)
        .filter(weighs)
        .filter_map(|metric| of(metric).map(|ratio| (as_weight(metric, &ratio), ratio)))
        .map(|((text, low), ratio)| (text, ratio.interval.is_none() || low > 0.0))
        .collect();
    let (_, seen) = weighed.first()?;
    let planted = percent_text(arm.weight?);
    let texts: Vec<&str> = weighed.iter().map(|(text, _)| text.as_str()).collect();
    let unseen = if *seen { "" } else { ": this run could not tell it from nothing" };
    Some(format!("a planted {planted} was weighed as {}{unseen}", texts.join(" and ")))
}

/// A ratio as a weight on each operation, and the low end of its interval.
fn as_weight(metric: &MetricAnalysis, ratio: &Ratio) -> (String, f64) {
    let weight = |ratio: f64| if metric.more_is_better { ratio.recip() - 1.0 } else { ratio - 1.0 };
    let percent = |ratio: f64| 100.0 * weight(ratio);
    let value = percent(ratio.ratio);
    let Some(Interval { low, high }) = ratio.interval else {
        return (format!("{value:.1} % in {}", metric.title), f64::NAN);
    };
    let (one, other) = (percent(low), percent(high));
    let (low, high) = (one.min(other), one.max(other));
    (format!("{value:.1} % [{low:.1}, {high:.1}] in {}", metric.title), low)
}
