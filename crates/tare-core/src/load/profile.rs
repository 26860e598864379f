//! How operations are started: the kinds of load, as data.

use super::distribution::Distribution;
use crate::units::{exact_duration, grouped};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How operations are started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadProfile {
    /// Each of `connections` keeps `pipeline` operations in flight: the next starts when one is answered.
    Closed {
        /// How many connections.
        connections: u32,
        /// Operations in flight on each.
        pipeline: u32,
    },
    /// Operations arrive at a rate, whether or not those before them were answered.
    Open {
        /// Arrivals a second.
        rate: f64,
        /// How the arrivals are spaced.
        arrivals: Arrivals,
        /// How many connections they share; an operation waits for a free one.
        connections: u32,
        /// The most operations that may have arrived and not been answered; one that arrives beyond that is dropped and
        /// counted.
        in_flight: u32,
    },
    /// Users who pause between operations.
    Users {
        /// How many.
        users: u32,
        /// Which operation comes next.
        behaviour: Behaviour,
        /// How long a user pauses.
        pause: Pause,
        /// Whose connections they use.
        connections: UserConnections,
        /// The time over which they arrive, one after the other.
        ramp: Duration,
    },
    /// One level after the other: of the rate, the users or the connections.
    Steps {
        /// The profile that has the levels; its own rate or number is the highest of them.
        of: Box<LoadProfile>,
        /// The levels.
        levels: Vec<f64>,
        /// The load before the first level, which counts nowhere.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warm: Option<WarmUp>,
        /// How long the change from one level to the next takes.
        ramp: Duration,
        /// How long each level holds before it counts.
        settle: Duration,
        /// How long each level is counted.
        measure: Duration,
    },
    /// Starts and operations as listed in a file.
    Replay {
        /// Lines of `SECONDS OPERATION`, in order of time. The path is relative to where the load process runs.
        file: PathBuf,
        /// How many connections they share.
        connections: u32,
        /// As for `Open`.
        in_flight: u32,
        /// How much faster than written; 1 means as written.
        speed: f64,
    },
    /// A level that is set from outside while the load runs.
    Guided {
        /// The profile that has the level; its own rate or number is the highest that can be requested.
        of: Box<LoadProfile>,
        /// The first level.
        start: f64,
    },
}

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// With exponential gaps, as from very many independent users.
    Poisson,
}

/// Which operation a user asks for next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// Drawn from the protocol's own mix.
    Mix,
    /// These, in this order, over and over.
    Sequence(Vec<String>),
    /// The next one depends on the last one.
    Markov {
        /// The first.
        start: String,
        /// By operation: what may follow it.
        next: BTreeMap<String, Followers>,
        /// Whether a user starts over after an operation that was not answered correctly.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        restarts: bool,
        /// By name: what goes on beside a user.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        companions: BTreeMap<String, Companion>,
    },
}

/// Something that goes on beside a user, as a page in a browser follows a price while its reader clicks elsewhere: it
/// has a connection of its own, starts with the user's values and then acts independently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Companion {
    /// A correct answer to one of these operations of the user starts one.
    pub after: Vec<String>,
    /// The most that go on beside one user.
    pub at_most: u32,
    /// Operations of the user that end them: what is in flight is awaited, and nothing follows it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub until: BTreeMap<String, Ending>,
    /// The first operation.
    pub start: String,
    /// By operation: what may follow it. An operation that nothing follows ends it.
    pub next: BTreeMap<String, Followers>,
    /// How long it pauses.
    pub pause: Pause,
    /// Values that are passed to the user after each of its correct answers: the user's name for each, and its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tells: BTreeMap<String, String>,
}

/// Which of a user's companions of a kind end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// All of them.
    All,
    /// The one that was started last.
    Newest,
}

/// What may follow an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Followers {
    /// Operations by weight.
    Weighted(BTreeMap<String, f64>),
    /// The first that fits the user. The last one fits every user.
    Fitting(Vec<Branch>),
}

impl Followers {
    /// Everything that may follow, with the weights within each group.
    pub fn weights(&self) -> Vec<&BTreeMap<String, f64>> {
        match self {
            Followers::Weighted(weights) => vec![weights],
            Followers::Fitting(branches) => branches.iter().map(|branch| &branch.to).collect(),
        }
    }
}

/// Operations that follow for users who meet conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// What must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// What must not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<Condition>,
    /// Operations by weight; none ends a companion.
    pub to: BTreeMap<String, f64>,
}

/// A condition on a user: on a value that an operation captured, or on how many of its companions of a kind go on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// The value's name, or the companions'.
    pub variable: String,
    /// That it is one of these; if no condition is given, that there is one.
    pub is: Vec<String>,
    /// That it is a number, at most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// That it equals the value of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same: Option<String>,
}

/// How long a user pauses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pause {
    /// From an answer to the next start.
    Think(Distribution),
    /// From one start to the next; an answer that takes longer delays the next start, and the lost time is not made up.
    Cycle(Distribution),
}

impl Pause {
    /// How long, whichever way it is counted.
    pub fn distribution(&self) -> &Distribution {
        match self {
            Pause::Think(distribution) | Pause::Cycle(distribution) => distribution,
        }
    }
}

/// Whose connections users use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UserConnections {
    /// Each has one, kept open.
    Own,
    /// All users share this many; an operation waits for a free one.
    Shared(u32),
    /// A new one for each operation.
    Fresh,
}

impl LoadProfile {
    /// The profile that has the level, if this one changes a level; otherwise itself.
    pub fn base(&self) -> &LoadProfile {
        match self {
            LoadProfile::Steps { of, .. } | LoadProfile::Guided { of, .. } => of,
            other => other,
        }
    }

    /// How long the profile itself lasts; none when the plan says how long.
    pub fn span(&self) -> Option<Duration> {
        match self {
            LoadProfile::Steps { levels, warm, ramp, settle, measure, .. } => {
                let first = warm.map_or(Duration::ZERO, |warm| warm.time(*ramp));
                Some(first + (*ramp + *settle + *measure).saturating_mul(levels.len() as u32))
            }
            _ => None,
        }
    }

    /// Whether it asks for the same load from beginning to end, so that throughput should be steady. Steps and searches
    /// change the level, and a recording has whatever rate it was recorded at.
    pub fn stays_level(&self) -> bool {
        match self {
            LoadProfile::Closed { .. } | LoadProfile::Open { .. } | LoadProfile::Users { .. } => true,
            LoadProfile::Steps { .. } | LoadProfile::Replay { .. } | LoadProfile::Guided { .. } => false,
        }
    }

    /// The most operations that each connection has in flight.
    pub fn pipeline(&self) -> u32 {
        match self.base() {
            LoadProfile::Closed { pipeline, .. } => *pipeline,
            _ => 1,
        }
    }

    /// In words: `closed load: 50 connections, pipeline 1`.
    pub fn describe(&self) -> String {
        match self {
            LoadProfile::Closed { connections, pipeline } => {
                format!("closed load: {connections} connections, pipeline {pipeline}")
            }
            LoadProfile::Open { rate, arrivals, connections, in_flight } => {
                let how = if *arrivals == Arrivals::Poisson { "Poisson" } else { "evenly spaced" };
                let rate = whole_grouped(*rate);
                format!(
                    "open load: {rate} operations a second, {how}, over {connections} connections, at most {in_flight} \
                     in flight"
                )
            }
            LoadProfile::Users { users, pause, connections, .. } => {
                let pause = match pause {
                    Pause::Think(think) => format!("think {}", think.describe()),
                    Pause::Cycle(cycle) => format!("cycle {}", cycle.describe()),
                };
                let whose = match connections {
                    UserConnections::Own => "a connection each".to_owned(),
                    UserConnections::Shared(connections) => format!("{connections} connections shared"),
                    UserConnections::Fresh => "a new connection for each operation".to_owned(),
                };
                format!("users: {users}, {pause}, {whose}")
            }
            LoadProfile::Steps { of, levels, warm, measure, .. } => {
                let levels: Vec<String> = levels.iter().map(|level| whole_grouped(*level)).collect();
                let warm = warm.map_or_else(String::new, |warm| {
                    format!(", after {} at {}", exact_duration(warm.hold), whole_grouped(warm.level))
                });
                format!("steps of {} each: {}{warm}; {}", exact_duration(*measure), levels.join(", "), of.describe())
            }
            LoadProfile::Replay { file, connections, speed, .. } => {
                format!("replay of {} at speed {speed}, over {connections} connections", file.display())
            }
            LoadProfile::Guided { of, .. } => format!("guided, at the most {}", of.describe()),
        }
    }
}

/// A load that warms a service up before anything counts: otherwise run-time compilation, cold caches or growing pools
/// would make the first levels look expensive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// The level, in the unit of the levels.
    pub level: f64,
    /// How long it is held.
    pub hold: Duration,
}

impl WarmUp {
    /// How long it takes, including the ramp to its level.
    pub fn time(&self, ramp: Duration) -> Duration {
        ramp + self.hold
    }
}

/// A level with all its digits, thousands grouped if it is whole.
fn whole_grouped(level: f64) -> String {
    if level.fract() == 0.0 { grouped(level) } else { level.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_told_to_their_last_digit() {
        let open = |rate| LoadProfile::Open { rate, arrivals: Arrivals::Poisson, connections: 9, in_flight: 99 };
        assert!(open(20_000.0).describe().starts_with("open load: 20,000 operations a second, Poisson"));
        assert!(open(1_000.25).describe().starts_with("open load: 1000.25 operations a second"));
    }
}
