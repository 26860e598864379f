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
    /// A right answer that says that there is nothing: a miss. It counts as a right answer, also for readiness, and
    /// is counted in [`Ledger::empty`] as well.
    Empty,
    /// Something else. The operation counts as failed; the connection stays.
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
    /// All bytes were taken and more are needed. They do not come again: what is needed of them later, such as half a
    /// line, the session keeps.
    More,
    /// The reply is complete after `used` bytes.
    Done {
        /// How many of the bytes belonged to it. The engine hands the rest to [`Protocol::feed`] for the next operation
        /// in flight, or to [`Protocol::idle`] if there is none.
        used: usize,
        /// What it was.
        reply: Reply,
        /// Whether the peer announced to close the connection after it.
        last: bool,
    },
    /// All bytes were taken and the reply is complete, but the operation is not, and the peer ends the connection: it
    /// goes on over a new one, with [`Protocol::resume`].
    Reopen,
    /// This cannot become a reply. The engine closes the connection, counts all operations in flight on it as failed,
    /// and makes a new connection with a new session.
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
    /// How often it is drawn, relative to the others' weights. 0 keeps it out of the mix; a behaviour of users or a
    /// recording may still name it. At least one operation must have a weight above 0.
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
    /// Checks of the server's own counts. One that fails voids the trial, unless it says otherwise: see [`Check`].
    pub checks: Vec<Check>,
    /// Facts about the server, such as its version, by names that the protocol chooses. They stand in the record.
    pub facts: BTreeMap<String, String>,
}

/// Something spoken over a connection in requests and replies, replies in the order of the requests. A protocol of one
/// request and one reply needs nothing but the methods without a default.
///
/// All workers of a load process share one value of it, so what changes is kept in the session of a connection or in
/// the user. A plan has one task. For [`LoadTask::Ready`](tare_core::load::LoadTask) the engine calls
/// [`Protocol::ready`], for `Populate` [`Protocol::populate`], and for `Run`, in this order:
/// 1. for each connection [`Protocol::session`], [`Protocol::greet`] and, while that waits, [`Protocol::shake`];
/// 2. once they stand, [`Protocol::before`];
/// 3. for each operation [`Protocol::begin`], then [`Protocol::feed`] until its reply is complete. An operation that
///    times out ends its connection; a new one is made, as in 1;
/// 4. once the last answers have come, or their time is over, and all connections are closed, [`Protocol::verify`].
pub trait Protocol: Sync + Sized {
    /// The state of one connection: parser, encryption, prepared statements.
    type Session: Send;
    /// The state of one user that outlives operations: cookies, captured values. `()` where there is none. There may be
    /// a million of them, so what is big and rare is boxed and made on first use.
    type User: Send;
    /// What is remembered of the server from before a run.
    type Before;
    /// Whether several operations may be in flight on one connection: the engine then begins further ones while earlier
    /// replies are awaited. Conversations cannot; then a `pipeline` above 1 is a mistake.
    const PIPELINES: bool;

    /// The operations, in the order of their numbers, from 0. Their names are those of
    /// [`LoadProtocol::operations`](crate::LoadProtocol::operations).
    fn operations(&self) -> Vec<OperationRow>;

    /// The state of a fresh connection.
    fn session(&self) -> Self::Session;

    /// The state of user number `number` of the whole run.
    fn user(&self, number: u64) -> Self::User;

    /// Where users have the value of this name, if operations give them one. None by default.
    fn variable(&self, _name: &str) -> Option<Slot> {
        None
    }

    /// A user's value. Never set by default.
    fn value<'u>(&'u self, _user: &'u Self::User, _variable: Slot) -> ValueRef<'u> {
        ValueRef::Unset
    }

    /// The state of a companion that begins beside a user. By default that of a new user.
    fn accompany(&self, _user: &Self::User) -> Self::User {
        self.user(0)
    }

    /// What a companion has learnt becomes its user's: values by their places, the user's and the companion's. Does
    /// nothing by default.
    fn tell(&self, _from: &Self::User, _to: &mut Self::User, _values: &[(Slot, Slot)]) {}

    /// A UNIX socket to use instead of the endpoint, if the options name one. None by default.
    fn socket(&self) -> Option<&Path> {
        None
    }

    /// What is set on every socket before it connects. By default `TCP_NODELAY`, and buffers that the kernel sizes.
    fn socket_options(&self) -> SocketOptions {
        SocketOptions::default()
    }

    /// A look at a socket of the load: when a connection stands, and at the `ending` at those that still do. Does
    /// nothing by default.
    fn observe(&self, _socket: &OwnedFd, _ending: bool) {}

    /// Whether each operation gets a connection of its own under every profile; to connect is then part of it. `false`
    /// by default.
    fn fresh(&self) -> bool {
        false
    }

    /// A connection stands: appends to `out` what is to be said first. By default nothing, and operations may start.
    fn greet(&self, _session: &mut Self::Session, _out: &mut Vec<u8>) -> Greeting {
        Greeting::Ready
    }

    /// Bytes that come during the greeting. Takes all of them; may append to `out`.
    ///
    /// # Errors
    /// When the greeting has failed; the connection is of no use. Always by default.
    fn shake(&self, _session: &mut Self::Session, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<Greeting, Failure> {
        Err(Failure::Garbage)
    }

    /// Starts operation number `operation`: appends its first request to `out`, which may already hold others. Returns
    /// the token that comes back in the flight. Random choices, such as of a key, are taken from `draw`, so that the
    /// plan's seed decides them. Under [`Protocol::PIPELINES`] the session may be in the middle of an earlier reply.
    fn begin(
        &self,
        session: &mut Self::Session,
        user: &mut Self::User,
        operation: u16,
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> u64;

    /// Takes the next bytes for `flight`, the oldest on its connection. `bytes` is not empty, begins and ends anywhere
    /// in a reply, and may hold later replies too. May append a further request of the same operation to `out` and
    /// return [`Step::More`].
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
    /// When they are of no kind that may come unasked; the connection is of no use. Always by default.
    fn idle(&self, _session: &mut Self::Session, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        Err(Failure::Garbage)
    }

    /// Whether operations may end by being sent; only then [`Protocol::flushed`] is asked. `false` by default.
    fn streams(&self) -> bool {
        false
    }

    /// What operations that end by being sent have still to send, as far as it lies in the protocol's own memory: it
    /// goes out from there, after what was appended, as [`Protocol::poured`] is told. Nothing by default.
    fn bulk<'p>(&'p self, _session: &Self::Session) -> &'p [u8] {
        &[]
    }

    /// The kernel has taken so many bytes of [`Protocol::bulk`]. Does nothing by default.
    fn poured(&self, _session: &mut Self::Session, _bytes: usize) {}

    /// Whether the ends of connections are awaited when the load is over: ours is closed for sending, and what still
    /// comes is given to [`Protocol::idle`] until the other end is closed as well. Then both have seen every byte.
    /// `false` by default.
    fn parts(&self) -> bool {
        false
    }

    /// The kernel has taken all of what was to be sent: whether that completes `flight`, the oldest on its connection.
    /// By default it does not.
    fn flushed(&self, _session: &mut Self::Session, _flight: &Flight) -> Option<Reply> {
        None
    }

    /// The peer closed the connection: whether that completes the reply to `flight`. By default it does not.
    fn closed(&self, _session: &mut Self::Session, _user: &mut Self::User, _flight: &Flight) -> Option<Reply> {
        None
    }

    /// Whether an operation, whose connection has just been closed by the peer, goes on over a new one. `false` by
    /// default.
    fn goes_on(&self, _session: &Self::Session) -> bool {
        false
    }

    /// A new connection stands, greeted with the session of the old one, for an operation that goes on: appends its
    /// next request. Does nothing by default.
    fn resume(&self, _session: &mut Self::Session, _out: &mut Vec<u8>) {}

    /// Sees whether the service answers. By default [`answers_once`]: one operation of the mix, before the data set is
    /// there. A protocol whose operations need the data, or leave traces that a check would find, asks something else.
    /// It has a second at most; the runner repeats it until the service is ready or its time is over.
    ///
    /// # Errors
    /// When it does not, or wrongly.
    fn ready(&self, link: &mut Link, seed: u64) -> Result<(), Fault> {
        answers_once(self, link, seed)
    }

    /// Writes the data set and checks that it is there, over a [`Link`] of its own. Under `spread: true` the plan names
    /// several servers, `endpoint` and `also`: where these do not share their data, it writes to each.
    ///
    /// # Errors
    /// When it could not be written or is not there. Only this fails a trial: what it returns is kept in no record.
    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault>;

    /// Reads the server's own counts before a run, when the connections stand and no operation has begun. Without
    /// counts, [`Protocol::Before`] is `()`.
    ///
    /// # Errors
    /// When the server does not tell; the trial fails.
    fn before(&self, plan: &LoadPlan) -> Result<Self::Before, Fault>;

    /// Compares the server's own counts after a run with what the client sent. Of each operation the server may have
    /// carried out as few as were answered and as many as were sent ([`Ledger`]). The engine adds checks of its own,
    /// such as that each request was answered or counted as failed.
    ///
    /// # Errors
    /// When the server does not tell any more. This becomes a failed check that voids nothing.
    fn verify(&self, plan: &LoadPlan, before: &Self::Before, ledger: &Ledger) -> Result<Verified, Fault>;
}

/// Greets over `link` and carries out one operation of the mix, which `seed` draws. A miss ([`Reply::Empty`]) is an
/// answer.
///
/// # Errors
/// When it is not answered, or wrongly.
pub fn answers_once<P: Protocol>(protocol: &P, link: &mut Link, seed: u64) -> Result<(), Fault> {
    let mut draw = Draw::new(seed, 0);
    let operation = OperationRow::mix(&protocol.operations()).draw(&mut draw) as u16;
    let mut session = link.greet(protocol)?;
    link.operate(protocol, &mut session, &mut protocol.user(0), operation, &mut draw)
}
