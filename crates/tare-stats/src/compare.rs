//! Two records side by side: whether a form's cost changed from one run to the other, and what else did.

use crate::analysis::{Analysis, Interval, Ratio};
use crate::quantile::student_quantile;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use tare_core::record::Header;

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
    /// Standard error of the change's log.
    pub standard_error: Option<f64>,
    /// Its degrees of freedom, by Satterthwaite.
    pub degrees: Option<f64>,
}

/// The changes of every form and compared metric that both analyses have a ratio of, in the order of `before`.
pub fn changes(before: &Analysis, after: &Analysis) -> Vec<Change> {
    let mut changes = Vec::new();
    for metric in before.metrics.iter().filter(|metric| metric.compared) {
        let Some(other) = after.metrics.iter().find(|other| other.name == metric.name) else { continue };
        for first in &metric.ratios {
            let Some(second) = other.ratios.iter().find(|second| second.arm == first.arm) else { continue };
            let log = second.ratio.ln() - first.ratio.ln();
            let error = welch(first, second);
            let half = error.map(|(error, degrees)| {
                // Two runs without any noise differ for certain.
                if error == 0.0 { 0.0 } else { student_quantile(0.975, degrees) * error }
            });
            changes.push(Change {
                form: first.arm.clone(),
                metric: metric.name.clone(),
                title: metric.title.clone(),
                before: first.clone(),
                after: second.clone(),
                change: log.exp(),
                interval: half.map(|half| Interval { low: (log - half).exp(), high: (log + half).exp() }),
                standard_error: error.map(|(error, _)| error),
                degrees: error.map(|(_, degrees)| degrees),
            });
        }
    }
    changes
}

/// Welch and Satterthwaite: the standard error of a difference of independent means, and its degrees of freedom. None
/// when either has no interval: then its standard error makes no claim.
fn welch(a: &Ratio, b: &Ratio) -> Option<(f64, f64)> {
    a.interval.and(b.interval)?;
    let (va, vb) = (a.standard_error?.powi(2), b.standard_error?.powi(2));
    let variance = va + vb;
    let degrees = variance.powi(2) / (va.powi(2) / a.degrees? + vb.powi(2) / b.degrees?);
    Some((variance.sqrt(), if degrees.is_finite() { degrees } else { a.degrees? + b.degrees? }))
}

/// Facts that always differ and mean nothing.
const FLEETING: &[&str] = &["uptime_s", "load_average"];

/// As JSON, plain texts without quotes.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default().trim_matches('"').to_owned()
}

/// What a record was made under, and so may explain why it differs from another: software, hardware, load, forms.
pub fn conditions(header: &Header) -> BTreeMap<String, String> {
    let study = &header.study;
    let mut all: BTreeMap<String, String> = [
        ("the workload", header.workload.name.clone()),
        ("the baseline", study.baseline.clone()),
        ("the load", json(&study.load)),
        ("the load's origin", json(&study.from)),
        ("the version of Tare", header.tare.clone()),
    ]
    .map(|(what, value)| (what.to_owned(), value))
    .into();
    for (what, facts) in
        [("bundle", &header.bundles), ("environment", &header.environment), ("placement", &header.placement)]
    {
        let lasting = facts.iter().filter(|(key, _)| !FLEETING.contains(&key.as_str()));
        all.extend(lasting.map(|(key, value)| (format!("{what} {key}"), value.clone())));
    }
    for form in &study.forms {
        all.insert(format!("form {}", form.name), json(&form.layers));
        let facts = header.forms.get(&form.name).into_iter().flat_map(|state| &state.facts);
        all.extend(facts.map(|(key, value)| (format!("form {}, {key}", form.name), value.clone())));
    }
    all
}

/// Something that differs between two records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What.
    pub what: String,
    /// What it was in the first; "absent" when it was not there.
    pub before: String,
    /// What it is in the second.
    pub after: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} | {}", self.what, self.before, self.after)
    }
}

/// What differs between two lists of conditions. A form that only one of the records had differs in nothing else.
pub fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Difference> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let lone = |key: &str| {
        let form = key.strip_prefix("form ").and_then(|rest| rest.split(", ").next());
        form.is_some_and(|form| {
            let form = format!("form {form}");
            before.contains_key(&form) != after.contains_key(&form)
        })
    };
    let value = |of: &BTreeMap<String, String>, key: &str| of.get(key).cloned().unwrap_or_else(|| "absent".to_owned());
    let found = keys.into_iter().filter(|key| before.get(*key) != after.get(*key) && !lone(key));
    found.map(|key| Difference { what: key.clone(), before: value(before, key), after: value(after, key) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Verdict;
    use crate::family::tests::Noise;
    use crate::paired::sd;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn ratio(values: &[f64]) -> Ratio {
        let n = values.len() as f64;
        Ratio {
            arm: "box".into(),
            blocks: (0..values.len() as u32).collect(),
            ratio: (values.iter().sum::<f64>() / n).exp(),
            interval: Some(Interval { low: 0.0, high: 2.0 }),
            standard_error: Some(sd(values).unwrap() / n.sqrt()),
            degrees: Some(n - 1.0),
            hodges_lehmann: 1.0,
            sensitive: false,
            smallest_detectable: None,
            equivalent: None,
            blocks_needed: None,
            verdict: Verdict::NoDifference,
            words: String::new(),
        }
    }

    // 2000 pairs of runs at 95 % have a standard error of 0.5 %.
    #[test]
    fn intervals_of_a_change_hold_the_truth_also_when_runs_differ_in_length_and_noise() {
        const PAIRS: u32 = 2_000;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(31));
        for (blocks, spread) in [((5, 5), (0.01, 0.01)), ((4, 16), (0.02, 0.005)), ((12, 5), (0.003, 0.02))] {
            let mut held = 0;
            for _ in 0..PAIRS {
                let mut run = |blocks: u32, spread: f64, truth: f64| -> Vec<f64> {
                    (0..blocks).map(|_| truth + spread * noise.normal()).collect()
                };
                let before = ratio(&run(blocks.0, spread.0, -0.1));
                let after = ratio(&run(blocks.1, spread.1, -0.13));
                let (error, degrees) = welch(&before, &after).unwrap();
                let off = after.ratio.ln() - before.ratio.ln() + 0.03;
                held += u32::from(off.abs() <= student_quantile(0.975, degrees) * error);
            }
            let share = f64::from(held) / f64::from(PAIRS);
            assert!((0.93..=0.975).contains(&share), "{blocks:?} blocks, noise {spread:?}: {share}");
        }
    }

    #[test]
    fn what_differs_is_named_and_lone_forms_are_not() {
        let conditions = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(what, value)| ((*what).to_owned(), (*value).to_owned())).collect()
        };
        let before =
            conditions(&[("environment kernel", "6.1"), ("form box", "[]"), ("form box, engine.version", "26")]);
        let after = conditions(&[("environment kernel", "6.12"), ("bundle redis", "sha256:1")]);
        let found: Vec<String> = differences(&before, &after).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["bundle redis: absent | sha256:1", "environment kernel: 6.1 | 6.12"]);
    }
}
