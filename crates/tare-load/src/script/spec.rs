//! Feeds in their written form, every default filled in.

use super::distribution::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A feed, by its position among all feeds of a protocol's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FeedId(pub(super) u16);

/// Every feed of a protocol's options, by name.
pub(crate) type FeedSpecs = BTreeMap<String, FeedSpec>;

/// A feed in its written form, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FeedSpec {
    /// What it gives.
    pub source: Source,
    /// How long a drawn value is kept.
    pub per: Per,
}

/// How long a feed's value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Per {
    /// Drawn anew by every operation that uses it.
    Operation,
    /// Drawn when a user first uses it, and kept by that user.
    User,
}

/// What a feed gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Source {
    /// A random number.
    Number(Spread),
    /// One number after the other, each given once in the whole process, starting over after the last.
    Sequence {
        /// The first.
        from: i64,
        /// The last.
        to: i64,
        /// The step from one to the next, above 0.
        step: u64,
    },
    /// A row of a table; each column is a variable.
    Csv {
        /// The columns' names.
        columns: Vec<String>,
        /// The rows, each as wide as there are columns.
        rows: Vec<Vec<String>>,
        /// The order in which rows are taken.
        order: Order,
    },
    /// One of some words, by weight.
    Choice(Vec<(String, u64)>),
    /// Random letters of an alphabet, all equally often.
    Text {
        /// The alphabet, ASCII.
        letters: String,
        /// The smallest length.
        from: u32,
        /// The largest length; all lengths between are equally likely.
        to: u32,
    },
    /// A text in which each `#` is a random digit and each `@` a random letter a-z.
    Pattern(String),
}

/// The order in which rows of a table are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// At random.
    Random,
    /// One after the other, starting over after the last.
    InTurn,
}

impl FeedSpec {
    /// The columns, if the feed has any.
    pub(super) fn columns(&self) -> Option<&[String]> {
        match &self.source {
            Source::Csv { columns, .. } => Some(columns),
            _ => None,
        }
    }
}
