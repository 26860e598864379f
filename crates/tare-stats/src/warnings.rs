//! What a reader must be told before the figures. Words are made of it where reports are made.

use crate::probe_cost::{ProbeEffect, ProbeRatio};
use crate::stalls::Stalls;
use serde::Serialize;
use tare_core::record::Asker;

/// Something to know before believing a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// Something of the run is not in its record.
    Missing {
        /// What.
        what: Missing,
    },
    /// The baseline was measured under emulation: no ratio says anything of the real thing.
    EmulatedBaseline {
        /// The baseline.
        baseline: String,
    },
    /// The A/A control differs from the baseline: this machine treats identical forms differently.
    EqualsDiffer {
        /// In which metric, for readers.
        metric: String,
        /// How far equals may lie apart, as a share: effects below are noise.
        floor: f64,
        /// The machine, by the facts that it tells of itself: its processor and its kernel.
        machine: MachineFacts,
    },
    /// An arm's trials are void or failed more often than the others'.
    VoidTooOften {
        /// The arm.
        arm: String,
        /// How many are void or failed.
        void: u32,
        /// Out of this many that were carried out.
        ran: u32,
        /// Fisher's p.
        p: f64,
    },
    /// Blocks with void trials that were run again and did not come out whole either.
    BlocksNotWhole {
        /// How many.
        blocks: usize,
    },
    /// The forms did not run the same files.
    OtherBits {
        /// Of which service.
        service: String,
        /// The first file that differs.
        path: String,
        /// How many more do.
        more: usize,
    },
    /// The forms did not have the same resources.
    UnequalResources {
        /// Of which service.
        service: String,
        /// Which resources.
        properties: Vec<String>,
    },
    /// A ratio is another one without the slowest and fastest windows.
    TrimmedApart {
        /// The arm.
        arm: String,
        /// The metric, for readers.
        metric: String,
        /// The ratio over the whole time.
        ratio: f64,
        /// The same without the best and the worst fifth of it; none where a trial stood still for longer than that.
        trimmed: Option<f64>,
    },
    /// When that was.
    StoodStill {
        /// The arm, and its stalls.
        stalls: Stalls,
    },
    /// Throughput changed while it was measured.
    NeverSteady {
        /// In which arms.
        arms: Vec<Unsteady>,
    },
    /// The mean and the Hodges-Lehmann estimate disagree: blocks are not near-normal.
    NotNearNormal {
        /// The arm.
        arm: String,
        /// The metric, for readers.
        metric: String,
    },
    /// A service needs longer to get warm than slices of a chopped load last.
    Cold {
        /// The share of its rate that it loses in turns half as long as the slices, or somewhat shorter.
        share: f64,
        /// How long such turns are, ns.
        slice_ns: u64,
        /// How long slices are: the longest there are, ns.
        longest_ns: u64,
    },
    /// Whether a service is cold in the slices of a chopped load was looked for and could not be told.
    WarmthUnknown {
        /// How long slices are, a mean of all turns, ns.
        slice_ns: u64,
    },
    /// In some blocks of a chopped load one form's turns do not tell what its moves cost, so no form's are taken off.
    MovesUntold {
        /// Forms that cannot tell.
        arms: Vec<String>,
        /// In so many blocks.
        blocks: usize,
        /// Out of this many.
        of: usize,
    },
    /// The probe takes more from a form than may be left out of account, whatever the truth within its interval.
    ProbeCosts {
        /// The form.
        form: String,
        /// What it changes.
        changes: ProbeEffect,
        /// That with the samplers at work by that while they rest.
        cost: ProbeRatio,
    },
    /// The run ended because of what it had found: ratios lean away from 1.
    EndedByFinding,
    /// A user had the run end between two blocks of its plan.
    EndedOnRequest {
        /// Who, if the record has it.
        by: Option<Asker>,
        /// Trials of the plan that were run.
        there: usize,
        /// Out of this many planned.
        planned: usize,
    },
}

/// What a machine says of itself, as far as it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineFacts {
    /// Its processor's model.
    pub cpu: Option<String>,
    /// Its kernel's release.
    pub kernel: Option<String>,
}

/// An arm with trials that were never steady.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unsteady {
    /// The arm.
    pub arm: String,
    /// Number of trials.
    pub trials: u32,
    /// Out of this many measured.
    pub measured: u32,
    /// Fisher's p, where that is more often than in the others.
    pub p: Option<f64>,
}

/// What of a run is not in its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Missing {
    /// Trials that were never run.
    Unfinished {
        /// Why.
        why: Unfinished,
        /// Trials that are there.
        there: usize,
        /// Out of this many planned.
        planned: usize,
    },
    /// Trials that were run and are gone: a ratio from what is left may be another one, above all if somebody chose
    /// what to remove.
    TrialsLost {
        /// Which.
        trials: Vec<u32>,
        /// Out of this many planned.
        planned: usize,
    },
    /// Trials that measured something, without any row of what the others have rows of.
    Emptied {
        /// The file that is empty.
        file: String,
        /// Which trials.
        trials: Vec<u32>,
    },
}

/// Why a run has fewer trials than it planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unfinished {
    /// The record has no end: the run goes on, or was killed.
    NoEnd,
    /// It was interrupted.
    Interrupted,
    /// Its time was spent.
    BudgetSpent,
}
