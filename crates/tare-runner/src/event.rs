//! The events of a run, for whatever displays or records them.

use crate::standing::StandingDeployment;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tare_core::load::SecondRow;
use tare_core::peak::PeakWindow;
use tare_core::plan::PlannedTrial;
use tare_core::record::Asker;
use tare_core::trial::{Outcome, Stage};

/// Something that happened. The runner writes the beginnings and ends of the run and of its trials to the record
/// (`events.jsonl`); the others are for display, and whoever shows them may add them ([`crate::EventLog`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The run starts or continues.
    RunStarted {
        /// Trials in all.
        trials: u32,
        /// Trials that are already on disk.
        done: u32,
    },
    /// The time given allows another number of blocks than expected so far.
    Fitted {
        /// The time given.
        most: Duration,
        /// Blocks that fit.
        blocks: u32,
        /// Blocks that were planned.
        of: u32,
        /// Trials that fit, including profiled ones.
        trials: u32,
        /// The duration of another round of blocks.
        round: Duration,
    },
    /// A trial starts.
    TrialStarted {
        /// Which.
        trial: PlannedTrial,
        /// Blocks in all.
        blocks: u32,
        /// Estimated remaining time of the run, including this trial.
        left: Duration,
    },
    /// A stage of the trial starts.
    StageStarted {
        /// Which.
        stage: Stage,
    },
    /// A trial of a block that is deployed side by side gets its next slice of load.
    SliceStarted {
        /// Which.
        trial: PlannedTrial,
    },
    /// A second of load is over.
    Second {
        /// Its counts.
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
        /// Its result, in words.
        words: String,
    },
    /// Trials have failed, and their deployments are kept standing so that a person can look into them.
    KeptStanding {
        /// The deployments: several if forms are deployed side by side.
        deployments: Vec<StandingDeployment>,
    },
    /// The deployments that were kept standing may go, and are taken down now.
    LetGo {
        /// How long they were kept.
        after: Duration,
    },
    /// A user has asked the run to end after the block that is being measured.
    EndAsked {
        /// Who.
        by: Asker,
    },
    /// A trial is over and on disk.
    TrialEnded {
        /// Which.
        trial: PlannedTrial,
        /// Its outcome.
        outcome: Outcome,
        /// Its throughput, operations per second, if it was measured.
        throughput: Option<f64>,
        /// Its 99th percentile, us, if it was measured.
        p99_us: Option<f64>,
    },
    /// The run is over.
    RunEnded {
        /// As `end.json` has it: `complete`, `fitted`, `precise enough`, `decided`, `on request`, `interrupted` or
        /// `budget spent`.
        how: String,
    },
}

impl Event {
    /// Whether it is of a moment within a trial, which the runner itself does not write down, and is small.
    pub fn is_within_trial(&self) -> bool {
        matches!(
            self,
            Event::StageStarted { .. }
                | Event::SliceStarted { .. }
                | Event::Second { .. }
                | Event::Held { .. }
                | Event::Searched { .. }
                | Event::EndAsked { .. }
        )
    }
}

/// A callback for events. It must not block.
pub type Subscriber<'a> = &'a mut dyn FnMut(&Event);
