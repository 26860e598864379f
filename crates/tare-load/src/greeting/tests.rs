//! Small servers that speak by the protocols' specifications, and hostile ones.

use super::*;
use rustls::ServerConnection;
use std::sync::atomic::{AtomicUsize, Ordering};
use tare_testkit::peer::{each_connection, free_port};

const PATIENCE: Duration = Duration::from_secs(2);

/// Serves whoever has said something that `is_whole`, with what `answer` makes of it; ends connections without an
/// answer.
fn server(
    is_whole: impl Fn(&[u8]) -> bool + Clone + Send + 'static,
    answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Clone + Send + 'static,
) -> SocketAddr {
    each_connection(move |_, mut stream| {
        let (mut said, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(received @ 1..) = stream.read(&mut piece) {
            said.extend_from_slice(&piece[..received]);
            if !is_whole(&said) {
                continue;
            }
            match answer(&said) {
                Some(answer) if stream.write_all(&answer).is_ok() => said.clear(),
                _ => return,
            }
        }
    })
}

/// Says this to whoever connects, in one piece, and then waits for the end of the connection.
fn greets(greeting: &'static [u8]) -> SocketAddr {
    each_connection(move |_, mut stream| {
        let _ = stream.write_all(greeting);
        while let Ok(1..) = stream.read(&mut [0; 4096]) {}
    })
}

fn has_line(said: &[u8]) -> bool {
    said.contains(&b'\n')
}

/// Redis: commands are arrays of strings.
fn redis(password: bool) -> SocketAddr {
    server(
        |said| said.ends_with(b"\r\n") && said.iter().filter(|byte| **byte == b'\n').count() >= 3,
        move |said| {
            let answer: &[u8] = match said {
                b"*1\r\n$4\r\nPING\r\n" if password => b"-NOAUTH Authentication required.\r\n",
                b"*1\r\n$4\r\nPING\r\n" => b"+PONG\r\n",
                _ => return None,
            };
            Some(answer.to_vec())
        },
    )
}

/// HTTP: refuses what is no request in its first line.
fn http(answer: &'static str) -> SocketAddr {
    server(has_line, move |said| {
        let refused = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let answer = if said.starts_with(b"GET / HTTP/1.1\r\nHost: ") { answer } else { refused };
        Some(answer.as_bytes().to_vec())
    })
}

/// PostgreSQL: a length and a code, or it ends the connection.
fn postgres(answer: &'static [u8]) -> SocketAddr {
    server(|said| said.len() >= 8, move |said| (said == SSL_REQUEST).then(|| answer.to_vec()))
}

fn memcached() -> SocketAddr {
    server(has_line, |said| {
        let answer: &[u8] = if said == b"version\r\n" { b"VERSION 1.6.18\r\n" } else { b"ERROR\r\n" };
        Some(answer.to_vec())
    })
}

/// A web server behind TLS: like nginx, it refuses in plain text what is not TLS.
fn secured() -> SocketAddr {
    let config = tare_testkit::tls::config();
    each_connection(move |_, mut stream| {
        let mut first = [0];
        if stream.peek(&mut first).is_ok() && first == [0x16] {
            let mut connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            while connection.complete_io(&mut stream).is_ok_and(|(read, _)| read > 0) {}
        } else if let Ok(1..) = stream.read(&mut [0; 4096]) {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    })
}

/// The handshake packet of protocol version 10, without its plugin's name.
const MYSQL: &[u8] = b"\x34\0\0\0\x0a8.0.36\0\x08\0\0\0saltsalt\0\xff\xf7\xff\x02\0\xff\xdf\x15\
                       \0\0\0\0\0\0\0\0\0\0morepepper12\0";

#[test]
fn each_protocol_is_recognised_by_its_answer() {
    assert_eq!(ask(redis(false), PATIENCE), Spoken::Redis);
    assert_eq!(ask(redis(true), PATIENCE), Spoken::Redis, "with a password");
    assert_eq!(ask(http("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), PATIENCE), Spoken::Http);
    assert_eq!(ask(postgres(b"N"), PATIENCE), Spoken::Postgres);
    assert_eq!(ask(postgres(b"S"), PATIENCE), Spoken::Postgres, "with TLS");
    assert_eq!(ask(memcached(), PATIENCE), Spoken::Memcached);
    assert_eq!(ask(secured(), PATIENCE), Spoken::Tls);
}

#[test]
fn who_speaks_first_is_recognised_by_the_greeting() {
    assert_eq!(MYSQL.len(), 4 + 0x34);
    assert_eq!(ask(greets(MYSQL), PATIENCE), Spoken::MySql);
    let blocked = b"\x1e\0\0\0\xff\x69\x04Host is not allowed to them";
    assert_eq!(ask(greets(blocked), PATIENCE), Spoken::MySql, "an error instead of a handshake");
    assert_eq!(ask(greets(b"-DENIED Redis is running in protected mode\r\n"), PATIENCE), Spoken::Redis);
    let ssh = Spoken::Unknown(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec());
    assert_eq!(ask(greets(b"SSH-2.0-OpenSSH_9.2\r\n"), PATIENCE), ssh);
    assert_eq!(ssh.to_string(), r#"an unknown protocol, beginning with "SSH-2.0-OpenSSH_9.2\r\n""#);
}

#[test]
fn a_web_server_that_waits_for_a_whole_request_is_asked_last() {
    let whole = |said: &[u8]| said.windows(4).any(|four| four == b"\r\n\r\n");
    let slow = server(whole, |said| {
        let request = said.starts_with(b"GET /");
        request.then(|| b"HTTP/1.0 404 Not Found\r\n\r\n".to_vec())
    });
    assert_eq!(ask(slow, PATIENCE), Spoken::Http);
}

#[test]
fn answers_may_come_byte_by_byte() {
    let slowly = each_connection(|_, mut stream| {
        stream.set_nodelay(true).unwrap();
        for byte in MYSQL {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(ask(slowly, PATIENCE), Spoken::MySql);
}

#[test]
fn an_unknown_answer_is_kept_and_an_echo_is_no_answer_of_a_protocol() {
    let answers = server(has_line, |_| Some(b"what?\r\n".to_vec()));
    assert_eq!(ask(answers, PATIENCE), Spoken::Unknown(b"what?\r\n".to_vec()));
    let echo = server(|_| true, |said| Some(said.to_vec()));
    assert_eq!(ask(echo, PATIENCE), Spoken::Unknown(b"*1\r\n$4\r\nPING\r\n".to_vec()));
}

#[test]
fn who_says_nothing_costs_five_connections_and_the_patience() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let silent = each_connection(move |_, mut stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        while let Ok(1..) = stream.read(&mut [0; 4096]) {}
    });
    let (began, patience) = (Instant::now(), Duration::from_millis(400));
    assert_eq!(ask(silent, patience), Spoken::Silent);
    assert!(began.elapsed() < patience + Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(count.load(Ordering::SeqCst), 5);
    assert_eq!(ask(SocketAddr::from(([127, 0, 0, 1], free_port())), PATIENCE), Spoken::Silent, "nobody listens");
    let closes = each_connection(|_, stream| drop(stream));
    assert_eq!(ask(closes, PATIENCE), Spoken::Silent);
}

#[test]
fn a_hostile_answer_is_bounded() {
    let endless = each_connection(|_, mut stream| while stream.write_all(&[b'x'; 65_536]).is_ok() {});
    assert_eq!(ask(endless, PATIENCE), Spoken::Unknown(vec![b'x'; UNKNOWN_MAX]));
    // It never comes to an end, and never stays silent for long.
    let trickle = each_connection(|_, mut stream| {
        while stream.write_all(b"\0").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let (began, patience) = (Instant::now(), Duration::from_millis(400));
    assert!(matches!(ask(trickle, patience), Spoken::Unknown(_)));
    assert!(began.elapsed() < patience + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[test]
fn too_little_is_not_understood_yet() {
    let cases: [&[u8]; 5] = [b"HTTP/1.1 20", b"+PONG", b"-ERR", &MYSQL[..5], &[0x16, 3, 3, 0, 80]];
    for case in cases {
        assert_eq!(understand(Some(Question::Ping), case), None, "{}", case.escape_ascii());
    }
    assert_eq!(understand(Some(Question::Ping), b"N"), None, "it answers no SSLRequest");
    assert_eq!(understand(None, &[0x16, 3, 1, 0, 80, 1]), None, "a hello of a client");
}
