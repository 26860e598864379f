//! Services that stand still now and then: time in which nothing is answered is time, and trimming must not hide it.

use crate::records;
use crate::simulated::error;
use crate::simulated::noise::Random;
use tare_core::load::SecondRow;
use tare_core::plan::{PlannedTrial, plan};
use tare_core::record::{Record, TrialData, TrialRecord};
use tare_core::trial::Outcome;
use tare_stats::{Analysis, Nested, Ratio, Verdict, Warning, analyse};

/// How long a trial is measured, s, and after how long a service stands still again.
const MEASURED_S: u64 = 300;
const PERIOD_S: u64 = 150;

/// How a form behaves: its rate by the baseline's, and how long it stands still in each period, s.
type Behaviour = (f64, u64);

/// A record of trials in seconds: deployments differ by 0.3 %, seconds by 2 %.
fn carry_out(baseline: Behaviour, form: Behaviour, blocks: u32, random: &mut Random) -> Record {
    let study = records::study(&["f0", "f1"], blocks);
    let plan = plan(&study, &[], (random.uniform() * 1e15) as u64);
    let behaviour = |planned: &PlannedTrial| if planned.form == "f0" { baseline } else { form };
    let trials = plan.iter().map(|planned| trial(planned, behaviour(planned), random));
    let trials = trials.collect();
    records::record(study, plan, trials)
}

fn trial(planned: &PlannedTrial, (rate, still_s): Behaviour, random: &mut Random) -> TrialData {
    let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
    let luck = 0.003 * random.normal();
    let phase = (random.uniform() * PERIOD_S as f64) as u64;
    let rows = (0..MEASURED_S).map(|second| {
        let stands_still = (second + phase) % PERIOD_S < still_s;
        let operations = if stands_still { 0.0 } else { 1e4 * rate * (luck + 0.02 * random.normal()).exp() };
        let at_ns = (second + 1) * 1_000_000_000;
        SecondRow { at_ns, measured: true, seconds: 1.0, operations: operations as u64, ..SecondRow::default() }
    });
    let seconds: Vec<SecondRow> = rows.collect();
    let operations: u64 = seconds.iter().map(|row| row.operations).sum();
    record.metrics.insert("throughput".into(), operations as f64 / MEASURED_S as f64);
    TrialData { record, seconds, telemetry: Vec::new() }
}

fn of_form(analysis: &Analysis) -> &Ratio {
    let ratios = &analysis.metrics[0].ratios;
    ratios.iter().find(|ratio| ratio.arm == "f1").expect("the form was measured")
}

#[test]
fn a_form_that_stands_still_is_slower_by_as_much() {
    const EXPERIMENTS: u32 = 300;
    let (mut random, mut held, mut worse, mut differs) = (Random::new(111), 0, 0, 0);
    for _ in 0..EXPERIMENTS {
        let analysis = analyse(&carry_out((1.0, 0), (1.0, 12), 5, &mut random));
        assert_eq!(analysis.metrics[0].nested, Nested::Windows);
        let ratio = of_form(&analysis);
        assert_ne!(ratio.equivalent, Some(true), "it does 8 % less: {ratio:?}");
        held += u32::from(ratio.interval.expect("five blocks make one").contains(0.92));
        worse += u32::from(ratio.verdict == Verdict::Worse);
        differs += u32::from(ratio.trimming_differs);
    }
    let [held, worse, differs] = [held, worse, differs].map(|count| f64::from(count) / f64::from(EXPERIMENTS));
    eprintln!("12 s of 150 s: intervals hold 0.92 in {held}, called slower in {worse}, trimming differs in {differs}");
    let slack = error(0.05, f64::from(EXPERIMENTS));
    assert!((0.95 - held).abs() <= slack, "{held}");
    assert!(worse >= 0.97 && differs >= 0.97, "{worse} {differs}");
}

#[test]
fn the_moments_are_named() {
    let analysis = analyse(&carry_out((1.0, 0), (1.0, 12), 5, &mut Random::new(112)));
    let [stalls] = analysis.stalls.as_slice() else { panic!("{:?}", analysis.stalls) };
    assert_eq!((stalls.arm.as_str(), stalls.seconds, stalls.measured_s), ("f1", 120.0, 1500.0));
    assert!(stalls.longest.iter().all(|stall| stall.seconds == 12.0), "{stalls:?}");
    let warned = analysis.warnings.contains(&Warning::StoodStill { stalls: stalls.clone() });
    assert!(warned, "{:?}", analysis.warnings);
    // Nobody stands still, or both do alike: nothing to name.
    for still_s in [0, 12] {
        let alike = analyse(&carry_out((1.0, still_s), (1.0, still_s), 5, &mut Random::new(113)));
        assert_eq!(alike.stalls, [], "{still_s} s");
    }
}

#[test]
fn standing_still_for_whole_windows_is_seen() {
    // 40 s are two windows of 15 s without a single operation.
    let mut random = Random::new(115);
    for _ in 0..50 {
        let analysis = analyse(&carry_out((1.0, 0), (1.0, 40), 5, &mut random));
        assert_eq!(analysis.metrics[0].nested, Nested::Windows);
        let ratio = of_form(&analysis);
        assert!(ratio.trimming_differs && ratio.equivalent != Some(true), "{ratio:?}");
        assert!(analysis.stalls.iter().any(|stalls| stalls.arm == "f1"), "{:?}", analysis.stalls);
    }
}

#[test]
fn who_is_slower_and_who_stands_still_are_not_equivalent() {
    // 4 % slower all the time, against 4 % less time: as much over all, and not the same.
    let (mut random, mut equal, mut alike) = (Random::new(114), 0, 0);
    for _ in 0..200 {
        let analysis = analyse(&carry_out((1.0, 6), (0.96, 0), 5, &mut random));
        equal += u32::from(of_form(&analysis).equivalent == Some(true));
        // Whoever stands still alike is found equivalent as others are.
        let analysis = analyse(&carry_out((1.0, 6), (1.0, 6), 10, &mut random));
        alike += u32::from(of_form(&analysis).equivalent == Some(true));
    }
    eprintln!("slower or standing still: equivalent in {equal} of 200; standing still alike: {alike} of 200");
    assert!(equal == 0 && alike >= 150, "{equal} {alike}");
}
