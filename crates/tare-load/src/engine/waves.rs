//! How answers come in during a turn of a closed loop. A wave is as many answers as operations can be in flight: the
//! first one finds a service that has rested, during the last one nothing is started any more, and those in between are
//! what a loop that never rests looks like. Whole waves are counted, for a loop may stay in step with itself.

/// Waves that a loop needs to get going.
const FIRST: u64 = 2;
/// Fewer in the midst of a turn tell nothing.
const LEAST: u64 = 3;

/// The waves of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waves {
    size: u64,
    // The answers of a service that has rested, where their times do not count.
    rested: u64,
    answers: u64,
    last_ns: u64,
    // The answer that completes the wave under way; none will when nothing is started any more.
    completes: u64,
    // When the loop was going, and when the last whole wave since then was complete.
    going_ns: u64,
    whole_ns: u64,
    whole: u64,
}

impl Waves {
    /// A turn begins, with so many operations in flight at once; whether the times of its first wave count.
    pub(crate) fn begin(size: usize, now_ns: u64, first_counts: bool) -> Waves {
        let size = size as u64;
        let rested = if first_counts { 0 } else { size };
        Waves { size, rested, last_ns: now_ns, completes: size.max(1) * FIRST, ..Waves::default() }
    }

    /// Whether the last answer was one of a service that has rested, and its time does not count.
    #[inline]
    pub(crate) fn is_rested(&self) -> bool {
        self.answers <= self.rested
    }

    /// A reply has come.
    #[inline]
    pub(crate) fn answered(&mut self, now_ns: u64) {
        self.answers += 1;
        self.last_ns = now_ns;
        if self.answers == self.completes {
            self.complete(now_ns);
        }
    }

    #[cold]
    fn complete(&mut self, now_ns: u64) {
        self.completes += self.size.max(1);
        if self.going_ns == 0 {
            self.going_ns = now_ns;
        } else {
            self.whole += 1;
        }
        self.whole_ns = now_ns;
    }

    /// Nothing is started any more.
    pub(crate) fn ebb(&mut self) {
        self.completes = 0;
    }

    /// How many replies there were.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// When the last one came; the beginning where none did.
    pub(crate) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// How much longer a turn of `took_ns` was than its answers take amid it, ns; none where it holds too few waves.
    pub(crate) fn move_ns(&self, took_ns: u64) -> Option<i64> {
        let amid_ns = self.whole_ns - self.going_ns;
        let enough = self.whole >= LEAST && amid_ns > 0;
        let at_that_rate = || amid_ns as f64 / (self.whole * self.size) as f64 * self.answers as f64;
        enough.then(|| (took_ns as f64 - at_that_rate()) as i64)
    }
}

/// The mean without the tenth that is lowest and the tenth that is highest: a stall is no cost of moves. There is a
/// value.
pub(crate) fn trimmed_mean(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    let cut = values.len() / 10;
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<i64>() / kept.len() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn of `waves` waves of four, each answer `each_ns` after the one before; the first comes `cold_ns` later.
    fn turn(waves: u64, each_ns: u64, cold_ns: u64) -> (Waves, u64) {
        let mut seen = Waves::begin(4, 1000, false);
        let mut now_ns = 1000 + cold_ns;
        for answer in 1..=waves * 4 {
            now_ns += each_ns;
            if answer == (waves - 1) * 4 + 1 {
                seen.ebb();
            }
            seen.answered(now_ns);
            assert_eq!(seen.is_rested(), answer <= 4);
        }
        (seen, now_ns - 1000)
    }

    #[test]
    fn what_a_rested_service_takes_longer_is_the_cost_of_the_move() {
        for cold_ns in [0, 7_000, 30_000] {
            let (seen, took_ns) = turn(10, 500, cold_ns);
            assert_eq!(seen.answers(), 40);
            assert_eq!(seen.move_ns(took_ns), Some(cold_ns.cast_signed()));
        }
    }

    #[test]
    fn a_stall_is_no_cost_of_moves() {
        let mut values = vec![100; 19];
        values.push(1_000_000);
        assert_eq!(trimmed_mean(&mut values), 100);
        assert_eq!(trimmed_mean(&mut [1, 3]), 2);
    }

    #[test]
    fn a_turn_of_few_waves_tells_nothing() {
        let (seen, took_ns) = turn(5, 500, 0);
        assert_eq!(seen.move_ns(took_ns), None, "two get going, one ebbs, and two are left");
        let nothing = Waves::begin(4, 1000, true);
        assert_eq!((nothing.move_ns(1), nothing.answers(), nothing.last_ns()), (None, 0, 1000));
    }
}
