//! Reading YAML so that every mistake is reported at once, each with its place and a hint.
//!
//! `serde` stops at the first mistake and loses the place of what it has buffered; a person who writes a study
//! wants the whole list. So a file is parsed into a tree of [`Node`]s that know where they stand, and read through
//! [`Fields`], which collects [`Problem`]s and goes on.

mod fields;
mod node;
mod problem;

pub use fields::Fields;
pub use node::{Node, NodeKind, parse};
pub use problem::{Place, Problem, Problems};
