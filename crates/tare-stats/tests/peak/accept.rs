//! What the search must be able to do, on simulated systems. Every bound says how much of it is the simulation's own
//! error; the bigger table is in main.rs.

use crate::peak::noise::{NONE, Noise, QUIET, SHARED, host};
use crate::peak::random::Random;
use crate::peak::searches::*;
use crate::peak::system::{Make, System};
use std::time::Duration;
use tare_core::peak::{PeakOutcome, PeakPlan};

/// Searches of a series, ours and published: few with every build, as many as the quoted figures rest on when
/// `TARE_THOROUGH` is set. The bounds below widen with their error.
fn numbers() -> (u64, u64) {
    if thorough() { (200, 100) } else { (40, 12) }
}

/// Twice the relative standard error of a standard deviation of `n` normal values.
fn spread_error(n: u64) -> f64 {
    2.0 / (2.0 * n as f64).sqrt()
}

fn ours(noise: &Noise, n: u64) -> Found {
    let make = Make::reference();
    many(n, |seed| search(&make, noise, 100_000 + seed, staircase(&make, 200.0), None))
}

fn theirs(noise: &Noise, n: u64) -> Found {
    many(n, |seed| search(&Make::reference(), noise, 100_000 + seed, published(), None))
}

#[test]
fn the_known_peaks_are_what_the_long_run_says() {
    let (off, thousands) = if thorough() { (0.004, 100) } else { (0.015, 8) };
    for (make, peak) in [(Make::reference(), REFERENCE_PEAK), (slower(), REFERENCE_PEAK * SLOWER.exp())] {
        let late = |level: f64| multiples(&make, level, thousands);
        assert!(late((1.0 - off) * peak) < 1.0 && late((1.0 + off) * peak) > 1.0, "{peak}");
    }
}

#[test]
fn bias_spread_and_time_of_a_search() {
    let (n, n_published) = numbers();
    for (noise, spread, name) in [(QUIET, 0.011, "quiet"), (SHARED, 0.016, "shared")] {
        let (ours, theirs) = (ours(&noise, n), theirs(&noise, n_published));
        println!("{name}: {}\n  published: {}", ours.describe(REFERENCE_PEAK), theirs.describe(REFERENCE_PEAK));
        assert_eq!(ours.logs().len() as u64, n, "a search of a plain system always finds its peak");
        let error = 2.0 * ours.spread() / (n as f64).sqrt();
        assert!((ours.mean() / REFERENCE_PEAK).ln().abs() < 0.01 + error, "{name}: {}", ours.mean());
        assert!(ours.spread() < spread * (1.0 + spread_error(n)), "{name}: {}", ours.spread());
        // Half the spread of the published search, at a third of its time.
        let theirs_at_most = theirs.spread() * (1.0 + spread_error(n_published));
        assert!(ours.spread() < 0.5 * theirs_at_most, "{name}: {} {}", ours.spread(), theirs.spread());
        assert!(ours.load_minutes() < theirs.load_minutes() / 3.0, "{name}: {}", ours.load_minutes());
        assert!(ours.load_minutes() < 21.0, "{name}: {}", ours.load_minutes());
    }
}

#[test]
fn an_own_interval_holds_the_truth() {
    let (n, _) = numbers();
    let error = 2.0 * (0.95 * 0.05 / n as f64).sqrt();
    for (noise, name) in [(NONE, "none"), (QUIET, "quiet"), (SHARED, "shared")] {
        let found = ours(&noise, n);
        println!("{name}: {}", found.describe(REFERENCE_PEAK));
        let covered = found.coverage(REFERENCE_PEAK);
        assert!(covered > 0.93 - error && covered < 0.97 + error, "{name}: {covered}");
        // The width that is claimed is the width there is, but for the factor that is put on top of it.
        let claimed = found.half_width() / 2.776 / found.spread();
        assert!((0.8..1.6).contains(&claimed), "{name}: {claimed}");
    }
}

/// The two searches of a block: one machine, two deployments one after the other, of which the second has `factor`
/// times the capacity. Both know the block before.
fn pair(noise: &Noise, factor: f64, seed: u64) -> f64 {
    let make = Make::reference();
    let mut random = Random::new(seed);
    let machine = host(noise, 2 * 3600, &mut random);
    let mut plan = staircase(&make, 200.0);
    plan.windows = 36;
    let mut logs = Vec::new();
    let mut start = 0.0;
    for factor in [1.0, factor] {
        let boot = noise.boot * random.normal();
        let seed = (random.uniform() * 1e15) as u64;
        let hint = REFERENCE_PEAK * factor * (0.03 * random.normal()).exp();
        let mut system = System::deploy_on(&make, &machine, start, boot, factor, Random::new(seed));
        let outcome: PeakOutcome = carry_out(&mut system, &make, &plan, Some(hint));
        logs.push(outcome.peak.expect("a plain system has a peak").ln());
        start = system.now() + 180.0;
    }
    logs[1] - logs[0]
}

/// Student's quantile for 95 %, four degrees of freedom: five blocks.
const T4: f64 = 2.776;

/// What 5 % less capacity does to the peak, log scale: more than in proportion, since a slower server also uses up
/// the fixed limits.
const SLOWER: f64 = -0.0547;

fn slower() -> Make {
    let reference = Make::reference();
    Make { base_s: reference.base_s / 0.95, ..reference }
}

#[test]
fn ratios_over_blocks_hold_the_truth() {
    let experiments = if thorough() { 200 } else { 8 };
    let blocks = 5;
    for (noise, factor, truth, name) in [(SHARED, 1.0, 0.0, "A/A"), (QUIET, 0.95, SLOWER, "5 % less capacity")] {
        let half = |parity: u64| -> Vec<f64> {
            (0..experiments * blocks).filter(|n| n % 2 == parity).map(|n| pair(&noise, factor, 7_000 + n)).collect()
        };
        let (mut differences, odd) = std::thread::scope(|scope| {
            let odd = scope.spawn(|| half(1));
            (half(0), odd.join().expect("no search panics"))
        });
        differences.extend(odd);
        let held = differences.chunks(blocks as usize).filter(|block| {
            let half = T4 * sd(block) / (blocks as f64).sqrt();
            (mean(block) - truth).abs() <= half
        });
        let covered = held.count() as f64 / experiments as f64;
        let (middle, spread) = (mean(&differences), sd(&differences));
        println!("{name}: mean {middle:.4} of {truth:.4}, sd of a pair {spread:.4}, covered {covered:.3}");
        let error = 2.0 * (0.95 * 0.05 / experiments as f64).sqrt();
        assert!(covered > 0.93 - error, "{name}: {covered}");
        assert!((middle - truth).abs() < 0.004 + 2.0 * spread / (differences.len() as f64).sqrt(), "{name}: {middle}");
    }
}

#[test]
fn a_wrong_hint_costs_time_but_not_the_peak() {
    for (make, peak, start) in [(Make::reference(), REFERENCE_PEAK, 200.0), (Make::open(), 246.4, 40.0)] {
        for wrong in [0.7, 1.4, 1.8] {
            let plan = staircase(&make, start);
            let found = many(8, |seed| search(&make, &SHARED, 50_000 + seed, plan.clone(), Some(peak * wrong)));
            let near = found.logs().iter().filter(|log| (**log - peak.ln()).abs() < 0.05).count();
            let off =
                found.logs().iter().map(|log| format!("{:+.1} % ", 100.0 * (log - peak.ln()))).collect::<String>();
            println!("hint {wrong}: {off}");
            assert!(near >= 7, "hint {wrong}: {near} of 8");
            assert!(found.0.iter().all(|outcome| outcome.load_s < 30.0 * 60.0), "hint {wrong}");
        }
    }
}

/// Searches as short as a smoke test's, on a system whose pauses make most windows all well or all late: what one says
/// is not much, and it has to say so. One of each pair starts from nothing, the other near the peak.
#[test]
fn two_short_searches_agree_within_their_intervals() {
    let (n, _) = numbers();
    for (limit_s, spread) in [(0.2, 0.20), (0.5, 0.10)] {
        let make = Make::site(limit_s);
        let seconds = Duration::from_secs_f64;
        let usual = staircase(&make, 50.0);
        let plan = PeakPlan { warm: seconds(10.0), window: seconds(2.0), settle: seconds(0.5), windows: 24, ..usual };
        let first = many(n, |seed| search(&make, &SHARED, 100_000 + seed, plan.clone(), None));
        let near = first.mean();
        let second = many(n, |seed| search(&make, &SHARED, 200_000 + seed, plan.clone(), Some(near)));
        println!("{limit_s} s: {}\n  near: {}", first.describe(near), second.describe(near));
        let ends = |outcome: &PeakOutcome| outcome.low.zip(outcome.high);
        let pairs = first.0.iter().zip(&second.0).filter_map(|(a, b)| Some((ends(a)?, ends(b)?)));
        let pairs: Vec<_> = pairs.collect();
        let agree = pairs.iter().filter(|(a, b)| a.0 <= b.1 && b.0 <= a.1).count() as f64 / pairs.len() as f64;
        println!("  {:.1} % of {} pairs agree", 100.0 * agree, pairs.len());
        assert!(pairs.len() as f64 >= 0.9 * n as f64, "{limit_s} s: {} of {n} pairs", pairs.len());
        assert!(agree > 0.95 - 2.0 * (0.95 * 0.05 / n as f64).sqrt(), "{limit_s} s: {agree}");
        for found in [&first, &second] {
            let (held, seen) = (found.coverage(found.mean()), found.spread());
            assert!(held > 0.9 - 2.0 * (0.9 * 0.1 / n as f64).sqrt(), "{limit_s} s: {held}");
            assert!(seen < spread * (1.0 + spread_error(n)), "{limit_s} s: {seen}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_search() {
    let make = Make::reference();
    let once = || search(&make, &SHARED, 5, staircase(&make, 200.0), None);
    assert_eq!(once(), once());
}
