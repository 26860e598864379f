//! A series of records of one study: a form's ratio from record to record, and what changed where it changed.

use super::detect::{ChangePoint, change_points};
use super::segments::{Segment, segments};
use crate::compare::{Difference, differences};
use crate::condition::Conditions;
use crate::interval::Interval;
use serde::Serialize;
use std::ops::RangeInclusive;

/// How many records around a change point are searched for what else changed: its place is known to about so many.
const AROUND: usize = 2;

/// A form's ratio in one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesPoint {
    /// The record's run.
    pub run: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// The ratio to the record's own baseline.
    pub ratio: f64,
    /// Its interval.
    pub interval: Option<Interval>,
    /// What the record was made under ([`crate::conditions`]).
    #[serde(skip)]
    pub conditions: Conditions,
}

/// The records of one study, oldest first, by one form and metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The study's name.
    pub study: String,
    /// The workload's name.
    pub workload: String,
    /// The form to which ratios are.
    pub baseline: String,
    /// The form.
    pub form: String,
    /// The metric's name.
    pub metric: String,
    /// The records; those whose ratio has no interval are no part of a series.
    pub points: Vec<SeriesPoint>,
    /// Where the ratio changed.
    pub changes: Vec<SeriesChange>,
}

/// A change of the ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeriesChange {
    /// Where, by how much, how surely.
    #[serde(flatten)]
    pub point: ChangePoint,
    /// The run from which on the ratio is another one.
    pub run: String,
    /// The ratio afterwards over the ratio before.
    pub ratio: f64,
    /// What else changed there, between that run and the one before it.
    pub here: Vec<Difference>,
    /// What else changed up to two records earlier or later.
    pub near: Vec<Difference>,
}

impl Series {
    /// Finds the change points of `points` and what changed there. `names`: study, workload, baseline, form, metric.
    pub fn new(names: [&str; 5], points: Vec<SeriesPoint>) -> Series {
        let found = change_points(&logs(&points));
        Series::of_changes(names, points, &found)
    }

    /// The same where the change points have been found. Of the points' conditions, only those of
    /// [`ChangePoint::neighbours`] are looked at.
    pub fn of_changes(names: [&str; 5], points: Vec<SeriesPoint>, found: &[ChangePoint]) -> Series {
        let changes = found.iter().map(|point| explain(*point, &points)).collect();
        let [study, workload, baseline, form, metric] = names.map(str::to_owned);
        Series { study, workload, baseline, form, metric, points, changes }
    }

    /// What the ratio was between its changes, oldest first.
    pub fn segments(&self) -> Vec<Segment> {
        let starts: Vec<usize> = self.changes.iter().map(|change| change.point.at).collect();
        segments(&logs(&self.points), &starts)
    }
}

impl ChangePoint {
    /// The records that say what else changed here, by their places in a series of `count`.
    pub fn neighbours(&self, count: usize) -> RangeInclusive<usize> {
        self.at.saturating_sub(AROUND + 1)..=(self.at + AROUND).min(count.saturating_sub(1))
    }
}

fn logs(points: &[SeriesPoint]) -> Vec<f64> {
    points.iter().map(|point| point.ratio.ln()).collect()
}

fn explain(point: ChangePoint, points: &[SeriesPoint]) -> SeriesChange {
    let step = |at: usize| differences(&points[at - 1].conditions, &points[at].conditions);
    let first = point.at.saturating_sub(AROUND).max(1);
    let last = (point.at + AROUND).min(points.len() - 1);
    SeriesChange {
        point,
        run: points[point.at].run.clone(),
        ratio: point.shift.exp(),
        here: step(point.at),
        near: (first..=last).filter(|at| *at != point.at).flat_map(step).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;

    fn point(n: usize, ratio: f64, kernel: &str) -> SeriesPoint {
        SeriesPoint {
            run: format!("r{n:02}"),
            started: format!("2026-01-{:02}T03:00:00Z", n + 1),
            ratio,
            interval: None,
            conditions: [(Condition::Environment("kernel".to_owned()), kernel.to_owned())].into(),
        }
    }

    #[test]
    fn a_change_names_the_run_and_what_else_changed_there() {
        let wobble = |n: usize| 1.0 + 0.002 * ((n * 7) % 5) as f64 / 5.0;
        let ratio = |n: usize| if n < 14 { 0.9 } else { 0.87 } * wobble(n);
        let kernel = |n: usize| if n < 14 { "6.1" } else { "6.12" };
        let points = (0..24).map(|n| point(n, ratio(n), kernel(n))).collect();
        let series = Series::new(["s", "w", "plain", "box", "throughput"], points);
        let [change] = series.changes.as_slice() else { panic!("{:?}", series.changes) };
        assert_eq!(change.run, "r14");
        assert!((change.ratio / (0.87 / 0.9) - 1.0).abs() < 0.002, "{}", change.ratio);
        let [difference] = change.here.as_slice() else { panic!("{:?}", change.here) };
        assert_eq!(difference.condition, Condition::Environment("kernel".to_owned()));
        assert_eq!((difference.before.as_deref(), difference.after.as_deref()), (Some("6.1"), Some("6.12")));
        assert_eq!(change.near, []);
        let [before, after] = series.segments()[..] else { panic!("{:?}", series.segments()) };
        assert_eq!((before.first, before.last, after.first, after.last), (0, 13, 14, 23));
        assert!((after.ratio / before.ratio - 0.87 / 0.9).abs() < 0.001, "{before:?} {after:?}");
    }

    #[test]
    fn conditions_beside_its_neighbours_do_not_matter_to_a_change() {
        let kernel = |n: usize| if n < 14 { "6.1" } else { "6.12" };
        let points: Vec<SeriesPoint> = (0..24).map(|n| point(n, if n < 14 { 0.9 } else { 0.8 }, kernel(n))).collect();
        let names = ["s", "w", "plain", "box", "throughput"];
        let whole = Series::new(names, points.clone());
        let found: Vec<ChangePoint> = whole.changes.iter().map(|change| change.point).collect();
        assert_eq!(found[0].neighbours(points.len()), 11..=16);
        let mut bare = points;
        let known = found[0].neighbours(bare.len());
        bare.iter_mut()
            .enumerate()
            .filter(|(at, _)| !known.contains(at))
            .for_each(|(_, point)| point.conditions.clear());
        assert_eq!(Series::of_changes(names, bare, &found).changes, whole.changes);
    }
}
