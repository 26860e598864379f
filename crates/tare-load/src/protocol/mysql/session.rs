//! A connection: one exchange after the other.

use super::greeting::Shake;
use super::wire::{self, Cell, Column, Reader, cells};
use crate::operation::{Failure, Greeting, Step};
use crate::protocol::sql::{
    Admission, Around, Code, Context, Message, Next, Program, Tallies, TransactionMachine, Veil, Wire,
};
use crate::script::{Slot, Values, write_number};
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

/// Writes statements on one connection, with the ids that the server gave them there.
struct Requests<'a>(&'a [u32]);

impl Wire for Requests<'_> {
    #[inline]
    fn write(&self, program: &Program, calls: Range<u32>, values: &Values, out: &mut Vec<u8>) {
        // Scripts of this dialect send one call at a time.
        for number in calls {
            let call = program.call(number);
            let statement = &program.statements[call.statement as usize];
            if statement.control {
                wire::command(out, wire::QUERY, &statement.sql);
                continue;
            }
            let parameters = program.parameters(call);
            let value = |number: usize| values.get(parameters[number], program.feeds.texts());
            wire::execute(out, self.0[call.statement as usize], parameters.len(), value);
        }
    }

    fn nothing(&self, out: &mut Vec<u8>) {
        wire::command(out, wire::PING, "");
    }
}

/// The part of an answer that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first packet: success, an error, or the number of columns.
    First,
    /// This many descriptions of columns.
    Columns(u64),
    /// The end of these, if the server sends one.
    ColumnsEnd,
    /// Rows, or their end.
    Rows,
}

/// The state of one connection.
pub(super) struct Session {
    veil: Veil,
    talk: Talk,
}

/// The conversation, in clear.
#[derive(Debug)]
struct Talk {
    reader: Reader,
    shake: Shake,
    answer: Answer,
}

/// An answer, as far as it has come, and the script that waits for it.
#[derive(Debug)]
struct Answer {
    machine: TransactionMachine,
    part: Part,
    rows: u64,
    // The columns of the statement whose answer is being read, if anything of it is captured.
    columns: Vec<Column>,
}

impl Session {
    pub(super) fn new(program: &Program, tallies: &Arc<Tallies>) -> Self {
        let machine = TransactionMachine::new(program, tallies);
        let answer = Answer { machine, part: Part::First, rows: 0, columns: Vec::new() };
        let talk = Talk { reader: Reader::default(), shake: Shake::new(), answer };
        Session { veil: Veil::default(), talk }
    }

    /// Continues the greeting.
    ///
    /// # Errors
    /// When the server refuses, or does not use the protocol; its message goes to `tallies`.
    pub(super) fn shake(
        &mut self,
        admission: Admission<'_>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Failure> {
        let Admission { login, statements, tallies } = admission;
        let Session { veil, talk: Talk { reader, shake, answer } } = self;
        let greeting = veil.shake(login.tls.as_ref(), bytes, out, |piece, secured, out| {
            if secured && piece.is_empty() {
                shake.secured(out);
            }
            shake.feed(reader, login, statements, tallies, piece, out)
        })?;
        // During the handshake the greeting remains in this stage, so TLS is begun only once.
        if let (true, true, Some(tls)) = (veil.is_clear(), shake.wants_tls(), &login.tls) {
            veil.raise(tls, out);
        }
        if greeting == Greeting::Ready {
            answer.machine.connected();
        }
        Ok(greeting)
    }

    /// The TLS layer once the greeting is over, and whether rows end in an OK packet instead of an EOF packet.
    pub(super) fn into_veil(self) -> (Veil, bool) {
        (self.veil, self.talk.shake.deprecate_eof())
    }

    /// Begins an operation.
    #[inline]
    pub(super) fn begin(&mut self, operation: u16, around: Around<'_>) {
        let Session { veil, talk } = self;
        let wire = &Requests(talk.shake.prepared());
        let Around { program, values, draw, out, .. } = around;
        veil.write(out, |out| talk.answer.machine.begin(operation, &mut Context { program, wire, values, draw, out }));
    }

    /// Takes the next bytes of an operation's answers.
    #[inline]
    pub(super) fn feed(&mut self, bytes: &[u8], around: Around<'_>) -> Step {
        let Session { veil, talk } = self;
        let Around { program, tallies, values, draw, out } = around;
        veil.feed(bytes, out, |piece, out| talk.feed(piece, Around { program, tallies, values, draw, out }))
    }

    /// Takes bytes that come while nothing is in flight.
    ///
    /// # Errors
    /// When the server reports why it closes.
    pub(super) fn idle(&mut self, bytes: &[u8], tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), Failure> {
        let Session { veil, talk } = self;
        veil.idle(bytes, out, |piece| talk.idle(piece, tallies))
    }
}

impl Talk {
    /// Takes the next bytes of an operation's answers.
    #[inline]
    fn feed(&mut self, bytes: &[u8], around: Around<'_>) -> Step {
        let Talk { reader, shake, answer } = self;
        let wire = Requests(shake.prepared());
        let Around { program, tallies, values, draw, out } = around;
        let mut cx = Context { program, wire: &wire, values, draw, out };
        let mut rest = bytes;
        loop {
            let captured = answer.machine.call(program).is_some_and(|call| !program.captures(call).is_empty());
            let (now, first_row) = (answer.part, answer.rows == 0);
            let wanted = |kind| match now {
                Part::First => true,
                Part::Columns(_) => captured,
                Part::ColumnsEnd => false,
                Part::Rows => kind != 0 || (captured && first_row),
            };
            let message = match reader.next(&mut rest, wanted) {
                Ok(Some(message)) => message,
                Ok(None) => return Step::More,
                Err(failure) => return Step::Broken(failure),
            };
            match answer.take(message, captured, shake.deprecate_eof(), tallies, &mut cx) {
                Ok(None) => {}
                Ok(Some(next)) => {
                    reader.answered();
                    if let Next::Done(reply) = next {
                        return Step::Done { used: bytes.len() - rest.len(), reply, last: false };
                    }
                }
                Err(failure) => return Step::Broken(failure),
            }
        }
    }

    fn idle(&mut self, mut bytes: &[u8], tallies: &Tallies) -> Result<(), Failure> {
        match self.reader.next(&mut bytes, |_| true)? {
            Some(Message { kind: 0xff, body }) => {
                tallies.note(|| wire::error(body).1);
                Err(Failure::ErrorReply)
            }
            Some(_) => Err(Failure::Garbage),
            None => Ok(()),
        }
    }
}

impl Answer {
    /// Takes the next packet; if it was the last of the answer, returns what happens next. `captured` is whether
    /// anything of the answer is captured.
    ///
    /// # Errors
    /// When such a packet must not come now.
    #[inline]
    fn take<W: Wire>(
        &mut self,
        Message { kind, body }: Message<'_>,
        captured: bool,
        deprecate_eof: bool,
        tallies: &Tallies,
        cx: &mut Context<'_, W>,
    ) -> Result<Option<Next>, Failure> {
        let status = match (self.part, kind) {
            (Part::First | Part::Rows, 0xff) => {
                let (code, text) = wire::error(body);
                tallies.note(|| text);
                self.machine.error(code_of(code), cx.program);
                (self.part, self.rows) = (Part::First, 0);
                return Ok(Some(self.machine.ended(None, cx)));
            }
            (Part::First, 0) => {
                let (affected, status) = wire::ok(body).ok_or(Failure::Garbage)?;
                if status & wire::MORE_RESULTS == 0 {
                    return Ok(Some(self.done(affected, status, cx)));
                }
                status
            }
            (Part::First, 1..=0xfc) => {
                let count = wire::length(&mut { body }).filter(|count| *count > 0).ok_or(Failure::Garbage)?;
                self.columns.clear();
                self.part = Part::Columns(count);
                return Ok(None);
            }
            (Part::Columns(left), _) => {
                if captured {
                    self.columns.push(Column::new(body).ok_or(Failure::Garbage)?);
                }
                self.part = match (left, deprecate_eof) {
                    (2.., _) => Part::Columns(left - 1),
                    (_, true) => Part::Rows,
                    (_, false) => Part::ColumnsEnd,
                };
                return Ok(None);
            }
            (Part::ColumnsEnd, 0xfe) => {
                self.part = Part::Rows;
                return Ok(None);
            }
            (Part::Rows, 0) => {
                self.rows += 1;
                if captured && self.rows == 1 {
                    capture(body, &self.columns, &mut self.machine, cx);
                }
                return Ok(None);
            }
            (Part::Rows, 0xfe) => wire::end_of_rows(body, deprecate_eof).ok_or(Failure::Garbage)?,
            _ => return Err(Failure::Garbage),
        };
        self.part = Part::First;
        Ok((status & wire::MORE_RESULTS == 0).then(|| self.done(self.rows, status, cx)))
    }

    #[inline]
    fn done<W: Wire>(&mut self, affected: u64, status: u16, cx: &mut Context<'_, W>) -> Next {
        if self.machine.call(cx.program).is_some() {
            self.machine.complete(self.rows, affected, cx);
        }
        (self.part, self.rows) = (Part::First, 0);
        self.machine.ended(Some(status & wire::IN_TRANSACTION != 0), cx)
    }
}

/// A server's error number as a code.
fn code_of(number: u16) -> Code {
    let mut digits = Vec::new();
    write_number(number.into(), 0, &mut digits);
    Code::new(&digits)
}

/// Captures the wanted columns of a row.
fn capture<W>(body: &[u8], columns: &[Column], machine: &mut TransactionMachine, cx: &mut Context<'_, W>) {
    let Some(call) = machine.call(cx.program) else { return };
    let mut asked = cx.program.captures(call).iter().peekable();
    for (number, cell) in cells(body, columns).enumerate() {
        while let Some((_, slot)) = asked.next_if(|(column, _)| usize::from(*column) == number) {
            keep(cell, *slot, cx.values);
        }
    }
    if asked.peek().is_some() {
        machine.unexpected();
    }
}

fn keep(cell: Cell<'_>, slot: Slot, values: &mut Values) {
    match cell {
        Cell::Null => values.unset(slot),
        Cell::Number(number) => values.set_number(slot, number),
        Cell::Text(text) => values.text_mut(slot).extend_from_slice(text),
        Cell::Unsigned(number) => write_text(values, slot, format_args!("{number}")),
        Cell::Float(number) => write_text(values, slot, format_args!("{number}")),
        Cell::Moment([year, month, day, hour, minute, second, micros]) => write_text(
            values,
            slot,
            format_args!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}"),
        ),
    }
}

fn write_text(values: &mut Values, slot: Slot, text: std::fmt::Arguments<'_>) {
    values.text_mut(slot).write_fmt(text).expect("a vector takes everything");
}
