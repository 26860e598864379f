//! The quality of service: what a trial's figures must keep.

use crate::config::{Fields, Node, Problems};
use crate::units::exact_duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Stands for every operation that is not named.
pub const EVERY_OPERATION: &str = "*";

/// What a trial's figures must keep. Every part of it, for every operation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Qos {
    /// By operation, or [`EVERY_OPERATION`]: its response times.
    pub operations: BTreeMap<String, Vec<QuantileLimit>>,
    /// The share of operations that may fail; they count as late as well.
    #[serde(default)]
    pub failures: Option<f64>,
    /// The share of what was offered that must be answered.
    #[serde(default)]
    pub achieved: Option<f64>,
    /// By how much, relatively, an operation's share of the answers may differ from its share of what was asked.
    #[serde(default)]
    pub mix: Option<f64>,
}

/// A quantile of the response times, and where it must lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantileLimit {
    /// Such as 0.99.
    pub quantile: f64,
    /// At most.
    pub within: Duration,
}

impl QuantileLimit {
    /// The share of operations that may take longer.
    pub fn allowed(&self) -> f64 {
        // 1 - 0.99 is 0.010000000000000009; nobody wants to read that.
        ((1.0 - self.quantile) * 1e9).round() / 1e9
    }

    /// `p99 within 5ms`.
    pub fn describe(&self) -> String {
        let percent = format!("{:.4}", self.quantile * 100.0);
        let percent = percent.trim_end_matches('0').trim_end_matches('.');
        format!("p{percent} within {}", exact_duration(self.within))
    }
}

impl Qos {
    /// The limits of an operation: its own, else those of every operation.
    pub fn limits(&self, operation: &str) -> &[QuantileLimit] {
        let own = self.operations.get(operation).or_else(|| self.operations.get(EVERY_OPERATION));
        own.map_or(&[], Vec::as_slice)
    }

    /// By operation: the limit of its highest quantile, for a load process that counts what takes longer.
    pub fn longest(&self) -> BTreeMap<String, Duration> {
        let highest = |limits: &Vec<QuantileLimit>| {
            limits.iter().max_by(|a, b| a.quantile.total_cmp(&b.quantile)).map(|limit| limit.within)
        };
        self.operations.iter().filter_map(|(name, limits)| Some((name.clone(), highest(limits)?))).collect()
    }

    /// In words: `get p99 within 5ms, failures at most 0.1 %`.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        for (name, limits) in &self.operations {
            let name = if name == EVERY_OPERATION { "every operation" } else { name };
            parts.extend(limits.iter().map(|limit| format!("{name} {}", limit.describe())));
        }
        let percent = |share: f64| format!("{} %", (share * 1e6).round() / 1e4);
        parts.extend(self.failures.map(|share| format!("failures at most {}", percent(share))));
        parts.extend(self.achieved.map(|share| format!("at least {} of what is offered answered", percent(share))));
        parts.extend(self.mix.map(|share| format!("the mix kept to {}", percent(share))));
        parts.join(", ")
    }

    /// Reads `qos:`. Names of operations are held against `operations`, unless that is empty because nobody knows them.
    /// `None` when anything is wrong; then at least one problem was added.
    pub fn read(node: &Node, operations: &[String], problems: &mut Problems) -> Option<Qos> {
        let before = problems.len();
        let mut fields = Fields::of(node, "qos", problems)?;
        let mut qos = Qos::default();
        let share = |node: &Node, problems: &mut Problems| {
            let share = node.percent(problems)?;
            if share > 0.0 && share < 1.0 || share == 1.0 {
                return Some(share);
            }
            problems.add(node.place, "this share can never be kept, or never broken", "above 0 %, at most 100 %");
            None
        };
        qos.failures = fields.get("failures").and_then(|node| share(node, problems));
        qos.achieved = fields.get("achieved").and_then(|node| share(node, problems));
        qos.mix = fields.get("mix").and_then(|node| share(node, problems));
        for (name, place, value) in fields.entries() {
            if ["failures", "achieved", "mix"].contains(&name.as_str()) {
                continue;
            }
            if name != EVERY_OPERATION && !operations.is_empty() && !operations.contains(name) {
                let mut known: Vec<&str> = operations.iter().map(String::as_str).collect();
                known.extend([EVERY_OPERATION, "failures", "achieved", "mix"]);
                Node::unknown(name, *place, "operation", &known, problems);
            }
            qos.operations.insert(name.clone(), read_limits(name, value, problems));
        }
        if qos == Qos::default() {
            problems.add(node.place, "a QoS that asks for nothing", "write for example \"*\": {p99: 10ms}");
        }
        (problems.len() == before).then_some(qos)
    }
}

fn read_limits(name: &str, node: &Node, problems: &mut Problems) -> Vec<QuantileLimit> {
    let Some(fields) = Fields::of(node, format!("the QoS of '{name}'"), problems) else { return Vec::new() };
    let mut limits = Vec::new();
    for (key, place, value) in fields.entries() {
        let percent = key.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
        let Some(percent) = percent.filter(|percent| (1.0..100.0).contains(percent)) else {
            problems.add(*place, format!("'{key}' names no percentile"), "write for example p99 or p99.9");
            continue;
        };
        let Some(within) = value.duration(problems) else { continue };
        if within.is_zero() {
            problems.add(value.place, "nothing is answered in no time", "write for example 10ms");
        }
        limits.push(QuantileLimit { quantile: percent / 100.0, within });
    }
    if limits.is_empty() {
        problems.add(node.place, format!("'{name}' has no limit"), "write for example {p99: 10ms}");
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn read(text: &str) -> Result<Qos, String> {
        let mut problems = Problems::new("w.yaml", text);
        let node = parse(text, &mut problems).expect("it is YAML");
        let operations = ["get".to_owned(), "set".to_owned()];
        let read = Qos::read(&node, &operations, &mut problems);
        read.ok_or_else(|| problems.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn a_qos_is_read_and_said_in_words() {
        let qos = read("{\"*\": {p99: 10ms}, get: {p99: 5ms, p50: 1ms}, failures: 0.1%, achieved: 99.5%}").unwrap();
        assert_eq!(qos.limits("set")[0].within, Duration::from_millis(10));
        assert_eq!(qos.limits("get").len(), 2);
        assert_eq!(qos.longest()["get"], Duration::from_millis(5));
        assert!((qos.limits("set")[0].allowed() - 0.01).abs() < 1e-12);
        let words = qos.describe();
        for wanted in ["every operation p99 within 10 ms", "get p50 within 1 ms", "failures at most 0.1 %", "99.5 %"] {
            assert!(words.contains(wanted), "{wanted} is missing in: {words}");
        }
    }

    #[test]
    fn limits_that_differ_differ_in_words() {
        let words = |limit: &str| read(&format!("{{get: {{p99: {limit}}}}}")).unwrap().describe();
        assert_eq!(words("500us"), "get p99 within 0.5 ms");
        assert_eq!(words("5ms"), "get p99 within 5 ms");
        assert_ne!(words("5ms"), words("5200us"));
        assert_ne!(words("10200ms"), words("10s"));
    }

    #[test]
    fn every_mistake_is_found_in_one_reading() {
        let found = read("{gett: {p99: 5ms}, set: {99: 5ms}, failures: 120%, achieved: 0%}").unwrap_err();
        for wanted in ["'get'", "'99' names no percentile", "'set' has no limit", "can never be kept"] {
            assert!(found.contains(wanted), "{wanted} is missing in:\n{found}");
        }
        assert!(read("{}").unwrap_err().contains("asks for nothing"));
    }
}
