//! When a run may end by itself: once it is precise enough, never because something was found.
//!
//! Looking after every block whether a difference is significant, and ending when it is, finds one in every sixth A/A
//! experiment of at most 20 blocks. The rule here looks at the *width* of the intervals only, after fixed numbers of
//! blocks, and a run that it ended claims no more than the width that was asked for, of any metric. The simulations in
//! tests/simulated hold it to that.

use crate::analyse::analyse;
use crate::analysis::{Arm, MetricAnalysis, Ratio};
use crate::paired::Precision;
use tare_core::record::{PRECISE_ENOUGH, Record};

/// Blocks after which the width is looked at first: with fewer, the spread itself is known too badly.
const FIRST_LOOK: u32 = 6;

/// Blocks between two looks.
const LOOK_EVERY: u32 = 2;

/// Whether a run that has done so many blocks may look at its width.
pub fn is_look(blocks: u32) -> bool {
    blocks >= FIRST_LOOK && (blocks - FIRST_LOOK).is_multiple_of(LOOK_EVERY)
}

/// Whether the interval of every form's ratio in the deciding metric (of a study of one form: the A/A control's)
/// reaches at most as far as the study wants it to. False for a study that names no width.
pub fn precise_enough(record: &Record) -> bool {
    let Some(wanted) = record.header.study.design.half_width else { return false };
    let analysis = analyse(record);
    let Some(metric) = analysis.metrics.iter().find(|metric| metric.name == record.header.deciding_metric()) else {
        return false;
    };
    let claimed = |arm: &str| {
        let arm = analysis.arms.iter().find(|candidate| candidate.name == arm);
        arm.is_some_and(|arm| !arm.control && arm.weight.is_none() && !analysis.emulated(arm))
    };
    let any_form = metric.ratios.iter().any(|ratio| claimed(&ratio.arm));
    let mut deciding = metric.ratios.iter().filter(|ratio| claimed(&ratio.arm) == any_form).peekable();
    let narrow = |interval: crate::Interval| 0.5 * (interval.high / interval.low).ln() <= wanted.ln_1p();
    deciding.peek().is_some() && deciding.all(|ratio| ratio.interval.is_some_and(narrow))
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

/// By how much the widest interval of the deciding metric is widened to reach as far as was asked for: that is the one
/// which was waited for, so how narrow it happened to be is by how much it may flatter.
pub(crate) fn widened(deciding: &MetricAnalysis, asked: f64, arms: &[Arm]) -> f64 {
    let is_control = |ratio: &&Ratio| arms.iter().any(|arm| arm.control && arm.name == ratio.arm);
    let alone = deciding.ratios.iter().all(|ratio| is_control(&ratio));
    let claimed = deciding.ratios.iter().filter(|ratio| alone || !is_control(ratio));
    let half_widths = claimed.filter_map(|ratio| ratio.interval.map(|i| 0.5 * (i.high / i.low).ln()));
    let widest = half_widths.fold(0.0, f64::max);
    if widest > 0.0 { (asked / widest).max(1.0) } else { 1.0 }
}
