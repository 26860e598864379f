//! What still gets warm while a chopped load is measured. Within slices: answers come faster in the second halves of
//! turns than in the first ones. All turns of a run tell it, so it is seen to a fraction of a per cent, where turns of
//! several lengths are compared with each other to some per cent only. What needs longer than a slice is not seen by
//! it, but within deployments: the second half of the time that each is measured is compared with the first. Forms of a
//! block share that time, and so what the machine did in it.

use crate::interval::Interval;
use crate::paired::{BlockLogs, Differences};
use serde::Serialize;
use tare_core::load::LoadSummary;
use tare_core::record::TrialData;

/// Over which halves speeds are compared with each other.
struct Halves {
    /// By less than this share more than the baseline is not worth a word.
    named: f64,
    /// How seldom a form that is like the baseline is named, of all forms of a run together.
    chance: f64,
    /// The log of how much faster a load was in the second than in the first; none where it does not tell.
    log: fn(&LoadSummary) -> Option<f64>,
}

const OF_TURNS: Halves = Halves { named: 0.01, chance: 0.05, log: of_turns };
const OF_DEPLOYMENTS: Halves = Halves { named: 0.005, chance: 0.01, log: of_deployment };

/// How a form gets warm, within its slices or within its deployments.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Warming {
    /// The arm.
    pub arm: String,
    /// By which share its answers come faster in second halves than in first ones: the mean over the blocks that the
    /// baseline was measured in as well.
    pub own: f64,
    /// The same of the baseline.
    pub of_baseline: f64,
    /// By how much more it is than the baseline's.
    pub more: f64,
    /// Its interval, which holds for all arms of the run together.
    pub interval: Interval,
    /// Whether it is beyond chance and large enough to matter. Throughput is that of second halves; it is off by up to
    /// half of this where what is left of it in them is at most a third of what there was in the first ones.
    pub matters: bool,
}

impl Warming {
    /// By how much more or less than the baseline's it may be, either way: the farther end of the interval.
    pub fn at_most(&self) -> f64 {
        self.interval.low.abs().max(self.interval.high.abs())
    }

    /// How much of that may be left in a ratio of throughput, which is that of second halves.
    pub fn left_in_throughput(&self) -> f64 {
        self.at_most() / 2.0
    }
}

/// Within slices: of each of `arms` but the baseline that was measured beside it in three blocks or more, by turns that
/// tell.
pub(crate) fn warming(counted: &[&TrialData], arms: &[&str], baseline: &str) -> Vec<Warming> {
    by_halves(&OF_TURNS, counted, arms, baseline)
}

/// Within deployments: of each of the same, by the parts in which its turns were added up.
pub(crate) fn settling(counted: &[&TrialData], arms: &[&str], baseline: &str) -> Vec<Warming> {
    by_halves(&OF_DEPLOYMENTS, counted, arms, baseline)
}

fn of_turns(load: &LoadSummary) -> Option<f64> {
    load.turns?.warming.filter(|share| *share > -1.0).map(f64::ln_1p)
}

/// Parts are of about as many rounds each; of an odd number of them, the one in the middle is in no half.
fn of_deployment(load: &LoadSummary) -> Option<f64> {
    let (rates, half) = (&load.batches, load.batches.len() / 2);
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    let log = (sum(&rates[rates.len() - half..]) / sum(&rates[..half])).ln();
    load.turns.and(Some(log)).filter(|log| log.is_finite())
}

fn by_halves(halves: &Halves, counted: &[&TrialData], arms: &[&str], baseline: &str) -> Vec<Warming> {
    let of_arm = |arm: &str| -> BlockLogs {
        let trials = counted.iter().map(|trial| &trial.record).filter(|trial| trial.trial.arm() == arm);
        trials.filter_map(|trial| Some((trial.trial.block, (halves.log)(trial.load.as_ref()?)?))).collect()
    };
    let of_baseline = of_arm(baseline);
    let others: Vec<&str> = arms.iter().copied().filter(|arm| *arm != baseline).collect();
    let level = 1.0 - halves.chance / 2.0 / others.len().max(1) as f64;
    let of = |arm: &&str| {
        let differences = Differences::of(&of_arm(arm), &of_baseline);
        let precision = differences.precision(level)?;
        let (mean, half) = (differences.mean(), precision.quantile * precision.standard_error);
        let interval = Interval { low: (mean - half).exp_m1(), high: (mean + half).exp_m1() };
        let more = mean.exp_m1();
        let over_both =
            |logs: &BlockLogs| differences.blocks.iter().map(|block| logs[block]).sum::<f64>() / differences.n() as f64;
        let [own, of_baseline] = [&of_arm(arm), &of_baseline].map(|logs| over_both(logs).exp_m1());
        Some(Warming {
            arm: (*arm).to_owned(),
            own,
            of_baseline,
            more,
            interval,
            matters: more.abs() > halves.named && !interval.contains(0.0),
        })
    };
    others.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::TurnsSummary;
    use tare_core::plan::PlannedTrial;
    use tare_core::record::TrialRecord;
    use tare_core::trial::Outcome;

    fn trial(form: &str, block: u32, warming: Option<f64>) -> TrialData {
        let form = form.to_owned();
        let planned = PlannedTrial { index: 0, block, form, control: false, again: None, profiled: false };
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        let turns = TurnsSummary { turns: 100, warming, ..TurnsSummary::default() };
        record.load = Some(LoadSummary { turns: Some(turns), ..LoadSummary::default() });
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    }

    #[test]
    fn who_gets_warm_amid_slices_more_than_the_baseline_is_told() {
        let noise = [0.001, -0.002, 0.0015, -0.0005, 0.0];
        let mut trials = Vec::new();
        for (block, noise) in (0..).zip(noise) {
            trials.push(trial("plain", block, Some(0.010 + noise)));
            trials.push(trial("alike", block, Some(0.011 - noise)));
            trials.push(trial("cold", block, Some(0.050 - noise)));
            trials.push(trial("slight", block, Some(0.0125 + noise)));
            trials.push(trial("short", block, None));
        }
        let arms = ["plain", "alike", "cold", "slight", "short"];
        let found = warming(&trials.iter().collect::<Vec<_>>(), &arms, "plain");
        let told: Vec<(&str, bool)> = found.iter().map(|of| (of.arm.as_str(), of.matters)).collect();
        assert_eq!(told, [("alike", false), ("cold", true), ("slight", false)], "{found:?}");
        let cold = &found[1];
        assert!((cold.more - 0.0396).abs() < 0.001 && cold.interval.contains(cold.more), "{cold:?}");
        assert!((cold.own - 0.05).abs() < 0.001 && (cold.of_baseline - 0.01).abs() < 0.001, "{cold:?}");
        let two_blocks: Vec<&TrialData> = trials.iter().take(10).collect();
        assert_eq!(warming(&two_blocks, &arms, "plain"), [], "two blocks have no error worth that name");
    }

    #[test]
    fn who_is_not_settled_when_it_is_measured_is_told() {
        let noise = [0.001, -0.002, 0.0015, -0.0005, 0.0, 0.001];
        let mut trials = Vec::new();
        for (block, noise) in (0..).zip(noise) {
            // What the machine does falls on all of them.
            let machine = 0.9 + 0.05 * f64::from(block % 3);
            let mut measured = |form: &str, rates: [f64; 5]| {
                let mut trial = trial(form, block, None);
                trial.record.load.as_mut().unwrap().batches = rates.map(|rate| rate * machine).to_vec();
                trials.push(trial);
            };
            measured("plain", [100.0, 90.0, 1.0, 80.0, 70.0]);
            measured("alike", [50.0, 45.0, 9.0, 40.0 * (1.0 + noise), 35.0]);
            measured("slow to start", [90.0, 85.0, 9.0, 80.0, 70.0 * (1.0 + noise)]);
            measured("none", [0.0; 5]);
        }
        // Loads that had the time for themselves take no turns.
        let mut alone = trial("plain", 7, None);
        alone.record.load = Some(LoadSummary { batches: vec![1.0, 2.0], ..LoadSummary::default() });
        trials.push(alone);
        let arms = ["plain", "alike", "slow to start", "none"];
        let found = settling(&trials.iter().collect::<Vec<_>>(), &arms, "plain");
        let told: Vec<(&str, bool)> = found.iter().map(|of| (of.arm.as_str(), of.matters)).collect();
        assert_eq!(told, [("alike", false), ("slow to start", true)], "{found:?}");
        let slow = &found[1];
        let more = 150.0 / 175.0 / (150.0 / 190.0) - 1.0;
        assert!((slow.more - more).abs() < 0.002 && slow.interval.contains(slow.more), "{slow:?}");
        assert!((slow.of_baseline - (150.0 / 190.0 - 1.0)).abs() < 1e-9, "{slow:?}");
    }
}
