//! What a workload may say about its HTTP load.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tare_core::config::{Fields, Node, Problems};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// The options, every default filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// What is asked.
    pub requests: Vec<Request>,
}

/// A request and what is to come back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// The operation's name in the record.
    pub name: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body; empty is none.
    pub body: String,
    /// Further headers.
    pub headers: BTreeMap<String, String>,
    /// How often it is drawn, against the others' weights.
    pub weight: u64,
    /// The status that is right.
    pub status: u16,
    /// A text that must be in the body.
    pub contains: Option<String>,
}

/// Checks a user's options and writes them down.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<serde_json::Value> {
    let before = problems.len();
    let mut fields = Fields::of(node, "protocol 'http'", problems)?;
    let list = fields.require("requests", problems);
    fields.finish(problems);
    let items = list.and_then(|list| list.items(problems)).unwrap_or_default();
    if let (Some(list), true) = (list, items.is_empty() && problems.len() == before) {
        problems.add(list.place, "there is no request", "add '- path: /'");
    }
    if let (Some(list), true) = (list, items.len() > 1000) {
        problems.add(list.place, format!("{} requests are too many", items.len()), "at most 1000");
    }
    let mut requests: Vec<Request> = Vec::new();
    for item in items {
        let Some(request) = read_request(item, problems) else { continue };
        if requests.iter().any(|other| other.name == request.name) {
            problems.add(item.place, format!("there are two requests named '{}'", request.name), "give one a 'name'");
        }
        requests.push(request);
    }
    let options = Options { requests };
    (problems.len() == before).then(|| serde_json::to_value(options).expect("plain data"))
}

fn read_request(node: &Node, problems: &mut Problems) -> Option<Request> {
    let mut fields = Fields::of(node, "a request", problems)?;
    let path = fields.require("path", problems).and_then(|node| read_path(node, problems));
    let body = fields.text("body", problems).unwrap_or_default();
    let method = fields.choice("method", &METHODS, problems);
    let method = method.unwrap_or(if body.is_empty() { "GET" } else { "POST" }).to_owned();
    let headers = fields.get("headers").map(|node| read_headers(node, problems)).unwrap_or_default();
    let weight = fields.integer("weight", 1..=1_000_000, problems).unwrap_or(1);
    let status = fields.integer("status", 200..=599, problems).unwrap_or(200) as u16;
    let contains = fields.text("contains", problems);
    let name = fields.text("name", problems);
    fields.finish(problems);
    let path = path?;
    let name = name.unwrap_or_else(|| format!("{method} {path}"));
    Some(Request { name, method, path, body, headers, weight, status, contains })
}

fn read_path(node: &Node, problems: &mut Problems) -> Option<String> {
    let path = node.text(problems)?;
    if path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(path);
    }
    let hint = "begin it with '/', and write %20 for a space and the like";
    problems.add(node.place, format!("{} is not the path of a request", node.describe()), hint);
    None
}

fn read_headers(node: &Node, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(fields) = Fields::of(node, "headers", problems) else { return BTreeMap::new() };
    let mut headers = BTreeMap::new();
    for (name, place, value) in fields.entries() {
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            problems.add(*place, format!("'{name}' cannot name a header"), "use letters, digits and '-'");
        }
        if ["content-length", "transfer-encoding", "connection"].contains(&name.to_ascii_lowercase().as_str()) {
            problems.add(*place, format!("'{name}' is set by the load generator itself"), "leave it out");
        }
        let Some(text) = value.text(problems) else { continue };
        if text.contains(['\r', '\n', '\0']) {
            problems.add(value.place, "a header's value is one line", "");
        }
        headers.insert(name.clone(), text);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Options, Vec<String>> {
        let mut problems = Problems::new("workload.yaml", text);
        let node = tare_core::config::parse(text, &mut problems).unwrap();
        match read(&node, &mut problems) {
            Some(options) => Ok(serde_json::from_value(options).unwrap()),
            None => Err(problems.into_vec().iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn defaults_are_filled_in() {
        let found = check("requests:\n- path: /\n- {path: /a, body: x, weight: 3, headers: {Accept: text/html}}\n");
        let found = found.unwrap().requests;
        assert_eq!((found[0].name.as_str(), found[0].status, found[0].weight), ("GET /", 200, 1));
        assert_eq!((found[1].name.as_str(), found[1].weight), ("POST /a", 3));
    }

    #[test]
    fn every_mistake_has_its_place() {
        let text = "requests:\n- path: a b\n- {path: /, method: GTE}\n- {path: /, staus: 3}\n- {path: /x, headers: {A B: 1}}\n";
        let found = check(text).unwrap_err();
        let expected = [(2, "begin it"), (3, "did you mean 'GET'"), (4, "did you mean 'status'"), (5, "cannot name")];
        for (line, text) in expected.into_iter().chain([(4, "two requests named 'GET /'")]) {
            let place = format!("workload.yaml:{line}:");
            assert!(found.iter().any(|f| f.contains(&place) && f.contains(text)), "{line} {text}: {found:#?}");
        }
        assert!(check("{}").unwrap_err()[0].contains("no 'requests'"));
        assert!(check("requests: []").unwrap_err()[0].contains("no request"));
    }
}
