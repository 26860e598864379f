//! An arm of a record: a form, or the baseline's second copy, and what became of its trials.

use crate::qos::QosKept;
use serde::Serialize;
use tare_core::fault::Fault;
use tare_core::trial::Stage;

/// An arm: a form, or the baseline's second copy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arm {
    /// The arm's name.
    pub name: String,
    /// The form's name.
    pub form: String,
    /// The form's layers in words.
    pub describe: String,
    /// Whether it is the baseline itself.
    pub baseline: bool,
    /// Whether it is the A/A control.
    pub control: bool,
    /// Of a ruler, which is the baseline with a weight that is known: how many operations it made beside each that
    /// counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Why its figures say nothing about the real thing, if they do not.
    pub emulated: Option<Fault>,
    /// Trials planned.
    pub planned: u32,
    /// Trials measured.
    pub measured: u32,
    /// Trials that ran but must not be used.
    pub invalid: u32,
    /// Trials that did not come to an end.
    pub failed: u32,
    /// Trials never tried for a stated reason.
    pub skipped: u32,
    /// Why trials were not measured, each reason once, most frequent first.
    pub reasons: Vec<Reason>,
    /// How a request reached the service.
    pub path: String,
    /// Measured trials whose throughput changed by more than 3 % while they were measured; none where the load itself
    /// changes: in steps, as a recording says, or by a search.
    pub never_steady: Vec<u32>,
    /// Fisher's p, when its trials are void or failed more often than those of the other arms; then its verdicts are
    /// withheld.
    pub void_p: Option<f64>,
    /// How its measured trials kept the study's QoS, where the study has one.
    pub qos: Option<QosKept>,
}

/// Why trials were not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// `invalid`, `failed` or `skipped`.
    pub outcome: String,
    /// The stage, of a failure.
    pub stage: Option<Stage>,
    /// Why, and what to do.
    pub why: Fault,
    /// Which trials; empty when the form was left out before any was planned.
    pub trials: Vec<u32>,
}
