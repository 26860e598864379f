//! Forecasts held to what runs of that length then show.

use super::*;
use crate::family::tests::Noise;
use crate::interval::Interval;
use crate::paired::{BlockLogs, Differences};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

const COSTS: Costs = Costs { begin_s: 7.0, round_s: 4.0, deployments: 3.0 };

fn ahead(measure_s: f64) -> Ahead {
    Ahead { asked: 0.01, times_s: vec![60.0, 300.0, 1800.0], measure_s, costs: COSTS }
}

/// A form whose components are known for certain.
fn certain(arm: &str, between: f64, within: f64) -> Seen {
    let square = |value| MeanSquare { value, degrees: 1e6 };
    let spread = Spread { blocks: vec![(1.0, square(between + within))], within: Some(square(within)) };
    Seen { arm: arm.into(), metric: "throughput".into(), title: "throughput".into(), spread }
}

/// What differences of so many blocks come to, by the code that analyses runs: their interval, and its half-width.
fn carried_out(noise: &mut Noise, variance: f64, blocks: u32, forms: u32) -> (Interval, f64) {
    let logs = |spread: f64, noise: &mut Noise| -> BlockLogs {
        (0..blocks).map(|block| (block, spread * noise.normal())).collect()
    };
    let (baseline, form) = (logs(0.0, noise), logs(variance.sqrt(), noise));
    let differences = Differences::of(&form, &baseline);
    let same = vec![&form; forms as usize];
    let precision = Family::of(&baseline, None, &same).claim(&differences).unwrap();
    (precision.interval(differences.mean()), precision.half_width().exp_m1())
}

#[test]
fn runs_are_as_precise_as_was_foretold_whatever_varies_most() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(30));
    for (between, within) in [(1e-4, 0.0), (1e-4, 1e-4), (1e-5, 3e-4), (1e-6, 1e-4)] {
        for measure_s in [1.0, 3.0, 10.0] {
            let forms = [certain("one", between, within), certain("other", between, within)];
            let told = power(&forms, &ahead(measure_s)).unwrap();
            let variance = between + within / measure_s;
            for (at, blocks) in told.blocks.iter().enumerate() {
                let Some(range) = told.rows[0].half_widths[at] else {
                    assert!(*blocks < 3, "{blocks} blocks have an interval");
                    continue;
                };
                let runs: Vec<f64> = (0..400).map(|_| carried_out(&mut noise, variance, *blocks, 2).1).collect();
                let shown = runs.iter().sum::<f64>() / runs.len() as f64;
                // Of 400 runs of 3 blocks the mean has a standard error of 2.6 %; more blocks vary less.
                assert!((range.likely / shown - 1.0).abs() < 0.08, "{blocks} blocks: {range:?}, shown {shown}");
            }
        }
    }
}

#[test]
fn runs_that_go_on_until_they_are_narrow_take_as_long_as_was_foretold() {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(31));
    for (between, within) in [(2e-4, 1e-4), (5e-4, 0.0), (1e-5, 2e-3)] {
        let told = power(&[certain("form", between, within)], &ahead(3.0)).unwrap();
        let narrow = |noise: &mut Noise| {
            // Each look sees the blocks of the one before, and two more.
            let values: Vec<f64> = (0..400).map(|_| (between + within / 3.0).sqrt() * noise.normal()).collect();
            let of = |blocks: usize| -> Differences {
                let logs = |zero: f64| (0..).zip(values[..blocks].iter().map(|value| value * zero)).collect();
                Differences::of(&logs(1.0), &logs(0.0))
            };
            let reach = |blocks: usize| of(blocks).precision(Family::level(1)).unwrap().half_width();
            (6..400).step_by(2).find(|blocks| reach(*blocks) <= 0.01_f64.ln_1p()).unwrap() as f64
        };
        let runs: Vec<f64> = (0..400).map(|_| COSTS.time_s(narrow(&mut noise) as u32, 3.0)).collect();
        let shown = runs.iter().sum::<f64>() / runs.len() as f64;
        // Who looks again and again also ends when the blocks happen to look narrow: somewhat early.
        assert!((0.95..1.25).contains(&(told.until_s.likely / shown)), "{:?}, shown {shown}", told.until_s);
    }
}

#[test]
fn another_length_is_named_where_it_saves_much_and_only_there() {
    // Deploying costs 4 s, and deployments hardly differ: each is worth being measured for longer than 1 s.
    let named = |between, within, measure_s| power(&[certain("form", between, within)], &ahead(measure_s)).unwrap();
    let longer = named(1e-6, 2e-3, 1.0).better.unwrap();
    assert!(longer.measure_s > 2.0 && longer.until_s.likely < named(1e-6, 2e-3, 1.0).until_s.likely);
    // What differs from deployment to deployment is not measured away.
    let shorter = named(5e-4, 1e-5, 20.0).better.unwrap();
    assert!(shorter.measure_s < 3.0, "{shorter:?}");
    assert_eq!(named(5e-4, 1e-5, shorter.measure_s).better, None);
    // Of what nobody knows nothing is advised.
    let mut unknown = certain("form", 5e-4, 1e-5);
    unknown.spread.within = None;
    assert_eq!(power(&[unknown], &ahead(20.0)).unwrap().better, None);
}

#[test]
fn all_are_narrow_when_the_last_one_is() {
    let told = power(&[certain("calm", 1e-6, 1e-6), certain("wild", 5e-4, 1e-4)], &ahead(3.0)).unwrap();
    assert_eq!(told.until_s, told.rows[1].until_s);
    assert!(told.rows[0].until_s.likely < told.until_s.likely);
    assert!(told.rows[1].between.is_some_and(|share| share > 0.9), "{:?}", told.rows[1].between);
    // 7 s at first and 13 s a block: four blocks in a minute.
    assert_eq!(told.blocks, [4, 22, 137]);
    assert_eq!(power(&[], &ahead(3.0)), None);
}
