//! In what the databases differ, as far as scripts are concerned.

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
    /// What begins a transaction, statement by statement.
    pub begin: fn(Option<Isolation>) -> Vec<String>,
    /// The codes of errors that may be gone when a transaction is tried again: deadlock, serialisation failure.
    pub passing: &'static [&'static str],
}
