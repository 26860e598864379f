//! The ladder: from the baseline to a form in rungs that differ in one feature each, so that the difference between the
//! two can be split into what each feature costs. All rungs are forms of one study and run interleaved.

use serde::{Deserialize, Serialize};

/// The rungs to one of a study's forms. They are forms of the study too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladder {
    /// The form being climbed to; its own rung is the last.
    pub to: String,
    /// The rungs in their order, from the first after the baseline.
    pub rungs: Vec<Rung>,
    /// Forms that have a rung's feature in another place than the ladder. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turned: Vec<Turned>,
}

/// A form with a rung's feature in another place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// The form.
    pub form: String,
    /// The form of the rung whose feature it is.
    pub rung: String,
    /// Where it has the feature.
    pub place: Place,
    /// The form that it is to be compared with, if it has the feature first: the one that it stands on. None means the
    /// baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
}

/// Where a feature stands among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// First: on as few of the other features as possible.
    First,
    /// Last: the form has all features but this one.
    Last,
}

/// A rung of a [`Ladder`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// The form.
    pub form: String,
    /// What it has that the rung before it lacks, for the reader.
    pub adds: String,
}
