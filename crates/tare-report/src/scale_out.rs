//! Several instances: how throughput scales with their number, and what each of them did.

use crate::quantity::plain_quantity;
use crate::verdict::{self, ratio_figure};
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::record::Record;
use tare_core::trial::Outcome;
use tare_stats::{Analysis, Grown, Growth, ScaleOut};

/// `2.11 [1.90, 2.34] times what one does with 2 times the instances (redis 2 for 1): efficiency 1.05 [0.95, 1.17]`.
fn sentence(row: &ScaleOut) -> String {
    let fairness = row.fairness.map_or_else(String::new, |fairness| format!(", fairness {fairness:.2}"));
    format!(
        "{}: {} times what {} does, with {} times the instances ({}): efficiency {}{fairness}",
        row.form,
        ratio_figure(row.bound, row.speed_up, row.speed_up_interval),
        row.against,
        row.times,
        what(&row.what),
        ratio_figure(row.bound, row.efficiency, row.efficiency_interval),
    )
}

/// What there is more of: `redis 8 for 1, guests 2 for 1`.
pub(crate) fn what(growth: &Growth) -> String {
    let services =
        growth.services.iter().map(|Grown { service, instances, of }| format!("{service} {instances} for {of}"));
    let guests = growth.guests.map(|(own, other)| format!("guests {own} for {other}"));
    services.chain(guests).collect::<Vec<_>>().join(", ")
}

/// A sentence for each form that has more instances than another one.
pub(crate) fn lines(analysis: &Analysis) -> Vec<String> {
    let emulated = |row: &ScaleOut| {
        let is = |name: &str| analysis.arms.iter().any(|arm| arm.name == name && arm.emulated.is_some());
        is(&row.form) || is(&row.against)
    };
    let line = |row: &ScaleOut| {
        let withheld = row.withheld.map(|why| format!(" (withheld: {})", verdict::withheld(why)));
        let bound = row.bound.map(|why| format!(" ({})", verdict::bound(why)));
        let why = withheld.or(bound).unwrap_or_default();
        format!("{}{why}{}", sentence(row), if emulated(row) { " (EMULATED)" } else { "" })
    };
    analysis.scale_out.iter().map(line).collect()
}

/// What one instance came to over the measured trials of a form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct InstanceRow {
    pub(crate) form: String,
    pub(crate) instance: String,
    /// Mean throughput, in words.
    pub(crate) throughput: String,
    /// Mean 99th percentile, in words; empty where it is not known.
    pub(crate) p99: String,
}

/// The instances that were loaded side by side, in the order of the study's forms.
pub(crate) fn instances(record: &Record, analysis: &Analysis) -> Vec<InstanceRow> {
    let throughput = analysis.metrics.iter().find(|metric| metric.name == "throughput");
    let unit = throughput.map_or("", |metric| &metric.unit);
    let mut rows = Vec::new();
    for form in &record.header.study.forms {
        let mut seen: BTreeMap<&str, Vec<&BTreeMap<String, f64>>> = BTreeMap::new();
        let trials = record.trials.iter().map(|trial| &trial.record);
        for trial in trials.filter(|trial| trial.trial.form == form.name && trial.outcome == Outcome::Measured) {
            for (instance, metrics) in &trial.instances {
                seen.entry(instance).or_default().push(metrics);
            }
        }
        for (instance, trials) in seen {
            let mean = |metric: &str, unit: &str| {
                let values: Vec<f64> = trials.iter().filter_map(|metrics| metrics.get(metric).copied()).collect();
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                if values.is_empty() { String::new() } else { plain_quantity(mean, unit) }
            };
            rows.push(InstanceRow {
                form: form.name.clone(),
                instance: instance.to_owned(),
                throughput: mean("throughput", unit),
                p99: mean("p99_us", "us"),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_stats::Interval;

    #[test]
    fn a_speed_up_is_told_with_what_it_is_over() {
        let mut row = ScaleOut {
            form: "eight".into(),
            against: "one".into(),
            what: Growth { services: vec![Grown { service: "redis".into(), instances: 8, of: 1 }], guests: None },
            times: 8.0,
            speed_up: 4.4,
            bound: None,
            speed_up_interval: Some(Interval { low: 4.0, high: 4.84 }),
            efficiency: 0.55,
            efficiency_interval: Some(Interval { low: 0.5, high: 0.605 }),
            withheld: None,
            fairness: None,
        };
        let told = "eight: 4.40 [4.00, 4.84] times what one does, with 8 times the instances (redis 8 for 1): efficiency \
                    0.55 [0.50, 0.60]";
        assert_eq!(sentence(&row), told);
        row.fairness = Some(0.973);
        assert_eq!(sentence(&row), format!("{told}, fairness 0.97"));
    }
}
