//! Replies, judged as they come in, byte by byte if necessary, and never kept.
//!
//! RESP2; RESP3's types are understood too. Nested replies are not built: only the number of elements still to come is
//! counted, so depth costs nothing.

use super::command::{Answer, Value};
use crate::operation::{Failure, Reply, Step};
use crate::protocol::REPLY_MAX;

/// How much of a status or error line is kept for judging it.
const LINE_KEPT: usize = 16;

/// The kind of an element, from its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `+` a status.
    Status,
    /// `-` an error.
    Error,
    /// `:` an integer.
    Integer,
    /// `$` a text of a given length; also `=`.
    Bulk,
    /// `!` an error of a given length.
    BulkError,
    /// `*` this many elements; also `~`.
    List,
    /// `>` this many elements that are not part of the reply.
    Push,
    /// `%` this many pairs of elements.
    Map,
    /// `|` pairs of elements that are not part of the reply.
    Attribute,
    /// `_`, `#`, `,`, `(`: other one-line elements.
    Line,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        Some(match byte {
            b'+' => Kind::Status,
            b'-' => Kind::Error,
            b':' => Kind::Integer,
            b'$' | b'=' => Kind::Bulk,
            b'!' => Kind::BulkError,
            b'*' | b'~' => Kind::List,
            b'>' => Kind::Push,
            b'%' => Kind::Map,
            b'|' => Kind::Attribute,
            b'_' | b'#' | b',' | b'(' => Kind::Line,
            _ => return None,
        })
    }

    fn is_number(self) -> bool {
        !matches!(self, Kind::Status | Kind::Error | Kind::Line)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first byte of an element.
    Start,
    /// In its first line.
    Line,
    /// After that line's CR.
    LineEnd,
    /// In a text of which this many bytes are still to come.
    Body(u64),
    /// After a text, before its CR.
    BodyCr,
    /// After that CR.
    BodyLf,
}

/// The verdict on the reply, by its outermost element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Reply(Reply),
}

/// How far a reply has been read.
#[derive(Debug)]
pub(super) struct Parser {
    place: Place,
    kind: Kind,
    // The number in the line: its magnitude, whether it is negative, how many digits it has.
    number: u64,
    negative: bool,
    digits: u32,
    line: [u8; LINE_KEPT],
    line_length: usize,
    // Elements still to come, including the current one.
    elements: u64,
    length: u64,
    body_at: usize,
    seen: Seen,
}

impl Default for Parser {
    fn default() -> Self {
        Parser {
            place: Place::Start,
            kind: Kind::Line,
            number: 0,
            negative: false,
            digits: 0,
            line: [0; LINE_KEPT],
            line_length: 0,
            elements: 1,
            length: 0,
            body_at: 0,
            seen: Seen::Nothing,
        }
    }
}

impl Parser {
    /// Takes more of the reply to a command whose answer should be `answer`.
    #[inline]
    pub(super) fn feed(&mut self, answer: Answer, value: &Value, key: u64, bytes: &[u8]) -> Step {
        // Nearly every reply is right and comes in one piece: then it is compared rather than parsed.
        if self.length == 0
            && let Some(used) = right_and_whole(answer, value, key, bytes)
        {
            return Step::Done { used, reply: Reply::Right, last: false };
        }
        self.parse(answer, value, key, bytes)
    }

    /// Whether bytes may come unasked here: a push begins, or one is in progress.
    pub(super) fn unasked(&self, bytes: &[u8]) -> bool {
        self.seen == Seen::Nothing && (self.length > 0 || bytes.first() == Some(&b'>'))
    }

    fn parse(&mut self, answer: Answer, value: &Value, key: u64, bytes: &[u8]) -> Step {
        let mut at = 0;
        while at < bytes.len() {
            let before = at;
            let step = match self.place {
                Place::Body(left) => {
                    let taken = left.min((bytes.len() - at) as u64) as usize;
                    self.body(answer, value, key, &bytes[at..at + taken]);
                    at += taken;
                    self.place = if left == taken as u64 { Place::BodyCr } else { Place::Body(left - taken as u64) };
                    Ok(false)
                }
                _ => {
                    at += 1;
                    self.byte(answer, value, bytes[at - 1])
                }
            };
            self.length += (at - before) as u64;
            match step {
                Err(failure) => return Step::Broken(failure),
                Ok(_) if self.length > REPLY_MAX => return Step::Broken(Failure::TooLarge),
                Ok(false) => {}
                Ok(true) => {
                    let Seen::Reply(reply) = self.seen else { return Step::Broken(Failure::Garbage) };
                    *self = Parser::default();
                    return Step::Done { used: at, reply, last: false };
                }
            }
        }
        Step::More
    }

    /// Takes one byte that is not part of a text; returns whether the reply is complete.
    #[inline]
    fn byte(&mut self, answer: Answer, value: &Value, byte: u8) -> Result<bool, Failure> {
        match (self.place, byte) {
            (Place::Start, _) => {
                self.kind = Kind::of(byte).ok_or(Failure::Garbage)?;
                (self.number, self.negative, self.digits, self.line_length) = (0, false, 0, 0);
                self.place = Place::Line;
            }
            (Place::Line, b'\r') => self.place = Place::LineEnd,
            (Place::Line, b'\n') => return Err(Failure::Garbage),
            (Place::Line, _) => self.character(byte)?,
            (Place::LineEnd, b'\n') => return self.line(answer, value),
            (Place::BodyCr, b'\r') => self.place = Place::BodyLf,
            (Place::BodyLf, b'\n') => return Ok(self.element_done()),
            _ => return Err(Failure::Garbage),
        }
        Ok(false)
    }

    #[inline]
    fn character(&mut self, byte: u8) -> Result<(), Failure> {
        if !self.kind.is_number() {
            if let Some(slot) = self.line.get_mut(self.line_length) {
                *slot = byte;
            }
            self.line_length += 1;
            return Ok(());
        }
        match byte {
            b'-' | b'+' if self.digits == 0 && self.line_length == 0 => self.negative = byte == b'-',
            b'0'..=b'9' => {
                let digit = u64::from(byte - b'0');
                let longer = self.number.checked_mul(10).and_then(|number| number.checked_add(digit));
                self.number = longer.ok_or(Failure::Garbage)?;
                self.digits += 1;
            }
            _ => return Err(Failure::Garbage),
        }
        self.line_length += 1;
        Ok(())
    }

    /// The first line of an element is complete.
    fn line(&mut self, answer: Answer, value: &Value) -> Result<bool, Failure> {
        if self.kind.is_number() && self.digits == 0 {
            return Err(Failure::Garbage);
        }
        // RESP2 writes a null text or list with length -1.
        let nothing = self.kind != Kind::Integer && self.kind.is_number() && self.negative;
        if nothing && (self.number != 1 || !matches!(self.kind, Kind::Bulk | Kind::List)) {
            return Err(Failure::Garbage);
        }
        if matches!(self.kind, Kind::Bulk | Kind::BulkError) && !nothing && self.number > REPLY_MAX {
            return Err(Failure::TooLarge);
        }
        self.judge(answer, value, nothing);
        let more = match self.kind {
            _ if nothing => 0,
            Kind::Bulk | Kind::BulkError => {
                self.body_at = 0;
                self.place = if self.number == 0 { Place::BodyCr } else { Place::Body(self.number) };
                return Ok(false);
            }
            Kind::List => self.number,
            Kind::Map => self.number.saturating_mul(2),
            // One more than its elements, because the reply itself still follows.
            Kind::Attribute => self.number.saturating_mul(2).saturating_add(1),
            Kind::Push => self.number.saturating_add(1),
            _ => 0,
        };
        // Every element takes at least three bytes.
        if more > REPLY_MAX / 3 {
            return Err(Failure::TooLarge);
        }
        self.elements += more;
        Ok(self.element_done())
    }

    fn element_done(&mut self) -> bool {
        self.place = Place::Start;
        self.elements -= 1;
        self.elements == 0
    }

    /// Judges the reply by its outermost element, which comes first.
    #[inline]
    fn judge(&mut self, answer: Answer, value: &Value, nothing: bool) {
        // The elements of an attribute come while the reply itself is still one of the elements to come.
        if self.seen != Seen::Nothing || matches!(self.kind, Kind::Attribute | Kind::Push) || self.elements > 1 {
            return;
        }
        let kept = &self.line[..self.line_length.min(LINE_KEPT)];
        let reply = match (self.kind, answer) {
            (Kind::Error | Kind::BulkError, _) => Reply::Wrong(Failure::ErrorReply),
            (Kind::Status, Answer::Status(expected)) if self.line_length == expected.len() && kept == expected => {
                Reply::Right
            }
            (Kind::Integer, Answer::Integer) | (Kind::Map, Answer::Map) => Reply::Right,
            (Kind::Bulk, Answer::ValueOfKey) if nothing => Reply::Empty,
            (Kind::Bulk, Answer::ValueOfKey) if self.number == value.len() as u64 => Reply::Right,
            // RESP3 writes null as "_".
            (Kind::Line, Answer::ValueOfKey) if self.line_length == 0 => Reply::Empty,
            _ => Reply::Wrong(Failure::WrongReply),
        };
        self.seen = Seen::Reply(reply);
    }

    /// Takes a part of a text.
    #[inline]
    fn body(&mut self, answer: Answer, value: &Value, key: u64, bytes: &[u8]) {
        // The first text is the reply itself, if the reply has been judged to be a value at all.
        let own = self.elements == 1 && self.kind == Kind::Bulk && answer == Answer::ValueOfKey;
        if own && self.seen == Seen::Reply(Reply::Right) && !value.matches(key, self.body_at, bytes) {
            self.seen = Seen::Reply(Reply::Wrong(Failure::WrongReply));
        }
        self.body_at += bytes.len();
    }
}

/// The length of the reply, if it is right and `bytes` begin with all of it.
#[inline]
fn right_and_whole(answer: Answer, value: &Value, key: u64, bytes: &[u8]) -> Option<usize> {
    match answer {
        Answer::Status(expected) => {
            let end = expected.len() + 1;
            let whole = bytes.len() >= end + 2 && bytes[0] == b'+';
            (whole && bytes[1..end] == *expected && bytes[end..end + 2] == *b"\r\n").then_some(end + 2)
        }
        Answer::ValueOfKey => {
            let rest = bytes.strip_prefix(value.head())?;
            let (body, rest) = rest.split_at_checked(value.len())?;
            let right = rest.starts_with(b"\r\n") && value.matches(key, 0, body);
            right.then(|| value.head().len() + value.len() + 2)
        }
        Answer::Integer => {
            // The digits of the largest integer and the characters around them.
            let digits = bytes.get(1..bytes.len().min(23))?;
            let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let right = bytes[0] == b':' && (1..=18).contains(&count) && digits[count..].starts_with(b"\r\n");
            right.then_some(count + 3)
        }
        Answer::Map => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::digits;
    use super::*;
    use proptest::prelude::*;

    const KEY: u64 = 42;

    fn value() -> Value {
        Value::new(12)
    }

    fn whole(answer: Answer, bytes: &[u8]) -> Step {
        Parser::default().feed(answer, &value(), KEY, bytes)
    }

    fn judged(answer: Answer, text: &str) -> Reply {
        match whole(answer, text.as_bytes()) {
            Step::Done { used, reply, last: false } if used == text.len() => reply,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn replies_are_judged_by_what_was_asked() {
        let right = format!("$12\r\n{}\r\n", String::from_utf8(digits(KEY).to_vec()).unwrap());
        let other = right.replace("42", "43");
        let wrong = Reply::Wrong(Failure::WrongReply);
        assert_eq!(judged(Answer::ValueOfKey, &right), Reply::Right);
        assert_eq!(judged(Answer::ValueOfKey, &other), wrong, "another key's value");
        assert_eq!(judged(Answer::ValueOfKey, "$2\r\nab\r\n"), wrong);
        assert_eq!(judged(Answer::ValueOfKey, "$0\r\n\r\n"), wrong);
        assert_eq!(judged(Answer::ValueOfKey, "$-1\r\n"), Reply::Empty);
        assert_eq!(judged(Answer::ValueOfKey, "_\r\n"), Reply::Empty);
        assert_eq!(judged(Answer::Status(b"OK"), "+OK\r\n"), Reply::Right);
        assert_eq!(judged(Answer::Status(b"OK"), "+OKAY\r\n"), wrong);
        assert_eq!(judged(Answer::Status(b"OK"), ":1\r\n"), wrong);
        assert_eq!(judged(Answer::Integer, ":-17\r\n"), Reply::Right);
        for error in ["-ERR no\r\n", "-LOADING Redis is loading the dataset in memory\r\n", "!5\r\nERR x\r\n"] {
            assert_eq!(judged(Answer::Integer, error), Reply::Wrong(Failure::ErrorReply));
        }
        let nested = "*2\r\n*2\r\n:1\r\n$1\r\na\r\n%1\r\n+k\r\n_\r\n";
        assert_eq!(judged(Answer::Integer, nested), wrong);
        assert_eq!(judged(Answer::Integer, "*-1\r\n"), wrong);
        assert_eq!(judged(Answer::Integer, "|1\r\n+ttl\r\n:3\r\n:5\r\n"), Reply::Right, "attributes are skipped");
        assert_eq!(judged(Answer::Integer, ">2\r\n+invalidate\r\n*1\r\n+k\r\n:5\r\n"), Reply::Right, "pushes are");
        assert_eq!(judged(Answer::Map, "%1\r\n+proto\r\n:3\r\n"), Reply::Right);
        assert_eq!(judged(Answer::Map, "-ERR unknown command 'HELLO'\r\n"), Reply::Wrong(Failure::ErrorReply));
    }

    #[test]
    fn what_is_not_the_protocol_is_garbage() {
        for text in
            ["HTTP/1.1 400\r\n", "$x\r\n", "$-2\r\n", ":\r\n", "+OK\n", "+a\rb", "$1\r\nabc", ":--1\r\n", "\r\n"]
        {
            assert_eq!(whole(Answer::Integer, text.as_bytes()), Step::Broken(Failure::Garbage), "{text:?}");
        }
        for text in ["$99999999999\r\n", "*99999999999\r\n"] {
            assert_eq!(whole(Answer::Integer, text.as_bytes()), Step::Broken(Failure::TooLarge), "{text:?}");
        }
        let huge = ":99999999999999999999999\r\n";
        assert_eq!(whole(Answer::Integer, huge.as_bytes()), Step::Broken(Failure::Garbage));
    }

    #[test]
    fn an_endless_line_is_cut_off() {
        let mut parser = Parser::default();
        let piece = vec![b'+'; 1 << 20];
        let steps = (0..=REPLY_MAX >> 20).map(|_| parser.feed(Answer::Integer, &value(), KEY, &piece));
        assert_eq!(steps.last(), Some(Step::Broken(Failure::TooLarge)));
    }

    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            "[ -~]{0,20}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
            "[ -~]{0,20}".prop_map(|text| format!("-{text}\r\n").into_bytes()),
            any::<i32>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"_\r\n".to_vec()),
            Just([b"$12\r\n".as_slice(), &digits(KEY), b"\r\n"].concat()),
            prop::collection::vec(any::<u8>(), 0..30).prop_map(|body| [
                format!("${}\r\n", body.len()).as_bytes(),
                &body,
                b"\r\n"
            ]
            .concat()),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop::collection::vec(inner, 0..4)
                .prop_map(|items| [format!("*{}\r\n", items.len()).as_bytes(), &items.concat()].concat())
        })
    }

    fn answer() -> impl Strategy<Value = Answer> {
        prop_oneof![Just(Answer::Status(b"OK")), Just(Answer::Integer), Just(Answer::ValueOfKey)]
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same(
            reply in reply(),
            answer in answer(),
            cuts in prop::collection::vec(0..200usize, 0..6),
        ) {
            let expected = whole(answer, &reply);
            let Step::Done { used, .. } = expected else { panic!("{expected:?}") };
            prop_assert_eq!(used, reply.len());
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(reply.len())).chain([0, reply.len()]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let mut parser = Parser::default();
            for pair in cuts.windows(2) {
                let step = parser.feed(answer, &value(), KEY, &reply[pair[0]..pair[1]]);
                match (step, expected) {
                    (Step::More, _) => prop_assert!(pair[1] < reply.len()),
                    (Step::Done { used, reply: got, .. }, Step::Done { reply: wanted, .. }) => {
                        prop_assert_eq!((used, pair[1]), (pair[1] - pair[0], reply.len()));
                        prop_assert_eq!(got, wanted);
                    }
                    (step, _) => panic!("{step:?}"),
                }
            }
        }

        #[test]
        fn comparing_finds_what_parsing_finds(reply in reply(), answer in answer(), rest in "[ -~]{0,9}") {
            let bytes = [reply.as_slice(), rest.as_bytes()].concat();
            if let Some(used) = right_and_whole(answer, &value(), KEY, &bytes) {
                let parsed = Parser::default().parse(answer, &value(), KEY, &bytes);
                prop_assert_eq!(parsed, Step::Done { used, reply: Reply::Right, last: false });
            }
        }

        #[test]
        fn random_bytes_never_panic(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"+-:$*%|!_\r\n019".to_vec())],
                0..200,
            ),
            answer in answer(),
        ) {
            let mut parser = Parser::default();
            let mut at = 0;
            while at < bytes.len() {
                match parser.feed(answer, &value(), KEY, &bytes[at..]) {
                    Step::Done { used, .. } => at += used,
                    Step::More | Step::Reopen | Step::Broken(_) => break,
                }
            }
        }
    }
}
