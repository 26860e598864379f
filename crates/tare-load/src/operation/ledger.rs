//! The outcome of all operations of a run, as the client counts them.

use super::Failure;

/// What was sent and answered over a whole run, including settling and draining, to be compared with the server's own
/// counts. The lists have an item for each operation, in the order of
/// [`Protocol::operations`](super::Protocol::operations). Readiness checks and the data set are not included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// Operations begun and sent, each once, however many requests it takes.
    pub sent: Vec<u64>,
    /// Operations answered, rightly or not.
    pub answered: Vec<u64>,
    /// Operations that were not answered and count as failed, including those never sent.
    pub lost: Vec<u64>,
    /// How many of the answers said that there is nothing ([`Reply::Empty`](super::Reply)).
    pub empty: Vec<u64>,
    /// The longest time in which a worker wanted a connection and had none, ns, and why connecting failed.
    pub away: Option<(u64, Failure)>,
}

impl Ledger {
    /// An empty ledger.
    pub(crate) fn new(operations: usize) -> Self {
        let none = || vec![0; operations];
        Ledger { sent: none(), answered: none(), lost: none(), empty: none(), away: None }
    }

    /// Adds another worker's counts.
    pub(crate) fn merge(&mut self, other: &Ledger) {
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.sent, &other.sent);
        add(&mut self.answered, &other.answered);
        add(&mut self.lost, &other.lost);
        add(&mut self.empty, &other.empty);
        self.away = [self.away, other.away].into_iter().flatten().max_by_key(|away| away.0);
    }
}
