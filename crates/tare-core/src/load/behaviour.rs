//! Reads from YAML which operation users ask for next.

mod companions;

use super::{Behaviour, Branch, Condition, Followers};
use crate::config::{Fields, Node, NodeKind, Place, Problems};
use companions::read_companions;
use std::collections::BTreeMap;

/// Everything that a protocol's options and a workload name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpokenNames {
    /// Operations; none when they are not known.
    pub operations: Vec<String>,
    /// Values that operations capture or set, and draw.
    pub variables: Vec<String>,
    /// Behaviours that the workload has names for.
    pub behaviours: BTreeMap<String, Behaviour>,
}

/// Which operation a user asks for next.
pub(super) fn read_behaviour(node: &Node, names: &SpokenNames, problems: &mut Problems) -> Option<Behaviour> {
    if let NodeKind::Scalar { .. } = node.kind {
        let name = node.text(problems)?;
        if name == "mix" {
            return Some(Behaviour::Mix);
        }
        let found = names.behaviours.get(&name).cloned();
        if found.is_none() {
            let known: Vec<&str> = names.behaviours.keys().map(String::as_str).chain(["mix"]).collect();
            Node::unknown(&name, node.place, "behaviour of the workload", &known, problems);
        }
        return found;
    }
    let (kind, place, value) = node.kind("behaviour", problems)?;
    match kind {
        "sequence" => read_sequence(value, names, problems),
        "markov" => read_markov(value, names, problems),
        kind => {
            Node::unknown(kind, place, "kind of behaviour", &["mix", "sequence", "markov"], problems);
            None
        }
    }
}

/// Behaviours by name.
pub(crate) fn read_behaviours(
    node: &Node,
    names: &SpokenNames,
    problems: &mut Problems,
) -> BTreeMap<String, Behaviour> {
    let Some(fields) = Fields::of(node, "behaviours", problems) else { return BTreeMap::new() };
    let mut behaviours = BTreeMap::new();
    for (name, place, node) in fields.entries() {
        if name == "mix" {
            problems.add(*place, "'mix' is the name of the default behaviour", "give it another name");
        }
        behaviours.extend(read_behaviour(node, names, problems).map(|behaviour| (name.clone(), behaviour)));
    }
    behaviours
}

fn known(name: &str, place: Place, names: &SpokenNames, problems: &mut Problems) {
    let operations = &names.operations;
    if !operations.is_empty() && !operations.iter().any(|operation| operation == name) {
        let known: Vec<&str> = operations.iter().map(String::as_str).collect();
        Node::unknown(name, place, "operation", &known, problems);
    }
}

fn read_sequence(node: &Node, names: &SpokenNames, problems: &mut Problems) -> Option<Behaviour> {
    let items = node.items(problems)?;
    if items.is_empty() || items.len() > 10_000 {
        problems.add(node.place, format!("a sequence of {} operations", items.len()), "from 1 to 10000");
    }
    let mut sequence = Vec::new();
    for item in items {
        let Some(name) = item.text(problems) else { continue };
        known(&name, item.place, names, problems);
        sequence.push(name);
    }
    Some(Behaviour::Sequence(sequence))
}

fn read_markov(node: &Node, names: &SpokenNames, problems: &mut Problems) -> Option<Behaviour> {
    let mut fields = Fields::of(node, "behaviour 'markov'", problems)?;
    let companions = fields.get("companions");
    let restarts = fields.boolean("restarts", problems).unwrap_or(false);
    let companions = companions.map(|node| read_companions(node, names, problems)).unwrap_or_default();
    // The number of them that go on is a value of the user.
    let mut known = names.clone();
    known.variables.extend(companions.keys().cloned());
    let (start, next) = read_matrix(&mut fields, &known, false, problems)?;
    fields.finish(problems);
    Some(Behaviour::Markov { start, next, restarts, companions })
}

/// `start:` and `next:`. If an `end` is allowed, rows may lead there.
fn read_matrix(
    fields: &mut Fields<'_>,
    names: &SpokenNames,
    ends: bool,
    problems: &mut Problems,
) -> Option<(String, BTreeMap<String, Followers>)> {
    let start_node = fields.require("start", problems);
    let next_node = fields.require("next", problems);
    let rows = Fields::of(next_node?, "the operations that follow", problems)?;
    let leads: Vec<&str> = rows.entries().iter().map(|(name, ..)| name.as_str()).collect();
    let matrix = Matrix { names, leads, ends };
    let mut next = BTreeMap::new();
    for (name, place, node) in rows.entries() {
        known(name, *place, names, problems);
        let followers = match node.kind {
            NodeKind::List(_) => matrix.branches(name, node, problems).map(Followers::Fitting),
            _ => matrix.weights(name, node, problems).map(Followers::Weighted),
        };
        next.extend(followers.map(|followers| (name.clone(), followers)));
    }
    let start = start_node?.text(problems)?;
    if !matrix.leads.contains(&start.as_str()) {
        Node::unknown(&start, start_node?.place, "row of the matrix", &matrix.leads, problems);
    }
    Some((start, next))
}

/// What rows are checked against.
struct Matrix<'a> {
    names: &'a SpokenNames,
    leads: Vec<&'a str>,
    ends: bool,
}

impl Matrix<'_> {
    /// Weights of what follows `name`, each of which must have a row itself.
    fn weights(&self, name: &str, node: &Node, problems: &mut Problems) -> Option<BTreeMap<String, f64>> {
        if self.ends && matches!(&node.kind, NodeKind::Scalar { text, .. } if text == "end") {
            return Some(BTreeMap::new());
        }
        let row = Fields::of(node, format!("what follows '{name}'"), problems)?;
        let mut weights = BTreeMap::new();
        for (follower, place, value) in row.entries() {
            if !self.leads.contains(&follower.as_str()) {
                Node::unknown(follower, *place, "row of the matrix", &self.leads, problems);
            }
            let Some(weight) = value.number(problems) else { continue };
            if !(0.0..=1e9).contains(&weight) {
                problems.add(value.place, format!("{weight} is no weight"), "from 0 to 1e9");
            }
            weights.insert(follower.clone(), weight);
        }
        if weights.values().sum::<f64>() <= 0.0 {
            problems.add(node.place, format!("nothing follows '{name}'"), "give at least one weight above 0");
        }
        Some(weights)
    }

    /// What follows `name`, by conditions on the user.
    fn branches(&self, name: &str, node: &Node, problems: &mut Problems) -> Option<Vec<Branch>> {
        let items = node.items(problems)?;
        let mut branches = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let mut fields = Fields::of(item, format!("what follows '{name}'"), problems)?;
            let (when, unless) = (fields.get("when"), fields.get("unless"));
            let to = fields.require("to", problems);
            fields.finish(problems);
            let last = at + 1 == items.len();
            if last != (when.is_none() && unless.is_none()) {
                let (message, hint) = if last {
                    ("the last of what follows must fit every user", "end with '- {to: {...}}', without a condition")
                } else {
                    ("nothing behind this is ever chosen: it fits every user", "give it a condition, or put it last")
                };
                problems.add(item.place, format!("'{name}': {message}"), hint);
            }
            let mut condition = |node: Option<&Node>| node.and_then(|node| read_condition(node, self.names, problems));
            let (when, unless) = (condition(when), condition(unless));
            branches.push(Branch { when, unless, to: self.weights(name, to?, problems)? });
        }
        if branches.is_empty() {
            problems.add(node.place, format!("nothing follows '{name}'"), "give at least '- {to: {...}}'");
        }
        Some(branches)
    }
}

/// A name alone, or a name with a condition on its value: one of a list, `{at_most: 9}`, or `{same: OTHER}`.
fn read_condition(node: &Node, names: &SpokenNames, problems: &mut Problems) -> Option<Condition> {
    if let NodeKind::Scalar { .. } = node.kind {
        let variable = node.text(problems)?;
        known_value(&variable, node.place, names, problems);
        return Some(Condition { variable, ..Condition::default() });
    }
    let (name, place, value) = node.kind("condition", problems)?;
    let mut condition = Condition { variable: name.to_owned(), ..Condition::default() };
    known_value(name, place, names, problems);
    match value.kind {
        NodeKind::List(_) => {
            condition.is = value.items(problems)?.iter().filter_map(|item| item.text(problems)).collect();
            if condition.is.is_empty() {
                problems.add(value.place, format!("'{name}' has an empty list of values"), "name at least one value");
            }
        }
        NodeKind::Map(_) => {
            let (how, place, of) = value.kind("comparison", problems)?;
            match how {
                "at_most" => condition.at_most = of.number(problems),
                "same" => {
                    condition.same = of.text(problems);
                    let other = condition.same.iter();
                    other.for_each(|other| known_value(other, of.place, names, problems));
                }
                other => Node::unknown(other, place, "comparison", &["at_most", "same"], problems),
            }
        }
        NodeKind::Scalar { .. } => condition.is = vec![value.text(problems)?],
    }
    Some(condition)
}

/// Adds a problem if users have no value of this name.
fn known_value(variable: &str, place: Place, names: &SpokenNames, problems: &mut Problems) {
    if !names.operations.is_empty() && !names.variables.iter().any(|name| name == variable) {
        let known: Vec<&str> = names.variables.iter().map(String::as_str).collect();
        Node::unknown(variable, place, "value of a user", &known, problems);
    }
}
