//! Reads one request of a script.

use super::body::{Body, read_body};
use super::expect::{Capture, Expect, read_captures, read_expect};
use super::set::{Setting, read_settings};
use super::{Defaults, Headers, read_headers};
use crate::script::{Names, Template};
use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, NodeKind, Problems};

/// The keys of methods, and the methods they stand for.
const METHODS: [(&str, &str); 7] = [
    ("get", "GET"),
    ("head", "HEAD"),
    ("post", "POST"),
    ("put", "PUT"),
    ("patch", "PATCH"),
    ("delete", "DELETE"),
    ("options", "OPTIONS"),
];
/// More requests than any operation has.
const REQUESTS_MAX: usize = 1000;
/// The most embedded resources of one page.
const EMBEDDED_MAX: u64 = 1000;

/// How many redirects are followed.
pub(in super::super) type Redirects = u8;

/// A request, the expected reply, and what is done with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Request {
    /// Its name in counts: method and path, unless one is given.
    pub name: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Further headers; they are sent before those of every request.
    pub headers: Headers,
    /// The body.
    pub body: Body,
    /// What a right reply is.
    pub expect: Expect,
    /// What is computed before it is sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<Setting>,
    /// What is captured from the reply.
    pub captures: Vec<Capture>,
    /// How many redirects are followed; with 0 a redirect is the reply.
    pub redirects: Redirects,
    /// What a browser would fetch for this page.
    pub embedded: Vec<Embedded>,
    /// What a user does with an embedded resource fetched before.
    pub cache: Cache,
    /// Whether the user forgets cookies and cache before it.
    pub forget: bool,
    /// Sent with this probability, in millionths.
    pub chance: u32,
    /// Sent only if this variable has a value.
    pub when: Option<String>,
    /// Sent only if this variable has no value.
    pub unless: Option<String>,
}

/// Certain, in millionths.
pub(in super::super) const CERTAIN: u32 = 1_000_000;

impl Request {
    /// Whether it is sent only under some condition.
    pub(in super::super) fn is_conditional(&self) -> bool {
        self.chance < CERTAIN || self.when.is_some() || self.unless.is_some()
    }
}

/// What a browser would fetch for a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(in super::super) enum Embedded {
    /// A path.
    Path(String),
    /// What the first group of an expression finds in the page, up to a maximum.
    Find {
        /// The expression.
        pattern: String,
        /// The maximum.
        max: u64,
        /// What is appended to each, such as the wanted size.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        suffix: String,
    },
}

/// What a user does with an embedded resource fetched before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Cache {
    /// Asks whether it has changed.
    #[default]
    Revalidate,
    /// Does not ask again.
    Keep,
    /// Fetches it again.
    Off,
}

pub(super) fn read_requests(list: &Node, defaults: &Defaults, names: &Names, problems: &mut Problems) -> Vec<Request> {
    let items = list.items(problems).unwrap_or_default();
    if items.is_empty() {
        problems.add(list.place, "there is no request", "add '- get: /'");
    }
    if items.len() > REQUESTS_MAX {
        problems.add(list.place, format!("{} requests are too many", items.len()), format!("at most {REQUESTS_MAX}"));
    }
    let mut requests = Vec::new();
    for item in items {
        let Some(mut fields) = Fields::of(item, "a request", problems) else { continue };
        requests.extend(read_request(&mut fields, defaults, names, problems));
        fields.finish(problems);
    }
    requests
}

/// Reads a request from the fields of a map that may have other fields as well.
pub(super) fn read_request(
    fields: &mut Fields<'_>,
    defaults: &Defaults,
    names: &Names,
    problems: &mut Problems,
) -> Option<Request> {
    let target = read_target(fields, problems);
    let body = read_body(fields, names, problems);
    let headers = fields.get("headers").map(|node| read_headers(node, names, problems)).unwrap_or_default();
    let expect = read_expect(fields, names, problems);
    let captures = fields.get("capture").map(|node| read_captures(node, problems)).unwrap_or_default();
    let sets = fields.get("set").map(|node| read_settings(node, names, problems)).unwrap_or_default();
    let redirects = read_redirects(fields, problems).unwrap_or(defaults.redirects);
    let embedded = fields.get("embedded").map(|node| read_embedded(node, names, problems)).unwrap_or_default();
    let cache = read_cache(fields, problems).unwrap_or(defaults.cache);
    let forget = fields.boolean("forget", problems).unwrap_or(false);
    let chance = fields.get("chance").and_then(|node| node.percent(problems)).unwrap_or(1.0);
    let when = read_variable(fields, "when", names, problems);
    let unless = read_variable(fields, "unless", names, problems);
    let name = fields.text("name", problems);
    let (method, node) = target?;
    let path = read_path(node, names, problems)?;
    let method = match method {
        Some(method) => method,
        None if body == Body::None => "GET",
        None => "POST",
    };
    let name = name.unwrap_or_else(|| format!("{method} {path}"));
    Some(Request {
        name,
        method: method.to_owned(),
        path,
        headers,
        body,
        expect,
        sets,
        captures,
        redirects,
        embedded,
        cache,
        forget,
        chance: (chance.clamp(0.0, 1.0) * f64::from(CERTAIN)).round() as u32,
        when,
        unless,
    })
}

/// Reads the method, unless it follows from the body, and the path: `get: /`, or `method: GET` and `path: /`.
fn read_target<'n>(fields: &mut Fields<'n>, problems: &mut Problems) -> Option<(Option<&'static str>, &'n Node)> {
    let known = METHODS.map(|(_, method)| method);
    let given: Vec<_> =
        METHODS.iter().filter_map(|(key, method)| fields.get(key).map(|node| (Some(*method), node))).collect();
    let method = fields.choice("method", &known, problems);
    let path = fields.get("path").map(|node| (method, node));
    let mut given = given.into_iter().chain(path);
    let Some(first) = given.next() else {
        problems.add(fields.place(), "a request has no path", "add 'get: /' or 'path: /'");
        return None;
    };
    if let Some((_, second)) = given.next() {
        problems.add(second.place, "a request has one method and one path, here is a second", "keep one of them");
    }
    if let (None, Some(_), Some(_)) = (path, method, first.0) {
        problems.add(first.1.place, "the method is given twice", "leave 'method' out");
    }
    Some(first)
}

fn read_path(node: &Node, names: &Names, problems: &mut Problems) -> Option<String> {
    let path = Template::read(node, names, problems)?;
    if (path.starts_with('/') || path.starts_with("${")) && path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(path);
    }
    let hint = "begin it with '/', and write %20 for a space and the like";
    problems.add(node.place, format!("{} is not the path of a request", node.describe()), hint);
    None
}

pub(super) fn read_redirects(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Redirects> {
    fields.integer("redirects", 0..=50, problems).map(|count| count as Redirects)
}

pub(super) fn read_cache(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Cache> {
    match fields.choice("cache", &["revalidate", "keep", "off"], problems)? {
        "keep" => Some(Cache::Keep),
        "off" => Some(Cache::Off),
        _ => Some(Cache::Revalidate),
    }
}

fn read_variable(fields: &mut Fields<'_>, key: &'static str, names: &Names, problems: &mut Problems) -> Option<String> {
    let node = fields.get(key)?;
    let name = node.text(problems)?;
    if names.slot(&name).is_none() {
        Node::unknown(&name, node.place, "variable", &names.known(), problems);
    }
    Some(name)
}

/// Reads a list, or a map whose keys are only for the reader.
fn read_embedded(node: &Node, names: &Names, problems: &mut Problems) -> Vec<Embedded> {
    let nodes: Vec<&Node> = match &node.kind {
        NodeKind::Map(entries) => entries.iter().map(|(.., node)| node).collect(),
        _ => node.items(problems).unwrap_or_default().iter().collect(),
    };
    let mut embedded = Vec::new();
    for node in nodes {
        if let NodeKind::Map(_) = &node.kind {
            let Some(mut fields) = Fields::of(node, "an embedded resource", problems) else { continue };
            let pattern = fields.require("find", problems);
            let pattern = pattern.and_then(|node| super::expect::read_pattern(node, problems));
            let max = fields.integer("max", 1..=EMBEDDED_MAX, problems).unwrap_or(EMBEDDED_MAX);
            let suffix = fields.text("suffix", problems).unwrap_or_default();
            fields.finish(problems);
            embedded.extend(pattern.map(|pattern| Embedded::Find { pattern, max, suffix }));
        } else {
            embedded.extend(read_path(node, names, problems).map(Embedded::Path));
        }
    }
    if embedded.len() as u64 > EMBEDDED_MAX {
        problems.add(node.place, "these are too many for one page", format!("at most {EMBEDDED_MAX}"));
    }
    embedded
}
