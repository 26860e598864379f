//! What an analysis holds: everything a report shows, already worked out. It is serialised as part of the JSON report.

use crate::account::CpuAccount;
use crate::advice::AdviceGains;
use crate::apparatus::Apparatus;
use crate::arm::Arm;
use crate::ceiling::Ceilings;
use crate::contrast::Contrast;
use crate::failures::FailedShare;
use crate::finding::Explanation;
use crate::ladder::LadderCosts;
use crate::profile::FormProfile;
use crate::ratios::{MetricAnalysis, Ratio};
use crate::response::{LoadResponse, ServiceCosts};
use crate::resting::Resting;
use crate::same::{ServiceBits, ServiceResources};
use crate::scale_out::ScaleOut;
use crate::stalls::Stalls;
use crate::warming::Warming;
use crate::warmth::Warmth;
use crate::warnings::Warning;
use serde::Serialize;
use tare_core::fault::Fault;

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
    pub ladder: Option<LadderCosts>,
    /// What each variant of a form wins back, where the study asked for advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<AdviceGains>,
    /// What else differs between forms: counters of the kernel, per operation.
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
    /// How forms get warm within the slices of a chopped load, against the baseline.
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

/// How near a run came to the width that it was to go on for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Aim {
    /// The half-width that was asked for, as a share.
    pub asked: f64,
    /// The half-width of the widest interval that was waited for, as a share; none where it has no interval.
    pub reached: Option<f64>,
    /// The arm whose interval that is.
    pub arm: String,
    /// The title of its metric.
    pub metric: String,
}

/// An arm's ratio to the baseline in one compared metric; for tables that hold one figure. The baseline itself has
/// none.
pub fn ratio_of<'a>(analysis: &'a Analysis, arm: &str, metric: &str) -> Option<&'a Ratio> {
    let metric = analysis.metrics.iter().find(|candidate| candidate.name == metric)?;
    metric.ratios.iter().find(|ratio| ratio.arm == arm)
}
