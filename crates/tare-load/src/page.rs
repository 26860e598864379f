//! What a web server answers to a single request, before any load.

use httparse::{EMPTY_HEADER, Response, Status};
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest head of an answer that is read, bytes.
const HEAD_MAX: usize = 16 << 10;
/// The most header fields of an answer.
const FIELDS_MAX: usize = 100;
/// How much of a text of the server is kept, characters.
const TEXT_MAX: usize = 200;

/// The head of an answer. Its texts have printable characters only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status: 200 is the page that was asked for.
    pub status: u16,
    /// The words behind it; often empty.
    pub reason: String,
    /// Where the page is instead, if the server says so.
    pub location: Option<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason.as_str() {
            "" => write!(f, "{}", self.status),
            reason => write!(f, "{} {reason}", self.status),
        }
    }
}

/// Asks for the page at `path`, in plain text and over a connection of its own. Returns the head of the answer; `None`
/// without one within `patience`, and for a path that cannot stand in a request as it is.
pub fn get(address: SocketAddr, path: &str, patience: Duration) -> Option<Answer> {
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let deadline = Instant::now() + patience;
    // No time left is refused as a time limit.
    let left = || Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
    let mut stream = TcpStream::connect_timeout(&address, left()?).ok()?;
    stream.set_write_timeout(Some(left()?)).ok()?;
    let fields = "User-Agent: tare\r\nAccept: */*\r\nConnection: close";
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n\r\n").as_bytes()).ok()?;
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    while heard.len() < HEAD_MAX {
        stream.set_read_timeout(Some(left()?)).ok()?;
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(received) => heard.extend_from_slice(&piece[..received]),
        }
        if let Some(answer) = understood(&heard) {
            return Some(answer);
        }
    }
    None
}

/// The head in what was heard so far, once it is whole.
fn understood(heard: &[u8]) -> Option<Answer> {
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut response = Response::new(&mut fields);
    let Ok(Status::Complete(_)) = response.parse(heard) else { return None };
    let text = |text: &str| text.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect::<String>();
    let location = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("location"));
    let location = location.and_then(|field| std::str::from_utf8(field.value).ok()).map(text);
    Some(Answer { status: response.code?, reason: text(response.reason.unwrap_or_default()), location })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_testkit::peer::answering;

    const PATIENCE: Duration = Duration::from_secs(5);

    #[test]
    fn the_status_and_the_new_place_are_told() {
        let moved = answering(|_, asked| {
            assert!(asked.starts_with(b"GET /old?a=b HTTP/1.1\r\nHost: 127.0.0.1:"));
            Some("HTTP/1.1 302 Found\r\nServer: x\r\nlocation: /login\r\n\r\n")
        });
        let answer = get(moved, "/old?a=b", PATIENCE).unwrap();
        assert_eq!((answer.to_string().as_str(), answer.location.as_deref()), ("302 Found", Some("/login")));
        let bare = answering(|_, _| Some("HTTP/1.1 404 \r\nLocation: /there\r\n\r\nbody"));
        let answer = get(bare, "/", PATIENCE).unwrap();
        assert_eq!((answer.to_string().as_str(), answer.location.as_deref()), ("404", Some("/there")));
    }

    #[test]
    fn what_is_no_answer_tells_nothing() {
        let other = answering(|_, _| Some("220 mail\r\n"));
        assert_eq!(get(other, "/", Duration::from_millis(200)), None);
        assert_eq!(get(other, "/a b", PATIENCE), None);
        assert_eq!(understood(b"HTTP/1.0 200 OK\r\n"), None, "its head is not whole");
    }
}
