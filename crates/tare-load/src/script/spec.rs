//! Feeds as written down, every default filled in.

use super::distribution::Spread;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A feed, by its place among all feeds of a protocol's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FeedId(pub(super) u16);

/// Every feed of a protocol's options, by name.
pub(crate) type FeedSpecs = BTreeMap<String, FeedSpec>;

/// A feed as written down, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct FeedSpec {
    /// What it gives.
    pub source: Source,
    /// How long a drawn value stays.
    pub per: Per,
}

/// How long a value of a feed stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Per {
    /// Every operation that uses it draws anew.
    Operation,
    /// Drawn on first use by a user, who keeps it.
    User,
}

/// What a feed gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Source {
    /// A random number.
    Number(Spread),
    /// One number after the other, each given once in the whole process, from the beginning again behind the last.
    Sequence {
        /// The first.
        from: i64,
        /// The last.
        to: i64,
        /// From one to the next, above 0.
        step: u64,
    },
    /// A row of a table; each column is a variable.
    Csv {
        /// The columns' names.
        columns: Vec<String>,
        /// The rows, each as wide as there are columns.
        rows: Vec<Vec<String>>,
        /// Which row.
        order: Order,
    },
    /// One of some words, by weight.
    Choice(Vec<(String, u64)>),
    /// So many letters out of an alphabet, all alike.
    Text {
        /// The alphabet, ASCII.
        letters: String,
        /// The least length.
        from: u32,
        /// The greatest length; all between are alike.
        to: u32,
    },
    /// A text in which each `#` is a random digit and each `@` a random letter a-z.
    Pattern(String),
}

/// Which row of a table is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Any.
    Random,
    /// One after the other, from the first again behind the last.
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
