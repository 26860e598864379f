//! What a reader of a sweep must know.

use serde::Serialize;

/// Something to know before believing a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Caution {
    /// The levels were measured apart from each other: what the machine did meanwhile is in them.
    LevelsApart,
    /// There are too few blocks with every level for an interval.
    NoIntervals {
        /// How many.
        blocks: usize,
        /// So many are needed.
        needed: usize,
    },
    /// Levels were left out that were measured in too few blocks.
    LevelsLeftOut {
        /// How many.
        levels: usize,
    },
    /// Blocks were left out in which a level is missing.
    BlocksLeftOut {
        /// How many.
        blocks: usize,
    },
    /// No law was fitted, for there are too few levels.
    TooFewLevels {
        /// How many.
        levels: usize,
        /// So many are needed.
        needed: usize,
    },
    /// No law was fitted, for the levels lie too near each other to tell contention from coherence.
    NarrowRange {
        /// The highest level by the lowest.
        times: f64,
        /// What that must be.
        needed: f64,
    },
    /// No law was fitted, for the levels do not determine one.
    Undetermined,
    /// The law does not describe the levels.
    Misfit {
        /// How far one of them is off, as a share.
        off: f64,
    },
    /// Throughput grows faster than the level at first, which the law cannot say.
    FasterAtFirst,
    /// Several records have one level: their blocks count together, and what changed between them is in that level's
    /// spread.
    RecordsTogether {
        /// So many records.
        records: usize,
        /// The level.
        level: f64,
        /// What levels count.
        of: String,
    },
}
