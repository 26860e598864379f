//! What became of all operations of a run: the client's side of the account.

use super::Failure;

/// What was sent and answered over a whole run, settling and draining included: to be held against the server's own
/// counts. The lists have an item for each operation, in the order of
/// [`Protocol::operations`](super::Protocol::operations). Readiness and the data set are in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    /// Operations begun and sent, each once, however many requests it takes.
    pub sent: Vec<u64>,
    /// Operations answered, rightly or not.
    pub answered: Vec<u64>,
    /// Operations that came to no answer and were counted as failed, also those that were never sent.
    pub lost: Vec<u64>,
    /// Of those answered: so many answers said that there is nothing ([`Reply::Empty`](super::Reply)).
    pub empty: Vec<u64>,
    /// The longest time in which a worker had no connection although it wanted one, ns, and what connecting came to.
    pub away: Option<(u64, Failure)>,
}

impl Ledger {
    /// An empty one.
    pub(crate) fn new(operations: usize) -> Self {
        let none = || vec![0; operations];
        Ledger { sent: none(), answered: none(), lost: none(), empty: none(), away: None }
    }

    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: &Ledger) {
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.sent, &other.sent);
        add(&mut self.answered, &other.answered);
        add(&mut self.lost, &other.lost);
        add(&mut self.empty, &other.empty);
        self.away = [self.away, other.away].into_iter().flatten().max_by_key(|away| away.0);
    }
}
