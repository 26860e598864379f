//! What a peer counts, and the text in which it reports the counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was served since the peer began. Connections that only ask for counts are not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    /// Connections that have stated their role.
    pub connections: u64,
    /// Those of them that are still open.
    pub open: u64,
    /// Bytes received, without the first line.
    pub received: u64,
    /// Bytes that the kernel has accepted for sending.
    pub sent: u64,
    /// Requests: bytes to echo, and `once` connections that were answered.
    pub requests: u64,
}

impl Counts {
    /// One line per number; [`Counts::parse`] reads it.
    pub(crate) fn text(&self) -> String {
        let Counts { connections, open, received, sent, requests } = self;
        format!("connections {connections}\nopen {open}\nreceived {received}\nsent {sent}\nrequests {requests}\n")
    }

    /// Parses what [`Counts::text`] wrote; none if any number is missing.
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

/// What one thread has counted, in cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters {
    // Connections that the thread was given; the only number written by the accepting thread.
    pub(super) given: AtomicU64,
    pub(super) opened: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) requests: AtomicU64,
}

impl Counters {
    /// The sum over all threads.
    pub(super) fn sum(all: &[Counters]) -> Counts {
        let sum = |of: fn(&Counters) -> &AtomicU64| all.iter().map(|one| of(one).load(Ordering::Acquire)).sum::<u64>();
        // `closed` is read first: every closed connection was opened before, so `open` is never too low.
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

/// Adds to a counter that only one thread writes.
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
