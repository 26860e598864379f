//! Puts one part of a Compose file over another, by the rules of the Compose specification.

use crate::sources::At;
use crate::yaml::{Entry, Kind, Value};

/// Keys whose lists are replaced and not added to.
const REPLACED: [&str; 3] = ["command", "entrypoint", "test"];
/// Keys whose lists are another way to write a map.
const PAIRS: [&str; 7] = ["environment", "labels", "annotations", "sysctls", "args", "depends_on", "networks"];

/// Keys for which one text stands for a list of one.
const LISTS: [&str; 5] = ["env_file", "tmpfs", "dns", "dns_search", "label_file"];

/// `over` put over `base`, both values of `key`: maps entry by entry, lists one behind the other, and anything else as
/// `over` has it.
pub(crate) fn merge(key: &str, base: Value, over: Value) -> Value {
    let (base, over) = match key {
        key if PAIRS.contains(&key) => (as_map(base), as_map(over)),
        key if LISTS.contains(&key) => (as_list(base), as_list(over)),
        _ => (base, over),
    };
    match (base.kind, over.kind) {
        (Kind::Map(entries), Kind::Map(more)) => Value { at: over.at, kind: Kind::Map(merged(entries, more)) },
        (Kind::List(mut items), Kind::List(more)) if !REPLACED.contains(&key) => {
            for item in more {
                match items.iter().position(|known| same(key, known, &item)) {
                    Some(known) => items[known] = item,
                    None => items.push(item),
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
                let Entry { key, at, value, replaces } = entry;
                let before = std::mem::replace(&mut entries[found].value, Value::null(at));
                let value = if replaces { value } else { merge(&key, before, value) };
                entries[found] = Entry { key, at, value, replaces };
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
        entries.push(Entry { key: key.to_owned(), at: item.at, value, replaces: false });
    }
    Value { at: value.at, kind: Kind::Map(entries) }
}

/// A text as the list that it stands for.
fn as_list(value: Value) -> Value {
    match value.kind {
        Kind::Scalar { .. } if !value.is_null() => Value { at: value.at, kind: Kind::List(vec![value]) },
        _ => value,
    }
}

/// A text that is never taken for an absent value.
fn quoted_text(at: At, text: &str) -> Value {
    Value { at, kind: Kind::Scalar { text: text.to_owned(), quoted: true } }
}

/// Whether two items of the list of `key` are the same, wherever they stand: mounts with one target are, for a
/// container has one thing at a path.
fn same(key: &str, one: &Value, other: &Value) -> bool {
    if let "volumes" | "secrets" | "configs" = key {
        return target(one).is_some_and(|path| target(other) == Some(path));
    }
    match (&one.kind, &other.kind) {
        (Kind::Scalar { text, .. }, Kind::Scalar { text: other, .. }) => text == other,
        _ => false,
    }
}

/// Where a mount, a secret or a config is seen; one that does not say is called after its source.
fn target(item: &Value) -> Option<&str> {
    let entry = |name: &str| item.entries().iter().find(|entry| entry.key == name)?.value.scalar();
    let path = match &item.kind {
        Kind::Scalar { text, .. } => text.split(':').nth(1).unwrap_or(text),
        _ => entry("target").or_else(|| entry("source"))?,
    };
    Some(path.trim_end_matches('/'))
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

    fn put_over(text: &str) -> String {
        let mut sources = Sources::default();
        let file = sources.open("c.yaml", text, Path::new(""));
        let root = parse(text, file, &mut sources).unwrap();
        let [base, over] = root.entries() else { panic!("two entries") };
        shown(&merge("", base.value.clone(), over.value.clone()))
    }

    #[test]
    fn an_override_replaces_and_a_reset_removes() {
        let text = "base: {ports: ['80'], environment: {A: 1}, labels: [a]}\n\
                    over: {ports: !override ['81'], environment: !override {B: 2}, labels: !reset []}\n";
        assert_eq!(put_over(text), "{ports:[81],environment:{B:2},labels:}");
    }

    #[test]
    fn a_text_that_stands_for_a_list_is_added_to() {
        let text = "base: {env_file: a.env, tmpfs: [/a], dns: x}\nover: {env_file: [b.env], tmpfs: /b, dns: y}\n";
        assert_eq!(put_over(text), "{env_file:[a.env,b.env],tmpfs:[/a,/b],dns:[x,y]}");
    }

    #[test]
    fn of_two_mounts_at_one_target_the_later_one_counts() {
        let text = "base: {volumes: ['a:/data', './x:/etc/x:ro', /y], secrets: [s]}\n\
                    over: {volumes: ['b:/data/', {type: bind, source: ./z, target: /etc/x}, /y], secrets: [{source: s, \
                    target: s}, t]}\n";
        let wanted = "{volumes:[b:/data/,{type:bind,source:./z,target:/etc/x},/y],secrets:[{source:s,target:s},t]}";
        assert_eq!(put_over(text), wanted);
    }
}
