//! Reads what a workload says about a database. Every mistake is reported with its place.

use super::dialect::Dialect;
use super::read_steps::Scripts;
use super::spec::{GrowthSpec, InvariantSpec, OperationSpec, Options, PopulateSpec, VerifySpec};
use crate::protocol::tls::read_tls;
use crate::script::read_feeds;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tare_core::config::{Fields, Node, Problems};

/// The default limit on how often a transaction is begun.
const TRIES: u64 = 10;
const WEIGHT_MAX: u64 = 1_000_000;
const OPERATIONS_MAX: usize = 1000;
/// A table of more rows than this takes days to write.
const ROWS_MAX: u64 = 10_000_000_000;

/// Checks a user's options.
pub(super) fn read(dialect: &Dialect, node: &Node, problems: &mut Problems) -> Option<Options> {
    let before = problems.len();
    let mut fields = Fields::of(node, format!("protocol '{}'", dialect.protocol), problems)?;
    let user = text(&mut fields, "user", dialect.user, problems);
    let password = text(&mut fields, "password", "", problems);
    let database = text(&mut fields, "database", dialect.database, problems);
    let socket = fields.get("socket").and_then(|node| read_socket(node, problems));
    let tls_node = fields.get("tls");
    let tls = tls_node.and_then(|node| read_tls(node, problems));
    if let (Some(node), Some(_)) = (tls_node, &socket) {
        problems.add(node.place, "a UNIX socket needs no TLS", "leave one of them out");
    }
    let feeds = fields.get("feeds").map(|node| read_feeds(node, problems)).unwrap_or_default();
    let mut scripts = Scripts::new(dialect, &feeds);
    let operations = match fields.require("operations", problems) {
        Some(node) => read_operations(node, &mut scripts, problems),
        None => Vec::new(),
    };
    let populate = fields.get("populate").map(|node| read_populate(node, &mut scripts, problems)).unwrap_or_default();
    let verify = match fields.get("verify") {
        Some(node) => read_verify(node, &operations, problems),
        None => VerifySpec { server: true, ..VerifySpec::default() },
    };
    fields.finish(problems);
    scripts.finish(problems);
    let options = Options { user, password, database, socket, tls, feeds, operations, populate, verify };
    (problems.len() == before).then_some(options)
}

/// An optional text for a message of the protocol, in which NUL ends a text. Passwords are prepared by rules (RFC 4013)
/// that leave printable ASCII unchanged, so nothing else is accepted.
fn text(fields: &mut Fields<'_>, name: &'static str, default: &str, problems: &mut Problems) -> String {
    let Some(node) = fields.get(name) else { return default.to_owned() };
    let text = node.text(problems).unwrap_or_default();
    if !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        problems.add(node.place, format!("'{name}' has characters other than printable ASCII"), "choose another one");
    }
    text
}

fn read_socket(node: &Node, problems: &mut Problems) -> Option<PathBuf> {
    let text = node.text(problems)?;
    // The kernel's own limit, including the NUL at the end.
    if text.starts_with('/') && text.len() < 108 {
        return Some(PathBuf::from(text));
    }
    problems.add(node.place, "this is not the path of a socket", "an absolute path of at most 107 bytes is wanted");
    None
}

fn read_operations(node: &Node, scripts: &mut Scripts<'_>, problems: &mut Problems) -> Vec<OperationSpec> {
    let Some(fields) = Fields::of(node, "operations", problems) else { return Vec::new() };
    if fields.entries().is_empty() || fields.entries().len() > OPERATIONS_MAX {
        let hint = "add 'name: {script: [...]}'";
        problems.add(node.place, format!("from 1 to {OPERATIONS_MAX} operations are wanted"), hint);
    }
    let mut operations = Vec::new();
    for (name, place, node) in fields.entries() {
        if name.is_empty() || name.len() > 60 || name.chars().any(char::is_control) {
            problems.add(*place, "this cannot name an operation", "use a short word");
        }
        let Some(mut fields) = Fields::of(node, format!("operation '{name}'"), problems) else { continue };
        let weight = fields.integer("weight", 0..=WEIGHT_MAX, problems).unwrap_or(1);
        let tries = fields.integer("tries", 1..=10_000, problems).unwrap_or(TRIES) as u16;
        let script = fields.require("script", problems).map(|node| scripts.script(node, problems));
        fields.finish(problems);
        operations.push(OperationSpec { name: name.clone(), weight, tries, script: script.unwrap_or_default() });
    }
    if !operations.is_empty() && operations.iter().all(|operation| operation.weight == 0) {
        problems.add(node.place, "every operation has weight 0", "give one of them a weight");
    }
    operations
}

fn read_populate(node: &Node, scripts: &mut Scripts<'_>, problems: &mut Problems) -> Vec<PopulateSpec> {
    let mut steps = Vec::new();
    for item in node.items(problems).unwrap_or_default() {
        let Some(mut fields) = Fields::of(item, "a step of 'populate'", problems) else { continue };
        if let Some(node) = fields.get("sql") {
            for item in node.items(problems).unwrap_or_default() {
                steps.extend(item.text(problems).map(PopulateSpec::Sql));
            }
        } else {
            let table = fields.require("table", problems).and_then(|node| scripts.identifier(node, problems));
            let count = fields.require("rows", problems).and_then(|node| node.integer(1..=ROWS_MAX, problems));
            let columns = fields.require("columns", problems).map(|node| scripts.columns(node, problems));
            if let (Some(table), Some(count), Some(columns)) = (table, count, columns) {
                steps.push(PopulateSpec::Rows { table, count, columns });
            }
        }
        fields.finish(problems);
    }
    steps
}

fn read_verify(node: &Node, operations: &[OperationSpec], problems: &mut Problems) -> VerifySpec {
    let Some(mut fields) = Fields::of(node, "verify", problems) else { return VerifySpec::default() };
    let rows = fields.get("rows").map(|node| read_rows(node, problems)).unwrap_or_default();
    let invariants = each(&mut fields, "invariants", "an invariant", problems, |fields, problems| {
        let is = fields.require_text("is", problems);
        let (name, sql) = read_question(fields, problems)?;
        Some(InvariantSpec { name, sql, is: is? })
    });
    let growth = each(&mut fields, "growth", "a check of growth", problems, |fields, problems| {
        let by = fields.require("by", problems).map(|node| read_names(node, operations, problems));
        let (name, sql) = read_question(fields, problems)?;
        Some(GrowthSpec { name, sql, by: by? })
    });
    let server = fields.boolean("server", problems).unwrap_or(true);
    fields.finish(problems);
    VerifySpec { rows, invariants, growth, server }
}

fn read_rows(node: &Node, problems: &mut Problems) -> BTreeMap<String, u64> {
    let Some(fields) = Fields::of(node, "rows", problems) else { return BTreeMap::new() };
    let mut rows = BTreeMap::new();
    for (table, place, node) in fields.entries() {
        if !super::read_steps::is_identifier(table) {
            problems.add(*place, format!("'{table}' cannot name a table"), super::read_steps::IDENTIFIER_HINT);
        }
        rows.extend(node.integer(0..=u64::MAX, problems).map(|count| (table.clone(), count)));
    }
    rows
}

/// The items of an optional list, each a map read by `read`.
fn each<T>(
    fields: &mut Fields<'_>,
    name: &'static str,
    what: &str,
    problems: &mut Problems,
    read: impl Fn(&mut Fields<'_>, &mut Problems) -> Option<T>,
) -> Vec<T> {
    let Some(node) = fields.get(name) else { return Vec::new() };
    let mut found = Vec::new();
    for item in node.items(problems).unwrap_or_default() {
        let Some(mut fields) = Fields::of(item, what, problems) else { continue };
        found.extend(read(&mut fields, problems));
        fields.finish(problems);
    }
    found
}

fn read_question(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<(String, String)> {
    let name = fields.require_text("name", problems);
    let sql = fields.require_text("sql", problems);
    Some((name?, sql?))
}

fn read_names(node: &Node, operations: &[OperationSpec], problems: &mut Problems) -> Vec<String> {
    let known: Vec<&str> = operations.iter().map(|operation| operation.name.as_str()).collect();
    let mut names = Vec::new();
    for item in node.items(problems).unwrap_or_default() {
        let Some(name) = item.text(problems) else { continue };
        if !known.contains(&name.as_str()) {
            Node::unknown(&name, item.place, "operation", &known, problems);
        }
        names.push(name);
    }
    names
}
