//! Closed loops that take turns, and what they come to.

use super::LoadPlan;
use crate::held::Held;
use crate::telemetry::Scope;
use serde::{Deserialize, Serialize};
use std::ops::Add;
use std::time::Duration;

/// Closed loops that take turns: each holds its connections, and one at a time is at work. Of a plan with turns,
/// `settle` is the time in which all of them warm up by turns, and `measure` how long each is at work after that.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Turns {
    /// How long a turn is, from its first start until nothing is started any more; none leaves it to the load, which
    /// takes ten response times of the slowest loop.
    pub slice: Option<Duration>,
    /// Where it is left to the load: no shorter than this.
    #[serde(default)]
    pub at_least: Option<Duration>,
    /// Instead of turns of one length: such of several, from the one that the load would take up to this one, so that
    /// the rates in them can be compared ([`LoadSummary::lengths`](super::LoadSummary::lengths)).
    #[serde(default)]
    pub compared_to: Option<Duration>,
    /// The plans of the others.
    pub beside: Vec<LoadPlan>,
    /// What serves each of the loads, the own first, where that is to be frozen while another has its turn; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Vec<Held>>,
    /// What serves each of the loads, the own first, where the CPU time is to be counted that it uses in the turns of
    /// each load; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serving: Vec<Vec<Scope>>,
}

/// What something used of the CPUs in the turns of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnUse {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// How long the turns were in which it was counted, each until the next one began, ns.
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

    /// What came on top of an earlier count.
    pub fn since(self, earlier: TurnUse) -> TurnUse {
        TurnUse {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            during_ns: self.during_ns.saturating_sub(earlier.during_ns),
        }
    }
}

/// Turns of a load that follow each other within a quarter of a second, or a single longer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnSpan {
    /// When the first of them began: CLOCK_MONOTONIC of this machine, ns.
    pub from_ns: u64,
    /// When the last of them ended.
    pub to_ns: u64,
    /// Replies in them, of whatever kind.
    pub answers: u64,
    /// How long all of them took together, each from its first start to its last answer, ns.
    pub active_ns: u64,
    /// What all that serves the load used in them, in as many of them as it was counted in.
    #[serde(default, skip_serializing_if = "TurnUse::is_none")]
    pub used: TurnUse,
}

impl Turns {
    /// How much longer than twice its `measure` the turns of one load may take in all: for what is not answered, and
    /// for as many turns of each length as there must be where several are compared.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(if self.compared_to.is_some() { 30 } else { 5 })
    }
}

/// What the turns of one load came to.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnsSummary {
    /// How many there were that count.
    pub turns: u32,
    /// How long each was meant to be on average, ns.
    pub slice_ns: u64,
    /// How long all of them took together, each from its first start to its last answer, ns: the time over which
    /// operations are counted.
    pub active_ns: u64,
    /// Replies in them, of whatever kind; 0 in records that do not say.
    #[serde(default)]
    pub answers: u64,
    /// The longest of them, ns.
    #[serde(default)]
    pub longest_ns: u64,
    /// When the longest of them began: CLOCK_MONOTONIC of this machine, ns. None in records that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_at_ns: Option<u64>,
    /// How much longer a turn took than its operations take in its midst, where all connections are at work: what it
    /// costs to start a loop that has rested and to wait for its last answers. The mean of
    /// turns, ns, but for those that took more than three times as long as the median one; none where turns hold too
    /// few operations to tell.
    #[serde(default)]
    pub move_ns: Option<i64>,
    /// By which share answers came faster in the second halves of turns than in the first ones, while the loop was
    /// going: what still got warm after each move. None where turns hold too few operations to tell, or had several
    /// lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming: Option<f64>,
    /// Whether it is this load whose turns cannot tell what moves cost: then none of those beside it is told either.
    #[serde(default, skip_serializing_if = "is_false")]
    pub untold: bool,
    /// What it took before each turn to freeze what served the last one and to let run what serves this one, ns: the
    /// mean. It is in no turn's time. None where nobody was frozen, or not before every turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze_ns: Option<u64>,
}

impl TurnsSummary {
    /// The time of the turns without what the moves cost, ns: what a loop that never rests would have taken for the
    /// same operations. Stalls longer than three turns are in it, whole. A loop that gets warm or slow amid its turns
    /// is taken to be as fast all along as in their second halves: of a share w by which these are faster, the rate of
    /// both together is (1 + w / 2) / (1 + w) of theirs.
    pub fn steady_ns(&self) -> u64 {
        let moves_ns = self.move_ns.unwrap_or(0).saturating_mul(i64::from(self.turns));
        // A turn is never mostly move, unless the figure is nonsense; nor is one half so much faster than the other.
        let amid = self.active_ns.saturating_add_signed(-moves_ns);
        let amid = amid.clamp(self.active_ns / 2, self.active_ns.saturating_mul(2));
        let faster = self.warming.unwrap_or(0.0).clamp(-0.5, 1.0);
        (amid as f64 * (1.0 + faster / 2.0) / (1.0 + faster)) as u64
    }

    /// These turns and others of the same load as one.
    pub fn and(&self, other: &TurnsSummary) -> TurnsSummary {
        let turns = self.turns + other.turns;
        // A mean over all of them; where one cannot tell, nobody can.
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

/// How fast a load was in turns of one length, where turns of several took turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TurnLength {
    /// How long a turn was meant to be, ns.
    pub slice_ns: u64,
    /// By cycle, each of which has turns of every length: replies a second amid turns of this one, without what the
    /// move into a turn costs. None where they held too few operations to tell.
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
