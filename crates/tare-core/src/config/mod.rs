//! Reads YAML so that every mistake is reported at once, each with its place and a hint.
//!
//! `serde` stops at the first mistake and loses the place of what it has buffered; a person who writes a study wants
//! the whole list. So a file is parsed into a tree of [`Node`]s that know their places, and read through [`Fields`],
//! which collects [`Problem`]s and continues.

mod fields;
mod node;
mod problem;

pub use fields::Fields;
pub use node::{Node, NodeKind, parse};
pub use problem::{Place, Problem, Problems};

/// Parses `text`, the content of `file`, and passes it to `read`.
///
/// # Errors
/// All mistakes in it, in the order of their places.
pub fn read<T>(
    file: &str,
    text: &str,
    read: impl FnOnce(&Node, &mut Problems) -> Option<T>,
) -> Result<T, Vec<Problem>> {
    let mut problems = Problems::new(file, text);
    let value = parse(text, &mut problems).and_then(|node| read(&node, &mut problems));
    value.filter(|_| problems.is_empty()).ok_or_else(|| problems.into_vec())
}
