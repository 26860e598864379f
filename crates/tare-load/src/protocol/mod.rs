//! What is spoken to the service. A protocol is a folder here and a row of [`PROTOCOLS`].
//!
//! The engine is generic over [`Protocol`], so that nothing is called through a pointer per operation. Replies are
//! fed in whatever pieces they arrive in and are checked, not kept: memory does not grow with their size.
//!
//! The engine chooses the operation (mix, sequence, matrix or file) and its moments; the protocol says what is sent for
//! it and what counts as its answer. An operation may take several requests and replies: `feed` appends the next
//! request and says [`Step::More`] until the last reply has come.

mod draw;
mod exec;
mod failure;
mod http;
mod mysql;
mod null;
mod postgres;
mod redis;
mod sql;
mod tcp;
mod tls;

#[cfg(any(test, fuzzing))]
pub(crate) mod chew;

pub(crate) use draw::{Draw, Mix};
pub(crate) use failure::{Failure, Failures};

use crate::engine::{Ledger, Seat};
use crate::link::Link;
use crate::script::{Slot, ValueRef};
use rustix::fd::OwnedFd;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::Receiver;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadLine, LoadOrder, LoadPlan, LoadSummary};
use tare_core::record::OwnMetric;

/// Replies longer than this end the connection: 64 MiB.
pub(crate) const REPLY_MAX: u64 = 64 << 20;

/// The other side of a running task: where its lines go, and whence it is told.
pub(crate) struct Emit<'a> {
    write: &'a mut dyn FnMut(LoadLine) -> Result<(), Fault>,
    orders: Option<Receiver<LoadOrder>>,
    seat: Option<Seat>,
}

impl<'a> Emit<'a> {
    /// Lines go to `write`; a guided load is told by `orders`.
    pub(crate) fn new(
        write: &'a mut dyn FnMut(LoadLine) -> Result<(), Fault>,
        orders: Option<Receiver<LoadOrder>>,
    ) -> Self {
        Emit { write, orders, seat: None }
    }

    /// For a load that takes turns with others.
    pub(crate) fn seated(self, seat: Seat) -> Self {
        Emit { seat: Some(seat), ..self }
    }

    /// Whether the load takes turns with others, and has not begun.
    pub(crate) fn takes_turns(&self) -> bool {
        self.seat.is_some()
    }

    /// Where the load takes turns with others; none after the first time.
    pub(crate) fn seat(&mut self) -> Option<Seat> {
        self.seat.take()
    }

    /// Writes a line.
    ///
    /// # Errors
    /// When nobody listens any more.
    pub(crate) fn line(&mut self, line: LoadLine) -> Result<(), Fault> {
        (self.write)(line)
    }

    /// Has a command run inside the form, and waits for how it went.
    ///
    /// # Errors
    /// Why it was not run, or that nobody is there to run it.
    pub(crate) fn inside(&mut self, command: CommandStart) -> Result<CommandEnd, Fault> {
        self.line(LoadLine::Inside(Box::new(command)))?;
        match self.orders.as_ref().map(Receiver::recv) {
            Some(Ok(LoadOrder::Ran(went))) => *went,
            Some(Ok(LoadOrder::End)) => Err(Fault::new("interrupted")),
            Some(Ok(LoadOrder::Hold(_)) | Err(_)) | None => {
                Err(Fault::new("whoever started this load process did not run a command inside the form for it"))
            }
        }
    }

    /// Whence a guided load is told; none after the first time.
    pub(crate) fn orders(&mut self) -> Option<Receiver<LoadOrder>> {
        self.orders.take()
    }
}

/// A row of the table of protocols.
pub struct ProtocolRow {
    /// The protocol's name in workload files.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Checks a user's options and writes them down with every default filled in. `None` adds problems.
    pub options: fn(&Node, &mut Problems) -> Option<serde_json::Value>,
    /// The names of the values that operations capture, set or draw with these options, as [`ProtocolRow::options`]
    /// wrote them down; by them may hang which operation a user asks for next.
    pub variables: fn(&serde_json::Value) -> Vec<String>,
    /// The names of the operations with these options, as [`ProtocolRow::options`] wrote them down; none when they
    /// are not this protocol's.
    pub operations: fn(&serde_json::Value) -> Vec<String>,
    /// The metrics that it has with these options, as [`ProtocolRow::options`] wrote them down, beside those of every
    /// trial.
    pub metrics: fn(&serde_json::Value) -> Vec<OwnMetric>,
    /// Whether single seconds are told while it runs. A tool of others says what it did when it has ended.
    pub tells_seconds: bool,
    /// Whether with these options, as [`ProtocolRow::options`] wrote them down, a tool runs inside the form.
    pub runs_inside: fn(&serde_json::Value) -> bool,
    /// The services, besides the one that is loaded, that it speaks to with these options, as [`ProtocolRow::options`]
    /// wrote them down: such as those behind a proxy.
    pub speaks_to: fn(&serde_json::Value) -> Vec<String>,
    /// Carries out a plan.
    pub(crate) drive: fn(&LoadPlan, &mut Emit<'_>) -> Result<LoadSummary, Fault>,
}

/// Every protocol.
pub const PROTOCOLS: &[ProtocolRow] =
    &[redis::ROW, http::ROW, postgres::ROW, mysql::ROW, tcp::ROW, exec::ROW, null::ROW];

/// Whether this machine has what a protocol needs.
type CheckNeeds = fn(&serde_json::Value) -> Result<(), Fault>;

/// What protocols need of this machine; most need nothing.
const NEEDS: &[(&str, CheckNeeds)] = &[(exec::ROW.name, exec::check_programs)];

/// Whether this machine has what a protocol needs with these options, to be asked before anything is deployed.
///
/// # Errors
/// What is missing, and how to get it.
pub fn check_needs(protocol: &str, options: &serde_json::Value) -> Result<(), Fault> {
    NEEDS.iter().filter(|(name, _)| *name == protocol).try_for_each(|(_, check)| check(options))
}

/// A whole reply, judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The answer to what was asked.
    Right,
    /// A right answer that says that there is nothing: a miss.
    Empty,
    /// Something else.
    Wrong(Failure),
}

impl Reply {
    /// What is wrong with it, if anything.
    pub(crate) fn failure(self) -> Option<Failure> {
        match self {
            Reply::Right | Reply::Empty => None,
            Reply::Wrong(failure) => Some(failure),
        }
    }
}

/// How far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// All bytes were taken and more are needed.
    More,
    /// The reply is complete after `used` bytes.
    Done {
        /// How many of the bytes belonged to it; the rest is the next reply's.
        used: usize,
        /// What it was.
        reply: Reply,
        /// Whether the peer announced to close the connection after it.
        last: bool,
    },
    /// All bytes were taken and the reply is complete, but the operation is not, and the peer ends the connection: it
    /// goes on over a new one, with [`Protocol::resume`].
    Reopen,
    /// This cannot become a reply; the connection is of no use any more.
    Broken(Failure),
}

/// An operation that was sent and not answered yet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flight {
    /// When it was to start, CLOCK_MONOTONIC, ns.
    pub planned_ns: u64,
    /// When it was sent.
    pub start_ns: u64,
    /// What the protocol needs to judge the reply, such as the key that was asked for.
    pub token: u64,
    /// Whose it is: the user's number in its worker.
    pub user: u32,
    /// Which operation it is: an index into [`Protocol::operations`].
    pub operation: u16,
}

/// What is set on sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketOptions {
    /// Whether what is small goes out at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// `SO_SNDBUF`, bytes; without it the kernel sizes the buffer while data flows.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF`, bytes; without it the kernel sizes the buffer while data flows.
    pub receive_buffer: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions { nodelay: true, send_buffer: None, receive_buffer: None }
    }
}

/// An operation and its weight in the protocol's own mix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperationRow {
    /// Its name in a record.
    pub name: String,
    /// How often it is drawn, against the others' weights.
    pub weight: u64,
    /// Whether its answer comes when there is news, and not when it is asked for: its times say nothing of the service,
    /// and at the end of a load nobody waits for it.
    pub lingers: bool,
}

/// How a greeting stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// Operations may start.
    Ready,
    /// More is to come from the other side.
    Wait,
}

/// What was found after a run.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// Checks of the server's own counts.
    pub checks: Vec<Check>,
    /// Facts about the server.
    pub facts: BTreeMap<String, String>,
}

/// Something spoken over a connection in requests and replies, replies in the order of the requests.
pub(crate) trait Protocol: Sync + Sized {
    /// The state of one connection: parser, encryption, prepared statements.
    type Session: Send;
    /// The state of one user that outlives operations: cookies, captured values. `()` where there is none. There may be
    /// a million of them, so what is big and rare is boxed and made on first use.
    type User: Send;
    /// What is remembered of the server from before a run.
    type Before;
    /// Whether several operations may be in flight on one connection. Conversations cannot; then a `pipeline` above 1
    /// is a mistake.
    const PIPELINES: bool;

    /// The operations, in the order of their numbers.
    fn operations(&self) -> Vec<OperationRow>;

    /// The state of a fresh connection.
    fn session(&self) -> Self::Session;

    /// The state of user number `number` of the whole run.
    fn user(&self, number: u64) -> Self::User;

    /// Where users have the value of this name, if operations give them one.
    fn variable(&self, _name: &str) -> Option<Slot> {
        None
    }

    /// A user's value.
    fn value<'u>(&'u self, _user: &'u Self::User, _variable: Slot) -> ValueRef<'u> {
        ValueRef::Unset
    }

    /// The state of a companion that begins beside a user.
    fn accompany(&self, _user: &Self::User) -> Self::User {
        self.user(0)
    }

    /// What a companion has learnt becomes its user's: values by their places, the user's and the companion's.
    fn tell(&self, _from: &Self::User, _to: &mut Self::User, _values: &[(Slot, Slot)]) {}

    /// A UNIX socket to use instead of the endpoint, if the options name one.
    fn socket(&self) -> Option<&Path> {
        None
    }

    /// What is set on every socket before it connects.
    fn socket_options(&self) -> SocketOptions {
        SocketOptions::default()
    }

    /// A look at a socket of the load: when a connection stands, and at the `ending` at those
    /// that still do.
    fn observe(&self, _socket: &OwnedFd, _ending: bool) {}

    /// Whether each operation gets a connection of its own under every profile; to connect is then part of it.
    fn fresh(&self) -> bool {
        false
    }

    /// A connection stands: appends to `out` what is to be said first.
    fn greet(&self, _session: &mut Self::Session, _out: &mut Vec<u8>) -> Greeting {
        Greeting::Ready
    }

    /// Bytes that come during the greeting. Takes all of them; may append to `out`.
    ///
    /// # Errors
    /// When the greeting has failed; the connection is of no use.
    fn shake(&self, _session: &mut Self::Session, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<Greeting, Failure> {
        Err(Failure::Garbage)
    }

    /// Starts operation number `operation`: appends its first request to `out`. Returns the token that comes back in
    /// the flight.
    fn begin(
        &self,
        session: &mut Self::Session,
        user: &mut Self::User,
        operation: u16,
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> u64;

    /// Takes the next bytes for `flight`, the oldest on its connection. `bytes` is not empty. May append a further
    /// request of the same operation to `out` and return [`Step::More`].
    fn feed(
        &self,
        session: &mut Self::Session,
        user: &mut Self::User,
        flight: &Flight,
        bytes: &[u8],
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> Step;

    /// Bytes while nothing is in flight: notices, tickets.
    ///
    /// # Errors
    /// When they are of no kind that may come unasked; the connection is of no use.
    fn idle(&self, _session: &mut Self::Session, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        Err(Failure::Garbage)
    }

    /// Whether operations may end by being sent; only then [`Protocol::flushed`] is asked.
    fn streams(&self) -> bool {
        false
    }

    /// What operations that end by being sent have still to send, as far as it lies in the protocol's own memory: it
    /// goes out from there, after what was appended, as [`Protocol::poured`] is told.
    fn bulk<'p>(&'p self, _session: &Self::Session) -> &'p [u8] {
        &[]
    }

    /// The kernel has taken so many bytes of [`Protocol::bulk`].
    fn poured(&self, _session: &mut Self::Session, _bytes: usize) {}

    /// Whether the ends of connections are awaited when the load is over: ours is closed for sending, and what still
    /// comes is given to [`Protocol::idle`] until the other end is closed as well. Then both have seen every byte.
    fn parts(&self) -> bool {
        false
    }

    /// The kernel has taken all of what was to be sent: whether that completes `flight`, the oldest on its connection.
    fn flushed(&self, _session: &mut Self::Session, _flight: &Flight) -> Option<Reply> {
        None
    }

    /// The peer closed the connection: whether that completes the reply to `flight`.
    fn closed(&self, _session: &mut Self::Session, _user: &mut Self::User, _flight: &Flight) -> Option<Reply> {
        None
    }

    /// Whether an operation, whose connection has just been closed by the peer, goes on over a new one.
    fn goes_on(&self, _session: &Self::Session) -> bool {
        false
    }

    /// A new connection stands, greeted with the session of the old one, for an operation that goes on: appends its
    /// next request.
    fn resume(&self, _session: &mut Self::Session, _out: &mut Vec<u8>) {}

    /// Sees whether the service answers: one operation, unless the protocol has something better.
    ///
    /// # Errors
    /// When it does not, or wrongly.
    fn ready(&self, link: &mut Link, seed: u64) -> Result<(), Fault> {
        answers_once(self, link, seed)
    }

    /// Writes the data set and checks that it is there.
    ///
    /// # Errors
    /// When it could not be written or is not there.
    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault>;

    /// Reads the server's own counts before a run.
    ///
    /// # Errors
    /// When the server does not tell.
    fn before(&self, plan: &LoadPlan) -> Result<Self::Before, Fault>;

    /// Compares the server's own counts after a run with what the client sent.
    ///
    /// # Errors
    /// When the server does not tell any more.
    fn verify(&self, plan: &LoadPlan, before: &Self::Before, ledger: &Ledger) -> Result<Verified, Fault>;
}

/// A plan's options as the protocol wrote them down.
///
/// # Errors
/// When they are not this protocol's.
pub(crate) fn options_of<T: DeserializeOwned>(plan: &LoadPlan) -> Result<T, Fault> {
    T::deserialize(&plan.options).map_err(|error| {
        Fault::new(format!("the plan's options are not those of protocol '{}': {error}", plan.protocol))
            .remedy("read the workload again with this version of tare")
    })
}

/// Carries out one operation of the mix.
///
/// # Errors
/// When it is not answered, or wrongly.
pub(crate) fn answers_once<P: Protocol>(protocol: &P, link: &mut Link, seed: u64) -> Result<(), Fault> {
    let mut draw = Draw::new(seed, 0);
    let operation = Mix::of(&protocol.operations()).draw(&mut draw) as u16;
    let mut session = link.greet(protocol)?;
    link.operate(protocol, &mut session, &mut protocol.user(0), operation, &mut draw)
}

/// The names of a protocol's operations, for its row.
pub(crate) fn names<P: Protocol>(protocol: &P) -> Vec<String> {
    protocol.operations().into_iter().map(|operation| operation.name).collect()
}

/// Options as a workload's text gives them, or the mistakes in it, for the tests of the protocols.
#[cfg(test)]
fn read_text<T: serde::de::DeserializeOwned>(
    read: fn(&Node, &mut Problems) -> Option<serde_json::Value>,
    text: &str,
) -> Result<T, Vec<String>> {
    let mut problems = Problems::new("workload.yaml", text).with_files(|name| match name {
        "picture.jpg" => Ok(b"\xff\xd8".to_vec()),
        _ => Err(format!("there is no file {name}")),
    });
    let node = tare_core::config::parse(text, &mut problems).unwrap();
    match read(&node, &mut problems) {
        Some(options) => Ok(serde_json::from_value(options).unwrap()),
        None => Err(problems.into_vec().iter().map(ToString::to_string).collect()),
    }
}
