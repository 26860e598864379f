//! Replies, judged as they come in. Only a head that comes in pieces is kept until it is whole.

use super::Operation;
use crate::protocol::{Failure, REPLY_MAX, Reply, Step};

/// A head longer than this is refused: 64 KiB.
const HEAD_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    /// In a body of which so many bytes are still to come.
    Body(u64),
    /// In a body that lasts until the connection ends.
    Rest,
    /// In the line that says how long the next chunk is: its value so far, its digits, whether the number is over.
    ChunkSize(u64, u8, bool),
    /// In a chunk of which so many bytes are still to come.
    Chunk(u64),
    /// Behind a chunk: its CR or LF.
    ChunkEnd,
    /// In the lines behind the last chunk; whether the present one is empty so far.
    Trailer(bool),
}

/// How much of a reply was seen.
#[derive(Debug)]
pub(super) struct Parser {
    place: Place,
    head: Vec<u8>,
    status: u16,
    last: bool,
    length: u64,
    found: usize,
    contained: bool,
}

impl Default for Parser {
    fn default() -> Self {
        let head = Vec::new();
        Parser { place: Place::Head, head, status: 0, last: false, length: 0, found: 0, contained: false }
    }
}

/// What a head says.
struct Head {
    used: usize,
    status: u16,
    last: bool,
    body: Place,
}

impl Parser {
    /// Takes more of the reply to `operation`.
    #[inline]
    pub(super) fn feed(&mut self, operation: &Operation, bytes: &[u8]) -> Step {
        let mut at = 0;
        loop {
            if self.length + at as u64 > REPLY_MAX {
                return Step::Broken(Failure::TooLarge);
            }
            if self.place == Place::Body(0) {
                return self.done(operation, at);
            }
            let rest = &bytes[at..];
            if rest.is_empty() {
                self.length += at as u64;
                return Step::More;
            }
            match self.advance(operation, rest) {
                Ok(used) => at += used,
                Err(failure) => return Step::Broken(failure),
            }
        }
    }

    /// Takes the next piece; how many bytes it was. `Body(0)` is the place of a reply that is complete.
    fn advance(&mut self, operation: &Operation, bytes: &[u8]) -> Result<usize, Failure> {
        let take = |left: u64| left.min(bytes.len() as u64) as usize;
        match self.place {
            Place::Head => return self.head(operation, bytes),
            Place::Body(left) => {
                let taken = take(left);
                self.search(operation, &bytes[..taken]);
                self.place = Place::Body(left - taken as u64);
                return Ok(taken);
            }
            Place::Rest => {
                self.search(operation, bytes);
                return Ok(bytes.len());
            }
            Place::Chunk(left) => {
                let taken = take(left);
                self.search(operation, &bytes[..taken]);
                let left = left - taken as u64;
                self.place = if left == 0 { Place::ChunkEnd } else { Place::Chunk(left) };
                return Ok(taken);
            }
            Place::ChunkSize(size, digits, over) => self.place = chunk_size(size, digits, over, bytes[0])?,
            Place::ChunkEnd => match bytes[0] {
                b'\r' => {}
                b'\n' => self.place = Place::ChunkSize(0, 0, false),
                _ => return Err(Failure::Garbage),
            },
            Place::Trailer(empty) => match bytes[0] {
                b'\r' => {}
                b'\n' if empty => self.place = Place::Body(0),
                b'\n' => self.place = Place::Trailer(true),
                _ => self.place = Place::Trailer(false),
            },
        }
        Ok(1)
    }

    fn head(&mut self, operation: &Operation, bytes: &[u8]) -> Result<usize, Failure> {
        let (head, used) = if self.head.is_empty() {
            let head = parse(bytes, operation)?;
            let used = head.as_ref().map_or(bytes.len(), |head| head.used);
            if head.is_none() {
                self.head.extend_from_slice(bytes);
            }
            (head, used)
        } else {
            let kept = self.head.len();
            self.head.extend_from_slice(bytes);
            let head = parse(&self.head, operation)?;
            let used = head.as_ref().map_or(bytes.len(), |head| head.used - kept);
            (head, used)
        };
        match head {
            // 100 Continue and the like come before the reply itself.
            Some(Head { status: 100..=199, .. }) => self.head.clear(),
            Some(head) => {
                self.head.clear();
                (self.status, self.last, self.place) = (head.status, head.last, head.body);
            }
            None if self.head.len() > HEAD_MAX => return Err(Failure::TooLarge),
            None => {}
        }
        Ok(used)
    }

    fn search(&mut self, operation: &Operation, bytes: &[u8]) {
        if let (false, Some(needle)) = (self.contained, &operation.contains) {
            self.contained = needle.find(&mut self.found, bytes).is_some();
        }
    }

    fn judge(&self, operation: &Operation) -> Reply {
        if self.status != operation.status {
            let error = self.status >= 400;
            return Reply::Wrong(if error { Failure::ErrorReply } else { Failure::WrongReply });
        }
        let complete = operation.contains.is_none() || self.contained;
        if complete { Reply::Right } else { Reply::Wrong(Failure::WrongReply) }
    }

    fn done(&mut self, operation: &Operation, used: usize) -> Step {
        let (reply, last) = (self.judge(operation), self.last);
        self.reset();
        Step::Done { used, reply, last }
    }

    /// Ready for the next reply; the head's buffer is kept.
    fn reset(&mut self) {
        self.place = Place::Head;
        (self.last, self.length, self.found, self.contained) = (false, 0, 0, false);
    }

    /// The connection ended: whether that was the end of the reply.
    pub(super) fn closed(&mut self, operation: &Operation) -> Option<Reply> {
        (self.place == Place::Rest).then(|| self.judge(operation))
    }
}

fn chunk_size(size: u64, digits: u8, over: bool, byte: u8) -> Result<Place, Failure> {
    let digit = char::from(byte).to_digit(16);
    match (byte, digit) {
        (b'\n', _) if digits == 0 => Err(Failure::Garbage),
        (b'\n', _) if size == 0 => Ok(Place::Trailer(true)),
        (b'\n', _) if size > REPLY_MAX => Err(Failure::TooLarge),
        (b'\n', _) => Ok(Place::Chunk(size)),
        (_, Some(digit)) if !over && digits < 15 => {
            Ok(Place::ChunkSize(size * 16 + u64::from(digit), digits + 1, false))
        }
        (b'\r' | b';' | b' ' | b'\t', _) if digits > 0 => Ok(Place::ChunkSize(size, digits, true)),
        _ if over => Ok(Place::ChunkSize(size, digits, true)),
        _ => Err(Failure::Garbage),
    }
}

/// Reads a head; none when it is not whole yet.
fn parse(bytes: &[u8], operation: &Operation) -> Result<Option<Head>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let used = match response.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Failure::TooLarge),
        Err(_) => return Err(Failure::Garbage),
    };
    let (Some(status), Some(version)) = (response.code, response.version) else { return Err(Failure::Garbage) };
    let mut last = version == 0;
    let (mut length, mut chunked) = (None, false);
    for header in response.headers.iter() {
        let has = |word: &[u8]| {
            header.value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
        };
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(header.value).map_err(|_| Failure::Garbage)?;
            length = Some(text.trim().parse::<u64>().map_err(|_| Failure::Garbage)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = chunked || has(b"chunked");
        } else if header.name.eq_ignore_ascii_case("connection") {
            last = has(b"close") || (last && !has(b"keep-alive"));
        }
    }
    let body = match length {
        _ if operation.head || matches!(status, 100..=199 | 204 | 304) => Place::Body(0),
        _ if chunked => Place::ChunkSize(0, 0, false),
        Some(length) if length > REPLY_MAX => return Err(Failure::TooLarge),
        Some(length) => Place::Body(length),
        None => Place::Rest,
    };
    Ok(Some(Head { used, status, last, body }))
}

#[cfg(test)]
mod tests {
    use super::super::options::Request;
    use super::*;
    use proptest::prelude::*;

    fn operation(contains: Option<&str>) -> Operation {
        let request = serde_json::json!({
            "name": "GET /", "method": "GET", "path": "/", "body": "", "headers": {}, "weight": 1, "status": 200,
            "contains": contains
        });
        let request: Request = serde_json::from_value(request).unwrap();
        Operation::new(&request, "127.0.0.1:80".parse().unwrap())
    }

    fn whole(text: &str) -> Step {
        Parser::default().feed(&operation(Some("needle")), text.as_bytes())
    }

    fn done(text: &str) -> (Reply, bool) {
        match whole(text) {
            Step::Done { used, reply, last } if used == text.len() => (reply, last),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nnee\r\n3\r\ndle\r\n0\r\nA: b\r\n\r\n";

    #[test]
    fn bodies_end_in_every_way_there_is() {
        assert_eq!(done("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nneedle"), (Reply::Right, false));
        assert_eq!(done(CHUNKED), (Reply::Right, false));
        let close = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nneedle";
        assert_eq!(done(close), (Reply::Right, true));
        assert_eq!(done("HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nneedle"), (Reply::Right, true));
        let continued = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nneedle";
        assert_eq!(done(continued), (Reply::Right, false));
        let (mut parser, operation) = (Parser::default(), operation(Some("needle")));
        assert_eq!(parser.closed(&operation), None);
        assert_eq!(parser.feed(&operation, b"HTTP/1.1 200 OK\r\n\r\na needle"), Step::More);
        assert_eq!(parser.closed(&operation), Some(Reply::Right));
    }

    #[test]
    fn status_and_body_are_judged() {
        let wrong = Reply::Wrong(Failure::WrongReply);
        assert_eq!(done("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhay").0, wrong);
        assert_eq!(done("HTTP/1.1 304 Not Modified\r\n\r\n").0, wrong);
        let error = Reply::Wrong(Failure::ErrorReply);
        assert_eq!(done("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").0, error);
    }

    #[test]
    fn what_is_not_the_protocol_is_garbage() {
        for text in ["+OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", &CHUNKED.replace("3;", "z;")] {
            assert_eq!(whole(text), Step::Broken(Failure::Garbage), "{text:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_MAX));
        assert_eq!(whole(&endless), Step::Broken(Failure::TooLarge));
        assert_eq!(whole("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), Step::Broken(Failure::TooLarge));
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same(cuts in prop::collection::vec(0..CHUNKED.len(), 0..6)) {
            let operation = operation(Some("needle"));
            let mut cuts: Vec<_> = cuts.into_iter().chain([0, CHUNKED.len()]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let mut parser = Parser::default();
            let mut last = Step::More;
            for pair in cuts.windows(2) {
                prop_assert_eq!(last, Step::More);
                last = parser.feed(&operation, &CHUNKED.as_bytes()[pair[0]..pair[1]]);
            }
            let used = cuts[cuts.len() - 1] - cuts[cuts.len() - 2];
            prop_assert_eq!(last, Step::Done { used, reply: Reply::Right, last: false });
        }

        #[test]
        fn random_bytes_never_panic(tail in "[ -~\r\n0-9a-f;]{0,80}", head in 0..CHUNKED.len()) {
            let mut parser = Parser::default();
            let text = [&CHUNKED[..head], &tail].concat();
            let _ = parser.feed(&operation(None), text.as_bytes());
        }
    }
}
