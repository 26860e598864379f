//! Advice: a form and its variants, each of which changes one thing that may win back what the form costs. All of them
//! are forms of one study and run interleaved.

use serde::{Deserialize, Serialize};

/// The variants of one of a study's forms. They are forms of the study too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The form being varied.
    pub of: String,
    /// The variants, from the outermost layer inwards.
    pub variants: Vec<Variant>,
}

/// A variant of an [`Advice`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// The form.
    pub form: String,
    /// Its name in every study: `host-network`.
    pub name: String,
    /// What it changes, for the reader.
    pub changes: String,
    /// What is given up for it, for the reader; empty if nothing is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trades: String,
}
