//! The options of a Redis load.

use super::command::COMMANDS;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tare_core::config::{Fields, Node, NodeKind, Problems};

/// The largest key space: keys are written with twelve digits.
const KEYS_MAX: u64 = 100_000_000_000;
/// The most keys that are populated by default.
const POPULATE_UNASKED: u64 = 10_000_000;
/// The largest value; Redis itself accepts 512 MiB, a reply here at most 64 MiB.
const VALUE_MAX: u64 = 16 << 20;
const WEIGHT_MAX: u64 = 1_000_000;

/// The options, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// Weights by command; an absent one is 0.
    pub mix: BTreeMap<String, u64>,
    /// The length of values.
    pub value_bytes: u64,
    /// How many keys operations choose from.
    pub keys: u64,
    /// How many of them are written before the run, from the first on.
    pub populate: u64,
    /// Whether the server's own counts are checked.
    pub verify: bool,
    /// The protocol version: 2, or 3 with a greeting.
    #[serde(default = "oldest")]
    pub resp: u64,
    /// The service with the data, if the loaded one only forwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<String>,
}

fn oldest() -> u64 {
    2
}

/// Checks a user's options.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
    let before = problems.len();
    let mut fields = Fields::of(node, "protocol 'redis'", problems)?;
    let mix = match fields.get("mix") {
        Some(node) => read_mix(node, problems),
        None => BTreeMap::from([("get".to_owned(), 75), ("set".to_owned(), 25)]),
    };
    let value_bytes = read_value_bytes(&mut fields, problems);
    let keys = fields.integer("keys", 1..=KEYS_MAX, problems).unwrap_or(100_000);
    let populate = match fields.get("populate") {
        Some(node) => read_populate(node, keys, problems),
        None if keys <= POPULATE_UNASKED => keys,
        None => 0,
    };
    let verify = fields.boolean("verify", problems).unwrap_or(true);
    let resp = fields.integer("resp", 2..=3, problems).unwrap_or(2);
    let servers = fields.get("servers").map(|node| (node.place, node.text(problems)));
    fields.finish(problems);
    if let Some((place, _)) = servers.as_ref().filter(|_| mix.contains_key("mset")) {
        let message = "a proxy takes MSET apart, and the servers then count more calls than were made";
        problems.add(*place, message, "leave 'mset' out of the mix");
    }
    let servers = servers.and_then(|(_, name)| name);
    let options = Options { mix, value_bytes, keys, populate, verify, resp, servers };
    (problems.len() == before).then_some(options)
}

fn read_value_bytes(fields: &mut Fields<'_>, problems: &mut Problems) -> u64 {
    let Some(node) = fields.get("value_bytes") else { return 64 };
    let bytes = node.bytes(problems).unwrap_or(64);
    if bytes == 0 || bytes > VALUE_MAX {
        problems.add(node.place, format!("a value of {bytes} bytes is out of range"), "from 1 to 16MiB");
    }
    bytes
}

fn read_mix(node: &Node, problems: &mut Problems) -> BTreeMap<String, u64> {
    let Some(fields) = Fields::of(node, "the mix", problems) else { return BTreeMap::new() };
    let known: Vec<_> = COMMANDS.iter().map(|row| row.name).collect();
    let mut mix = BTreeMap::new();
    for (name, place, value) in fields.entries() {
        let weight = value.integer(0..=WEIGHT_MAX, problems);
        if !known.contains(&name.as_str()) {
            Node::unknown(name, *place, "command", &known, problems);
        } else if let Some(weight @ 1..) = weight {
            mix.insert(name.clone(), weight);
        }
    }
    let all_zero = fields.entries().iter().all(|(.., value)| value.integer(0..=0, &mut Problems::default()).is_some());
    if mix.is_empty() && all_zero {
        problems.add(node.place, "the mix holds no command", "write for example {get: 75, set: 25}");
    }
    mix
}

fn read_populate(node: &Node, keys: u64, problems: &mut Problems) -> u64 {
    match &node.kind {
        NodeKind::Scalar { text, .. } if text == "all" => keys,
        NodeKind::Scalar { text, .. } if text == "none" => 0,
        NodeKind::Scalar { text, .. } if text.starts_with(|c: char| c.is_ascii_digit()) => {
            node.integer(0..=keys, problems).unwrap_or(0)
        }
        _ => {
            problems.add(node.place, format!("'populate' cannot be {}", node.describe()), "all, none or how many keys");
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::read_text;

    fn check(text: &str) -> Result<Options, Vec<String>> {
        read_text(read, text)
    }

    #[test]
    fn defaults_are_filled_in() {
        let options = check("mix: {get: 1, set: 0}\n").unwrap();
        assert_eq!(options.mix, BTreeMap::from([("get".to_owned(), 1)]));
        assert_eq!((options.value_bytes, options.keys, options.populate, options.verify), (64, 100_000, 100_000, true));
        assert_eq!(check("keys: 100_000_000_000\n").unwrap().populate, 0, "nobody waits for that unasked");
        assert_eq!(check("{keys: 10, populate: 3, value_bytes: 1KiB}").unwrap().populate, 3);
    }

    #[test]
    fn what_a_proxy_takes_apart_cannot_be_counted() {
        assert_eq!(check("servers: shards\n").unwrap().servers.as_deref(), Some("shards"));
        let found = check("mix: {mset: 1}\nservers: shards\n").unwrap_err();
        assert!(found.len() == 1 && found[0].contains("workload.yaml:2:") && found[0].contains("MSET"), "{found:#?}");
    }

    #[test]
    fn every_mistake_has_its_place() {
        let found =
            check("mix: {gte: 1, set: x}\nkeys: 0\npopulate: some\nvalue_size: 3\nvalue_bytes: 1GiB\n").unwrap_err();
        let expected = [(1, "did you mean 'get'"), (1, "whole number"), (2, "from 1 to"), (3, "all, none")];
        for (line, text) in expected.into_iter().chain([(4, "did you mean 'value_bytes'"), (5, "16MiB")]) {
            let place = format!("workload.yaml:{line}:");
            assert!(found.iter().any(|f| f.contains(&place) && f.contains(text)), "{line} {text}: {found:#?}");
        }
        assert_eq!(found.len(), 6, "{found:#?}");
        assert!(check("mix: {get: 0}\n").unwrap_err()[0].contains("no command"));
        assert!(check("mix: {}\n").unwrap_err()[0].contains("no command"));
        assert!(check("{keys: 5, populate: 6}").unwrap_err()[0].contains("out of range"));
    }
}
