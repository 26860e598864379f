//! What will be done, and in which order: randomised complete blocks, a pure function of the study and the seed.

use crate::draws::draws;
use crate::study::{Arm, Study};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One planned trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTrial {
    /// Its number in the run, from 0; it names its folder in the record.
    pub index: u32,
    /// Its block, from 0.
    pub block: u32,
    /// The form's name.
    pub form: String,
    /// Whether this is the baseline's second copy, the A/A control.
    pub control: bool,
    /// The block that this one runs again, because a trial of that one was void. Such blocks follow the planned ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<u32>,
    /// Whether it is profiled: such a trial never counts, and only its form's name and its number have a meaning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profiled: bool,
}

impl PlannedTrial {
    /// The arm it belongs to: the form's name, or for the control a name of its own.
    pub fn arm(&self) -> String {
        Arm { form: &self.form, control: self.control }.name()
    }
}

/// The name of the arm that repeats `baseline` as the A/A control.
pub fn control_arm(baseline: &str) -> String {
    Arm { form: baseline, control: true }.name()
}

/// The trials of a study, block by block: every form once, the baseline twice, in an order drawn from `seed`. Forms
/// named in `emulated` take part in the first [`Study::emulated_blocks`] blocks only.
///
/// In a duet every pair of a form and the baseline is a block of its own, and so is the pair of the baseline and its
/// control; there are [`Study::repeat`] rounds of these. If the baseline itself is emulated, nothing is left to pair
/// with after the rounds that it takes part in, and there are no more.
///
/// Where load is chopped, each form that cannot stand beside all others has a block of its own in a round, with the
/// baseline. The emulated ones share one such block. So what they take from the machine affects no other form.
pub fn plan(study: &Study, emulated: &[String], seed: u64) -> Vec<PlannedTrial> {
    let mut trials: Vec<PlannedTrial> = Vec::new();
    for arms in (0..study.repeat).flat_map(|round| study.round(round, emulated, seed)) {
        let block = trials.last().map_or(0, |trial| trial.block + 1);
        push_block(&mut trials, block, &arms);
    }
    trials
}

fn push_block(trials: &mut Vec<PlannedTrial>, block: u32, arms: &[Arm<'_>]) {
    for arm in arms {
        let (index, form) = (trials.len() as u32, arm.form.to_owned());
        trials.push(PlannedTrial { index, block, form, control: arm.control, again: None, profiled: false });
    }
}

/// The trials that are profiled, numbered separately from 0: one for each form, the baseline first. They belong to no
/// block and are in no plan because profiling slows them down.
pub fn plan_profiles(study: &Study) -> Vec<PlannedTrial> {
    let trial = |(index, form)| PlannedTrial {
        index: index as u32,
        block: 0,
        form,
        control: false,
        again: None,
        profiled: true,
    };
    study.profiled().into_iter().enumerate().map(trial).collect()
}

/// How many blocks a plan has.
pub fn blocks(plan: &[PlannedTrial]) -> u32 {
    plan.iter().map(|trial| trial.block + 1).max().unwrap_or(0)
}

/// How many earlier blocks of a plan are of the kind of `block`: those that have an arm of it besides the baseline,
/// which may be in every block of a round.
pub fn nth_of_its_kind(plan: &[PlannedTrial], baseline: &str, block: u32) -> u32 {
    let tells = |trial: &&PlannedTrial| trial.control || trial.form != baseline;
    let arm = |trial: &PlannedTrial| (trial.form.clone(), trial.control);
    let own: BTreeSet<(String, bool)> =
        plan.iter().filter(|trial| trial.block == block).filter(tells).map(arm).collect();
    let earlier = plan.iter().filter(|trial| trial.block < block).filter(tells);
    let alike = earlier.filter(|trial| own.contains(&arm(trial))).map(|trial| trial.block);
    alike.collect::<BTreeSet<u32>>().len() as u32
}

/// How many rounds are complete once `block` is: in each, every arm that takes part was measured once. 0 in the middle
/// of a round, as between the pairs of a duet.
pub fn rounds_after(plan: &[PlannedTrial], study: &Study, block: u32) -> u32 {
    // The baseline may be in every block of a round, as in a duet; its control is in one of them.
    let counts = |trial: &&PlannedTrial| trial.control || trial.form != study.baseline;
    let mut arms: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for trial in plan.iter().filter(counts) {
        let (so_far, in_all) = arms.entry(trial.arm()).or_default();
        *so_far += u32::from(trial.block <= block);
        *in_all += 1;
    }
    let rounds = arms.values().map(|(so_far, _)| *so_far).max().unwrap_or(0);
    // An arm may take part in only the first rounds, as an emulated one does.
    if arms.values().all(|(so_far, in_all)| *so_far == rounds.min(*in_all)) { rounds } else { 0 }
}

/// The trials that run block `of` again, as block `block`, numbered from `index`: the same arms in a newly drawn order.
pub fn plan_again(plan: &[PlannedTrial], of: u32, block: u32, index: u32, seed: u64) -> Vec<PlannedTrial> {
    let mut trials: Vec<PlannedTrial> = plan.iter().filter(|trial| trial.block == of).cloned().collect();
    draws(seed, block).shuffle(&mut trials);
    for (at, trial) in trials.iter_mut().enumerate() {
        (trial.index, trial.block, trial.again) = (index + at as u32, block, Some(of));
    }
    trials
}

/// The order in which the `arms` deployments of block `block` get their slices of load: every deployment once in each
/// of `rounds` rounds, in an order drawn from `seed`.
pub fn slice_order(arms: usize, rounds: u32, block: u32, seed: u64) -> Vec<usize> {
    // A different stream from that of the block's own order.
    let mut draws = draws(!seed, block);
    let round = |_| {
        let mut order: Vec<usize> = (0..arms).collect();
        draws.shuffle(&mut order);
        order
    };
    (0..rounds).flat_map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::{Arrangement, Chop};
    use crate::form::Form;
    use crate::load::LoadProfile;
    use proptest::prelude::*;
    use std::time::Duration;

    fn study(forms: usize, repeat: u32) -> Study {
        let load = LoadProfile::Closed { connections: 1, pipeline: 1 };
        let forms = (0..forms).map(|n| Form { name: format!("f{n}"), ..Form::default() }).collect();
        Study { repeat, settle: Duration::ZERO, measure: Duration::from_secs(1), ..Study::of("s", "w", load, forms) }
    }

    proptest! {
        #[test]
        fn every_block_is_complete_and_the_seed_decides(forms in 1usize..6, repeat in 1u32..8, seed: u64) {
            let study = study(forms, repeat);
            let trials = plan(&study, &[], seed);
            prop_assert_eq!(&trials, &plan(&study, &[], seed));
            for block in 0..repeat {
                let mut arms: Vec<String> = trials.iter().filter(|t| t.block == block).map(|t| t.arm()).collect();
                arms.sort();
                let mut wanted: Vec<String> = study.forms.iter().map(|form| form.name.clone()).collect();
                wanted.push(control_arm("f0"));
                wanted.sort();
                prop_assert_eq!(arms, wanted);
            }
        }
    }

    #[test]
    fn chopped_each_group_of_a_round_has_the_baseline_and_one_its_control() {
        let mut study = study(5, 3);
        study.design.arrangement = Arrangement::Chop(Chop { apart: vec!["f2".to_owned()], ..Chop::default() });
        let trials = plan(&study, &["f3".to_owned(), "f4".to_owned()], 5);
        let mut found: Vec<Vec<String>> = (0..blocks(&trials))
            .map(|block| {
                let mut arms: Vec<String> =
                    trials.iter().filter(|trial| trial.block == block).map(PlannedTrial::arm).collect();
                arms.sort();
                arms
            })
            .collect();
        found.sort();
        let of = |arms: &[&str]| arms.iter().map(|arm| (*arm).to_owned()).collect::<Vec<_>>();
        let (together, alone) = (of(&["f0", "f0 (A/A)", "f1"]), of(&["f0", "f2"]));
        let slow = of(&["f0", "f3", "f4"]);
        let wanted = [&together, &together, &together, &alone, &alone, &alone, &slow];
        assert_eq!(found, wanted.map(Clone::clone));
        // The emulated ones take part in the first round only, which is whole after three blocks.
        let rounds: Vec<u32> = (0..7).map(|block| rounds_after(&trials, &study, block)).collect();
        assert_eq!(rounds, [0, 0, 1, 0, 2, 0, 3]);
        // Within its kind each block has a number of its own.
        for (arms, count) in [(&together, 3), (&alone, 3), (&slow, 1)] {
            let arms: BTreeSet<String> = arms.iter().cloned().collect();
            let of_kind = (0..blocks(&trials)).filter(|block| {
                let own = trials.iter().filter(|trial| trial.block == *block).map(PlannedTrial::arm);
                own.collect::<BTreeSet<String>>() == arms
            });
            let numbers: Vec<u32> = of_kind.map(|block| nth_of_its_kind(&trials, "f0", block)).collect();
            assert_eq!(numbers, (0..count).collect::<Vec<u32>>(), "{arms:?}");
        }
    }

    #[test]
    fn a_duet_pairs_every_form_and_the_control_with_the_baseline() {
        let mut study = study(3, 4);
        study.design.arrangement = Arrangement::Duet;
        let trials = plan(&study, &[], 5);
        assert_eq!((trials.len(), blocks(&trials)), (24, 12));
        let mut partners: Vec<String> = Vec::new();
        for pair in trials.chunks(2) {
            assert_eq!(pair[0].block, pair[1].block);
            assert!(pair.iter().any(|trial| trial.arm() == "f0"));
            partners.extend(pair.iter().map(PlannedTrial::arm).filter(|arm| arm != "f0"));
        }
        assert_eq!(partners.iter().filter(|arm| *arm == "f1").count(), 4);
        assert_eq!(partners.iter().filter(|arm| *arm == "f0 (A/A)").count(), 4);
        // Which of the two comes first, and with it which CPUs it gets, is drawn.
        let first = trials.chunks(2).filter(|pair| pair[0].arm() == "f0").count();
        assert!((1..12).contains(&first));
    }

    #[test]
    fn a_block_run_again_has_the_same_arms_and_numbers_of_its_own() {
        let trials = plan(&study(3, 2), &["f2".to_owned()], 7);
        let again = plan_again(&trials, 0, 2, trials.len() as u32, 7);
        let arms = |trials: &[PlannedTrial], block| {
            let mut arms: Vec<String> = trials.iter().filter(|t| t.block == block).map(|t| t.arm()).collect();
            arms.sort();
            arms
        };
        assert_eq!(arms(&again, 2), arms(&trials, 0));
        assert_eq!(again.iter().map(|trial| trial.index).collect::<Vec<_>>(), [7, 8, 9, 10]);
        assert!(again.iter().all(|trial| trial.again == Some(0)));
    }

    #[test]
    fn slices_go_round_in_random_order() {
        let order = slice_order(3, 50, 4, 9);
        assert_eq!(order.len(), 150);
        assert!(order.chunks(3).all(|round| (0..3).all(|arm| round.contains(&arm))));
        assert!(order.chunks(3).any(|round| round != &order[..3]));
        assert_eq!(order, slice_order(3, 50, 4, 9));
        assert_ne!(order, slice_order(3, 50, 5, 9));
    }

    #[test]
    fn orders_differ_between_blocks() {
        let trials = plan(&study(4, 20), &[], 7);
        let order = |block| -> Vec<String> { trials.iter().filter(|t| t.block == block).map(|t| t.arm()).collect() };
        assert!((1..20).any(|block| order(block) != order(0)));
    }

    #[test]
    fn an_emulated_form_takes_part_in_the_first_block_only() {
        let trials = plan(&study(3, 4), &["f2".to_owned()], 7);
        assert_eq!(trials.iter().filter(|trial| trial.form == "f2").map(|trial| trial.block).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn a_block_without_its_emulated_form_is_of_the_same_kind() {
        let trials = plan(&study(3, 4), &["f2".to_owned()], 7);
        assert_eq!((0..4).map(|block| nth_of_its_kind(&trials, "f0", block)).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let (alone, emulated) = (plan(&study(1, 3), &[], 7), plan(&study(3, 3), &["f0".to_owned()], 7));
        assert_eq!((nth_of_its_kind(&alone, "f0", 2), nth_of_its_kind(&emulated, "f0", 2)), (2, 2));
    }

    #[test]
    fn an_emulated_baseline_takes_its_control_and_its_pairs_along() {
        let emulated = ["f0".to_owned()];
        let arms = |trials: &[PlannedTrial], block: u32| -> Vec<String> {
            let mut arms: Vec<String> = trials.iter().filter(|t| t.block == block).map(|t| t.arm()).collect();
            arms.sort();
            arms
        };
        let mut study = study(3, 3);
        let trials = plan(&study, &emulated, 7);
        assert_eq!(arms(&trials, 0), ["f0", "f0 (A/A)", "f1", "f2"]);
        assert_eq!(
            (arms(&trials, 1), arms(&trials, 2)),
            (vec!["f1".into(), "f2".into()], vec!["f1".into(), "f2".into()])
        );
        study.design.arrangement = Arrangement::Duet;
        let trials = plan(&study, &emulated, 7);
        assert_eq!((trials.len(), blocks(&trials)), (6, 3), "one round of three pairs");
    }

    #[test]
    fn rounds_are_counted_when_they_are_whole() {
        let mut study = study(3, 8);
        let emulated = ["f2".to_owned()];
        let rounds = |study: &Study| -> Vec<u32> {
            let trials = plan(study, &emulated, 7);
            (0..blocks(&trials)).map(|block| rounds_after(&trials, study, block)).collect()
        };
        assert_eq!(rounds(&study), [1, 2, 3, 4, 5, 6, 7, 8]);
        // The first round has three pairs, the others two: 17 blocks, of which 17 / 8 would say nothing.
        study.design.arrangement = Arrangement::Duet;
        assert_eq!(rounds(&study), [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8]);
    }
}
