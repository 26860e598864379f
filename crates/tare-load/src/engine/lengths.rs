//! Turns of several lengths, to measure how much slower a service is in short ones, where it has less time to warm up
//! after each rest. Other work on the machine lasts longer than a turn of any length, so the lengths take turns as
//! well: a cycle has turns of all of them, and rates are compared within cycles.

use super::waves::Amid;
use tare_core::load::TurnLength;

/// The most counted turns of one length in a cycle.
const TURNS_MAX: u64 = 4;

/// The fewest cycles. A meaningful error needs four, and a cycle with a turn that yields no rate is lost.
const CYCLES_MIN: usize = 6;

/// The lengths that are compared, and the place in the cycle.
pub(crate) struct Lengths {
    all_ns: Vec<u64>,
    // The rounds of a cycle: the length of each, and whether its turns count.
    cycle: Vec<(usize, bool)>,
    next: usize,
    cycles: usize,
}

/// Where a turn counts: its length and its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    length: usize,
    cycle: usize,
}

impl Lengths {
    /// Doubles from the shortest to the longest; the last step may be somewhat more or less than twice.
    pub(crate) fn between(shortest_ns: u64, longest_ns: u64) -> Lengths {
        let doubled = std::iter::successors(Some(shortest_ns.max(1)), |ns| Some(2 * ns));
        let mut all_ns: Vec<u64> = doubled.take_while(|ns| ns * 7 / 5 < longest_ns).collect();
        all_ns.push(longest_ns.max(shortest_ns));
        let rounds = |(length, ns): (usize, &u64)| {
            // Before the first round of a length, every load has rested for as long as turns of another length last.
            let first = (length + 1 < all_ns.len()).then_some((length, false));
            let counting = (longest_ns / (4 * ns)).clamp(1, TURNS_MAX) as usize;
            first.into_iter().chain(std::iter::repeat_n((length, true), counting))
        };
        let cycle = all_ns.iter().enumerate().flat_map(rounds).collect();
        Lengths { all_ns, cycle, next: 0, cycles: 0 }
    }

    /// Whether there is something to compare.
    pub(crate) fn are_several(&self) -> bool {
        self.all_ns.len() > 1
    }

    /// Whether no cycle is under way and there have been enough of them.
    pub(crate) fn are_enough(&self) -> bool {
        self.next == 0 && self.cycles >= CYCLES_MIN
    }

    /// The next round: how long its turns are, ns, and where they count.
    pub(crate) fn next_round(&mut self) -> (u64, Option<Cell>) {
        let (length, counts) = self.cycle[self.next];
        let cell = counts.then_some(Cell { length, cycle: self.cycles });
        self.next += 1;
        if self.next == self.cycle.len() {
            (self.next, self.cycles) = (0, self.cycles + 1);
        }
        (self.all_ns[length], cell)
    }

    /// The results of one load, by length.
    pub(crate) fn rows(&self, sums: &Sums) -> Vec<TurnLength> {
        let row = |(length, slice_ns): (usize, &u64)| {
            let rate = |cycle| sums.rate(Cell { length, cycle });
            TurnLength { slice_ns: *slice_ns, rates: (0..self.cycles).map(rate).collect() }
        };
        self.all_ns.iter().enumerate().map(row).collect()
    }
}

/// The results of one load's turns, by length and cycle.
#[derive(Default)]
pub(crate) struct Sums(Vec<(Cell, u64, Amid)>);

impl Sums {
    /// Adds a turn, by its whole waves.
    pub(crate) fn add(&mut self, cell: Cell, amid: Amid) {
        match self.0.last_mut().filter(|sum| sum.0 == cell) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + 1, sum.2.and(amid)),
            None => self.0.push((cell, 1, amid)),
        }
    }

    fn rate(&self, cell: Cell) -> Option<f64> {
        let (_, turns, amid) = self.0.iter().find(|sum| sum.0 == cell)?;
        amid.rate(*turns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn lengths_double_up_to_the_longest() {
        let all = |shortest, longest| Lengths::between(shortest * MS, longest * MS).all_ns;
        assert_eq!(all(10, 200), [10, 20, 40, 80, 200].map(|ms| ms * MS));
        assert_eq!(all(30, 200), [30, 60, 120, 200].map(|ms| ms * MS));
        assert_eq!(all(900, 1000), [1000 * MS], "nothing to compare");
        assert!(!Lengths::between(1000 * MS, 200 * MS).are_several());
    }

    #[test]
    fn a_cycle_has_every_length_and_rates_are_by_cycle() {
        let (mut lengths, mut sums) = (Lengths::between(10 * MS, 40 * MS), Sums::default());
        let mut counted = Vec::new();
        for _ in 0..2 {
            assert_eq!(lengths.next, 0);
            loop {
                let (length_ns, cell) = lengths.next_round();
                // A server that answers once a millisecond, but not in the first five.
                if let Some(cell) = cell {
                    let answers = length_ns / MS - 5;
                    sums.add(cell, Amid { waves: answers, answers, ns: length_ns, ..Amid::default() });
                    counted.push(length_ns / MS);
                }
                assert!(!lengths.are_enough(), "two cycles are too few");
                if lengths.next == 0 {
                    break;
                }
            }
        }
        assert_eq!(counted, [10, 20, 40, 10, 20, 40], "the first turns of a length do not count");
        let rates = |row: &TurnLength| row.rates.iter().map(|rate| rate.unwrap() as u64).collect::<Vec<_>>();
        assert_eq!(lengths.rows(&sums).iter().map(rates).collect::<Vec<_>>(), [[500; 2], [750; 2], [875; 2]]);
        assert_eq!(lengths.rows(&Sums::default())[0].rates, [None, None], "no turn could tell");
    }
}
