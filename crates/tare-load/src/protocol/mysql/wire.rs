//! MySQL's protocol, version 4.1 and later: packets out, packets in.

use crate::operation::Failure;
use crate::protocol::sql::{self, Framing, HEADER};
use crate::script::ValueRef;

/// A packet of this length is continued in the next one.
const PACKET_MAX: usize = 0xff_ff_ff;

/// Capabilities of both sides, by bit.
pub(super) mod can {
    pub(in super::super) const LONG_PASSWORD: u32 = 1;
    /// An UPDATE counts the rows it found, not only those it changed.
    pub(in super::super) const FOUND_ROWS: u32 = 1 << 1;
    pub(in super::super) const LONG_FLAG: u32 = 1 << 2;
    pub(in super::super) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(in super::super) const PROTOCOL_41: u32 = 1 << 9;
    pub(in super::super) const SSL: u32 = 1 << 11;
    pub(in super::super) const TRANSACTIONS: u32 = 1 << 13;
    pub(in super::super) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(in super::super) const MULTI_RESULTS: u32 = 1 << 17;
    pub(in super::super) const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub(in super::super) const PLUGIN_AUTH: u32 = 1 << 19;
    pub(in super::super) const DEPRECATE_EOF: u32 = 1 << 24;
    /// All of these, as far as the server supports them.
    pub(in super::super) const WANTED: u32 = LONG_PASSWORD
        | FOUND_ROWS
        | LONG_FLAG
        | CONNECT_WITH_DB
        | PROTOCOL_41
        | TRANSACTIONS
        | SECURE_CONNECTION
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | PLUGIN_AUTH
        | DEPRECATE_EOF;
}

/// A statement as text.
pub(super) const QUERY: u8 = 0x03;
/// Asks whether the server is alive.
pub(super) const PING: u8 = 0x0e;
/// Prepares a statement.
pub(super) const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;

/// A status flag of the server: a transaction is open.
pub(super) const IN_TRANSACTION: u16 = 1;
/// A status flag of the server: another result follows this one.
pub(super) const MORE_RESULTS: u16 = 8;

/// Types of values on the wire that are read or written here.
mod kind {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const NULL: u8 = 6;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const VAR_STRING: u8 = 253;
}

/// MySQL's frames: three bytes of length, one of sequence, then the content. The kind is the first byte of the content.
#[derive(Debug, Default)]
pub(super) struct Frames;

impl Framing for Frames {
    const BODY: usize = 4;

    #[inline]
    fn header(header: &[u8; HEADER]) -> Result<(u8, usize), Failure> {
        let [a, b, c, _, kind] = *header;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        match length {
            0 => Err(Failure::Garbage),
            // It is continued in the next packet: far longer than any answer that is examined.
            PACKET_MAX.. => Err(Failure::TooLarge),
            _ => Ok((kind, 4 + length)),
        }
    }
}

/// Splits a stream into packets.
pub(super) type Reader = sql::Reader<Frames>;

/// Appends a packet with what `body` writes, or several if that is 16 MiB or more.
#[inline]
pub(super) fn packet(out: &mut Vec<u8>, sequence: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let from = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = out.len() - from - 4;
    if length >= PACKET_MAX {
        return split(out, from, sequence);
    }
    out[from..from + 3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
    out[from + 3] = sequence;
}

/// Divides what was written after a header at `from` into packets: full ones, and a last one that is not full and may
/// be empty.
#[cold]
fn split(out: &mut Vec<u8>, from: usize, mut sequence: u8) {
    let content = out.split_off(from + 4);
    out.truncate(from);
    let mut rest = content.as_slice();
    loop {
        let (piece, after) = rest.split_at(rest.len().min(PACKET_MAX));
        out.extend_from_slice(&(piece.len() as u32).to_le_bytes()[..3]);
        out.push(sequence);
        out.extend_from_slice(piece);
        if piece.len() < PACKET_MAX {
            return;
        }
        (rest, sequence) = (after, sequence.wrapping_add(1));
    }
}

/// Appends a command: its number and its text.
pub(super) fn command(out: &mut Vec<u8>, number: u8, text: &str) {
    packet(out, 0, |out| {
        out.push(number);
        out.extend_from_slice(text.as_bytes());
    });
}

/// Appends the request that runs the statement with the server's id `statement`.
#[inline]
pub(super) fn execute<'v>(
    out: &mut Vec<u8>,
    statement: u32,
    parameters: usize,
    parameter: impl Fn(usize) -> ValueRef<'v>,
) {
    packet(out, 0, |out| {
        out.push(EXECUTE);
        out.extend_from_slice(&statement.to_le_bytes());
        // No cursor; run once.
        out.extend_from_slice(&[0, 1, 0, 0, 0]);
        if parameters == 0 {
            return;
        }
        let nulls = out.len();
        out.resize(nulls + parameters.div_ceil(8), 0);
        // The types follow.
        out.push(1);
        for number in 0..parameters {
            let kind = match parameter(number) {
                ValueRef::Number(_) => kind::LONGLONG,
                ValueRef::Text(_) => kind::VAR_STRING,
                ValueRef::Unset => {
                    out[nulls + number / 8] |= 1 << (number % 8);
                    kind::NULL
                }
            };
            out.extend_from_slice(&[kind, 0]);
        }
        for number in 0..parameters {
            match parameter(number) {
                ValueRef::Number(number) => out.extend_from_slice(&number.to_le_bytes()),
                ValueRef::Text(text) => {
                    write_length(text.len() as u64, out);
                    out.extend_from_slice(text);
                }
                ValueRef::Unset => {}
            }
        }
    });
}

/// Appends a length-encoded number.
pub(super) fn write_length(length: u64, out: &mut Vec<u8>) {
    let bytes = length.to_le_bytes();
    match length {
        0..=250 => out.push(bytes[0]),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Takes bytes from the front of `rest`.
pub(super) fn take<'b>(rest: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

/// Takes a little-endian number of up to eight bytes.
pub(super) fn number(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    let mut whole = [0; 8];
    whole[..bytes].copy_from_slice(take(rest, bytes)?);
    Some(u64::from_le_bytes(whole))
}

/// Takes a length-encoded number; none also for NULL.
pub(super) fn length(rest: &mut &[u8]) -> Option<u64> {
    match number(rest, 1)? {
        short @ 0..=250 => Some(short),
        0xfc => number(rest, 2),
        0xfd => number(rest, 3),
        0xfe => number(rest, 8),
        _ => None,
    }
}

/// Takes a text preceded by its length.
pub(super) fn counted<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let count = length(rest)?;
    take(rest, usize::try_from(count).ok()?)
}

/// Takes a text that ends in NUL.
pub(super) fn terminated<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let end = rest.iter().position(|byte| *byte == 0)?;
    let text = take(rest, end)?;
    take(rest, 1)?;
    Some(text)
}

/// The content of an OK packet: affected rows, status.
pub(super) fn ok(body: &[u8]) -> Option<(u64, u16)> {
    let mut rest = body.get(1..)?;
    let affected = length(&mut rest)?;
    length(&mut rest)?;
    Some((affected, number(&mut rest, 2)? as u16))
}

/// The status in the packet that ends rows: an OK packet, or the older EOF.
pub(super) fn end_of_rows(body: &[u8], deprecate_eof: bool) -> Option<u16> {
    if deprecate_eof {
        return ok(body).map(|(_, status)| status);
    }
    let mut rest = body.get(3..)?;
    number(&mut rest, 2).map(|status| status as u16)
}

/// An error: its number and its message.
pub(super) fn error(body: &[u8]) -> (u16, String) {
    let mut rest = body.get(1..).unwrap_or_default();
    let code = number(&mut rest, 2).unwrap_or(0) as u16;
    let text = if rest.first() == Some(&b'#') { rest.get(6..).unwrap_or_default() } else { rest };
    (code, format!("{} [{code}]", String::from_utf8_lossy(text)))
}

/// A column's type, and whether it is unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    kind: u8,
    unsigned: bool,
}

impl Column {
    /// From its definition: the type is at a fixed distance from the end.
    pub(super) fn new(definition: &[u8]) -> Option<Self> {
        let at = definition.len().checked_sub(6)?;
        Some(Column { kind: definition[at], unsigned: definition[at + 1] & 0x20 != 0 })
    }
}

/// A value of a binary row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'b> {
    Null,
    Number(i64),
    /// A number too large for `Number`.
    Unsigned(u64),
    Float(f64),
    Text(&'b [u8]),
    /// Year, month, day, hour, minute, second, microsecond.
    Moment([u32; 7]),
}

/// The values of a binary row; ends early if the row is malformed.
pub(super) fn cells<'b>(body: &'b [u8], columns: &[Column]) -> impl Iterator<Item = Cell<'b>> {
    let bitmap = (columns.len() + 2).div_ceil(8);
    let nulls = body.get(1..1 + bitmap).unwrap_or_default();
    let mut rest = body.get(1 + bitmap..).unwrap_or_default();
    columns.iter().enumerate().map_while(move |(number, column)| {
        let bit = number + 2;
        if nulls.get(bit / 8)? >> (bit % 8) & 1 == 1 { Some(Cell::Null) } else { cell(*column, &mut rest) }
    })
}

fn cell<'b>(column: Column, rest: &mut &'b [u8]) -> Option<Cell<'b>> {
    let mut integer = |bytes: usize| {
        let value = number(rest, bytes)?;
        let unused = 64 - 8 * bytes as u32;
        let signed = (value << unused) as i64 >> unused;
        Some(match (column.unsigned, i64::try_from(value)) {
            (true, Ok(value)) => Cell::Number(value),
            (true, Err(_)) => Cell::Unsigned(value),
            (false, _) => Cell::Number(signed),
        })
    };
    match column.kind {
        kind::TINY => integer(1),
        kind::SHORT | kind::YEAR => integer(2),
        kind::LONG | kind::INT24 => integer(4),
        kind::LONGLONG => integer(8),
        kind::FLOAT => number(rest, 4).map(|bits| Cell::Float(f32::from_bits(bits as u32).into())),
        kind::DOUBLE => number(rest, 8).map(|bits| Cell::Float(f64::from_bits(bits))),
        kind::NULL => Some(Cell::Null),
        kind::DATE | kind::DATETIME | kind::TIMESTAMP => moment(rest),
        // Time spans are not supported: a script could not use one.
        kind::TIME => None,
        _ => counted(rest).map(Cell::Text),
    }
}

fn moment<'b>(rest: &mut &'b [u8]) -> Option<Cell<'b>> {
    let mut parts = counted(rest)?;
    let mut moment = [0; 7];
    for (part, bytes) in moment.iter_mut().zip([2, 1, 1, 1, 1, 1, 4]) {
        // Omitted parts are zero.
        *part = number(&mut parts, bytes).unwrap_or(0) as u32;
    }
    Some(Cell::Moment(moment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lengths_are_read_back(value: u64, short in 0..300_000u64) {
            for value in [value, short] {
                let mut out = Vec::new();
                write_length(value, &mut out);
                prop_assert_eq!(length(&mut out.as_slice()), Some(value));
            }
        }

        #[test]
        fn random_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..100),
            kinds in prop::collection::vec(any::<(u8, bool)>(), 0..20),
        ) {
            let columns: Vec<_> = kinds.into_iter().map(|(kind, unsigned)| Column { kind, unsigned }).collect();
            cells(&bytes, &columns).for_each(drop);
            let (_, _, _) = (ok(&bytes), end_of_rows(&bytes, false), error(&bytes));
            Column::new(&bytes);
            terminated(&mut bytes.as_slice());
        }
    }

    #[test]
    fn what_is_too_long_for_a_packet_takes_several() {
        for (length, sizes) in [(PACKET_MAX - 1, vec![PACKET_MAX - 1]), (PACKET_MAX, vec![PACKET_MAX, 0])] {
            let mut out = b"before".to_vec();
            packet(&mut out, 255, |out| out.resize(out.len() + length, 7));
            let (mut rest, mut sequence) = (&out[6..], 255_u8);
            for size in sizes {
                assert_eq!(number(&mut rest, 3), Some(size as u64));
                assert_eq!(take(&mut rest, 1), Some([sequence].as_slice()));
                assert!(take(&mut rest, size).unwrap().iter().all(|byte| *byte == 7));
                sequence = sequence.wrapping_add(1);
            }
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn answers_that_are_too_long_are_told_from_what_is_none() {
        assert_eq!(Frames::header(&[0xff, 0xff, 0xff, 0, 0]), Err(Failure::TooLarge));
        assert_eq!(Frames::header(&[0, 0, 0, 0, 0]), Err(Failure::Garbage));
        assert_eq!(Frames::header(&[1, 0, 0, 0, 9]), Ok((9, 5)));
    }

    #[test]
    fn a_request_is_as_the_protocol_has_it() {
        let values = [ValueRef::Number(-2), ValueRef::Unset, ValueRef::Text(b"ab")];
        let mut out = Vec::new();
        execute(&mut out, 7, 3, |number| values[number]);
        let body =
            [&[0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0b010, 1, 8, 0, 6, 0, 253, 0][..], &(-2_i64).to_le_bytes(), b"\x02ab"];
        assert_eq!(out, [&[29, 0, 0, 0][..], &body.concat()].concat());
        out.clear();
        execute(&mut out, 7, 0, |_| ValueRef::Unset);
        assert_eq!(out.len(), 4 + 10);
    }

    #[test]
    fn rows_are_taken_apart_by_their_types() {
        let column = |kind, unsigned| Column { kind, unsigned };
        let columns = [
            column(kind::TINY, false),
            column(kind::LONGLONG, true),
            column(kind::LONG, false),
            column(kind::VAR_STRING, false),
            column(kind::DATETIME, false),
            column(kind::DOUBLE, false),
        ];
        let row = [
            &[0, 0b0001_0000][..],
            &[0xff],
            &u64::MAX.to_le_bytes(),
            b"\x02hi",
            &[4, 0xea, 7, 11, 21],
            &1.5f64.to_le_bytes(),
        ];
        let row = row.concat();
        let found: Vec<_> = cells(&row, &columns).collect();
        let expected = [
            Cell::Number(-1),
            Cell::Unsigned(u64::MAX),
            Cell::Null,
            Cell::Text(b"hi"),
            Cell::Moment([2026, 11, 21, 0, 0, 0, 0]),
            Cell::Float(1.5),
        ];
        assert_eq!(found, expected);
        assert_eq!(cells(&row[..12], &columns).count(), 3, "a row that is cut short ends early");
    }

    #[test]
    fn ends_and_errors_are_understood() {
        assert_eq!(ok(&[0, 3, 0, 1, 0, 0, 0]), Some((3, 1)));
        assert_eq!(end_of_rows(&[0xfe, 0, 0, 2, 0], false), Some(2));
        assert_eq!(end_of_rows(&[0xfe, 0, 0, 8, 0, 0, 0], true), Some(8));
        assert_eq!(error(b"\xff\xbd\x04#40001Deadlock found").0, 1213);
        assert_eq!(error(b"\xff\xbd\x04#40001Deadlock found").1, "Deadlock found [1213]");
    }
}
