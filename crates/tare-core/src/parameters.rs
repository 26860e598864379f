//! Parameters: values that a workload names once and uses anywhere, and that a study may change.
//!
//! `parameters:` of a workload gives each a name and a default; `${{name}}` in any of its other scalars stands for the
//! value. They are substituted before anything is read, so that the resulting field is checked as if it had been
//! written there, and a mistake is shown where it takes effect. A name with a dot is not a parameter: what it stands
//! for is known only when instances are deployed ([`crate::instances`]).

use crate::config::{Fields, Node, NodeKind, Problems};
use std::collections::BTreeMap;

/// Values by name.
pub type Parameters = BTreeMap<String, String>;

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// Puts values into every scalar below `root`, whose `parameters:` give names and defaults; `chosen` overrides the
/// defaults. Returns all values. A chosen name that the workload does not have is not checked here.
pub(crate) fn fill_in(root: &mut Node, chosen: &Parameters, problems: &mut Problems) -> Parameters {
    let mut values = Parameters::new();
    let NodeKind::Map(entries) = &mut root.kind else { return values };
    if let Some((_, _, node)) = entries.iter().find(|(key, ..)| key == "parameters") {
        values = read(node, "parameters", problems);
    }
    for (name, value) in chosen {
        if let Some(slot) = values.get_mut(name) {
            slot.clone_from(value);
        }
    }
    for (key, _, node) in entries.iter_mut().filter(|(key, ..)| key != "parameters") {
        let mut filling = Filling { values: &values, references: false, problems };
        if key == "services" { filling.fill_services(node) } else { filling.fill(node) }
    }
    values
}

/// Reads a map of names and values; `what` names it in messages.
pub(crate) fn read(node: &Node, what: &str, problems: &mut Problems) -> Parameters {
    let Some(fields) = Fields::of(node, what.to_owned(), problems) else { return Parameters::new() };
    let mut values = Parameters::new();
    for (name, place, value) in fields.entries() {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c)) {
            problems.add(*place, format!("'{name}' cannot name a parameter"), "use a-z, 0-9, '-' and '_'");
        }
        if let Some(text) = value.text(problems) {
            values.insert(name.clone(), text);
        }
    }
    values
}

/// The fields of a service that may contain names with a dot.
const MAY_REFER: [&str; 4] = ["command", "environment", "options", "ready"];

struct Filling<'a> {
    values: &'a Parameters,
    /// Whether names with a dot are left for later.
    references: bool,
    problems: &'a mut Problems,
}

impl Filling<'_> {
    fn fill_services(&mut self, node: &mut Node) {
        let NodeKind::Map(services) = &mut node.kind else { return self.fill(node) };
        for (.., service) in services {
            let NodeKind::Map(fields) = &mut service.kind else {
                self.fill(service);
                continue;
            };
            for (field, _, node) in fields {
                self.references = MAY_REFER.contains(&field.as_str());
                self.fill(node);
            }
            self.references = false;
        }
    }

    fn fill(&mut self, node: &mut Node) {
        let place = node.place;
        match &mut node.kind {
            NodeKind::List(items) => items.iter_mut().for_each(|item| self.fill(item)),
            NodeKind::Map(entries) => entries.iter_mut().for_each(|(.., value)| self.fill(value)),
            NodeKind::Scalar { text, .. } => {
                let mut from = 0;
                while let Some((at, name, end)) = mention(text, from) {
                    let Some(value) = self.values.get(&name) else {
                        from = end;
                        if !(self.references && name.contains('.')) {
                            let known: Vec<&str> = self.values.keys().map(String::as_str).collect();
                            let message = format!("there is no parameter '{name}'");
                            self.problems.add_unknown(place, message, &name, &known);
                        }
                        continue;
                    };
                    text.replace_range(at..end, value);
                    from = at + value.len();
                }
            }
        }
    }
}

/// The first `${{name}}` from a position on: its start, its name, its end.
fn mention(text: &str, from: usize) -> Option<(usize, String, usize)> {
    let at = from + text[from..].find(OPEN)?;
    let length = text[at..].find(CLOSE)?;
    let name = text[at + OPEN.len()..at + length].trim().to_owned();
    Some((at, name, at + length + CLOSE.len()))
}

/// The references in a text: the names with a dot.
pub(crate) fn mentions(text: &str) -> impl Iterator<Item = String> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let (_, name, end) = mention(text, from)?;
        from = end;
        Some(name)
    })
    .filter(|name| name.contains('.'))
}

/// Replaces those references in texts that have a value.
pub(crate) fn put_in<'t>(texts: impl Iterator<Item = &'t mut String>, value: &dyn Fn(&str) -> Option<String>) {
    for text in texts {
        let mut from = 0;
        while let Some((at, name, end)) = mention(text, from) {
            from = end;
            if let Some(value) = value(&name) {
                text.replace_range(at..end, &value);
                from = at + value.len();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn filled(text: &str, chosen: &[(&str, &str)]) -> Result<(Node, Parameters), String> {
        let mut problems = Problems::new("w.yaml", text);
        let mut root = parse(text, &mut problems).unwrap();
        let chosen = chosen.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let values = fill_in(&mut root, &chosen, &mut problems);
        let found: Vec<String> = problems.into_vec().iter().map(ToString::to_string).collect();
        if found.is_empty() { Ok((root, values)) } else { Err(found.join("\n")) }
    }

    fn texts(node: &Node, all: &mut Vec<String>) {
        match &node.kind {
            NodeKind::Scalar { text, .. } => all.push(text.clone()),
            NodeKind::List(items) => items.iter().for_each(|item| texts(item, all)),
            NodeKind::Map(entries) => entries.iter().for_each(|(.., value)| texts(value, all)),
        }
    }

    #[test]
    fn what_is_known_when_instances_stand_is_left_alone() {
        let text = "parameters: {n: 1}\nservices: {a: {command: [x, '${{port.a}} ${{n}}']}}\n";
        let (root, _) = filled(text, &[]).unwrap();
        let mut all = Vec::new();
        texts(&root, &mut all);
        assert_eq!(all.last().unwrap(), "${{port.a}} 1");
        let found = filled("parameters: {n: 1}\nservices: {a: {ports: {a: '${{port.a}}'}}}\n", &[]).unwrap_err();
        assert!(found.contains("there is no parameter 'port.a'"), "{found}");
    }

    const TEXT: &str =
        "parameters: {size: 2000, unit: MiB}\na: [x, '${{size}}${{ unit }}', \"${size}\"]\nb: {c: '${{size}}'}\n";

    #[test]
    fn values_stand_wherever_they_are_named() {
        let (root, values) = filled(TEXT, &[("size", "45000"), ("other", "1")]).unwrap();
        let mut all = Vec::new();
        texts(&root, &mut all);
        assert_eq!(all, ["2000", "MiB", "x", "45000MiB", "${size}", "45000"]);
        assert_eq!(values, [("size", "45000"), ("unit", "MiB")].map(|(n, v)| (n.to_owned(), v.to_owned())).into());
    }

    #[test]
    fn mistakes_have_their_place() {
        let found = filled("parameters: {Size: 1, size: 2, list: [a]}\na: ${{sise}}\n", &[]).unwrap_err();
        assert!(found.contains("w.yaml:2:4") && found.contains("did you mean 'size'?"), "{found}");
        assert!(found.contains("w.yaml:1:14") && found.contains("'Size' cannot name"), "{found}");
        assert!(found.contains("w.yaml:1:") && found.contains("expected text"), "{found}");
    }
}
