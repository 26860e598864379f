//! How answers come in during a turn of a closed loop. A wave is as many answers as operations can be in flight: the
//! first one finds a service that has rested, during the last one nothing is started any more, and those in between are
//! what a loop that never rests looks like. Whole waves are counted, for a loop may stay in step with itself.
//!
//! A turn starts operations until its time is over *and* the wave under way is complete. Were it to count until the
//! last whole wave before a fixed moment, the wave that this moment falls into would be left out, and that is more
//! often a long one than a short one: rates would read high by cv^2 / waves, with cv the coefficient of variation of
//! what a wave takes. Counted on to its end, the number of waves is a stopping time, and the time that they take is on
//! average what each takes times their number (A. Wald, Annals of Mathematical Statistics 15 (1944)).

/// Waves that a loop needs to get going.
const FIRST: u64 = 2;
/// Fewer in the midst of a turn, as a mean over turns, tell nothing.
const LEAST: u64 = 3;
/// A turn that took so many times as long as the median one stood still.
const STALLED: u64 = 3;

/// The waves of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waves {
    size: u64,
    // The answers of a service that has rested, where their times do not count.
    rested: u64,
    answers: u64,
    last_ns: u64,
    // The turn's time is over, so the wave under way is its last whole one.
    until_ns: u64,
    // The answer that completes the wave under way; none will when nothing is started any more.
    completes: u64,
    // When the loop was going, and when the last whole wave since then was complete.
    going_ns: u64,
    whole_ns: u64,
    whole: u64,
    // The moment amid the turn; when the first whole wave after it was complete, and how many there were then.
    half_at_ns: u64,
    half_ns: u64,
    half: u64,
}

/// What whole waves amid turns took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amid {
    /// How many there were.
    pub waves: u64,
    /// So many answers.
    pub answers: u64,
    /// How long they took, ns.
    pub ns: u64,
    /// Those until the middle of the turn, and those after it.
    pub halves: [Half; 2],
}

/// Whole waves of the first or of the second halves of turns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Half {
    /// So many answers.
    pub answers: u64,
    /// How long they took, ns.
    pub ns: u64,
}

impl Half {
    fn and(self, other: Half) -> Half {
        Half { answers: self.answers + other.answers, ns: self.ns + other.ns }
    }

    fn rate(self) -> Option<f64> {
        (self.answers > 0 && self.ns > 0).then(|| self.answers as f64 / self.ns as f64)
    }
}

impl Waves {
    /// A turn begins, with so many operations in flight at once, that is to last until `until_ns`; whether the times of
    /// its first wave count.
    pub(crate) fn begin(size: usize, now_ns: u64, until_ns: u64, first_counts: bool) -> Waves {
        let size = size as u64;
        let rested = if first_counts { 0 } else { size };
        let (completes, half_at_ns) = (size.max(1) * FIRST, now_ns + until_ns.saturating_sub(now_ns) / 2);
        Waves { size, rested, last_ns: now_ns, until_ns, completes, half_at_ns, ..Waves::default() }
    }

    /// Whether the last answer was one of a service that has rested, and its time does not count.
    #[inline]
    pub(crate) fn is_rested(&self) -> bool {
        self.answers <= self.rested
    }

    /// A reply has come; whether it completes the turn, so that nothing is to be started any more.
    #[inline]
    pub(crate) fn answered(&mut self, now_ns: u64) -> bool {
        self.answers += 1;
        self.last_ns = now_ns;
        self.answers == self.completes && self.complete(now_ns)
    }

    #[cold]
    fn complete(&mut self, now_ns: u64) -> bool {
        self.completes += self.size.max(1);
        if self.going_ns == 0 {
            self.going_ns = now_ns;
            return false;
        }
        self.whole += 1;
        self.whole_ns = now_ns;
        // To the end of the wave under way, as the turn itself, so that neither half reads high.
        if self.half == 0 && now_ns >= self.half_at_ns {
            (self.half_ns, self.half) = (now_ns, self.whole);
        }
        let over = now_ns >= self.until_ns;
        if over {
            self.ebb();
        }
        over
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

    /// When the last wave of a turn should be over that began at `start_ns` and in which nothing is started any more
    /// since `now_ns`: a service that does one operation after the other works for all of it, however few are left. A
    /// quarter more, for by few answers it is not known better.
    pub(crate) fn over_ns(&self, start_ns: u64, now_ns: u64) -> u64 {
        let wave_ns = u128::from(now_ns - start_ns) * u128::from(self.size) / u128::from(self.answers.max(1));
        now_ns.saturating_add(u64::try_from(wave_ns + wave_ns / 4).unwrap_or(u64::MAX))
    }

    /// What its whole waves took while the loop was going; none where there is none.
    pub(crate) fn amid(&self) -> Option<Amid> {
        // Where the loop got going and no wave was whole after that, the second moment is not there.
        let ns = self.whole_ns.saturating_sub(self.going_ns);
        let half = |waves: u64, ns: u64| Half { answers: waves * self.size, ns };
        // A turn whose last wave began before its middle has a first half alone: left out, long waves were missing.
        let halves = match self.half {
            0 => <[Half; 2]>::default(),
            first => {
                [half(first, self.half_ns - self.going_ns), half(self.whole - first, self.whole_ns - self.half_ns)]
            }
        };
        let amid = Amid { waves: self.whole, answers: self.whole * self.size, ns, halves };
        (self.whole > 0 && ns > 0).then_some(amid)
    }
}

impl Amid {
    /// These and others, one after the other.
    pub(crate) fn and(self, other: Amid) -> Amid {
        let [first, second] = self.halves;
        Amid {
            waves: self.waves + other.waves,
            answers: self.answers + other.answers,
            ns: self.ns + other.ns,
            halves: [first.and(other.halves[0]), second.and(other.halves[1])],
        }
    }

    /// What those of several workers come to that are at work at the same moment, where `all` of them are.
    pub(crate) fn beside(workers: &[Amid], all: usize) -> Option<Amid> {
        let sum = workers.iter().copied().reduce(Amid::and)?;
        let told = workers.len() as u64;
        // Of a worker that cannot tell it is taken that it was as fast as the others.
        let answers = |sum: u64| sum * all as u64 / told;
        let halves = sum.halves.map(|half| Half { answers: answers(half.answers), ns: half.ns / told });
        Some(Amid { waves: sum.waves / told, answers: answers(sum.answers), ns: sum.ns / told, halves })
    }

    /// Answers a second; none where so many turns hold too few waves to tell.
    pub(crate) fn rate(&self, turns: u64) -> Option<f64> {
        (self.answers > 0 && self.waves >= LEAST * turns).then(|| self.answers as f64 / (self.ns as f64 / 1e9))
    }
}

/// A turn that tells what its move cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    /// From its first start to its last answer, ns.
    pub took_ns: u64,
    /// Its answers.
    pub answers: u64,
    /// Its whole waves.
    pub amid: Amid,
}

/// How much longer turns were than their answers take amid them, ns, as a mean; none where they hold too few waves. The
/// rate amid them is that of all together, for the mean of ratios of few answers is another one. A stall is no cost of
/// moves, whether it falls amid a turn or into its ends: turns that stood still are left out, and stay whole.
pub(crate) fn move_ns(turns: &[Told]) -> Option<i64> {
    let lasting = lasting(turns);
    let (count, amid) = (lasting.len() as u64, lasting.iter().map(|turn| turn.amid).fold(Amid::default(), Amid::and));
    let each_ns = 1e9 / amid.rate(count)?;
    let (took_ns, answers) =
        lasting.iter().fold((0, 0), |(took, answers), turn| (took + turn.took_ns, answers + turn.answers));
    Some(((took_ns as f64 - answers as f64 * each_ns) / count as f64) as i64)
}

/// By which share answers come faster in the second halves of turns than in the first ones, where the loop was going:
/// what still gets warm after each move. None where too few turns have both.
pub(crate) fn warming(turns: &[Told]) -> Option<f64> {
    let lasting = lasting(turns);
    let both = lasting.iter().filter(|turn| turn.amid.halves[1].answers > 0).count();
    let [first, second] = lasting.iter().map(|turn| turn.amid).fold(Amid::default(), Amid::and).halves;
    (2 * both > lasting.len()).then(|| Some(second.rate()? / first.rate()? - 1.0)).flatten()
}

/// The turns that did not stand still.
fn lasting(turns: &[Told]) -> Vec<&Told> {
    let mut took: Vec<u64> = turns.iter().map(|turn| turn.took_ns).collect();
    took.sort_unstable();
    let longest_ns = took.get(took.len() / 2).map_or(0, |middle| middle.saturating_mul(STALLED));
    turns.iter().filter(|turn| turn.took_ns <= longest_ns).collect()
}

/// Operations that are still in flight when the last wave of a turn has had its time.
pub(super) struct Stuck {
    latest_ns: u64,
    // How many connections there are, and of how many: where one is down, the others are all that could go on.
    up_of: (u64, u64),
    // What of the time since then is added, and how much that is for all of them together.
    seen_ns: u64,
    sum_ns: u64,
}

impl Stuck {
    /// None yet, of a turn that may end at `latest_ns` at the latest, with so many of so many connections.
    pub(super) fn after(latest_ns: u64, up_of: (u64, u64)) -> Stuck {
        Stuck { latest_ns, up_of, seen_ns: latest_ns, sum_ns: 0 }
    }

    /// So many have been `waiting` until now.
    pub(super) fn add(&mut self, waiting: u64, now_ns: u64) {
        self.sum_ns += waiting * now_ns.saturating_sub(self.seen_ns);
        self.seen_ns = self.seen_ns.max(now_ns);
    }

    /// How long they were in flight after the turn's latest end, all added up, as if all connections were there.
    pub(super) fn sum_ns(&self) -> u64 {
        let (up, all) = self.up_of;
        self.sum_ns * all / up.max(1)
    }

    /// The turn's end without that.
    pub(super) fn end_ns(&self, end_ns: u64) -> u64 {
        end_ns.min(self.latest_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BinaryHeap;

    /// A turn of `waves` waves of four, each answer `each_ns` after the one before; the first comes `cold_ns` later.
    fn turn(waves: u64, each_ns: u64, cold_ns: u64) -> Told {
        let over_ns = 1000 + cold_ns + each_ns * ((waves - 2) * 4 + 2);
        let mut seen = Waves::begin(4, 1000, over_ns, false);
        let mut now_ns = 1000 + cold_ns;
        for answer in 1..=waves * 4 {
            now_ns += each_ns;
            let over = seen.answered(now_ns);
            assert_eq!(over, answer == (waves - 1) * 4, "the wave under way is the last whole one");
            assert_eq!(seen.is_rested(), answer <= 4);
        }
        Told { took_ns: now_ns - 1000, answers: seen.answers(), amid: seen.amid().unwrap() }
    }

    #[test]
    fn what_a_rested_service_takes_longer_is_the_cost_of_the_move() {
        for cold_ns in [0, 7_000, 30_000] {
            let told = turn(10, 500, cold_ns);
            let Amid { waves, answers, ns, .. } = told.amid;
            assert_eq!((told.answers, waves, answers, ns), (40, 7, 28, 14_000));
            assert_eq!(warming(&[told; 3]), Some(0.0), "the loop is as fast from its third wave on");
            assert_eq!(move_ns(&[told; 3]), Some(cold_ns.cast_signed()));
        }
    }

    #[test]
    fn what_gets_warm_amid_a_turn_is_faster_in_its_second_half() {
        // Answers of 1 us that take a fifth longer right after the move, and less and less so over some answers.
        let turn = |fades: f64| {
            let (mut seen, mut now_ns, mut over) = (Waves::begin(4, 0, 40_000, false), 0, false);
            for answer in 0.. {
                now_ns += (1000.0 * (1.0 + 0.2 * (-f64::from(answer) / fades).exp())) as u64;
                let last = seen.answers();
                if over && last.is_multiple_of(4) {
                    break;
                }
                over |= seen.answered(now_ns);
            }
            Told { took_ns: now_ns, answers: seen.answers(), amid: seen.amid().unwrap() }
        };
        let shares = [1.0, 10.0, 1e9].map(|fades| warming(&[turn(fades); 3]).unwrap());
        assert!(shares[0].abs() < 0.001, "{shares:?}: over before the loop was going");
        assert!((0.03..0.06).contains(&shares[1]), "{shares:?}");
        assert!(shares[2].abs() < 0.001, "{shares:?}: what lasts longer than turns is not seen in one");
    }

    #[test]
    fn a_stall_is_no_cost_of_moves() {
        let mut turns = vec![turn(10, 500, 100); 19];
        let stalled = Told { took_ns: 1_000_000, ..turns[0] };
        let amid = Told { took_ns: 1_000_000, amid: Amid { ns: 994_000, ..turns[0].amid }, ..turns[0] };
        turns.extend([stalled, amid]);
        assert_eq!(move_ns(&turns), Some(100));
        assert_eq!(move_ns(&[]), None);
    }

    #[test]
    fn turns_of_few_waves_tell_nothing() {
        assert_eq!(move_ns(&[turn(5, 500, 0)]), None, "two get going, one ebbs, and two are left");
        assert!(move_ns(&[turn(6, 500, 0)]).is_some());
        // What counts is how many there are on average: to leave out slow turns would be to choose fast ones.
        assert!(move_ns(&[turn(5, 500, 0), turn(7, 500, 0)]).is_some());
        let nothing = Waves::begin(4, 1000, 2000, true);
        assert_eq!((nothing.amid(), nothing.answers(), nothing.last_ns()), (None, 0, 1000));
        // Two waves get it going, and it is cut off before the third is whole.
        let mut cut = Waves::begin(1, 1000, 2000, true);
        (0..2).for_each(|at| assert!(!cut.answered(1500 + at)));
        cut.ebb();
        assert_eq!((cut.answered(5000), cut.amid()), (false, None));
    }

    #[test]
    fn workers_beside_each_other_add_their_answers() {
        let halves = |answers, ns| [Half { answers, ns }; 2];
        let one = Amid { waves: 8, answers: 80, ns: 1000, halves: halves(40, 500) };
        let other = Amid { waves: 6, answers: 60, ns: 1200, halves: halves(20, 300) };
        let both = Amid { waves: 7, answers: 140, ns: 1100, halves: halves(60, 400) };
        assert_eq!(Amid::beside(&[one, other], 2), Some(both));
        let twice = Amid { answers: 160, halves: halves(80, 500), ..one };
        assert_eq!(Amid::beside(&[one], 2), Some(twice), "as fast as the one that tells");
        assert_eq!(Amid::beside(&[], 2), None);
    }

    /// Times that operations take, of mean 1000 ns and a given coefficient of variation.
    struct Service {
        random: u64,
        variation: f64,
    }

    impl Service {
        fn uniform(&mut self) -> f64 {
            self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (((mixed ^ (mixed >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        /// Lognormal.
        fn takes_ns(&mut self) -> u64 {
            let variance = self.variation.powi(2).ln_1p();
            let normal = (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos();
            (1000.0 * (variance.sqrt() * normal - 0.5 * variance).exp()).max(1.0) as u64
        }

        /// A turn of about `waves` waves with so many operations in flight; the server does one of them at a time, or
        /// all of them at once. As long again as it was meant to be it is cut off, and tells nothing of its move.
        fn turn(&mut self, in_flight: usize, at_once: bool, waves: u64) -> (u64, u64, Option<Told>) {
            let wave_ns = if at_once { 1000 } else { 1000 * in_flight as u64 };
            let length_ns = (wave_ns as f64 * waves as f64 * (0.9 + 0.2 * self.uniform())) as u64;
            self.turn_of(in_flight, at_once, length_ns)
        }

        /// The same with a turn that is to last so long.
        fn turn_of(&mut self, in_flight: usize, at_once: bool, length_ns: u64) -> (u64, u64, Option<Told>) {
            let (latest_ns, all) = (2 * length_ns, in_flight as u64);
            let parked = |seen: &Waves, now_ns| Stuck::after(latest_ns.max(seen.over_ns(0, now_ns)), (all, all));
            let mut seen = Waves::begin(in_flight, 0, length_ns, false);
            // When those end that are worked on, the first one first, and how many wait.
            let mut ends = BinaryHeap::new();
            let workers = if at_once { in_flight } else { 1 };
            let mut waiting = in_flight - workers;
            ends.extend((0..workers).map(|_| std::cmp::Reverse(self.takes_ns())));
            let (mut over, mut cut, mut stuck) = (false, false, None);
            while let Some(std::cmp::Reverse(now_ns)) = ends.pop() {
                if !over && !cut && now_ns > latest_ns {
                    cut = true;
                    seen.ebb();
                    stuck = Some(parked(&seen, latest_ns));
                }
                if let Some(stuck) = &mut stuck {
                    stuck.add((ends.len() + 1 + waiting) as u64, now_ns);
                }
                over |= seen.answered(now_ns);
                if over && stuck.is_none() {
                    stuck = Some(parked(&seen, now_ns));
                }
                if !over && !cut {
                    waiting += 1;
                }
                if waiting > 0 {
                    waiting -= 1;
                    ends.push(std::cmp::Reverse(now_ns + self.takes_ns()));
                }
            }
            let (stuck, answers) = (stuck.expect("every turn ends"), seen.answers());
            let took_ns = stuck.end_ns(seen.last_ns()) + stuck.sum_ns() / all;
            let told = seen.amid().filter(|_| !cut).map(|amid| Told { took_ns, answers, amid });
            (took_ns, answers, told)
        }

        /// The rate that a load reports by so many turns, as a multiple of the true one, and by how much second halves
        /// are faster.
        fn rate(&mut self, in_flight: usize, at_once: bool, waves: u64, turns: usize) -> (f64, f64) {
            let all: Vec<(u64, u64, Option<Told>)> = (0..turns).map(|_| self.turn(in_flight, at_once, waves)).collect();
            let (took_ns, answers) = all.iter().fold((0, 0), |sum, turn| (sum.0 + turn.0, sum.1 + turn.1));
            let told: Vec<Told> = all.into_iter().filter_map(|(.., told)| told).collect();
            let steady_ns = took_ns as f64 - move_ns(&told).unwrap() as f64 * turns as f64;
            let each_ns = if at_once { 1000.0 / in_flight as f64 } else { 1000.0 };
            (answers as f64 * each_ns / steady_ns, warming(&told).unwrap())
        }
    }

    // Until the last whole wave before the end of a turn's time, the rates of one operation in flight would read 2, 9
    // and 19 % high at a variation of 0.5, 1 and 2 and ten waves.
    #[test]
    fn rates_amid_turns_of_few_waves_are_those_of_a_loop_that_never_rests() {
        const TURNS: usize = 8_000;
        for (seed, variation) in [0.0, 0.5, 1.0, 2.0].into_iter().enumerate() {
            let mut service = Service { random: seed as u64, variation };
            for (in_flight, at_once) in [(1, false), (4, false), (16, false), (4, true), (16, true)] {
                let (rate, warming) = service.rate(in_flight, at_once, 10, TURNS);
                // Three errors of the mean of so many waves.
                let error = 3.0 * variation / (in_flight as f64 * 8.0 * TURNS as f64).sqrt();
                // Who does everything at once needs some time until the loop is as uneven as it will be: of a
                // variation of 2, ten waves are not enough.
                let start = if at_once { 0.01 * variation.powi(3) } else { 0.0 };
                let what = format!("variation {variation}, {in_flight} in flight, at once: {at_once}");
                assert!((rate - 1.0).abs() < 0.002 + error + start, "{what}: {rate}");
                assert!(warming.abs() < 0.002 + 2.0 * error + 2.0 * start, "{what}: {warming}");
            }
        }
    }

    #[test]
    fn a_server_of_one_at_a_time_is_as_fast_in_turns_that_are_cut_off() {
        const IN_FLIGHT: usize = 50;
        for share in [0.3, 0.5, 1.0, 1.5, 2.0, 3.0] {
            let mut service = Service { random: 11, variation: 0.5 };
            let turn = |_| service.turn_of(IN_FLIGHT, false, (share * 1000.0 * IN_FLIGHT as f64) as u64);
            let (took_ns, answers) = (0..200).map(turn).fold((0, 0), |sum, turn| (sum.0 + turn.0, sum.1 + turn.1));
            let rate = answers as f64 * 1000.0 / took_ns as f64;
            assert!((rate - 1.0).abs() < 0.02, "{share} response times: {rate}");
        }
    }

    #[test]
    fn forms_that_answer_unevenly_are_weighed_without_bias_in_turns_of_few_waves() {
        const TURNS: usize = 20_000;
        let [mut even, mut uneven] = [0.0, 1.0].map(|variation| Service { random: 7, variation });
        for (in_flight, waves) in [(1, 6), (1, 10), (4, 6), (4, 10)] {
            // The truth is 1: both need as long, one of them evenly.
            let [even, uneven] = [&mut even, &mut uneven].map(|service| service.rate(in_flight, false, waves, TURNS).0);
            let ratio = uneven / even;
            assert!((ratio - 1.0).abs() < 0.012, "{in_flight} in flight, {waves} waves: {ratio}");
        }
    }

    #[test]
    fn one_that_is_stuck_counts_once_and_all_of_them_count_whole() {
        let of = |waiting: &[(u64, u64)]| {
            let mut stuck = Stuck::after(1000, (10, 10));
            waiting.iter().for_each(|(count, now_ns)| stuck.add(*count, *now_ns));
            (stuck.sum_ns(), stuck.end_ns(5000))
        };
        assert_eq!(of(&[(10, 900)]), (0, 1000), "the last wave has time");
        assert_eq!(of(&[(10, 900), (10, 1200), (1, 3000)]), (10 * 200 + 1800, 1000));
        assert_eq!(Stuck::after(1000, (10, 10)).end_ns(800), 800);
        let mut few = Stuck::after(1000, (3, 4));
        few.add(3, 2000);
        assert_eq!(few.sum_ns(), 4 * 1000, "all that are there are stuck");
    }
}
