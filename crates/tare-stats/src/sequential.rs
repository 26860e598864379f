//! When a run may end by itself: once it is precise enough, never because something was found.
//!
//! Looking after every block whether a difference is significant, and ending when it is, finds one in every sixth A/A
//! experiment of at most 20 blocks. The rule here looks at the *width* of the intervals only, after fixed numbers of
//! blocks, and a run that it ended claims no more than the width that was asked for, of any metric. The simulations in
//! tests/simulated hold it to that.

use crate::analyse::analyse;
use crate::width::widest;
use tare_core::record::Record;

/// Blocks after which the width is looked at first: with fewer, the spread itself is known too badly.
pub(crate) const FIRST_LOOK: u32 = 6;

/// Blocks between two looks.
pub(crate) const LOOK_EVERY: u32 = 2;

/// Whether a run that has done so many blocks may look at its width.
pub fn is_look(blocks: u32) -> bool {
    blocks >= FIRST_LOOK && (blocks - FIRST_LOOK).is_multiple_of(LOOK_EVERY)
}

/// Whether the intervals that the study waits for are so narrow that the run may end: those of every form's ratio (of a
/// study of one form: the A/A control's) in each of [`Header::awaited_metrics`], each with a reserve of `1/n` of its
/// width, of n blocks. False for a study that names no width.
///
/// [`Header::awaited_metrics`]: tare_core::record::Header::awaited_metrics
pub fn precise_enough(record: &Record) -> bool {
    let Some(asked) = record.header.study.design.half_width else { return false };
    let analysis = analyse(record);
    let widest = widest(&analysis, &record.header);
    widest.is_some_and(|widest| widest.with_reserve.is_some_and(|half_width| half_width <= asked.ln_1p()))
}
