//! What failed of each form's operations, in words.

use crate::quantity::{difference_text, plain_quantity};
use crate::words;
use tare_core::units::grouped;
use tare_stats::{AbsoluteDifference, Analysis, FailedShare, Interval};

/// Ways of failing that are named.
const KINDS_SHOWN: usize = 3;

/// A line for each arm, where anything failed, and for each figure that is only known by what it is at least.
pub(crate) fn lines(analysis: &Analysis) -> Vec<(String, bool)> {
    let more = |row: &FailedShare| row.more.is_some_and(|more| more.is_certain() && more.difference > 0.0);
    let rows = analysis.failed.iter().map(|row| (share(analysis, row), more(row) || !row.ended.is_empty()));
    rows.chain(analysis.arms.iter().flat_map(|arm| bounds(analysis, &arm.name)).map(|line| (line, true))).collect()
}

/// `box: 2.3 % [1.9, 2.7] of 1,230,000 (timed out 812, connection reset 3), +2.3 points [1.9, 2.7] to plain`.
fn share(analysis: &Analysis, row: &FailedShare) -> String {
    let FailedShare { arm, operations, kinds, share, interval, more, ended, .. } = row;
    let all = grouped(*operations as f64);
    let mut text = if *share > 0.0 {
        let percent = percent(*share, *interval, "%");
        let percent = percent.trim_start_matches('+');
        let named: Vec<String> = kinds.iter().take(KINDS_SHOWN).map(|(kind, n)| format!("{kind} {n}")).collect();
        let others = if kinds.len() > KINDS_SHOWN { ", ..." } else { "" };
        format!("{arm}: {percent} of {all} ({}{others})", named.join(", "))
    } else {
        format!("{arm}: none of {all}")
    };
    if let Some(more) = more.filter(|more| more.difference != 0.0) {
        let points = percent(more.difference, more.interval, "points");
        text += &format!(", {points} to {}", analysis.baseline);
    }
    if !ended.is_empty() {
        let of = ended.len() + analysis.arms.iter().find(|a| a.name == *arm).map_or(0, |a| a.measured as usize);
        text += &format!("; a service exited in {} of {of} trials, which are in no figure", ended.len());
    }
    text
}

fn percent(share: f64, interval: Option<Interval>, unit: &str) -> String {
    let percent = |share: f64| share * 100.0;
    let interval = interval.map(|Interval { low, high }| Interval { low: percent(low), high: percent(high) });
    difference_text(&AbsoluteDifference { value: percent(share), interval }, unit)
}

/// `box: in 3 of 5 trials the p99 falls on a failed operation: at least 812 us`.
fn bounds(analysis: &Analysis, arm: &str) -> Vec<String> {
    let line = |metric: &tare_stats::MetricAnalysis| {
        let estimate = metric.estimates.iter().find(|estimate| estimate.arm == arm)?;
        let (few, all) = (estimate.at_least.len(), estimate.values.len());
        let value = plain_quantity(estimate.geometric_mean.unwrap_or(estimate.mean), &metric.unit);
        let title = &metric.title;
        let text = format!("{arm}: in {few} of {all} trials the {title} falls on a failed operation: at least {value}");
        (few > 0).then_some(text)
    };
    words::compared(analysis).filter_map(line).collect()
}
