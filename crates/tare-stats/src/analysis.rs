//! What an analysis holds: everything a report shows, already worked out. It is serialised as part of the JSON report.

use crate::account::CpuAccount;
use crate::advice::WinBack;
use crate::bound::{Bound, Lean};
use crate::ceiling::Ceilings;
use crate::components::Components;
use crate::contrast::Contrast;
use crate::failures::FailedShare;
use crate::finding::Explanation;
use crate::follows::Follows;
use crate::kept::QosKept;
use crate::ladder::Climb;
use crate::levels::{LoadResponse, ServiceCosts};
use crate::nested::Nested;
use crate::pair::Withheld;
use crate::probe_cost::ProbeCost;
use crate::profile::FormProfile;
use crate::resting::Resting;
use crate::same::{ServiceBits, ServiceResources};
use crate::scale_out::ScaleOut;
use crate::sequential::{Aim, Claim};
use crate::stalls::Stalls;
use crate::verdict::ratio_text;
use crate::warming::Warming;
use crate::warmth::Warmth;
use crate::warnings::Warning;
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::trial::Stage;

/// The analysis of a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Analysis {
    /// Probability that an interval holds the truth; for a family of forms, that all of them do.
    pub confidence: f64,
    /// Differences up to this, as a share, count as none where forms are called equivalent.
    pub margin: f64,
    /// The baseline form.
    pub baseline: String,
    /// The arm that repeats the baseline, the A/A control.
    pub control: String,
    /// Blocks planned.
    pub blocks_planned: u32,
    /// Blocks in which at least the baseline was measured.
    pub blocks_measured: u32,
    /// Blocks with a void or failed trial that were run again, and are left out for it.
    pub blocks_replaced: Vec<u32>,
    /// Trials that were run and are gone from the record.
    pub trials_lost: Vec<u32>,
    /// The arms, in the order of the study, the control after the baseline.
    pub arms: Vec<Arm>,
    /// The metrics of [`tare_core::record::TRIAL_METRICS`], in their order.
    pub metrics: Vec<MetricAnalysis>,
    /// Of a load in steps: how each level was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<LoadResponse>,
    /// What each service costs, at each level or at the one load; empty where there is one service and nothing besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<ServiceCosts>,
    /// Forms with several instances against those of the same layers with fewer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scale_out: Vec<ScaleOut>,
    /// What each rung costs, where the study asked for a ladder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ladder: Option<Climb>,
    /// What each variant of a form wins back, where the study asked for advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<WinBack>,
    /// What else differs between forms: counters of the kernel, by operation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contrasts: Vec<Contrast>,
    /// What differences in performance come from, by rules: one for each form whose performance differs from the
    /// baseline's, or of a ladder for each rung that matters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<Explanation>,
    /// What profiled trials say, the baseline's first; nothing of it counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<FormProfile>,
    /// By service: whether the forms ran the same files.
    pub bits: Vec<ServiceBits>,
    /// By service: whether the forms had the same resources.
    pub resources: Vec<ServiceResources>,
    /// What failed of the arms' operations; empty where nothing did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedShare>,
    /// Forms that work while others are loaded, where load takes turns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resting: Vec<Resting>,
    /// How forms get warm amid the slices of a chopped load, against the baseline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warming: Vec<Warming>,
    /// How forms get faster or slower over the time that their deployments are measured by turns, against the baseline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settling: Vec<Warming>,
    /// How much slower forms are in short turns, where a run compared several lengths and chose its slices by that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warmth: Vec<Warmth>,
    /// Where the CPU time of the machine went; empty of duets and where the machine was not sampled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu: Vec<CpuAccount>,
    /// How much of a closed loop's time was the generator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<Ceilings>,
    /// The apparatus' own cost and health.
    pub apparatus: Apparatus,
    /// When arms stood still, of those whose ratio in some metric is another one without those times, and of the
    /// baseline then; and of whoever stood still for so much of its turns, or for so much more of its time than the
    /// baseline, that it decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stalls: Vec<Stalls>,
    /// How near the run came to the width that it was to go on for, where it ended before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed_aim: Option<Aim>,
    /// What a reader must know before believing a figure; gravest first.
    #[serde(rename = "warnings_data")]
    pub warnings: Vec<Warning>,
}

impl Analysis {
    /// The forms that the study asks about, and the baseline: no control, no ruler.
    pub fn forms(&self) -> impl Iterator<Item = &Arm> {
        self.arms.iter().filter(|arm| !arm.control && arm.weight.is_none())
    }

    /// Whether the ratio of `arm` says nothing about the real thing: it or the baseline ran under emulation.
    pub fn emulated(&self, arm: &Arm) -> bool {
        arm.emulated.is_some() || self.emulated_baseline().is_some()
    }

    /// Why no ratio of the record says anything about the real thing, if the baseline ran under emulation.
    pub fn emulated_baseline(&self) -> Option<&Fault> {
        self.arms.iter().find(|arm| arm.baseline)?.emulated.as_ref()
    }
}

/// An arm: a form, or the baseline's second copy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Arm {
    /// The arm's name.
    pub name: String,
    /// The form's name.
    pub form: String,
    /// The form's layers in words.
    pub describe: String,
    /// Whether it is the baseline itself.
    pub baseline: bool,
    /// Whether it is the A/A control.
    pub control: bool,
    /// Of a ruler, which is the baseline with a weight that is known: how many operations it made beside each that
    /// counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Why its figures say nothing about the real thing, if they do not.
    pub emulated: Option<Fault>,
    /// Trials planned.
    pub planned: u32,
    /// Trials measured.
    pub measured: u32,
    /// Trials that ran but must not be used.
    pub invalid: u32,
    /// Trials that did not come to an end.
    pub failed: u32,
    /// Trials never tried for a stated reason.
    pub skipped: u32,
    /// Why trials were not measured, each reason once, most frequent first.
    pub reasons: Vec<Reason>,
    /// How a request reached the service.
    pub path: String,
    /// Measured trials whose throughput changed by more than 3 % while they were measured; none where the load itself
    /// changes: in steps, as a recording says, or by a search.
    pub never_steady: Vec<u32>,
    /// Fisher's p, when its trials are void or failed more often than those of the other arms; then its verdicts are
    /// withheld.
    pub void_p: Option<f64>,
    /// How its measured trials kept the study's QoS, where the study has one.
    pub qos: Option<QosKept>,
}

/// Why trials were not measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// `invalid`, `failed` or `skipped`.
    pub outcome: String,
    /// The stage, of a failure.
    pub stage: Option<Stage>,
    /// Why, and what to do.
    pub why: Fault,
    /// Which trials; empty when the form was left out before any was planned.
    pub trials: Vec<u32>,
}

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
    /// Whether the interval of the A/A control excludes 1: the machine or the harness treats equals differently.
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
}

/// How the intervals of a family of forms were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each form's own differences inside blocks give its error, Student's t, the level shared out over the forms
    /// (Šidák).
    OwnError,
    /// No interval: fewer than 3 blocks, or nothing to compare.
    None,
}

/// An arm's values of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// The arm.
    pub arm: String,
    /// By measured trial, in their order.
    pub values: Vec<BlockValue>,
    /// Trials whose value is only what it is at least: it lies among operations that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<u32>,
    /// The mean of the trials.
    pub mean: f64,
    /// The geometric mean of the trials; none when a value is zero or less.
    pub geometric_mean: Option<f64>,
    /// 95 % interval of the geometric mean over trials; it includes what differs between blocks, so compare forms by
    /// their ratios, not by these. None below 3 trials.
    pub interval: Option<Interval>,
}

/// A trial's value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BlockValue {
    /// The block.
    pub block: u32,
    /// The trial.
    pub trial: u32,
    /// The value, in the metric's unit.
    pub value: f64,
}

/// An interval, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether it holds `value`.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
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
    /// Whether no difference beyond [`Analysis::margin`] is left to be found; none when nothing may be said.
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

/// What may be said of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better than the baseline, beyond interval and noise floor.
    Better,
    /// Worse than the baseline, beyond interval and noise floor.
    Worse,
    /// Whatever difference there may be lies within the margin.
    Equivalent,
    /// The interval holds 1.
    NoDifference,
    /// The interval excludes 1, but the A/A control might lie as far off.
    WithinNoise,
    /// Fewer than 3 blocks.
    TooFewBlocks,
    /// The A/A control differs, or the form's trials are void more often than the others': whatever the interval says,
    /// this run cannot be trusted with it.
    Withheld,
    /// The A/A control was not measured often enough for a noise floor.
    NoNoiseFloor,
    /// The form or the baseline was measured under emulation: not a claim.
    Emulated,
}

/// The apparatus: what measuring itself cost, and whether it kept up.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Apparatus {
    /// The generator's CPU time by operation in the baseline, us: geometric mean.
    pub generator_cpu_us_per_op: Option<f64>,
    /// What of it is the apparatus' own bookkeeping: CPU time by operation of the null protocol, which has neither
    /// network nor server, measured before the run on the same CPUs, us.
    pub null_cpu_us_per_op: Option<f64>,
    /// The largest share of its CPUs that the generator used in any measured trial.
    pub generator_busy_max: Option<f64>,
    /// The largest share of a CPU that the probe used in any measured trial.
    pub probe_share_max: Option<f64>,
    /// The same in guests, on CPUs that may be the service's.
    pub guest_probe_share_max: Option<f64>,
    /// What sampling takes from a closed load, where samplers rested while it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_cost: Option<ProbeCost>,
    /// Operations planned but never started, in all measured trials.
    pub dropped: u64,
    /// Operations not answered correctly, in all measured trials.
    pub errors: u64,
    /// Operations answered correctly, in all measured trials.
    pub operations: u64,
}

/// An arm's ratio to the baseline in one compared metric; for tables that hold one figure. The baseline itself has
/// none.
pub fn ratio_of<'a>(analysis: &'a Analysis, arm: &str, metric: &str) -> Option<&'a Ratio> {
    let metric = analysis.metrics.iter().find(|candidate| candidate.name == metric)?;
    metric.ratios.iter().find(|ratio| ratio.arm == arm)
}
