//! The peak load: the plan of a search for it, and the result. The search itself is in `tare-stats` and the load in a
//! process of its own; these are the types that pass between them and the record.

mod note;
mod read;

pub use note::PeakNote;
pub use read::PeakAsked;

use crate::units::grouped;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How to search for a peak. Levels are in the unit of the guided profile: users, operations a second, or connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeakPlan {
    /// By which rules.
    pub rules: PeakRules,
    /// What a level counts: "users", "op/s" or "connections".
    pub unit: String,
    /// Whether a level is a whole number.
    pub whole: bool,
    /// The level of the first hold.
    pub start: f64,
    /// Where the peak is expected; the search then starts near it. Only the first block needs one.
    pub hint: Option<f64>,
    /// The search gives up below this: there is then no load at which the service keeps the QoS.
    pub at_least: f64,
    /// The search does not go above this.
    pub at_most: f64,
    /// How long load runs before anything is examined closely.
    pub warm: Duration,
    /// How long a new level is held before its window.
    pub settle: Duration,
    /// How long a window is. It is part of what is measured: figures from windows of other lengths are not comparable.
    pub window: Duration,
    /// The most windows of the staircase.
    pub windows: u32,
    /// Stop when the interval of this deployment reaches no further than this to either side, as a share.
    pub half_width: Option<f64>,
    /// The most time under load.
    pub budget: Option<Duration>,
    /// The operations that the protocol has; none when they are not known.
    #[serde(default)]
    pub operations: Vec<String>,
}

impl PeakPlan {
    /// The fewest windows with which a search can end with an estimate: 16 make one, the five that only locate it do
    /// not count, and a few may be lost.
    pub const WINDOWS_MIN: u32 = 24;

    /// The time under load that a search is expected to take.
    pub fn expected(&self) -> Duration {
        let usual = match self.rules {
            // The bracket takes about fifteen windows; a drain follows every sixth window.
            PeakRules::Staircase => {
                self.warm
                    + self.window * 15
                    + (self.window + self.settle) * self.windows
                    + self.window * self.windows / 12
            }
            // As published: 88 minutes with windows of 300 s.
            PeakRules::Published => self.window * 18,
        };
        self.budget.map_or(usual, |budget| budget.min(usual))
    }
}

/// The rules by which a peak is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeakRules {
    /// A staircase around the peak, and an estimate from all of its windows, with an interval.
    Staircase,
    /// The published search of Weathervane 2.2, for comparison with its figures; it gives no interval.
    Published,
}

/// One requirement of the QoS, counted in every window: a certain share may break it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// In words: "get within 5ms".
    pub name: String,
    /// The share that may break it, such as 0.01.
    pub allowed: f64,
    /// Whether it counts operations over their limit. No operation is in two such criteria; one that failed or was not
    /// answered may be in other kinds as well. False in records of older versions.
    #[serde(default)]
    pub late: bool,
}

/// What one window said about one criterion.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Count {
    /// How many were counted.
    pub of: f64,
    /// How many of them broke it.
    pub over: f64,
}

impl Count {
    /// The share that broke it; none when there was nothing to count.
    pub fn share(&self) -> Option<f64> {
        (self.of > 0.0).then(|| self.over / self.of)
    }
}

/// Why a level was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeakPhase {
    /// Large steps, to find the order of magnitude of the peak.
    Coarse,
    /// Load at a constant level, until the service is warm.
    Warm,
    /// Small steps upwards, to bracket the peak.
    Ramp,
    /// Briefly below the peak, so that what has queued up drains.
    Drain,
    /// Around the peak: these windows make the estimate.
    Staircase,
    /// A level that the published search judges.
    Probe,
}

/// A window of a search; all of them are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeakWindow {
    /// Why.
    pub phase: PeakPhase,
    /// The level that was held.
    pub level: f64,
    /// When it ended: seconds of load since the search began.
    pub at_s: f64,
    /// By criterion.
    pub counts: Vec<Count>,
    /// How far the worst criterion was from its allowance: -1 is nothing over, 0 is exactly what is allowed. Capped
    /// above.
    pub score: f64,
    /// Whether every criterion was kept.
    pub passed: bool,
    /// Whether the estimate rests on it.
    pub used: bool,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeakEnding {
    /// With a peak.
    Found,
    /// Every window up to the highest allowed level passed: the peak is above it.
    NeverFails {
        /// That level.
        up_to: f64,
    },
    /// The QoS was broken at every level, down to the lowest allowed.
    AlwaysFails {
        /// That level.
        down_to: f64,
    },
    /// With two levels instead of one: coming from below, the service keeps the QoS up to the first, but once it has
    /// broken the QoS, it recovers only at a lower one.
    Hysteresis {
        /// Up to here it keeps the QoS when coming from below.
        tips: f64,
        /// Below here it recovers.
        recovers: f64,
    },
    /// The time ran out before there were enough windows.
    BudgetSpent,
    /// The load could not be made, so the service was never measured at its peak.
    GeneratorLimited {
        /// The level at which the generator was the limit.
        level: f64,
        /// Why.
        why: String,
    },
}

/// The probability that a window passes, at levels of about the same size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PassRate {
    /// Mean level of these windows.
    pub level: f64,
    /// How many windows.
    pub windows: u32,
    /// How many passed.
    pub passed: u32,
    /// The share that passed, made monotone: it does not rise with the level.
    pub rate: f64,
    /// Lower end of the 95 % interval of the share (Wilson).
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeakOutcome {
    /// How it ended.
    pub ending: PeakEnding,
    /// The rules it followed.
    pub rules: PeakRules,
    /// The unit of levels.
    pub unit: String,
    /// The criteria, as the windows count them.
    pub criteria: Vec<Criterion>,
    /// The peak, if there is one.
    pub peak: Option<f64>,
    /// 95 % interval of the peak *of this deployment in these minutes*. Differences between deployments and hours come
    /// on top: quote the interval over blocks.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// By how many times its allowance the share over the limit rises when the load doubles, at the peak.
    pub slope: Option<f64>,
    /// The criterion that decides.
    pub binding: Option<String>,
    /// The pass probability over the level.
    pub curve: Vec<PassRate>,
    /// Time under load, s.
    pub load_s: f64,
    /// Notes that a reader must know. Records of earlier versions have them in words, as `warnings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<PeakNote>,
    /// The same notes in the words of an earlier version; empty in records of this one.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Every window, in order.
    pub windows: Vec<PeakWindow>,
}

impl PeakOutcome {
    /// In a sentence: `1,278 users, 1,262 to 1,295 in this deployment`.
    pub fn describe(&self) -> String {
        let unit = &self.unit;
        match (&self.ending, self.peak, self.low.zip(self.high)) {
            (PeakEnding::Found, Some(peak), Some((low, high))) => {
                format!("{} {unit}, {} to {} in this deployment", level_text(peak), level_text(low), level_text(high))
            }
            (PeakEnding::Found, Some(peak), None) => format!("{} {unit}, no interval by these rules", level_text(peak)),
            (PeakEnding::Found, None, _) => "no peak was found".to_owned(),
            (PeakEnding::NeverFails { up_to }, ..) => {
                format!("the QoS was kept up to the highest level allowed, {} {unit}", level_text(*up_to))
            }
            (PeakEnding::AlwaysFails { down_to }, ..) => {
                format!("the QoS was broken at every level down to {} {unit}", level_text(*down_to))
            }
            (PeakEnding::Hysteresis { tips, recovers }, ..) => format!(
                "two, because the service has a memory: coming from below it keeps the QoS up to {} {unit}, once \
                 broken it recovers below {}",
                level_text(*tips),
                level_text(*recovers)
            ),
            (PeakEnding::BudgetSpent, ..) => "the time was over before there were enough windows for a peak".to_owned(),
            (PeakEnding::GeneratorLimited { level, why }, ..) => {
                format!("the generator was the limit at {} {unit}: {why}", level_text(*level))
            }
        }
    }

    /// What would help if there is no peak; empty otherwise.
    pub fn remedy(&self) -> &'static str {
        match self.ending {
            PeakEnding::NeverFails { .. } => "raise 'at_most' of the search, or tighten the QoS",
            PeakEnding::AlwaysFails { .. } => {
                "lower 'at_least' of the search, loosen the QoS, or see whether the service works"
            }
            PeakEnding::BudgetSpent => "raise 'budget' of the search",
            PeakEnding::GeneratorLimited { .. } => "give the generator more CPUs, or the service fewer",
            PeakEnding::Found | PeakEnding::Hysteresis { .. } => "",
        }
    }
}

/// A level to a tenth or as an integer, thousands grouped.
pub fn level_text(level: f64) -> String {
    if level < 100.0 {
        return format!("{level:.1}").trim_end_matches(".0").to_owned();
    }
    grouped(level)
}
