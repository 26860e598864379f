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

// 400 comparisons at 95 % have a standard error of 1.1 %.
#[test]
fn of_many_intervals_that_are_to_hold_together_all_do() {
    const COMPARISONS: u32 = 400;
    const ROWS: u32 = 12;
    let together = CONFIDENCE.powf(1.0 / f64::from(ROWS));
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(43));
    for (past, blocks) in [(&[5; 3][..], [5, 5]), (&[5; 6], [30, 30]), (&[20; 10], [4, 16])] {
        for between in [0.0, 0.0055] {
            let (mut all, mut each) = (0, 0);
            for _ in 0..COMPARISONS {
                let past: Vec<Equals> = past.iter().map(|blocks| run(between, 0.5, *blocks, &mut noise)).collect();
                let occasion = Occasion::learn(&past).unwrap();
                let rows: Vec<[bool; 2]> = (0..ROWS)
                    .map(|_| {
                        let pair = blocks.map(|blocks| run(between, 0.5, blocks, &mut noise));
                        let own = pair.map(|run| (run.standard_error.powi(2), run.degrees));
                        let off = (pair[1].log - pair[0].log).abs();
                        let (variance, degrees) = satterthwaite(own);
                        let spread = Spread::of(variance, degrees, &occasion.likely);
                        [together, CONFIDENCE].map(|confidence| {
                            off <= reach(confidence, degrees) * variance.sqrt() || spread.within(off) <= confidence
                        })
                    })
                    .collect();
                all += u32::from(rows.iter().all(|row| row[0]));
                each += u32::from(rows.iter().all(|row| row[1]));
            }
            let [all, each] = [all, each].map(|count| f64::from(count) / f64::from(COMPARISONS));
            eprintln!("{between} between, past {past:?}, {blocks:?}: all hold in {all}, each for itself in {each}");
            assert!(all >= 0.92, "{between} between, past {past:?}, {blocks:?}: {all}");
            assert!(each < all, "{between} between, past {past:?}, {blocks:?}: {each}");
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
        (calm.of_difference(own, CONFIDENCE).half_width, calm.deviation_at_most)
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
    for confidence in [CONFIDENCE, CONFIDENCE.powf(1.0 / 16.0)] {
        let error = occasion.of_difference([(1e-5, 4.0), (2e-5, 9.0)], confidence);
        let reach = reach(confidence, error.degrees) * error.standard_error;
        assert!((reach / error.half_width - 1.0).abs() < 1e-3, "{error:?}");
    }
    let spread = Spread(vec![4e-4; 9]);
    assert!((spread.half_width(CONFIDENCE) / (1.959_964 * 0.02) - 1.0).abs() < 1e-5, "a single variance is a normal's");
    let none = ChangeError::reaching(0.1, 0.0, CONFIDENCE);
    assert!((none.half_width - 0.1).abs() < 1e-12 && none.degrees == 1.0, "{none:?}");
}

#[test]
fn runs_of_another_arrangement_teach_nothing() {
    let conditions = |changed: &[(&str, &str)]| -> Conditions {
        let usual = [
            ("workload", "\"w\""),
            ("baseline", "\"plain\""),
            ("load", "{\"closed\":1}"),
            ("design", "\"blocks\""),
            ("measure", "10"),
            ("steady-within", "null"),
            ("form.plain.layers", "[]"),
            ("form.box.layers", "[1]"),
            ("service.db.resources", "1"),
            ("environment.cpu.model", "\"slow\""),
            ("environment.kernel", "\"6.1\""),
        ];
        let all = usual.iter().chain(changed);
        all.map(|(key, value)| (Condition::from_key(key).unwrap(), (*value).to_owned())).collect()
    };
    let now = conditions(&[]);
    for (key, value) in [
        ("workload", "\"v\""),
        ("baseline", "\"box\""),
        ("load", "{\"closed\":50}"),
        ("design", "\"duet\""),
        ("measure", "60"),
        ("steady-within", "60"),
        ("form.plain.layers", "[2]"),
        ("form.plain.options", "{}"),
        ("service.db.resources", "2"),
        ("option.sync", "\"off\""),
        ("environment.cpu.model", "\"fast\""),
    ] {
        // Options of which only one states any, too.
        let past = conditions(&[(key, value)]);
        assert!(!are_alike(&past, &now) && !are_alike(&now, &past), "{key}");
    }
    let others = [
        ("form.box.layers", "[2]"),
        ("environment.kernel", "\"6.12\""),
        ("form.net.layers", "[]"),
        ("form.plain.fact.engine", "\"26\""),
        ("service.db.command", "[]"),
    ];
    for (key, value) in others {
        assert!(are_alike(&conditions(&[(key, value)]), &now), "{key}");
    }
    let mut old = conditions(&[]);
    old.remove(&Condition::Measure);
    assert!(are_alike(&old, &now), "an older version did not state it");
    assert!(!are_alike(&Conditions::new(), &now), "nobody knows what that was");
    let longer = conditions(&[("measure", "60"), ("steady-within", "60")]);
    assert!(varies_alike(&longer, &now, "box") && !are_alike(&longer, &now));
    assert!(!varies_alike(&conditions(&[("form.box.layers", "[2]")]), &now, "box"));
}

#[test]
fn a_run_without_an_error_of_its_own_hides_nothing() {
    let tau2 = solved(&[(1e-4, 0.0), (1e-4, 1e-6), (4e-4, 1e-6)], 3.0);
    assert!((tau2 / 2e-4 - 1.0).abs() < 0.01, "{tau2}");
    assert_eq!(solved(&[(0.0, 0.0), (1e-8, 1e-6)], 1.0), 0.0);
}
