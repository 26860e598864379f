//! Scripts against a server that is a function, without sockets.

mod scripts;
mod secured;
mod split;

use super::options::Options;
use super::state::{Session, User};
use super::{Http, options};
use crate::draw::Draw;
use crate::operation::{Failure, Flight, Protocol, Reply, Step};

/// A server's reply to a request.
type Answer<'a> = &'a dyn Fn(&str) -> Vec<u8>;

/// The protocol with options as a workload states them.
pub(super) fn http(text: &str) -> Http {
    http_at(text, "127.0.0.1:8080")
}

/// The same with another endpoint.
fn http_at(text: &str, endpoint: &str) -> Http {
    let options: Options = crate::protocol::read_text(options::read, text).unwrap();
    Http::new(options, endpoint.parse().unwrap()).unwrap()
}

/// A reply with a body and further header lines.
pub(super) fn reply(status: u16, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A user on one connection.
struct Rig<'a> {
    http: &'a Http,
    session: Session,
    user: User,
    draw: Draw,
    /// What was sent, one item per request.
    sent: Vec<String>,
}

impl<'a> Rig<'a> {
    fn new(http: &'a Http) -> Self {
        Rig { http, session: http.session(), user: http.user(0), draw: Draw::new(1, 0), sent: Vec::new() }
    }

    /// Carries out an operation; replies come in pieces of `piece` bytes.
    fn run_in(&mut self, operation: u16, piece: usize, answer: Answer<'_>) -> Step {
        let mut out = Vec::new();
        self.http.begin(&mut self.session, &mut self.user, operation, &mut self.draw, &mut out);
        let flight = Flight { operation, ..Flight::default() };
        loop {
            let request = String::from_utf8(std::mem::take(&mut out)).unwrap();
            assert_eq!(request.matches(" HTTP/1.1\r\n").count(), 1, "one request at a time: {request}");
            let reply = answer(&request);
            self.sent.push(request);
            let mut pieces = reply.chunks(piece).peekable();
            while let Some(bytes) = pieces.next() {
                let (session, user, draw) = (&mut self.session, &mut self.user, &mut self.draw);
                match self.http.feed(session, user, &flight, bytes, draw, &mut out) {
                    // The peer says more than it was asked for.
                    Step::More if !out.is_empty() && pieces.peek().is_some() => return Step::Broken(Failure::Garbage),
                    Step::More => {}
                    step => {
                        assert!(out.is_empty(), "asked at the end");
                        return step;
                    }
                }
            }
            if out.is_empty() {
                return Step::More;
            }
        }
    }

    fn run(&mut self, operation: u16, answer: Answer<'_>) -> Reply {
        match self.run_in(operation, usize::MAX, answer) {
            Step::Done { reply, .. } => reply,
            step => panic!("{step:?}"),
        }
    }

    /// The first lines of the requests sent.
    fn lines(&self) -> Vec<&str> {
        self.sent.iter().map(|request| request.split(" HTTP/1.1").next().unwrap()).collect()
    }
}

/// The outcome of the only operation in these options, given one reply.
pub(super) fn judged(options: &str, answer: &[u8]) -> Reply {
    Rig::new(&http(options)).run(0, &|_| answer.to_vec())
}

const WRONG: Reply = Reply::Wrong(Failure::WrongReply);

#[test]
fn status_and_body_are_judged() {
    let options = "requests: [{path: /, contains: needle}]";
    assert_eq!(judged(options, &reply(200, "", "a needle")), Reply::Right);
    assert_eq!(judged(options, &reply(200, "", "hay")), WRONG);
    assert_eq!(judged(options, b"HTTP/1.1 304 Not Modified\r\n\r\n"), Reply::Wrong(Failure::Status(304)));
    assert_eq!(judged(options, &reply(503, "", "a needle")), Reply::Wrong(Failure::Status(503)));
    let options = "requests: [{get: /, expect: {status: [2xx, 302-303], lacks: [bad, worse], contains: [a, b]}}]";
    for (status, body, right) in [
        (204, "", false),
        (202, "a b", true),
        (303, "b a", true),
        (304, "", false),
        (200, "a b worse", false),
        (200, "a", false),
    ] {
        assert_eq!(judged(options, &reply(status, "", body)) == Reply::Right, right, "{status} {body}");
    }
    assert_eq!(judged("requests: [{head: /}]", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), Reply::Right);
}

#[test]
fn bodies_are_judged_as_text_and_as_json() {
    let options = r#"requests: [{get: /, expect: {matches: 'id="\d+"', headers: {Content-Type: ^text/}}}]"#;
    assert_eq!(judged(options, &reply(200, "Content-Type: text/html\r\n", r#"<a id="12">"#)), Reply::Right);
    assert_eq!(judged(options, &reply(200, "Content-Type: text/html\r\n", r#"<a id="x">"#)), WRONG);
    assert_eq!(judged(options, &reply(200, "", r#"<a id="12">"#)), WRONG);
    let options = "requests: [{get: /, expect: {json: {/a/0: 1, /b: x, /c: , /d: 'null'}}}]";
    assert_eq!(judged(options, &reply(200, "", r#"{"a":[1],"b":"x","c":{},"d":null}"#)), Reply::Right);
    for body in [r#"{"a":[2],"b":"x","c":{},"d":null}"#, r#"{"a":[1],"b":"x","d":null}"#, "{", ""] {
        assert_eq!(judged(options, &reply(200, "", body)), WRONG, "{body}");
    }
}

#[test]
fn compressed_bodies_are_read_where_they_are_looked_at() {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&b"hay ".repeat(50_000)).unwrap();
    encoder.write_all(b"needle").unwrap();
    let body = encoder.finish().unwrap();
    let head = |coding: &str, length: usize| {
        format!("HTTP/1.1 200 X\r\nContent-Encoding: {coding}\r\nContent-Length: {length}\r\n\r\n").into_bytes()
    };
    let whole = [head("gzip", body.len()), body.clone()].concat();
    let (contains, keeps, neither) = ("contains: needle", "expect: {matches: needle$}", "status: 200");
    for wanted in [contains, keeps, neither] {
        assert_eq!(judged(&format!("requests: [{{path: /, {wanted}}}]"), &whole), Reply::Right, "{wanted}");
    }
    let coding = Reply::Wrong(Failure::Coding);
    let options = "requests: [{path: /, contains: needle}]";
    assert_eq!(judged(options, &[head("gzip", body.len() - 9), body[..body.len() - 9].to_vec()].concat()), coding);
    assert_eq!(judged(options, &[head("br", 3), b"abc".to_vec()].concat()), coding);
    assert_eq!(judged(options, &[head("gzip", 3), b"abc".to_vec()].concat()), coding);
    assert_eq!(judged(options, &[head("gzip", 0)].concat()), WRONG);
    assert_eq!(judged(options, &[head("identity", 6), b"needle".to_vec()].concat()), Reply::Right);
    let bounded = "{body_max: 100KiB, requests: [{path: /, expect: {matches: needle}}]}";
    assert_eq!(judged(bounded, &whole), Reply::Wrong(Failure::TooLarge));
}

#[test]
fn one_fixed_request_is_sent_to_the_byte() {
    let http =
        http("headers: {User-Agent: tare}\nrequests: [{path: /a?b=c, headers: {Accept: '*/*'}}, {path: /p, body: x}]");
    let mut rig = Rig::new(&http);
    for operation in [0, 1] {
        assert_eq!(rig.run(operation, &|_| reply(200, "", "")), Reply::Right);
    }
    let get = "GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\nUser-Agent: tare\r\n\r\n";
    let post = "POST /p HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: tare\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(rig.sent, [get, post]);
    assert!(rig.user.is_none(), "nothing is remembered of who gives nothing to remember");
}

#[test]
fn what_nobody_asked_for_is_garbage() {
    let http = http("operations: {a: {requests: [{get: /}, {get: /b}]}}");
    let two = [reply(200, "", ""), reply(200, "", "")].concat();
    assert_eq!(Rig::new(&http).run_in(0, usize::MAX, &|_| two.clone()), Step::Broken(Failure::Garbage));
    assert_eq!(http.idle(&mut http.session(), b"x", &mut Vec::new()), Err(Failure::Garbage));
}

#[test]
fn the_end_of_a_connection_may_be_the_end_of_a_reply() {
    let http = http("requests: [{path: /, contains: needle}]");
    let mut rig = Rig::new(&http);
    let flight = Flight::default();
    assert_eq!(rig.run_in(0, usize::MAX, &|_| b"HTTP/1.1 200 OK\r\n\r\na needle".to_vec()), Step::More);
    assert_eq!(http.closed(&mut rig.session, &mut rig.user, &flight), Some(Reply::Right));
    let mut rig = Rig::new(&http);
    assert_eq!(rig.run_in(0, usize::MAX, &|_| b"HTTP/1.1 200 OK\r\nContent-".to_vec()), Step::More);
    assert_eq!(http.closed(&mut rig.session, &mut rig.user, &flight), None);
}
