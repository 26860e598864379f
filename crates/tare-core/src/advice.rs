//! Advice: a form and its variants, each of which does one thing otherwise that may win back what the form costs. All
//! of them are forms of one study, and run interleaved.

use serde::{Deserialize, Serialize};

/// The variants of a form of a study, whose forms they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The form that is varied.
    pub of: String,
    /// The variants, from the outermost layer inwards.
    pub variants: Vec<Variant>,
}

/// A variant of an [`Advice`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// The form.
    pub form: String,
    /// What it is called in every study: `host-network`.
    pub name: String,
    /// What it does otherwise, for the reader.
    pub changes: String,
    /// What is given up for it, for the reader; empty where nothing is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trades: String,
}
