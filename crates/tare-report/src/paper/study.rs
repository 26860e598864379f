//! A record as chapters see it, and figures as a paper states them: with their interval, or saying that there is none.

use crate::html::looks;
use crate::quantity::{interval_text, quantity};
use crate::response::value;
use crate::svg::Look;
use tare_core::record::Record;
use tare_stats::{Analysis, Arm, Estimate};

/// What stands where there is no figure.
pub(super) const NO_FIGURE: &str = "\u{2013}";

/// A record with its analysis, and how its arms are drawn.
pub(super) struct Study<'a> {
    pub(super) record: &'a Record,
    pub(super) analysis: &'a Analysis,
    pub(super) looks: Vec<Look>,
}

impl<'a> Study<'a> {
    pub(super) fn of(record: &'a Record, analysis: &'a Analysis) -> Study<'a> {
        Study { record, analysis, looks: looks(record, analysis) }
    }

    /// The name of an arm with what must be known of all its figures.
    pub(super) fn named(&self, arm: &Arm) -> String {
        let mut name = arm.name.clone();
        if arm.baseline {
            name += " (baseline)";
        }
        if self.analysis.emulated(arm) {
            name += " (EMULATED)";
        }
        name
    }
}

/// `98,200 op/s [97,100, 99,400]`, with `>=` before it where some trials only say what it is at least.
pub(super) fn estimate_text(estimate: &Estimate, unit: &str) -> String {
    let figure = value(estimate);
    let sign = if estimate.at_least.is_empty() { "" } else { ">=" };
    let text = format!("{sign}{}", quantity(figure, unit).trim_end());
    match estimate.interval {
        Some(interval) => format!("{text} {}", interval_text(figure, interval, unit)),
        None => without_interval(&text),
    }
}

/// A ratio as text, which has its interval in it if it has one.
pub(super) fn ratio_words(text: &str) -> String {
    if text.contains('[') || text == NO_FIGURE { text.to_owned() } else { without_interval(text) }
}

fn without_interval(text: &str) -> String {
    format!("{text}, no interval")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_stats::{BlockValue, Interval};

    #[test]
    fn a_figure_has_its_interval_or_says_that_it_has_none() {
        let mut estimate = Estimate {
            arm: "a".into(),
            values: vec![BlockValue { block: 0, trial: 0, value: 400.0 }],
            at_least: Vec::new(),
            mean: 400.0,
            geometric_mean: Some(400.0),
            interval: Some(Interval { low: 390.0, high: 410.0 }),
        };
        assert_eq!(estimate_text(&estimate, "us"), "400 \u{b5}s [390, 410]");
        estimate.at_least.push(0);
        estimate.interval = None;
        assert_eq!(estimate_text(&estimate, "us"), ">=400 \u{b5}s, no interval");
        assert_eq!(ratio_words("0.87 [0.85, 0.89]"), "0.87 [0.85, 0.89]");
        assert_eq!(ratio_words("0.87"), "0.87, no interval");
        assert_eq!(ratio_words(NO_FIGURE), NO_FIGURE);
    }
}
