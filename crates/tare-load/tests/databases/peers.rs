//! Peers that let the load in and then misbehave.

use super::admitted::{MYSQL_RIGHT, POSTGRES_RIGHT, SELECT, admit_mysql, admit_postgres};
use super::{drive, plan};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tare_core::load::{LoadProfile, LoadTask};
use tare_testkit::peer::each_connection;

/// What a peer does once it has let the load in.
#[derive(Clone, Copy)]
enum Manner {
    /// Answers every request with this.
    Answer(&'static [u8]),
    /// Takes requests and never answers.
    Silent,
    /// Sends this and closes.
    CutOff(&'static [u8]),
    /// Never ends its answer.
    Endless(&'static [u8], &'static [u8]),
}

/// How a protocol's peer lets the load in, and answers.
struct Dialect {
    protocol: &'static str,
    /// Lets the load in, up to prepared statements.
    admit: fn(&mut TcpStream),
    right: &'static [u8],
    wrong: &'static [u8],
    error: &'static [u8],
    garbage: &'static [u8],
    endless: (&'static [u8], &'static [u8]),
}

const POSTGRES_WRONG: &[u8] = b"2\0\0\0\x04C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I";
const POSTGRES_ERROR: &[u8] = b"E\0\0\0\x13SERROR\0C57014\0\0Z\0\0\0\x05I";
const DIALECTS: [Dialect; 2] = [
    Dialect {
        protocol: "postgres",
        admit: admit_postgres,
        right: POSTGRES_RIGHT,
        wrong: POSTGRES_WRONG,
        error: POSTGRES_ERROR,
        garbage: b"+PONG\r\n",
        endless: (b"", b"D\0\0\0\x0b\0\x01\0\0\0\x017"),
    },
    Dialect {
        protocol: "mysql",
        admit: admit_mysql,
        right: MYSQL_RIGHT,
        wrong: b"\x07\0\0\x01\0\0\0\x02\0\0\0",
        error: b"\x0b\0\0\x01\xff\x26\x05#70100No",
        garbage: b"\0\0\0\0\0\0\0\0",
        endless: (
            b"\x01\0\0\x01\x01\x17\0\0\x02\x03def\0\0\0\x01a\0\x0c\x3f\0\x01\0\0\0\x08\0\0\0\0\0\x05\0\0\x03\xfe\0\0\x02\0",
            b"\x0a\0\0\x04\0\0\x07\0\0\0\0\0\0\0",
        ),
    },
];

fn peer(dialect: &'static Dialect, manner: Manner) -> SocketAddr {
    each_connection(move |_, mut stream| {
        stream.set_nodelay(true).unwrap();
        (dialect.admit)(&mut stream);
        talk(stream, manner);
    })
}

fn talk(mut stream: TcpStream, manner: Manner) {
    let mut request = [0; 4096];
    while stream.read(&mut request).is_ok_and(|received| received > 0) {
        let sent = match manner {
            // In single bytes, which match no boundary.
            Manner::Answer(text) => text.chunks(1).try_for_each(|byte| stream.write_all(byte)),
            Manner::Silent => Ok(()),
            Manner::CutOff(text) => {
                let _ = stream.write_all(text);
                return;
            }
            Manner::Endless(start, more) => {
                let more = more.repeat(10_000);
                let mut sent = stream.write_all(start);
                while sent.is_ok() {
                    sent = stream.write_all(&more);
                }
                sent
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Runs against a peer and returns how many operations were right, and the names of the failures.
fn run(dialect: &'static Dialect, manner: Manner, timeout: Duration) -> (u64, Vec<String>) {
    let mut plan = plan(dialect.protocol, SELECT, peer(dialect, manner), LoadTask::Run);
    plan.profile = LoadProfile::Closed { connections: 2, pipeline: 1 };
    (plan.timeout, plan.measure) = (timeout, Duration::from_millis(500));
    if matches!(manner, Manner::Endless(..)) {
        plan.measure = Duration::from_secs(3);
    }
    let summary = drive(&plan).unwrap_or_else(|fault| panic!("{}: {fault}", dialect.protocol));
    let right = summary.operations.values().map(|operation| operation.count).sum();
    (right, summary.failures.into_keys().collect())
}

#[test]
fn every_manner_of_a_peer_has_its_name() {
    let soon = Duration::from_secs(5);
    for dialect in &DIALECTS {
        let name = dialect.protocol;
        let (right, failures) = run(dialect, Manner::Answer(dialect.right), soon);
        assert!(right > 0 && failures.is_empty(), "{name} {right} {failures:?}");
        let only = |manner, timeout| {
            let (right, failures) = run(dialect, manner, timeout);
            assert_eq!(right, 0, "{name}");
            failures
        };
        assert_eq!(only(Manner::Answer(dialect.wrong), soon), ["wrong reply"], "{name}");
        assert_eq!(only(Manner::Answer(dialect.error), soon), ["error reply"], "{name}");
        assert_eq!(only(Manner::Answer(dialect.garbage), soon), ["garbage reply"], "{name}");
        assert_eq!(only(Manner::Silent, Duration::from_millis(50)), ["timed out"], "{name}");
        let cut = only(Manner::CutOff(&dialect.right[..dialect.right.len() / 2]), soon);
        assert!(cut.iter().all(|name| name == "closed by server" || name == "connection reset"), "{name} {cut:?}");
        let endless = only(Manner::Endless(dialect.endless.0, dialect.endless.1), Duration::from_secs(2));
        // On a slow machine the time is up before the length is reached.
        assert!(endless.iter().all(|end| end == "reply too large" || end == "timed out"), "{name} {endless:?}");
    }
}
