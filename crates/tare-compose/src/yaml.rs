//! YAML as Compose files use it: a tree whose parts know their places, with anchors, aliases and merge keys resolved.
//!
//! The reader of studies and workloads ([`tare_core::config::parse`]) refuses anchors on purpose; Compose files live by
//! them. What an alias stands for keeps the place where it was written.

use crate::sources::{At, Sources};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use tare_core::config::Place;

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) at: At,
    pub(crate) kind: Kind,
}

/// What a [`Value`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A scalar as text; `quoted` makes `"null"` a text and not an absent value, and so does a variable in it.
    Scalar { text: String, quoted: bool },
    /// A list.
    List(Vec<Value>),
    /// A map, in the order of the file.
    Map(Vec<Entry>),
}

/// A key of a map and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: At,
    pub(crate) value: Value,
    /// Whether its value has the tag `!override`: it replaces what it is put over.
    pub(crate) replaces: bool,
}

impl Value {
    /// An absent value.
    pub(crate) fn null(at: At) -> Value {
        Value { at, kind: Kind::Scalar { text: String::new(), quoted: false } }
    }

    /// Whether it is an absent value: nothing, `~` or `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// The text of a scalar; the empty text if it is absent.
    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { .. } if self.is_null() => Some(""),
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The entries of a map; none of anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// What a user would call it.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            _ if self.is_null() => "nothing".to_owned(),
            Kind::Scalar { text, .. } => format!("'{}'", text.chars().take(40).collect::<String>()),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
        }
    }

    /// Passes every scalar in here to `change`: its place, its text, and whether it is quoted.
    pub(crate) fn each_scalar(&mut self, change: &mut dyn FnMut(At, &mut String, &mut bool)) {
        let at = self.at;
        match &mut self.kind {
            Kind::Scalar { text, quoted } => change(at, text, quoted),
            Kind::List(items) => items.iter_mut().for_each(|item| item.each_scalar(change)),
            Kind::Map(entries) => entries.iter_mut().for_each(|entry| entry.value.each_scalar(change)),
        }
    }

    /// How many values it has, itself included.
    fn size(&self) -> usize {
        1 + match &self.kind {
            Kind::Scalar { .. } => 0,
            Kind::List(items) => items.iter().map(Value::size).sum(),
            Kind::Map(entries) => entries.iter().map(|entry| entry.value.size()).sum(),
        }
    }
}

/// Deeper nesting than any real file has.
const DEPTH_MAX: usize = 32;
/// More values than any real file has, with those that aliases repeat.
const VALUES_MAX: usize = 100_000;
/// The key that merges another map into its own.
const MERGE: &str = "<<";

/// Parses one YAML document. `None` when its syntax is broken; then at least one mistake was added.
pub(crate) fn parse(text: &str, file: usize, sources: &mut Sources) -> Option<Value> {
    let anchors = HashMap::new();
    let mut builder = Builder { parser: Parser::new_from_str(text), file, sources, anchors, depth: 0, values: 0 };
    builder.document()
}

struct Builder<'a, 's> {
    parser: Parser<'a, StrInput<'a>>,
    file: usize,
    sources: &'s mut Sources,
    /// What anchors stand for, by the parser's numbers.
    anchors: HashMap<usize, Value>,
    depth: usize,
    values: usize,
}

type MaybeTag<'a> = Option<Cow<'a, Tag>>;

impl<'a> Builder<'a, '_> {
    fn at(&self, span: Span) -> At {
        let one_line = span.start.line() == span.end.line();
        let width = if one_line { span.end.col().saturating_sub(span.start.col()) } else { 1 };
        let place = Place { line: span.start.line().max(1), column: span.start.col() + 1, width: width.max(1) };
        At { file: self.file, place }
    }

    fn wrong(&mut self, at: At, message: &str, hint: &str) {
        self.sources.wrong(at, message, hint);
    }

    fn next(&mut self) -> Option<(Event<'a>, At)> {
        match self.parser.next_event()? {
            Ok((event, span)) => Some((event, self.at(span))),
            Err(error) => {
                let marker = error.marker();
                let place = Place { line: marker.line().max(1), column: marker.col() + 1, width: 1 };
                let message = format!("this is not valid YAML: {}", error.info());
                let hint = "indent with spaces, put a space after each ':', and quote texts with ':' or '#' in them";
                self.wrong(At { file: self.file, place }, &message, hint);
                None
            }
        }
    }

    fn document(&mut self) -> Option<Value> {
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => {
                    self.wrong(at, "the file is empty", "a Compose file has at least 'services:'");
                    return None;
                }
                event => {
                    let root = self.value(event, at)?;
                    return self.end(root);
                }
            }
        }
    }

    /// Refuses anything after the first document.
    fn end(&mut self, root: Value) -> Option<Value> {
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => return Some(root),
                Event::DocumentStart(_) => {
                    self.wrong(at, "a second document starts here", "one file, one document");
                    return None;
                }
                _ => {}
            }
        }
    }

    fn value(&mut self, event: Event<'a>, at: At) -> Option<Value> {
        self.count(1, at)?;
        if self.depth >= DEPTH_MAX {
            self.wrong(at, "this file is nested too deeply", "");
            return None;
        }
        let (kind, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (Kind::Scalar { text: text.into_owned(), quoted: style != ScalarStyle::Plain }, anchor, tag)
            }
            Event::SequenceStart(anchor, tag) => (Kind::List(self.list()?), anchor, tag),
            Event::MappingStart(anchor, tag) => (Kind::Map(self.map()?), anchor, tag),
            Event::Alias(anchor) => return self.alias(anchor, at),
            _ => {
                self.wrong(at, "expected a value", "");
                return None;
            }
        };
        let value = self.tagged(Value { at, kind }, tag);
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Some(value)
    }

    fn count(&mut self, more: usize, at: At) -> Option<()> {
        self.values += more;
        if self.values > VALUES_MAX {
            self.wrong(at, "this file is far too long, with what its aliases repeat", "");
            return None;
        }
        Some(())
    }

    fn alias(&mut self, anchor: usize, at: At) -> Option<Value> {
        let Some(value) = self.anchors.get(&anchor) else {
            self.wrong(at, "this alias stands inside of what it stands for", "write the value out");
            return None;
        };
        let value = value.clone();
        self.count(value.size(), at)?;
        Some(value)
    }

    /// `!reset` removes a value. `!override` is the entry's business, and the tags of YAML's own types change nothing.
    fn tagged(&mut self, value: Value, tag: MaybeTag<'a>) -> Value {
        match tag {
            Some(tag) if tag.is_yaml_core_schema() || tag.suffix == "override" => value,
            Some(tag) if tag.suffix == "reset" => Value::null(value.at),
            Some(tag) => {
                self.wrong(value.at, &format!("the tag '{tag}' is not known here"), "Compose has !reset and !override");
                value
            }
            None => value,
        }
    }

    fn list(&mut self) -> Option<Vec<Value>> {
        self.depth += 1;
        let mut items = Vec::new();
        loop {
            let (event, at) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                self.depth -= 1;
                return Some(items);
            }
            items.push(self.value(event, at)?);
        }
    }

    fn map(&mut self) -> Option<Vec<Entry>> {
        self.depth += 1;
        let (mut entries, mut merged): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
        // The line of each key, and the keys that are merged: a search in a list would be slow in long maps.
        let (mut lines, mut known): (HashMap<String, usize>, HashSet<String>) = (HashMap::new(), HashSet::new());
        loop {
            let (event, at) = self.next()?;
            let key = match event {
                Event::MappingEnd => {
                    self.depth -= 1;
                    break;
                }
                Event::Scalar(text, ..) => text.into_owned(),
                _ => {
                    self.wrong(at, "a key must be a plain word", "");
                    return None;
                }
            };
            let (event, value_at) = self.next()?;
            let replaces = is_override(&event);
            let value = self.value(event, value_at)?;
            if key == MERGE {
                self.merge(value, &mut merged, &mut known);
            } else if let Some(first) = lines.get(&key) {
                let hint = format!("it is on line {first} already; keep one of them");
                self.wrong(at, &format!("'{key}' appears a second time"), &hint);
            } else {
                lines.insert(key.clone(), at.place.line);
                entries.push(Entry { key, at, value, replaces });
            }
        }
        // A map's own keys go over those that are merged into it, wherever the merge key stands.
        merged.retain(|entry| !lines.contains_key(&entry.key));
        entries.extend(merged);
        Some(entries)
    }

    /// Adds the entries of a map, or of each map of a list, of which an earlier one goes over a later one. `known` has
    /// the keys of those that were added.
    fn merge(&mut self, value: Value, merged: &mut Vec<Entry>, known: &mut HashSet<String>) {
        match value.kind {
            Kind::Map(entries) => {
                for entry in entries {
                    if known.insert(entry.key.clone()) {
                        merged.push(entry);
                    }
                }
            }
            Kind::List(items) if items.iter().all(|item| matches!(item.kind, Kind::Map(_))) => {
                items.into_iter().for_each(|item| self.merge(item, merged, known));
            }
            _ => self.wrong(value.at, "'<<' merges a map, or a list of maps", "write for example '<<: *name'"),
        }
    }
}

/// Whether a value begins that has the tag `!override`.
fn is_override(event: &Event) -> bool {
    let (Event::Scalar(.., tag) | Event::SequenceStart(_, tag) | Event::MappingStart(_, tag)) = event else {
        return false;
    };
    tag.as_ref().is_some_and(|tag| !tag.is_yaml_core_schema() && tag.suffix == "override")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn read(text: &str) -> Result<Value, Vec<String>> {
        let mut sources = Sources::default();
        let file = sources.open("c.yaml", text, Path::new(""));
        let value = parse(text, file, &mut sources);
        let (problems, _) = sources.finish();
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(value.is_some() || !told.is_empty(), "neither a value nor a mistake");
        value.filter(|_| told.is_empty()).ok_or(told)
    }

    /// The tree in one line.
    fn shown(value: &Value) -> String {
        let list = |parts: Vec<String>| parts.join(",");
        match &value.kind {
            Kind::Scalar { text, .. } => text.clone(),
            Kind::List(items) => format!("[{}]", list(items.iter().map(shown).collect())),
            Kind::Map(entries) => {
                let entries = entries.iter().map(|entry| format!("{}:{}", entry.key, shown(&entry.value)));
                format!("{{{}}}", list(entries.collect()))
            }
        }
    }

    #[test]
    fn aliases_and_merge_keys_are_resolved() {
        let text = "x-a: &a {k: 1, l: 2}\nx-b: &b {l: 3, m: 4}\none: {l: 9, <<: *a}\ntwo: {<<: [*b, *a]}\nthree: *a\n";
        let value = read(text).unwrap();
        let wanted = "{x-a:{k:1,l:2},x-b:{l:3,m:4},one:{l:9,k:1},two:{l:3,m:4,k:1},three:{k:1,l:2}}";
        assert_eq!(shown(&value), wanted);
        // What an alias stands for has the place where it was written.
        assert_eq!(value.entries()[4].value.entries()[0].at.place.line, 1);
    }

    #[test]
    fn what_cannot_be_read_has_a_place() {
        let bomb: String = (1..40).map(|at| format!("a{at}: &a{at} [*a{0}, *a{0}]\n", at - 1)).collect();
        let deep = format!("{}x\n", "- ".repeat(40));
        let cases = [
            ("a: &a [*a]\n", "inside of what it stands for"),
            ("a: *b\n", "unknown anchor"),
            ("a: {<<: 3}\n", "merges a map"),
            ("a: 1\na: 2\n", "second time"),
            ("a: !secret x\n", "the tag '!secret'"),
            ("", "empty"),
            ("---\na: 1\n---\nb: 2\n", "second document"),
            (&format!("a0: &a0 x\n{bomb}"), "far too long"),
            (&deep, "nested too deeply"),
        ];
        for (text, wanted) in cases {
            let told = read(text).unwrap_err().join("\n");
            assert!(told.contains(wanted) && told.contains("c.yaml:"), "{text}: {told}");
        }
    }

    #[test]
    fn a_map_of_many_keys_is_read_and_each_stands_once() {
        let text: String = (0..45_000).map(|key| format!("k{key}: 1\n")).collect();
        assert_eq!(read(&text).unwrap().entries().len(), 45_000);
        let told = read(&format!("{text}k7: 2\n")).unwrap_err().join("\n");
        assert!(told.contains("'k7' appears a second time") && told.contains("on line 8 already"), "{told}");
    }

    #[test]
    fn a_reset_value_is_absent() {
        assert!(read("a: !reset [1, 2]\n").unwrap().entries()[0].value.is_null());
        assert_eq!(shown(&read("a: !override [1]\nb: !!str 1\n").unwrap()), "{a:[1],b:1}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_value_or_a_mistake(text in "\\PC{0,80}") {
            let _ = read(&text);
        }

        #[test]
        fn any_pieces_of_yaml_are_a_value_or_a_mistake(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("a: "), Just("&a "), Just("*a"), Just("<<: "), Just("\n"), Just("  "), Just("- "), Just("["),
                    Just("]"), Just("{"), Just("}"), Just(", "), Just("x"), Just("'"), Just("\""), Just("!reset "),
                    Just("|\n"), Just("? "), Just("---\n"), Just("#"), Just("\t"),
                ],
                0..40,
            )
        ) {
            let _ = read(&pieces.concat());
        }
    }
}
