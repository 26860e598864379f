//! Bytes sent and received: counted by each connection for itself, and added up when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All connections that have ended.
#[derive(Debug, Default)]
pub(super) struct Totals {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Totals {
    /// Bytes handed to the kernel, and bytes received from it.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Acquire), self.received.load(Ordering::Acquire))
    }
}

/// The counts of one connection, which shares nothing while it lasts.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Bytes sent for operations.
    pub(super) sent: u64,
    /// Bytes received.
    pub(super) received: u64,
    totals: Arc<Totals>,
}

impl Traffic {
    /// A connection without traffic yet.
    pub(super) fn new(totals: &Arc<Totals>) -> Self {
        Traffic { sent: 0, received: 0, totals: Arc::clone(totals) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        for (total, count) in [(&self.totals.sent, self.sent), (&self.totals.received, self.received)] {
            if count > 0 {
                total.fetch_add(count, Ordering::AcqRel);
            }
        }
    }
}
