//! Occasions that are drawn: what is learned of them, and how often intervals that hold it are right.

use super::*;
use crate::family::tests::Noise;
use crate::paired::sd;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A run of equals: so many blocks of 1 % each, on an occasion of its own, on a day with as much again or half as much
/// (`days` of 0.5), or on one like all others (0).
fn run(between: f64, days: f64, blocks: u32, noise: &mut Noise) -> Equals {
    let (occasion, own) = (between * noise.normal(), 0.01 * (days * noise.normal()).exp());
    let values: Vec<f64> = (0..blocks).map(|_| occasion + own * noise.normal()).collect();
    let (n, degrees) = (f64::from(blocks), f64::from(blocks) - 1.0);
    Equals { log: values.iter().sum::<f64>() / n, standard_error: sd(&values).unwrap() / n.sqrt(), degrees }
}

/// How many pairs of runs are drawn: their share at 95 % has a standard error of 0.5 %, and of 0.15 % where there is
/// time.
fn pairs() -> u32 {
    if std::env::var_os("TARE_THOROUGH").is_some() { 20_000 } else { 2_000 }
}

/// Of pairs of runs of so many blocks that differ in nothing but their occasions, the share whose interval holds no
/// change: by what runs of `past` blocks taught, and by nothing but their own blocks.
fn coverage(between: f64, days: f64, past: &[u32], blocks: [u32; 2]) -> (f64, f64) {
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(41));
    let (mut learned, mut alone) = (0, 0);
    for _ in 0..pairs() {
        let past: Vec<Equals> = past.iter().map(|blocks| run(between, days, *blocks, &mut noise)).collect();
        let pair = blocks.map(|blocks| run(between, days, blocks, &mut noise));
        let (variance, degrees) = satterthwaite(pair.map(|run| (run.standard_error.powi(2), run.degrees)));
        let off = (pair[1].log - pair[0].log).abs();
        let own = off <= student_quantile(0.975, degrees) * variance.sqrt();
        let occasion = Occasion::learn(&past).unwrap();
        // As `of_difference` has it, without looking for how far it reaches.
        learned += u32::from(own || Spread::of(variance, degrees, &occasion.likely).within(off) <= CONFIDENCE);
        alone += u32::from(own);
    }
    (f64::from(learned) / f64::from(pairs()), f64::from(alone) / f64::from(pairs()))
}

// Intervals are to hold in 94 to 98 of 100; the bounds allow for two errors of the simulation. Where three equals lie
// together by chance nobody knows that occasions add nothing: where they do add nothing, intervals are too wide.
#[test]
fn what_occasions_add_is_learned_from_few_equals_and_from_runs_of_any_length() {
    for (past, blocks) in [
        (&[5, 5, 5][..], [5, 5]),
        (&[4, 30, 8], [20, 20]),
        (&[4, 8, 16, 30, 4], [4, 16]),
        // Short runs, and a pair that knows itself well: what is learned decides.
        (&[5; 6], [30, 30]),
        (&[3; 6], [30, 30]),
        (&[5; 12], [30, 30]),
        (&[20; 10], [4, 16]),
    ] {
        for (between, days) in [(0.0, 0.5), (0.003, 0.5), (0.0055, 0.0), (0.0055, 0.5), (0.01, 0.5)] {
            let (learned, alone) = coverage(between, days, past, blocks);
            let what = format!("{between} between, days {days}, past {past:?}, {blocks:?}");
            eprintln!("{what}: {learned} hold, {alone} by their own blocks");
            let most = if between == 0.0 { 1.0 } else { 0.99 };
            assert!((0.93..=most).contains(&learned), "{what}: {learned}");
            assert!(between < 0.01 || alone < 0.85, "{what}: too alike to test anything: {alone}");
        }
    }
}

#[test]
fn few_runs_teach_nothing_and_calm_ones_what_they_cannot_exclude() {
    let equals = Equals { log: 0.003, standard_error: 0.004, degrees: 4.0 };
    assert_eq!(Occasion::learn(&[equals; 2]), None);
    let own = [(4e-6, 9.0), (4e-6, 9.0)];
    let reach = |runs: usize| {
        let calm = Occasion::learn(&vec![equals; runs]).unwrap();
        assert_eq!(calm.deviation, 0.0);
        (calm.of_difference(own).half_width, calm.deviation_at_most)
    };
    let alone = student_quantile(0.975, 18.0) * 8e-6_f64.sqrt();
    let ((few, few_at_most), (many, many_at_most)) = (reach(3), reach(40));
    assert!(few > 1.3 * many && many >= alone && few_at_most > many_at_most, "{few} {many} {alone}");
    // Six that lie 0.5 % off, with an error of 0.4 %: what is left is 0.3 %.
    let apart = Occasion::learn(&[Equals { log: 0.005, ..equals }; 6]).unwrap();
    assert!((apart.deviation - 0.003).abs() < 1e-9 && apart.deviation_at_most > 0.005, "{apart:?}");
}

#[test]
fn an_error_is_the_one_that_student_would_make_the_interval_of() {
    let equals = [0.004, -0.009, 0.011, 0.002].map(|log| Equals { log, standard_error: 0.004, degrees: 4.0 });
    let occasion = Occasion::learn(&equals).unwrap();
    let error = occasion.of_difference([(1e-5, 4.0), (2e-5, 9.0)]);
    let reach = student_quantile(0.975, error.degrees) * error.standard_error;
    assert!((reach / error.half_width - 1.0).abs() < 1e-3, "{error:?}");
    let spread = Spread(vec![4e-4; 9]);
    assert!((spread.half_width() / (1.959_964 * 0.02) - 1.0).abs() < 1e-5, "a single variance is a normal's");
    let none = ChangeError::reaching(0.1, 0.0);
    assert!((none.half_width - 0.1).abs() < 1e-12 && none.degrees == 1.0, "{none:?}");
}

#[test]
fn runs_of_another_arrangement_teach_nothing() {
    let conditions = |changed: &[(&str, &str)]| -> BTreeMap<String, String> {
        let usual = [
            ("the workload", "w"),
            ("the baseline", "plain"),
            ("the load", "closed 1"),
            ("the design", "blocks"),
            ("the time measured", "10 s"),
            ("form plain", "[]"),
            ("form box", "[engine]"),
            ("service db, resources", "1 CPU"),
            ("environment cpu.model", "slow"),
            ("environment kernel", "6.1"),
        ];
        let all = usual.iter().chain(changed).map(|(what, value)| ((*what).to_owned(), (*value).to_owned()));
        all.collect()
    };
    let now = conditions(&[]);
    for (what, value) in [
        ("the workload", "v"),
        ("the baseline", "box"),
        ("the load", "closed 50"),
        ("the design", "duet"),
        ("the time measured", "60 s"),
        ("form plain", "[vm]"),
        ("service db, resources", "2 CPU"),
        ("environment cpu.model", "fast"),
    ] {
        assert!(!are_alike(&conditions(&[(what, value)]), &now), "{what}");
    }
    for (what, value) in [("form box", "[vm]"), ("environment kernel", "6.12"), ("form net", "[]")] {
        assert!(are_alike(&conditions(&[(what, value)]), &now), "{what}");
    }
    let mut old = conditions(&[]);
    old.remove("the time measured");
    assert!(are_alike(&old, &now), "an older version did not state it");
    assert!(!are_alike(&BTreeMap::new(), &now), "nobody knows what that was");
}

#[test]
fn a_run_without_an_error_of_its_own_hides_nothing() {
    let tau2 = solved(&[(1e-4, 0.0), (1e-4, 1e-6), (4e-4, 1e-6)], 3.0);
    assert!((tau2 / 2e-4 - 1.0).abs() < 0.01, "{tau2}");
    assert_eq!(solved(&[(0.0, 0.0), (1e-8, 1e-6)], 1.0), 0.0);
}
