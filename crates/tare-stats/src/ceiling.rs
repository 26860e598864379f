//! How much of a closed loop's time is the generator's, and what follows where it was the limit of some arms.
//!
//! In a closed loop each operation is either with the service or with the generator. A generator that always has
//! something to do is the station at which they queue, and the throughput is its own: a service that is a little
//! faster than it looks as fast as it is. So an arm with such a generator may be better than its figures, and the ratio
//! to an arm without is a bound. Between two such arms there is no ratio of services at all.

use crate::arm::Arm;
use serde::Serialize;
use std::collections::BTreeSet;
use tare_core::load::{LoadOrigin, LoadProfile};
use tare_core::record::{Record, TrialData};
use tare_core::units::CpuSet;

/// A generator that is idle for less than the rest of this share of the time was the limit. A service of the same
/// speed, with fifty operations in flight, leaves it 1/51 of the time.
const LIMIT: f64 = 0.98;
/// One in so many trials in which it was the limit makes it that of the arm.
const OFTEN: usize = 4;

/// The metrics that a closed loop's slower station decides.
const DECIDED: [&str; 3] = ["throughput", "p50_us", "p99_us"];

/// How busy the generator was in an arm's trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceiling {
    /// The arm.
    pub arm: String,
    /// The mean over trials of the share of the time in which the load's busiest worker was not idle.
    pub awake: f64,
    /// Whether it was the limit.
    pub limited: bool,
    /// In how many of its trials it was, by itself.
    pub limited_trials: u32,
    /// How many there are.
    pub trials: u32,
}

/// What would take the generator out of the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Another CPU for the generator: the machine has one that serves nothing.
    AnotherCpu,
    /// A load at a fixed rate, below what the slowest form carries.
    FixedRate,
}

/// The generator's part in a closed load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ceilings {
    /// By arm, in their order.
    pub arms: Vec<Ceiling>,
    /// What would help, where it was the limit of any arm; the better first.
    pub remedies: Vec<Remedy>,
}

impl Ceilings {
    /// Whether it was the limit of some arms and not of others.
    pub fn straddle(&self) -> bool {
        self.arms.iter().any(|arm| arm.limited) && self.arms.iter().any(|arm| !arm.limited)
    }

    /// Whether an arm's figure of a metric is the generator's, so that the form may be better.
    pub(crate) fn holds_back(&self, arm: &str, metric: &str) -> bool {
        DECIDED.contains(&metric) && self.arms.iter().any(|ceiling| ceiling.limited && ceiling.arm == arm)
    }
}

/// The generator's part; none of loads that do not wait for answers, of tools of others, and of older records.
pub(crate) fn ceilings(record: &Record, counted: &[&TrialData], arms: &[Arm]) -> Option<Ceilings> {
    let study = &record.header.study;
    let looped = matches!(study.load, LoadProfile::Closed { .. }) && study.peak.is_none();
    if !looped || study.from == LoadOrigin::Inside {
        return None;
    }
    let awake = |trial: &&&TrialData| {
        let health = trial.record.load.as_ref()?.health.as_ref()?;
        health.awake.iter().copied().reduce(f64::max)
    };
    let of_arm = |arm: &Arm| {
        let trials: Vec<&&TrialData> = counted.iter().filter(|trial| trial.record.trial.arm() == arm.name).collect();
        let shares: Vec<f64> =
            trials.iter().map(awake).collect::<Option<_>>().filter(|all: &Vec<f64>| !all.is_empty())?;
        let awake = shares.iter().sum::<f64>() / shares.len() as f64;
        // Those of some blocks make the mean of all look better, or worse, than it is.
        let those = shares.iter().filter(|share| **share >= LIMIT).count();
        let limited = OFTEN * those >= shares.len() || awake >= LIMIT;
        let (limited_trials, trials) = (those as u32, shares.len() as u32);
        Some(Ceiling { arm: arm.name.clone(), awake, limited, limited_trials, trials })
    };
    let arms: Vec<Ceiling> = arms.iter().filter_map(of_arm).collect();
    let limited = arms.iter().any(|arm| arm.limited);
    let remedies = if limited { remedies(record) } else { Vec::new() };
    (!arms.is_empty()).then_some(Ceilings { arms, remedies })
}

fn remedies(record: &Record) -> Vec<Remedy> {
    let taken: BTreeSet<u32> = record
        .header
        .placement
        .values()
        .filter_map(|cpus| CpuSet::parse(cpus).ok())
        .flat_map(|set| set.cpus().to_vec())
        .collect();
    let spare = record.header.topology.as_ref().is_some_and(|topology| topology.cpus.len() > taken.len());
    spare.then_some(Remedy::AnotherCpu).into_iter().chain([Remedy::FixedRate]).collect()
}
