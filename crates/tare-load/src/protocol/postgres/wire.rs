//! PostgreSQL's protocol, version 3.0: messages out, messages in.

use crate::operation::Failure;
use crate::protocol::sql::{self, Framing, HEADER};

/// Appends a message of this kind with what `body` writes.
pub(super) fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    untyped(out, body);
}

/// Appends a message without a kind, as the first one is.
fn untyped(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let from = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - from) as u32;
    out[from..from + 4].copy_from_slice(&length.to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Asks whether the server supports TLS: it answers with one byte, `S` or `N`.
pub(super) fn ssl_request(out: &mut Vec<u8>) {
    untyped(out, |out| out.extend_from_slice(&80_877_103_u32.to_be_bytes()));
}

/// The first message of a session.
pub(super) fn startup(out: &mut Vec<u8>, parameters: &[(&str, &str)]) {
    untyped(out, |out| {
        out.extend_from_slice(&196_608_u32.to_be_bytes());
        for (name, value) in parameters {
            text(out, name);
            text(out, value);
        }
        out.push(0);
    });
}

/// A password or its digest.
pub(super) fn password(out: &mut Vec<u8>, password: &str) {
    message(out, b'p', |out| text(out, password));
}

/// Begins a SASL exchange.
pub(super) fn sasl_initial(out: &mut Vec<u8>, mechanism: &str, first: &str) {
    message(out, b'p', |out| {
        text(out, mechanism);
        out.extend_from_slice(&(first.len() as u32).to_be_bytes());
        out.extend_from_slice(first.as_bytes());
    });
}

/// Continues it.
pub(super) fn sasl_response(out: &mut Vec<u8>, response: &str) {
    message(out, b'p', |out| out.extend_from_slice(response.as_bytes()));
}

/// The name under which statement number `number` is prepared.
fn name(number: usize) -> String {
    format!("t{number}")
}

/// Prepares a statement; the server infers the types.
pub(super) fn parse(out: &mut Vec<u8>, number: usize, sql: &str) {
    message(out, b'P', |out| {
        text(out, &name(number));
        text(out, sql);
        out.extend_from_slice(&[0; 2]);
    });
}

/// Ends a batch: the server reports that it is ready, after any error in the batch.
pub(super) fn sync(out: &mut Vec<u8>) {
    message(out, b'S', |_| ());
}

/// A statement in the simple protocol.
pub(super) fn query(out: &mut Vec<u8>, sql: &str) {
    message(out, b'Q', |out| text(out, sql));
}

/// The constant part of the request that runs a prepared statement.
#[derive(Debug, Clone)]
pub(super) struct Call {
    bind: Vec<u8>,
    execute: Vec<u8>,
}

impl Call {
    /// For statement number `number` with this many parameters, all as text.
    pub(super) fn new(number: usize, parameters: usize) -> Self {
        let mut bind = Vec::new();
        message(&mut bind, b'B', |out| {
            out.push(0);
            text(out, &name(number));
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&(parameters as u16).to_be_bytes());
        });
        let mut execute = vec![0; 2];
        message(&mut execute, b'E', |out| out.extend_from_slice(&[0; 5]));
        Call { bind, execute }
    }

    /// Appends the request; `parameter` writes the next parameter and returns whether it has a value; `false` is NULL.
    #[inline]
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        parameters: usize,
        mut parameter: impl FnMut(usize, &mut Vec<u8>) -> bool,
    ) {
        let from = out.len();
        out.extend_from_slice(&self.bind);
        for number in 0..parameters {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            let length = if parameter(number, out) {
                (out.len() - at - 4) as u32
            } else {
                out.truncate(at + 4);
                u32::MAX
            };
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
        let length = (out.len() - from + 1) as u32;
        out[from + 1..from + HEADER].copy_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.execute);
    }
}

/// PostgreSQL's frames: a kind, then a length that includes itself.
#[derive(Debug, Default)]
pub(super) struct Frames;

impl Framing for Frames {
    const BODY: usize = HEADER;

    #[inline]
    fn header(header: &[u8; HEADER]) -> Result<(u8, usize), Failure> {
        let [kind, a, b, c, d] = *header;
        let length = u32::from_be_bytes([a, b, c, d]);
        let message = (length >= 4 && kind.is_ascii_alphanumeric()).then_some((kind, 1 + length as usize));
        message.ok_or(Failure::Garbage)
    }
}

/// Splits a stream into messages.
pub(super) type Reader = sql::Reader<Frames>;

/// The columns of a row, with none for NULL; ends early if the row is malformed.
pub(super) fn columns(body: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = body.get(2..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = u32::from_be_bytes(*length);
        if length == u32::MAX {
            rest = after;
            return Some(None);
        }
        let (column, after) = after.split_at_checked(length as usize)?;
        rest = after;
        Some(Some(column))
    })
}

/// The number of rows in a command's tag: `UPDATE 3`, `INSERT 0 1`; 0 if the tag has none.
#[inline]
pub(super) fn affected(tag: &[u8]) -> u64 {
    let tag = tag.strip_suffix(&[0]).unwrap_or(tag);
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count().min(18);
    tag[tag.len() - digits..].iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}

/// A field of an error or a notice, such as `C`, its code, or `M`, its text.
pub(super) fn field(body: &[u8], kind: u8) -> Option<&[u8]> {
    body.split(|byte| *byte == 0).filter_map(|field| field.split_first()).find(|(k, _)| **k == kind).map(|(_, t)| t)
}

/// An error as text: its message, details and code.
pub(super) fn error_text(body: &[u8]) -> String {
    let part = |kind| field(body, kind).map(|text| String::from_utf8_lossy(text).into_owned());
    let mut text = part(b'M').unwrap_or_else(|| "an error without a text".to_owned());
    for (kind, what) in [(b'D', "detail"), (b'H', "hint"), (b'W', "where")] {
        if let Some(part) = part(kind) {
            text.push_str(&format!("; {what}: {part}"));
        }
    }
    format!("{text} [{}]", part(b'C').unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Failure;
    use proptest::prelude::*;

    fn stream() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
        let kind = prop::sample::select(b"DCZETN12".to_vec());
        prop::collection::vec((kind, prop::collection::vec(any::<u8>(), 0..40)), 0..8)
    }

    /// The messages found, and what stopped the reader.
    fn read(pieces: &[&[u8]]) -> (Vec<(u8, Vec<u8>)>, Option<Failure>) {
        let (mut reader, mut found) = (Reader::default(), Vec::new());
        for mut piece in pieces.iter().copied() {
            loop {
                match reader.next(&mut piece, |kind| kind != b'T') {
                    Ok(Some(message)) => found.push((message.kind, message.body.to_vec())),
                    Ok(None) => break,
                    Err(failure) => return (found, Some(failure)),
                }
            }
            assert!(piece.is_empty(), "bytes were left behind");
        }
        (found, None)
    }

    proptest! {
        #[test]
        fn every_split_gives_the_same(messages in stream(), cuts in prop::collection::vec(0..400usize, 0..8)) {
            let mut bytes = Vec::new();
            messages.iter().for_each(|(kind, body)| message(&mut bytes, *kind, |out| out.extend_from_slice(body)));
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let expected: Vec<_> =
                messages.into_iter().map(|(kind, body)| (kind, if kind == b'T' { vec![] } else { body })).collect();
            prop_assert_eq!(read(&pieces), (expected, None));
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..200usize) {
            let (left, right) = bytes.split_at(cut.min(bytes.len()));
            read(&[left, right]);
            columns(&bytes).for_each(drop);
            affected(&bytes);
            error_text(&bytes);
        }

        #[test]
        fn columns_are_found_again(
            row in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..9)), 0..6),
        ) {
            let mut body = (row.len() as u16).to_be_bytes().to_vec();
            for column in &row {
                let length = column.as_ref().map_or(u32::MAX, |column| column.len() as u32);
                body.extend_from_slice(&length.to_be_bytes());
                body.extend_from_slice(column.as_deref().unwrap_or_default());
            }
            prop_assert_eq!(columns(&body).map(|column| column.map(<[u8]>::to_vec)).collect::<Vec<_>>(), row);
        }
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        assert_eq!(read(&[b"Z\0\0\0\x03"]).1, Some(Failure::Garbage));
        assert_eq!(read(&[b"HTTP/1.1 400 Bad"]).1, Some(Failure::TooLarge));
        assert_eq!(read(&[b"+PONG\r\n"]).1, Some(Failure::Garbage));
        assert_eq!(read(&[b"D\x00\x20\x00\x00"]).1, Some(Failure::TooLarge));
    }

    #[test]
    fn a_call_is_bind_execute_sync_minus_sync() {
        let mut out = Vec::new();
        Call::new(3, 2).write(&mut out, 2, |number, out| {
            out.extend_from_slice(b"42");
            number == 0
        });
        // NULL must leave no bytes behind.
        assert_eq!(&out[..5], b"B\0\0\0\x18");
        assert!(out.ends_with(b"E\0\0\0\x09\0\0\0\0\0"));
    }

    #[test]
    fn tags_and_errors_are_understood() {
        assert_eq!((affected(b"UPDATE 12\0"), affected(b"INSERT 0 7\0"), affected(b"BEGIN\0")), (12, 7, 0));
        let body = b"SERROR\0VERROR\0C40P01\0Mdeadlock detected\0Dprocess 1 waits\0\0";
        assert_eq!(field(body, b'C'), Some(&b"40P01"[..]));
        assert_eq!(error_text(body), "deadlock detected; detail: process 1 waits [40P01]");
    }
}
