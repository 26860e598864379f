//! What is spoken to the service. A protocol is a folder here and a row of [`PROTOCOLS`].
//!
//! The engine is generic over [`Protocol`], so that nothing is called through a pointer per operation. Replies are
//! fed in whatever pieces they arrive in and are checked, not kept: memory does not grow with their size.

mod http;
mod mysql;
mod null;
mod postgres;
mod redis;
mod sql;
mod tcp;

use crate::engine::Ledger;
use crate::link::Link;
use rand_core::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadLine, LoadPlan, LoadSummary};

/// Replies longer than this end the connection: 64 MiB.
pub(crate) const REPLY_MAX: u64 = 64 << 20;

/// Where lines of a running task go. An error means that nobody listens any more.
pub(crate) type Emit<'a> = dyn FnMut(LoadLine) -> Result<(), Fault> + 'a;

/// A row of the table of protocols.
pub struct ProtocolRow {
    /// The protocol's name in workload files.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Checks a user's options and writes them down with every default filled in. `None` adds problems.
    pub options: fn(&Node, &mut Problems) -> Option<serde_json::Value>,
    /// Carries out a plan.
    pub(crate) drive: fn(&LoadPlan, &mut Emit<'_>) -> Result<LoadSummary, Fault>,
}

/// Every protocol.
pub const PROTOCOLS: &[ProtocolRow] = &[redis::ROW, http::ROW, tcp::ROW, null::ROW];

/// Why an operation was not answered correctly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Failure {
    /// The service said that it could not.
    ErrorReply,
    /// A well-formed reply that is not the answer to what was asked.
    WrongReply,
    /// Not the protocol at all.
    Garbage,
    /// Longer than [`REPLY_MAX`].
    TooLarge,
    /// Nobody listens.
    Refused,
    /// The connection was reset.
    Reset,
    /// The connection was closed in an orderly way, without an answer.
    Closed,
    /// No answer in time.
    TimedOut,
    /// No way there.
    Unreachable,
    /// Every local port is in use.
    NoPort,
    /// Anything else that went wrong with a connection.
    Connection,
}

/// How many kinds of [`Failure`] there are.
pub(crate) const FAILURES: usize = 11;

impl Failure {
    /// Every kind, in the order of its number.
    pub(crate) const ALL: [Failure; FAILURES] = [
        Failure::ErrorReply,
        Failure::WrongReply,
        Failure::Garbage,
        Failure::TooLarge,
        Failure::Refused,
        Failure::Reset,
        Failure::Closed,
        Failure::TimedOut,
        Failure::Unreachable,
        Failure::NoPort,
        Failure::Connection,
    ];

    /// Its name in a record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Failure::ErrorReply => "error reply",
            Failure::WrongReply => "wrong reply",
            Failure::Garbage => "garbage reply",
            Failure::TooLarge => "reply too large",
            Failure::Refused => "connection refused",
            Failure::Reset => "connection reset",
            Failure::Closed => "closed by server",
            Failure::TimedOut => "timed out",
            Failure::Unreachable => "host unreachable",
            Failure::NoPort => "no free local port",
            Failure::Connection => "connection failed",
        }
    }
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
    /// This cannot become a reply; the connection is of no use any more.
    Broken(Failure),
}

/// An operation that was sent and not answered yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flight {
    /// When it was sent, CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// What the protocol needs to judge the reply, such as the key that was asked for.
    pub token: u64,
    /// Which operation it is: an index into [`Protocol::operations`].
    pub operation: u16,
}

/// What was found after a run.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// Checks of the server's own counts.
    pub checks: Vec<Check>,
    /// Facts about the server.
    pub facts: BTreeMap<String, String>,
}

/// Something spoken over TCP in requests and replies, replies in the order of the requests.
pub(crate) trait Protocol: Sync + Sized {
    /// How much of a reply one connection has seen.
    type Stream: Send;
    /// What is remembered of the server from before a run.
    type Before;

    /// The names of the operations, in the order of their numbers.
    fn operations(&self) -> Vec<String>;

    /// Draws the next operation and appends its request to `out`. Its start is not set yet.
    fn request(&self, draw: &mut Draw, out: &mut Vec<u8>) -> Flight;

    /// The state of a fresh connection.
    fn stream(&self) -> Self::Stream;

    /// Takes the next bytes of the reply to `flight`. `bytes` is not empty.
    fn feed(&self, stream: &mut Self::Stream, flight: &Flight, bytes: &[u8]) -> Step;

    /// The peer closed the connection: whether that completes the reply to `flight`.
    fn closed(&self, _stream: &mut Self::Stream, _flight: &Flight) -> Option<Reply> {
        None
    }

    /// Sees whether the service answers: one operation, unless the protocol has something better.
    ///
    /// # Errors
    /// When it does not, or wrongly.
    fn ready(&self, link: &mut Link, seed: u64) -> Result<(), Fault> {
        let mut request = Vec::new();
        let flight = self.request(&mut Draw::streams(seed, 1)[0], &mut request);
        link.send(&request)?;
        link.reply(self, &flight)
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

/// Random choices of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Draw(Xoshiro256PlusPlus);

impl Draw {
    /// As many generators as there are connections, none overlapping another, all from one seed.
    pub(crate) fn streams(seed: u64, count: usize) -> Vec<Draw> {
        let mut next: Xoshiro256PlusPlus = rand_core::SeedableRng::seed_from_u64(seed);
        let stream = |_| {
            let stream = Draw(next.clone());
            next.jump();
            stream
        };
        (0..count).map(stream).collect()
    }

    /// A number below `bound`, which is not 0. The bias is below bound / 2^64.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// Choices by weight.
#[derive(Debug, Clone)]
pub(crate) struct Mix(Vec<u64>);

impl Mix {
    /// One choice for each weight; their sum is above 0.
    pub(crate) fn new(weights: impl IntoIterator<Item = u64>) -> Self {
        let sums = weights.into_iter().scan(0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        let mix = Mix(sums.collect());
        assert!(mix.0.last().is_some_and(|sum| *sum > 0), "a mix of nothing");
        mix
    }

    /// The number of a choice.
    #[inline]
    pub(crate) fn draw(&self, draw: &mut Draw) -> usize {
        if self.0.len() == 1 {
            return 0;
        }
        let at = draw.below(self.0[self.0.len() - 1]);
        self.0.iter().take_while(|sum| **sum <= at).count()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_follow_their_weights() {
        let mix = Mix::new([3, 0, 1]);
        let mut draw = Draw::streams(7, 1).remove(0);
        let mut counts = [0; 3];
        (0..40_000).for_each(|_| counts[mix.draw(&mut draw)] += 1);
        assert_eq!(counts[1], 0);
        assert!((28_000..32_000).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn a_seed_decides_every_choice_and_streams_differ() {
        let drawn = |seed| Draw::streams(seed, 3).iter_mut().map(|d| d.below(1 << 40)).collect::<Vec<_>>();
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let one = drawn(1);
        assert!(one[0] != one[1] && one[1] != one[2]);
    }

    #[test]
    fn failures_are_numbered_in_order_and_named_apart() {
        let names: std::collections::BTreeSet<_> = Failure::ALL.iter().map(|failure| failure.name()).collect();
        assert_eq!(names.len(), FAILURES);
        assert!(Failure::ALL.iter().enumerate().all(|(at, failure)| *failure as usize == at));
    }
}
