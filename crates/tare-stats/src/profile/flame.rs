//! Call stacks as a tree, with the baseline's beside them.

use super::Seen;
use std::collections::BTreeMap;
use tare_core::profile::Stack;
use tare_core::record::TrialData;

/// A function in one place of the stacks, with what it calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Flame {
    /// CPU time of it and what it calls, us per operation.
    pub us_per_op: f64,
    /// The baseline's in the same place.
    pub baseline_us_per_op: f64,
    /// What it calls, by name.
    pub calls: BTreeMap<String, Flame>,
}

impl Flame {
    fn add(&mut self, stack: &Stack, us: f64, to: fn(&mut Flame) -> &mut f64) {
        let mut place = self;
        *to(place) += us;
        for frame in &stack.frames {
            place = place.calls.entry(frame.clone()).or_default();
            *to(place) += us;
        }
    }
}

/// The stacks of a profiled trial, beside those of the baseline's where there is one. None where there are none.
pub fn flame(trial: &TrialData, baseline: Option<&TrialData>) -> Option<Flame> {
    let mut all = Flame::default();
    let here = Seen::of(trial).filter(|seen| seen.samples > 0)?;
    for stack in &here.profile.stacks {
        all.add(stack, stack.samples as f64 * here.us_per_sample, |flame| &mut flame.us_per_op);
    }
    if let Some(base) = baseline.and_then(Seen::of) {
        for stack in &base.profile.stacks {
            all.add(stack, stack.samples as f64 * base.us_per_sample, |flame| &mut flame.baseline_us_per_op);
        }
    }
    Some(all)
}
