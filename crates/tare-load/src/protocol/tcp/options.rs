//! The options of requests and replies.

use super::exchange::{Bytes, Exchange, Sent, Until};
use super::peer::{MEGABYTE, Test};
use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, NodeKind, Problems};

const REPLY_BYTES_MAX: u64 = super::REPLY_MAX;

/// The options, every default filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The requests.
    pub requests: Vec<Exchange>,
    /// What is sent once, each over a connection of its own, to write the data set.
    pub populate: Vec<Exchange>,
    /// Whether each operation makes a connection of its own.
    #[serde(default)]
    pub fresh: bool,
    /// What is sent when a connection is established, to ask for a stream; not part of any operation.
    #[serde(default)]
    pub open_with: Option<Bytes>,
    /// Whether the other side is `tare peer`, whose counts are compared with ours.
    #[serde(default)]
    pub peer: bool,
    /// The options set on sockets.
    #[serde(default)]
    pub sockets: Sockets,
}

/// The options set on sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sockets {
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `SO_SNDBUF`, bytes.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF`, bytes.
    pub receive_buffer: Option<u32>,
}

impl Default for Sockets {
    fn default() -> Self {
        Sockets { nodelay: true, send_buffer: None, receive_buffer: None }
    }
}

/// The sizes of a socket's buffer that may be requested, bytes. The actual size is in the record.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

/// Checks a user's options: one exchange, a list of them under `requests`, a `stream`, or a test against a `peer`.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
    let before = problems.len();
    let mut fields = Fields::of(node, "protocol 'tcp'", problems)?;
    let sockets = read_sockets(&mut fields, problems);
    let test = fields.choice("peer", &Test::NAMES, problems).and_then(Test::named);
    let chunk = fields.get("chunk");
    if fields.get("peer").is_some() {
        let chunk = chunk.map_or(Some(MEGABYTE), |node| read_size(node, problems));
        refuse_beside_peer(node, problems);
        let (test, chunk) = (test?, chunk?);
        let options = Options {
            requests: vec![test.exchange(chunk)],
            populate: Vec::new(),
            fresh: test == Test::Connect,
            open_with: Some(test.line()),
            peer: true,
            sockets,
        };
        return (problems.len() == before).then_some(options);
    }
    if let Some(node) = chunk {
        let hint = "write 'stream: {send: 1MB}', or name a test against 'peer'";
        problems.add(node.place, "a chunk without 'peer' is part of 'stream'", hint);
    }
    let populate = fields.get("populate").map(|node| read_list(node, "populate", problems)).unwrap_or_default();
    let fresh = fields.choice("connect", &["once", "each"], problems) == Some("each");
    let open_with = fields.get("open_with").and_then(|node| read_bytes(node, problems));
    let requests = match (fields.get("requests"), fields.get("stream")) {
        (Some(node), None) => read_list(node, "request", problems),
        (None, Some(node)) => read_stream(node, problems).into_iter().collect(),
        (Some(_), Some(node)) => {
            problems.add(node.place, "a workload has either requests or a stream, not both", "keep one of them");
            Vec::new()
        }
        (None, None) => {
            let one = read_exchange(&mut fields, "request".to_owned(), problems);
            one.into_iter().collect()
        }
    };
    fields.finish(problems);
    if let (true, Some(first)) = (requests.is_empty() && problems.len() == before, node_of(node, "requests")) {
        problems.add(first.place, "there is no request", "add '- request: ...'");
    }
    let options = Options { requests, populate, fresh, open_with, peer: false, sockets };
    (problems.len() == before).then_some(options)
}

/// Refuses other fields beside `peer`, because the test determines what is exchanged.
fn refuse_beside_peer(node: &Node, problems: &mut Problems) {
    let NodeKind::Map(entries) = &node.kind else { return };
    let known = ["peer", "chunk", "nodelay", "send_buffer", "receive_buffer"];
    for (key, place, _) in entries.iter().filter(|(key, ..)| !known.contains(&key.as_str())) {
        let message = format!("'{key}' does not stand beside 'peer', from which follows what is exchanged");
        problems.add_unknown(*place, message, key, &known);
    }
}

fn read_sockets(fields: &mut Fields<'_>, problems: &mut Problems) -> Sockets {
    let nodelay = fields.boolean("nodelay", problems).unwrap_or(true);
    let mut buffer = |name| {
        let node = fields.get(name)?;
        if matches!(&node.kind, NodeKind::Scalar { text, .. } if text == "auto") {
            return None;
        }
        let bytes = node.bytes(problems)?;
        if !BUFFER_BYTES.contains(&bytes) {
            problems.add(node.place, format!("{bytes} bytes are out of range"), "from 4KiB to 1GiB");
        }
        u32::try_from(bytes).ok()
    };
    Sockets { nodelay, send_buffer: buffer("send_buffer"), receive_buffer: buffer("receive_buffer") }
}

fn node_of<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().find(|(key, ..)| key == name).map(|(.., node)| node),
        _ => None,
    }
}

fn read_list(node: &Node, what: &str, problems: &mut Problems) -> Vec<Exchange> {
    let items = node.items(problems).unwrap_or_default();
    if items.len() > 1000 {
        problems.add(node.place, format!("{} requests are too many", items.len()), "at most 1000");
        return Vec::new();
    }
    let mut names = std::collections::BTreeSet::new();
    let mut exchanges = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let name = if items.len() == 1 { what.to_owned() } else { format!("{what}-{}", number + 1) };
        let Some(mut fields) = Fields::of(item, "a request", problems) else { continue };
        let exchange = read_exchange(&mut fields, name, problems);
        fields.finish(problems);
        if let Some(exchange) = exchange {
            if !names.insert(exchange.name.clone()) {
                problems.add(item.place, format!("there are two requests named '{}'", exchange.name), "rename one");
            }
            exchanges.push(exchange);
        }
    }
    exchanges
}

fn read_exchange(fields: &mut Fields<'_>, name: String, problems: &mut Problems) -> Option<Exchange> {
    let name = fields.text("name", problems).unwrap_or(name);
    let weight = fields.integer("weight", 1..=1_000_000, problems).unwrap_or(1);
    let hex = fields.get("hex");
    let request = match hex {
        Some(node) => read_hex(node, problems).map(Sent::Text),
        None => fields.require("request", problems).and_then(|node| read_request(node, problems)),
    };
    if let (Some(node), Some(_)) = (hex, fields.get("request")) {
        problems.add(node.place, "a request is written either as 'request' or as 'hex', not both", "keep one of them");
    }
    let reply = fields.require("reply", problems).and_then(|node| read_reply(node, problems));
    let expect = match fields.get("expect") {
        Some(node) => Some(read_bytes(node, problems)?),
        None => None,
    };
    Some(Exchange { name, weight, request: request?, reply: reply?, expect })
}

fn read_reply(node: &Node, problems: &mut Problems) -> Option<Until> {
    let (kind, place, value) = node.kind("the reply's end", problems)?;
    match kind {
        "until" => read_bytes(value, problems).map(Until::Until),
        "bytes" => read_size(value, problems).map(Until::Bytes),
        other => {
            Node::unknown(other, place, "end of a reply", &["until", "bytes"], problems);
            None
        }
    }
}

/// Reads a request: a text, or its length.
fn read_request(node: &Node, problems: &mut Problems) -> Option<Sent> {
    if let NodeKind::Scalar { .. } = node.kind {
        return read_bytes(node, problems).map(Sent::Text);
    }
    let (kind, place, value) = node.kind("a request", problems)?;
    if kind != "bytes" {
        Node::unknown(kind, place, "way to write a request", &["bytes"], problems);
        return None;
    }
    read_size(value, problems).map(Sent::Filler)
}

fn read_size(node: &Node, problems: &mut Problems) -> Option<u64> {
    let bytes = node.bytes(problems)?;
    if (1..=REPLY_BYTES_MAX).contains(&bytes) {
        return Some(bytes);
    }
    problems.add(node.place, format!("{bytes} bytes are out of range"), "from 1 to 64MiB");
    None
}

/// Reads a stream: an operation is a chunk of it, sent, received, or sent and received again.
fn read_stream(node: &Node, problems: &mut Problems) -> Option<Exchange> {
    let (kind, place, value) = node.kind("a stream's direction", problems)?;
    if !["send", "receive", "both"].contains(&kind) {
        Node::unknown(kind, place, "direction of a stream", &["send", "receive", "both"], problems);
        return None;
    }
    let chunk = read_size(value, problems)?;
    let (sent, received) = (if kind == "receive" { 0 } else { chunk }, if kind == "send" { 0 } else { chunk });
    let (name, request, reply) = (kind.to_owned(), Sent::Filler(sent), Until::Bytes(received));
    Some(Exchange { name, weight: 1, request, reply, expect: None })
}

fn read_bytes(node: &Node, problems: &mut Problems) -> Option<Bytes> {
    let text = node.text(problems)?;
    match Bytes::try_from(text) {
        Ok(bytes) if bytes.0.is_empty() => {
            problems.add(node.place, "this text is empty", "write at least one character");
            None
        }
        Ok(bytes) => Some(bytes),
        Err(message) => {
            problems.add(node.place, message, r"known are \r \n \t \0 \\ and \x41");
            None
        }
    }
}

fn read_hex(node: &Node, problems: &mut Problems) -> Option<Bytes> {
    let text: String = node.text(problems)?.split_whitespace().collect();
    let byte = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    let bytes = bytes.filter(|bytes| !bytes.is_empty()).map(Bytes);
    if bytes.is_none() {
        problems.add(node.place, "these are no hexadecimal bytes", "write two digits for each byte, such as 0d 0a");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::read_text;

    fn check(text: &str) -> Result<Options, Vec<String>> {
        read_text(read, text)
    }

    #[test]
    fn one_request_or_several() {
        let one = check("request: 'version\\r\\n'\nreply: {until: \"\\r\\n\"}\nexpect: VERSION\n").unwrap();
        assert_eq!(one.requests[0].request, Sent::Text(Bytes(b"version\r\n".to_vec())));
        assert_eq!(one.requests[0].reply, Until::Until(Bytes(b"\r\n".to_vec())));
        let two = check(
            "requests:\n- {hex: 00 ff, reply: {bytes: 4}}\n- {name: b, request: x, reply: {bytes: 1}, weight: 3}",
        );
        let two = two.unwrap().requests;
        assert_eq!((two[0].name.as_str(), two[1].weight), ("request-1", 3));
        assert_eq!(two[0].request, Sent::Text(Bytes(vec![0, 255])));
    }

    #[test]
    fn sizes_and_streams() {
        let sized = check("{request: {bytes: 1KiB}, reply: {bytes: 64KiB}, connect: each}").unwrap();
        assert!(sized.fresh);
        assert_eq!((&sized.requests[0].request, &sized.requests[0].reply), (&Sent::Filler(1024), &Until::Bytes(65536)));
        let stream = check("{stream: {receive: 4KiB}, open_with: go}").unwrap();
        assert_eq!(stream.requests[0].request, Sent::Filler(0));
        assert_eq!((stream.requests[0].name.as_str(), stream.open_with.unwrap().0), ("receive", b"go".to_vec()));
        assert!(check("{stream: {sned: 1KiB}}").unwrap_err()[0].contains("did you mean 'send'"));
        assert!(check("{stream: {send: 1TiB}}").unwrap_err()[0].contains("out of range"));
        assert!(check("{connect: every, stream: {send: 1KiB}}").unwrap_err()[0].contains("once, each"));
    }

    #[test]
    fn a_test_against_a_peer_says_everything() {
        let out = check("{peer: stream-out, nodelay: false, send_buffer: 64KiB}").unwrap();
        assert_eq!((out.requests[0].name.as_str(), &out.requests[0].request), ("megabyte", &Sent::Filler(1_000_000)));
        assert_eq!((out.peer, out.open_with.unwrap().0), (true, b"sink\n".to_vec()));
        assert_eq!(out.sockets, Sockets { nodelay: false, send_buffer: Some(65536), receive_buffer: None });
        let connect = check("{peer: connect}").unwrap();
        let auto = check("{peer: connect, send_buffer: auto}").unwrap().sockets;
        assert_eq!(auto, Sockets::default());
        assert!(connect.fresh && connect.sockets == Sockets::default());
        assert_eq!(check("{peer: stream-in, chunk: 4KiB}").unwrap().requests[0].reply, Until::Bytes(4096));
        assert!(check("{peer: stream-on}").unwrap_err()[0].contains("did you mean 'stream-in'"));
        assert!(check("{peer: connect, stream: {send: 1MB}}").unwrap_err()[0].contains("'stream' does not stand"));
        assert!(check("{peer: connect, sned_buffer: 1MB}").unwrap_err()[0].contains("did you mean 'send_buffer'"));
        assert!(check("{peer: connect, send_buffer: 1}").unwrap_err()[0].contains("from 4KiB"));
        assert!(check("{chunk: 1MB, stream: {send: 1MB}}").unwrap_err()[0].contains("without 'peer'"));
    }

    #[test]
    fn every_mistake_has_its_place() {
        let found = check("request: a\\q\nhex: 0d\nreply: {untl: x}\nexpcet: y\n").unwrap_err();
        assert!(found.iter().any(|f| f.contains("workload.yaml:2:6") && f.contains("both")), "{found:#?}");
        assert!(found.iter().any(|f| f.contains("yaml:3:9") && f.contains("did you mean 'until'")), "{found:#?}");
        assert!(found.iter().any(|f| f.contains("yaml:4:1") && f.contains("did you mean 'expect'")), "{found:#?}");
        assert!(check("requests: []").unwrap_err()[0].contains("no request"));
        assert!(check("{request: a, reply: {bytes: 0}}").unwrap_err()[0].contains("out of range"));
        assert!(check("{hex: 0, reply: {bytes: 1}}").unwrap_err()[0].contains("hexadecimal"));
        assert_eq!(check("{}").unwrap_err().len(), 2);
    }
}
