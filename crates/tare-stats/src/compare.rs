//! Two records side by side: whether a form's cost changed from one run to the other.

use crate::analysis::{Analysis, Interval, Ratio};
use crate::quantile::student_quantile;
use serde::Serialize;

/// How a form's ratio to its own baseline changed between two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The form.
    pub form: String,
    /// The metric's name.
    pub metric: String,
    /// The metric's title.
    pub title: String,
    /// The ratio in the first run.
    pub before: Ratio,
    /// The ratio in the second run.
    pub after: Ratio,
    /// The second ratio over the first.
    pub change: f64,
    /// Its 95 % interval (Welch: the two runs are independent), for this pair alone. None if either run had none.
    pub interval: Option<Interval>,
}

/// The changes of every form and compared metric that both analyses have a ratio of, in the order of `before`.
pub fn changes(before: &Analysis, after: &Analysis) -> Vec<Change> {
    let mut changes = Vec::new();
    for metric in before.metrics.iter().filter(|metric| metric.compared) {
        let Some(other) = after.metrics.iter().find(|other| other.name == metric.name) else { continue };
        for first in &metric.ratios {
            let Some(second) = other.ratios.iter().find(|second| second.arm == first.arm) else { continue };
            let log = second.ratio.ln() - first.ratio.ln();
            let half = half_width(first, second);
            changes.push(Change {
                form: first.arm.clone(),
                metric: metric.name.clone(),
                title: metric.title.clone(),
                before: first.clone(),
                after: second.clone(),
                change: log.exp(),
                interval: half.map(|half| Interval { low: (log - half).exp(), high: (log + half).exp() }),
            });
        }
    }
    changes
}

/// Welch and Satterthwaite.
fn half_width(a: &Ratio, b: &Ratio) -> Option<f64> {
    let (va, vb) = (a.standard_error?.powi(2), b.standard_error?.powi(2));
    let variance = va + vb;
    if variance == 0.0 {
        return Some(0.0);
    }
    let degrees = variance.powi(2) / (va.powi(2) / a.degrees? + vb.powi(2) / b.degrees?);
    Some(student_quantile(0.975, degrees) * variance.sqrt())
}
