//! One metric over all arms: what each came to, and its ratio to the baseline with all that is said of it.

use crate::bound::{Bound, Lean};
use crate::claim::Claim;
use crate::components::Components;
use crate::estimate::Estimate;
use crate::family::Method;
use crate::interval::Interval;
use crate::nested::Nested;
use crate::verdict::{Verdict, Withheld, ratio_text};
use serde::Serialize;
use std::collections::BTreeMap;

/// One metric over all arms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricAnalysis {
    /// Its name.
    pub name: String,
    /// For readers.
    pub title: String,
    /// The unit.
    pub unit: String,
    /// Whether more is better.
    pub more_is_better: bool,
    /// Whether ratios and verdicts are made of it.
    pub compared: bool,
    /// What the check beside a trial's value is made of. The value itself is that of the whole time measured.
    pub nested: Nested,
    /// How the intervals of the forms' ratios were made.
    pub method: Method,
    /// How far from 1 the A/A control may lie: the end of its interval that is further from 1, as a share (0.021 is
    /// 2.1 %). No verdict inside. None when the control was measured in fewer than 3 blocks.
    pub noise_floor: Option<f64>,
    /// Whether the interval of the A/A control excludes 1: the machine or the apparatus treats identical forms
    /// differently.
    pub control_differs: bool,
    /// By arm whose figures are not what they seem: where the truth lies.
    #[serde(skip)]
    pub(crate) leans: BTreeMap<String, Lean>,
    /// What of its precision may be claimed, of a run that its width ended.
    #[serde(skip)]
    pub(crate) claim: Claim,
    /// By arm that was measured: its values.
    pub estimates: Vec<Estimate>,
    /// By arm that was measured in a block together with the baseline: its ratio; empty unless `compared`.
    pub ratios: Vec<Ratio>,
}

impl MetricAnalysis {
    /// What is known of the ratio of two arms, where it is not the ratio.
    pub fn bound(&self, arm: &str, against: &str) -> Option<Bound> {
        let lean = |arm: &str| self.leans.get(arm).copied().unwrap_or_default();
        Bound::of(lean(arm), lean(against), self.more_is_better)
    }

    /// Throughput, of which nothing is known but these: for tests.
    #[cfg(test)]
    pub(crate) fn of_throughput(estimates: Vec<Estimate>, ratios: Vec<Ratio>) -> MetricAnalysis {
        MetricAnalysis {
            name: "throughput".into(),
            title: "throughput".into(),
            unit: "op/s".into(),
            more_is_better: true,
            compared: true,
            nested: Nested::Whole,
            method: Method::OwnError,
            noise_floor: Some(0.01),
            control_differs: false,
            leans: BTreeMap::new(),
            claim: Claim::AS_IS,
            estimates,
            ratios,
        }
    }
}

/// An arm's ratio to the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// The arm.
    pub arm: String,
    /// The blocks it comes from.
    pub blocks: Vec<u32>,
    /// `exp(mean log difference)`.
    pub ratio: f64,
    /// On which side of it the truth lies, where no more is known. The interval is that of the ratio that is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
    /// The interval to quote: by [`MetricAnalysis::method`] for forms, Student's t for the A/A control. None below 3
    /// blocks, and where the form or the baseline is emulated.
    pub interval: Option<Interval>,
    /// Standard error of the mean log difference behind `interval`.
    pub standard_error: Option<f64>,
    /// Its degrees of freedom.
    pub degrees: Option<f64>,
    /// The same ratio by the Hodges-Lehmann estimate.
    pub hodges_lehmann: f64,
    /// Whether the two disagree by more than half the interval's half-width: the blocks are not near-normal, look at
    /// them.
    pub sensitive: bool,
    /// The same ratio by trimmed means of windows, slices or parts of turns ([`MetricAnalysis::nested`]); none where
    /// trials have none.
    pub trimmed: Option<f64>,
    /// Whether that differs from the ratio by more than half the interval's half-width, or there is none because a
    /// trial stood still for more windows than are left out: stalls or bursts decide, and the form is not called
    /// equivalent.
    pub trimming_differs: bool,
    /// What it varies by between deployments and within them; none where they were not measured in rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Components>,
    /// How it follows the speed of the machine, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// The smallest difference, as a share, that a run like this finds in four of five cases.
    pub smallest_detectable: Option<f64>,
    /// Whether no difference beyond [`crate::Analysis::margin`] is left to be found; none when nothing may be said.
    pub equivalent: Option<bool>,
    /// Where no difference was found: blocks, in all, that would narrow the interval down to the margin.
    pub blocks_needed: Option<u32>,
    /// Whether its own interval lies within the margin, but the A/A control's does not: then it is not called
    /// equivalent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub equals_beyond_margin: bool,
    /// What slices of a chopped load may have left in it; none where load took no turns, and of the A/A control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<LeftCold>,
    /// What stalls may have done to it, of throughput where no trimmed ratio stands beside it; none where the arm and
    /// the baseline did not stand still for so different shares of their time that it decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub still: Option<LeftStill>,
    /// What may be said.
    pub verdict: Verdict,
    /// Why nothing is said, whatever the figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

impl Ratio {
    /// Its interval, where it may be followed from run to run: a bound may not, nor a ratio whose verdict is withheld.
    pub fn followed(&self) -> Option<Interval> {
        let is_told = self.bound.is_none() && self.withheld.is_none() && self.verdict != Verdict::Withheld;
        self.interval.filter(|_| is_told)
    }

    /// Of an arm called box, in these blocks, of which nothing but the ratio is known and said: for tests.
    #[cfg(test)]
    pub(crate) fn of_box(ratio: f64, blocks: u32, verdict: Verdict) -> Ratio {
        Ratio {
            arm: "box".into(),
            blocks: (0..blocks).collect(),
            ratio,
            bound: None,
            interval: None,
            standard_error: None,
            degrees: None,
            hodges_lehmann: ratio,
            sensitive: false,
            trimmed: None,
            trimming_differs: false,
            parts: None,
            follows: None,
            smallest_detectable: None,
            equivalent: None,
            blocks_needed: None,
            verdict,
            equals_beyond_margin: false,
            cold: None,
            still: None,
            withheld: None,
        }
    }

    /// `0.87 [0.85, 0.89]`, with `<=` or `>=` before it where it is a bound.
    pub fn text(&self) -> String {
        let sign = self.bound.map_or("", |bound| bound.side.sign());
        format!("{sign}{}", ratio_text(self.ratio, self.interval))
    }
}

/// A ratio that follows the speed of the machine: what it is where the A/A control served slowest, and where fastest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Follows {
    /// In the slowest block.
    pub slow: AtSpeed,
    /// In the fastest.
    pub fast: AtSpeed,
}

/// A ratio at a speed of the machine, on the line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtSpeed {
    /// Throughput of the A/A control, op/s.
    pub throughput: f64,
    /// The ratio.
    pub ratio: f64,
}

/// What slices may have left in a form's ratio, of which its interval says nothing: it is cold in them, or works in
/// others' turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LeftCold {
    /// By which share the ratio may be off, either way; none where nobody knows.
    pub share: Option<f64>,
    /// Whether this alone keeps the form from being called equivalent.
    pub decides: bool,
}

/// What stalls may have done to a form's ratio: how many of them fall into trials as short as these is chance, of which
/// its interval says little.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LeftStill {
    /// By which share the ratio would be another one had nobody stood still, one way or the other.
    pub share: f64,
    /// Whether this alone keeps the form from being called equivalent.
    pub decides: bool,
}
