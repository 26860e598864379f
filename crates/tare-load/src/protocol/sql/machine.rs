//! Runs a script on a connection, from one exchange to the next, driven by the answers.

use super::code::Code;
use super::program::{Call, Instruction, Program, ROLLBACK, Role};
use super::tally::{Tallies, Tally};
use crate::draw::Draw;
use crate::operation::{Failure, Reply};
use crate::script::Values;
use std::ops::Range;
use std::sync::Arc;

/// The most steps without an exchange; a script with more would never end.
const STEPS_MAX: u32 = 1_000_000;

/// How statements are written.
pub(crate) trait Wire {
    /// Appends the requests for these calls, which are answered in order and end together.
    fn write(&self, program: &Program, calls: Range<u32>, values: &Values, out: &mut Vec<u8>);

    /// Appends a request that does nothing and is answered.
    fn nothing(&self, out: &mut Vec<u8>);
}

/// What a machine works on.
pub(crate) struct Context<'a, W> {
    /// The scripts.
    pub program: &'a Program,
    /// How statements are written.
    pub wire: &'a W,
    /// The user's variables.
    pub values: &'a mut Values,
    /// Random choices.
    pub draw: &'a mut Draw,
    /// Where requests go.
    pub out: &'a mut Vec<u8>,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Something was sent; the answers are awaited.
    Wait,
    /// The operation is over.
    Done(Reply),
}

/// What happens after a transaction has been rolled back.
#[derive(Debug, Clone, Copy)]
enum After {
    Retry,
    Fail(Failure),
}

/// The state of a script on one connection.
#[derive(Debug)]
pub(crate) struct TransactionMachine {
    operation: u16,
    // The next instruction.
    at: u32,
    // Calls that were sent and not answered yet; the rest are skipped after an error.
    calls: Range<u32>,
    role: Role,
    // Whether the server is in a transaction; whether a `begin` has set the place for a retry, and that place.
    open: bool,
    marked: bool,
    resume: u32,
    tries: u16,
    // The transaction is being rolled back.
    undoing: Option<After>,
    // What went wrong in this exchange.
    error: Option<Code>,
    unexpected: bool,
    taken_back: bool,
    // The operation was over before anything was sent; this is its outcome once the server has answered an empty
    // request.
    idle: Option<Reply>,
    tally: Tally,
    tallies: Arc<Tallies>,
}

impl Drop for TransactionMachine {
    fn drop(&mut self) {
        self.tallies.add(&self.tally);
    }
}

impl TransactionMachine {
    /// A machine at rest, which adds its counts to `tallies` when its connection ends.
    pub(crate) fn new(program: &Program, tallies: &Arc<Tallies>) -> Self {
        TransactionMachine {
            operation: 0,
            at: 0,
            calls: 0..0,
            role: Role::Statement,
            open: false,
            marked: false,
            resume: 0,
            tries: 0,
            undoing: None,
            error: None,
            unexpected: false,
            taken_back: false,
            idle: None,
            tally: Tally::new(program.operations.len()),
            tallies: Arc::clone(tallies),
        }
    }

    /// The server has let the connection in.
    pub(crate) fn connected(&mut self) {
        self.tally.connections += 1;
    }

    /// Begins an operation: writes its first request. If its path reaches no statement, an empty request is sent, so
    /// that the operation is answered like any other.
    #[inline]
    pub(crate) fn begin<W: Wire>(&mut self, operation: u16, cx: &mut Context<'_, W>) {
        let entry = &cx.program.operations[usize::from(operation)];
        (self.operation, self.at, self.tries) = (operation, entry.start, 1);
        (self.open, self.marked, self.taken_back) = (false, false, false);
        cx.program.feeds.draw(&entry.feeds, cx.draw, cx.values);
        if let Next::Done(reply) = self.run(cx) {
            self.idle = Some(reply);
            cx.wire.nothing(cx.out);
        }
    }

    /// The call whose answer comes next; none if all have been answered, or skipped after an error.
    #[inline]
    pub(crate) fn call<'p>(&self, program: &'p Program) -> Option<&'p Call> {
        (!self.calls.is_empty()).then(|| program.call(self.calls.start))
    }

    /// A call was answered without an error.
    #[inline]
    pub(crate) fn complete<W: Wire>(&mut self, rows: u64, affected: u64, cx: &mut Context<'_, W>) {
        let call = cx.program.call(self.calls.start);
        self.calls.start += 1;
        self.count(call, cx.program);
        self.unexpected |= !cx.program.counted(call, rows, affected, cx.values);
    }

    #[inline]
    fn count(&mut self, call: &Call, program: &Program) {
        self.tally.statements += 1;
        self.tally.control += u64::from(program.statements[call.statement as usize].control);
    }

    /// A call was answered with something unexpected.
    pub(crate) fn unexpected(&mut self) {
        self.unexpected = true;
    }

    /// A call was answered with an error; calls sent together with it and after it are skipped.
    #[cold]
    pub(crate) fn error(&mut self, code: Code, program: &Program) {
        if let Some(call) = self.call(program) {
            self.count(call, program);
        }
        self.tally.error(code, 1);
        self.calls = 0..0;
        self.error = Some(code);
    }

    /// An exchange is over. `open` is whether a transaction is open, if the server reports it.
    #[inline]
    pub(crate) fn ended<W: Wire>(&mut self, open: Option<bool>, cx: &mut Context<'_, W>) -> Next {
        if let Some(reply) = self.idle.take() {
            return Next::Done(reply);
        }
        let unanswered = !self.calls.is_empty();
        if self.undoing.is_some() || self.error.is_some() || self.unexpected || unanswered {
            return self.trouble(open, cx);
        }
        match self.role {
            Role::Begin => self.open = true,
            Role::Commit => {
                (self.open, self.marked) = (false, false);
                self.tally.commits += 1;
                self.tally.commit_statements += 1;
            }
            Role::Rollback => {
                (self.open, self.marked, self.taken_back) = (false, false, true);
                self.tally.rollbacks += 1;
            }
            Role::Statement if !self.open => self.tally.commits += 1,
            Role::Statement | Role::Prelude => {}
        }
        if open.is_some_and(|open| open != self.open) {
            // One of the script's own statements began or ended a transaction.
            self.unexpected = true;
            self.open |= open == Some(true);
            return self.trouble(open, cx);
        }
        self.run(cx)
    }

    #[cold]
    fn trouble<W: Wire>(&mut self, open: Option<bool>, cx: &mut Context<'_, W>) -> Next {
        let error = self.error.take();
        self.unexpected = false;
        self.calls = 0..0;
        if let Some(after) = self.undoing.take() {
            self.tally.rollbacks += 1;
            let after = if error.is_some() { After::Fail(Failure::ErrorReply) } else { after };
            return self.go_on(after, cx);
        }
        let after = match error {
            Some(code) if passes(code, cx.program.passing) => {
                if self.tries < cx.program.operations[usize::from(self.operation)].tries {
                    After::Retry
                } else {
                    After::Fail(Failure::Retries)
                }
            }
            Some(_) => After::Fail(Failure::ErrorReply),
            None => After::Fail(Failure::WrongReply),
        };
        self.undo(after, open, cx)
    }

    /// Rolls back the open transaction, if there is one, and continues.
    fn undo<W: Wire>(&mut self, after: After, open: Option<bool>, cx: &mut Context<'_, W>) -> Next {
        if !open.unwrap_or(self.open) {
            self.tally.rollbacks += 1;
            return self.go_on(after, cx);
        }
        self.undoing = Some(after);
        (self.calls, self.role) = (ROLLBACK, Role::Rollback);
        cx.wire.write(cx.program, ROLLBACK, cx.values, cx.out);
        Next::Wait
    }

    fn go_on<W: Wire>(&mut self, after: After, cx: &mut Context<'_, W>) -> Next {
        (self.open, self.marked) = (false, false);
        match after {
            After::Retry => {
                self.tries += 1;
                self.tally.retries += 1;
                self.at = self.resume;
                self.run(cx)
            }
            After::Fail(failure) => Next::Done(Reply::Wrong(failure)),
        }
    }

    /// Continues to the next exchange.
    #[inline]
    fn run<W: Wire>(&mut self, cx: &mut Context<'_, W>) -> Next {
        for _ in 0..STEPS_MAX {
            let at = self.at;
            self.at += 1;
            match &cx.program.instructions[at as usize] {
                Instruction::Set(slot, source) => cx.program.set(*slot, *source, cx.draw, cx.values),
                Instruction::Mark => (self.resume, self.marked) = (at, true),
                Instruction::Exchange(calls, role) => {
                    if !self.marked {
                        self.resume = at;
                    }
                    (self.calls, self.role) = (calls.clone(), *role);
                    cx.wire.write(cx.program, calls.clone(), cx.values, cx.out);
                    return Next::Wait;
                }
                Instruction::Jump(to) => self.at = *to,
                Instruction::JumpUnless(condition, to) => {
                    if !cx.program.holds(*condition, cx.draw, cx.values) {
                        self.at = *to;
                    }
                }
                Instruction::End if self.open => {
                    // Its path led past the end of its transaction.
                    return self.undo(After::Fail(Failure::WrongReply), None, cx);
                }
                Instruction::End => {
                    let counts = if self.taken_back { &mut self.tally.taken_back } else { &mut self.tally.completed };
                    counts[usize::from(self.operation)] += 1;
                    return Next::Done(Reply::Right);
                }
            }
        }
        self.undo(After::Fail(Failure::WrongReply), None, cx)
    }
}

fn passes(code: Code, passing: &[&str]) -> bool {
    passing.iter().any(|known| Code::new(known.as_bytes()) == code)
}
