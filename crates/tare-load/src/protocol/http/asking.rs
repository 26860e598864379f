//! Questions to services of the workload after a run: whether the results are consistent.

use super::options::Question;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tare_core::load::Check;

/// How long to wait between two attempts: accepted work may still be in progress.
const PAUSE: Duration = Duration::from_millis(250);
/// The least time that a single answer may take, however late it is asked for.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
/// How much is reported of an answer that says something is wrong, characters.
const TOLD_MAX: usize = 2000;
/// The most that is read of an answer, bytes.
const ANSWER_MAX: u64 = 1 << 20;

/// Asks every instance of the service until all is well or the time is up.
pub(super) fn ask(question: &Question, endpoints: &[SocketAddr]) -> Check {
    let name = format!("{} says that all is well at {}", question.service, question.path);
    if endpoints.is_empty() {
        let detail = format!("the deployment gives no address for '{}'; write it as service.port", question.service);
        return Check { always: true, outcome: false, name, passed: false, detail };
    }
    let began = Instant::now();
    loop {
        let left = || question.within.saturating_sub(began.elapsed());
        let answers: Vec<_> = endpoints.iter().map(|endpoint| get(*endpoint, &question.path, left())).collect();
        let wrong = answers.iter().find(|answer| !matches!(answer, Ok((200, _))));
        let Some(wrong) = wrong else {
            return Check { always: true, outcome: false, name, passed: true, detail: told(&answers[0]) };
        };
        if began.elapsed() >= question.within {
            return Check { always: true, outcome: false, name, passed: false, detail: told(wrong) };
        }
        std::thread::sleep(PAUSE);
    }
}

fn told(answer: &Result<(u16, String)>) -> String {
    match answer {
        Ok((status, body)) => {
            let body: String = body.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TOLD_MAX).collect();
            format!("it answered {status}: {body}")
        }
        Err(error) => format!("it did not answer: {error}"),
    }
}

/// An answer with one time limit for all of it, rather than for each piece: a server that sends a byte now and then
/// would otherwise hold up the run for ever.
struct Answer {
    stream: TcpStream,
    began: Instant,
    within: Duration,
}

impl Answer {
    /// How much of the time is left.
    ///
    /// # Errors
    /// When none is left.
    fn left(&self) -> Result<Duration> {
        let left = self.within.saturating_sub(self.began.elapsed());
        if left.is_zero() { Err(late()) } else { Ok(left) }
    }
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => late(),
            _ => error,
        })
    }
}

fn late() -> Error {
    Error::new(ErrorKind::TimedOut, "no whole answer came in time")
}

/// The status and the body of the answer to a GET, all of which must come within [`PATIENCE_MIN`], or within `within`
/// if that is longer.
///
/// # Errors
/// When nothing is reached, the answer is not HTTP, or it does not end in time.
fn get(endpoint: SocketAddr, path: &str, within: Duration) -> Result<(u16, String)> {
    let (began, within) = (Instant::now(), within.max(PATIENCE_MIN));
    let stream = TcpStream::connect_timeout(&endpoint, within)?;
    let mut answer = Answer { stream, began, within };
    answer.stream.set_write_timeout(Some(answer.left()?))?;
    // HTTP/1.0: the answer is not chunked and ends with the connection.
    let question = format!("GET {path} HTTP/1.0\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n");
    answer.stream.write_all(question.as_bytes())?;
    let mut bytes = Vec::new();
    answer.take(ANSWER_MAX).read_to_end(&mut bytes)?;
    understood(&bytes)
}

/// The status and the body of an answer.
///
/// # Errors
/// When it is not HTTP.
fn understood(answer: &[u8]) -> Result<(u16, String)> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_ref(), ""));
    let words = head.strip_prefix("HTTP/1.").map(|head| head.split([' ', '\r']));
    let status = words.and_then(|mut words| words.nth(1)?.parse().ok());
    let status = status.ok_or_else(|| Error::other("that is not HTTP"))?;
    Ok((status, body.to_owned()))
}

/// Takes any bytes as an answer: what is reported of it is short and on one line, and what is not HTTP has no status.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(bytes: &[u8]) {
    let answer = understood(bytes);
    assert!(answer.is_err() || bytes.starts_with(b"HTTP/1."), "{answer:?}");
    let told = told(&answer);
    assert!(told.chars().count() < TOLD_MAX + 40 && !told.contains(['\n', '\r', '\t']), "{told:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    /// The check that results from asking a service that gives these answers, one after the other.
    fn asked(answers: &'static [&'static str], within: Duration) -> Check {
        asked_of(answers, within, |stream, answer| stream.write_all(answer.as_bytes()).unwrap())
    }

    /// The same for a service that sends them in its own way.
    fn asked_of(answers: &'static [&'static str], within: Duration, give: fn(&mut TcpStream, &str)) -> Check {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                assert_eq!(lines.next().unwrap().unwrap(), "GET /well HTTP/1.0");
                while !lines.next().unwrap().unwrap().is_empty() {}
                give(&mut stream, answer);
            }
        });
        let question = Question { service: "data".into(), path: "/well".into(), within };
        ask(&question, &[endpoint])
    }

    #[test]
    fn what_is_on_its_way_is_waited_for() {
        const BUSY: &str = "HTTP/1.1 409 Conflict\r\n\r\n{\"violations\": [\"3 bids are\n  undecided\"]}";
        const WELL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell";
        let check = asked(&[BUSY, WELL], Duration::from_secs(20));
        assert!(check.passed && check.detail == "it answered 200: well", "{check:?}");
        let check = asked(&[BUSY], Duration::ZERO);
        assert!(
            !check.passed && check.detail.contains("409: {\"violations\": [\"3 bids are undecided\"]}"),
            "{check:?}"
        );
    }

    #[test]
    fn a_service_that_is_not_there_is_no_good_answer() {
        let endpoint = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let question = Question { service: "data".into(), path: "/".into(), within: Duration::ZERO };
        assert!(ask(&question, &[endpoint]).detail.starts_with("it did not answer"));
        let check = ask(&question, &[]);
        assert!(!check.passed && check.detail.contains("no address for 'data'"));
    }

    #[test]
    fn who_answers_a_byte_at_a_time_holds_nobody_for_long() {
        const WELL: &str = "HTTP/1.1 200 OK\r\n\r\n";
        let began = Instant::now();
        let check = asked_of(&[WELL], Duration::ZERO, |stream, answer| {
            // Half a minute, if it were waited for.
            for byte in answer.bytes().chain([b'x'; 600]) {
                let sent = stream.write_all(&[byte]);
                std::thread::sleep(Duration::from_millis(50));
                if sent.is_err() {
                    return;
                }
            }
        });
        assert!(!check.passed && check.detail.contains("no whole answer came in time"), "{check:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }

    #[test]
    fn what_is_no_http_is_no_good_answer() {
        assert_eq!(understood(b"HTTP/1.0 200\r\n\r\nwell").unwrap(), (200, "well".to_owned()));
        for other in ["", "x 200 OK\r\n\r\n", "HTTP/1.1 OK 200\r\n\r\n", "HTTP/1.1"] {
            assert!(understood(other.as_bytes()).is_err(), "{other}");
        }
    }
}
