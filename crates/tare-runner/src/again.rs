//! Which blocks are run again: those with a trial that does not count. Only outcomes decide, never figures. That a
//! service ended by itself, at its start or under load, is a result of its form, which a second run would hide.

use std::collections::{BTreeMap, BTreeSet};
use tare_core::record::TrialRecord;
use tare_core::trial::Outcome;

/// The share of the blocks that may be run again, per cent; at least one may.
const SHARE_MAX: u32 = 20;

/// How the trials of the run ended, by block.
#[derive(Default)]
pub(crate) struct Outcomes {
    /// By block: the arms whose trial was void or failed.
    void: BTreeMap<u32, BTreeSet<String>>,
    /// Arms that were measured at least once.
    measured: BTreeSet<String>,
    /// Blocks that were run again or are second runs.
    settled: BTreeSet<u32>,
    /// How many blocks were run again.
    again: u32,
    /// Blocks of the plan with a trial that was run.
    begun: BTreeSet<u32>,
}

impl Outcomes {
    /// Notes the outcome of a trial.
    pub(crate) fn note(&mut self, record: &TrialRecord) {
        let (block, arm) = (record.trial.block, record.trial.arm());
        match &record.outcome {
            Outcome::Measured => {
                self.measured.insert(arm);
            }
            Outcome::Invalid { .. } | Outcome::Failed { .. } if record.service_ended.is_none() => {
                self.void.entry(block).or_default().insert(arm);
            }
            Outcome::Invalid { .. } | Outcome::Failed { .. } | Outcome::Skipped { .. } => {}
        }
        match record.trial.again {
            Some(of) => {
                self.again += u32::from(self.settled.insert(of));
                self.settled.insert(block);
            }
            None => {
                self.begun.insert(block);
            }
        }
    }

    /// The next block to run again, if another may be. An arm that was never measured in any block is not expected to
    /// be measured the second time either.
    pub(crate) fn next(&self) -> Option<u32> {
        let allowed = (self.begun.len() as u32 * SHARE_MAX / 100).max(1);
        if self.again >= allowed {
            return None;
        }
        let worth = |arms: &BTreeSet<String>| arms.iter().any(|arm| self.measured.contains(arm));
        let mut open = self.void.iter().filter(|(block, arms)| !self.settled.contains(block) && worth(arms));
        open.next().map(|(block, _)| *block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::fault::Fault;
    use tare_core::plan::PlannedTrial;

    fn outcomes(blocks: u32, void: &[(u32, &str)]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for block in 0..blocks {
            for form in ["plain", "box"] {
                note(&mut outcomes, block, form, void.contains(&(block, form)), None);
            }
        }
        outcomes
    }

    fn note(outcomes: &mut Outcomes, block: u32, form: &str, void: bool, again: Option<u32>) {
        let trial = PlannedTrial { index: 0, block, form: form.into(), control: false, again, profiled: false };
        let outcome = if void { Outcome::Invalid { why: Fault::new("void") } } else { Outcome::Measured };
        outcomes.note(&TrialRecord::new(trial, String::new(), outcome));
    }

    #[test]
    fn a_fifth_of_the_blocks_may_be_run_again_and_at_least_one() {
        let mut few = outcomes(3, &[(0, "box"), (2, "plain")]);
        assert_eq!(few.next(), Some(0));
        note(&mut few, 3, "plain", false, Some(0));
        note(&mut few, 3, "box", true, Some(0));
        assert_eq!(few.next(), None, "one of three");
        let mut many = outcomes(10, &[(4, "box"), (7, "plain"), (8, "box")]);
        note(&mut many, 10, "plain", false, Some(4));
        assert_eq!(many.next(), Some(7));
        note(&mut many, 11, "plain", true, Some(7));
        assert_eq!(many.next(), None, "two of ten, and a second run is not run again");
    }

    #[test]
    fn a_service_that_ended_is_not_repeated_away() {
        let mut outcomes = outcomes(5, &[]);
        let trial =
            PlannedTrial { index: 0, block: 5, form: "box".into(), control: false, again: None, profiled: false };
        let why = Fault::new("service redis ended under load");
        let failed = Outcome::Failed { stage: tare_core::trial::Stage::Measure, why };
        let mut record = TrialRecord::new(trial, String::new(), failed);
        record.service_ended = Some("redis".into());
        outcomes.note(&record);
        assert_eq!(outcomes.next(), None);
        record.service_ended = None;
        outcomes.note(&record);
        assert_eq!(outcomes.next(), Some(5), "the load broke off, nobody knows why");
    }

    #[test]
    fn what_never_works_is_not_tried_again() {
        assert_eq!(outcomes(2, &[(0, "box"), (1, "box")]).next(), None);
        assert_eq!(outcomes(2, &[]).next(), None);
    }
}
