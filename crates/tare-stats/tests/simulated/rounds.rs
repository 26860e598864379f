//! Rounds nested in deployments, turn by turn: whatever the machine does while forms take turns, and however much
//! deployments differ, intervals must hold as often as they say. What all forms share comes and goes with correlation
//! times from a millisecond to an hour, in steps and in bursts; each deployment has luck of its own, and noise of its
//! own within it.

use crate::records;
use crate::simulated::experiment::{Experiment, empty};
use crate::simulated::noise::{Random, SHARED};
use crate::simulated::{error, many, slices};
use tare_core::design::{Arrangement, Chop};
use tare_core::load::{LoadSummary, TurnsSummary};
use tare_core::plan::{PlannedTrial, plan};
use tare_core::record::{Record, TrialData};
use tare_core::study::Study;
use tare_stats::{Nested, Ratio, Verdict, analyse};

/// A turn, s.
pub(crate) const TURN_S: f64 = 0.01;
/// Rounds in which each deployment has a turn.
pub(crate) const ROUNDS: usize = 40;
/// Parts of them, one after the other, of which a load keeps the rates.
const PARTS: usize = 8;
/// The log ratio of the first form.
const EFFECT: f64 = -0.02;

#[derive(Debug, Clone, Copy)]
struct Machine {
    /// Between deployments, standard deviation of the log.
    between: f64,
    /// The correlation time of what all share, which has a standard deviation of 20 %, and of each deployment's own
    /// 2 %, s.
    fades_s: f64,
    /// A step of 20 % up or down somewhere in a block, and bursts of 50 ms each 2 s that take a quarter.
    disturbed: bool,
}

/// What comes and goes with a standard deviation of 1.
pub(crate) struct Wave(f64);

impl Wave {
    pub(crate) fn begin(random: &mut Random) -> Wave {
        Wave(random.normal())
    }

    pub(crate) fn next(&mut self, kept: f64, random: &mut Random) -> f64 {
        let now = self.0;
        self.0 = kept * now + (1.0 - kept * kept).sqrt() * random.normal();
        now
    }
}

/// What the turns of one deployment come to: operations and time, s, by part.
pub(crate) type Parts = [(f64, f64); PARTS];

/// One of the deployments of a block.
pub(crate) struct Deployment {
    /// The log of its rate.
    log: f64,
    /// The standard deviation of what is its own in each turn, as a share.
    scatter: f64,
    own: Wave,
}

impl Deployment {
    pub(crate) fn new(log: f64, scatter: f64, random: &mut Random) -> Deployment {
        Deployment { log, scatter, own: Wave::begin(random) }
    }
}

/// What the turns of the deployments of a block come to, of which each has one in a round. What is their own fades in
/// `fades_s`; what each turn `meets` on the machine, by the length of the turn before, s, is a log.
pub(crate) fn in_turns(
    mut deployments: Vec<Deployment>,
    fades_s: f64,
    mut meets: impl FnMut(f64, &mut Random) -> f64,
    random: &mut Random,
) -> Vec<Parts> {
    let arms = deployments.len();
    let kept = (-TURN_S * arms as f64 / fades_s).exp();
    let mut sums = vec![[(0.0, 0.0); PARTS]; arms];
    let mut order: Vec<usize> = (0..arms).collect();
    let mut took_s = 0.0;
    for round in 0..ROUNDS {
        for at in (1..arms).rev() {
            order.swap(at, (random.uniform() * (at + 1) as f64) as usize);
        }
        for arm in &order {
            let Deployment { log, scatter, own } = &mut deployments[*arm];
            let log = *log + meets(took_s, random);
            // Of mean 1, not of mean log 0: operations over time is what is true.
            let noise = 1.0 + *scatter * own.next(kept, random);
            took_s = TURN_S * (0.9 + 0.2 * random.uniform());
            let part = &mut sums[*arm][round * PARTS / ROUNDS];
            *part = (part.0 + log.exp() * noise * took_s, part.1 + took_s);
        }
    }
    sums
}

/// What the turns of the deployments of a block come to on this machine.
fn block(machine: &Machine, logs: &[f64], spreads: &[f64], random: &mut Random) -> Vec<Parts> {
    let kept = (-TURN_S / machine.fades_s).exp();
    let mut shared = Wave::begin(random);
    let deployment = |(log, spread): (&f64, &f64)| Deployment::new(*log, 0.02 * spread, random);
    let deployments: Vec<Deployment> = logs.iter().zip(spreads).map(deployment).collect();
    let step = (random.uniform() * (ROUNDS * logs.len()) as f64, if random.uniform() < 0.5 { 0.2 } else { -0.2 });
    let (mut turns, mut burst_s) = (0.0, 0.0);
    let meets = |last_s: f64, random: &mut Random| {
        burst_s -= last_s;
        if machine.disturbed && burst_s <= 0.0 && random.uniform() < TURN_S / 2.0 {
            burst_s = random.exponential(0.05);
        }
        let mut log = 0.2 * shared.next(kept, random);
        log += if burst_s > 0.0 { 0.75_f64.ln() } else { 0.0 };
        log += if machine.disturbed && turns > step.0 { step.1 } else { 0.0 };
        turns += 1.0;
        log
    };
    in_turns(deployments, machine.fades_s, meets, random)
}

/// The trial of a deployment whose turns came to this, one of which took `still_s` longer than it was given.
pub(crate) fn measured(trial: &mut TrialData, parts: &Parts, still_s: f64) {
    let times = || parts.iter().enumerate().map(|(at, (_, time_s))| time_s + if at == 3 { still_s } else { 0.0 });
    let rates = || parts.iter().zip(times()).map(|((operations, _), time_s)| 1e5 * operations / time_s);
    let active_s: f64 = times().sum();
    let operations: f64 = rates().zip(times()).map(|(rate, time_s)| rate * time_s).sum();
    trial.record.metrics.insert("throughput".into(), operations / active_s);
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let turns = TurnsSummary {
        turns: ROUNDS as u32,
        slice_ns: ns(TURN_S),
        active_ns: ns(active_s),
        answers: operations as u64,
        longest_ns: ns(1.1 * TURN_S + still_s),
        longest_at_ns: Some(ns(0.2)),
        move_ns: None,
        ..TurnsSummary::default()
    };
    trial.record.load = Some(LoadSummary { turns: Some(turns), batches: rates().collect(), ..LoadSummary::default() });
}

/// A study of so many arms, the baseline, its second copy and the forms, between which load is chopped.
pub(crate) fn study(arms: usize, blocks: u32) -> Study {
    let names: Vec<String> = (0..arms - 1).map(|form| format!("f{form}")).collect();
    let mut study = records::study(&names.iter().map(String::as_str).collect::<Vec<_>>(), blocks);
    study.design.arrangement = Arrangement::Chop(Chop::default());
    study
}

/// Which of these arms a trial is of.
pub(crate) fn arm(planned: &PlannedTrial) -> usize {
    match (planned.control, planned.form.as_str()) {
        (true, _) => 1,
        (false, "f0") => 0,
        (false, form) => form[1..].parse::<usize>().expect("forms are numbered") + 1,
    }
}

/// The record of a run with arms of these spreads: the baseline, its second copy, the forms.
fn carry_out(machine: &Machine, spreads: &[f64], blocks: u32, random: &mut Random) -> Record {
    carry_out_with(machine, spreads, 0.0, blocks, random)
}

/// The same, with a turn of the first form in each deployment that takes `still_s` longer than it was given.
fn carry_out_with(machine: &Machine, spreads: &[f64], still_s: f64, blocks: u32, random: &mut Random) -> Record {
    let study = study(spreads.len(), blocks);
    let plan = plan(&study, &[], (random.uniform() * 1e15) as u64);
    let mut trials: Vec<TrialData> = plan.iter().map(empty).collect();
    for trials in trials.chunks_mut(spreads.len()) {
        let arms: Vec<usize> = trials.iter().map(|trial| arm(&trial.record.trial)).collect();
        let of_arms: Vec<f64> = arms.iter().map(|arm| spreads[*arm]).collect();
        let effect = |arm: usize| if arm == 2 && still_s == 0.0 { EFFECT } else { 0.0 };
        let logs = arms.iter().map(|arm| effect(*arm) + machine.between * spreads[*arm] * random.normal());
        let logs: Vec<f64> = logs.collect();
        for ((trial, arm), parts) in trials.iter_mut().zip(&arms).zip(block(machine, &logs, &of_arms, random)) {
            measured(trial, &parts, if *arm == 2 { still_s } else { 0.0 });
        }
    }
    records::record(study, plan, trials)
}

#[test]
fn intervals_of_chopped_runs_hold_whatever_comes_and_goes() {
    let experiments = many(100);
    let (mut held_by_all, mut all, mut apart) = (0.0, 0.0, 0.0);
    for between in [0.0, 0.005, 0.03] {
        for fades_s in [0.001, 0.1, 10.0, 3600.0] {
            for (disturbed, spreads, blocks) in
                [(false, &[1.0, 1.0, 1.0][..], 5), (true, &[1.0, 1.0, 1.0, 5.0], 3), (true, &[1.0, 1.0, 1.0, 5.0], 8)]
            {
                let machine = Machine { between, fades_s, disturbed };
                let mut random = Random::new(211);
                let (mut held, mut wrong) = (0.0, 0.0);
                for _ in 0..experiments {
                    let analysis = analyse(&carry_out(&machine, spreads, blocks, &mut random));
                    let ratios = &analysis.metrics[0].ratios;
                    let forms: Vec<&Ratio> = ratios.iter().filter(|ratio| ratio.arm != analysis.control).collect();
                    let truth = |ratio: &Ratio| if ratio.arm == "f1" { EFFECT.exp() } else { 1.0 };
                    let holds = |ratio: &&Ratio| ratio.interval.expect("three blocks").contains(truth(ratio));
                    let is_wrong = |ratio: &&Ratio| match ratio.verdict {
                        Verdict::Better => true,
                        Verdict::Worse => ratio.arm != "f1",
                        _ => false,
                    };
                    held += f64::from(u8::from(forms.iter().all(holds)));
                    wrong += f64::from(u8::from(forms.iter().any(is_wrong)));
                    assert_eq!(analysis.metrics[0].nested, Nested::Turns);
                    apart += f64::from(u8::from(forms.iter().any(|ratio| ratio.trimming_differs)));
                }
                let n = f64::from(experiments);
                let what = format!("{machine:?}, {spreads:?}, {blocks} blocks: {} hold, {} wrong", held / n, wrong / n);
                eprintln!("{what}");
                assert!((held / n - 0.95).abs() <= 0.02 + error(0.05, n), "{what}");
                assert!(wrong / n <= 0.05 + error(0.05, n), "{what}");
                (held_by_all, all) = (held_by_all + held, all + n);
            }
        }
    }
    let share = held_by_all / all;
    eprintln!(
        "all chopped runs: intervals hold in {share} of {all}, without the best and worst parts apart in {apart}"
    );
    assert!(apart / all <= 0.05, "nobody stood still");
    assert!((share - 0.95).abs() <= 0.01 + error(0.05, all), "{share}");
}

#[test]
fn who_stands_still_in_one_turn_of_each_deployment_is_named() {
    // 40 turns of 10 ms, one of them 40 ms longer.
    let machine = Machine { between: 0.003, fades_s: 0.1, disturbed: false };
    let (mut random, mut named) = (Random::new(213), 0.0);
    let experiments = many(40);
    for _ in 0..experiments {
        let analysis = analyse(&carry_out_with(&machine, &[1.0, 1.0, 1.0], 0.04, 6, &mut random));
        let ratios = &analysis.metrics[0].ratios;
        let ratio = ratios.iter().find(|ratio| ratio.arm == "f1").expect("there is a form");
        assert_ne!(ratio.equivalent, Some(true), "{ratio:?}");
        let found = analysis.stalls.iter().find(|stalls| stalls.arm == "f1").expect("more than 3 % of the time");
        assert_eq!((found.in_turns, found.spells, found.longest[0].from_s), (true, 6, Some(0.2)));
        assert!((found.seconds / 6.0 - 0.051).abs() < 1e-6, "{found:?}");
        named += f64::from(u8::from(ratio.trimming_differs)) / f64::from(experiments);
    }
    eprintln!("40 ms of 440: apart without the best and worst parts in {named}");
    assert!(named >= 0.95, "{named}");
}

#[test]
fn what_deployments_differ_by_is_told_apart_from_what_rounds_do() {
    // Of a shared machine deployments vary by 0.5 %, and one in ten is 1.5 % slower; a ratio has two of them.
    let truth = (2.0_f64 * (0.005_f64.powi(2) + 0.1 * 0.9 * 0.015_f64.powi(2))).sqrt();
    let experiment = Experiment::new(SHARED, slices(2, 8), 12, 160.0);
    let mut random = Random::new(212);
    let (mut between, mut within) = (0.0, 0.0);
    let experiments = many(60);
    for _ in 0..experiments {
        let analysis = analyse(&experiment.carry_out(&mut random));
        let ratio = analysis.metrics[0].ratios.iter().find(|ratio| ratio.arm == "f1").expect("there is a form");
        let parts = ratio.parts.expect("there are rounds");
        between += parts.between.powi(2) / f64::from(experiments);
        within += parts.within.powi(2) / f64::from(experiments);
    }
    let (between, within) = (between.sqrt(), within.sqrt());
    eprintln!("between deployments {between}, of {truth}; rounds {within}");
    assert!((between / truth - 1.0).abs() < 0.15, "{between}, not {truth}");
    // 20 rounds with an error of 1.4 % each in two arms, and what comes and goes within a minute.
    assert!((0.004..0.01).contains(&within), "{within}");
    let whole = analyse(&Experiment::new(SHARED, Arrangement::Blocks, 5, 60.0).carry_out(&mut random));
    assert_eq!(whole.metrics[0].ratios[0].parts, None, "nothing is nested");
}
