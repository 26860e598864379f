//! Reading from YAML which operation users ask for next.

use super::{Behaviour, Branch, Condition, Followers};
use crate::config::{Fields, Node, NodeKind, Place, Problems};
use std::collections::BTreeMap;

/// What a protocol's options give names to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpokenNames {
    /// Operations; none when they are not known.
    pub operations: Vec<String>,
    /// Values that operations capture or set, and draw.
    pub variables: Vec<String>,
}

/// Which operation a user asks for next.
pub(super) fn read_behaviour(node: &Node, names: &SpokenNames, problems: &mut Problems) -> Option<Behaviour> {
    if let NodeKind::Scalar { .. } = node.kind {
        return node.choice(&["mix"], problems).map(|_| Behaviour::Mix);
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
    let start_node = fields.require("start", problems);
    let next_node = fields.require("next", problems);
    fields.finish(problems);
    let rows = Fields::of(next_node?, "the operations that follow", problems)?;
    let leads: Vec<&str> = rows.entries().iter().map(|(name, ..)| name.as_str()).collect();
    let mut next = BTreeMap::new();
    for (name, place, node) in rows.entries() {
        known(name, *place, names, problems);
        let followers = match node.kind {
            NodeKind::List(_) => read_branches(name, node, &leads, names, problems).map(Followers::Fitting),
            _ => read_weights(name, node, &leads, problems).map(Followers::Weighted),
        };
        next.extend(followers.map(|followers| (name.clone(), followers)));
    }
    let start = start_node?.text(problems)?;
    if !leads.contains(&start.as_str()) {
        Node::unknown(&start, start_node?.place, "row of the matrix", &leads, problems);
    }
    Some(Behaviour::Markov { start, next })
}

/// Weights of what follows `name`, each of which must have a row itself.
fn read_weights(name: &str, node: &Node, leads: &[&str], problems: &mut Problems) -> Option<BTreeMap<String, f64>> {
    let row = Fields::of(node, format!("what follows '{name}'"), problems)?;
    let mut weights = BTreeMap::new();
    for (follower, place, value) in row.entries() {
        if !leads.contains(&follower.as_str()) {
            Node::unknown(follower, *place, "row of the matrix", leads, problems);
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

/// What follows `name` by what holds of the user.
fn read_branches(
    name: &str,
    node: &Node,
    leads: &[&str],
    names: &SpokenNames,
    problems: &mut Problems,
) -> Option<Vec<Branch>> {
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
        let mut condition = |node: Option<&Node>| node.and_then(|node| read_condition(node, names, problems));
        let (when, unless) = (condition(when), condition(unless));
        branches.push(Branch { when, unless, to: read_weights(name, to?, leads, problems)? });
    }
    if branches.is_empty() {
        problems.add(node.place, format!("nothing follows '{name}'"), "give at least '- {to: {...}}'");
    }
    Some(branches)
}

/// A name alone, or a name and what its value is.
fn read_condition(node: &Node, names: &SpokenNames, problems: &mut Problems) -> Option<Condition> {
    let (variable, place, is) = if let NodeKind::Scalar { .. } = node.kind {
        (node.text(problems)?, node.place, Vec::new())
    } else {
        let (name, place, value) = node.kind("condition", problems)?;
        let is = match value.kind {
            NodeKind::List(_) => value.items(problems)?.iter().filter_map(|item| item.text(problems)).collect(),
            _ => vec![value.text(problems)?],
        };
        if is.is_empty() {
            problems.add(value.place, format!("'{name}' is none of nothing"), "name at least one value");
        }
        (name.to_owned(), place, is)
    };
    if !names.operations.is_empty() && !names.variables.contains(&variable) {
        let known: Vec<&str> = names.variables.iter().map(String::as_str).collect();
        Node::unknown(&variable, place, "value of a user", &known, problems);
    }
    Some(Condition { variable, is })
}
