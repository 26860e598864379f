//! Whether a record keeps a bound: for pipelines. The interval decides, not the estimate: a bound is broken when the
//! whole interval lies beyond it, kept when the whole interval lies within, and otherwise nobody knows yet.

use crate::analysis::Analysis;
use crate::bound::Bound;
use crate::compare::{Change, changes};
use crate::interval::Interval;
use crate::occasion::{Occasions, RUNS_MIN};
use crate::paired::blocks_needed;
use crate::ratios::{MetricAnalysis, Ratio};
use crate::verdict::{Verdict, Withheld};
use serde::Serialize;

/// The bounds, as shares: 0.05 allows a throughput of 0.95 times and a time of 1.05 times what it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Bounds {
    /// How much worse than its own baseline a form may be.
    pub max_overhead: Option<f64>,
    /// How much worse than in the other record a form's ratio to its baseline may be.
    pub max_regression: Option<f64>,
}

/// What a bound is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounded {
    /// A form against the baseline of its own record.
    Overhead,
    /// A form's ratio to its baseline against the same in the other record.
    Regression,
}

impl Bounded {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Bounded::Overhead => "overhead",
            Bounded::Regression => "regression",
        }
    }
}

/// What became of a bound. The order is that of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// Kept for certain.
    Pass,
    /// Not certain either way.
    Inconclusive,
    /// Broken for certain.
    Fail,
}

impl GateOutcome {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            GateOutcome::Pass => "pass",
            GateOutcome::Inconclusive => "inconclusive",
            GateOutcome::Fail => "fail",
        }
    }
}

/// One bound on one form and metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateCheck {
    /// The form.
    pub form: String,
    /// The metric's name.
    pub metric: String,
    /// The metric's title.
    pub title: String,
    /// What is bounded.
    pub bounded: Bounded,
    /// The bound, as a share.
    pub bound: f64,
    /// By how much it is worse, as a share; negative when it is better. None when there is no ratio, or none that may
    /// be used.
    pub worse_by: Option<f64>,
    /// The interval of that.
    pub interval: Option<Interval>,
    /// Blocks behind it, of the new record.
    pub blocks: usize,
    /// Blocks of the new record that would probably tell, when these do not.
    pub blocks_needed: Option<u32>,
    /// Of a regression: the standard deviation that occasions add to each of the two records, log scale, as far as it
    /// is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occasions: Option<f64>,
    /// Of a regression with an interval: what is known of that, and so what the interval holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
    /// What became of it.
    pub outcome: GateOutcome,
    /// Why.
    #[serde(rename = "why_data")]
    pub why: GateReason,
}

/// What is known of what two occasions of the same thing differ by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Learned {
    /// Nothing: the interval is that of the two runs' own blocks, and too narrow by whatever occasions add.
    Nothing {
        /// So many runs of equals, arranged like both records, would teach something.
        runs_needed: usize,
    },
    /// It is in the interval.
    Occasions {
        /// Out of this many runs of equals.
        runs: usize,
        /// The standard deviation, log scale.
        deviation: f64,
        /// It is no larger than this with a probability of 95 %.
        deviation_at_most: f64,
    },
}

impl Learned {
    fn of(metric: &str, occasions: &Occasions) -> Learned {
        occasions.get(metric).map_or(Learned::Nothing { runs_needed: RUNS_MIN }, |occasion| Learned::Occasions {
            runs: occasion.runs,
            deviation: occasion.deviation,
            deviation_at_most: occasion.deviation_at_most,
        })
    }
}

/// Why a check came out as it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum GateReason {
    /// The whole interval lies within the bound.
    Within,
    /// The whole interval lies beyond the bound.
    Beyond,
    /// It does, but the machine's equals may lie as far apart.
    WithinFloor {
        /// The noise floor, as a share.
        floor: f64,
    },
    /// It lies within the bound over the whole time, but not without the best and the worst fifth of it.
    WithinByFewWindows,
    /// The interval holds the bound.
    HoldsBound {
        /// Whether a part of the interval is the other record's, or of what occasions add, so that it takes more
        /// blocks of both.
        of_both: bool,
    },
    /// Nothing was measured that could be judged.
    NotMeasured {
        /// In which record.
        which: WhichRecord,
        /// What its trials say; none where no trial was measured beside the baseline.
        why: Option<String>,
    },
    /// It was measured under emulation.
    Emulated {
        /// In which record.
        which: WhichRecord,
    },
    /// The A/A control differs from its equal.
    ControlDiffers {
        /// Of which record.
        which: WhichRecord,
    },
    /// The report withholds its verdict.
    Withheld {
        /// In which record.
        which: WhichRecord,
        /// Why, where one reason says it.
        why: Option<Withheld>,
    },
    /// A loss is known by a bound only, so that it may be any larger one.
    OnlyBound {
        /// In which record.
        which: WhichRecord,
        /// The bound.
        bound: Bound,
        /// The ratio that is one.
        ratio: f64,
        /// Its interval.
        interval: Option<Interval>,
    },
    /// The A/A control was not measured in 3 blocks.
    NoNoiseFloor {
        /// Of which record.
        which: WhichRecord,
    },
    /// Too few blocks for an interval.
    TooFewBlocks {
        /// How many.
        blocks: usize,
    },
    /// There is no interval of the change.
    NoInterval,
}

/// One of the records of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhichRecord {
    /// The one that is judged.
    This,
    /// The one that it is compared with.
    Other,
}

/// Judges every bound that is set on the given forms and metrics (by name), form by form, against the other record with
/// what occasions add to the error between two. A form that `new` does not
/// compare is inconclusive; a metric that it does not have is passed over.
pub fn gate(
    new: &Analysis,
    other: Option<(&Analysis, &Occasions)>,
    forms: &[String],
    metrics: &[String],
    bounds: &Bounds,
) -> Vec<GateCheck> {
    let changed = other.map(|(other, occasions)| changes(other, new, occasions)).unwrap_or_default();
    let mut checks = Vec::new();
    for form in forms {
        for name in metrics {
            let Some(metric) = new.metrics.iter().find(|metric| metric.name == *name) else { continue };
            let ratio = metric.ratios.iter().find(|ratio| ratio.arm == *form);
            if let Some(bound) = bounds.max_overhead {
                checks.push(overhead(new, metric, form, ratio, bound));
            }
            if let (Some(bound), Some((other, occasions))) = (bounds.max_regression, other) {
                let change = changed.iter().find(|change| change.form == *form && change.metric == *name);
                let check = regression(new, other, metric, form, change, bound);
                let learned = check.interval.map(|_| Learned::of(name, occasions));
                checks.push(GateCheck { learned, ..check });
            }
        }
    }
    checks
}

/// The gravest outcome; inconclusive when nothing was checked.
pub fn gate_outcome(checks: &[GateCheck]) -> GateOutcome {
    checks.iter().map(|check| check.outcome).max().unwrap_or(GateOutcome::Inconclusive)
}

/// What is known of a bounded quantity, as the log of a ratio.
struct Known {
    log: f64,
    half_width: f64,
    /// The part of the variance that more blocks would not make smaller, of 1.
    fixed: f64,
    /// Below this, log scale, an effect may be the machine's.
    floor: f64,
    /// Where a few stalls or bursts decide: the log of the ratio without them, if there is one.
    trimmed: Option<Option<f64>>,
}

fn overhead(analysis: &Analysis, metric: &MetricAnalysis, form: &str, ratio: Option<&Ratio>, bound: f64) -> GateCheck {
    let check = blank(metric, form, Bounded::Overhead, bound, ratio.map_or(0, |ratio| ratio.blocks.len()));
    let this = WhichRecord::This;
    let Some(ratio) = ratio else { return GateCheck { why: unmeasured(analysis, form, this), ..check } };
    if let Some(why) = unusable(metric, ratio, this) {
        return GateCheck { why, ..check };
    }
    let check = with_ratio(check, metric, ratio.ratio, ratio.interval);
    let Some(interval) = ratio.interval else { return GateCheck { why: too_few(ratio), ..check } };
    let floor = metric.noise_floor.unwrap_or_default().ln_1p();
    let half_width = 0.5 * (interval.high / interval.low).ln();
    let trimmed = ratio.trimming_differs.then_some(ratio.trimmed.map(f64::ln));
    judge(check, metric, &Known { log: ratio.ratio.ln(), half_width, fixed: 0.0, floor, trimmed })
}

fn regression(
    new: &Analysis,
    other: &Analysis,
    metric: &MetricAnalysis,
    form: &str,
    change: Option<&Change>,
    bound: f64,
) -> GateCheck {
    let blocks = change.map_or(0, |change| change.after.blocks.len());
    let check = blank(metric, form, Bounded::Regression, bound, blocks);
    let Some(change) = change else {
        let here = metric.ratios.iter().any(|ratio| ratio.arm == form);
        let (of, which) = if here { (other, WhichRecord::Other) } else { (new, WhichRecord::This) };
        let why = unmeasured(of, form, which);
        return GateCheck { why, ..check };
    };
    let before = other.metrics.iter().find(|before| before.name == metric.name);
    let doubt = unusable(metric, &change.after, WhichRecord::This)
        .or_else(|| unusable(before?, &change.before, WhichRecord::Other))
        .or_else(|| [&change.after, &change.before].into_iter().find(|r| r.interval.is_none()).map(too_few));
    if let Some(why) = doubt {
        return GateCheck { why, ..check };
    }
    let check = with_ratio(check, metric, change.change, change.interval);
    let (Some(interval), Some(error), Some(after)) =
        (change.interval, change.standard_error, change.after.standard_error)
    else {
        return check;
    };
    // More blocks of this record make only its own share smaller: not the other's, and not what occasions add.
    let fixed = if error > 0.0 { (1.0 - (after / error).powi(2)).max(0.0) } else { 0.0 };
    let half_width = 0.5 * (interval.high / interval.low).ln();
    let trimmed = change.after.trimmed.zip(change.before.trimmed).map(|(after, before)| (after / before).ln());
    let differs = change.after.trimming_differs || change.before.trimming_differs;
    let known = Known { log: change.change.ln(), half_width, fixed, floor: 0.0, trimmed: differs.then_some(trimmed) };
    GateCheck { occasions: change.occasions, ..judge(check, metric, &known) }
}

fn blank(metric: &MetricAnalysis, form: &str, bounded: Bounded, bound: f64, blocks: usize) -> GateCheck {
    GateCheck {
        form: form.to_owned(),
        metric: metric.name.clone(),
        title: metric.title.clone(),
        bounded,
        bound,
        worse_by: None,
        interval: None,
        blocks,
        blocks_needed: None,
        occasions: None,
        learned: None,
        outcome: GateOutcome::Inconclusive,
        why: GateReason::NoInterval,
    }
}

/// A ratio as a loss: 0.95 times the throughput and 1.05 times the time are both 5 % worse.
fn worse_by(metric: &MetricAnalysis, ratio: f64) -> f64 {
    if metric.more_is_better { 1.0 - ratio } else { ratio - 1.0 }
}

fn with_ratio(check: GateCheck, metric: &MetricAnalysis, ratio: f64, interval: Option<Interval>) -> GateCheck {
    let interval = interval.map(|Interval { low, high }| {
        let ends = [worse_by(metric, low), worse_by(metric, high)];
        Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) }
    });
    GateCheck { worse_by: Some(worse_by(metric, ratio)), interval, ..check }
}

fn judge(check: GateCheck, metric: &MetricAnalysis, known: &Known) -> GateCheck {
    // A loss, log scale: positive is worse.
    let as_loss = |log: f64| if metric.more_is_better { -log } else { log };
    let limit = if metric.more_is_better { -(-check.bound).ln_1p() } else { check.bound.ln_1p() };
    let loss = as_loss(known.log);
    if loss - known.half_width > limit {
        if loss <= known.floor {
            return GateCheck { why: GateReason::WithinFloor { floor: known.floor.exp_m1() }, ..check };
        }
        return GateCheck { outcome: GateOutcome::Fail, why: GateReason::Beyond, ..check };
    }
    if loss + known.half_width <= limit {
        // Who is within the bound by luck of a few stalls, or bursts, may be beyond it without them.
        let without = known.trimmed.map(|trimmed| trimmed.map_or(f64::INFINITY, as_loss));
        if without.is_some_and(|loss| loss + known.half_width > limit) {
            return GateCheck { why: GateReason::WithinByFewWindows, ..check };
        }
        return GateCheck { outcome: GateOutcome::Pass, why: GateReason::Within, ..check };
    }
    let blocks_needed = blocks_needed(check.blocks, known.half_width, (loss - limit).abs(), known.fixed);
    GateCheck { blocks_needed, why: GateReason::HoldsBound { of_both: known.fixed > 0.0 }, ..check }
}

fn unmeasured(analysis: &Analysis, form: &str, which: WhichRecord) -> GateReason {
    let arm = analysis.arms.iter().find(|arm| arm.name == form);
    let reason = arm.and_then(|arm| arm.reasons.first());
    GateReason::NotMeasured { which, why: reason.map(|reason| reason.why.message.clone()) }
}

/// Why a ratio that is there must not be used: a gate judges nothing that the report refuses to judge. A report may
/// find no difference without a noise floor, a gate that lets a form pass vouches for it.
fn unusable(metric: &MetricAnalysis, ratio: &Ratio, which: WhichRecord) -> Option<GateReason> {
    let only = ratio.bound.map(|bound| {
        let Ratio { ratio, interval, .. } = *ratio;
        GateReason::OnlyBound { which, bound, ratio, interval }
    });
    match ratio.verdict {
        Verdict::Emulated => Some(GateReason::Emulated { which }),
        _ if metric.control_differs => Some(GateReason::ControlDiffers { which }),
        Verdict::Withheld => {
            let why = ratio.withheld;
            only.filter(|_| why.is_none()).or(Some(GateReason::Withheld { which, why }))
        }
        // A loss that is a bound may be any larger one.
        Verdict::Worse if only.is_some() => only,
        // Too few blocks for an interval say so themselves.
        verdict if verdict == Verdict::NoNoiseFloor || metric.noise_floor.is_none() && ratio.interval.is_some() => {
            Some(GateReason::NoNoiseFloor { which })
        }
        _ => None,
    }
}

fn too_few(ratio: &Ratio) -> GateReason {
    GateReason::TooFewBlocks { blocks: ratio.blocks.len() }
}

#[cfg(test)]
mod tests;
