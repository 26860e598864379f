//! When a run may end by itself: once it is precise enough, never because something was found.
//!
//! Looking after every block whether a difference is significant, and ending when it is, finds one in every sixth A/A
//! experiment of at most 20 blocks. The rule here looks at the *width* of the intervals only, after fixed numbers of
//! blocks, and a run that it ended claims no more than the width that was asked for. The simulations in
//! tests/simulated hold it to that.

use crate::analyse::analyse;
use tare_core::record::Record;

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
        arm.is_some_and(|arm| !arm.control && !analysis.emulated(arm))
    };
    let any_form = metric.ratios.iter().any(|ratio| claimed(&ratio.arm));
    let mut deciding = metric.ratios.iter().filter(|ratio| claimed(&ratio.arm) == any_form).peekable();
    let narrow = |interval: crate::Interval| 0.5 * (interval.high / interval.low).ln() <= wanted.ln_1p();
    deciding.peek().is_some() && deciding.all(|ratio| ratio.interval.is_some_and(narrow))
}
