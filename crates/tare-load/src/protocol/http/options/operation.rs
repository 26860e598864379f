//! Reads operations: scripts of requests, or single requests in a list.

use super::Defaults;
use super::request::{Request, read_request, read_requests};
use crate::script::Names;
use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, Problems};

/// More operations than any mix has.
const OPERATIONS_MAX: usize = 1000;

/// Requests that are sent one after the other and timed as one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Operation {
    /// Its name in the record.
    pub name: String,
    /// How often it is drawn, relative to the others' weights.
    pub weight: u64,
    /// Whether its answer comes when there is news rather than on request, as that of a long poll does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lingers: bool,
    /// The requests, in order; at least one.
    pub requests: Vec<Request>,
}

/// Reads `operations:`, a map from names to scripts. A script of one request needs no `requests:`.
pub(super) fn read_operations(
    node: &Node,
    defaults: &Defaults,
    names: &Names,
    problems: &mut Problems,
) -> Vec<Operation> {
    let Some(fields) = Fields::of(node, "operations", problems) else { return Vec::new() };
    check_count(node, fields.entries().len(), problems);
    let mut operations = Vec::new();
    for (name, place, node) in fields.entries() {
        if name.is_empty() {
            problems.add(*place, "an operation needs a name", "");
        }
        let Some(mut fields) = Fields::of(node, format!("operation '{name}'"), problems) else { continue };
        let weight = read_weight(&mut fields, problems);
        let lingers = fields.boolean("lingers", problems).unwrap_or(false);
        let requests = match fields.get("requests") {
            Some(list) => read_requests(list, defaults, names, problems),
            None => read_request(&mut fields, defaults, names, problems).into_iter().collect(),
        };
        fields.finish(problems);
        if let Some(first) = requests.first().filter(|request| request.is_conditional()) {
            let message = format!("the first request of operation '{name}' ({}) depends on something", first.name);
            problems.add(*place, message, "put one before it that is always sent, or weigh the operation instead");
        }
        operations.push(Operation { name: name.clone(), weight, lingers, requests });
    }
    operations
}

/// Reads `requests:`, a list; each is an operation by itself.
pub(super) fn read_list(node: &Node, defaults: &Defaults, names: &Names, problems: &mut Problems) -> Vec<Operation> {
    let Some(items) = node.items(problems) else { return Vec::new() };
    check_count(node, items.len(), problems);
    let mut operations: Vec<Operation> = Vec::new();
    for item in items {
        let Some(mut fields) = Fields::of(item, "a request", problems) else { continue };
        let weight = read_weight(&mut fields, problems);
        let lingers = fields.boolean("lingers", problems).unwrap_or(false);
        let request = read_request(&mut fields, defaults, names, problems);
        fields.finish(problems);
        let Some(request) = request else { continue };
        if request.is_conditional() {
            problems.add(item.place, "this request depends on something", "give it a 'weight' instead");
        }
        let name = request.name.clone();
        if operations.iter().any(|other| other.name == name) {
            problems.add(item.place, format!("there are two requests named '{name}'"), "give one a 'name'");
        }
        operations.push(Operation { name, weight, lingers, requests: vec![request] });
    }
    operations
}

fn read_weight(fields: &mut Fields<'_>, problems: &mut Problems) -> u64 {
    fields.integer("weight", 1..=1_000_000, problems).unwrap_or(1)
}

fn check_count(node: &Node, count: usize, problems: &mut Problems) {
    if count == 0 {
        problems.add(node.place, "there is no request", "add '- path: /'");
    }
    if count > OPERATIONS_MAX {
        problems.add(node.place, format!("{count} are too many"), format!("at most {OPERATIONS_MAX}"));
    }
}
