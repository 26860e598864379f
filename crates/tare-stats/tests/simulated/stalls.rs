//! Services that stand still now and then: time in which nothing is answered is time, and trimming must not hide it.

use crate::records;
use crate::simulated::error;
use crate::simulated::noise::Random;
use tare_core::load::{LoadProfile, LoadSummary, OperationSummary, SecondRow};
use tare_core::plan::{PlannedTrial, plan};
use tare_core::record::{Record, TrialData, TrialRecord};
use tare_core::telemetry::{TelemetryRow, Vantage};
use tare_core::trial::Outcome;
use tare_stats::{Analysis, Nested, Ratio, Verdict, Warning, analyse};

const SECOND: u64 = 1_000_000_000;

/// How trials are measured.
#[derive(Clone, Copy)]
struct Trials {
    /// For how long, s.
    measured_s: u64,
    /// After how long a service stands still again, s.
    period_s: u64,
    /// What the baseline does in a second; of few operations each comes when it likes.
    rate: f64,
    /// By how much seconds differ, log scale.
    scatter: f64,
    /// Whether they are sampled: whoever stands still is then held back by a CPU quota meanwhile.
    sampled: bool,
}

/// So long that they have windows.
const LONG: Trials = Trials { measured_s: 300, period_s: 150, rate: 1e4, scatter: 0.02, sampled: false };
/// As long as ordinary ones.
const SHORT: Trials = Trials { measured_s: 60, period_s: 60, ..LONG };

/// How a form behaves: its rate by the baseline's, and how long it stands still in each period, s.
type Behaviour = (f64, u64);

impl Trials {
    /// A record of such trials in seconds: deployments differ by 0.3 %.
    fn carry_out(&self, baseline: Behaviour, form: Behaviour, blocks: u32, random: &mut Random) -> Record {
        let study = records::study(&["f0", "f1"], blocks);
        let plan = plan(&study, &[], (random.uniform() * 1e15) as u64);
        let behaviour = |planned: &PlannedTrial| if planned.form == "f0" { baseline } else { form };
        let trials = plan.iter().map(|planned| self.trial(planned, behaviour(planned), random));
        let trials = trials.collect();
        records::record(study, plan, trials)
    }

    fn trial(&self, planned: &PlannedTrial, (rate, still_s): Behaviour, random: &mut Random) -> TrialData {
        let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
        let luck = 0.003 * random.normal();
        let phase = (random.uniform() * self.period_s as f64) as u64;
        let stands_still = |second: u64| (second + phase) % self.period_s < still_s;
        let rows = (0..self.measured_s).map(|second| {
            let usual = |random: &mut Random| self.rate * rate * (luck + self.scatter * random.normal()).exp();
            let operations = if stands_still(second) { 0 } else { arrivals(usual(random), random) };
            let at_ns = (second + 1) * SECOND;
            SecondRow { at_ns, measured: true, seconds: 1.0, operations, ..SecondRow::default() }
        });
        let seconds: Vec<SecondRow> = rows.collect();
        let operations: u64 = seconds.iter().map(|row| row.operations).sum();
        record.metrics.insert("throughput".into(), operations as f64 / self.measured_s as f64);
        let mut telemetry = Vec::new();
        if self.sampled {
            let count = OperationSummary { count: operations, ..OperationSummary::default() };
            record.load = Some(LoadSummary {
                measure_end_ns: self.measured_s * SECOND,
                operations: [("get".to_owned(), count)].into(),
                ..LoadSummary::default()
            });
            telemetry = held_back(self.measured_s, stands_still);
        }
        TrialData { record, seconds, telemetry }
    }
}

/// What is sampled of a service that is held back in these seconds.
fn held_back(seconds: u64, is_held: impl Fn(u64) -> bool) -> Vec<TelemetryRow> {
    let mut held_s = 0.0;
    let row = |second: u64| {
        held_s += if second > 0 && is_held(second - 1) { 0.9 } else { 0.01 };
        let values = [("throttled_s".to_owned(), held_s)].into();
        let (vantage, scope) = (Vantage::Host, "server".to_owned());
        TelemetryRow { at_ns: second * SECOND, vantage, scope, serving: true, values }
    };
    (0..=seconds).map(row).collect()
}

/// So many operations in a second; of few each comes when it likes.
fn arrivals(rate: f64, random: &mut Random) -> u64 {
    if rate > 1e3 {
        return rate as u64;
    }
    let (mut at, mut count) = (random.exponential(1.0 / rate), 0);
    while at < 1.0 {
        at += random.exponential(1.0 / rate);
        count += 1;
    }
    count
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
        let analysis = analyse(&LONG.carry_out((1.0, 0), (1.0, 12), 5, &mut random));
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
    let analysis = analyse(&LONG.carry_out((1.0, 0), (1.0, 12), 5, &mut Random::new(112)));
    let [stalls] = analysis.stalls.as_slice() else { panic!("{:?}", analysis.stalls) };
    assert_eq!((stalls.arm.as_str(), stalls.seconds, stalls.measured_s), ("f1", 120.0, 1500.0));
    assert!(stalls.longest.iter().all(|stall| stall.seconds == 12.0), "{stalls:?}");
    let warned = analysis.warnings.contains(&Warning::StoodStill { stalls: stalls.clone() });
    assert!(warned, "{:?}", analysis.warnings);
    // Nobody stands still, or both do alike: nothing to name.
    for still_s in [0, 12] {
        let alike = analyse(&LONG.carry_out((1.0, still_s), (1.0, still_s), 5, &mut Random::new(113)));
        assert_eq!(alike.stalls, [], "{still_s} s");
    }
}

#[test]
fn of_short_trials_the_moments_are_named_as_well() {
    const EXPERIMENTS: u32 = 100;
    let sampled = Trials { sampled: true, ..SHORT };
    // 5 s of each 60 s, and one.
    for (still_s, share) in [(5, 0.97), (1, 0.9)] {
        let (mut random, mut named) = (Random::new(116), 0);
        for _ in 0..EXPERIMENTS {
            let analysis = analyse(&sampled.carry_out((1.0, 0), (1.0, still_s), 5, &mut random));
            assert_eq!(analysis.metrics[0].nested, Nested::Whole);
            assert!((of_form(&analysis).ratio / (1.0 - still_s as f64 / 60.0) - 1.0).abs() < 0.02, "{analysis:?}");
            let [stalls] = analysis.stalls.as_slice() else { continue };
            assert_eq!((stalls.arm.as_str(), stalls.measured_s), ("f1", 300.0));
            assert_eq!(stalls.seconds, 5.0 * still_s as f64, "{stalls:?}");
            let [held] = stalls.longest[0].counted.as_slice() else { panic!("{stalls:?}") };
            assert!(held.title.contains("CPU quota") && held.then > 0.8, "{held:?}");
            named += u32::from(analysis.warnings.contains(&Warning::StoodStill { stalls: stalls.clone() }));
        }
        let named = f64::from(named) / f64::from(EXPERIMENTS);
        eprintln!("{still_s} s of 60 s: named in {named}");
        assert!(named >= share, "{still_s} s: {named}");
    }
    // Where it is the baseline, it is the baseline.
    let analysis = analyse(&SHORT.carry_out((1.0, 5), (1.0, 0), 5, &mut Random::new(117)));
    let arms: Vec<&str> = analysis.stalls.iter().map(|stalls| stalls.arm.as_str()).collect();
    assert_eq!(arms, ["f0"], "the control, which is the same, stands still as well");
}

#[test]
fn chance_names_nobody() {
    let restless = Trials { scatter: 0.3, ..SHORT };
    let (seldom, few) = (Trials { rate: 3.0, ..SHORT }, Trials { rate: 30.0, scatter: 0.1, ..SHORT });
    for (what, trials, experiments) in
        [("quiet", SHORT, 1000), ("restless", restless, 300), ("seldom", seldom, 300), ("few", few, 300)]
    {
        let (mut random, mut named) = (Random::new(118), 0);
        for _ in 0..experiments {
            let analysis = analyse(&trials.carry_out((1.0, 0), (1.0, 0), 5, &mut random));
            named += u32::from(!analysis.stalls.is_empty());
        }
        eprintln!("{what}: somebody is named in {named} of {experiments}");
        assert!(named <= experiments / 100, "{what}: {named} of {experiments}");
    }
    // Nor is it a stall where the load itself changes.
    let mut record = SHORT.carry_out((1.0, 0), (1.0, 15), 5, &mut Random::new(119));
    assert!(!analyse(&record).stalls.is_empty());
    let of = Box::new(record.header.study.load.clone());
    record.header.study.load = LoadProfile::Guided { of, start: 1.0 };
    assert_eq!(analyse(&record).stalls, []);
}

#[test]
fn standing_still_for_whole_windows_is_seen() {
    // 40 s are two windows of 15 s without a single operation.
    let mut random = Random::new(115);
    for _ in 0..50 {
        let analysis = analyse(&LONG.carry_out((1.0, 0), (1.0, 40), 5, &mut random));
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
        let analysis = analyse(&LONG.carry_out((1.0, 6), (0.96, 0), 5, &mut random));
        equal += u32::from(of_form(&analysis).equivalent == Some(true));
        // Whoever stands still alike is found equivalent as others are.
        let analysis = analyse(&LONG.carry_out((1.0, 6), (1.0, 6), 10, &mut random));
        alike += u32::from(of_form(&analysis).equivalent == Some(true));
    }
    eprintln!("slower or standing still: equivalent in {equal} of 200; standing still alike: {alike} of 200");
    assert!(equal == 0 && alike >= 150, "{equal} {alike}");
}

#[test]
fn who_is_faster_and_who_stands_still_in_short_trials_are_not_equivalent() {
    // A thirtieth of the time, and as much faster in the rest: as much over all, and not the same.
    let (usual, restless) = ((1.0, 0), (60.0 / 58.0, 2));
    let (mut random, mut equal, mut told, mut alike) = (Random::new(120), 0, 0, 0);
    for _ in 0..100 {
        for (baseline, form) in [(usual, restless), (restless, usual)] {
            let analysis = analyse(&SHORT.carry_out(baseline, form, 10, &mut random));
            let ratio = of_form(&analysis);
            equal += u32::from(ratio.equivalent == Some(true));
            told += u32::from(ratio.still.is_some_and(|still| still.decides && (still.share - 0.0345).abs() < 1e-3));
        }
        // Whoever stands still alike is found equivalent as others are.
        let analysis = analyse(&SHORT.carry_out((1.0, 2), (1.0, 2), 10, &mut random));
        alike += u32::from(of_form(&analysis).equivalent == Some(true));
    }
    eprintln!("faster or standing still: equivalent in {equal} of 200, told in {told}; alike: {alike} of 100");
    assert!(equal == 0 && told >= 150 && alike >= 75, "{equal} {told} {alike}");
}
