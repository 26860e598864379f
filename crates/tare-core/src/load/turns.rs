//! Closed loops that take turns, and their results.

use super::LoadPlan;
use crate::held::Held;
use crate::telemetry::Scope;
use serde::{Deserialize, Serialize};
use std::ops::Add;
use std::time::Duration;

/// Closed loops that take turns: each keeps its connections, and only one works at a time. In a plan with turns,
/// `settle` is the time in which all of them warm up by turns, and `measure` is how long each works after that.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Turns {
    /// How long a turn is, from its first start until nothing more is started; none leaves it to the load, which takes
    /// ten response times of the slowest loop.
    pub slice: Option<Duration>,
    /// If it is left to the load: the shortest it may be.
    #[serde(default)]
    pub at_least: Option<Duration>,
    /// Turns of several lengths instead of one: from the length that the load would choose up to this one, so that
    /// their rates can be compared ([`LoadSummary::lengths`](super::LoadSummary::lengths)).
    #[serde(default)]
    pub compared_to: Option<Duration>,
    /// The plans of the others.
    pub beside: Vec<LoadPlan>,
    /// What serves each of the loads, its own first, if that is to be frozen while another has its turn; otherwise
    /// empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Vec<Held>>,
    /// What serves each of the loads, its own first, if the CPU time that it uses during each load's turns is to be
    /// counted; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serving: Vec<Vec<Scope>>,
}

/// The CPU time that something used during the turns of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnUse {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// The length of the turns in which it was counted, each until the next one began, ns.
    pub during_ns: u64,
}

impl Add for TurnUse {
    type Output = TurnUse;

    fn add(self, other: TurnUse) -> TurnUse {
        TurnUse { cpu_ns: self.cpu_ns + other.cpu_ns, during_ns: self.during_ns + other.during_ns }
    }
}

impl TurnUse {
    /// Whether nothing was counted.
    pub fn is_none(&self) -> bool {
        *self == TurnUse::default()
    }

    /// What was added since an earlier count.
    pub fn since(self, earlier: TurnUse) -> TurnUse {
        TurnUse {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            during_ns: self.during_ns.saturating_sub(earlier.during_ns),
        }
    }
}

/// Consecutive turns of a load within a quarter of a second, or a single longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnSpan {
    /// When the first of them began: CLOCK_MONOTONIC of this machine, ns.
    pub from_ns: u64,
    /// When the last of them ended.
    pub to_ns: u64,
    /// Replies in them, of any kind.
    pub answers: u64,
    /// How long all of them took in total, each from its first start to its last answer, ns.
    pub active_ns: u64,
    /// What everything that serves the load used in them, in those where it was counted.
    #[serde(default, skip_serializing_if = "TurnUse::is_none")]
    pub used: TurnUse,
}

impl Turns {
    /// How much longer than twice its `measure` the turns of one load may take in total: for what is not answered, and
    /// for the turns that each length must have if several are compared.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(if self.compared_to.is_some() { 30 } else { 5 })
    }
}

/// The result of the turns of one load.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnsSummary {
    /// How many counted.
    pub turns: u32,
    /// How long each was meant to be on average, ns.
    pub slice_ns: u64,
    /// How long all of them took in total, each from its first start to its last answer, ns: the time over which
    /// operations are counted.
    pub active_ns: u64,
    /// Replies in them, of any kind; 0 in records that do not say.
    #[serde(default)]
    pub answers: u64,
    /// The longest of them, ns.
    #[serde(default)]
    pub longest_ns: u64,
    /// When the longest of them began: CLOCK_MONOTONIC of this machine, ns. None in records that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_at_ns: Option<u64>,
    /// How much longer a turn took than its operations would at the rate in its middle, where all connections work: the
    /// cost of starting a loop that has rested and of waiting for its last answers. The mean over turns, ns, without
    /// those that took more than three times as long as the median one; none if turns hold too few operations to tell.
    #[serde(default)]
    pub move_ns: Option<i64>,
    /// By how much faster answers came in the second halves of turns than in the first, as a share, while the loop was
    /// running: the effect of what was still warming up after each move. None if turns hold too few operations to tell,
    /// or had several lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming: Option<f64>,
    /// Whether it is this load whose turns cannot tell what moves cost: the cost is then not given for the loads beside
    /// it either.
    #[serde(default, skip_serializing_if = "is_false")]
    pub untold: bool,
    /// The mean time it took before each turn to freeze what served the last one and to thaw what serves this one, ns.
    /// It is not in any turn's time. None if nothing was frozen, or not before every turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze_ns: Option<u64>,
}

impl TurnsSummary {
    /// The time of the turns without the cost of moves, ns: what a loop that never rests would have taken for the same
    /// operations. Stalls longer than three turns are included in full. A loop that warms up or slows down within its
    /// turns is taken to be as fast throughout as in their second halves: if these are faster by a share w, the rate of
    /// both halves together is (1 + w / 2) / (1 + w) of theirs.
    pub fn steady_ns(&self) -> u64 {
        let moves_ns = self.move_ns.unwrap_or(0).saturating_mul(i64::from(self.turns));
        // Moves never take most of a turn, unless the figure is nonsense; nor is one half that much faster than the
        // other.
        let amid = self.active_ns.saturating_add_signed(-moves_ns);
        let amid = amid.clamp(self.active_ns / 2, self.active_ns.saturating_mul(2));
        let faster = self.warming.unwrap_or(0.0).clamp(-0.5, 1.0);
        (amid as f64 * (1.0 + faster / 2.0) / (1.0 + faster)) as u64
    }

    /// These turns and others of the same load, combined.
    pub fn and(&self, other: &TurnsSummary) -> TurnsSummary {
        let turns = self.turns + other.turns;
        // A mean over all of them; if one cannot tell, the combination cannot either.
        let mean = |own: i128, others: i128| {
            (own * i128::from(self.turns) + others * i128::from(other.turns)) / i128::from(turns.max(1))
        };
        let moves_ns = self.move_ns.zip(other.move_ns);
        let warmings = self.warming.zip(other.warming);
        let freezes = self.freeze_ns.zip(other.freeze_ns);
        let share = |own: f64, others: f64| {
            (own * f64::from(self.turns) + others * f64::from(other.turns)) / f64::from(turns.max(1))
        };
        TurnsSummary {
            turns,
            slice_ns: mean(self.slice_ns.into(), other.slice_ns.into()) as u64,
            active_ns: self.active_ns + other.active_ns,
            answers: self.answers + other.answers,
            longest_ns: self.longest_ns.max(other.longest_ns),
            longest_at_ns: if self.longest_ns < other.longest_ns { other } else { self }.longest_at_ns,
            move_ns: moves_ns.map(|(own, others)| mean(own.into(), others.into()) as i64),
            warming: warmings.map(|(own, others)| share(own, others)),
            untold: self.untold || other.untold,
            freeze_ns: freezes.map(|(own, others)| mean(own.into(), others.into()) as u64),
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// How fast a load was in turns of one length, where turns of several lengths alternated.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnLength {
    /// How long a turn was meant to be, ns.
    pub slice_ns: u64,
    /// By cycle, each of which has turns of every length: replies a second in the middle of turns of this length,
    /// without the cost of moving into a turn. None if they held too few operations to tell.
    pub rates: Vec<Option<f64>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::LoadSummary;

    #[test]
    fn spans_are_read_as_they_were_written_and_older_records_have_none() {
        let used = TurnUse { cpu_ns: 7_000, during_ns: 9_000 };
        let counted = TurnSpan { from_ns: 1, to_ns: 250_000_000, answers: 80, active_ns: 40_000_000, used };
        let uncounted = TurnSpan { used: TurnUse::default(), ..counted };
        let load = LoadSummary { spans: vec![counted, uncounted], ..LoadSummary::default() };
        let mut written = serde_json::to_value(&load).unwrap();
        assert!(written["spans"][0]["used"].is_object() && written["spans"][1].get("used").is_none(), "{written:#}");
        assert_eq!(serde_json::from_value::<LoadSummary>(written.clone()).unwrap(), load);
        written.as_object_mut().unwrap().remove("spans");
        assert_eq!(serde_json::from_value::<LoadSummary>(written).unwrap(), LoadSummary::default());
        assert_eq!(used.since(TurnUse { cpu_ns: 2_000, during_ns: 9_500 }), TurnUse { cpu_ns: 5_000, during_ns: 0 });
    }

    #[test]
    fn the_steady_time_is_that_of_second_halves() {
        let turns = TurnsSummary { turns: 100, active_ns: 1_100_000, move_ns: Some(1_000), ..TurnsSummary::default() };
        assert_eq!(turns.steady_ns(), 1_000_000);
        // Half of it at 1000 answers a second and half at 1500: at 1500 all along, these take five sixths of the time.
        let warmer = TurnsSummary { warming: Some(0.5), ..turns };
        assert_eq!(warmer.steady_ns(), 833_333);
        let slower = TurnsSummary { warming: Some(-0.2), ..turns };
        assert_eq!(slower.steady_ns(), 1_125_000);
        let nonsense = TurnsSummary { warming: Some(-1.0), move_ns: Some(9_000), ..turns };
        assert_eq!(nonsense.steady_ns(), 550_000 * 3 / 2);
    }
}
