//! Which operation starts when. Everything here is a function of the seed, a number and the level that was asked for:
//! the same plan gives the same starts, whoever carries it out and however late.
//!
//! A run is shared out over workers by number: user, arrival or line `i` belongs to worker `i` modulo their number, and
//! what all of them plan together does not depend on how many they are.

mod arrivals;
mod behaviour;
mod companions;
mod crowd;
mod level;
mod pause;
mod replay;
mod wheel;

pub(crate) use arrivals::Schedule;
pub(crate) use behaviour::{Path, Spoken};
pub(crate) use companions::{Kind, places_beside};
pub(crate) use crowd::{Crowd, Ways};
pub(crate) use level::Levels;
#[cfg(any(test, fuzzing))]
pub(crate) use replay::chew as chew_replay;
pub(crate) use replay::{Line, Replay, read as read_replay};

use crate::draw::Draw;
use crate::script::{Slot, ValueRef};

/// Streams of random numbers of a seed, kept apart by what they are for.
pub(crate) mod stream {
    /// Gaps between arrivals.
    pub(crate) const GAPS: u64 = 0x6761_7073;
    /// Operations and contents of arrivals.
    pub(crate) const ARRIVALS: u64 = 0x6172_7276;
    /// Paths of users.
    pub(crate) const PATHS: u64 = 0x7061_7468;
    /// Pauses of users.
    pub(crate) const PAUSES: u64 = 0x7061_7573;
    /// Where in a pause a user begins.
    pub(crate) const PHASES: u64 = 0x7068_6173;
    /// From this bit on stands which companion of a user draws; no run has as many users.
    pub(crate) const COMPANION_BIT: u32 = 48;
}

/// No user: the operation is whoever's connection takes it.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A planned start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// When, CLOCK_MONOTONIC, ns.
    pub planned_ns: u64,
    /// The random choices of the operation's contents.
    pub draw: Draw,
    /// Whose: a user's number in its worker, or [`NOBODY`].
    pub user: u32,
    /// Which operation.
    pub operation: u16,
}

/// Which share of a run is one worker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// The worker's number.
    pub worker: u64,
    /// How many workers there are.
    pub workers: u64,
}

impl Share {
    /// How many of `all` things are this worker's.
    pub(crate) fn of(self, all: u64) -> u64 {
        all.saturating_sub(self.worker).div_ceil(self.workers)
    }

    /// The number in the whole run of the worker's thing number `local`.
    pub(crate) fn global(self, local: u64) -> u64 {
        self.worker + local * self.workers
    }
}

/// Where one worker's starts come from.
pub(crate) enum Source {
    /// From answers: as many connections as the level says are kept busy.
    Closed(Levels),
    /// From a rate.
    Open(Schedule),
    /// From users.
    Users(Box<Crowd>),
    /// From a file.
    Replay(Replay),
}

impl Source {
    /// When [`Source::take`] has something next; `u64::MAX` when nothing is to come.
    #[inline]
    pub(crate) fn next_ns(&mut self) -> u64 {
        match self {
            Source::Closed(_) => u64::MAX,
            Source::Open(schedule) => schedule.next_ns(),
            Source::Users(crowd) => crowd.next_ns(),
            Source::Replay(replay) => replay.next_ns(),
        }
    }

    /// The next start that is due at `now_ns`. `value` gives a user's values.
    #[inline]
    pub(crate) fn take<'v>(&mut self, now_ns: u64, value: impl Fn(u32, Slot) -> ValueRef<'v>) -> Option<Start> {
        match self {
            Source::Closed(_) => None,
            Source::Open(schedule) => schedule.take(now_ns),
            Source::Users(crowd) => crowd.take(now_ns, value),
            Source::Replay(replay) => replay.take(now_ns),
        }
    }

    /// A user's operation came to its end at `now_ns`, by a right answer or not.
    #[inline]
    pub(crate) fn done(&mut self, user: u32, now_ns: u64, right: bool) {
        if let Source::Users(crowd) = self {
            crowd.done(user, now_ns, right);
        }
    }

    /// See [`Crowd::has_ended`].
    pub(crate) fn has_ended(&self, user: u32) -> bool {
        matches!(self, Source::Users(crowd) if crowd.has_ended(user))
    }

    /// How many kinds of companions users have.
    #[inline]
    pub(crate) fn kinds(&self) -> usize {
        match self {
            Source::Users(crowd) => crowd.kinds(),
            _ => 0,
        }
    }

    /// See [`Crowd::right`].
    #[inline]
    pub(crate) fn right(&mut self, user: u32, operation: u16, kind: usize, now_ns: u64) -> Option<u32> {
        match self {
            Source::Users(crowd) => crowd.right(user, operation, kind, now_ns),
            _ => None,
        }
    }

    /// See [`Crowd::told_by`].
    #[inline]
    pub(crate) fn told_by(&self, user: u32) -> Option<(u32, &[(Slot, Slot)])> {
        match self {
            Source::Users(crowd) => crowd.told_by(user),
            _ => None,
        }
    }

    /// From `at_ns` on, which is not in the past, the level is another one.
    pub(crate) fn jump(&mut self, at_ns: u64, level: f64) {
        match self {
            Source::Closed(levels) => levels.jump(at_ns, level),
            Source::Open(schedule) => schedule.jump(at_ns, level),
            Source::Users(crowd) => crowd.jump(at_ns, level),
            Source::Replay(_) => {}
        }
    }
}
