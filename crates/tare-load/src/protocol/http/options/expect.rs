//! Reads what a reply must contain, and what is captured from it.

use crate::script::{Names, Template};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, NodeKind, Problems};

/// What a right reply is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Expect {
    /// Ranges of statuses, including both ends.
    pub status: Vec<(u16, u16)>,
    /// Texts that must be in the body.
    pub contains: Vec<String>,
    /// Texts that must not be in the body.
    pub lacks: Vec<String>,
    /// An expression that must match somewhere in the body.
    pub matches: Option<String>,
    /// Values that a JSON body must have at these places, as texts; none is any value.
    pub json: Vec<(String, Option<String>)>,
    /// Expressions that must match the values of these headers.
    pub headers: Vec<(String, String)>,
}

/// A value captured from a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Capture {
    /// The variable it goes to.
    pub name: String,
    /// Where it is found.
    pub source: Source,
    /// Which of several matches of an expression: one at random instead of the first.
    pub random: bool,
    /// Whether it may be missing; the variable is then unset.
    pub optional: bool,
}

/// Where a capture is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Source {
    /// At a place of a JSON body (RFC 6901); `*` is a random member.
    Json(String),
    /// The first group of an expression, or the whole match if it has none.
    Regex(String),
    /// A header.
    Header(String),
    /// A cookie.
    Cookie(String),
}

/// Whether a part of a JSON pointer stands for any member.
pub(in super::super) fn random_member(part: &str) -> bool {
    part == "*"
}

/// Declares what the scripts in `node` set and capture, in the order in which they are read.
pub(super) fn declare(node: &Node, names: &mut Names, problems: &mut Problems) {
    match &node.kind {
        NodeKind::List(items) => items.iter().for_each(|item| declare_request(item, names, problems)),
        NodeKind::Map(operations) => {
            for (.., operation) in operations {
                let NodeKind::Map(fields) = &operation.kind else { continue };
                match fields.iter().find(|(key, ..)| key == "requests") {
                    Some((.., Node { kind: NodeKind::List(items), .. })) => {
                        items.iter().for_each(|item| declare_request(item, names, problems));
                    }
                    _ => declare_request(operation, names, problems),
                }
            }
        }
        NodeKind::Scalar { .. } => {}
    }
}

fn declare_request(node: &Node, names: &mut Names, problems: &mut Problems) {
    let NodeKind::Map(fields) = &node.kind else { return };
    for given in ["set", "capture"] {
        let Some((.., given)) = fields.iter().find(|(key, ..)| key == given) else { continue };
        let NodeKind::Map(given) = &given.kind else { continue };
        for (name, place, _) in given {
            if let Err(message) = names.declare(name) {
                problems.add(*place, message, "give it another name");
            }
        }
    }
}

/// Reads `expect:`; `status` and `contains` may also be given beside it.
pub(super) fn read_expect(fields: &mut Fields<'_>, names: &Names, problems: &mut Problems) -> Expect {
    let (status_node, contains_node) = (fields.get("status"), fields.get("contains"));
    let empty = Node { place: fields.place(), kind: NodeKind::Map(Vec::new()) };
    let node = fields.get("expect");
    let mut expect = Fields::of(node.unwrap_or(&empty), "expect", problems);
    let twice = |outer: Option<&Node>, inner: Option<&Node>, problems: &mut Problems| match (outer, inner) {
        (Some(outer), Some(_)) => {
            problems.add(outer.place, "this stands under 'expect' as well", "keep one of them");
            None
        }
        (outer, inner) => outer.or(inner).cloned(),
    };
    let status = twice(status_node, expect.as_mut().and_then(|fields| fields.get("status")), problems);
    let contains = twice(contains_node, expect.as_mut().and_then(|fields| fields.get("contains")), problems);
    let texts = |node: Option<&Node>, problems: &mut Problems| -> Vec<String> {
        let items = node.and_then(|node| node.items(problems)).unwrap_or_default();
        items.iter().filter_map(|item| Template::read(item, names, problems)).collect()
    };
    let mut get = |key| expect.as_mut().and_then(|fields| fields.get(key));
    let (lacks, matches, json, headers) = (get("lacks"), get("matches"), get("json"), get("headers"));
    if let Some(expect) = expect {
        expect.finish(problems);
    }
    Expect {
        status: status.map(|node| read_statuses(&node, problems)).unwrap_or_else(|| vec![(200, 200)]),
        contains: texts(contains.as_ref(), problems),
        lacks: texts(lacks, problems),
        matches: matches.and_then(|node| read_pattern(node, problems)),
        json: json.map(|node| read_json(node, names, problems)).unwrap_or_default(),
        headers: headers.map(|node| read_header_patterns(node, problems)).unwrap_or_default(),
    }
}

/// `200`, `2xx`, `200-299`, or a list of these.
fn read_statuses(node: &Node, problems: &mut Problems) -> Vec<(u16, u16)> {
    let mut ranges = Vec::new();
    for item in node.items(problems).unwrap_or_default() {
        let Some(text) = item.text(problems) else { continue };
        let number = |text: &str| text.trim().parse::<u16>().ok().filter(|status| (200..=599).contains(status));
        let range = match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(hundreds), _) => number(&format!("{hundreds}00")).map(|status| (status, status + 99)),
            (None, Some((low, high))) => number(low).zip(number(high)).filter(|(low, high)| low <= high),
            (None, None) => number(&text).map(|status| (status, status)),
        };
        if range.is_none() {
            let hint = "from 200 to 599: 200, 2xx, 200-204, or a list of such";
            problems.add(item.place, format!("'{text}' is not a status of a reply"), hint);
        }
        ranges.extend(range);
    }
    ranges
}

pub(super) fn read_pattern(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = node.text(problems)?;
    if let Err(error) = Regex::new(&text) {
        // The crate draws its own picture of the place; the last line says what is wrong.
        let why = error.to_string();
        let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        problems.add(node.place, format!("this is not a regular expression: {why}"), "quote it with ' in YAML");
        return None;
    }
    Some(text)
}

fn read_pointer(text: &str, place: tare_core::config::Place, problems: &mut Problems) -> Option<String> {
    let tildes = text.split('~').skip(1).all(|rest| rest.starts_with('0') || rest.starts_with('1'));
    if (text.is_empty() || text.starts_with('/')) && tildes {
        return Some(text.to_owned());
    }
    let hint = "begin it with '/', such as /items/0/id; ~1 is a '/' in a name and ~0 a '~'";
    problems.add(place, format!("'{text}' is not a JSON pointer"), hint);
    None
}

fn read_json(node: &Node, names: &Names, problems: &mut Problems) -> Vec<(String, Option<String>)> {
    let Some(fields) = Fields::of(node, "json", problems) else { return Vec::new() };
    let mut wanted = Vec::new();
    for (pointer, place, value) in fields.entries() {
        let pointer = read_pointer(pointer, *place, problems);
        let text = if value.is_null() { None } else { Template::read(value, names, problems) };
        wanted.extend(pointer.map(|pointer| (pointer, text)));
    }
    wanted
}

fn read_header_patterns(node: &Node, problems: &mut Problems) -> Vec<(String, String)> {
    let Some(fields) = Fields::of(node, "headers", problems) else { return Vec::new() };
    let read = |(name, _, node): &(String, _, Node)| Some((name.clone(), read_pattern(node, problems)?));
    fields.entries().iter().filter_map(read).collect()
}

pub(super) fn read_captures(node: &Node, problems: &mut Problems) -> Vec<Capture> {
    let Some(fields) = Fields::of(node, "capture", problems) else { return Vec::new() };
    let captures = fields.entries().iter();
    captures.filter_map(|(name, _, node)| read_capture(name, node, problems)).collect()
}

const SOURCES: [&str; 4] = ["json", "regex", "header", "cookie"];

fn read_capture(name: &str, node: &Node, problems: &mut Problems) -> Option<Capture> {
    let mut fields = Fields::of(node, format!("capture '{name}'"), problems)?;
    let given = SOURCES.map(|key| fields.get(key).map(|node| (key, node)));
    let random = fields.choice("pick", &["first", "random"], problems) == Some("random");
    let optional = fields.boolean("optional", problems).unwrap_or(false);
    fields.finish(problems);
    let mut given = given.into_iter().flatten();
    let (Some((key, source)), None) = (given.next(), given.next()) else {
        problems.add(
            node.place,
            format!("capture '{name}' has one of {}", SOURCES.join(", ")),
            "say where it is found",
        );
        return None;
    };
    let source = match key {
        "json" => Source::Json(read_pointer(&source.text(problems)?, source.place, problems)?),
        "regex" => Source::Regex(read_pattern(source, problems)?),
        "header" => Source::Header(source.text(problems)?),
        _ => Source::Cookie(source.text(problems)?),
    };
    Some(Capture { name: name.to_owned(), source, random, optional })
}
