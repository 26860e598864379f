//! A YAML file as a tree in which every part knows its place.

use super::{Place, Problems};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its place in the file.
    pub place: Place,
    /// What it is.
    pub kind: NodeKind,
}

/// What a [`Node`] is. Scalars stay text: the code that reads them decides what they mean, so that `name: no` stays
/// "no" and `1.10` stays "1.10".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A scalar; `quoted` when it was written in quotes, which makes `"null"` a text and not an absent value.
    Scalar {
        /// The text as written.
        text: String,
        /// Whether it was quoted.
        quoted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the file; each key with its place.
    Map(Vec<(String, Place, Node)>),
}

impl Node {
    /// Passes the entries of all maps in here to `look`, outermost first, each by its key; it descends into those that
    /// `look` does not claim.
    pub fn each_entry(&self, look: &mut dyn FnMut(&str, &Node) -> bool) {
        match &self.kind {
            NodeKind::Scalar { .. } => {}
            NodeKind::List(items) => items.iter().for_each(|item| item.each_entry(look)),
            NodeKind::Map(entries) => {
                for (key, _, value) in entries {
                    if !look(key, value) {
                        value.each_entry(look);
                    }
                }
            }
        }
    }

    /// Whether it is an absent value: nothing, `~` or `null`.
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// What a user would call it.
    pub fn describe(&self) -> String {
        match &self.kind {
            _ if self.is_null() => "nothing".to_owned(),
            NodeKind::Scalar { text, .. } => format!("'{}'", text.chars().take(40).collect::<String>()),
            NodeKind::List(_) => "a list".to_owned(),
            NodeKind::Map(_) => "a map".to_owned(),
        }
    }
}

/// Deeper nesting than any real file has; anything deeper is an attack or an accident.
const DEPTH_MAX: usize = 32;
/// More nodes than any real file has.
const NODES_MAX: usize = 100_000;

/// Parses one YAML document. `None` when its syntax is broken; then at least one problem was added.
///
/// Anchors, aliases and tags are refused: a study is read by people, and they can hide a gigabyte in ten lines.
pub fn parse(text: &str, problems: &mut Problems) -> Option<Node> {
    let mut builder = Builder { parser: Parser::new_from_str(text), problems, depth: 0, nodes: 0 };
    builder.document()
}

struct Builder<'a, 'p> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    problems: &'p mut Problems,
    depth: usize,
    nodes: usize,
}

fn place_of(span: Span) -> Place {
    let width = if span.start.line() == span.end.line() { span.end.col().saturating_sub(span.start.col()) } else { 1 };
    Place { line: span.start.line(), column: span.start.col() + 1, width: width.max(1) }
}

impl<'a> Builder<'a, '_> {
    fn next(&mut self) -> Option<(Event<'a>, Span)> {
        match self.parser.next_event()? {
            Ok(event) => Some(event),
            Err(error) => {
                let marker = error.marker();
                let place = Place { line: marker.line().max(1), column: marker.col() + 1, width: 1 };
                let hint = "indent with spaces, put a space after each ':', and quote texts with ':' or '#' in them";
                self.problems.add(place, format!("this is not valid YAML: {}", error.info()), hint);
                None
            }
        }
    }

    fn document(&mut self) -> Option<Node> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => {
                    self.problems.add(place_of(span), "the file is empty", "see studies/ and workloads/ for examples");
                    return None;
                }
                event => {
                    let root = self.node(event, span)?;
                    return self.end(root);
                }
            }
        }
    }

    /// Refuses anything after the first document.
    fn end(&mut self, root: Node) -> Option<Node> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Some(root),
                Event::DocumentStart(_) => {
                    self.problems.add(place_of(span), "a second document starts here", "one file, one document");
                    return None;
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Option<Node> {
        let place = place_of(span);
        self.nodes += 1;
        if self.depth >= DEPTH_MAX || self.nodes > NODES_MAX {
            self.problems.add(place, "this file is nested too deeply or far too long", "");
            return None;
        }
        let kind = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse(anchor, tag.is_some(), place)?;
                NodeKind::Scalar { text: text.into_owned(), quoted: style != ScalarStyle::Plain }
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse(anchor, tag.is_some(), place)?;
                NodeKind::List(self.list()?)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse(anchor, tag.is_some(), place)?;
                NodeKind::Map(self.map()?)
            }
            _ => {
                self.problems.add(place, "aliases are not supported", "write the value out");
                return None;
            }
        };
        Some(Node { place, kind })
    }

    fn refuse(&mut self, anchor: usize, tagged: bool, place: Place) -> Option<()> {
        if anchor != 0 || tagged {
            self.problems.add(place, "anchors and tags are not supported", "write the value out");
            return None;
        }
        Some(())
    }

    fn list(&mut self) -> Option<Vec<Node>> {
        self.depth += 1;
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                self.depth -= 1;
                return Some(items);
            }
            items.push(self.node(event, span)?);
        }
    }

    fn map(&mut self) -> Option<Vec<(String, Place, Node)>> {
        self.depth += 1;
        let mut entries: Vec<(String, Place, Node)> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let place = place_of(span);
            let key = match event {
                Event::MappingEnd => {
                    self.depth -= 1;
                    return Some(entries);
                }
                Event::Scalar(text, ..) => text.into_owned(),
                _ => {
                    self.problems.add(place, "a key must be a plain word", "");
                    return None;
                }
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span)?;
            if let Some((_, first, _)) = entries.iter().find(|(other, ..)| *other == key) {
                let hint = format!("it is on line {} already; keep one of them", first.line);
                self.problems.add(place, format!("'{key}' appears a second time"), hint);
                continue;
            }
            entries.push((key, place, value));
        }
    }
}
