//! Parsers that must survive any bytes: replies of servers, including name servers, output of tools, options, scripts
//! and feeds, plans and orders. The table makes a test of each for the gate; `cargo xtask fuzz` runs them for as long
//! as you like.

mod words;

use crate::draw::Draw;
use crate::protocol::chew::{self, carried_out};
use crate::protocol::{ErasedProtocol, PROTOCOLS, protocol_named};
use crate::resolve;
use crate::script::{Escape, Feeds, Names, Template, Values, parse_csv, read_feeds, union};
use flate2::Compression;
use tare_core::config::{Node, Problems, parse};
use tare_core::load::{LoadLine, LoadOrder, LoadPlan};
use words::{HTTP, MYSQL, MYSQL_CONTROL, MYSQL_SWITCH, MYSQL_TALK, POSTGRES, RESP, SCRIPT, TOOL, YAML};

hostile::targets! {
    redis { words: RESP, samples: &[b"+OK\r\n", b"$5\r\nhello\r\n", b"*2\r\n:1\r\n$-1\r\n", b"*2\r\n"] }
    redis_counts {
        words: &["\r\n", ":", "cmdstat_get", "calls=", "rejected_calls=", ",", "keyspace_hits", "18446744073709551615", "-1"],
        samples: &[b"redis_version:7.0.15\r\nkeyspace_hits:5\r\ncmdstat_get:calls=3,usec=9,rejected_calls=1\r\n"],
    }
    http { words: HTTP, cases: 1200, samples: &[
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 302 Go\r\nLocation: /x\r\nSet-Cookie: a=b; Max-Age=0; Path=/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\nContent-Encoding: identity\r\n\r\n{\"a\": [1, \"b\\n\"]}",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"x\"\r\n\r\nhello",
        // Found by random bytes.
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\n\0",
    ] }
    http_body {
        words: &["hello", "\0", "\u{1}", "\u{7}", "hellohello"],
        samples: &[b"\x00\x03hello", b"\x15\x01ohello!"],
    }
    http_coded { words: HTTP, samples: &[
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\x00\x00",
        b"\x1f\x8b\x08\x1f\0\0\0\0\0\x03\x02\0ab\x6e\0\x63\0\xb5\x5c\x03\0\0\0\0\0\0\0\0\0",
        b"\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15",
    ] }
    http_answer { words: HTTP, samples: &[
        b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\n3 bids\n  are undecided",
        b"HTTP/1.0 200\r\n\r\n",
        b"x 200 OK\r\n\r\nwell",
    ] }
    dns_answer {
        words: &["id", "\u{1}a\u{4}test\0", "\0\u{1}", "\0\u{5}", "\0\u{4}", "\0", "\u{1}\u{2}\u{3}\u{4}", "?"],
        samples: &[
            // An alias, then its address.
            b"id\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x04test\0\0\x01\0\x01\
              \xc0\x0c\0\x05\0\x01\0\0\0\x09\0\x02\xc0\x0c\xc0\x0c\0\x01\0\x01\0\0\0\x09\0\x04\xc0\0\x02\x05",
            // No such name; a count of answers higher than their number, with names of the maximum length.
            b"id\x81\x83\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01",
            b"id\x81\x80\0\x01\xff\xff\0\0\0\0\x01a\x04test\0\0\x01\0\x01\xbf\xff",
        ],
    }
    greeting {
        words: &["HTTP/1.1 ", "200", "+PONG\r\n", "-ERR ", "VERSION ", "\u{16}\u{3}\u{3}", "\u{2}", "\n", "\0", "E", "S"],
        samples: &[
            b"HTTP/1.1 400 Bad Request\r\n",
            b"-ERR max number of clients reached\r\n",
            b"VERSION 1.6.18\r\n",
            b"\x16\x03\x03\0\x50\x02\0",
            b"\x15\x03\x01\0\x02\x02\x28",
            b"\x34\0\0\0\x0a8.0.36\0",
            b"\x1e\0\0\0\xff\x69\x04Host is not allowed",
            b"E\0\0\0\x40SFATAL\0",
        ],
    }
    hosts_file {
        words: &["\n", " ", "#", "10.0.0.7", "::1", "shop", "SHOP", "nameserver ", "search", "\t", "\u{85}"],
        samples: &[
            b"shop # shopping\n10.0.0.7\tshop.test shop # shopping\n::1 six\n",
            b"search x\nnameserver 10.0.0.1\n nameserver ::1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n",
        ],
    }
    postgres { words: POSTGRES, cases: 1200, samples: &[
        // Let in; BEGIN, SELECT, UPDATE, COMMIT, SELECT and ROLLBACK prepared; transaction begun, a row, an update,
        // transaction ended, a row.
        b"R\0\0\0\x08\0\0\0\0S\0\0\0\x08a\0b\0Z\0\0\0\x05I\
          1\0\0\0\x041\0\0\0\x041\0\0\0\x041\0\0\0\x041\0\0\0\x041\0\0\0\x04Z\0\0\0\x05I\
          2\0\0\0\x04C\0\0\0\x0aBEGIN\0Z\0\0\0\x05T\
          2\0\0\0\x04D\0\0\0\x0f\0\x02\0\0\0\x013\xff\xff\xff\xffC\0\0\0\x0dSELECT 1\0Z\0\0\0\x05T\
          2\0\0\0\x04C\0\0\0\x0dUPDATE 1\0Z\0\0\0\x05T2\0\0\0\x04C\0\0\0\x0bCOMMIT\0Z\0\0\0\x05I",
        b"R\0\0\0\x0c\0\0\0\x05saltR\0\0\0\x08\0\0\0\0Z\0\0\0\x05I",
        b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0R\0\0\0\x1b\0\0\0\x0br=abc,s=AAAA,i=4096",
        b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05IE\0\0\0\x26SERROR\0C40P01\0Mdeadlock detected\0\0Z\0\0\0\x05I",
    ] }
    postgres_control { words: POSTGRES, cases: 1200, samples: &[
        // Two counts, the first the largest number; then something that is no count, and an error.
        b"T\0\0\0\x04D\0\0\0\x20\0\x01\0\0\0\x1618446744073709551615 0C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I\
          D\0\0\0\x0e\0\x01\0\0\0\x0417 0Z\0\0\0\x05I",
        b"D\0\0\0\x0a\0\x01\xff\xff\xff\xffZ\0\0\0\x05IE\0\0\0\x26SERROR\0C40P01\0Mdeadlock detected\0\0Z\0\0\0\x05I",
    ] }
    mysql { words: MYSQL, cases: 1200, samples: &[MYSQL_TALK, MYSQL_SWITCH] }
    mysql_control { words: MYSQL, cases: 1200, samples: &[
        MYSQL_CONTROL,
        // The largest number of columns, and an error.
        b"\x09\0\0\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x03\0\0\x02\xff\x01\0",
    ] }
    scram {
        words: &["r=abc", ",", "s=", "AAAA", "i=2", "i=0", "v=", "\n", "="],
        samples: &[b"r=abcd,s=AAAA,i=2\nv=AAAA"],
    }
    tcp { words: &["E", "N", "END\r\n", "tare", "tartare", "a", "ab", "aab", "\r"], samples: &[b"tare END\r\n"] }
    tool {
        files: &["src/protocol/exec/fixtures/*.txt", "src/protocol/exec/fixtures/*.json"],
        samples: &[
            b"{\"seconds\": 1.93, \"operations\": {\"solve\": {\"count\": 3, \"errors\": 0}}, \"metrics\": {\"n\": 6}}",
            b"\"test\",\"rps\",\"p99\"\n\"SET\",\"5.5\",\"0.2\"\n",
        ],
        words: TOOL,
        cases: 800,
        memory: 64 << 20,
    }
    csv {
        words: &["\"", "\"\"", ",", "\n", "\r\n", "a", "\u{feff}", "\u{e9}"],
        samples: &[b"a,\"b \"\"c\"\"\nd\"\r\n\n1,2\n"],
    }
    replay {
        words: &["\n", " ", ",", "\t", "#", "get", "set", "1.5", "-0", "1e308", "-1e308", "1e-320", "inf", "nan"],
        samples: &[b"# moments\n0.5 get\n0.75,set\n1e3\tget # late\n"],
    }
    script { words: SCRIPT, samples: &[
        b"${a} ${b.a} ${a:06}\na: {uniform: {from: 1, to: 9}}\nb: {csv: {file: x}}\n",
        b"$${ ${captured}\na: {sequence: {from: -5, to: 5, step: 2, per: user}}\nc: {pattern: '#@'}\n",
    ] }
    options {
        files: &["../../workloads/*/*.yaml"],
        samples: &[b"redis: {}\n", b"exec: {command: [/x]}\n"],
        words: YAML,
        cases: 300,
    }
    plan {
        files: &["samples/plan.txt"],
        words: &["{", "}", ":", "\"run\"", "\"end\"", "null", "[", "]", "\n"],
    }
}

/// Redis replies.
pub fn redis(bytes: &[u8]) {
    chew::of_redis(bytes);
}

/// HTTP replies: plain, with captures and checks, and with redirects.
pub fn http(bytes: &[u8]) {
    chew::of_http(bytes);
}

/// A reply in one of three codings and three framings, whether the server closes after it, and the body. The first byte
/// of an input selects coding and framing, the second is the length of chunks, and the rest is the body, which is not
/// encoded again if it is `coded`.
fn reply(bytes: &[u8], coded: bool) -> Option<(Vec<u8>, bool, &[u8])> {
    let ([kind, chunk], body) = bytes.split_first_chunk::<2>()?;
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    let encoded = match kind % 3 {
        _ if coded => body.to_vec(),
        0 => body.to_vec(),
        1 => deflated(flate2::write::GzEncoder::new(Vec::new(), Compression::fast()), body, |encoder| encoder.finish()),
        _ => {
            deflated(flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast()), body, |encoder| encoder.finish())
        }
    };
    let coding = ["identity", "gzip", "deflate"][usize::from(kind % 3)];
    head.extend_from_slice(format!("Content-Encoding: {coding}\r\n").as_bytes());
    match kind / 3 % 3 {
        0 => head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", encoded.len()).as_bytes()),
        1 => {
            head.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for piece in encoded.chunks(usize::from(*chunk).max(1)) {
                head.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                head.extend_from_slice(piece);
                head.extend_from_slice(b"\r\n");
            }
            head.extend_from_slice(b"0\r\n\r\n");
            return Some((head, false, body));
        }
        _ => head.extend_from_slice(b"\r\n"),
    }
    let closes = kind / 3 % 3 == 2;
    head.extend_from_slice(&encoded);
    Some((head, closes, body))
}

fn deflated<W: std::io::Write>(mut encoder: W, body: &[u8], finish: fn(W) -> std::io::Result<Vec<u8>>) -> Vec<u8> {
    encoder.write_all(body).and_then(|()| finish(encoder)).expect("memory takes everything")
}

/// A Redis server's own statistics.
pub fn redis_counts(bytes: &[u8]) {
    chew::of_redis_counts(&String::from_utf8_lossy(bytes));
}

/// A recording of planned starts.
pub fn replay(bytes: &[u8]) {
    crate::profile::chew_replay(bytes);
}

/// Any body comes through every coding and framing unchanged.
pub fn http_body(bytes: &[u8]) {
    let Some((reply, closes, body)) = reply(bytes, false) else { return };
    let has = body.windows(5).any(|five| five == b"hello");
    assert_eq!(chew::says_hello(&reply, closes), has, "{}", reply.escape_ascii());
}

/// Any bytes as a compressed body, in every framing.
pub fn http_coded(bytes: &[u8]) {
    for kind in [1, 2, 4, 5, 7, 8] {
        let (reply, closes, _) = reply(&[&[kind, 7], bytes].concat(), true).expect("both bytes are there");
        chew::says_hello(&reply, closes);
    }
}

/// A service's answer to a health check.
pub fn http_answer(bytes: &[u8]) {
    chew::of_http_answer(bytes);
}

/// A name server's answer.
pub fn dns_answer(bytes: &[u8]) {
    resolve::chew_answer(bytes);
}

/// What a server of an unknown protocol says first.
pub fn greeting(bytes: &[u8]) {
    crate::greeting::chew(bytes);
}

/// This machine's files about hosts and name servers.
pub fn hosts_file(bytes: &[u8]) {
    resolve::chew_files(&String::from_utf8_lossy(bytes));
}

/// A PostgreSQL server's messages, from the first on.
pub fn postgres(bytes: &[u8]) {
    chew::of_postgres(bytes);
}

/// A MySQL server's packets, from the first on.
pub fn mysql(bytes: &[u8]) {
    chew::of_mysql(bytes);
}

/// A PostgreSQL server's answers on the control connection.
pub fn postgres_control(bytes: &[u8]) {
    chew::of_postgres_control(bytes);
}

/// A MySQL server's answers on the control connection.
pub fn mysql_control(bytes: &[u8]) {
    chew::of_mysql_control(bytes);
}

/// The messages with which a PostgreSQL server proves that it knows the password.
pub fn scram(bytes: &[u8]) {
    chew::of_scram(&String::from_utf8_lossy(bytes));
}

/// Replies of a server with a protocol that Tare does not know.
pub fn tcp(bytes: &[u8]) {
    chew::of_tcp(bytes);
}

/// The output of tools.
pub fn tool(bytes: &[u8]) {
    chew::of_tool(&String::from_utf8_lossy(bytes));
}

/// Tables: what was parsed, written and parsed again is the same.
pub fn csv(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(rows) = parse_csv(&text, ',') else { return };
    let lines = 1 + text.matches('\n').count();
    assert!(rows.iter().all(|(line, _)| (1..=lines).contains(line)), "a row stands outside of {lines} lines");
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(_, row)| row).collect();
    let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
    let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    let again = parse_csv(&rows.iter().map(line).collect::<String>(), ',').expect("it is well formed");
    assert_eq!(again.into_iter().map(|(_, row)| row).collect::<Vec<_>>(), rows);
}

/// Feeds and a template that uses them: the first line is the template, the rest the feeds. If it compiles, values are
/// drawn and it is written.
pub fn script(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (template, feeds) = text.split_once('\n').unwrap_or((&text, ""));
    let table = |_: &str| Ok(b"a,b\n1,2\n".to_vec());
    let mut problems = Problems::new("workload.yaml", feeds).with_files(table);
    let Some(node) = parse(feeds, &mut problems) else { return };
    let specs = read_feeds(&node, &mut problems);
    let mut names = Names::new(&specs);
    // It is a new name or a feed's; either is fine.
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

/// Options of protocols, wherever a protocol's name appears in a file. What is refused has a reason, and what is
/// accepted can be carried out.
pub fn options(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some(node) = parse(&text, &mut Problems::default()) else { return };
    node.each_entry(&mut |name, options| {
        let Some(protocol) = protocol_named(PROTOCOLS, name) else { return false };
        read_options(protocol, options, &text);
        true
    });
}

fn read_options(protocol: &dyn ErasedProtocol, node: &Node, text: &str) {
    let file = |name: &str| match name.ends_with(".csv") {
        true => Ok(b"a,b\n1,2\n".to_vec()),
        false => Ok(b"file".to_vec()),
    };
    let mut problems = Problems::new("workload.yaml", text).with_files(file);
    let (name, read) = (protocol.name(), protocol.read(node, &mut problems));
    assert_eq!(read.is_none(), !problems.is_empty(), "{name}: {read:?}, and {:#?}", problems.into_vec());
    let Some(options) = read else { return };
    assert!(!protocol.facts(&options).operations.is_empty(), "{name}: {options}");
    if let Err(fault) = carried_out(name, &options) {
        panic!("{name}: {fault}: {options}");
    }
}

/// Plans, orders and lines, one per line: what is understood is written so that it is understood again.
pub fn plan(bytes: &[u8]) {
    fn twice<T: serde::de::DeserializeOwned + serde::Serialize + PartialEq + std::fmt::Debug>(line: &str) {
        let Ok(read) = serde_json::from_str::<T>(line) else { return };
        let written = serde_json::to_string(&read).expect("it is plain data");
        let again: T = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
        // Fractions may differ in the last place.
        assert!(line.contains(['.', 'e', 'E']) || again == read, "{read:?}\n{again:?}");
    }
    for line in String::from_utf8_lossy(bytes).lines() {
        twice::<LoadPlan>(line);
        twice::<LoadOrder>(line);
        twice::<LoadLine>(line);
    }
}
