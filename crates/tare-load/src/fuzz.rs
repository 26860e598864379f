//! What must bear any bytes: the parsers of replies and the compiler of scripts. Called by the fuzz targets of
//! `fuzz/`, which run for as long as one likes, and by the tests below, which run in the gate.

use crate::protocol::{Draw, Failure, Flight, Protocol, Reply, Step};
use crate::script::{Escape, Feeds, Names, Template, Values, read_feeds, union};
use tare_core::config::{Problems, parse};

/// Redis replies.
pub fn redis(bytes: &[u8]) {
    crate::protocol::chew_redis(bytes);
}

/// HTTP replies: plain, compressed, with captures and checks.
pub fn http(bytes: &[u8]) {
    crate::protocol::chew_http(bytes);
}

/// Feeds and a template that uses them: the first line is the template, the rest the feeds. What compiles is drawn and
/// written.
pub fn script(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (template, feeds) = text.split_once('\n').unwrap_or((&text, ""));
    let table = |_: &str| Ok(b"a,b\n1,2\n".to_vec());
    let mut problems = Problems::new("workload.yaml", feeds).with_files(table);
    let Some(node) = parse(feeds, &mut problems) else { return };
    let specs = read_feeds(&node, &mut problems);
    let mut names = Names::new(&specs);
    // Its own name or a feed's; either is no trouble.
    let _ = names.declare("captured");
    let Ok(template) = Template::compile(template, &names) else { return };
    let (feeds, mut values, mut out) = (Feeds::new(&specs), Values::new(&names), Vec::new());
    feeds.draw(&union([&template], []), &mut Draw::new(1, 1), &mut values);
    for escape in [Escape::None, Escape::Url, Escape::Json] {
        template.write(&values, &feeds, escape, &mut out);
    }
    for problem in problems.into_vec() {
        assert!(!problem.to_string().is_empty(), "a problem can be shown");
    }
}

/// Feeds bytes to every operation of a protocol, whole and in pieces, which must come to the same.
pub(crate) fn chew<P: Protocol>(protocol: &P, bytes: &[u8]) {
    let (piece, bytes) = bytes.split_first().unwrap_or((&1, &[]));
    for operation in 0..protocol.operations().len() as u16 {
        let whole = replies(protocol, operation, bytes, bytes.len().max(1));
        let pieces = replies(protocol, operation, bytes, usize::from(*piece % 16) + 1);
        assert_eq!(whole, pieces, "operation {operation} in pieces of {}", piece % 16 + 1);
    }
}

/// The replies that were found: how many bytes were taken up to each, and what it was. When one is found to be broken
/// is not compared: with a whole line to look at that may be sooner.
type Found = Vec<(usize, Reply)>;

fn replies<P: Protocol>(protocol: &P, operation: u16, bytes: &[u8], piece: usize) -> Found {
    let (mut session, mut user, mut draw, mut out) =
        (protocol.session(), protocol.user(0), Draw::new(1, 0), Vec::new());
    let begin = |session: &mut P::Session, user: &mut P::User, out: &mut Vec<u8>| {
        let token = protocol.begin(session, user, operation, &mut Draw::new(7, 7), out);
        Flight { token, operation, ..Flight::default() }
    };
    let mut flight = begin(&mut session, &mut user, &mut out);
    let (mut found, mut taken) = (Vec::new(), 0);
    for mut rest in bytes.chunks(piece) {
        while !rest.is_empty() {
            // What was sent before.
            out.clear();
            let step = protocol.feed(&mut session, &mut user, &flight, rest, &mut draw, &mut out);
            match step {
                Step::Reopen => return found,
                // The next request of a conversation: what else is there was not asked for.
                Step::More if !out.is_empty() => return found,
                Step::More => {
                    taken += rest.len();
                    break;
                }
                Step::Done { used, reply, last } => {
                    assert!(used <= rest.len(), "it took more than there was");
                    taken += used;
                    rest = &rest[used..];
                    found.push((taken, reply));
                    // What follows in a conversation was not asked for.
                    if last || !P::PIPELINES {
                        return found;
                    }
                    flight = begin(&mut session, &mut user, &mut out);
                }
                Step::Broken(failure) => {
                    assert!(matches!(failure, Failure::Status(100..=999)) || Failure::ALL.contains(&failure));
                    return found;
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that are nearly a reply, so that the parsers get further than the first of them.
    fn nearly(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
        let word = prop_oneof![
            8 => proptest::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..6),
        ];
        (any::<u8>(), prop::collection::vec(word, 0..24))
            .prop_map(|(first, words)| [vec![first], words.concat()].concat())
    }

    const RESP: &[&str] = &[
        "+OK\r\n",
        "$",
        "-1",
        "5\r\n",
        "64\r\n",
        "\r\n",
        ":",
        "*2\r\n",
        "-ERR x\r\n",
        "$0\r\n\r\n",
        "99999999999999999999",
        "_\r\n",
        "%1\r\n",
        ">2\r\n",
        "(1\r\n",
        "$5\r\nhello\r\n",
        "*-1\r\n",
        "*1\r\n",
        "+",
        "\n",
        "\r",
    ];
    const HTTP: &[&str] = &[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 404 No\r\n",
        "HTTP/1.1 304 Not\r\n",
        "HTTP/1.1 100 Go\r\n\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: -1\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Encoding: gzip\r\n",
        "Connection: close\r\n",
        "Set-Cookie: a=b; Max-Age=0\r\n",
        "Location: /x\r\n",
        "\r\n",
        "hello",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "ffffffffffffffff\r\n",
        "{\"a\": 1}",
        "HTTP/1.1 302 Go\r\n",
        ";x=y\r\n",
        "\u{1f}\u{8b}",
    ];
    const SCRIPT: &[&str] = &[
        "${a}",
        "${b.a}",
        "${a:06}",
        "$${",
        "${captured}",
        "\n",
        "a: ",
        "b: ",
        "{uniform: {from: 1, to: 9}}",
        "{csv: {file: x}}",
        "{zipf: {from: 1, to: 100, theta: 1}}",
        "{text: {length: 5}}",
        "{pattern: '#@'}",
        "{choice: [x, y]}",
        "{nurand: {",
        "{sequence: {from: -5, to: 5, step: 2, per: user}}",
        "}",
        "- ",
        "[",
        ":",
        "9007199254740993",
        "  ",
    ];

    proptest! {
        #[test]
        fn redis_replies_bear_anything(bytes in nearly(RESP)) {
            redis(&bytes);
        }

        #[test]
        fn http_replies_bear_anything(bytes in nearly(HTTP)) {
            http(&bytes);
        }

        #[test]
        fn scripts_bear_anything(bytes in nearly(SCRIPT)) {
            script(&bytes[1..]);
        }
    }
}
