//! Trials that do not count, and what follows from them: blocks that were run again, the trials that are left, forms
//! that are void too often.

use crate::counts::fisher_p;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::record::{Record, TrialData};
use tare_core::trial::Outcome;

/// Below this p, shared out over the arms, a form is void more often than the others.
const OFTENER_P: f64 = 0.05;

/// The blocks of a record that comparisons leave out: those with a void or failed trial that were run again, and whose
/// second run is whole. Which blocks these are depends on outcomes only, never on a figure.
pub(crate) fn replaced_blocks(record: &Record) -> BTreeSet<u32> {
    let mut measured: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for trial in record.trials.iter().filter(|trial| trial.record.outcome == Outcome::Measured) {
        measured.entry(trial.record.trial.block).or_default().insert(trial.record.trial.arm());
    }
    let arms_of = |block: u32| measured.get(&block).cloned().unwrap_or_default();
    let again = record.trials.iter().filter_map(|trial| Some((trial.record.trial.again?, trial.record.trial.block)));
    // A second run that brought no more than the first is no better.
    again.filter(|(of, block)| arms_of(*block).is_superset(&arms_of(*of))).map(|(of, _)| of).collect()
}

/// Trials that were measured, without those of blocks that were run again.
pub(crate) fn counted(record: &Record) -> Vec<&TrialData> {
    let replaced = replaced_blocks(record);
    measured(record).into_iter().filter(|trial| !replaced.contains(&trial.record.trial.block)).collect()
}

/// Trials that were measured, in their order.
pub(crate) fn measured(record: &Record) -> Vec<&TrialData> {
    let mut measured: Vec<&TrialData> =
        record.trials.iter().filter(|trial| trial.record.outcome == Outcome::Measured).collect();
    measured.sort_by_key(|trial| trial.record.trial.index);
    measured
}

/// The p of an arm being void or failed as often as it was, against all the other arms together. None when that is
/// what chance does, or when the others are. A service that ended by itself is no void trial but what the form came to.
pub(crate) fn void_too_often(record: &Record, arm: &str) -> Option<f64> {
    let (mut own, mut others) = ((0, 0), (0, 0));
    for trial in &record.trials {
        let counts = if trial.record.trial.arm() == arm { &mut own } else { &mut others };
        match trial.record.outcome {
            _ if trial.record.service_ended.is_some() => counts.1 += 1,
            Outcome::Measured => counts.1 += 1,
            Outcome::Invalid { .. } | Outcome::Failed { .. } => {
                counts.0 += 1;
                counts.1 += 1;
            }
            Outcome::Skipped { .. } => {}
        }
    }
    let arms: BTreeSet<String> = record.trials.iter().map(|trial| trial.record.trial.arm()).collect();
    oftener(own, others, OFTENER_P / arms.len().max(1) as f64)
}

/// The p of `own` hits among trials against those of `others`, if it is below `below` and its own share is the larger.
pub(crate) fn oftener(own: (u32, u32), others: (u32, u32), below: f64) -> Option<f64> {
    let larger = u64::from(own.0) * u64::from(others.1) > u64::from(others.0) * u64::from(own.1);
    let p = fisher_p(own.0, own.1, others.0, others.1);
    (larger && p < below).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_form_that_is_void_more_often_is_named() {
        assert!(oftener((4, 5), (0, 15), OFTENER_P).is_some());
        assert!(oftener((0, 15), (4, 5), OFTENER_P).is_none(), "the others are void, not this one");
        assert!(oftener((1, 5), (0, 15), OFTENER_P).is_none(), "once is chance");
    }
}
