//! When what is measured.

use crate::clock::{SECOND_NS, span_ns};
use std::time::Duration;

/// The end of a span that is reported by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// When the span began, CLOCK_MONOTONIC, ns.
    pub from_ns: u64,
    /// When it ends; this moment belongs to the next one.
    pub at_ns: u64,
    /// Whether it is part of what is measured.
    pub measured: bool,
}

/// The spans of a run, without gaps: seconds of settling, then seconds of measuring. The last of each may be short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Every span in order.
    pub cuts: Vec<Cut>,
    /// When measuring begins.
    pub measure_start_ns: u64,
    /// When it ends.
    pub measure_end_ns: u64,
}

impl Timeline {
    /// A run that starts at `start_ns`.
    pub(crate) fn new(start_ns: u64, settle: Duration, measure: Duration) -> Self {
        let measure_start_ns = start_ns + span_ns(settle);
        let measure_end_ns = measure_start_ns + span_ns(measure);
        let mut cuts = Vec::new();
        for (mut from_ns, end_ns, measured) in
            [(start_ns, measure_start_ns, false), (measure_start_ns, measure_end_ns, true)]
        {
            while from_ns < end_ns {
                let at_ns = (from_ns + SECOND_NS).min(end_ns);
                cuts.push(Cut { from_ns, at_ns, measured });
                from_ns = at_ns;
            }
        }
        Timeline { cuts, measure_start_ns, measure_end_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_cover_the_run_without_gaps(settle_ms in 0..5000u64, measure_ms in 1..5000u64) {
            let line = Timeline::new(17, Duration::from_millis(settle_ms), Duration::from_millis(measure_ms));
            prop_assert_eq!(line.cuts[0].from_ns, 17);
            prop_assert!(line.cuts.windows(2).all(|pair| pair[0].at_ns == pair[1].from_ns));
            prop_assert!(line.cuts.iter().all(|cut| cut.from_ns < cut.at_ns && cut.at_ns - cut.from_ns <= SECOND_NS));
            prop_assert!(line.cuts.iter().all(|cut| cut.measured == (cut.from_ns >= line.measure_start_ns)));
            prop_assert_eq!(line.cuts.last().unwrap().at_ns, line.measure_end_ns);
        }
    }
}
