//! Gates over analyses that were made up.

use super::*;
use crate::apparatus::Apparatus;
use crate::family::tests::Noise;
use crate::paired::sd;
use crate::quantile::student_quantile;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

fn ratio(ratio: f64, half: f64, blocks: u32) -> Ratio {
    Ratio {
        interval: Some(Interval { low: ratio * (-half).exp(), high: ratio * half.exp() }),
        standard_error: Some(half / 2.0),
        degrees: Some(1e6),
        ..Ratio::of_box(ratio, blocks, Verdict::Worse)
    }
}

fn analysis(ratio: Ratio, more_is_better: bool) -> Analysis {
    Analysis {
        confidence: 0.95,
        margin: 0.01,
        baseline: "plain".into(),
        control: "plain (A/A)".into(),
        blocks_planned: 5,
        blocks_measured: 5,
        blocks_replaced: Vec::new(),
        trials_lost: Vec::new(),
        arms: Vec::new(),
        response: None,
        costs: Vec::new(),
        scale_out: Vec::new(),
        ladder: None,
        advice: None,
        contrasts: Vec::new(),
        explanations: Vec::new(),
        profiles: Vec::new(),
        metrics: vec![MetricAnalysis {
            name: "m".into(),
            title: "M".into(),
            more_is_better,
            ..MetricAnalysis::of_throughput(Vec::new(), vec![ratio])
        }],
        bits: Vec::new(),
        resources: Vec::new(),
        failed: Vec::new(),
        resting: Vec::new(),
        warming: Vec::new(),
        settling: Vec::new(),
        warmth: Vec::new(),
        cpu: Vec::new(),
        ceilings: None,
        apparatus: Apparatus::default(),
        stalls: Vec::new(),
        missed_aim: None,
        warnings: Vec::new(),
    }
}

fn one(new: &Analysis, other: Option<&Analysis>, bounds: Bounds) -> GateCheck {
    let none = Occasions::new();
    let other = other.map(|other| (other, &none));
    let mut checks = gate(new, other, &["box".into()], &["m".into()], &bounds);
    assert_eq!(checks.len(), 1);
    checks.remove(0)
}

fn overhead_of(value: f64, half: f64) -> GateCheck {
    let bounds = Bounds { max_overhead: Some(0.05), max_regression: None };
    one(&analysis(ratio(value, half, 5), true), None, bounds)
}

#[test]
fn the_interval_decides_and_not_the_estimate() {
    assert_eq!(overhead_of(0.97, 0.01).outcome, GateOutcome::Pass);
    assert_eq!(overhead_of(0.90, 0.01).outcome, GateOutcome::Fail);
    let near = overhead_of(0.94, 0.02);
    assert_eq!((near.outcome, near.blocks_needed), (GateOutcome::Inconclusive, Some(18)), "{near:?}");
    assert_eq!(near.why, GateReason::HoldsBound { of_both: false });
    let (low, high) = (near.interval.unwrap().low, near.interval.unwrap().high);
    assert!(low < near.worse_by.unwrap() && near.worse_by.unwrap() < high, "{near:?}");
    let on_it = overhead_of(0.95, 0.02);
    assert!(on_it.blocks_needed.is_none() && on_it.why == near.why, "{on_it:?}");
}

// 4000 runs at 2.5 % have a standard error of 0.25 %.
#[test]
fn a_form_exactly_at_its_bound_rarely_fails_and_rarely_passes() {
    const RUNS: u32 = 4_000;
    let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(12));
    let (mut failed, mut passed) = (0, 0);
    for _ in 0..RUNS {
        let values: Vec<f64> = (0..5).map(|_| 0.95_f64.ln() + 0.01 * noise.normal()).collect();
        let mean = values.iter().sum::<f64>() / 5.0;
        let half = student_quantile(0.975, 4.0) * sd(&values).unwrap() / 5.0_f64.sqrt();
        let outcome = overhead_of(mean.exp(), half).outcome;
        failed += u32::from(outcome == GateOutcome::Fail);
        passed += u32::from(outcome == GateOutcome::Pass);
    }
    for share in [failed, passed].map(|count| f64::from(count) / f64::from(RUNS)) {
        assert!((0.015..=0.035).contains(&share), "{failed} failed, {passed} passed");
    }
}

#[test]
fn less_can_be_better() {
    let bounds = Bounds { max_overhead: Some(0.05), max_regression: None };
    let slower = one(&analysis(ratio(1.2, 0.01, 5), false), None, bounds);
    assert_eq!(slower.outcome, GateOutcome::Fail);
    assert!((slower.worse_by.unwrap() - 0.2).abs() < 1e-12);
    let faster = one(&analysis(ratio(0.8, 0.01, 5), false), None, bounds);
    assert_eq!(faster.outcome, GateOutcome::Pass);
}

#[test]
fn what_must_not_be_used_is_inconclusive_and_says_why() {
    let floorless_here = GateReason::NoNoiseFloor { which: WhichRecord::This };
    let bounds = Bounds { max_overhead: Some(0.05), max_regression: None };
    let mut emulated = ratio(0.1, 0.01, 5);
    emulated.verdict = Verdict::Emulated;
    let check = one(&analysis(emulated, true), None, bounds);
    assert!(
        check.outcome == GateOutcome::Inconclusive && check.why == GateReason::Emulated { which: WhichRecord::This },
        "{check:?}"
    );
    // Certain either way by their intervals, and still not to be judged.
    for value in [0.5, 0.99] {
        let why = Some(Withheld::VoidTooOften);
        let withheld = Ratio { verdict: Verdict::Withheld, withheld: why, ..ratio(value, 0.001, 5) };
        let check = one(&analysis(withheld.clone(), true), None, bounds);
        assert!(
            check.outcome == GateOutcome::Inconclusive
                && matches!(
                    check.why,
                    GateReason::Withheld { which: WhichRecord::This, why: Some(Withheld::VoidTooOften) }
                ),
            "{check:?}"
        );
        let against = Bounds { max_overhead: None, max_regression: Some(0.03) };
        let (here, there) = (analysis(ratio(0.9, 0.001, 5), true), analysis(withheld, true));
        let check = one(&here, Some(&there), against);
        assert!(
            check.outcome == GateOutcome::Inconclusive
                && matches!(check.why, GateReason::Withheld { which: WhichRecord::Other, .. }),
            "{check:?}"
        );
        let floorless = Ratio { verdict: Verdict::NoNoiseFloor, ..ratio(value, 0.001, 5) };
        let check = one(&analysis(floorless, true), None, bounds);
        assert!(check.outcome == GateOutcome::Inconclusive && check.why == floorless_here, "{check:?}");
    }
}

#[test]
fn without_a_noise_floor_or_an_interval_nothing_is_judged() {
    let floorless_here = GateReason::NoNoiseFloor { which: WhichRecord::This };
    let bounds = Bounds { max_overhead: Some(0.05), max_regression: None };
    // An interval that holds 1, well within the bound: without a noise floor that is no reason to pass.
    let alike = Ratio { verdict: Verdict::NoDifference, ..ratio(1.0, 0.001, 5) };
    let mut floorless = analysis(alike.clone(), true);
    assert_eq!(one(&floorless, None, bounds).outcome, GateOutcome::Pass);
    floorless.metrics[0].noise_floor = None;
    let check = one(&floorless, None, bounds);
    assert!(check.outcome == GateOutcome::Inconclusive && check.why == floorless_here, "{check:?}");
    let against = Bounds { max_overhead: None, max_regression: Some(0.03) };
    let check = one(&analysis(alike, true), Some(&floorless), against);
    assert!(
        check.outcome == GateOutcome::Inconclusive
            && check.why == GateReason::NoNoiseFloor { which: WhichRecord::Other },
        "{check:?}"
    );
    let mut few = ratio(0.5, 0.01, 2);
    few.interval = None;
    let check = one(&analysis(few, true), None, bounds);
    assert!(
        check.outcome == GateOutcome::Inconclusive && check.why == GateReason::TooFewBlocks { blocks: 2 },
        "{check:?}"
    );
    let mut unsound = analysis(ratio(0.5, 0.01, 5), true);
    unsound.metrics[0].control_differs = true;
    let check = one(&unsound, None, bounds);
    assert!(
        check.outcome == GateOutcome::Inconclusive
            && check.why == GateReason::ControlDiffers { which: WhichRecord::This },
        "{check:?}"
    );
    let mut noisy = analysis(ratio(0.90, 0.01, 5), true);
    noisy.metrics[0].noise_floor = Some(0.2);
    let check = one(&noisy, None, bounds);
    assert!(
        check.outcome == GateOutcome::Inconclusive && matches!(check.why, GateReason::WithinFloor { .. }),
        "{check:?}"
    );
    let mut absent = analysis(ratio(0.90, 0.01, 5), true);
    absent.metrics[0].ratios.clear();
    let check = one(&absent, None, bounds);
    assert!(
        check.outcome == GateOutcome::Inconclusive
            && matches!(check.why, GateReason::NotMeasured { which: WhichRecord::This, why: None }),
        "{check:?}"
    );
}

#[test]
fn a_regression_is_a_change_of_the_ratio_not_the_ratio() {
    let bounds = Bounds { max_overhead: None, max_regression: Some(0.03) };
    let at = |value, half| analysis(ratio(value, half, 5), true);
    let same = one(&at(0.5, 0.005), Some(&at(0.5, 0.005)), bounds);
    assert_eq!(same.outcome, GateOutcome::Pass, "{same:?}");
    let worse = one(&at(0.45, 0.005), Some(&at(0.5, 0.005)), bounds);
    assert_eq!(worse.outcome, GateOutcome::Fail, "{worse:?}");
    // A baseline so vague that no new block helps.
    let vague = one(&at(0.485, 0.005), Some(&at(0.5, 0.1)), bounds);
    assert!(vague.outcome == GateOutcome::Inconclusive && vague.blocks_needed.is_none(), "{vague:?}");
    assert_eq!(vague.why, GateReason::HoldsBound { of_both: true });
}

#[test]
fn blocks_do_not_make_smaller_what_occasions_add() {
    let bounds = Bounds { max_overhead: None, max_regression: Some(0.03) };
    let at = |value| analysis(ratio(value, 0.004, 5), true);
    let (before, after) = (at(0.5), at(0.49));
    let equals = crate::Equals { log: 0.01, standard_error: 1e-4, degrees: 30.0 };
    let unsteady = crate::Occasion::learn(&[equals; 40]).unwrap();
    let occasions = Occasions::from([("m".to_owned(), unsteady)]);
    let check = gate(&after, Some((&before, &occasions)), &["box".into()], &["m".into()], &bounds).remove(0);
    assert!(check.outcome == GateOutcome::Inconclusive && check.blocks_needed.is_none(), "{check:?}");
    assert!((check.occasions.unwrap() - 0.01).abs() < 1e-4, "{check:?}");
    let Some(Learned::Occasions { runs: 40, deviation, deviation_at_most }) = check.learned else {
        panic!("{check:?}")
    };
    assert!(Some(deviation) == check.occasions && deviation_at_most > deviation, "{check:?}");
    // Where nothing is known of them they are left to the blocks, and the check says so.
    let unknown = one(&after, Some(&before), bounds);
    assert_eq!((unknown.outcome, unknown.learned), (GateOutcome::Pass, Some(Learned::Nothing { runs_needed: 3 })));
    assert_eq!(overhead_of(0.97, 0.01).learned, None, "one record is one occasion");
}

#[test]
fn who_keeps_a_bound_by_a_few_bursts_does_not_pass() {
    let bounds = Bounds { max_overhead: Some(0.05), max_regression: None };
    let of = |trimmed| Ratio { trimmed, trimming_differs: true, ..ratio(0.99, 0.01, 5) };
    let outcome = |trimmed| one(&analysis(of(trimmed), true), None, bounds).outcome;
    assert_eq!(outcome(Some(0.93)), GateOutcome::Inconclusive);
    assert_eq!(outcome(None), GateOutcome::Inconclusive);
    assert_eq!(outcome(Some(0.975)), GateOutcome::Pass, "it keeps the bound either way");
}

#[test]
fn the_gravest_outcome_is_the_gates() {
    let (pass, fail) = (overhead_of(0.97, 0.01), overhead_of(0.90, 0.01));
    let near = overhead_of(0.94, 0.02);
    assert_eq!(gate_outcome(&[pass.clone(), near.clone()]), GateOutcome::Inconclusive);
    assert_eq!(gate_outcome(&[near, fail, pass.clone()]), GateOutcome::Fail);
    assert_eq!(gate_outcome(&[pass]), GateOutcome::Pass);
    assert_eq!(gate_outcome(&[]), GateOutcome::Inconclusive);
}
