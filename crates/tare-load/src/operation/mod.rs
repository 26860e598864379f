//! What an operation is, what may come of it, and what speaks it: the vocabulary that the engine and protocols share.
//!
//! The engine is generic over [`Protocol`], so that nothing is called through a pointer per operation. Replies are
//! fed in whatever pieces they arrive in and are checked, not kept: memory does not grow with their size.
//!
//! The engine chooses the operation (mix, sequence, matrix or file) and its moments; the protocol says what is sent for
//! it and what counts as its answer. An operation may take several requests and replies: `feed` appends the next
//! request and says [`Step::More`] until the last reply has come.

mod failure;
mod ledger;
mod link;

pub use failure::Failure;
pub(crate) use failure::Failures;
pub use ledger::Ledger;
pub use link::Link;

use crate::draw::{Draw, Mix};
use crate::script::{Slot, ValueRef};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::path::Path;
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadPlan};

/// A whole reply, judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
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
pub enum Step {
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
pub struct Flight {
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
pub struct SocketOptions {
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
pub struct OperationRow {
    /// Its name in a record.
    pub name: String,
    /// How often it is drawn, against the others' weights.
    pub weight: u64,
    /// Whether its answer comes when there is news, and not when it is asked for: its times say nothing of the service,
    /// and at the end of a load nobody waits for it.
    pub lingers: bool,
}

impl OperationRow {
    /// The choice among operations by their own weights.
    pub(crate) fn mix(operations: &[OperationRow]) -> Mix {
        Mix::new(operations.iter().map(|operation| operation.weight))
    }
}

/// How a greeting stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// Operations may start.
    Ready,
    /// More is to come from the other side.
    Wait,
}

/// What was found after a run.
#[derive(Debug, Default)]
pub struct Verified {
    /// Checks of the server's own counts.
    pub checks: Vec<Check>,
    /// Facts about the server.
    pub facts: BTreeMap<String, String>,
}

/// Something spoken over a connection in requests and replies, replies in the order of the requests. A protocol of one
/// request and one reply needs nothing but the methods without a default.
pub trait Protocol: Sync + Sized {
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

/// Carries out one operation of the mix.
///
/// # Errors
/// When it is not answered, or wrongly.
pub fn answers_once<P: Protocol>(protocol: &P, link: &mut Link, seed: u64) -> Result<(), Fault> {
    let mut draw = Draw::new(seed, 0);
    let operation = OperationRow::mix(&protocol.operations()).draw(&mut draw) as u16;
    let mut session = link.greet(protocol)?;
    link.operate(protocol, &mut session, &mut protocol.user(0), operation, &mut draw)
}
