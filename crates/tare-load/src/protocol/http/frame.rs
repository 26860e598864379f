//! Where a reply begins and ends: the framing of RFC 9112, in whatever pieces the bytes come.

use super::super::REPLY_MAX;
use crate::operation::Failure;
use httparse::{Header, ParserConfig, Response};
use std::mem::MaybeUninit;

/// A head longer than this is refused: 64 KiB.
const HEAD_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 128;
/// A head up to this length is parsed again with every piece, so that garbage is detected at once: 1 KiB.
const SHORT: usize = 1024;

/// Receives the content of a reply.
pub(super) trait Receiver {
    /// The reply's head. Heads of interim replies (100 Continue) are not reported.
    ///
    /// # Errors
    /// When the connection is unusable after this.
    fn head(&mut self, status: u16, headers: &[Header<'_>]) -> Result<(), Failure>;

    /// The next piece of the body, without chunk framing.
    ///
    /// # Errors
    /// When the connection is unusable after this.
    fn body(&mut self, piece: &[u8]) -> Result<(), Failure>;
}

/// How far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framed {
    /// All bytes were taken, and more belong to it.
    More,
    /// It ended after this many bytes.
    Done(usize),
    /// This cannot become a reply.
    Broken(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Head,
    /// In a body of which this many bytes are still to come.
    Body(u64),
    /// In a body that lasts until the connection ends.
    Rest,
    /// In the line with the length of the next chunk: its value so far, its number of digits, and whether the number
    /// has ended.
    ChunkSize(u64, u8, bool),
    /// In a chunk of which this many bytes are still to come.
    Chunk(u64),
    /// After a chunk: its CR or LF.
    ChunkEnd,
    /// In the lines after the last chunk; whether the current one is empty so far.
    Trailer(bool),
}

/// How far a reply has been read.
#[derive(Debug)]
pub(super) struct Frame {
    place: Place,
    last: bool,
    length: u64,
    // The part of the head that has come, unless it came whole; and its length when it was last parsed.
    head: Vec<u8>,
    parsed: usize,
}

impl Default for Frame {
    fn default() -> Self {
        Frame { place: Place::Head, last: false, length: 0, head: Vec::new(), parsed: 0 }
    }
}

/// What a head says about the bytes that follow.
struct Shape {
    used: usize,
    status: u16,
    last: bool,
    body: Place,
}

impl Frame {
    /// Takes more of a reply. `bodiless` if it answers HEAD, so that no body follows whatever its head says.
    #[inline]
    pub(super) fn feed(&mut self, bodiless: bool, to: &mut impl Receiver, bytes: &[u8]) -> Framed {
        let mut at = 0;
        loop {
            if self.place == Place::Body(0) {
                (self.place, self.length) = (Place::Head, 0);
                return Framed::Done(at);
            }
            if self.length + at as u64 > REPLY_MAX {
                return Framed::Broken(Failure::TooLarge);
            }
            let rest = &bytes[at..];
            if rest.is_empty() {
                self.length += at as u64;
                return Framed::More;
            }
            match self.advance(bodiless, to, rest) {
                Ok(used) => at += used,
                Err(failure) => return Framed::Broken(failure),
            }
        }
    }

    /// Whether the peer announced to close the connection after the reply whose head came last.
    pub(super) fn is_last(&self) -> bool {
        self.last
    }

    /// Whether the end of the connection completes the reply.
    pub(super) fn ends_with_connection(&self) -> bool {
        self.place == Place::Rest
    }

    /// Takes the next piece; returns how many bytes it took. `Body(0)` means that the reply is complete.
    #[inline]
    fn advance(&mut self, bodiless: bool, to: &mut impl Receiver, bytes: &[u8]) -> Result<usize, Failure> {
        let take = |left: u64| left.min(bytes.len() as u64) as usize;
        match self.place {
            Place::Head => return self.head(bodiless, to, bytes),
            Place::Body(left) => {
                let taken = take(left);
                to.body(&bytes[..taken])?;
                self.place = Place::Body(left - taken as u64);
                return Ok(taken);
            }
            Place::Rest => {
                to.body(bytes)?;
                return Ok(bytes.len());
            }
            Place::Chunk(left) => {
                let taken = take(left);
                to.body(&bytes[..taken])?;
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

    fn head(&mut self, bodiless: bool, to: &mut impl Receiver, bytes: &[u8]) -> Result<usize, Failure> {
        let (shape, used) = if self.head.is_empty() {
            let shape = parse(bytes, bodiless, to)?;
            let used = shape.as_ref().map_or(bytes.len(), |shape| shape.used);
            if shape.is_none() {
                self.head.extend_from_slice(bytes);
                self.parsed = bytes.len();
            }
            (shape, used)
        } else {
            let kept = self.head.len();
            self.head.extend_from_slice(bytes);
            // A long one is parsed again only when it may be complete or has doubled: a peer that sends single bytes
            // must not cause quadratic cost.
            let end = [b"\n\r\n".as_slice(), b"\n\n"];
            let fresh = &self.head[kept.saturating_sub(2)..];
            let whole = end.iter().any(|end| memchr::memmem::find(fresh, end).is_some());
            let short = self.head.len() <= SHORT;
            let shape = if whole || short || self.head.len() >= 2 * self.parsed {
                self.parsed = self.head.len();
                parse(&self.head, bodiless, to)?
            } else {
                None
            };
            let used = shape.as_ref().map_or(bytes.len(), |shape| shape.used - kept);
            (shape, used)
        };
        match shape {
            Some(Shape { status: 100..=199, .. }) => self.forget_head(),
            Some(shape) => {
                self.forget_head();
                (self.last, self.place) = (shape.last, shape.body);
            }
            None if self.head.len() > HEAD_MAX => return Err(Failure::TooLarge),
            None => {}
        }
        Ok(used)
    }

    fn forget_head(&mut self) {
        self.head.clear();
        self.head.shrink_to(4096);
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

/// Parses a head and reports it; none if it is not complete yet.
#[inline]
fn parse(bytes: &[u8], bodiless: bool, to: &mut impl Receiver) -> Result<Option<Shape>, Failure> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = Response::new(&mut []);
    let result = ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
    let used = match result {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Failure::TooLarge),
        Err(_) => return Err(Failure::Garbage),
    };
    let (Some(status), Some(version)) = (response.code, response.version) else { return Err(Failure::Garbage) };
    let body = Place::Body(0);
    match status {
        // No change of protocol was requested.
        ..100 | 101 => return Err(Failure::Garbage),
        102..=199 | 100 => return Ok(Some(Shape { used, status, last: false, body })),
        _ => {}
    }
    let mut last = version == 0;
    let (mut length, mut chunked) = (None, false);
    for header in response.headers.iter() {
        // The lengths distinguish nearly all names without comparing them.
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let value = decimal(header.value).ok_or(Failure::Garbage)?;
                if length.is_some_and(|length| length != value) {
                    return Err(Failure::Garbage);
                }
                length = Some(value);
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                chunked = chunked || has(header.value, b"chunked");
            }
            10 if header.name.eq_ignore_ascii_case("connection") => {
                last = has(header.value, b"close") || (last && !has(header.value, b"keep-alive"));
            }
            _ => {}
        }
    }
    to.head(status, response.headers)?;
    let body = match length {
        _ if bodiless || matches!(status, 204 | 304) => body,
        _ if chunked => Place::ChunkSize(0, 0, false),
        Some(length) if length > REPLY_MAX => return Err(Failure::TooLarge),
        Some(length) => Place::Body(length),
        None => Place::Rest,
    };
    Ok(Some(Shape { used, status, last: last || body == Place::Rest, body }))
}

/// Whether a comma-separated list contains this word.
fn has(value: &[u8], word: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
}

fn decimal(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() || value.len() > 18 {
        return None;
    }
    value.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Keeps what it receives.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Kept {
        heads: Vec<(u16, usize)>,
        body: Vec<u8>,
    }

    impl Receiver for Kept {
        fn head(&mut self, status: u16, headers: &[Header<'_>]) -> Result<(), Failure> {
            self.heads.push((status, headers.len()));
            Ok(())
        }

        fn body(&mut self, piece: &[u8]) -> Result<(), Failure> {
            self.body.extend_from_slice(piece);
            Ok(())
        }
    }

    fn feed(text: &[u8]) -> (Framed, Kept, bool) {
        let (mut frame, mut kept) = (Frame::default(), Kept::default());
        let framed = frame.feed(false, &mut kept, text);
        (framed, kept, frame.is_last())
    }

    const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nneedle";
    const CHUNKED: &str =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nnee\r\n3\r\ndle\r\n0\r\nA: b\r\n\r\n";
    const CONTINUED: &str =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 6\n\nneedle";

    #[test]
    fn bodies_end_in_every_way_there_is() {
        for text in [LENGTH, CHUNKED, CONTINUED] {
            let (framed, kept, last) = feed(text.as_bytes());
            assert_eq!((framed, last), (Framed::Done(text.len()), false), "{text}");
            assert_eq!((kept.heads, kept.body.as_slice()), (vec![(200, 1)], b"needle".as_slice()), "{text}");
        }
        let (mut frame, mut kept) = (Frame::default(), Kept::default());
        assert!(!frame.ends_with_connection());
        assert_eq!(frame.feed(false, &mut kept, b"HTTP/1.1 200 OK\r\n\r\na needle"), Framed::More);
        assert!(frame.ends_with_connection() && frame.is_last());
    }

    #[test]
    fn what_has_no_body_ends_with_its_head() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n";
        assert_eq!(Frame::default().feed(true, &mut Kept::default(), head.as_bytes()), Framed::Done(head.len()));
        for status in ["204 No Content", "304 Not Modified"] {
            let text = head.replace("200 OK", status);
            assert_eq!(feed(text.as_bytes()).0, Framed::Done(text.len()));
        }
    }

    #[test]
    fn the_end_of_a_connection_is_announced_in_two_ways() {
        for (text, last) in [
            ("HTTP/1.1 204 No\r\nConnection: foo, Close\r\n\r\n", true),
            ("HTTP/1.0 204 No\r\n\r\n", true),
            ("HTTP/1.0 204 No\r\nConnection: keep-alive\r\n\r\n", false),
            ("HTTP/1.1 204 No\r\n\r\n", false),
        ] {
            assert_eq!(feed(text.as_bytes()).2, last, "{text}");
        }
    }

    #[test]
    fn what_is_not_the_protocol_is_garbage() {
        let wrong = [
            "+OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 099 No\r\n\r\n",
            &CHUNKED.replace("3;", "z;"),
            &CHUNKED.replace("nee\r\n", "neee\r\n"),
        ];
        for text in wrong {
            assert_eq!(feed(text.as_bytes()).0, Framed::Broken(Failure::Garbage), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_taken_without_bound() {
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(HEAD_MAX));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1));
        let long = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_owned();
        let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n".to_owned();
        for text in [endless, many, long, chunk] {
            assert_eq!(feed(text.as_bytes()).0, Framed::Broken(Failure::TooLarge));
        }
        let (mut frame, mut kept) = (Frame::default(), Kept::default());
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100_000);
        let framed = (0..40).map(|_| frame.feed(false, &mut kept, &interim)).find(|framed| *framed != Framed::More);
        assert_eq!(framed, Some(Framed::Broken(Failure::TooLarge)));
    }

    #[test]
    fn single_bytes_do_not_cost_their_square() {
        let (mut frame, mut kept) = (Frame::default(), Kept::default());
        let head = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "A: bcdefgh\r\n".repeat(100));
        let framed: Vec<_> = head.bytes().map(|byte| frame.feed(false, &mut kept, &[byte])).collect();
        assert_eq!(framed.iter().filter(|framed| **framed == Framed::More).count(), head.len() - 1);
        assert_eq!(framed.last(), Some(&Framed::Done(1)));
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same(
            which in 0..3usize,
            cuts in prop::collection::vec(0..150usize, 0..8),
        ) {
            let text = [LENGTH, CHUNKED, CONTINUED][which].as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let (mut frame, mut kept) = (Frame::default(), Kept::default());
            let mut last = Framed::More;
            for pair in cuts.windows(2) {
                prop_assert_eq!(last, Framed::More);
                last = frame.feed(false, &mut kept, &text[pair[0]..pair[1]]);
            }
            prop_assert_eq!(last, Framed::Done(cuts[cuts.len() - 1] - cuts[cuts.len() - 2]));
            prop_assert_eq!(kept, feed(text).1);
        }

        #[test]
        fn random_bytes_never_panic(tail in prop::collection::vec(any::<u8>(), 0..80), head in 0..CHUNKED.len()) {
            feed(&[&CHUNKED.as_bytes()[..head], tail.as_slice()].concat());
        }
    }
}
