//! What `postgres` and `mysql` share: transactions as scripts.
//!
//! [`read`] checks a workload's options, which are those of [`spec`]; [`program`] compiles them to flat tables once
//! before anything starts; [`machine`] runs them, one operation on one connection at a time, driven by answers; and
//! [`protocol`] makes a protocol of them. The form of statements on the wire is specific to each [`database`].
//!
//! **What is retried.** When a statement fails with one of the dialect's passing codes (deadlock, serialisation
//! failure), the transaction is rolled back and retried from its `begin`. Values set before `begin` stay, and steps
//! after it draw anew; feeds named in statements themselves are drawn once per operation. Outside a transaction the
//! statement is retried. There is no pause between tries, and at most `tries` of them. The operation's time covers all
//! tries.

mod checks;
mod code;
mod control;
mod database;
mod dialect;
mod machine;
mod program;
mod protocol;
mod read;
mod read_steps;
mod reader;
mod rows;
mod secured;
mod source;
mod spec;
mod tally;
#[cfg(test)]
mod tests;
mod text;

pub(super) use checks::{Ask, excerpt};
pub(super) use code::Code;
pub(super) use database::{Admission, Around, Control, Database, Login, Sql};
pub(super) use dialect::Dialect;
pub(super) use machine::{Context, Next, TransactionMachine, Wire};
pub(super) use program::{Program, Statement};
#[cfg(any(test, fuzzing))]
pub(super) use protocol::made;
pub(super) use reader::{Framing, HEADER, Message, Reader};
pub(super) use rows::Rows;
pub(super) use secured::{Pipe, Veil};
pub(super) use source::write_value;
pub(super) use spec::Isolation;
pub(super) use tally::{Tallies, Tally};
pub(super) use text::Places;
