//! When what is measured.

use crate::clock::{self, SECOND_NS, span_ns};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tare_core::load::Hold;

/// A requested level takes effect this long after the request at the earliest: every worker must have learnt of it.
const NOTICE_NS: u64 = SECOND_NS / 50;
/// A load that is told to end early goes on for this long, so that every worker has learnt of it by then.
const LAST_NS: u64 = SECOND_NS / 5;

/// A span that is reported separately, once a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// When the span began, CLOCK_MONOTONIC, ns.
    pub from_ns: u64,
    /// When it ends; this moment belongs to the next one.
    pub at_ns: u64,
    /// Whether it is part of what is measured.
    pub measured: bool,
}

/// A span that counts the operations whose planned starts fall into it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    /// Its number.
    pub number: u64,
    /// Its level.
    pub level: f64,
    /// When it begins.
    pub from_ns: u64,
    /// When it ends; this moment does not belong to it.
    pub to_ns: u64,
}

/// The spans of a run, without gaps: seconds of settling, then seconds of measuring. The last of each may be short.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// When the run begins.
    pub start_ns: u64,
    /// When measuring begins.
    pub measure_start_ns: u64,
    /// When it ends; `u64::MAX` if that is decided while it runs.
    pub measure_end_ns: u64,
    /// The spans to count by that are known in advance; empty if operations are counted by their answers.
    pub spans: Vec<Span>,
    /// The levels requested while it runs.
    pub guide: Option<Guide>,
    // When it is to end by request; `u64::MAX` without one.
    told_end_ns: AtomicU64,
    // Whether it ended by itself, at a moment that was not known in advance.
    closed: AtomicBool,
}

impl Timeline {
    /// A run that starts at `start_ns`.
    pub(crate) fn new(start_ns: u64, settle: Duration, measure: Duration) -> Self {
        let measure_start_ns = start_ns + span_ns(settle);
        let measure_end_ns = measure_start_ns.saturating_add(span_ns(measure));
        let (told_end_ns, closed) = (AtomicU64::new(u64::MAX), AtomicBool::new(false));
        Timeline { start_ns, measure_start_ns, measure_end_ns, spans: Vec::new(), guide: None, told_end_ns, closed }
    }

    /// The levels requested after the first `known`.
    pub(crate) fn news(&self, known: usize) -> Vec<Turn> {
        self.guide.as_ref().map(|guide| guide.news(known)).unwrap_or_default()
    }

    /// Requests the end of the run, whatever was planned. A guided one ends at once: between its windows nothing is
    /// counted.
    pub(crate) fn end(&self) {
        let notice_ns = if self.guide.is_some() { 0 } else { LAST_NS };
        self.told_end_ns.fetch_min(clock::monotonic_ns() + notice_ns, Ordering::Release);
    }

    /// Everything is done: nothing is in flight, and nothing more is started.
    pub(crate) fn close(&self) {
        if self.told_end_ns() == u64::MAX {
            self.closed.store(true, Ordering::Release);
        }
        self.told_end_ns.fetch_min(clock::monotonic_ns(), Ordering::Release);
    }

    /// When it is to end by request; `u64::MAX` without one.
    pub(crate) fn told_end_ns(&self) -> u64 {
        self.told_end_ns.load(Ordering::Acquire)
    }

    /// Whether an early end was requested; a guided load always ends by request, which is not an early end.
    pub(crate) fn told(&self) -> bool {
        self.guide.is_none() && self.told_end_ns() != u64::MAX && !self.closed.load(Ordering::Acquire)
    }

    /// When it ends, by plan or by request.
    pub(crate) fn end_ns(&self) -> u64 {
        self.measure_end_ns.min(self.told_end_ns())
    }

    /// Span number `index`, if there is one.
    pub(crate) fn cut(&self, index: usize) -> Option<Cut> {
        let settling = (self.measure_start_ns - self.start_ns).div_ceil(SECOND_NS) as usize;
        let measured = index >= settling;
        let (begin_ns, end_ns, index) = match measured {
            false => (self.start_ns, self.measure_start_ns, index),
            true => (self.measure_start_ns, self.measure_end_ns, index - settling),
        };
        let from_ns = begin_ns + index as u64 * SECOND_NS;
        (from_ns < end_ns).then(|| Cut { from_ns, at_ns: (from_ns + SECOND_NS).min(end_ns), measured })
    }
}

/// Levels that are set from outside during a run.
#[derive(Debug)]
pub(crate) struct Guide {
    told: Mutex<Vec<Turn>>,
    count: AtomicUsize,
}

/// A level, when it takes effect, and what is counted at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Turn {
    /// When the level takes effect.
    pub at_ns: u64,
    /// What is counted, and the level.
    pub span: Span,
}

impl Guide {
    /// A guide without requests yet.
    pub(crate) fn new() -> Self {
        Guide { told: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Requests a level. It takes effect as soon as every worker can know, but not before the previous one has been
    /// counted.
    pub(crate) fn hold(&self, hold: &Hold) {
        let mut told = self.told.lock().expect("nothing panics while it is held");
        let free_ns = told.last().map_or(0, |turn| turn.span.to_ns);
        let at_ns = free_ns.max(clock::monotonic_ns() + NOTICE_NS);
        let length = |seconds: f64| (seconds.max(0.0) * SECOND_NS as f64) as u64;
        let from_ns = at_ns.saturating_add(length(hold.settle_s));
        let to_ns = from_ns.saturating_add(length(hold.window_s));
        told.push(Turn { at_ns, span: Span { number: hold.number, level: hold.level, from_ns, to_ns } });
        self.count.store(told.len(), Ordering::Release);
    }

    /// The levels requested after the first `known`.
    pub(crate) fn news(&self, known: usize) -> Vec<Turn> {
        if self.count.load(Ordering::Acquire) == known {
            return Vec::new();
        }
        self.told.lock().expect("nothing panics while it is held")[known..].to_vec()
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
            let cuts: Vec<Cut> = (0..).map_while(|index| line.cut(index)).collect();
            prop_assert_eq!(cuts[0].from_ns, 17);
            prop_assert!(cuts.windows(2).all(|pair| pair[0].at_ns == pair[1].from_ns));
            prop_assert!(cuts.iter().all(|cut| cut.from_ns < cut.at_ns && cut.at_ns - cut.from_ns <= SECOND_NS));
            prop_assert!(cuts.iter().all(|cut| cut.measured == (cut.from_ns >= line.measure_start_ns)));
            prop_assert_eq!(cuts.last().unwrap().at_ns, line.measure_end_ns);
        }
    }

    #[test]
    fn holds_follow_each_other() {
        let guide = Guide::new();
        let hold = |number| Hold { number, level: 5.0, settle_s: 1.0, window_s: 2.0 };
        guide.hold(&hold(1));
        guide.hold(&hold(2));
        let turns = guide.news(0);
        assert_eq!(turns[1].at_ns, turns[0].span.to_ns);
        assert_eq!(turns[0].span.to_ns - turns[0].at_ns, 3 * SECOND_NS);
        assert_eq!((guide.news(1).len(), guide.news(2).len()), (1, 0));
    }

    #[test]
    fn who_is_told_to_end_ends_before_its_time() {
        let start_ns = clock::monotonic_ns();
        let line = Timeline::new(start_ns, Duration::ZERO, Duration::from_secs(60));
        assert_eq!((line.told_end_ns(), line.end_ns()), (u64::MAX, line.measure_end_ns));
        line.end();
        let told_ns = line.end_ns();
        assert!(told_ns < line.measure_end_ns);
        line.end();
        assert_eq!(line.end_ns(), told_ns, "the first word counts");
    }
}
