//! How wide the intervals are that a run waits for: the widest of them, how near it came to the width that was asked
//! for, and by how much a run that was ended for it may be flattered.

use crate::analysis::{Aim, Analysis};
use crate::arm::Arm;
use crate::interval::Interval;
use crate::ratios::{MetricAnalysis, Ratio};
use tare_core::record::{Header, PRECISE_ENOUGH, Record};

/// The share by which intervals of so many blocks must be narrower than was asked for before a run is ended for them.
///
/// The run is ended where the spread that was found is small, so it is mostly smaller than the true one, by a share
/// that falls with 1/n. Widening an interval to what was asked for makes up for that at a first look, and for little of
/// it later, when looks are so near each other that intervals are just as wide as was asked for. Chow and Robbins
/// (1965) add 1/n to the variance for the same reason; here it is added to the width, which is as much again.
pub(crate) fn reserve(blocks: usize) -> f64 {
    1.0 / blocks.max(1) as f64
}

/// A ratio that a run waits for: the widest of them.
pub(crate) struct Widest {
    arm: String,
    metric: String,
    /// Log scale; none where there is no interval yet.
    half_width: Option<f64>,
    /// The same, and as much more as a run must have in reserve to be ended for it.
    pub(crate) with_reserve: Option<f64>,
}

/// The widest of the intervals that are waited for. A metric that was measured of no form (CPU time where nobody may
/// read it) is not waited for, but the deciding one is.
pub(crate) fn widest(analysis: &Analysis, header: &Header) -> Option<Widest> {
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
