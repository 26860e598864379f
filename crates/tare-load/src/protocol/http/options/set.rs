//! Reads what a request computes before it is sent.

use crate::script::{Expression, Names};
use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, NodeKind, Problems};

/// More decimal places than any amount has.
const DIGITS_MAX: u64 = 9;

/// A value that is computed from others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Setting {
    /// Its name.
    pub name: String,
    /// The expression.
    pub of: String,
    /// The number of decimal places to which it is rounded.
    pub digits: u8,
}

/// Reads `set:`, a map from names to expressions, or to `{of: EXPRESSION, digits: 2}`.
pub(super) fn read_settings(node: &Node, names: &Names, problems: &mut Problems) -> Vec<Setting> {
    let Some(fields) = Fields::of(node, "set", problems) else { return Vec::new() };
    let mut settings = Vec::new();
    for (name, _, node) in fields.entries() {
        let (of, digits) = if let NodeKind::Scalar { .. } = node.kind {
            (Some(node), 0)
        } else {
            let Some(mut fields) = Fields::of(node, format!("what '{name}' is set to"), problems) else { continue };
            let of = fields.require("of", problems);
            let digits = fields.integer("digits", 0..=DIGITS_MAX, problems).unwrap_or(0) as u8;
            fields.finish(problems);
            (of, digits)
        };
        let Some((of, text)) = of.and_then(|node| Some((node, node.text(problems)?))) else { continue };
        let slot = |name: &str| names.slot(name).ok_or_else(|| format!("there is no variable '{name}'"));
        if let Err(message) = Expression::parse(&text, slot) {
            problems.add(of.place, message, "numbers, names of values, + - * / % and parentheses");
        }
        settings.push(Setting { name: name.clone(), of: text, digits });
    }
    settings
}
