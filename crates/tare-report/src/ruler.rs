//! What a run measured of a known weight, in words.

use crate::words;
use tare_stats::{Analysis, BoundCause, Interval, MetricAnalysis, Ratio, percent_text};

/// A lighter weight, as a share, has two decimals.
const LIGHT: f64 = 0.005;

/// What a metric made of the weight, in per cent.
struct Weighed<'a> {
    title: &'a str,
    value: f64,
    interval: Option<Interval>,
    /// How much more than what was planted the value is, where the interval does not contain that.
    off: Option<f64>,
}

/// `a planted 1.0 % was measured as 1.1 % [0.7, 1.5] in throughput and 0.9 % [0.6, 1.2] in CPU per op`, and what
/// follows where an interval does not contain the weight, with whether one does not; none without a ruler that was
/// measured.
pub(crate) fn line(analysis: &Analysis) -> Option<(String, bool)> {
    let arm = analysis.arms.iter().find(|arm| arm.weight.is_some())?;
    let planted = arm.weight?;
    let weighs = |metric: &&MetricAnalysis| metric.name == "throughput" || metric.name.starts_with("cpu");
    let of = |metric: &'_ MetricAnalysis| metric.ratios.iter().find(|ratio| ratio.arm == arm.name).cloned();
    let all: Vec<Weighed> = words::compared(analysis)
        .filter(weighs)
        .filter_map(|metric| Some(weighed(metric, &of(metric)?, 100.0 * planted)))
        .collect();
    let first = all.first()?;
    let off: Vec<String> = all.iter().filter_map(Weighed::off_text).collect();
    // A narrow miss would read like a hit.
    let decimals = if planted < LIGHT || !off.is_empty() { 2 } else { 1 };
    let texts: Vec<String> = all.iter().map(|of| of.text(decimals)).collect();
    let mut text = format!("a planted {} was measured as {}", percent_text(planted), texts.join(" and "));
    if first.interval.is_some_and(|interval| interval.low <= 0.0) {
        text += ": this run could not tell it from zero";
    }
    if !off.is_empty() {
        text += &format!(
            ". That is NOT what was planted: {}. Other ratios may be off by about as much, unless this is one of the \
             intervals, one in 20, that miss by chance",
            off.join(", ")
        );
    }
    Some((text, !off.is_empty()))
}

/// A ratio as a weight on each operation.
fn weighed<'a>(metric: &'a MetricAnalysis, ratio: &Ratio, planted: f64) -> Weighed<'a> {
    let percent = |ratio: f64| 100.0 * (if metric.more_is_better { ratio.recip() } else { ratio } - 1.0);
    let value = percent(ratio.ratio);
    let interval = ratio.interval.map(|Interval { low, high }| {
        let (one, other) = (percent(low), percent(high));
        Interval { low: one.min(other), high: one.max(other) }
    });
    // Failed operations do not carry the weight; a generator at its limit does.
    let known = ratio.bound.is_none_or(|bound| bound.cause == BoundCause::Generator);
    let misses = interval.is_some_and(|interval| !interval.contains(planted));
    Weighed { title: &metric.title, value, interval, off: (known && misses).then_some(value - planted) }
}

impl Weighed<'_> {
    /// `0.8 % too little in throughput`.
    fn off_text(&self) -> Option<String> {
        let off = self.off?;
        let (size, way) = (off.abs(), if off > 0.0 { "much" } else { "little" });
        let size = if size < 0.1 { format!("{size:.2}") } else { format!("{size:.1}") };
        Some(format!("{size} % too {way} in {}", self.title))
    }

    fn text(&self, decimals: usize) -> String {
        let Weighed { title, value, interval, .. } = self;
        let interval = interval.map(|Interval { low, high }| format!(" [{low:.decimals$}, {high:.decimals$}]"));
        format!("{value:.decimals$} %{} in {title}", interval.unwrap_or_default())
    }
}
