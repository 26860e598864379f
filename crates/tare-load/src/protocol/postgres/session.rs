//! A connection: from the first message to readiness, then one exchange after the other.

use super::scram::{Salted, Scram, md5_answer};
use super::wire::{self, Reader};
use crate::operation::{Failure, Greeting, Step};
use crate::protocol::sql::{
    Admission, Around, Code, Context, Login, Message, Next, Program, Tallies, TransactionMachine, Veil, Wire,
    write_value,
};
use crate::script::Values;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::Arc;

/// The constant part of every statement's request.
#[derive(Debug)]
pub(super) struct Calls(Vec<wire::Call>);

impl Calls {
    pub(super) fn new(program: &Program) -> Self {
        let calls = program.statements.iter().enumerate();
        Calls(calls.map(|(number, statement)| wire::Call::new(number, statement.parameters)).collect())
    }
}

impl Wire for Calls {
    #[inline]
    fn write(&self, program: &Program, calls: Range<u32>, values: &Values, out: &mut Vec<u8>) {
        for number in calls {
            let call = program.call(number);
            let parameters = program.parameters(call);
            self.0[call.statement as usize].write(out, parameters.len(), |number, out| {
                write_value(values.get(parameters[number], program.feeds.texts()), out)
            });
        }
        wire::sync(out);
    }

    fn nothing(&self, out: &mut Vec<u8>) {
        wire::sync(out);
    }
}

/// The first message of a session.
fn start(login: &Login, out: &mut Vec<u8>) {
    let parameters = [
        ("user", login.user.as_str()),
        ("database", &login.database),
        ("client_encoding", "UTF8"),
        ("application_name", "tare"),
    ];
    wire::startup(out, &parameters);
}

/// How far the greeting has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The server is to answer whether it supports TLS.
    Secure,
    Login,
    /// This many statements have been accepted.
    Prepare(usize),
    Ready,
}

/// The state of one connection.
pub(super) struct Session {
    veil: Veil,
    talk: Talk,
}

impl Session {
    pub(super) fn new(program: &Program, tallies: &Arc<Tallies>) -> Self {
        let machine = TransactionMachine::new(program, tallies);
        let talk = Talk { reader: Reader::default(), stage: Stage::Login, scram: None, machine, rows: 0 };
        Session { veil: Veil::default(), talk }
    }

    /// Sends the first message: asks for TLS, or logs in.
    pub(super) fn greet(&mut self, login: &Login, out: &mut Vec<u8>) {
        if login.tls.is_some() {
            self.talk.stage = Stage::Secure;
            wire::ssl_request(out);
        } else {
            start(login, out);
        }
    }

    /// Continues the greeting.
    ///
    /// # Errors
    /// When the server refuses, or does not use the protocol; its message goes to the tallies.
    pub(super) fn shake(
        &mut self,
        admission: Admission<'_>,
        salted: &Salted,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Failure> {
        let Session { veil, talk } = self;
        let Admission { login, tallies, .. } = admission;
        if let (Stage::Secure, Some(tls)) = (talk.stage, &login.tls) {
            talk.stage = Stage::Login;
            return match bytes {
                b"S" => {
                    veil.raise(tls, out);
                    Ok(Greeting::Wait)
                }
                b"N" => {
                    tallies.note(|| "the server does not speak TLS".into());
                    Err(Failure::Tls)
                }
                // Anything else that came with the answer was not encrypted and must not be trusted.
                _ => Err(Failure::Garbage),
            };
        }
        veil.shake(login.tls.as_ref(), bytes, out, |piece, secured, out| {
            if secured && piece.is_empty() {
                start(login, out);
                return Ok(Greeting::Wait);
            }
            talk.shake(admission, salted, piece, out)
        })
    }

    /// The TLS layer, once the greeting is over.
    pub(super) fn into_veil(self) -> Veil {
        self.veil
    }

    /// Begins an operation.
    #[inline]
    pub(super) fn begin(&mut self, operation: u16, wire: &Calls, around: Around<'_>) {
        let Session { veil, talk } = self;
        let Around { program, values, draw, out, .. } = around;
        veil.write(out, |out| talk.machine.begin(operation, &mut Context { program, wire, values, draw, out }));
    }

    /// Takes the next bytes of an operation's answers.
    #[inline]
    pub(super) fn feed(&mut self, bytes: &[u8], wire: &Calls, around: Around<'_>) -> Step {
        let Session { veil, talk } = self;
        let Around { program, tallies, values, draw, out } = around;
        veil.feed(bytes, out, |piece, out| talk.feed(piece, tallies, &mut Context { program, wire, values, draw, out }))
    }

    /// Takes bytes that come while nothing is in flight.
    ///
    /// # Errors
    /// When they are more than notices: the server is closing.
    pub(super) fn idle(&mut self, bytes: &[u8], tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), Failure> {
        let Session { veil, talk } = self;
        veil.idle(bytes, out, |piece| talk.idle(piece, tallies))
    }
}

/// The conversation, in clear.
#[derive(Debug)]
struct Talk {
    reader: Reader,
    stage: Stage,
    scram: Option<Box<Scram>>,
    machine: TransactionMachine,
    // Rows so far of the statement whose answer is being read.
    rows: u64,
}

impl Talk {
    /// Continues the greeting.
    ///
    /// # Errors
    /// When the server refuses, or does not use the protocol; its message goes to the tallies.
    fn shake(
        &mut self,
        admission: Admission<'_>,
        salted: &Salted,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting, Failure> {
        let Admission { statements, tallies, .. } = admission;
        let wanted = |kind| matches!(kind, b'R' | b'E' | b'Z');
        while let Some(Message { kind, body }) = self.reader.next(&mut bytes, wanted)? {
            match (kind, self.stage) {
                (b'R', Stage::Login) => authenticate(&mut self.scram, admission, salted, body, out)?,
                (b'E', stage) => {
                    let text = wire::error_text(body);
                    tallies.note(|| match stage {
                        Stage::Prepare(done) => match statements.get(done) {
                            Some(statement) => format!("{text}, in: {}", statement.sql),
                            None => text,
                        },
                        _ => text,
                    });
                    return Err(Failure::ErrorReply);
                }
                (b'1', Stage::Prepare(done)) => self.stage = Stage::Prepare(done + 1),
                (b'Z', Stage::Login) if !statements.is_empty() => {
                    let numbered = statements.iter().enumerate();
                    numbered.for_each(|(number, statement)| wire::parse(out, number, &statement.sql));
                    wire::sync(out);
                    self.stage = Stage::Prepare(0);
                }
                (b'Z', _) => {
                    self.reader.answered();
                    self.stage = Stage::Ready;
                    self.machine.connected();
                    return Ok(Greeting::Ready);
                }
                // Parameters, the key for cancelling, notices, negotiation of an older protocol version.
                (b'S' | b'K' | b'N' | b'v', _) => {}
                _ => return Err(Failure::Garbage),
            }
        }
        Ok(Greeting::Wait)
    }

    /// Takes the next bytes of an operation's answers.
    #[inline]
    fn feed(&mut self, bytes: &[u8], tallies: &Tallies, cx: &mut Context<'_, Calls>) -> Step {
        let Talk { reader, machine, rows, .. } = self;
        let mut rest = bytes;
        loop {
            let captures =
                *rows == 0 && machine.call(cx.program).is_some_and(|call| !cx.program.captures(call).is_empty());
            let wanted = |kind| matches!(kind, b'C' | b'Z' | b'E') || (captures && kind == b'D');
            let Message { kind, body } = match reader.next(&mut rest, wanted) {
                Ok(Some(message)) => message,
                Ok(None) => return Step::More,
                Err(failure) => return Step::Broken(failure),
            };
            match kind {
                b'D' => {
                    *rows += 1;
                    if captures {
                        capture(body, machine, cx);
                    }
                }
                b'C' | b'I' if machine.call(cx.program).is_some() => {
                    machine.complete(*rows, wire::affected(body), cx);
                    *rows = 0;
                }
                b'E' => {
                    tallies.note(|| wire::error_text(body));
                    machine.error(Code::new(wire::field(body, b'C').unwrap_or_default()), cx.program);
                    *rows = 0;
                }
                b'Z' => {
                    let open = body != b"I";
                    reader.answered();
                    if let Next::Done(reply) = machine.ended(Some(open), cx) {
                        return Step::Done { used: bytes.len() - rest.len(), reply, last: false };
                    }
                }
                // Bind is complete; notices, parameters, notifications.
                b'2' | b'N' | b'S' | b'A' => {}
                _ => return Step::Broken(Failure::Garbage),
            }
        }
    }

    /// Takes bytes that come while nothing is in flight.
    ///
    /// # Errors
    /// When they are more than notices: the server is closing.
    fn idle(&mut self, mut bytes: &[u8], tallies: &Tallies) -> Result<(), Failure> {
        while let Some(Message { kind, body }) = self.reader.next(&mut bytes, |kind| kind == b'E')? {
            match kind {
                b'N' | b'S' | b'A' => self.reader.answered(),
                b'E' => {
                    tallies.note(|| wire::error_text(body));
                    return Err(Failure::ErrorReply);
                }
                _ => return Err(Failure::Garbage),
            }
        }
        Ok(())
    }
}

/// Captures the wanted columns of a row.
fn capture(body: &[u8], machine: &mut TransactionMachine, cx: &mut Context<'_, Calls>) {
    let Some(call) = machine.call(cx.program) else { return };
    let (mut columns, mut at) = (wire::columns(body), 0);
    for (column, slot) in cx.program.captures(call) {
        // Two variables may capture the same column.
        let found = if usize::from(*column) < at {
            wire::columns(body).nth((*column).into())
        } else {
            let skip = usize::from(*column) - at;
            at += skip + 1;
            columns.nth(skip)
        };
        match found {
            Some(Some(text)) => cx.values.text_mut(*slot).extend_from_slice(text),
            Some(None) => cx.values.unset(*slot),
            None => return machine.unexpected(),
        }
    }
}

/// Answers a request for authentication.
fn authenticate(
    scram: &mut Option<Box<Scram>>,
    Admission { login, tallies, .. }: Admission<'_>,
    salted: &Salted,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some((kind, rest)) = body.split_first_chunk::<4>() else { return Err(Failure::Garbage) };
    let text = || std::str::from_utf8(rest).map_err(|_| Failure::Garbage);
    match u32::from_be_bytes(*kind) {
        0 => {}
        3 => wire::password(out, &login.password),
        5 => wire::password(out, &md5_answer(&login.user, &login.password, rest.get(..4).ok_or(Failure::Garbage)?)),
        10 if rest.split(|byte| *byte == 0).any(|name| name == b"SCRAM-SHA-256") => {
            let begun = scram.insert(Box::new(Scram::new(nonce())));
            wire::sasl_initial(out, "SCRAM-SHA-256", &begun.first());
        }
        11 => {
            let begun = scram.as_mut().ok_or(Failure::Garbage)?;
            let answer = begun.answer(text()?, &login.password, salted).ok_or(Failure::Garbage)?;
            wire::sasl_response(out, &answer);
        }
        12 => {
            if !scram.take().is_some_and(|begun| text().is_ok_and(|text| begun.proves(text))) {
                tallies.note(|| "the server does not know the password it asks for".into());
                return Err(Failure::WrongReply);
            }
        }
        other => {
            tallies.note(|| format!("the server wants a way of authentication that is not supported (number {other})"));
            return Err(Failure::ErrorReply);
        }
    }
    Ok(())
}

/// An unpredictable text: a hasher's keys come from the kernel.
fn nonce() -> String {
    let random = || RandomState::new().hash_one(0);
    format!("{:016x}{:016x}", random(), random())
}
