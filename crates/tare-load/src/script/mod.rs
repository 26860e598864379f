//! The parts of protocols' scripts: feeds that give values, variables that hold them, and templates that write them. A
//! workload's file states them as data; [`read_feeds`] and [`Names`] check them with their places, and [`Feeds::new`]
//! and [`Template::compile`] turn them into flat tables once, before anything starts.
//!
//! A protocol uses them as follows:
//! 1. when reading options: [`read_feeds`] for `feeds:`; [`Names::new`] from them; [`Names::declare`] for each variable
//!    that a script captures or sets; then [`Template::read`] for each text, which checks its `${...}` and keeps the
//!    source;
//! 2. before a run, from the options in their written form: the same [`Names`], [`Feeds::new`], [`Template::compile`];
//! 3. in an operation: [`Feeds::draw`] for the feeds its templates use ([`Template::feeds`]), into the user's
//!    [`Values`]; [`Template::write`].
//!
//! A feed is drawn once for each operation that uses it, so that two places in one operation see the same value, and
//! the columns are those of one row; with `per: user` it is drawn once in a user's life. Drawing allocates nothing,
//! unless a text is longer than any that the user's variable has held before.

mod csv;
mod distribution;
mod expression;
mod feed;
mod number;
mod read;
mod spec;
#[cfg(test)]
mod spread;
mod template;
mod values;

pub(crate) use csv::parse_csv;
pub(crate) use expression::Expression;
pub(crate) use feed::Feeds;
pub(crate) use number::write_number;
pub(crate) use read::read_feeds;
pub(crate) use spec::{FeedId, FeedSpecs};
pub(crate) use template::{Escape, Template, union};
pub(crate) use values::{Names, Values};
pub use values::{Slot, ValueRef};
