//! Sweeps with known answers, and simulated ones: how often the intervals hold the truth.

use super::*;
use crate::family::tests::Noise;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

const LEVELS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// A sweep in `blocks` blocks: a deployment's own luck of 1 %, drift inside it, and noise of 1 % at each level.
fn sweep(law: &Law, blocks: u32, noise: &mut Noise) -> Vec<LevelValue> {
    lucky(0.01, law, blocks, noise)
}

fn lucky(share: f64, law: &Law, blocks: u32, noise: &mut Noise) -> Vec<LevelValue> {
    let mut values = Vec::new();
    for block in 0..blocks {
        let luck = share * noise.normal();
        let mut drift = 0.0;
        for level in LEVELS {
            drift = 0.7 * drift + 0.005 * noise.normal();
            let log = luck + drift + 0.01 * noise.normal();
            values.push(LevelValue { level, block, throughput: law.at(level) * f64::exp(log) });
        }
    }
    values
}

/// Of 1500 sweeps, the share in which each interval holds the truth: lambda, sigma, kappa, all speed-ups together.
fn coverage(law: &Law, blocks: u32) -> [f64; 4] {
    const SWEEPS: u32 = 1_500;
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(20_261));
    let mut held = [0u32; 4];
    for _ in 0..SWEEPS {
        let found = scaling(&sweep(law, blocks, &mut noise), Pairing::Blocks);
        let fit = found.law.as_ref().unwrap();
        let holds = |parameter: &Parameter, truth: f64| u32::from(parameter.interval.unwrap().contains(truth));
        held[0] += holds(&fit.lambda, law.lambda);
        held[1] += holds(&fit.sigma, law.sigma);
        held[2] += holds(&fit.kappa, law.kappa);
        let true_speed_up = |row: &LevelRow| law.at(row.level) / law.at(1.0);
        let all = found.levels[1..].iter().all(|row| row.speed_up_interval.unwrap().contains(true_speed_up(row)));
        held[3] += u32::from(all);
    }
    held.map(|held| f64::from(held) / f64::from(SWEEPS))
}

// 1500 sweeps at 95 % have a standard error of 0.56 %: the bounds are more than three of them.
#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    for blocks in [3, 8] {
        let law = Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.0005 };
        let shares = coverage(&law, blocks);
        for (what, share) in ["lambda", "sigma", "kappa"].iter().zip(shares) {
            assert!((0.93..=0.97).contains(&share), "{blocks} blocks, {what}: {share}");
        }
        assert!((0.92..=0.98).contains(&shares[3]), "{blocks} blocks, speed-up: {}", shares[3]);
    }
}

#[test]
fn intervals_hold_the_truth_where_it_is_zero() {
    for law in [Law { lambda: 10.0, sigma: 0.05, kappa: 0.0 }, Law { lambda: 10.0, sigma: 0.0, kappa: 0.0002 }] {
        let shares = coverage(&law, 5);
        assert!(shares[..3].iter().all(|share| (0.93..=0.99).contains(share)), "{law:?}: {shares:?}");
    }
}

#[test]
fn taking_levels_for_independent_would_be_noticed() {
    // The negative control: a deployment's luck is shared by its levels, and intervals that ignore it are too narrow.
    const SWEEPS: u32 = 400;
    let law = Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.0005 };
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(7));
    let mut held = 0;
    for _ in 0..SWEEPS {
        let fit = scaling(&lucky(0.03, &law, 8, &mut noise), Pairing::Independent).law.unwrap();
        held += u32::from(fit.lambda.interval.unwrap().contains(law.lambda));
    }
    let share = f64::from(held) / f64::from(SWEEPS);
    assert!(share < 0.85, "{share}");
}

#[test]
fn independent_levels_are_covered_when_they_are_independent() {
    const SWEEPS: u32 = 1_000;
    let law = Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.0005 };
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(8));
    let mut held = [0, 0];
    for _ in 0..SWEEPS {
        let value = |(at, level): (usize, &f64)| {
            let spread = 0.01 + 0.001 * at as f64;
            let throughput = law.at(*level) * f64::exp(spread * noise.normal());
            LevelValue { level: *level, block: 0, throughput }
        };
        let values: Vec<LevelValue> = LEVELS.iter().cycle().take(7 * 6).enumerate().map(value).collect();
        let values: Vec<LevelValue> =
            values.iter().enumerate().map(|(at, value)| LevelValue { block: at as u32 / 7, ..*value }).collect();
        let fit = scaling(&values, Pairing::Independent).law.unwrap();
        held[0] += u32::from(fit.sigma.interval.unwrap().contains(law.sigma));
        held[1] += u32::from(fit.kappa.interval.unwrap().contains(law.kappa));
    }
    let shares = held.map(|held| f64::from(held) / f64::from(SWEEPS));
    assert!(shares.iter().all(|share| (0.93..=0.975).contains(share)), "{shares:?}");
}

#[test]
fn the_bend_is_found_when_levels_beyond_it_were_measured() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(3));
    let law = Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.002 };
    let fit = scaling(&sweep(&law, 6, &mut noise), Pairing::Blocks).law.unwrap();
    let bend = fit.bend.unwrap();
    assert!(bend.interval.unwrap().contains(law.bend().unwrap()), "{bend:?}");
    assert!(fit.fits, "{fit:?}");
    // It would lie at 98, where nothing was measured.
    let law = Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.0001 };
    let fit = scaling(&sweep(&law, 6, &mut noise), Pairing::Blocks).law.unwrap();
    assert_eq!(fit.bend, None);
}

#[test]
fn a_cliff_is_no_law() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(4));
    let mut values = sweep(&Law { lambda: 1_000.0, sigma: 0.01, kappa: 0.0 }, 5, &mut noise);
    for value in values.iter_mut().filter(|value| value.level > 16.0) {
        value.throughput *= 0.4;
    }
    let found = scaling(&values, Pairing::Blocks);
    let fit = found.law.unwrap();
    assert!(!fit.fits && fit.bend.is_none(), "{fit:?}");
    assert!(found.cautions.iter().any(|caution| matches!(caution, Caution::Misfit { .. })), "{:?}", found.cautions);
    assert!(found.levels.iter().all(|row| row.fitted.is_none()));
}

#[test]
fn noise_alone_is_rarely_taken_for_a_misfit() {
    const SWEEPS: u32 = 500;
    let law = Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.0005 };
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(5));
    let mut fits = || scaling(&sweep(&law, 5, &mut noise), Pairing::Blocks).law.unwrap().fits;
    let void = (0..SWEEPS).filter(|_| !fits()).count();
    assert!(void <= 10, "{void} of {SWEEPS}");
}

#[test]
fn too_little_is_said_to_be_too_little() {
    let law = Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.0 };
    let values = |levels: &[f64], blocks: u32| -> Vec<LevelValue> {
        let of_block = |block| levels.iter().map(move |n| LevelValue { level: *n, block, throughput: law.at(*n) });
        (0..blocks).flat_map(of_block).collect()
    };
    let few = scaling(&values(&[1.0, 2.0, 4.0], 5), Pairing::Blocks);
    assert!(
        few.law.is_none() && few.cautions[0] == Caution::TooFewLevels { levels: 3, needed: 4 },
        "{:?}",
        few.cautions
    );
    let narrow = scaling(&values(&[10.0, 12.0, 14.0, 16.0, 18.0], 5), Pairing::Blocks);
    assert!(
        narrow.law.is_none() && matches!(narrow.cautions[0], Caution::NarrowRange { times: 1.75..1.85, .. }),
        "{:?}",
        narrow.cautions
    );
    let once = scaling(&values(&LEVELS, 1), Pairing::Blocks);
    let fit = once.law.unwrap();
    assert!((fit.sigma.value - 0.04).abs() < 1e-6 && fit.sigma.interval.is_none(), "{fit:?}");
    assert!(once.cautions[0] == Caution::NoIntervals { blocks: 1, needed: 3 }, "{:?}", once.cautions);
    assert!(once.levels.iter().all(|row| row.speed_up_interval.is_none()));
    let nothing = scaling(&[], Pairing::Blocks);
    assert!(nothing.levels.is_empty() && nothing.law.is_none());
}

#[test]
fn holes_are_left_out_and_said() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(6));
    let mut values = sweep(&Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.0 }, 6, &mut noise);
    let lost = |value: &LevelValue| value.block == 2 && value.level == 8.0 || value.block > 2 && value.level == 64.0;
    values.retain(|value| !lost(value));
    let found = scaling(&values, Pairing::Blocks);
    assert_eq!((found.blocks, found.levels.len()), (5, 6));
    assert_eq!(found.cautions, [Caution::LevelsLeftOut { levels: 1 }, Caution::BlocksLeftOut { blocks: 1 }]);
}

#[test]
fn faster_than_linear_is_named() {
    let values: Vec<LevelValue> = (0..4)
        .flat_map(|block| {
            LEVELS.iter().enumerate().map(move |(at, n)| {
                let wobble = 1.0 + 0.001 * ((at as u32 * 3 + block * 5) % 7) as f64;
                LevelValue { level: *n, block, throughput: 100.0 * n.powf(1.1) * wobble }
            })
        })
        .collect();
    let found = scaling(&values, Pairing::Blocks);
    assert_eq!(found.law.as_ref().unwrap().sigma.value, 0.0);
    assert!(found.cautions.contains(&Caution::FasterAtFirst), "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_unit_of_throughput_changes_lambda_only(factor in 1e-3f64..1e3, seed: u64) {
        let law = Law { lambda: 1_000.0, sigma: 0.04, kappa: 0.0005 };
        let values = sweep(&law, 4, &mut Noise(Xoshiro256PlusPlus::seed_from_u64(seed)));
        let scaled: Vec<LevelValue> =
            values.iter().map(|value| LevelValue { throughput: value.throughput * factor, ..*value }).collect();
        let (one, other) = (scaling(&values, Pairing::Blocks), scaling(&scaled, Pairing::Blocks));
        let (a, b) = (one.law.unwrap(), other.law.unwrap());
        prop_assert!((b.lambda.value / a.lambda.value / factor - 1.0).abs() < 1e-6);
        prop_assert!((a.sigma.value - b.sigma.value).abs() < 1e-6 && (a.kappa.value - b.kappa.value).abs() < 1e-7);
        for (a, b) in one.levels.iter().zip(&other.levels) {
            prop_assert!((a.efficiency - b.efficiency).abs() < 1e-9);
        }
    }
}
