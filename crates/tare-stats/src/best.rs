//! Which of several forms is the best, if that can be told: the leader against every other, and when that may be looked
//! at.
//!
//! A search for the best may end because of what it found, which [`crate::precise_enough`] never does. So it looks
//! seldom, and each look pays for all of them: with k arms and L looks, the leader is called the best when its lead
//! over each of the k - 1 others is beyond a one-sided Student quantile of 1 - 5 % / (k L) (Bonferroni), with the error
//! of these two arms' own differences. Of equals any of the k may lead, and each one's lead over any other is as rare
//! as that: so one of them is called the best in at most one of twenty searches, however many blocks these have.

use crate::analyse::analyse;
use crate::analysis::Analysis;
use crate::bound::Bound;
use crate::estimate::block_logs;
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::paired::{BlockLogs, Differences};
use serde::Serialize;
use tare_core::plan::{blocks, rounds_after};
use tare_core::record::Record;

/// The best of several forms, as far as it can be told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contest {
    /// The metric that decides.
    pub metric: String,
    /// The form that did best.
    pub leader: String,
    /// Whether it is better than every other; of equals, one is called so in at most 1 of 20 searches.
    pub decided: bool,
    /// Why nothing may be said, whatever the figures.
    #[serde(rename = "withheld_data")]
    pub withheld: Option<NoContest>,
    /// The leader against each other form, in the order of the study.
    pub leads: Vec<Lead>,
    /// Forms that were not measured often enough to take part.
    pub left_out: Vec<String>,
    /// In how many blocks all were measured.
    pub blocks: u32,
}

/// Why a contest decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NoContest {
    /// Forms were measured under emulation, which says nothing of the real thing.
    Emulated,
    /// The A/A control differs: the machine was not the same from trial to trial.
    ControlDiffers,
    /// The trials of a form are void more often than the others'.
    VoidTooOften {
        /// The form.
        arm: String,
    },
}

/// The leader against one other form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lead {
    /// The other one.
    pub over: String,
    /// The leader's metric by the other's.
    pub ratio: f64,
    /// Where the truth lies, where the ratio is only a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// Its interval, wide enough for all comparisons and looks together; none below 3 blocks.
    pub interval: Option<Interval>,
    /// Whether the leader is better, beyond interval and noise floor; of a bound, whether the truth lies farther off
    /// still.
    pub clear: bool,
    /// The difference, as a share, that a search like this would have been sure of in four of five cases; none of a
    /// bound.
    pub smallest_detectable: Option<f64>,
}

/// Whether a search that has done so many blocks may look at who leads: after 6, 8, 12, 16, 24, 32 and so on, as a lead
/// half as large takes four times as long to find.
pub fn is_lead_look(blocks: u32) -> bool {
    let odd = blocks >> blocks.trailing_zeros().min(31);
    blocks >= 6 && (odd == 1 || odd == 3)
}

/// How often a search of at most so many blocks looks, with the look at its end.
fn looks(blocks: u32) -> u32 {
    (1..blocks).filter(|blocks| is_lead_look(*blocks)).count() as u32 + 1
}

/// Whether one form is better than every other, beyond chance, in the metric that the study's design names. False where
/// it names none.
pub fn decided(record: &Record) -> bool {
    let metric = record.header.study.design.best_in.as_deref();
    metric.and_then(|metric| contest(record, metric)).is_some_and(|contest| contest.decided)
}

/// Who leads in `metric`. None where fewer than two forms were measured together.
pub fn contest(record: &Record, metric: &str) -> Option<Contest> {
    let plan = &record.header.plan;
    let rounds = blocks(plan).checked_sub(1).map_or(0, |last| rounds_after(plan, &record.header.study, last));
    contest_of(&analyse(record), metric, looks(rounds.max(1)))
}

fn contest_of(analysis: &Analysis, metric: &str, looks: u32) -> Option<Contest> {
    let metric = analysis.metrics.iter().find(|known| known.name == metric)?;
    let of = |arm: &str| metric.estimates.iter().find(|estimate| estimate.arm == arm).map(block_logs);
    let forms = || analysis.arms.iter().filter(|arm| !arm.control);
    let arms: Vec<(&str, BlockLogs)> = forms().filter_map(|arm| Some((arm.name.as_str(), of(&arm.name)?))).collect();
    let enough = |logs: &BlockLogs| 2 * logs.len() >= arms.iter().map(|(_, logs)| logs.len()).max().unwrap_or(0);
    let (arms, few): (Vec<_>, Vec<_>) = arms.iter().partition(|(_, logs)| enough(logs));
    let missing = forms().filter(|arm| of(&arm.name).is_none()).map(|arm| arm.name.clone());
    let left_out = few.iter().map(|(arm, _)| (*arm).to_owned()).chain(missing).collect();
    let common: Vec<u32> =
        arms.first()?.1.keys().copied().filter(|block| arms.iter().all(|(_, logs)| logs.contains_key(block))).collect();
    if arms.len() < 2 || common.is_empty() {
        return None;
    }
    let sign = if metric.more_is_better { 1.0 } else { -1.0 };
    let score = |logs: &BlockLogs| sign * common.iter().map(|block| logs[block]).sum::<f64>();
    let (leader, best) = *arms.iter().max_by(|a, b| score(&a.1).total_cmp(&score(&b.1)))?;
    let others: Vec<&&(&str, BlockLogs)> = arms.iter().filter(|(arm, _)| arm != leader).collect();
    // The leader was chosen for its lead: any of the arms might have been.
    let level = 1.0 - (1.0 - CONFIDENCE) / f64::from(arms.len() as u32 * looks);
    let lead = |(over, logs): &(&str, BlockLogs)| {
        let differences = Differences::of(best, logs);
        let precision = differences.precision(level).map(|precision| metric.claim.elsewhere(precision));
        let (mean, floor) = (sign * differences.mean(), metric.noise_floor.map(f64::ln_1p));
        let bound = metric.bound(leader, over);
        let carried = bound.is_none_or(|bound| bound.carries(differences.mean()));
        Lead {
            over: (*over).to_owned(),
            ratio: differences.mean().exp(),
            bound,
            interval: precision.map(|precision| precision.interval(differences.mean())),
            clear: carried && precision.zip(floor).is_some_and(|(p, floor)| mean > p.half_width() && mean > floor),
            smallest_detectable: precision
                .filter(|_| bound.is_none())
                .map(|p| p.smallest_detectable().max(floor.unwrap_or(0.0)).exp_m1()),
        }
    };
    let leads: Vec<Lead> = others.iter().map(|other| lead(other)).collect();
    let withheld = withheld(analysis, metric.control_differs);
    Some(Contest {
        metric: metric.name.clone(),
        leader: (*leader).to_owned(),
        decided: withheld.is_none() && leads.iter().all(|lead| lead.clear),
        withheld,
        leads,
        left_out,
        blocks: common.len() as u32,
    })
}

fn withheld(analysis: &Analysis, control_differs: bool) -> Option<NoContest> {
    if analysis.arms.iter().any(|arm| analysis.emulated(arm)) {
        return Some(NoContest::Emulated);
    }
    if control_differs {
        return Some(NoContest::ControlDiffers);
    }
    let voided = analysis.arms.iter().find(|arm| arm.void_p.is_some());
    voided.map(|arm| NoContest::VoidTooOften { arm: arm.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_come_seldom_and_twice_in_each_doubling() {
        let all: Vec<u32> = (0..100).filter(|blocks| is_lead_look(*blocks)).collect();
        assert_eq!(all, [6, 8, 12, 16, 24, 32, 48, 64, 96]);
        // The end of a search is a look of its own, wherever it comes.
        assert_eq!([1, 5, 6, 7, 32].map(looks), [1, 1, 1, 2, 6]);
    }
}
