//! A turn of one of several loads, and what a worker does in it.

use super::waves::Amid;

/// A turn of one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Its number, counted over all loads, from 1.
    pub number: u64,
    /// Nothing is started before this moment.
    pub from_ns: u64,
    /// For how long operations are started.
    pub length_ns: u64,
    /// Whether it covers so few response times that those of its first answers count as well.
    pub first_counts: bool,
    /// The load whose turn it is.
    pub(super) load: usize,
}

/// What a worker did in a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worked {
    /// Its first start.
    pub start_ns: u64,
    /// When its last answer came, or the latest end of the turn.
    pub end_ns: u64,
    /// How long operations were in flight after that, summed.
    pub stuck_ns: u64,
    /// Replies that it read.
    pub answers: u64,
    /// Whether an operation was lost.
    pub lost: bool,
    /// Its whole waves inside the turn.
    pub amid: Option<Amid>,
}
