//! What a peer counts, and the text in which it tells it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was served since the peer began. Connections that only ask for counts are no part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Connections that have said what they want.
    pub connections: u64,
    /// Those of them that are still open.
    pub open: u64,
    /// Bytes received, without the first line.
    pub received: u64,
    /// Bytes that the kernel has taken to be sent.
    pub sent: u64,
    /// Bytes that were requests: received to be answered.
    pub requests: u64,
}

impl Counts {
    /// A line for each number; [`Counts::parse`] reads it.
    pub(crate) fn text(&self) -> String {
        let Counts { connections, open, received, sent, requests } = self;
        format!("connections {connections}\nopen {open}\nreceived {received}\nsent {sent}\nrequests {requests}\n")
    }

    /// What [`Counts::text`] wrote; none when anything of it is missing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |name: &str| {
            let mut words = text.lines().filter_map(|line| line.split_once(' '));
            words.find_map(|(word, number)| (word == name).then(|| number.parse().ok()).flatten())
        };
        Some(Counts {
            connections: number("connections")?,
            open: number("open")?,
            received: number("received")?,
            sent: number("sent")?,
            requests: number("requests")?,
        })
    }
}

/// What one thread has counted. A cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters {
    // Connections that the thread was given; the only number that the thread that accepts writes.
    pub(super) given: AtomicU64,
    pub(super) opened: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) requests: AtomicU64,
}

impl Counters {
    /// All threads together.
    pub(super) fn sum(all: &[Counters]) -> Counts {
        let sum = |of: fn(&Counters) -> &AtomicU64| all.iter().map(|one| of(one).load(Ordering::Acquire)).sum::<u64>();
        // Who has closed was open before: read in this order, fewer are never open than are.
        let closed = sum(|one| &one.closed);
        let connections = sum(|one| &one.opened);
        Counts {
            connections,
            open: connections.saturating_sub(closed),
            received: sum(|one| &one.received),
            sent: sum(|one| &one.sent),
            requests: sum(|one| &one.requests),
        }
    }
}

/// Adds to what only one thread writes.
pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.store(counter.load(Ordering::Relaxed) + count as u64, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_being_told() {
        let counts = Counts { connections: 3, open: 1, received: 70_000_000_000, sent: 5, requests: 2 };
        assert_eq!(Counts::parse(&counts.text()), Some(counts));
        assert_eq!(Counts::parse("connections 3\nopen 1\nreceived 7\nsent 5\n"), None);
    }

    #[test]
    fn threads_are_added_up() {
        let all = [Counters::default(), Counters::default()];
        for one in &all {
            add(&one.opened, 2);
            add(&one.received, 10);
        }
        add(&all[1].closed, 1);
        let sum = Counters::sum(&all);
        assert_eq!((sum.connections, sum.open, sum.received, sum.sent), (4, 3, 20, 0));
    }
}
