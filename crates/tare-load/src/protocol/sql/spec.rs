//! What a workload says about a database and the load on it, as written down after reading.

use crate::protocol::tls::TlsOptions;
use crate::script::FeedSpecs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The options, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// Who logs in.
    pub user: String,
    /// With which password; the server decides how it is proved.
    pub password: String,
    /// The database.
    pub database: String,
    /// A UNIX socket to use instead of the endpoint.
    pub socket: Option<PathBuf>,
    /// How connections are secured; none is plain.
    pub tls: Option<TlsOptions>,
    /// Where values come from.
    pub feeds: FeedSpecs,
    /// What is done, in the order of the file.
    pub operations: Vec<OperationSpec>,
    /// How the data set is made, in order.
    pub populate: Vec<PopulateSpec>,
    /// What must hold besides right answers.
    pub verify: VerifySpec,
}

/// An operation: a script that is run on one connection from its first statement to its last answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperationSpec {
    /// Its name in the record.
    pub name: String,
    /// How often it is drawn, against the others' weights.
    pub weight: u64,
    /// How often a transaction is begun at most when it fails for a reason that may be gone the next time.
    pub tries: u16,
    /// What it does.
    pub script: Vec<StepSpec>,
}

/// A step of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepSpec {
    /// Gives variables values, in this order.
    Set(Vec<(String, SourceSpec)>),
    /// Begins a transaction.
    Begin {
        /// At this isolation level, else at the server's default.
        isolation: Option<Isolation>,
    },
    /// Ends it, in this share of cases by taking it back.
    Commit {
        /// From 0 to 1.
        rollback: f64,
    },
    /// Takes it back.
    Rollback,
    /// Runs a statement.
    Statement(StatementSpec),
    /// Runs statements without waiting for each one's answer.
    Together(Vec<StatementSpec>),
    /// Goes one of two ways.
    If {
        /// Which.
        condition: ConditionSpec,
        /// When it holds.
        then: Vec<StepSpec>,
        /// When it does not.
        otherwise: Vec<StepSpec>,
    },
    /// Does something several times.
    Repeat {
        /// How often: an expression.
        times: String,
        /// The variable that counts, from 1.
        counter: Option<String>,
        /// What.
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
    /// A feed, another variable or arithmetic on them.
    Expression(String),
    /// A text with places for values.
    Text(String),
}

/// A statement and what is expected of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatementSpec {
    /// The statement, with `${name}` where parameters stand.
    pub sql: String,
    /// From how many to how many rows are right.
    pub rows: Option<(u64, u64)>,
    /// How many rows it may touch.
    pub affected: Option<(u64, u64)>,
    /// Variables that are filled from the answer.
    pub capture: Vec<(String, Capture)>,
}

/// What is kept of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Capture {
    /// A column of the first row, from 1.
    Column(u16),
    /// How many rows there were.
    Rows,
    /// How many rows were touched.
    Affected,
}

/// A question with two answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConditionSpec {
    /// Holds in this share of cases, from 0 to 1.
    Chance(f64),
    /// Compares two numbers.
    Number {
        /// One.
        left: String,
        /// How.
        comparison: Comparison,
        /// The other.
        right: String,
    },
    /// Whether a variable is this text.
    Text {
        /// The variable.
        variable: String,
        /// The text.
        text: String,
    },
    /// Whether a variable has no value, or NULL.
    Empty(String),
}

/// How numbers are compared. What has no value compares as false.
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
    /// Not below.
    AtLeast,
    /// Not above.
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
    /// Rows that are made up.
    Rows {
        /// Into which table.
        table: String,
        /// How many.
        count: u64,
        /// The columns and their values, in order. `row` is the row's number, from 1.
        columns: Vec<(String, SourceSpec)>,
    },
}

/// What must hold besides right answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerifySpec {
    /// How many rows each table has when the data set has been made.
    pub rows: BTreeMap<String, u64>,
    /// Statements whose first column of the first row is this text, when the data set has been made and after a run.
    pub invariants: Vec<InvariantSpec>,
    /// Statements whose value grows by the operations of a run.
    pub growth: Vec<GrowthSpec>,
    /// Whether the server's own counts are held against the client's.
    pub server: bool,
}

/// A statement and the text it gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvariantSpec {
    /// What is checked, in words.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// What it must give.
    pub is: String,
}

/// A statement whose number grows with each of some operations.
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
