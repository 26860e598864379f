//! How fast a load was in consecutive parts of its turns, which shows how much it varies within one deployment. Loads
//! take turns in rounds, so the same part of each load covers the same time.

/// Neighbouring rounds resemble each other, so they are merged into this many parts at most.
const BATCHES: u32 = 8;

/// The results of one load's turns, by round.
#[derive(Default)]
pub(crate) struct Rounds(Vec<Round>);

struct Round {
    number: u32,
    answers: u64,
    active_ns: u64,
}

impl Rounds {
    /// Adds a turn to the round with this number. Round numbers never decrease, and are 0 until rounds count.
    /// `active_ns` is how long the turn took.
    pub(crate) fn add(&mut self, number: u32, answers: u64, active_ns: u64) {
        match self.0.last_mut().filter(|round| round.number == number) {
            Some(round) => (round.answers, round.active_ns) = (round.answers + answers, round.active_ns + active_ns),
            None => self.0.push(Round { number, answers, active_ns }),
        }
    }

    /// Answers a second in each part, out of `rounds` rounds numbered from 1. The cost of moves is included. 0 if the
    /// load had no turn in a part; empty if there were no rounds.
    pub(crate) fn rates(&self, rounds: u32) -> Vec<f64> {
        if rounds == 0 {
            return Vec::new();
        }
        let parts = rounds.min(BATCHES);
        let mut sums = vec![(0, 0); parts as usize];
        for round in self.0.iter().filter(|round| round.number > 0) {
            let part = u64::from(round.number - 1) * u64::from(parts) / u64::from(rounds);
            let (answers, active_ns): &mut (u64, u64) = &mut sums[part as usize];
            (*answers, *active_ns) = (*answers + round.answers, *active_ns + round.active_ns);
        }
        sums.into_iter().map(|(answers, active_ns)| answers as f64 / (active_ns.max(1) as f64 / 1e9)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_become_parts_of_about_as_many_in_their_order() {
        let mut rounds = Rounds::default();
        rounds.add(0, 99, 1_000_000_000);
        // Two turns in each round; the load becomes faster from round to round.
        for number in 1..=20 {
            rounds.add(number, u64::from(number), 1_000_000_000);
            rounds.add(number, u64::from(number), 1_000_000_000);
        }
        // 3, 2, 3, 2 rounds and so on.
        assert_eq!(rounds.rates(20), [2.0, 4.5, 7.0, 9.5, 12.0, 14.5, 17.0, 19.5]);
    }

    #[test]
    fn a_load_without_turns_in_a_part_has_none_there() {
        let mut rounds = Rounds::default();
        rounds.add(1, 10, 1_000_000_000);
        rounds.add(3, 30, 1_000_000_000);
        assert_eq!(rounds.rates(4), [10.0, 0.0, 30.0, 0.0]);
        assert_eq!(rounds.rates(0), [0.0; 0], "where turns of several lengths are not asked for");
    }
}
