//! Arrivals at a rate that may change.
//!
//! Arrival `i` comes when the area under the rate reaches `g(0) + ... + g(i)`: with gaps of 1, except that `g(0)` is 0,
//! the arrivals are evenly spaced; with exponential gaps of mean 1 they are a Poisson process of that rate, constant or
//! not (time change of a unit process; Çinlar: Introduction to Stochastic Processes, 1975, ch. 4.7).

use super::level::{Cursor, Levels};
use super::{NOBODY, Share, Start, stream};
use crate::draw::{Draw, Mix};
use tare_core::load::Arrivals;

/// One worker's arrivals.
pub(crate) struct Schedule {
    levels: Levels,
    cursor: Cursor,
    poisson: bool,
    gaps: Draw,
    // The area at the next arrival, and its number in the whole run.
    area: f64,
    index: u64,
    share: Share,
    next_ns: u64,
    mix: Mix,
    seed: u64,
}

impl Schedule {
    /// This worker's share of the arrivals at the rates of `levels`, 1/s.
    pub(crate) fn new(levels: Levels, arrivals: Arrivals, mix: Mix, seed: u64, share: Share) -> Self {
        let mut schedule = Schedule {
            levels,
            cursor: Cursor::new(),
            poisson: arrivals == Arrivals::Poisson,
            gaps: Draw::new(seed, stream::GAPS),
            area: 0.0,
            index: 0,
            share,
            next_ns: 0,
            mix,
            seed,
        };
        // The first of evenly spaced arrivals comes at once.
        if schedule.poisson {
            schedule.area += schedule.gap();
        }
        while schedule.index % share.workers != share.worker {
            schedule.area += schedule.gap();
            schedule.index += 1;
        }
        schedule.locate();
        schedule
    }

    #[inline]
    fn gap(&mut self) -> f64 {
        if self.poisson { -(1.0 - self.gaps.unit()).ln() } else { 1.0 }
    }

    #[inline]
    fn locate(&mut self) {
        self.next_ns = self.cursor.moment(&self.levels, self.area);
    }

    /// When the next one arrives; `u64::MAX` if none does.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// The next one, if it has arrived at `now_ns`.
    #[inline]
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Start> {
        if self.next_ns > now_ns {
            return None;
        }
        let mut draw = Draw::at(self.seed, stream::ARRIVALS, self.index);
        let operation = self.mix.draw(&mut draw) as u16;
        let start = Start { planned_ns: self.next_ns, draw, user: NOBODY, operation };
        for _ in 0..self.share.workers {
            self.area += self.gap();
        }
        self.index += self.share.workers;
        self.locate();
        Some(start)
    }

    /// See [`super::Source::jump`].
    pub(crate) fn jump(&mut self, at_ns: u64, level: f64) {
        self.levels.jump(at_ns, level);
        self.locate();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND_NS;
    use proptest::prelude::*;

    const ALONE: Share = Share { worker: 0, workers: 1 };

    fn schedule(rate: f64, arrivals: Arrivals, seed: u64, share: Share) -> Schedule {
        Schedule::new(Levels::new(5, rate), arrivals, Mix::new([1, 3]), seed, share)
    }

    fn taken(mut schedule: Schedule, count: usize) -> Vec<Start> {
        (0..count).map(|_| schedule.take(u64::MAX - 1).unwrap()).collect()
    }

    proptest! {
        #[test]
        fn workers_share_one_plan(seed: u64, workers in 1..5u64, rate in 0.1..1e6f64, poisson: bool) {
            let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
            // Two may arrive within one ns.
            let order = |start: &Start| (start.planned_ns, start.draw.clone().bits());
            let mut whole = taken(schedule(rate, arrivals, seed, ALONE), 40);
            prop_assert!(whole.windows(2).all(|pair| pair[0].planned_ns <= pair[1].planned_ns));
            let share = |worker| taken(schedule(rate, arrivals, seed, Share { worker, workers }), 40);
            let mut union: Vec<Start> = (0..workers).flat_map(share).collect();
            union.sort_by_key(order);
            whole.sort_by_key(order);
            prop_assert_eq!(&union[..39], &whole[..39]);
        }
    }

    #[test]
    fn constant_arrivals_are_evenly_spaced_and_never_drift() {
        let starts = taken(schedule(1000.0, Arrivals::Constant, 1, ALONE), 100_000);
        for (index, start) in starts.iter().enumerate() {
            let exact = 5 + index as u64 * 1_000_000;
            assert!(start.planned_ns.abs_diff(exact) <= 1, "{index}: {start:?}");
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let starts = taken(schedule(2000.0, Arrivals::Poisson, 9, ALONE), 200_001);
        let gaps: Vec<f64> =
            starts.windows(2).map(|pair| (pair[1].planned_ns - pair[0].planned_ns) as f64 / 1e9 * 2000.0).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        // Standard errors: 1/sqrt(n) for the mean, sqrt(8/n) for the variance; five of each.
        assert!((mean - 1.0).abs() < 5.0 / n.sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (8.0 / n).sqrt(), "{variance}");
        let beyond = gaps.iter().filter(|gap| **gap > 3.0).count() as f64 / n;
        let expected = (-3.0_f64).exp();
        assert!((beyond - expected).abs() < 5.0 * (expected * (1.0 - expected) / n).sqrt(), "{beyond}");
        let second = starts.iter().filter(|start| start.operation == 1).count() as f64 / (n + 1.0);
        assert!((second - 0.75).abs() < 5.0 * (0.1875 / n).sqrt(), "{second}");
    }

    #[test]
    fn a_rate_that_changes_moves_what_is_still_to_come() {
        let mut schedule = schedule(10.0, Arrivals::Constant, 1, ALONE);
        let now_ns = 5 + SECOND_NS;
        while schedule.take(now_ns).is_some() {}
        assert_eq!(schedule.next_ns(), 5 + SECOND_NS + SECOND_NS / 10);
        schedule.jump(now_ns, 1000.0);
        assert_eq!(schedule.next_ns(), now_ns + SECOND_NS / 1000);
        schedule.jump(now_ns, 0.0);
        assert_eq!(schedule.next_ns(), u64::MAX);
        schedule.jump(now_ns + SECOND_NS, 2.0);
        assert_eq!(schedule.next_ns(), now_ns + SECOND_NS + SECOND_NS / 2);
    }
}
