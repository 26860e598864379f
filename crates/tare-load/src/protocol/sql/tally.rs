//! What the connections did, to be compared with the server's counts.

use super::code::Code;
use std::sync::{Mutex, PoisonError};
use tare_core::fault::Fault;

/// Counts of one connection, or of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Statements sent and answered, including those that begin and end transactions.
    pub statements: u64,
    /// Of these, those that begin or end a transaction.
    pub control: u64,
    /// Committed transactions; a statement outside a transaction counts as one.
    pub commits: u64,
    /// How often a transaction was ended by committing it.
    pub commit_statements: u64,
    /// Transactions rolled back, by the script or after an error.
    pub rollbacks: u64,
    /// Transactions that were retried.
    pub retries: u64,
    /// Connections that were let in.
    pub connections: u64,
    /// By operation: how often it was answered rightly and not rolled back.
    pub completed: Vec<u64>,
    /// By operation: how often it was answered rightly after the script had rolled it back.
    pub taken_back: Vec<u64>,
    /// Errors by the server's code.
    pub errors: Vec<(Code, u64)>,
}

impl Tally {
    /// No counts yet, for this many operations.
    pub(crate) fn new(operations: usize) -> Self {
        Tally { completed: vec![0; operations], taken_back: vec![0; operations], ..Tally::default() }
    }

    /// Counts errors.
    pub(crate) fn error(&mut self, code: Code, count: u64) {
        match self.errors.iter_mut().find(|(known, _)| *known == code) {
            Some((_, sum)) => *sum += count,
            None => self.errors.push((code, count)),
        }
    }

    fn merge(&mut self, other: &Tally) {
        self.statements += other.statements;
        self.control += other.control;
        self.commits += other.commits;
        self.commit_statements += other.commit_statements;
        self.rollbacks += other.rollbacks;
        self.retries += other.retries;
        self.connections += other.connections;
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.completed, &other.completed);
        add(&mut self.taken_back, &other.taken_back);
        other.errors.iter().for_each(|(code, count)| self.error(*code, *count));
    }
}

/// The counts of all connections that have ended, and the first error message of the server.
#[derive(Debug)]
pub(crate) struct Tallies {
    sum: Mutex<Tally>,
    first_error: Mutex<Option<String>>,
}

impl Tallies {
    /// No counts yet, for this many operations.
    pub(crate) fn new(operations: usize) -> Self {
        Tallies { sum: Mutex::new(Tally::new(operations)), first_error: Mutex::new(None) }
    }

    /// Adds the counts of a connection that has ended.
    pub(super) fn add(&self, tally: &Tally) {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner).merge(tally);
    }

    /// The counts of all connections that have ended.
    pub(crate) fn sum(&self) -> Tally {
        self.sum.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the text of an error if it is the first.
    #[cold]
    pub(crate) fn note(&self, error: impl FnOnce() -> String) {
        self.first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(error);
    }

    /// Adds the server's first error message to a fault.
    pub(crate) fn explain(&self, mut fault: Fault) -> Fault {
        if let Some(words) = self.first_error().filter(|words| !fault.message.contains(words)) {
            fault.message.push_str(&format!("; the server's first error was: {words}"));
        }
        fault
    }

    /// The server's first error message.
    pub(crate) fn first_error(&self) -> Option<String> {
        self.first_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
