//! When a run may end by itself: once it is precise enough, never because something was found.
//!
//! Looking after every block whether a difference is significant, and ending when it is, finds one in every sixth A/A
//! experiment of at most 20 blocks. The rule here looks at the *width* of the intervals only, after fixed numbers of
//! blocks, and a run that it ended claims no more than the width that was asked for, of any metric. The simulations in
//! tests/simulated hold it to that.

use crate::analyse::analyse;
use crate::analysis::{Analysis, Arm, Interval, MetricAnalysis, Ratio};
use crate::paired::Precision;
use serde::Serialize;
use tare_core::record::{Header, PRECISE_ENOUGH, Record};

/// Blocks after which the width is looked at first: with fewer, the spread itself is known too badly.
pub(crate) const FIRST_LOOK: u32 = 6;

/// Blocks between two looks.
pub(crate) const LOOK_EVERY: u32 = 2;

/// Whether a run that has done so many blocks may look at its width.
pub fn is_look(blocks: u32) -> bool {
    blocks >= FIRST_LOOK && (blocks - FIRST_LOOK).is_multiple_of(LOOK_EVERY)
}

/// The share by which intervals of so many blocks must be narrower than was asked for before a run is ended for them.
///
/// The run is ended where the spread that was found is small, so it is mostly smaller than the true one, by a share
/// that falls with 1/n. Widening an interval to what was asked for makes up for that at a first look, and for little of
/// it later, when looks are so near each other that intervals are just as wide as was asked for. Chow and Robbins (1965)
/// add 1/n to the variance for the same reason; here it is added to the width, which is as much again.
pub(crate) fn reserve(blocks: usize) -> f64 {
    1.0 / blocks.max(1) as f64
}

/// Whether the intervals that the study waits for are so narrow that the run may end: those of every form's ratio (of a
/// study of one form: the A/A control's) in each of [`Header::awaited_metrics`], each with a reserve of `1/n` of its
/// width, of n blocks. False for a study that names no width.
pub fn precise_enough(record: &Record) -> bool {
    let Some(asked) = record.header.study.design.half_width else { return false };
    let analysis = analyse(record);
    let widest = widest(&analysis, &record.header);
    widest.is_some_and(|widest| widest.with_reserve.is_some_and(|half_width| half_width <= asked.ln_1p()))
}

/// A ratio that a run waits for: the widest of them.
struct Widest {
    arm: String,
    metric: String,
    /// Log scale; none where there is no interval yet.
    half_width: Option<f64>,
    /// The same, and as much more as a run must have in reserve to be ended for it.
    with_reserve: Option<f64>,
}

/// The widest of the intervals that are waited for. A metric that was measured of no form (CPU time where nobody may
/// read it) is not waited for, but the deciding one is.
fn widest(analysis: &Analysis, header: &Header) -> Option<Widest> {
    let awaited = header.awaited_metrics();
    let claimed = |arm: &str| {
        let arm = analysis.arms.iter().find(|candidate| candidate.name == arm);
        arm.is_some_and(|arm| !arm.control && arm.weight.is_none() && !analysis.emulated(arm))
    };
    let mut all = Vec::new();
    for metric in analysis.metrics.iter().filter(|metric| awaited.contains(&metric.name.as_str())) {
        let any_form = metric.ratios.iter().any(|ratio| claimed(&ratio.arm));
        let ratios = || metric.ratios.iter().filter(|ratio| claimed(&ratio.arm) == any_form);
        let decides = metric.name == header.deciding_metric();
        if decides && ratios().next().is_none() {
            return None;
        }
        if decides || ratios().any(|ratio| ratio.interval.is_some()) {
            all.extend(ratios().map(|ratio| Widest {
                arm: ratio.arm.clone(),
                metric: metric.title.clone(),
                half_width: ratio.interval.map(half_width),
                with_reserve: ratio.interval.map(|own| half_width(own) * (1.0 + reserve(ratio.blocks.len()))),
            }));
        }
    }
    let reach = |widest: &Widest| widest.with_reserve.unwrap_or(f64::INFINITY);
    all.into_iter().max_by(|one, other| reach(one).total_cmp(&reach(other)))
}

/// How far an interval of a ratio reaches either way, log scale.
fn half_width(interval: Interval) -> f64 {
    0.5 * (interval.high / interval.low).ln()
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

/// How near a run that is over, and was not narrow enough, came to the width that its study names. None where it came
/// down to it without the reserve that would have ended it.
pub(crate) fn missed_aim(record: &Record, analysis: &Analysis) -> Option<Aim> {
    let asked = record.header.study.design.half_width?;
    let how = &record.end.as_ref()?.how;
    let widest = widest(analysis, &record.header).filter(|_| how != PRECISE_ENOUGH)?;
    let reached = widest.half_width.map(f64::exp_m1);
    if reached.is_some_and(|reached| reached <= asked) {
        return None;
    }
    Some(Aim { asked, reached, arm: widest.arm, metric: widest.metric })
}

/// What a run claims that may have been ended for the width of its intervals: it was narrow when it ended, and not
/// always by being exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Claim {
    /// The least half-width of the ratios that were waited for, log scale.
    asked: Option<f64>,
    /// So many times as large are all other errors, which may go up and down with those.
    factor: f64,
}

impl Claim {
    /// What blocks say, of a run that its width did not end.
    pub(crate) const AS_IS: Claim = Claim { asked: None, factor: 1.0 };

    /// On a metric, of a run that may have `ended` for its width: what was asked for, and the factor for all that did
    /// not decide.
    pub(crate) fn of(ended: Option<(f64, f64)>, decides: bool) -> Claim {
        let Some((asked, factor)) = ended else { return Claim::AS_IS };
        Claim { asked: Some(asked).filter(|_| decides), factor }
    }

    /// The precision of a ratio to the baseline, as it may be claimed: of the metric that decided no less than was
    /// asked for.
    pub(crate) fn on(self, precision: Precision) -> Precision {
        self.asked.map_or_else(|| self.elsewhere(precision), |half_width| precision.at_least(half_width))
    }

    /// The same of what was not waited for: the A/A control beside forms, a rung, a variant.
    pub(crate) fn elsewhere(self, precision: Precision) -> Precision {
        Precision { standard_error: self.factor * precision.standard_error, ..precision }
    }

    /// How many times as large errors are of what was not waited for.
    pub(crate) fn factor(self) -> f64 {
        self.factor
    }
}

/// The half-width that was asked for, log scale, of a run that was ended for it.
pub(crate) fn ended_for_width(record: &Record) -> Option<f64> {
    let precise = record.end.as_ref().is_some_and(|end| end.how == PRECISE_ENOUGH);
    record.header.study.design.half_width.filter(|_| precise).map(f64::ln_1p)
}

/// By how much the widest interval of the metrics that were waited for is widened to reach as far as was asked for:
/// that is the one which decided, so how narrow it happened to be is by how much it may flatter.
pub(crate) fn widened(awaited: &[MetricAnalysis], asked: f64, arms: &[Arm]) -> f64 {
    let is_control = |ratio: &&Ratio| arms.iter().any(|arm| arm.control && arm.name == ratio.arm);
    let ratios = || awaited.iter().flat_map(|metric| &metric.ratios);
    let alone = ratios().all(|ratio| is_control(&ratio));
    let claimed = ratios().filter(|ratio| alone || !is_control(ratio));
    let widest = claimed.filter_map(|ratio| ratio.interval.map(half_width)).fold(0.0, f64::max);
    if widest > 0.0 { (asked / widest).max(1.0) } else { 1.0 }
}
