//! What happens in a run, for whoever shows or keeps it.

use crate::standing::StandingDeployment;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tare_core::load::SecondRow;
use tare_core::peak::PeakWindow;
use tare_core::plan::PlannedTrial;
use tare_core::trial::{Outcome, Stage};

/// Something that happened. The record keeps beginnings and ends of the run and of its trials (`events.jsonl`); the
/// others are for whoever watches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The run starts or goes on.
    RunStarted {
        /// Trials in all.
        trials: u32,
        /// Of them, on disk already.
        done: u32,
    },
    /// How many blocks the time given allows turned out to be another number than was thought.
    Fitted {
        /// The time given.
        most: Duration,
        /// Blocks that it allows.
        blocks: u32,
        /// Blocks that were planned.
        of: u32,
        /// Trials in all that it allows, those that are profiled included.
        trials: u32,
        /// How long another round of blocks takes.
        round: Duration,
    },
    /// A trial starts.
    TrialStarted {
        /// Which.
        trial: PlannedTrial,
        /// Blocks in all.
        blocks: u32,
        /// Estimate of what is left of the run, this trial included.
        left: Duration,
    },
    /// A stage of the trial starts.
    StageStarted {
        /// Which.
        stage: Stage,
    },
    /// A trial whose block stands side by side gets its next slice of load.
    SliceStarted {
        /// Which.
        trial: PlannedTrial,
    },
    /// A second of load is over.
    Second {
        /// What it brought.
        row: SecondRow,
    },
    /// A search for the peak judged a level.
    Held {
        /// The window.
        window: PeakWindow,
        /// The unit of levels.
        unit: String,
    },
    /// A search for the peak is over.
    Searched {
        /// What it came to, in words.
        words: String,
    },
    /// Trials have failed, and their deployments are kept standing until somebody has looked into them.
    KeptStanding {
        /// What stands: of several trials where they stand side by side.
        deployments: Vec<StandingDeployment>,
    },
    /// What was kept standing may go, and is taken down now.
    LetGo {
        /// How long it was kept.
        after: Duration,
    },
    /// A trial is over and on disk.
    TrialEnded {
        /// Which.
        trial: PlannedTrial,
        /// How.
        outcome: Outcome,
        /// Its throughput, operations per second, if it was measured.
        throughput: Option<f64>,
        /// Its 99th percentile, us, if it was measured.
        p99_us: Option<f64>,
    },
    /// The run is over.
    RunEnded {
        /// As `end.json` has it: `complete`, `fitted`, `precise enough`, `decided`, `interrupted` or `budget spent`.
        how: String,
    },
}

/// Somebody who is told of events. Must not block.
pub type Subscriber<'a> = &'a mut dyn FnMut(&Event);
