//! A turn of one of the loads that take them, and what a worker does in it.

use super::waves::Amid;

/// A turn of one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Counted over all loads, from 1.
    pub number: u64,
    /// Nothing is started before this moment.
    pub from_ns: u64,
    /// How long operations are started.
    pub length_ns: u64,
    /// Whether it holds so few response times that those of its first answers count as well.
    pub first_counts: bool,
    /// Whose it is.
    pub(super) load: usize,
}

/// What a worker did in a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worked {
    /// Its first start.
    pub start_ns: u64,
    /// Its last answer, or the latest that the turn's end may be.
    pub end_ns: u64,
    /// How long operations were in flight after that, all added up.
    pub stuck_ns: u64,
    /// Replies that it read.
    pub answers: u64,
    /// Whether an operation failed.
    pub lost: bool,
    /// What its whole waves amid the turn took.
    pub amid: Option<Amid>,
}
