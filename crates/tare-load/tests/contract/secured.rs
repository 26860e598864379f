//! The same over TLS: a conversation that needs a handshake first.

use super::{drive, each_connection, plan};
use rustls::{ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;
use tare_testkit::tls::config;

/// The plain side of a connection.
pub(super) fn secured(stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
    StreamOwned::new(ServerConnection::new(config()).unwrap(), stream)
}

/// Redirects on the first connection and closes it, and serves no further one.
fn turns_away() -> SocketAddr {
    each_connection(|number, stream| {
        // Only the first is served.
        if number > 0 {
            return;
        }
        let mut stream = secured(stream);
        let _ = stream.read(&mut [0; 4096]);
        let _ =
            stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /b\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        stream.conn.send_close_notify();
        let _ = stream.flush();
    })
}

#[test]
fn who_is_turned_away_amid_an_operation_rests_before_the_next_attempt() {
    let options = "{tls: {verify: false}, requests: [{path: /a, redirects: 3, expect: {status: 200}}]}";
    let mut plan = plan("http", options, turns_away());
    plan.profile = tare_core::load::LoadProfile::Closed { connections: 1, pipeline: 1 };
    (plan.measure, plan.timeout) = (Duration::from_millis(900), Duration::from_millis(500));
    let summary = drive(&plan).1.unwrap();
    // About one attempt per 100 ms, rather than as many as there is time for.
    let failures: u64 = summary.failures.values().sum();
    assert!((1..20).contains(&failures), "{summary:?}");
    assert!(summary.operations.values().all(|operation| operation.count == 0), "{summary:?}");
}

#[test]
fn who_does_not_trust_the_server_tells_it_so() {
    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let untrusted = each_connection(|_, stream| {
        let heard = secured(stream).read(&mut [0; 4096]);
        HEARD.lock().unwrap().extend(heard.err().map(|error| error.to_string()));
    });
    let mut plan = plan("http", "{tls: {name: localhost}, requests: [{path: /}]}", untrusted);
    plan.timeout = Duration::from_secs(1);
    assert!(drive(&plan).1.unwrap_err().message.contains("certificate"));
    let heard = HEARD.lock().unwrap();
    assert!(heard.iter().any(|error| error.contains("alert")), "{heard:?}");
}
