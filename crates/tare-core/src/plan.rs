//! What will be done, in which order: randomised complete blocks, a pure function of the study and the seed.

use crate::study::Study;
use serde::{Deserialize, Serialize};

/// One trial to be.
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
}

impl PlannedTrial {
    /// The arm it belongs to: the form's name, and for the control a name of its own.
    pub fn arm(&self) -> String {
        if self.control { control_arm(&self.form) } else { self.form.clone() }
    }
}

/// The name of the arm that repeats `baseline` as A/A control.
pub fn control_arm(baseline: &str) -> String {
    format!("{baseline} (A/A)")
}

/// The trials of a study, block by block: every form once, the baseline twice, in an order drawn from `seed`.
/// Forms named in `emulated` take part in the first [`Study::emulated_blocks`] blocks only.
pub fn plan(study: &Study, emulated: &[String], seed: u64) -> Vec<PlannedTrial> {
    let mut trials: Vec<PlannedTrial> = Vec::new();
    for block in 0..study.repeat {
        let mut arms: Vec<(&str, bool)> = study
            .forms
            .iter()
            .filter(|form| block < study.emulated_blocks || !emulated.contains(&form.name))
            .map(|form| (form.name.as_str(), false))
            .collect();
        arms.push((&study.baseline, true));
        let mut draws = SplitMix64(seed ^ u64::from(block).wrapping_mul(0xA24B_AED4_963E_E407));
        // Fisher-Yates: every order is equally likely.
        for last in (1..arms.len()).rev() {
            let pick = (draws.next() % (last as u64 + 1)) as usize;
            arms.swap(last, pick);
        }
        for (form, control) in arms {
            trials.push(PlannedTrial { index: trials.len() as u32, block, form: form.to_owned(), control });
        }
    }
    trials
}

/// SplitMix64 (Steele, Lea & Flood, OOPSLA 2014): enough to draw an order, stable for ever.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Form;
    use crate::load::LoadProfile;
    use crate::study::LoadOrigin;
    use proptest::prelude::*;
    use std::time::Duration;

    fn study(forms: usize, repeat: u32) -> Study {
        Study {
            name: "s".into(),
            question: String::new(),
            workload: "w".into(),
            baseline: "f0".into(),
            repeat,
            at_most: None,
            from: LoadOrigin::Outside,
            load: LoadProfile::Closed { connections: 1, pipeline: 1 },
            settle: Duration::ZERO,
            measure: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            emulated_blocks: 1,
            forms: (0..forms).map(|n| Form { name: format!("f{n}"), layers: Vec::new() }).collect(),
            options: Default::default(),
            seed: None,
        }
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
}
