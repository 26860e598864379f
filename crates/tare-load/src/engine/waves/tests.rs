use super::*;
use std::collections::BinaryHeap;
use tare_core::load::TurnsSummary;

/// A turn of `waves` waves of four, each answer `each_ns` after the previous one; the first comes `cold_ns` later.
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
    // Answers of 1 us that take a fifth longer right after the move, fading over some answers.
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
    // When warm it answers once per 1 us; over whole turns it is up to 6 % slower.
    for fades in [1.0, 4.0, 8.0] {
        let told = [turn(fades); 3];
        let rate = 3.0 * told[0].answers as f64 * 1000.0 / steady_ns(&told, 3 * told[0].took_ns, 3);
        assert!((rate - 1.0).abs() < 0.006, "fading over {fades} answers: {rate}");
    }
}

#[test]
fn stalls_longer_than_a_turn_make_neither_half_the_faster_one() {
    const LENGTH_NS: u64 = 40_000;
    // A wave takes 2 us; one turn in twenty stalls for somewhat longer than a turn, at any moment.
    let turn = |at: u64| {
        let stalls_at_ns = at.is_multiple_of(20).then(|| at * 7919 % LENGTH_NS);
        let (mut seen, mut now_ns, mut stalled) = (Waves::begin(4, 0, LENGTH_NS, false), 0, false);
        loop {
            now_ns += 500;
            if stalls_at_ns.is_some_and(|stall| now_ns > stall && !stalled) {
                (now_ns, stalled) = (now_ns + LENGTH_NS * 6 / 5, true);
            }
            // A turn not over after twice its length is cut off.
            let cut = now_ns > 2 * LENGTH_NS;
            if cut || seen.answered(now_ns) {
                let (took_ns, answers) = (now_ns, seen.answers());
                return seen.amid().filter(|_| !cut).map(|amid| Told { took_ns, answers, amid });
            }
        }
    };
    let turns: Vec<Told> = (0..40_000).filter_map(turn).collect();
    let share = warming(&turns).unwrap();
    assert!(share.abs() < 0.004, "{share}");
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
    // The criterion is the average number of waves: leaving out slow turns would mean choosing fast ones.
    assert!(move_ns(&[turn(5, 500, 0), turn(7, 500, 0)]).is_some());
    let nothing = Waves::begin(4, 1000, 2000, true);
    assert_eq!((nothing.amid(), nothing.answers(), nothing.last_ns()), (None, 0, 1000));
    // Two waves get it going, and it is cut off before the third is complete.
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

/// The time that counts for this many turns, of which `told` have figures.
fn steady_ns(told: &[Told], active_ns: u64, turns: usize) -> f64 {
    let (move_ns, warming) = (move_ns(told), warming(told));
    assert!(move_ns.is_some());
    TurnsSummary { turns: turns as u32, active_ns, move_ns, warming, ..TurnsSummary::default() }.steady_ns() as f64
}

/// Operation times with a mean of 1000 ns and a given coefficient of variation.
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

    /// A turn of about `waves` waves with this many operations in flight; the server does one of them at a time, or all
    /// of them at once. It is cut off at twice its intended length, and then tells nothing about its move. Returns the
    /// time that counts, the answers, and the figures.
    fn turn(&mut self, in_flight: usize, at_once: bool, waves: u64) -> (u64, u64, Option<Told>) {
        let wave_ns = if at_once { 1000 } else { 1000 * in_flight as u64 };
        let length_ns = (wave_ns as f64 * waves as f64 * (0.9 + 0.2 * self.uniform())) as u64;
        self.turn_of(in_flight, at_once, length_ns)
    }

    /// The same for a turn of this intended length.
    fn turn_of(&mut self, in_flight: usize, at_once: bool, length_ns: u64) -> (u64, u64, Option<Told>) {
        let (latest_ns, all) = (2 * length_ns, in_flight as u64);
        let parked = |seen: &Waves, now_ns| Stuck::after(latest_ns.max(seen.over_ns(0, now_ns)), (all, all));
        let mut seen = Waves::begin(in_flight, 0, length_ns, false);
        // When the operations being worked on end, soonest first, and how many wait.
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
        // As turns are counted: stuck operations add to the time, but not to the cost of moves.
        let took_ns = stuck.end_ns(seen.last_ns());
        let told = seen.amid().filter(|_| !cut).map(|amid| Told { took_ns, answers, amid });
        (took_ns + stuck.sum_ns() / all, answers, told)
    }

    /// The rate that a load reports from this many turns, as a multiple of the true one, and by how much second halves
    /// are faster.
    fn rate(&mut self, in_flight: usize, at_once: bool, waves: u64, turns: usize) -> (f64, f64) {
        let all: Vec<(u64, u64, Option<Told>)> = (0..turns).map(|_| self.turn(in_flight, at_once, waves)).collect();
        let (took_ns, answers) = all.iter().fold((0, 0), |sum, turn| (sum.0 + turn.0, sum.1 + turn.1));
        let told: Vec<Told> = all.into_iter().filter_map(|(.., told)| told).collect();
        let warming = warming(&told);
        let each_ns = if at_once { 1000.0 / in_flight as f64 } else { 1000.0 };
        (answers as f64 * each_ns / steady_ns(&told, took_ns, turns), warming.unwrap())
    }
}

// Counted only up to the last whole wave before the end of a turn's time, the rates with one operation in flight would
// read 2, 9 and 19 % high at a variation of 0.5, 1 and 2 and ten waves.
#[test]
fn rates_amid_turns_of_few_waves_are_those_of_a_loop_that_never_rests() {
    const TURNS: usize = 8_000;
    for (seed, variation) in [0.0, 0.5, 1.0, 2.0].into_iter().enumerate() {
        let mut service = Service { random: seed as u64, variation };
        for (in_flight, at_once) in [(1, false), (4, false), (16, false), (4, true), (16, true)] {
            let (rate, warming) = service.rate(in_flight, at_once, 10, TURNS);
            // Three standard errors of the mean of this many waves.
            let error = 3.0 * variation / (in_flight as f64 * 8.0 * TURNS as f64).sqrt();
            // A server that does everything at once needs some time until the loop is as uneven as it will be: at a
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
        // The true ratio is 1: both take equally long, one of them evenly.
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
