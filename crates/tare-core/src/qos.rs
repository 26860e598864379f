//! The quality of service: what a trial's figures must keep.

use crate::config::{Fields, Node, NodeKind, Problems};
use crate::units::{exact_duration, exact_percent};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Stands for every operation not named.
pub const EVERY_OPERATION: &str = "*";

/// What a QoS says about all operations together.
const WORDS: [&str; 3] = ["failures", "achieved", "mix"];

/// What a trial's figures must keep: every part of it, for every operation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Qos {
    /// By operation, or [`EVERY_OPERATION`]: the limits on its response times. An empty list means that it has none at
    /// all.
    pub operations: BTreeMap<String, Vec<QuantileLimit>>,
    /// The share of operations that may fail; failed ones also count as late.
    #[serde(default)]
    pub failures: Option<f64>,
    /// The share of the offered operations that must be answered.
    #[serde(default)]
    pub achieved: Option<f64>,
    /// By how much, relatively, an operation's share of the answers may differ from its share of the requests.
    #[serde(default)]
    pub mix: Option<f64>,
    /// By operation: the share of all answers that it must have, over a whole trial.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, Share>,
}

/// The share of all answers that an operation must have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The share, of 1.
    pub of: f64,
    /// By how much it may deviate, relative to itself.
    pub within: f64,
}

impl Share {
    /// `2.35 % give or take 20 %`.
    pub fn describe(&self) -> String {
        format!("{} give or take {}", percent(self.of), percent(self.within))
    }

    /// Whether this many answers out of that many deviate by more than it allows and chance explains: three standard
    /// deviations of a binomial count, since a short trial holds few answers of a rare operation.
    pub fn broken_by(&self, count: u64, all: u64) -> bool {
        let (count, all) = (count as f64, all as f64);
        let expected = all * self.of;
        (count - expected).abs() > expected * self.within + 3.0 * (expected * (1.0 - self.of)).sqrt()
    }
}

/// A quantile of the response times, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantileLimit {
    /// The quantile, such as 0.99.
    pub quantile: f64,
    /// The most it may be.
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
        format!("p{} within {}", exact_percent(self.quantile), exact_duration(self.within))
    }
}

impl Qos {
    /// The limits of an operation: its own, otherwise those for every operation.
    pub fn limits(&self, operation: &str) -> &[QuantileLimit] {
        let own = self.operations.get(operation).or_else(|| self.operations.get(EVERY_OPERATION));
        own.map_or(&[], Vec::as_slice)
    }

    /// By operation: the limit of its highest quantile, for a load process that counts operations above it.
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
            if limits.is_empty() {
                parts.push(format!("{name} without a limit"));
            }
        }
        parts.extend(self.failures.map(|share| format!("failures at most {}", percent(share))));
        parts.extend(self.achieved.map(|share| format!("at least {} of what is offered answered", percent(share))));
        parts.extend(self.mix.map(|share| format!("the mix kept to {}", percent(share))));
        parts.extend(self.shares.iter().map(|(name, share)| format!("{name} {} of all", share.describe())));
        parts.join(", ")
    }

    /// Reads `qos_sets:` of a workload: a QoS by name.
    pub(crate) fn read_sets(node: &Node, operations: &[String], problems: &mut Problems) -> BTreeMap<String, Qos> {
        let Some(fields) = Fields::of(node, "qos_sets", problems) else { return BTreeMap::new() };
        let read = fields.entries().iter();
        read.filter_map(|(name, _, node)| Some((name.clone(), Qos::read(node, operations, problems)?))).collect()
    }

    /// Reads `qos:` of a study: the name of one of the workload's QoS, or what [`Qos::read`] reads.
    pub(crate) fn read_named(
        node: &Node,
        sets: Option<&BTreeMap<String, Qos>>,
        operations: &[String],
        problems: &mut Problems,
    ) -> Option<Qos> {
        let NodeKind::Scalar { .. } = node.kind else { return Qos::read(node, operations, problems) };
        let name = node.text(problems)?;
        let found = sets?.get(&name).cloned();
        if found.is_none() {
            let known: Vec<&str> = sets?.keys().map(String::as_str).collect();
            Node::unknown(&name, node.place, "QoS of the workload", &known, problems);
        }
        found
    }

    /// Reads `qos:`. Names of operations are checked against `operations`, unless that is empty because they are not
    /// known. `None` when anything is wrong; then at least one problem was added.
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
            if WORDS.contains(&name.as_str()) {
                continue;
            }
            if name != EVERY_OPERATION && !operations.is_empty() && !operations.contains(name) {
                let mut known: Vec<&str> = operations.iter().map(String::as_str).collect();
                known.extend(WORDS.into_iter().chain([EVERY_OPERATION]));
                Node::unknown(name, *place, "operation", &known, problems);
            }
            let (limits, share) = read_limits(name, value, problems);
            qos.operations.extend(limits.map(|limits| (name.clone(), limits)));
            qos.shares.extend(share.map(|share| (name.clone(), share)));
        }
        if qos == Qos::default() {
            problems.add(node.place, "a QoS without any limit", "write for example \"*\": {p99: 10ms}");
        }
        (problems.len() == before).then_some(qos)
    }
}

/// The limits of an operation, none if those for every operation apply, and the share that it must have. `any` means no
/// limit at all.
fn read_limits(name: &str, node: &Node, problems: &mut Problems) -> (Option<Vec<QuantileLimit>>, Option<Share>) {
    if is_any(node) {
        return (Some(Vec::new()), None);
    }
    let Some(mut fields) = Fields::of(node, format!("the QoS of '{name}'"), problems) else { return (None, None) };
    let share_node = fields.get("share").filter(|_| name != EVERY_OPERATION);
    let share = share_node.and_then(|node| read_share(node, problems));
    let mut limits = Vec::new();
    let limited = |key: &str| share_node.is_none() || key != "share";
    for (key, place, value) in fields.entries().iter().filter(|(key, ..)| limited(key)) {
        let percent = key.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
        let Some(percent) = percent.filter(|percent| (1.0..100.0).contains(percent)) else {
            problems.add(*place, format!("'{key}' names no percentile"), "write for example p99 or p99.9");
            continue;
        };
        if is_any(value) {
            return (Some(Vec::new()), share);
        }
        let Some(within) = value.duration(problems) else { continue };
        if within.is_zero() {
            problems.add(value.place, "no operation can be answered within 0 s", "write for example 10ms");
        }
        limits.push(QuantileLimit { quantile: percent / 100.0, within });
    }
    if limits.is_empty() && share_node.is_none() {
        problems.add(node.place, format!("'{name}' has no limit"), "write for example {p99: 10ms}, or any");
    }
    ((!limits.is_empty()).then_some(limits), share)
}

fn is_any(node: &Node) -> bool {
    matches!(&node.kind, NodeKind::Scalar { text, .. } if text == "any")
}

/// `{of: 2.35%, within: 20%}`.
fn read_share(node: &Node, problems: &mut Problems) -> Option<Share> {
    let mut fields = Fields::of(node, "a share of all answers", problems)?;
    let part = |name, fields: &mut Fields<'_>, problems: &mut Problems| {
        let node = fields.require(name, problems)?;
        let part = node.percent(problems)?;
        if !(part > 0.0 && part <= 1.0) {
            problems.add(node.place, "this share can never be kept, or never broken", "above 0 %, at most 100 %");
        }
        Some(part)
    };
    let (of, within) = (part("of", &mut fields, problems), part("within", &mut fields, problems));
    fields.finish(problems);
    Some(Share { of: of?, within: within? })
}

/// A share in percent, as stated.
fn percent(share: f64) -> String {
    format!("{} %", exact_percent(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, parse};

    fn read(text: &str) -> Result<Qos, String> {
        let operations = ["get".to_owned(), "set".to_owned()];
        let read = config::read("w.yaml", text, |node, problems| Qos::read(node, &operations, problems));
        read.map_err(|told| told.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
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
    fn what_differs_by_a_millionth_differs_in_words() {
        let words = |text: &str| read(text).unwrap().describe();
        assert_eq!(words("{get: {p99.99991: 5ms}}"), "get p99.99991 within 5 ms");
        assert_eq!(words("{get: {p99: 5.000001ms}}"), "get p99 within 5.000001 ms");
        assert_eq!(words("{failures: 0.100001%}"), "failures at most 0.100001 %");
        let shared = words("{get: {share: {of: 2.350001%, within: 20%}}}");
        assert_eq!(shared, "get 2.350001 % give or take 20 % of all");
    }

    #[test]
    fn an_operation_may_have_no_limit_and_must_have_its_share() {
        let text = "{\"*\": {p99: 1s}, get: {p99: any, share: {of: 2.5%, within: 20%}}, \
                    set: {share: {of: 97.5%, within: 1%}}}";
        let qos = read(text).unwrap();
        assert!(qos.limits("get").is_empty() && qos.limits("set").len() == 1, "only one of them asked for none");
        assert_eq!(qos.longest().keys().collect::<Vec<_>>(), ["*"]);
        let words = qos.describe();
        assert!(words.contains("get without a limit"), "{words}");
        assert!(words.contains("get 2.5 % give or take 20 % of all"), "{words}");
        assert_eq!(read("{get: any, set: {p99: 1s}}").unwrap().limits("get"), []);
        let found = read("{get: {share: {of: 0%, within: 20%}}, \"*\": {share: {of: 1%, within: 1%}}}").unwrap_err();
        assert!(found.contains("can never be kept") && found.contains("'share' names no percentile"), "{found}");
        assert!(read("{get: {share: {of: 1%}}}").unwrap_err().contains("add 'within:'"));
    }

    #[test]
    fn a_study_may_ask_for_it_by_name() {
        let mut problems = Problems::new("s.yaml", "");
        let mut node = |text: &str| parse(text, &mut problems).expect("it is YAML");
        let (sets, named, slip) = (node("{quick: {get: {p99: 1ms}}}"), node("quick"), node("quik"));
        let mut problems = Problems::new("s.yaml", "");
        let sets = Qos::read_sets(&sets, &["get".to_owned()], &mut problems);
        let found = Qos::read_named(&named, Some(&sets), &[], &mut problems);
        assert_eq!(found.as_ref(), sets.get("quick"));
        assert!(problems.is_empty() && found.is_some());
        assert_eq!(Qos::read_named(&slip, Some(&sets), &[], &mut problems), None);
        assert!(problems.into_vec()[0].to_string().contains("did you mean 'quick'"));
    }

    #[test]
    fn every_mistake_is_found_in_one_reading() {
        let found = read("{gett: {p99: 5ms}, set: {99: 5ms}, failures: 120%, achieved: 0%}").unwrap_err();
        for wanted in ["'get'", "'99' names no percentile", "'set' has no limit", "can never be kept"] {
            assert!(found.contains(wanted), "{wanted} is missing in:\n{found}");
        }
        assert!(read("{}").unwrap_err().contains("a QoS without any limit"));
    }
}
