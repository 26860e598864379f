//! What sampling costs a closed load: its throughput with the samplers at work by that while they rest.
//!
//! A sampler that rests for two seconds leaves the load to itself, on the host and in guests alike. Held against the
//! same time before and after it, which cancels what drifts, such a rest says what sampling takes from the load. Rests
//! of one deployment share it, so they become one value per trial, and only trials have an error term. What the kernel
//! counts all the time, whoever reads it, is not in the difference.

use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::paired::{BLOCKS_MIN, sd};
use crate::quantile::student_quantile;
use serde::Serialize;
use tare_core::load::SecondRow;
use tare_core::record::TrialData;
use tare_core::telemetry::{PROBE, RESTED, TelemetryRow, Vantage};

/// What sampling costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProbeCost {
    /// Throughput with the samplers at work by that while they rest: geometric mean over trials.
    pub ratio: f64,
    /// Its 95 % interval, by Student's t over trials; none below 3.
    pub interval: Option<Interval>,
    /// From so many trials.
    pub trials: u32,
    /// With so many rests in all.
    pub rests: u32,
}

/// The cost over these trials; none where no sampler rested while load ran.
pub(crate) fn probe_cost(trials: &[&TrialData]) -> Option<ProbeCost> {
    let of_trials: Vec<Vec<f64>> =
        trials.iter().map(|trial| of_rests(trial)).filter(|rests| !rests.is_empty()).collect();
    let values: Vec<f64> = of_trials.iter().map(|rests| rests.iter().sum::<f64>() / rests.len() as f64).collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let half = || Some(student_quantile(0.5 * (1.0 + CONFIDENCE), n - 1.0) * sd(&values)? / n.sqrt());
    let half = Some(()).filter(|()| values.len() >= BLOCKS_MIN).and_then(|()| half());
    let interval = half.map(|half| Interval { low: (mean - half).exp(), high: (mean + half).exp() });
    let rests = of_trials.iter().map(Vec::len).sum::<usize>() as u32;
    (!values.is_empty()).then(|| ProbeCost { ratio: mean.exp(), interval, trials: values.len() as u32, rests })
}

/// By rest of a trial: the log of the throughput around it by that in it. None of one that has not as much measured
/// load on either side, without another rest in it.
fn of_rests(trial: &TrialData) -> Vec<f64> {
    let rests = rests(&trial.telemetry);
    let second = |row: &&SecondRow| row.measured && row.seconds > 0.0 && row.operations > 0;
    let seconds: Vec<&SecondRow> = trial.seconds.iter().filter(second).collect();
    let rate = |(from_ns, to_ns): (u64, u64)| {
        let begin = |row: &SecondRow| row.at_ns.saturating_sub((row.seconds * 1e9) as u64);
        let within = seconds.iter().filter(|row| begin(row) >= from_ns && row.at_ns <= to_ns);
        let (operations, time) =
            within.fold((0, 0.0), |(operations, time), row| (operations + row.operations, time + row.seconds));
        (time > 0.0).then(|| operations as f64 / time)
    };
    let others = |from_ns: u64, to_ns: u64| rests.iter().filter(|rest| rest.0 < to_ns && rest.1 > from_ns).count();
    let cost = |&(from_ns, to_ns): &(u64, u64)| {
        let length = to_ns - from_ns;
        let (before, after) = ((from_ns.saturating_sub(length), from_ns), (to_ns, to_ns + length));
        if others(before.0, after.1) > 1 {
            return None;
        }
        let around = 0.5 * (rate(before)? + rate(after)?);
        Some((around / rate((from_ns, to_ns))?).ln())
    };
    rests.iter().filter_map(cost).collect()
}

/// When the host's sampler rested, from the reading before to the reading after, ns.
fn rests(telemetry: &[TelemetryRow]) -> Vec<(u64, u64)> {
    let mut rows: Vec<(u64, f64)> = telemetry
        .iter()
        .filter(|row| row.vantage == Vantage::Host && row.scope == PROBE)
        .map(|row| (row.at_ns, row.values.get(RESTED).copied().unwrap_or_default()))
        .collect();
    rows.sort_by_key(|row| row.0);
    rows.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| (pair[0].0, pair[1].0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::tests::Noise;
    use rand_core::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use tare_core::plan::PlannedTrial;
    use tare_core::record::TrialRecord;
    use tare_core::trial::Outcome;

    const SECOND: u64 = 1_000_000_000;

    /// A trial of 40 s that does `cost` of its rate while it is sampled, on a machine that slows down meanwhile; its
    /// sampler rests for two seconds from each of these moments on.
    fn trial(cost: f64, rests: &[u64], noise: &mut Noise) -> TrialData {
        let planned =
            PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
        let is_rest = |second: u64| rests.iter().any(|from| (*from..from + 2).contains(&second));
        let mut seconds = Vec::new();
        for second in 0..40 {
            let sampled = if is_rest(second) { 1.0 } else { cost };
            let rate = 1e6 * (1.0 - 0.01 * second as f64) * sampled * (0.002 * noise.normal()).exp();
            seconds.push(SecondRow {
                at_ns: (second + 1) * SECOND,
                measured: second > 1,
                seconds: 1.0,
                operations: rate as u64,
                ..SecondRow::default()
            });
        }
        let mut rested_s = 0.0;
        let mut telemetry = Vec::new();
        for second in 0..=40 {
            // In the midst of a rest nothing is read.
            if is_rest(second) && second > 0 && is_rest(second - 1) {
                continue;
            }
            rested_s += if second > 1 && is_rest(second - 1) && !is_rest(second) { 2.0 } else { 0.0 };
            telemetry.push(TelemetryRow {
                at_ns: second * SECOND,
                vantage: Vantage::Host,
                scope: PROBE.into(),
                serving: false,
                values: [(RESTED.to_owned(), rested_s)].into(),
            });
        }
        let record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        TrialData { record, seconds, telemetry }
    }

    #[test]
    fn a_planted_cost_is_found_in_95_of_100_runs_and_drift_is_none() {
        const RUNS: u32 = 400;
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(28));
        let mut held = 0;
        for _ in 0..RUNS {
            let trials: Vec<TrialData> = (0..12).map(|_| trial(0.99, &[10, 28], &mut noise)).collect();
            let cost = probe_cost(&trials.iter().collect::<Vec<_>>()).unwrap();
            assert_eq!((cost.trials, cost.rests), (12, 24));
            assert!((cost.ratio - 0.99).abs() < 3e-3, "{cost:?}");
            held += u32::from(cost.interval.unwrap().contains(0.99));
        }
        let share = f64::from(held) / f64::from(RUNS);
        assert!((0.92..=0.98).contains(&share), "{share}");
    }

    #[test]
    fn a_rest_without_as_much_load_around_it_says_nothing() {
        let mut noise = Noise(Xoshiro256PlusPlus::seed_from_u64(2));
        let rests = |from: &[u64], noise: &mut Noise| of_rests(&trial(0.99, from, noise)).len();
        assert_eq!(rests(&[], &mut noise), 0);
        assert_eq!(rests(&[20], &mut noise), 1);
        assert_eq!(rests(&[2], &mut noise), 0, "before it nothing was measured");
        assert_eq!(rests(&[38], &mut noise), 0, "after it there is no load");
        assert_eq!(rests(&[10, 13], &mut noise), 0, "each lies beside the other");
        let two: Vec<TrialData> = (0..2).map(|_| trial(0.99, &[20], &mut noise)).collect();
        assert_eq!(probe_cost(&two.iter().collect::<Vec<_>>()).unwrap().interval, None);
        assert_eq!(probe_cost(&[&trial(0.99, &[], &mut noise)]), None);
    }
}
