//! The four network tests against the peer: each ends, and both sides have counted the same bytes.

use crate::asked::{self, driven as drive};

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tare_core::load::{LoadPlan, LoadProfile, LoadSummary, LoadTask};
use tare_load::{Peer, PeerOptions};
use tare_testkit::peer::each_connection;

fn peer(threads: u32) -> SocketAddr {
    let listen = "127.0.0.1:0".parse().unwrap();
    let options = PeerOptions { listen, threads, nodelay: true, send_buffer: None, receive_buffer: None };
    Peer::start(&options).unwrap().address()
}

fn plan(options: &str, endpoint: SocketAddr, connections: u32) -> LoadPlan {
    let (settle, measure) = (Duration::from_millis(100), Duration::from_millis(400));
    let closed = LoadProfile::Closed { connections, pipeline: 1 };
    LoadPlan { settle, measure, ..LoadPlan::of("tcp", asked::options("tcp", options), endpoint, closed) }
}

/// The peer's counts, by name.
fn counts(address: SocketAddr) -> BTreeMap<String, u64> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"counts\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let number = |line: &str| line.split_once(' ').map(|(name, number)| (name.to_owned(), number.parse().unwrap()));
    text.lines().filter_map(number).collect()
}

/// Whether the peer's counts match ours: what it received, what it sent.
fn of_the_peer(summary: &LoadSummary) -> Vec<bool> {
    let bytes = summary.checks.iter().filter(|check| check.name.starts_with("bytes from"));
    bytes.map(|check| check.passed).collect()
}

fn run(test: &str, connections: u32) -> (LoadSummary, BTreeMap<String, u64>) {
    let address = peer(2);
    let mut plan = plan(&format!("{{peer: {test}, chunk: 100kB}}"), address, connections);
    plan.task = LoadTask::Ready;
    drive(&plan).unwrap();
    plan.task = LoadTask::Run;
    let summary = drive(&plan).unwrap();
    let (told, checks) = (of_the_peer(&summary), &summary.checks);
    assert!(told == [true, true] && checks.iter().all(|check| check.passed), "{test}: {checks:?}");
    assert!(summary.operations.values().all(|operation| operation.count > 0), "{test}: {summary:?}");
    assert_eq!(summary.failures, BTreeMap::new(), "{test}");
    let counts = counts(address);
    assert_eq!(counts["open"], 0);
    (summary, counts)
}

#[test]
fn streams_arrive_whole() {
    for connections in [1, 20] {
        let (summary, counts) = run("stream-out", connections);
        let measured = summary.operations["chunk"].count * 100_000;
        assert!(counts["received"] >= measured && counts["sent"] == 0, "{measured} {counts:?}");
        let (summary, counts) = run("stream-in", connections);
        let measured = summary.operations["chunk"].count * 100_000;
        assert!(counts["sent"] >= measured && counts["received"] == 0, "{measured} {counts:?}");
        assert_eq!(counts["connections"], u64::from(connections));
    }
}

#[test]
fn every_byte_is_answered() {
    for connections in [1, 20] {
        let (summary, counts) = run("request-response", connections);
        assert!(counts["requests"] >= summary.operations["request"].count, "{counts:?}");
        assert_eq!((counts["requests"], counts["connections"]), (counts["sent"], u64::from(connections)));
    }
}

#[test]
fn each_connection_has_one_request() {
    for connections in [1, 20] {
        let (summary, counts) = run("connect", connections);
        assert!(counts["requests"] >= summary.operations["connection"].count, "{counts:?}");
        assert_eq!(counts["requests"], counts["connections"]);
    }
}

#[test]
fn the_sockets_are_in_the_record() {
    let options = "{peer: request-response, nodelay: false, send_buffer: 20000B, receive_buffer: 30000B}";
    let facts = drive(&plan(options, peer(1), 2)).unwrap().facts;
    // The kernel doubles the requested size.
    for (name, value) in [("nodelay", "false"), ("send_buffer_bytes", "40000"), ("receive_buffer_bytes", "60000")] {
        assert_eq!(facts[&format!("client.tcp.{name}")], value, "{facts:?}");
    }
    assert_eq!(facts["client.tcp.retransmitted_segments"], "0");
}

#[test]
fn bytes_that_nobody_reads_are_missed() {
    // Reports counts as a peer does, but discards what it is sent.
    let address = each_connection(|_, mut stream| {
        let mut bytes = vec![0; 1 << 20];
        while let Ok(received @ 1..) = stream.read(&mut bytes) {
            if bytes[..received].starts_with(b"counts\n") {
                let _ = stream.write_all(b"connections 0\nopen 0\nreceived 0\nsent 0\nrequests 0\n");
                return;
            }
        }
    });
    let summary = drive(&plan("{peer: stream-out}", address, 1)).unwrap();
    assert_eq!(of_the_peer(&summary), [false, true], "{summary:?}");
}

#[test]
fn whoever_is_no_peer_is_told() {
    let address = each_connection(|_, mut stream| drop(stream.write_all(&[b'x'; 5000])));
    let mut plan = plan("{peer: stream-in}", address, 1);
    plan.task = LoadTask::Ready;
    let fault = drive(&plan).unwrap_err();
    assert!(fault.message.contains("no answer of `tare peer`") || fault.message.contains("closed"), "{fault:?}");
}

#[test]
fn a_first_line_may_come_in_pieces_and_a_strange_one_ends_the_connection() {
    let address = peer(1);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    for piece in ["ec", "ho", "\nab"] {
        stream.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ab");
    let mut strange = TcpStream::connect(address).unwrap();
    strange.write_all(b"gopher\n").unwrap();
    assert_eq!(strange.read(&mut answer).unwrap(), 0);
    assert_eq!(counts(address)["connections"], 1);
}

#[test]
fn an_echo_that_is_not_read_is_kept() {
    let address = peer(1);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"echo\n").unwrap();
    // More than all buffers on the way can take.
    let text: Vec<u8> = (0..32 << 20).map(|at: usize| (at % 251) as u8).collect();
    let (mut writer, sent) = (stream.try_clone().unwrap(), text.clone());
    let writing = std::thread::spawn(move || writer.write_all(&sent));
    std::thread::sleep(Duration::from_millis(300));
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer == text, "another text came back");
    writing.join().unwrap().unwrap();
}

#[test]
fn who_has_a_thread_alone_does_not_keep_it() {
    let address = peer(1);
    let echo = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"echo\n").unwrap();
        stream
    };
    let ask = |stream: &mut TcpStream| {
        let mut answer = [0];
        stream.write_all(b"?").unwrap();
        stream.read_exact(&mut answer).unwrap();
        answer[0]
    };
    let mut first = echo();
    assert_eq!(ask(&mut first), b'?');
    // The thread is now waiting for the first, which is silent.
    let mut second = echo();
    for _ in 0..3 {
        assert_eq!([ask(&mut second), ask(&mut first)], [b'?', b'?']);
    }
    drop(first);
    assert_eq!(ask(&mut second), b'?');
    // The connection that asks for the counts has no role, so it is not counted.
    let counts = counts(address);
    assert_eq!((counts["connections"], counts["requests"]), (2, 8));
}
