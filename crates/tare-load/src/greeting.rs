//! Finds out which protocol an address speaks.
//!
//! Some servers greet first. The others are asked the cheapest harmless question of each protocol, each on a connection
//! of its own: Redis `PING`, PostgreSQL SSLRequest, memcached `version`, a TLS ClientHello, and last HTTP `GET /`, the
//! only one that may cost an application work. A server that refuses a question in the words of another protocol is
//! recognised by these.

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most of a reply that is read, bytes: more than any greeting needs.
const REPLY_MAX: usize = 512;
/// How much of an unknown reply is kept, bytes.
const UNKNOWN_MAX: usize = 64;
/// Of this many equal shares of the patience, the greeting and each question get one, and the last question gets those
/// that are left.
const SHARES: u32 = 8;

/// SSLRequest of PostgreSQL's protocol 3.0: the length of the message and the request's code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// A protocol that an address speaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spoken {
    /// The Redis protocol, which Valkey and others speak as well.
    Redis,
    /// HTTP/1, in plain text.
    Http,
    /// TLS; the protocol inside is not known.
    Tls,
    /// The PostgreSQL protocol.
    Postgres,
    /// The MySQL protocol, which MariaDB speaks as well.
    MySql,
    /// The text protocol of memcached.
    Memcached,
    /// There was no answer, or no connection.
    Silent,
    /// Another protocol. The first bytes of what it said first, at most 64.
    Unknown(Vec<u8>),
}

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Spoken::Redis => "Redis",
            Spoken::Http => "HTTP",
            Spoken::Tls => "TLS",
            Spoken::Postgres => "PostgreSQL",
            Spoken::MySql => "MySQL",
            Spoken::Memcached => "memcached",
            Spoken::Silent => "no answer",
            Spoken::Unknown(bytes) => {
                return write!(f, "an unknown protocol, beginning with \"{}\"", bytes.escape_ascii());
            }
        })
    }
}

/// Asks which protocol is spoken at `address`: over at most five connections, one after the other, and within
/// `patience`. At most 512 bytes of each answer are read. Two seconds are enough for a server of this machine that has
/// started.
pub fn ask(address: SocketAddr, patience: Duration) -> Spoken {
    let (share, deadline) = (patience / SHARES, Instant::now() + patience);
    let rest = || deadline.saturating_duration_since(Instant::now());
    let limit = || share.min(rest());
    let Ok(mut talk) = Talk::begin(address, limit()) else { return Spoken::Silent };
    if let Some(greeted) = talk.listen(None, limit()) {
        return greeted;
    }
    if !talk.heard.is_empty() {
        return talk.unknown();
    }
    // Whoever waits to be asked is asked over the same connection first.
    let (mut waiting, mut unknown) = (Some(talk), None);
    for question in [Question::Ping, Question::SslRequest, Question::Version, Question::ClientHello] {
        let next = waiting.take().map_or_else(|| Talk::begin(address, limit()), Ok);
        let Ok(mut talk) = next else { continue };
        match talk.put(question, address, limit()) {
            // Behind TLS, too, a web server may refuse in plain text what is not TLS.
            Some(Spoken::Http) if question != Question::ClientHello => return http_or_tls(address, limit()),
            Some(spoken) => return spoken,
            None => note(&mut unknown, talk),
        }
    }
    if let Ok(mut talk) = Talk::begin(address, limit()) {
        match talk.put(Question::Get, address, rest()) {
            Some(spoken) => return spoken,
            None => note(&mut unknown, talk),
        }
    }
    unknown.unwrap_or(Spoken::Silent)
}

/// Which of the two an address speaks that has answered in HTTP.
fn http_or_tls(address: SocketAddr, limit: Duration) -> Spoken {
    let talk = Talk::begin(address, limit);
    let answer = talk.ok().and_then(|mut talk| talk.put(Question::ClientHello, address, limit));
    if answer == Some(Spoken::Tls) { Spoken::Tls } else { Spoken::Http }
}

/// Keeps the first answer that nothing is known of.
fn note(unknown: &mut Option<Spoken>, talk: Talk) {
    if unknown.is_none() && !talk.heard.is_empty() {
        *unknown = Some(talk.unknown());
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Ping,
    SslRequest,
    Version,
    ClientHello,
    Get,
}

impl Question {
    fn bytes(self, address: SocketAddr) -> Vec<u8> {
        match self {
            Question::Ping => b"*1\r\n$4\r\nPING\r\n".to_vec(),
            Question::SslRequest => SSL_REQUEST.to_vec(),
            Question::Version => b"version\r\n".to_vec(),
            Question::ClientHello => client_hello(address),
            Question::Get => {
                let fields = "User-Agent: tare\r\nAccept: */*\r\nConnection: close";
                format!("GET / HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n\r\n").into_bytes()
            }
        }
    }
}

/// The first message of a handshake that goes no further, so nothing has to be trusted.
fn client_hello(address: SocketAddr) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for the usual versions")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), ServerName::from(address.ip()))
        .expect("a usual configuration begins a handshake with any address");
    let mut hello = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut hello).expect("memory takes everything");
    }
    hello
}

/// A connection over which one question is asked, and what was heard on it.
struct Talk {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Talk {
    fn begin(address: SocketAddr, limit: Duration) -> io::Result<Talk> {
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        Ok(Talk { stream, heard: Vec::new() })
    }

    /// Asks, and returns what the answer is understood as.
    fn put(&mut self, question: Question, address: SocketAddr, limit: Duration) -> Option<Spoken> {
        let deadline = Instant::now() + limit;
        self.stream.set_write_timeout(Some(limit)).ok()?;
        self.stream.write_all(&question.bytes(address)).ok()?;
        self.listen(Some(question), deadline.saturating_duration_since(Instant::now()))
    }

    /// Listens for at most `limit` until what was heard is understood, or is a whole line of text, or enough.
    fn listen(&mut self, question: Option<Question>, limit: Duration) -> Option<Spoken> {
        let deadline = Instant::now() + limit;
        let mut piece = [0; REPLY_MAX];
        while self.heard.len() < REPLY_MAX {
            // No time left is refused as a time limit.
            let left = deadline.saturating_duration_since(Instant::now());
            self.stream.set_read_timeout(Some(left)).ok()?;
            match self.stream.read(&mut piece[..REPLY_MAX - self.heard.len()]) {
                Ok(0) => return None,
                Ok(received) => self.heard.extend_from_slice(&piece[..received]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return None,
            }
            let understood = understand(question, &self.heard);
            if understood.is_some() || is_line(&self.heard) {
                return understood;
            }
        }
        None
    }

    fn unknown(mut self) -> Spoken {
        self.heard.truncate(UNKNOWN_MAX);
        Spoken::Unknown(self.heard)
    }
}

/// Whether it is text up to the end of a line.
fn is_line(heard: &[u8]) -> bool {
    heard.ends_with(b"\n") && heard.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// What a greeting, or the answer to a question, is understood as; none if it is unknown, or too short to tell.
fn understand(question: Option<Question>, heard: &[u8]) -> Option<Spoken> {
    if is_http(heard) {
        Some(Spoken::Http)
    } else if is_redis(heard) {
        Some(Spoken::Redis)
    } else if heard.starts_with(b"VERSION ") {
        Some(Spoken::Memcached)
    } else if is_tls(heard) {
        Some(Spoken::Tls)
    } else if is_mysql(heard) {
        Some(Spoken::MySql)
    } else if question == Some(Question::SslRequest) && is_postgres(heard) {
        Some(Spoken::Postgres)
    } else {
        None
    }
}

/// The status line: version and status.
fn is_http(heard: &[u8]) -> bool {
    let Some((version, rest)) = heard.split_at_checked(9) else { return false };
    let is_version = version.starts_with(b"HTTP/1.") && version[7].is_ascii_digit() && version[8] == b' ';
    is_version && rest.len() >= 3 && rest[..3].iter().all(u8::is_ascii_digit)
}

/// The answer to a PING, or an error: a word in capitals, and what happened.
fn is_redis(heard: &[u8]) -> bool {
    if heard.starts_with(b"+PONG\r\n") {
        return true;
    }
    let Some(error) = heard.strip_prefix(b"-") else { return false };
    let word = error.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    word >= 2 && error.get(word) == Some(&b' ')
}

/// The record of a ServerHello or of an alert, in any version.
fn is_tls(heard: &[u8]) -> bool {
    match *heard {
        // A hello of type 1 would be our own, as an echo.
        [0x16, 3, 1..=4, _, _, 2, ..] => true,
        [0x15, 3, 0..=4, 0, 2, 1 | 2, _, ..] => true,
        _ => false,
    }
}

/// The first packet of a connection: a handshake of version 10 with the server's version, or an error.
fn is_mysql(heard: &[u8]) -> bool {
    let [low, middle, 0, 0, kind, rest @ ..] = heard else { return false };
    let length = u16::from_le_bytes([*low, *middle]);
    match (*kind, rest) {
        (0x0a, [first, ..]) => {
            let mut version = rest.iter().take_while(|byte| **byte != 0);
            (20..=1024).contains(&length) && *first != 0 && version.all(|byte| (b' '..=b'~').contains(byte))
        }
        (0xff, [low, high, ..]) => {
            (4..=1024).contains(&length) && (1000..10_000).contains(&u16::from_le_bytes([*low, *high]))
        }
        _ => false,
    }
}

/// The answer to an SSLRequest: one byte and nothing more, or an error message.
fn is_postgres(heard: &[u8]) -> bool {
    match *heard {
        [b'S' | b'N'] => true,
        // Its first field is the severity: ERROR, FATAL or PANIC.
        [b'E', 0, 0, high, low, b'S', b'E' | b'F' | b'P', ..] => u16::from_be_bytes([high, low]) >= 20,
        _ => false,
    }
}

/// Understands any bytes, as a greeting and as an answer. Nothing is two things at once.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    for question in [None, Some(Question::Ping), Some(Question::SslRequest)] {
        let understood = understand(question, bytes);
        assert!(!matches!(understood, Some(Spoken::Silent | Spoken::Unknown(_))), "{}", bytes.escape_ascii());
    }
    let kinds = [is_http(bytes), is_redis(bytes), is_tls(bytes), is_mysql(bytes), is_postgres(bytes)];
    assert!(kinds.iter().filter(|kind| **kind).count() <= 1, "{}", bytes.escape_ascii());
}

#[cfg(test)]
mod tests;
