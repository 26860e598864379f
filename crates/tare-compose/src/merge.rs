//! Puts one part of a Compose file over another, by the rules of the Compose specification.

use crate::sources::At;
use crate::yaml::{Entry, Kind, Value};

/// Keys whose lists are replaced and not added to.
const REPLACED: [&str; 3] = ["command", "entrypoint", "test"];
/// Keys whose lists are another way to write a map.
const PAIRS: [&str; 7] = ["environment", "labels", "annotations", "sysctls", "args", "depends_on", "networks"];

/// `over` put over `base`, both values of `key`: maps entry by entry, lists one behind the other, and anything else as
/// `over` has it.
pub(crate) fn merge(key: &str, base: Value, over: Value) -> Value {
    let (base, over) = if PAIRS.contains(&key) { (as_map(base), as_map(over)) } else { (base, over) };
    match (base.kind, over.kind) {
        (Kind::Map(entries), Kind::Map(more)) => Value { at: over.at, kind: Kind::Map(merged(entries, more)) },
        (Kind::List(mut items), Kind::List(more)) if !REPLACED.contains(&key) => {
            for item in more {
                if items.iter().all(|known| !same(known, &item)) {
                    items.push(item);
                }
            }
            Value { at: over.at, kind: Kind::List(items) }
        }
        (_, kind) => Value { at: over.at, kind },
    }
}

/// The entries of a map with those of another over them.
fn merged(mut entries: Vec<Entry>, more: Vec<Entry>) -> Vec<Entry> {
    for entry in more {
        match entries.iter().position(|known| known.key == entry.key) {
            Some(found) => {
                let Entry { key, at, value } = entry;
                let before = std::mem::replace(&mut entries[found].value, Value::null(at));
                let value = merge(&key, before, value);
                entries[found] = Entry { key, at, value };
            }
            None => entries.push(entry),
        }
    }
    entries
}

/// A list of `NAME=value`, or of names, as the map that it stands for.
fn as_map(value: Value) -> Value {
    let Kind::List(items) = value.kind else { return value };
    let mut entries: Vec<Entry> = Vec::new();
    for item in items {
        let Kind::Scalar { text, .. } = &item.kind else { continue };
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, quoted_text(item.at, value)),
            None => (text.as_str(), Value::null(item.at)),
        };
        entries.retain(|known| known.key != key);
        entries.push(Entry { key: key.to_owned(), at: item.at, value });
    }
    Value { at: value.at, kind: Kind::Map(entries) }
}

/// A text that is never taken for an absent value.
fn quoted_text(at: At, text: &str) -> Value {
    Value { at, kind: Kind::Scalar { text: text.to_owned(), quoted: true } }
}

/// Whether two items of a list are the same, wherever they stand.
fn same(one: &Value, other: &Value) -> bool {
    match (&one.kind, &other.kind) {
        (Kind::Scalar { text, .. }, Kind::Scalar { text: other, .. }) => text == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Sources;
    use crate::yaml::parse;
    use std::path::Path;

    fn shown(value: &Value) -> String {
        match &value.kind {
            Kind::Scalar { text, .. } => text.clone(),
            Kind::List(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
            Kind::Map(entries) => {
                let entries = entries.iter().map(|entry| format!("{}:{}", entry.key, shown(&entry.value)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
            }
        }
    }

    #[test]
    fn maps_grow_lists_are_joined_and_commands_are_replaced() {
        let text = "base: {image: a, command: [a, b], ports: ['80', '81'], environment: [A=1, B=2], depends_on: [x]}\n\
                    over: {image: b, command: [c], ports: ['81', '82'], environment: {B: 3}, depends_on: {x: \
                    {condition: service_healthy}}}\n";
        let mut sources = Sources::default();
        let file = sources.open("c.yaml", text, Path::new(""));
        let root = parse(text, file, &mut sources).unwrap();
        let [base, over] = root.entries() else { panic!("two entries") };
        let merged = merge("", base.value.clone(), over.value.clone());
        let wanted = "{image:b,command:[c],ports:[80,81,82],environment:{A:1,B:3},\
                      depends_on:{x:{condition:service_healthy}}}";
        assert_eq!(shown(&merged), wanted);
    }
}
