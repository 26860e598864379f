//! A trial: one repetition of one cell, in stages, ending in an outcome.

use crate::fault::Fault;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The stages of a trial, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Open the layers.
    Provision,
    /// Start the services and wait until they are ready.
    Deploy,
    /// Write the data set.
    Populate,
    /// Load runs; nothing counts yet.
    Settle,
    /// Load runs and counts.
    Measure,
    /// Check that the work was done, and that bits and resources are the same.
    Verify,
    /// Take everything down.
    Teardown,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Provision => "provision",
            Stage::Deploy => "deploy",
            Stage::Populate => "populate",
            Stage::Settle => "settle",
            Stage::Measure => "measure",
            Stage::Verify => "verify",
            Stage::Teardown => "teardown",
        })
    }
}

/// How a trial ended. Only a measured trial has numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It counts.
    Measured,
    /// It ran, but what it measured must not be used.
    Invalid {
        /// Why.
        why: Fault,
    },
    /// It did not run to its end.
    Failed {
        /// In which stage.
        stage: Stage,
        /// Why.
        why: Fault,
    },
    /// It was never tried.
    Skipped {
        /// Why, and how it could run.
        why: Fault,
    },
}

impl Outcome {
    /// One word for tables.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Measured => "measured",
            Outcome::Invalid { .. } => "invalid",
            Outcome::Failed { .. } => "failed",
            Outcome::Skipped { .. } => "skipped",
        }
    }

    /// Why, unless it was measured.
    pub fn why(&self) -> Option<&Fault> {
        match self {
            Outcome::Measured => None,
            Outcome::Invalid { why } | Outcome::Failed { why, .. } | Outcome::Skipped { why } => Some(why),
        }
    }
}
