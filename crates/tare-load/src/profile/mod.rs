//! Which operation starts when. Everything here is a function of the seed, a number and the requested level: the same
//! plan gives the same starts, whatever carries it out and however late.
//!
//! A run is divided among workers by number: user, arrival or line `i` belongs to worker `i` modulo their number, and
//! what they plan together does not depend on how many there are.

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

/// Random streams of a seed, separated by purpose.
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
    /// The number of a user's companion starts at this bit of the stream's number; no run has that many users.
    pub(crate) const COMPANION_BIT: u32 = 48;
}

/// No user: the operation belongs to the connection that takes it.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A planned start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// When it is to start, CLOCK_MONOTONIC, ns.
    pub planned_ns: u64,
    /// The random choices of the operation's contents.
    pub draw: Draw,
    /// A user's number in its worker, or [`NOBODY`].
    pub user: u32,
    /// Which operation.
    pub operation: u16,
}

/// One worker's share of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// The worker's number.
    pub worker: u64,
    /// How many workers there are.
    pub workers: u64,
}

impl Share {
    /// How many of `all` things belong to this worker.
    pub(crate) fn of(self, all: u64) -> u64 {
        all.saturating_sub(self.worker).div_ceil(self.workers)
    }

    /// The number in the whole run of this worker's thing number `local`.
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
    /// When [`Source::take`] has the next start; `u64::MAX` if there are no more.
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

    /// A user's operation ended at `now_ns`, with a right answer or not.
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

    /// Changes the level from `at_ns` on, which is not in the past.
    pub(crate) fn jump(&mut self, at_ns: u64, level: f64) {
        match self {
            Source::Closed(levels) => levels.jump(at_ns, level),
            Source::Open(schedule) => schedule.jump(at_ns, level),
            Source::Users(crowd) => crowd.jump(at_ns, level),
            Source::Replay(_) => {}
        }
    }
}
