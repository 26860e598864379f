//! A trial's value once more, from what is nested in it: windows of its time, the slices in which it was loaded, or
//! parts of its turns.
//!
//! What is quoted is operations over time, of the whole trial: time in which a service stood still is time. What is
//! nested makes a second value beside it, a trimmed mean, which a few bad windows do not move. Where the two disagree
//! such windows decide, and the report says so.
//!
//! Nothing nested is ever a unit of the statistics: windows and slices of one deployment share that deployment. They
//! become one value per trial, and only trials have an error term.

use crate::cpu::{busy_cpu_s, serving_cpu_s};
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::load::{LoadSummary, SecondRow, TurnsSummary};
use tare_core::record::{BUSY_PER_OP, CPU_PER_OP, TrialData};

/// The least length of a window, s.
const WINDOW_S: f64 = 15.0;

/// A trial of fewer windows is not trimmed: of few values too many would be thrown away.
const WINDOWS_MIN: usize = 10;

/// Turns in fewer parts are not trimmed: none of them would be left out.
const PARTS_MIN: usize = 5;

/// The share of windows, slices or parts of turns that is left out at either end.
const TRIM: f64 = 0.2;

/// The metrics that are rates over time, so that a window or a slice has a value of its own. Quantiles are not: they
/// are read from the merged histogram of the whole trial.
const RATES: [&str; 3] = ["throughput", BUSY_PER_OP, CPU_PER_OP];

/// What the value is made of that stands beside a trial's own, to show whether a few windows decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nested {
    /// The whole time measured, as the trial's own: there is nothing to compare it with.
    Whole,
    /// The trimmed mean, on the log scale, of its windows of 15 s.
    Windows,
    /// The trimmed mean, on the log scale, of the slices in which it was loaded.
    Slices,
    /// The trimmed mean, on the log scale, of up to eight parts of its turns, one after the other, less what its moves
    /// cost.
    Turns,
}

impl Nested {
    /// What holds for a metric over all `trials`: every trial's value must be made in the same way. Windows are alike
    /// only where the load stays at one level; trimming those of steps would leave out the lowest and the highest.
    pub(crate) fn of(trials: &[&TrialData], metric: &str, one_level: bool) -> Nested {
        if trials.is_empty() || !RATES.contains(&metric) {
            return Nested::Whole;
        }
        let all = |count: &dyn Fn(&TrialData) -> Option<usize>, least: usize| {
            trials.iter().all(|trial| count(trial).is_some_and(|count| count >= least))
        };
        if all(&|trial| slice_logs(trial, metric).map(|logs| logs.len()), 1) {
            Nested::Slices
        } else if all(&|trial| turn_logs(trial, metric).map(|logs| logs.len()), PARTS_MIN) {
            Nested::Turns
        } else if trials.iter().any(|trial| turns(trial).is_some()) {
            // A second of a load that takes turns is mostly that of others.
            Nested::Whole
        } else if one_level && all(&|trial| window_logs(trial, metric).map(|logs| logs.len()), WINDOWS_MIN) {
            Nested::Windows
        } else {
            Nested::Whole
        }
    }

    /// The trial's value of the metric; `rounds` are those of all trials. None when it has none, and where more of its
    /// windows, slices or parts of turns stood still than are left out.
    pub(crate) fn value(self, trial: &TrialData, metric: &str, rounds: &Rounds) -> Option<f64> {
        match self {
            Nested::Whole => trial.record.metrics.get(metric).copied(),
            Nested::Windows => finite(trimmed_mean(&mut window_logs(trial, metric)?)),
            Nested::Slices => rounds.trimmed(trial, &by_round(trial, metric)?),
            Nested::Turns => {
                // Parts know only replies by time: what is no operation, and what moves cost, is known of the whole.
                let turns = turns(trial)?;
                let whole = turns.answers as f64 / (turns.active_ns as f64 / 1e9);
                let of_whole = rounds.trimmed(trial, &by_round(trial, metric)?)? / whole;
                Some(of_whole * trial.record.metrics.get(metric).copied()?)
            }
        }
    }
}

/// What the slices of a round have in common: by block and round, the mean log of a metric over the deployments.
///
/// A round is over in less time than a machine's slow changes take. Taken off before anything is trimmed, they are in
/// no comparison; trimmed each by itself, two deployments would leave out different times.
#[derive(Debug, Default)]
pub(crate) struct Rounds(BTreeMap<u32, BTreeMap<u32, f64>>);

impl Rounds {
    /// The rounds of a metric. A block in which not every deployment has a value in every round, or one of them stood
    /// still in one, has none.
    pub(crate) fn of(trials: &[&TrialData], metric: &str) -> Rounds {
        let mut blocks: BTreeMap<u32, Vec<&TrialData>> = BTreeMap::new();
        for trial in trials.iter().filter(|trial| !trial.record.slices.is_empty() || turns(trial).is_some()) {
            blocks.entry(trial.record.trial.block).or_default().push(trial);
        }
        let means = |trials: &Vec<&TrialData>| {
            let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
            for trial in trials {
                for (round, log) in by_round(trial, metric)? {
                    rounds.entry(round).or_default().push(log);
                }
            }
            let mean = |logs: &Vec<f64>| logs.iter().sum::<f64>() / logs.len() as f64;
            let is_whole = |logs: &Vec<f64>| logs.len() == trials.len() && logs.iter().all(|log| log.is_finite());
            let whole = rounds.values().all(is_whole);
            whole.then(|| rounds.iter().map(|(round, logs)| (*round, mean(logs))).collect())
        };
        Rounds(blocks.iter().filter_map(|(block, trials)| Some((*block, means(trials)?))).collect())
    }

    /// The trimmed mean of a trial's values by round, each to what its round has in common. None where more of them
    /// stood still than are left out.
    fn trimmed(&self, trial: &TrialData, by_round: &[(u32, f64)]) -> Option<f64> {
        let block = self.0.get(&trial.record.trial.block);
        let mean_of = |round: u32| block.and_then(|block| block.get(&round)).copied().unwrap_or_default();
        let mut levelled: Vec<f64> = by_round.iter().map(|(round, log)| log - mean_of(*round)).collect();
        let mut means: Vec<f64> = by_round.iter().map(|(round, _)| mean_of(*round)).collect();
        finite(trimmed_mean(&mut means) + trimmed_mean(&mut levelled))
    }
}

/// The mean of the middle 60 %: of n values, floor(n/5) are left out at either end. What an interruption of a few
/// seconds did to a window or two does not move it; below five values it is the mean.
pub(crate) fn trimmed_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = (TRIM * values.len() as f64) as usize;
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// The logs of a metric by slice; of one without an operation it is infinite. None unless every slice has a value.
fn slice_logs(trial: &TrialData, metric: &str) -> Option<Vec<f64>> {
    let logs = trial.record.slices.iter().map(|slice| slice.metrics.get(metric).and_then(|value| log(*value)));
    logs.collect::<Option<Vec<f64>>>().filter(|logs| !logs.is_empty())
}

/// The logs of the throughput by part of a load's turns; of one without an operation it is infinite. None of other
/// metrics, which are not kept by part, and of loads without turns of one length.
fn turn_logs(trial: &TrialData, metric: &str) -> Option<Vec<f64>> {
    turns(trial).filter(|turns| metric == "throughput" && turns.answers > 0)?;
    let rates = &trial.record.load.as_ref()?.batches;
    rates.iter().map(|rate| log(*rate)).collect::<Option<Vec<f64>>>().filter(|logs| !logs.is_empty())
}

fn turns(trial: &TrialData) -> Option<TurnsSummary> {
    trial.record.load.as_ref()?.turns
}

/// The logs of a metric by round: those of its slices, or of parts of its turns.
fn by_round(trial: &TrialData, metric: &str) -> Option<Vec<(u32, f64)>> {
    let rounds = trial.record.slices.iter().map(|slice| slice.round);
    let slices = slice_logs(trial, metric).map(|logs| rounds.zip(logs).collect());
    slices.or_else(|| Some((0..).zip(turn_logs(trial, metric)?).collect()))
}

/// The logs of a metric by window; of one without an operation it is infinite. A rest that is shorter than a window is
/// left out. None unless every window has a value.
fn window_logs(trial: &TrialData, metric: &str) -> Option<Vec<f64>> {
    windows(&trial.seconds).iter().map(|window| log(window_value(window, trial, metric)?)).collect()
}

/// A service that stood still for all of a window did nothing in it, at an infinite cost by operation: the worst there
/// is, and no reason not to look.
fn log(value: f64) -> Option<f64> {
    (value >= 0.0).then(|| value.ln())
}

fn finite(log: f64) -> Option<f64> {
    log.is_finite().then(|| log.exp())
}

/// The measured seconds in windows of at least [`WINDOW_S`].
fn windows(seconds: &[SecondRow]) -> Vec<Vec<&SecondRow>> {
    let (mut windows, mut open, mut length) = (Vec::new(), Vec::new(), 0.0);
    for row in seconds.iter().filter(|row| row.measured) {
        open.push(row);
        length += row.seconds;
        // A second that was counted a little early or late is still a second.
        if length >= WINDOW_S - 0.5 {
            windows.push(std::mem::take(&mut open));
            length = 0.0;
        }
    }
    windows
}

fn window_value(window: &[&SecondRow], trial: &TrialData, metric: &str) -> Option<f64> {
    let operations: u64 = window.iter().map(|row| row.operations).sum();
    let (first, last) = (window.first()?, window.last()?);
    let span = LoadSummary {
        measure_start_ns: first.at_ns.saturating_sub((first.seconds * 1e9) as u64),
        measure_end_ns: last.at_ns,
        ..LoadSummary::default()
    };
    let by_operation = |seconds: f64| if operations == 0 { f64::INFINITY } else { seconds * 1e6 / operations as f64 };
    let cpu_us = |seconds: Option<f64>| seconds.map(by_operation);
    match metric {
        "throughput" => Some(operations as f64 / window.iter().map(|row| row.seconds).sum::<f64>()),
        BUSY_PER_OP => cpu_us(busy_cpu_s(&span, &trial.telemetry)),
        CPU_PER_OP => cpu_us(serving_cpu_s(&span, &trial.telemetry)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::plan::PlannedTrial;
    use tare_core::record::{Slice, TrialRecord};
    use tare_core::telemetry::{TelemetryRow, Vantage};
    use tare_core::trial::Outcome;

    /// A trial of `seconds` seconds with so many operations in each, after two of settling.
    fn trial(seconds: u64, operations: impl Fn(u64) -> u64) -> TrialData {
        let planned =
            PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        record.metrics.insert("throughput".into(), 77.0);
        let row = |at: u64| SecondRow {
            at_ns: (at + 1) * 1_000_000_000,
            measured: at >= 2,
            seconds: 1.0,
            operations: if at < 2 { 1 } else { operations(at - 2) },
            ..SecondRow::default()
        };
        TrialData { record, seconds: (0..seconds + 2).map(row).collect(), telemetry: Vec::new() }
    }

    #[test]
    fn a_long_trial_is_trimmed_and_a_short_one_is_not() {
        // 150 s at 100/s, of which 20 s at 10/s: two windows suffer, and are left out.
        let long = trial(150, |second| if (40..60).contains(&second) { 10 } else { 100 });
        let nested = Nested::of(&[&long], "throughput", true);
        assert_eq!(nested, Nested::Windows);
        assert_eq!(Nested::of(&[&long], "throughput", false), Nested::Whole, "windows of several levels are not alike");
        assert!((nested.value(&long, "throughput", &Rounds::default()).unwrap() - 100.0).abs() < 1e-9);
        let short = trial(149 - 15, |_| 100);
        assert_eq!(Nested::of(&[&short], "throughput", true), Nested::Whole);
        // One short trial, and all of them count as wholes.
        assert_eq!(Nested::of(&[&long, &short], "throughput", true), Nested::Whole);
        assert_eq!(Nested::Whole.value(&long, "throughput", &Rounds::default()), Some(77.0));
        assert_eq!(Nested::of(&[&long], "p99_us", true), Nested::Whole, "a quantile is no rate");
    }

    #[test]
    fn a_windows_cpu_time_is_that_of_its_own_seconds() {
        let mut long = trial(150, |_| 100);
        // Half of the time costs twice as much: of ten windows six are left in the middle, three of either price.
        let cpu = |second: u64| if second < 77 { 0.001 * second as f64 } else { 0.077 + 0.002 * (second - 77) as f64 };
        let row = |second: u64| TelemetryRow {
            at_ns: second * 1_000_000_000,
            vantage: Vantage::Host,
            scope: "server".into(),
            serving: true,
            values: BTreeMap::from([("cpu_total_s".to_owned(), cpu(second))]),
        };
        long.telemetry = (0..=153).map(row).collect();
        let value =
            Nested::of(&[&long], "cpu_us_per_op", true).value(&long, "cpu_us_per_op", &Rounds::default()).unwrap();
        assert!((value - 10.0 * 2.0_f64.sqrt()).abs() < 1e-6, "{value}");
    }

    #[test]
    fn slices_make_one_value_and_empty_windows_none() {
        let mut sliced = trial(8, |_| 100);
        for (place, throughput) in [90.0, 100.0, 110.0, 100.0, 1.0].into_iter().enumerate() {
            let metrics = BTreeMap::from([("throughput".to_owned(), throughput)]);
            let place = place as u32;
            sliced.record.slices.push(Slice { round: place, place, start_ns: 0, end_ns: 0, metrics });
        }
        let nested = Nested::of(&[&sliced], "throughput", true);
        assert_eq!(nested, Nested::Slices);
        let value = nested.value(&sliced, "throughput", &Rounds::default()).unwrap();
        assert!((value - (90.0 * 100.0 * 100.0_f64).cbrt()).abs() < 1e-9, "{value}");
        sliced.record.slices[2].metrics.clear();
        assert_eq!(Nested::of(&[&sliced], "throughput", true), Nested::Whole);
    }

    /// A trial of turns in eight parts, of so many answers a second each, of whose time moves are a tenth.
    fn chopped(rates: [f64; 8]) -> TrialData {
        let mut trial = trial(200, |_| 100);
        let answers = rates.iter().sum::<f64>() * 1.25;
        let turns = TurnsSummary { answers: answers as u64, active_ns: 10_000_000_000, ..TurnsSummary::default() };
        trial.record.metrics.insert("throughput".into(), answers / 9.0);
        trial.record.load = Some(LoadSummary { turns: Some(turns), batches: rates.to_vec(), ..LoadSummary::default() });
        trial
    }

    #[test]
    fn turns_are_trimmed_by_their_parts_and_never_by_seconds_of_all() {
        let mut quiet = chopped([90.0; 8]);
        // One stall, and the machine was slower in another part, for both.
        let mut stalled = chopped([45.0, 45.0, 22.5, 45.0, 45.0, 45.0, 0.9, 45.0]);
        let mut beside = chopped([90.0, 90.0, 45.0, 90.0, 90.0, 90.0, 90.0, 90.0]);
        (stalled.record.trial.index, beside.record.trial.index) = (1, 2);
        let of = |trials: &[&TrialData], metric| Nested::of(trials, metric, true);
        assert_eq!(of(&[&stalled, &beside], "throughput"), Nested::Turns);
        let value = |trial: &TrialData, rounds: &Rounds| Nested::Turns.value(trial, "throughput", rounds).unwrap();
        assert!((value(&quiet, &Rounds::default()) - 100.0).abs() < 1e-9, "as the headline, without what moves cost");
        // Half of the replies were errors, or a ruler's.
        quiet.record.metrics.insert("throughput".into(), 50.0);
        assert!((value(&quiet, &Rounds::default()) - 50.0).abs() < 1e-9, "as many operations as the headline has");
        let rounds = Rounds::of(&[&stalled, &beside], "throughput");
        let ratio = value(&stalled, &rounds) / value(&beside, &rounds);
        assert!((ratio - 0.5).abs() < 0.001, "{ratio}");
        // Of the CPU time parts are not known, and a second holds the time of all who take turns.
        assert_eq!(of(&[&stalled, &beside], BUSY_PER_OP), Nested::Whole);
        beside.record.load.as_mut().unwrap().batches.truncate(4);
        assert_eq!(of(&[&stalled, &beside], "throughput"), Nested::Whole, "too few to leave one out");
    }

    #[test]
    fn who_stood_still_for_whole_windows_is_looked_at_too() {
        let value = |still: std::ops::Range<u64>| {
            let trial = trial(150, |second| u64::from(!still.contains(&second)) * 100);
            assert_eq!(Nested::of(&[&trial], "throughput", true), Nested::Windows);
            Nested::Windows.value(&trial, "throughput", &Rounds::default())
        };
        assert!((value(30..60).unwrap() - 100.0).abs() < 1e-9, "two of ten windows are left out");
        assert_eq!(value(60..150), None, "six of ten are more than that");
        let mut sliced = trial(8, |_| 100);
        for round in 0..5 {
            let metrics = BTreeMap::from([("throughput".to_owned(), if round == 2 { 0.0 } else { 100.0 })]);
            sliced.record.slices.push(Slice { round, place: round, start_ns: 0, end_ns: 0, metrics });
        }
        assert_eq!(Nested::of(&[&sliced], "throughput", true), Nested::Slices);
        let rounds = Rounds::of(&[&sliced], "throughput");
        let value = Nested::Slices.value(&sliced, "throughput", &rounds).unwrap();
        assert!((value - 100.0).abs() < 1e-9, "{value}");
    }

    /// Two deployments, one a tenth slower, on a machine that gets slower from round to round and was disturbed once in
    /// each of them.
    #[test]
    fn what_a_round_has_in_common_is_in_no_comparison() {
        let of = |index: u32, factor: f64, disturbed: u32| {
            let mut trial = trial(8, |_| 100);
            trial.record.trial.index = index;
            for round in 0..20 {
                let throughput = factor * 0.9_f64.powi(round) * if round as u32 == disturbed { 0.3 } else { 1.0 };
                let metrics = BTreeMap::from([("throughput".to_owned(), throughput)]);
                let round = round as u32;
                trial.record.slices.push(Slice { round, place: round, start_ns: 0, end_ns: 0, metrics });
            }
            trial
        };
        let (first, second) = (of(0, 1000.0, 3), of(1, 900.0, 11));
        let rounds = Rounds::of(&[&first, &second], "throughput");
        let value = |trial, rounds| Nested::Slices.value(trial, "throughput", rounds).unwrap();
        let ratio = value(&second, &rounds) / value(&first, &rounds);
        assert!((ratio - 0.9).abs() < 1e-9, "{ratio}");
        // Each by itself, their own disturbances make them leave out different times.
        let alone = Rounds::default();
        assert!((value(&second, &alone) / value(&first, &alone) - 0.9).abs() > 0.005);
        // The level stays: near that of the middle of the time.
        assert!((value(&first, &rounds) / (1000.0 * 0.9_f64.powf(9.5)) - 1.0).abs() < 0.1);
        let mut short = second;
        short.record.slices.pop();
        assert!(Rounds::of(&[&first, &short], "throughput").0.is_empty(), "a round that one of them lacks");
    }

    #[test]
    fn a_trimmed_mean_leaves_out_a_fifth_at_either_end() {
        assert!((trimmed_mean(&mut [9.0, 1.0, 2.0, 3.0, -50.0]) - 2.0).abs() < 1e-12);
        assert!((trimmed_mean(&mut [4.0, 0.0, 2.0, 2.0]) - 2.0).abs() < 1e-12);
    }
}
