//! The differences between databases that matter to scripts.

use super::spec::Isolation;
use super::text::Places;

/// A dialect.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The protocol's name.
    pub protocol: &'static str,
    /// How parameters are written.
    pub places: Places,
    /// Whether several statements may be sent before the first is answered.
    pub together: bool,
    /// The default user.
    pub user: &'static str,
    /// The default database.
    pub database: &'static str,
    /// The statements that begin a transaction.
    pub begin: fn(Option<Isolation>) -> Vec<String>,
    /// The codes of errors that may not recur if the transaction is retried: deadlock, serialisation failure.
    pub passing: &'static [&'static str],
}
