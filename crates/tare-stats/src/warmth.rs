//! How long the slices of a chopped load must be for a service: one whose caches need longer than a slice to get warm
//! is slower than it would be without rests, in every form. An A/A control cannot see that. So its rates in turns of
//! several lengths are compared with those in the longest.

use crate::paired::sd;
use crate::quantile::student_quantile;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::design::{Arrangement, Chop};
use tare_core::load::TurnLength;
use tare_core::record::{Record, TrialData};

/// Turns of a length are too short where rates in them differ by more than this share from those in the longest.
const APART: f64 = 0.025;
/// Fewer cycles have no error worth that name.
const CYCLES_MIN: usize = 4;
/// How sure is it that a length is too short, at either side: over all forms together; and of single forms, of which
/// there are several.
const SURE: f64 = 0.975;
const SURE_OF_ONE: f64 = 0.995;

/// Turns so long are not compared with longer ones, ns.
const LONG_NS: u64 = 700_000_000;

/// What turns of several lengths tell of a service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Warmth {
    /// What is lost in each length that tells but the longest, the shortest first.
    pub losses: Vec<Loss>,
    /// The longest, against which they are held, ns.
    pub longest_ns: u64,
    /// The shortest length from which on none is seen to be too short, ns; where there is none, the longest.
    pub slice_ns: u64,
    /// Whether it is cold even in the length next to the longest: it may be so in the longest.
    pub cold: bool,
}

/// How much slower loads are in turns of one length than in the longest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// The length, ns.
    pub slice_ns: u64,
    /// The share of the rate that is lost, over all loads.
    pub share: f64,
    /// Its standard error.
    pub error: f64,
    /// Whether the rates differ by more than 2.5 % and beyond chance, over all loads or of one of them. Either way: a
    /// load that is faster in short turns is not what it is without rests either.
    pub too_short: bool,
}

/// What blocks found in which turns of several lengths were compared: one, or one for each set of forms that stand
/// beside each other.
pub(crate) fn warmth(trials: &[TrialData]) -> Vec<Warmth> {
    let mut blocks: BTreeMap<u32, Vec<&[TurnLength]>> = BTreeMap::new();
    for record in trials.iter().map(|trial| &trial.record).filter(|record| !record.lengths.is_empty()) {
        blocks.entry(record.trial.block).or_default().push(&record.lengths);
    }
    blocks.values().filter_map(|loads| Warmth::of(loads)).collect()
}

/// How long slices are, a mean of all turns, ns: where they are as long as the run found them, and nothing came of
/// holding several lengths against each other.
pub(crate) fn slice_of_unknown_warmth(record: &Record, found: &[Warmth]) -> Option<u64> {
    let Arrangement::Chop(Chop { slice: None, pieces: None, .. }) = &record.header.study.design.arrangement else {
        return None;
    };
    // Older versions compared no lengths.
    if record.trials.iter().all(|trial| trial.record.lengths.is_empty()) {
        return None;
    }
    let turns = record.trials.iter().filter_map(|trial| trial.record.load.as_ref()?.turns);
    let slices: Vec<u64> = turns.filter(|turns| turns.turns > 0).map(|turns| turns.slice_ns).collect();
    let slice_ns = slices.iter().sum::<u64>().checked_div(slices.len() as u64)?;
    (found.is_empty() && slice_ns < LONG_NS).then_some(slice_ns)
}

impl Warmth {
    /// By the rates of each load. None where lengths were not compared, or none of them often enough.
    pub fn of(loads: &[&[TurnLength]]) -> Option<Warmth> {
        let (longest, shorter) = loads.first()?.split_last()?;
        // A length of which too few cycles tell is left out, and no slices are that long.
        let losses: Vec<Loss> = (0..shorter.len()).filter_map(|length| Loss::of(loads, length)).collect();
        if losses.is_empty() {
            return None;
        }
        // One that luck lets pass below a length that does not is no evidence.
        let refused = losses.iter().rposition(|loss| loss.too_short).map_or(0, |last| last + 1);
        let slice_ns = losses.get(refused).map_or(longest.slice_ns, |loss| loss.slice_ns);
        let cold = losses.last().is_some_and(|loss| loss.too_short && loss.share > 0.0);
        Some(Warmth { losses, longest_ns: longest.slice_ns, slice_ns, cold })
    }

    /// How long slices are at least, so that the service is not seen to be cold.
    pub fn slice(&self) -> Duration {
        Duration::from_nanos(self.slice_ns)
    }
}

impl Loss {
    /// The length.
    pub fn slice(&self) -> Duration {
        Duration::from_nanos(self.slice_ns)
    }

    /// Cycles are what errors are made of: what the machine does in one falls on all loads.
    fn of(loads: &[&[TurnLength]], length: usize) -> Option<Loss> {
        let by_load: Vec<Vec<Option<f64>>> = loads.iter().map(|lengths| logs(lengths, length)).collect();
        let cycles = by_load.iter().map(Vec::len).min()?;
        let whole = |cycle: usize| by_load.iter().map(|logs| logs[cycle]).collect::<Option<Vec<f64>>>();
        let whole: Vec<Vec<f64>> = (0..cycles).filter_map(whole).collect();
        let means: Vec<f64> = whole.iter().map(|logs| logs.iter().sum::<f64>() / logs.len() as f64).collect();
        let (share, error) = mean(&means)?;
        let of_one = |load: usize| mean(&whole.iter().map(|logs| logs[load]).collect::<Vec<f64>>());
        let are_apart = |(share, error): (f64, f64), sure: f64| {
            share.abs() > APART && share.abs() > error * student_quantile(sure, (whole.len() - 1) as f64)
        };
        let one_is = (0..loads.len()).filter_map(of_one).any(|loss| are_apart(loss, SURE_OF_ONE));
        let too_short = one_is || are_apart((share, error), SURE);
        Some(Loss { slice_ns: loads[0].get(length)?.slice_ns, share, error, too_short })
    }
}

/// By cycle: the log of what is lost in turns of a length, against the longest.
fn logs(lengths: &[TurnLength], length: usize) -> Vec<Option<f64>> {
    let (Some(longest), Some(of)) = (lengths.last(), lengths.get(length)) else { return Vec::new() };
    let log = |(long, short): (&Option<f64>, &Option<f64>)| Some((long.as_ref()? / short.as_ref()?).ln());
    longest.rates.iter().zip(&of.rates).map(log).collect()
}

/// The mean and its standard error, of logs so near 0 that they are shares. None of too few.
fn mean(logs: &[f64]) -> Option<(f64, f64)> {
    let count = logs.len() as f64;
    let error = sd(logs).filter(|_| logs.len() >= CYCLES_MIN)? / count.sqrt();
    Some((1.0 - (-logs.iter().sum::<f64>() / count).exp(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const LENGTHS: [u64; 5] = [10, 20, 40, 80, 200];

    /// A load that loses such shares in turns of these lengths; noise of a few per cent comes and goes from cycle to
    /// cycle, and differs from length to length.
    fn load(losses: [f64; 4], noise: f64, seed: usize) -> Vec<TurnLength> {
        let row = |(at, ms): (usize, &u64)| {
            let kept = 1.0 - losses.get(at).copied().unwrap_or(0.0);
            let rate = |cycle: usize| {
                let wave = ((cycle * 7 + at * 3 + seed * 5) % 11) as f64 / 5.0 - 1.0;
                Some(5000.0 * kept * (1.0 + noise * wave) * (1.0 + 0.2 * (cycle as f64).sin()))
            };
            TurnLength { slice_ns: ms * MS, rates: (0..12).map(rate).collect() }
        };
        LENGTHS.iter().enumerate().map(row).collect()
    }

    fn warmth(loads: &[Vec<TurnLength>]) -> Option<Warmth> {
        Warmth::of(&loads.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn who_loses_nothing_in_short_slices_has_short_ones() {
        let found = warmth(&[load([0.0; 4], 0.02, 1), load([0.0; 4], 0.02, 2)]).unwrap();
        assert_eq!((found.slice_ns, found.cold), (10 * MS, false), "{found:?}");
        assert!(found.losses.iter().all(|loss| loss.error < 0.01), "{found:?}");
    }

    #[test]
    fn slices_are_the_shortest_in_which_a_service_is_warm() {
        let cold = [0.25, 0.12, 0.05, 0.01];
        let found = warmth(&[load(cold, 0.02, 1), load(cold, 0.02, 2)]).unwrap();
        assert_eq!((found.slice_ns, found.cold), (80 * MS, false), "{found:?}");
        for (loss, wanted) in found.losses.iter().zip(cold) {
            assert!((loss.share - wanted).abs() < 3.0 * loss.error + 0.002, "{loss:?}: {wanted}");
        }
        // Nor is one that measures too much, and one form is enough.
        let found = warmth(&[load([0.0; 4], 0.01, 1), load([-0.09, 0.0, 0.0, 0.0], 0.01, 2)]).unwrap();
        assert_eq!((found.slice_ns, found.cold), (20 * MS, false), "{found:?}");
        let found = warmth(&[load([0.0; 4], 0.01, 1), load([0.08, 0.01, 0.0, 0.0], 0.01, 2)]).unwrap();
        assert_eq!(found.slice_ns, 20 * MS, "{found:?}");
    }

    #[test]
    fn a_length_that_luck_lets_pass_is_not_taken_below_one_that_does_not() {
        // The shortest has so much noise that nothing is seen in it.
        let mut lucky = load([0.06, 0.05, 0.04, 0.0], 0.01, 1);
        let noise = |(cycle, rate): (usize, &mut Option<f64>)| {
            *rate = rate.map(|rate| rate * if cycle % 2 == 0 { 0.7 } else { 1.4 });
        };
        lucky[0].rates.iter_mut().enumerate().for_each(noise);
        let found = warmth(&[lucky]).unwrap();
        let refused: Vec<bool> = found.losses.iter().map(|loss| loss.too_short).collect();
        assert_eq!(refused, [false, true, true, false], "{found:?}");
        assert_eq!((found.slice_ns, found.cold), (80 * MS, false), "{found:?}");
    }

    #[test]
    fn a_service_that_never_gets_warm_has_the_longest_and_is_called_cold() {
        let found = warmth(&[load([0.5, 0.4, 0.3, 0.2], 0.02, 1)]).unwrap();
        assert_eq!((found.slice_ns, found.cold), (200 * MS, true), "{found:?}");
    }

    #[test]
    fn noise_is_not_cold() {
        let found = warmth(&[load([0.03; 4], 0.2, 1), load([0.03; 4], 0.2, 4)]).unwrap();
        assert!(found.losses[0].error > 0.02 && found.slice_ns == 10 * MS, "{found:?}");
    }

    #[test]
    fn where_nothing_was_compared_nothing_is_known() {
        assert_eq!(Warmth::of(&[]), None);
        assert_eq!(warmth(&[Vec::new()]), None);
        assert_eq!(warmth(&[load([0.0; 4], 0.01, 1)[4..].to_vec()]), None, "a single length");
        let mut untold = load([0.0; 4], 0.01, 1);
        untold[4].rates.iter_mut().skip(3).for_each(|rate| *rate = None);
        assert_eq!(warmth(&[untold]), None, "three cycles");
    }

    #[test]
    fn a_length_that_does_not_tell_is_left_out_and_not_taken() {
        let without = |length: usize, losses| {
            let mut untold = load(losses, 0.01, 1);
            untold[length].rates.iter_mut().skip(3).for_each(|rate| *rate = None);
            let found = warmth(&[untold]).unwrap();
            (found.losses.iter().map(|loss| loss.slice_ns / MS).collect::<Vec<_>>(), found.slice_ns / MS)
        };
        assert_eq!(without(0, [0.0; 4]), (vec![20, 40, 80], 20));
        assert_eq!(without(1, [0.0; 4]), (vec![10, 40, 80], 10));
        assert_eq!(without(1, [0.2, 0.0, 0.0, 0.0]), (vec![10, 40, 80], 40), "20 ms are no better known than 10");
    }
}
