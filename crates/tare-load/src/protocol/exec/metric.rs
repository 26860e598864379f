//! A tool's own metrics: figures that other trials do not have, such as GFLOP/s.

use super::parser::Parser;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use tare_core::config::{Fields, Node, Place, Problems};
use tare_core::fault::Fault;
use tare_core::load::OwnMetric;
use tare_core::record::TRIAL_METRICS;

/// A metric, and its place in the tool's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Metric {
    /// Its definition, as in a record and a report.
    #[serde(flatten)]
    pub own: OwnMetric,
    /// A pointer (RFC 6901) into the JSON that the tool prints.
    pub at: String,
}

/// Reads `metrics:`, by name in the order of the file.
pub(super) fn read(node: &Node, parser: Option<&Parser>, problems: &mut Problems) -> Vec<Metric> {
    let Some(fields) = Fields::of(node, "metrics", problems) else { return Vec::new() };
    if let Some(Parser::Regex(_) | Parser::Csv(_) | Parser::Jmeter) = parser {
        let hint = "let the tool print JSON, or use the figures that every trial has";
        problems.add(node.place, "a tool's own metrics are read from JSON, and this parser reads none", hint);
    }
    let entries = fields.entries().iter();
    entries.filter_map(|(name, place, node)| read_one(name, *place, node, parser, problems)).collect()
}

fn read_one(name: &str, place: Place, node: &Node, parser: Option<&Parser>, problems: &mut Problems) -> Option<Metric> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        problems.add(place, format!("'{name}' cannot name a metric"), "use a-z, 0-9 and '_'");
    } else if TRIAL_METRICS.iter().any(|known| known.name == name) {
        problems.add(place, format!("every trial has a metric '{name}'"), "choose another name");
    }
    let mut fields = Fields::of(node, format!("metric '{name}'"), problems)?;
    let title = fields.text("title", problems).unwrap_or_else(|| name.to_owned());
    let unit = fields.require_text("unit", problems);
    let better = fields.require("better", problems).and_then(|node| node.choice(&["more", "less"], problems));
    let at_node = fields.get("at");
    let at = match (at_node, parser) {
        (Some(node), _) => node.text(problems),
        (None, Some(Parser::Tare)) => Some(format!("/metrics/{name}")),
        (None, _) => {
            problems.add(place, format!("nothing says where '{name}' stands in the result"), "add 'at: /a/b'");
            None
        }
    };
    if let (Some(at), Some(node)) = (at.as_ref().filter(|at| !at.starts_with('/')), at_node) {
        problems.add(node.place, format!("'{at}' is no JSON pointer"), "write /a/b for {\"a\": {\"b\": 1}}");
    }
    fields.finish(problems);
    let own = OwnMetric { name: name.to_owned(), title, unit: unit?, more_is_better: better? == "more" };
    Some(Metric { own, at: at? })
}

/// The values of `metrics` in a tool's result.
///
/// # Errors
/// When one is missing or is not a positive number, so that no ratio could be made of it.
pub(super) fn values(metrics: &[Metric], document: &Value) -> Result<BTreeMap<String, f64>, Fault> {
    let value = |metric: &Metric| {
        let found = document.pointer(&metric.at);
        let number = found.and_then(Value::as_f64).filter(|number| number.is_finite() && *number > 0.0);
        let name = metric.own.name.clone();
        let seen = found.map_or_else(|| "nothing".to_owned(), Value::to_string);
        let at = &metric.at;
        number.map(|number| (name.clone(), number)).ok_or_else(|| {
            Fault::new(format!("metric '{name}' should stand at {at} of the tool's result: {seen} does"))
        })
    };
    metrics.iter().map(value).collect()
}
