//! The options of an HTTP load: defined here, read by the other files of this folder.

mod body;
mod expect;
mod operation;
mod request;
mod set;
mod verify;

pub(super) use body::{Body, Content, Part};
pub(super) use expect::{Capture, Expect, Source, random_member};
pub(super) use operation::Operation;
pub(super) use request::{CERTAIN, Cache, Embedded, Redirects, Request};
pub(super) use set::Setting;
pub(super) use verify::Question;

use super::super::REPLY_MAX;
use crate::protocol::tls::{TlsOptions, read_tls};
use crate::script::{FeedSpecs, Names, Template, read_feeds};
use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, Problems};

/// The default of [`Options::body_max`]: 1 MiB.
const BODY_MAX: u64 = 1 << 20;

/// Names and values of headers, in the order of the file.
pub(super) type Headers = Vec<(String, String)>;

/// The options, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// How connections are secured; none means plain.
    pub tls: Option<TlsOptions>,
    /// Headers of every request.
    pub headers: Headers,
    /// Whether users keep cookies.
    pub cookies: bool,
    /// The longest body that is kept for captures and checks that need all of it, bytes; a longer one is a failure.
    pub body_max: u64,
    /// Where values come from.
    pub feeds: FeedSpecs,
    /// Variables that no request sets or captures: users get their values from companions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// The operations.
    pub operations: Vec<Operation>,
    /// The questions asked after a run, to services that are not loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<Question>,
}

impl Options {
    /// The names of all variables: of the feeds, and of what is set and captured.
    pub(super) fn names(&self) -> Names {
        let mut names = Names::new(&self.feeds);
        for name in &self.variables {
            names.declare(name).expect("it was declared when the options were read");
        }
        for request in self.operations.iter().flat_map(|operation| &operation.requests) {
            let set = request.sets.iter().map(|setting| &setting.name);
            for name in set.chain(request.captures.iter().map(|capture| &capture.name)) {
                names.declare(name).expect("it was declared when the options were read");
            }
        }
        names
    }
}

/// The defaults for every request.
struct Defaults {
    redirects: Redirects,
    cache: Cache,
}

/// Checks a user's options.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
    let before = problems.len();
    let mut fields = Fields::of(node, "protocol 'http'", problems)?;
    let tls = fields.get("tls").and_then(|node| read_tls(node, problems));
    let cookies = fields.boolean("cookies", problems).unwrap_or(true);
    let body_max_node = fields.get("body_max");
    let body_max = body_max_node.and_then(|node| node.bytes(problems)).unwrap_or(BODY_MAX);
    if let Some(node) = body_max_node.filter(|_| body_max > REPLY_MAX) {
        problems.add(node.place, "this is more than a reply may have", "at most 64MiB");
    }
    let feeds = fields.get("feeds").map(|node| read_feeds(node, problems)).unwrap_or_default();
    let defaults = Defaults {
        redirects: request::read_redirects(&mut fields, problems).unwrap_or_default(),
        cache: request::read_cache(&mut fields, problems).unwrap_or_default(),
    };
    let (script, list) = (fields.get("operations"), fields.get("requests"));
    let (headers, told) = (fields.get("headers"), fields.get("variables"));
    let verify = fields.get("verify").map(|node| verify::read_questions(node, problems)).unwrap_or_default();
    fields.finish(problems);
    let mut names = Names::new(&feeds);
    let mut variables = Vec::new();
    for node in told.and_then(|node| node.items(problems)).unwrap_or_default() {
        let Some(name) = node.text(problems) else { continue };
        match names.declare(&name) {
            Ok(_) => variables.push(name),
            Err(message) => problems.add(node.place, message, "give it another name"),
        }
    }
    [script, list].into_iter().flatten().for_each(|node| expect::declare(node, &mut names, problems));
    let headers = headers.map(|node| read_headers(node, &names, problems)).unwrap_or_default();
    let operations = match (script, list) {
        (Some(script), None) => operation::read_operations(script, &defaults, &names, problems),
        (None, Some(list)) => operation::read_list(list, &defaults, &names, problems),
        (Some(_), Some(list)) => {
            problems.add(list.place, "there are both 'operations' and 'requests'", "keep one of them");
            Vec::new()
        }
        (None, None) => {
            problems.add(node.place, "protocol 'http' has no 'requests' and no 'operations'", "add 'requests:' here");
            Vec::new()
        }
    };
    let options = Options { tls, headers, cookies, body_max, feeds, variables, operations, verify };
    (problems.len() == before).then_some(options)
}

/// Headers that the generator writes itself.
const OWN_HEADERS: [&str; 6] =
    ["content-length", "transfer-encoding", "connection", "cookie", "if-none-match", "if-modified-since"];

fn read_headers(node: &Node, names: &Names, problems: &mut Problems) -> Headers {
    let Some(fields) = Fields::of(node, "headers", problems) else { return Headers::new() };
    let mut headers = Headers::new();
    for (name, place, value) in fields.entries() {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            problems.add(*place, format!("'{name}' cannot name a header"), "use letters, digits and '-'");
        }
        if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            problems.add(*place, format!("'{name}' is set by the load generator itself"), "leave it out");
        }
        let Some(text) = Template::read(value, names, problems) else { continue };
        if text.contains(['\r', '\n', '\0']) {
            problems.add(value.place, "a header's value is one line", "");
        }
        headers.push((name.clone(), text));
    }
    headers
}

#[cfg(test)]
pub(super) mod tests;
