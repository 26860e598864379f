//! Questions to services of the workload after a run: whether what was done holds together.

use super::options::Question;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tare_core::load::Check;

/// How long is waited between two times of asking: what was accepted may still be on its way.
const PAUSE: Duration = Duration::from_millis(250);
/// A single question may take at least so long; an empty time would be refused by the kernel.
const PATIENCE_MIN: Duration = Duration::from_secs(1);
/// Of an answer that says that something is wrong, so much is told.
const TOLD_MAX: usize = 2000;
/// Longer answers than this are not read to their end.
const ANSWER_MAX: u64 = 1 << 20;

/// Asks every instance of the service until all is well or the time is over.
pub(super) fn ask(question: &Question, endpoints: &[SocketAddr]) -> Check {
    let name = format!("{} says that all is well at {}", question.service, question.path);
    if endpoints.is_empty() {
        let detail = format!("the deployment gives no address for '{}'; write it as service.port", question.service);
        return Check { always: true, outcome: false, name, passed: false, detail };
    }
    let began = Instant::now();
    loop {
        let answers: Vec<_> =
            endpoints.iter().map(|endpoint| get(*endpoint, &question.path, question.within)).collect();
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

fn told(answer: &std::io::Result<(u16, String)>) -> String {
    match answer {
        Ok((status, body)) => {
            let body: String = body.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TOLD_MAX).collect();
            format!("it answered {status}: {body}")
        }
        Err(error) => format!("it did not answer: {error}"),
    }
}

/// The status and the body of the answer to a GET.
fn get(endpoint: SocketAddr, path: &str, within: Duration) -> std::io::Result<(u16, String)> {
    let within = within.max(PATIENCE_MIN);
    let mut stream = TcpStream::connect_timeout(&endpoint, within)?;
    stream.set_read_timeout(Some(within))?;
    // HTTP/1.0: the answer comes in one piece and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {endpoint}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_ref(), ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other("that is not HTTP"))?;
    Ok((status, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    /// A service that gives these answers, one after the other, and the check that comes of asking it.
    fn asked(answers: &'static [&'static str], within: Duration) -> Check {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                assert_eq!(lines.next().unwrap().unwrap(), "GET /well HTTP/1.0");
                while !lines.next().unwrap().unwrap().is_empty() {}
                stream.write_all(answer.as_bytes()).unwrap();
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
}
