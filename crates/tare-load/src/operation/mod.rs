//! What an operation is, how it may end, and what implements it: the terms that the engine and the protocols share.
//!
//! The engine is generic over [`Protocol`], so that no operation needs a call through a pointer. Replies are fed in
//! whatever pieces they arrive in, and are checked but not kept: memory does not grow with their size.
//!
//! The engine chooses the operation (by mix, sequence, matrix or file) and its time; the protocol decides what is sent
//! for it and what counts as its answer. An operation may take several requests and replies: `feed` appends the next
//! request and returns [`Step::More`] until the last reply has come.

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
    /// The answer to the request.
    Right,
    /// A right answer that says there is nothing: a miss. It counts as a right answer, for readiness too, and is also
    /// counted in [`Ledger::empty`].
    Empty,
    /// Something else. The operation counts as failed; the connection stays open.
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
    /// All bytes were taken and more are needed. They are not passed again: the session keeps what it needs of them
    /// later, such as half a line.
    More,
    /// The reply is complete after `used` bytes.
    Done {
        /// How many of the bytes belong to it. The engine passes the rest to [`Protocol::feed`] for the next operation
        /// in flight, or to [`Protocol::idle`] if there is none.
        used: usize,
        /// The verdict on it.
        reply: Reply,
        /// Whether the peer announced that it closes the connection after it.
        last: bool,
    },
    /// All bytes were taken and the reply is complete, but the operation is not, and the peer closes the connection:
    /// the operation continues on a new one, with [`Protocol::resume`].
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
    /// What the protocol needs to judge the reply, such as the requested key.
    pub token: u64,
    /// The number of its user in the worker.
    pub user: u32,
    /// Which operation it is: an index into [`Protocol::operations`].
    pub operation: u16,
}

/// The options set on sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions {
    /// Whether small packets are sent at once (`TCP_NODELAY`).
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
    /// Whether its answer comes when there is news rather than on request: its times say nothing about the service, and
    /// at the end of a load it is not awaited.
    pub lingers: bool,
}

impl OperationRow {
    /// The choice among operations by their weights.
    pub(crate) fn mix(operations: &[OperationRow]) -> Mix {
        Mix::new(operations.iter().map(|operation| operation.weight))
    }
}

/// The state of a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// Operations may start.
    Ready,
    /// More has to come from the other side.
    Wait,
}

/// The findings after a run.
#[derive(Debug, Default)]
pub struct Verified {
    /// Checks against the server's own counts. One that fails voids the trial unless it says otherwise: see [`Check`].
    pub checks: Vec<Check>,
    /// Facts about the server, such as its version, under names that the protocol chooses. They are part of the record.
    pub facts: BTreeMap<String, String>,
}

/// A protocol of requests and replies over a connection, with the replies in the order of the requests. A protocol of
/// one request and one reply needs only the methods without a default.
///
/// All workers of a load process share one value of this type, so mutable state is kept in the session of a connection
/// or in the user. A plan has one task. For [`LoadTask::Ready`](tare_core::load::LoadTask) the engine calls
/// [`Protocol::ready`], for `Populate` [`Protocol::populate`], and for `Run`, in this order:
/// 1. for each connection [`Protocol::session`], [`Protocol::greet`] and, while that waits, [`Protocol::shake`];
/// 2. once they are established, [`Protocol::before`];
/// 3. for each operation [`Protocol::begin`], then [`Protocol::feed`] until its reply is complete. An operation that
///    times out ends its connection; a new one is made, as in 1;
/// 4. once the last answers have come, or their time is up, and all connections are closed, [`Protocol::verify`],
///    unless the load was told to end early.
pub trait Protocol: Sync + Sized {
    /// The state of one connection: parser, encryption, prepared statements.
    type Session: Send;
    /// The state of one user that outlives operations: cookies, captured values. `()` if there is none. There may be a
    /// million of them, so anything large and rarely needed is boxed and made on first use.
    type User: Send;
    /// What is kept of the server's state before a run.
    type Before;
    /// Whether several operations may be in flight on one connection: the engine then begins further ones while earlier
    /// replies are awaited. Conversations cannot do this; a `pipeline` above 1 is then a mistake.
    const PIPELINES: bool;

    /// The operations, in the order of their numbers, from 0. Their names are those of
    /// [`LoadProtocol::operations`](crate::LoadProtocol::operations).
    fn operations(&self) -> Vec<OperationRow>;

    /// The state of a fresh connection.
    fn session(&self) -> Self::Session;

    /// The state of user number `number` of the whole run.
    fn user(&self, number: u64) -> Self::User;

    /// The slot of the variable with this name, if operations set it for users. None by default.
    fn variable(&self, _name: &str) -> Option<Slot> {
        None
    }

    /// A user's value of a variable. Unset by default.
    fn value<'u>(&'u self, _user: &'u Self::User, _variable: Slot) -> ValueRef<'u> {
        ValueRef::Unset
    }

    /// The state of a companion that begins beside a user. By default, that of a new user.
    fn accompany(&self, _user: &Self::User) -> Self::User {
        self.user(0)
    }

    /// Copies what a companion has learnt to its user: each pair of `values` is the user's slot and the companion's.
    /// Does nothing by default.
    fn tell(&self, _from: &Self::User, _to: &mut Self::User, _values: &[(Slot, Slot)]) {}

    /// A UNIX socket to use instead of the endpoint, if the options name one. None by default.
    fn socket(&self) -> Option<&Path> {
        None
    }

    /// The options set on every socket before it connects. By default `TCP_NODELAY`, and buffers sized by the kernel.
    fn socket_options(&self) -> SocketOptions {
        SocketOptions::default()
    }

    /// Inspects a socket of the load: when its connection is established and, if it still is then, at the end of the
    /// load (`ending`). Does nothing by default.
    fn observe(&self, _socket: &OwnedFd, _ending: bool) {}

    /// Whether each operation gets a connection of its own under every profile; connecting is then part of it. `false`
    /// by default.
    fn fresh(&self) -> bool {
        false
    }

    /// A connection is established: appends the opening message to `out`. By default there is none, and operations may
    /// start.
    fn greet(&self, _session: &mut Self::Session, _out: &mut Vec<u8>) -> Greeting {
        Greeting::Ready
    }

    /// Takes bytes that come during the greeting, all of them; may append to `out`.
    ///
    /// # Errors
    /// When the greeting has failed; the connection is unusable. By default always.
    fn shake(&self, _session: &mut Self::Session, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<Greeting, Failure> {
        Err(Failure::Garbage)
    }

    /// Starts operation number `operation`: appends its first request to `out`, which may already contain others.
    /// Returns the token that comes back in the flight. Random choices, such as of a key, are made with `draw`, so that
    /// the plan's seed determines them. With [`Protocol::PIPELINES`] the session may be in the middle of an earlier
    /// reply.
    fn begin(
        &self,
        session: &mut Self::Session,
        user: &mut Self::User,
        operation: u16,
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> u64;

    /// Takes the next bytes for `flight`, the oldest on its connection. `bytes` is not empty, may begin and end
    /// anywhere in a reply, and may include later replies. May append a further request of the same operation to `out`
    /// and return [`Step::More`].
    fn feed(
        &self,
        session: &mut Self::Session,
        user: &mut Self::User,
        flight: &Flight,
        bytes: &[u8],
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> Step;

    /// Takes bytes that come while nothing is in flight: notices, tickets.
    ///
    /// # Errors
    /// When they are of no kind that may come unasked; the connection is unusable. By default always.
    fn idle(&self, _session: &mut Self::Session, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        Err(Failure::Garbage)
    }

    /// Whether operations may be completed by being sent; only then is [`Protocol::flushed`] called. `false` by
    /// default.
    fn streams(&self) -> bool {
        false
    }

    /// What operations completed by being sent still have to send, if it is in the protocol's own memory: it is sent
    /// from there, after what was appended, and [`Protocol::poured`] reports the progress. Nothing by default.
    fn bulk<'p>(&'p self, _session: &Self::Session) -> &'p [u8] {
        &[]
    }

    /// The kernel has accepted this many bytes of [`Protocol::bulk`]. Does nothing by default.
    fn poured(&self, _session: &mut Self::Session, _bytes: usize) {}

    /// Whether to wait for the ends of connections when the load is over: our side is closed for sending, and what
    /// still comes is passed to [`Protocol::idle`] until the other side is closed as well. Then both sides have seen
    /// every byte. `false` by default.
    fn parts(&self) -> bool {
        false
    }

    /// The kernel has accepted everything that was to be sent: returns the result if that completes `flight`, the
    /// oldest on its connection. By default it does not.
    fn flushed(&self, _session: &mut Self::Session, _flight: &Flight) -> Option<Reply> {
        None
    }

    /// The peer closed the connection: returns the result if that completes the reply to `flight`. By default it does
    /// not.
    fn closed(&self, _session: &mut Self::Session, _user: &mut Self::User, _flight: &Flight) -> Option<Reply> {
        None
    }

    /// Whether an operation continues on a new connection after the peer has just closed the old one. `false` by
    /// default.
    fn goes_on(&self, _session: &Self::Session) -> bool {
        false
    }

    /// A new connection is established, greeted with the session of the old one, for an operation that continues:
    /// appends its next request. Does nothing by default.
    fn resume(&self, _session: &mut Self::Session, _out: &mut Vec<u8>) {}

    /// Checks whether the service answers. By default [`answers_once`]: one operation of the mix, before the data set
    /// exists. A protocol whose operations need the data, or leave traces that a check would find, asks something else.
    /// It has at most a second; the runner repeats it until the service is ready or its time is up.
    ///
    /// # Errors
    /// When it does not answer, or answers wrongly.
    fn ready(&self, link: &mut Link, seed: u64) -> Result<(), Fault> {
        answers_once(self, link, seed)
    }

    /// Writes the data set and checks that it is there, over a [`Link`] of its own. With `spread: true` the plan names
    /// several servers, `endpoint` and `also`: if these do not share their data, it writes to each.
    ///
    /// # Errors
    /// When it could not be written or is not there. Only this fails a trial: the returned checks are not recorded.
    fn populate(&self, plan: &LoadPlan) -> Result<Verified, Fault>;

    /// Reads the server's own counts before a run, when the connections are established and no operation has begun.
    /// Without counts, [`Protocol::Before`] is `()`.
    ///
    /// # Errors
    /// When the server does not report them; the trial fails.
    fn before(&self, plan: &LoadPlan) -> Result<Self::Before, Fault>;

    /// Compares the server's own counts after a run with what the client sent. Of each operation, the server may have
    /// carried out as few as were answered and as many as were sent ([`Ledger`]). The engine adds checks of its own,
    /// such as that each request was answered or counted as failed.
    ///
    /// # Errors
    /// When the server no longer reports them. This becomes a failed check that voids nothing.
    fn verify(&self, plan: &LoadPlan, before: &Self::Before, ledger: &Ledger) -> Result<Verified, Fault>;
}

/// Greets over `link` and carries out one operation of the mix, drawn by `seed`. A miss ([`Reply::Empty`]) is an
/// answer.
///
/// # Errors
/// When it is not answered, or answered wrongly.
pub fn answers_once<P: Protocol>(protocol: &P, link: &mut Link, seed: u64) -> Result<(), Fault> {
    let mut draw = Draw::new(seed, 0);
    let operation = OperationRow::mix(&protocol.operations()).draw(&mut draw) as u16;
    let mut session = link.greet(protocol)?;
    link.operate(protocol, &mut session, &mut protocol.user(0), operation, &mut draw)
}
