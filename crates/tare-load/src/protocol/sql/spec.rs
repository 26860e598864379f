//! What a workload says about a database and the load on it, in its written form.

use crate::protocol::tls::TlsOptions;
use crate::script::FeedSpecs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The options, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// The user who logs in.
    pub user: String,
    /// The password; the server decides how it is proved.
    pub password: String,
    /// The database.
    pub database: String,
    /// A UNIX socket to use instead of the endpoint.
    pub socket: Option<PathBuf>,
    /// How connections are secured; none means plain.
    pub tls: Option<TlsOptions>,
    /// Where values come from.
    pub feeds: FeedSpecs,
    /// The operations, in the order of the file.
    pub operations: Vec<OperationSpec>,
    /// How the data set is made, in order.
    pub populate: Vec<PopulateSpec>,
    /// What must hold in addition to right answers.
    pub verify: VerifySpec,
}

/// An operation: a script that runs on one connection from its first statement to its last answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperationSpec {
    /// Its name in the record.
    pub name: String,
    /// How often it is drawn, relative to the others' weights.
    pub weight: u64,
    /// The most tries of a transaction that fails for a reason that may not recur.
    pub tries: u16,
    /// Its steps.
    pub script: Vec<StepSpec>,
}

/// A step of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepSpec {
    /// Sets variables, in this order.
    Set(Vec<(String, SourceSpec)>),
    /// Begins a transaction.
    Begin {
        /// The isolation level; none is the server's default.
        isolation: Option<Isolation>,
    },
    /// Ends it, in a share of cases by rolling it back.
    Commit {
        /// That share, from 0 to 1.
        rollback: f64,
    },
    /// Rolls it back.
    Rollback,
    /// Runs a statement.
    Statement(StatementSpec),
    /// Runs statements without waiting for each answer.
    Together(Vec<StatementSpec>),
    /// Takes one of two branches.
    If {
        /// The condition.
        condition: ConditionSpec,
        /// The steps if it holds.
        then: Vec<StepSpec>,
        /// The steps if it does not.
        otherwise: Vec<StepSpec>,
    },
    /// Repeats steps.
    Repeat {
        /// How often, as an expression.
        times: String,
        /// The variable that counts, from 1.
        counter: Option<String>,
        /// The steps.
        steps: Vec<StepSpec>,
    },
    /// Ends the operation here.
    Stop,
}

/// Isolation levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// The transaction sees what was committed before it.
    RepeatableRead,
    /// As if transactions ran one after the other.
    Serializable,
}

impl Isolation {
    /// Every level, by its name in a file.
    pub(crate) const NAMES: [(&'static str, Isolation); 3] = [
        ("read-committed", Isolation::ReadCommitted),
        ("repeatable-read", Isolation::RepeatableRead),
        ("serializable", Isolation::Serializable),
    ];

    /// Its name in SQL.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SourceSpec {
    /// An expression of feeds, other variables and arithmetic.
    Expression(String),
    /// A text with placeholders for values.
    Text(String),
}

/// A statement and its expected result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatementSpec {
    /// The statement, with `${name}` for each parameter.
    pub sql: String,
    /// The least and the most rows that it may return.
    pub rows: Option<(u64, u64)>,
    /// The least and the most rows that it may affect.
    pub affected: Option<(u64, u64)>,
    /// Variables set from the answer.
    pub capture: Vec<(String, Capture)>,
}

/// What is captured from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Capture {
    /// A column of the first row, from 1.
    Column(u16),
    /// How many rows there were.
    Rows,
    /// How many rows were affected.
    Affected,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConditionSpec {
    /// Holds in this share of cases, from 0 to 1.
    Chance(f64),
    /// Compares two numbers.
    Number {
        /// The left side.
        left: String,
        /// The comparison.
        comparison: Comparison,
        /// The right side.
        right: String,
    },
    /// Whether a variable is this text.
    Text {
        /// The variable.
        variable: String,
        /// The text.
        text: String,
    },
    /// Whether a variable is unset or NULL.
    Empty(String),
}

/// How numbers are compared. A comparison with an unset value is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Comparison {
    /// Equal.
    Is,
    /// Not equal.
    IsNot,
    /// Below.
    Less,
    /// Above.
    Greater,
    /// At least.
    AtLeast,
    /// At most.
    AtMost,
}

impl Comparison {
    /// Every comparison, by its name in a file.
    pub(crate) const NAMES: [(&'static str, Comparison); 6] = [
        ("is", Comparison::Is),
        ("is_not", Comparison::IsNot),
        ("less", Comparison::Less),
        ("greater", Comparison::Greater),
        ("at_least", Comparison::AtLeast),
        ("at_most", Comparison::AtMost),
    ];

    /// Whether it holds.
    #[inline]
    pub(crate) fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Comparison::Is => left == right,
            Comparison::IsNot => left != right,
            Comparison::Less => left < right,
            Comparison::Greater => left > right,
            Comparison::AtLeast => left >= right,
            Comparison::AtMost => left <= right,
        }
    }
}

/// A step in making the data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PopulateSpec {
    /// A statement.
    Sql(String),
    /// Generated rows.
    Rows {
        /// The table.
        table: String,
        /// How many.
        count: u64,
        /// The columns and their values, in order. `row` is the row's number, from 1.
        columns: Vec<(String, SourceSpec)>,
    },
}

/// What must hold in addition to right answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerifySpec {
    /// How many rows each table has once the data set has been made.
    pub rows: BTreeMap<String, u64>,
    /// Statements whose first column of the first row must be this text, both once the data set has been made and after
    /// a run.
    pub invariants: Vec<InvariantSpec>,
    /// Statements whose value grows with the operations of a run.
    pub growth: Vec<GrowthSpec>,
    /// Whether the server's own counts are compared with the client's.
    pub server: bool,
}

/// A statement and its required result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvariantSpec {
    /// What is checked, in words.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// The required result.
    pub is: String,
}

/// A statement whose value grows with certain operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrowthSpec {
    /// What is checked, in words.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// The operations, each of which adds one when it is committed.
    pub by: Vec<String>,
}
