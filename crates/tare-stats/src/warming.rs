//! What still gets warm amid the slices of a chopped load: answers come faster in the second halves of turns than in
//! the first ones. All turns of a run tell it, so it is seen to a fraction of a per cent, where turns of several
//! lengths are held against each other to some per cent only. What needs longer than a slice is not seen by it.

use crate::analysis::Interval;
use crate::paired::{BlockLogs, Differences};
use serde::Serialize;
use tare_core::record::TrialData;

/// By less than this share more than the baseline is not worth a word.
const NAMED: f64 = 0.003;
/// How seldom a form that is like the baseline is named, of all forms of a run together.
const CHANCE: f64 = 0.05;

/// How a form gets warm amid its slices.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Warming {
    /// The arm.
    pub arm: String,
    /// By which share its answers come faster in second halves of turns than in first ones: the mean over the blocks
    /// that the baseline was measured in as well.
    pub own: f64,
    /// The same of the baseline.
    pub of_baseline: f64,
    /// By how much more it is than the baseline's.
    pub more: f64,
    /// Its interval, which holds for all arms of the run together.
    pub interval: Interval,
    /// Whether it is beyond chance and large enough to matter: then the ratio of its throughput is off by up to half of
    /// it, or by more where it gets warm for longer than half a slice.
    pub matters: bool,
}

/// Of each of `arms` but the baseline that was measured beside it in three blocks or more, by turns that tell.
pub(crate) fn warming(counted: &[&TrialData], arms: &[&str], baseline: &str) -> Vec<Warming> {
    let of_arm = |arm: &str| -> BlockLogs {
        let trials = counted.iter().map(|trial| &trial.record).filter(|trial| trial.trial.arm() == arm);
        let told = trials.filter_map(|trial| Some((trial.trial.block, trial.load.as_ref()?.turns?.warming?)));
        told.filter(|(_, share)| *share > -1.0).map(|(block, share)| (block, share.ln_1p())).collect()
    };
    let of_baseline = of_arm(baseline);
    let others: Vec<&str> = arms.iter().copied().filter(|arm| *arm != baseline).collect();
    let level = 1.0 - CHANCE / 2.0 / others.len().max(1) as f64;
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
            matters: more.abs() > NAMED && !interval.contains(0.0),
        })
    };
    others.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::{LoadSummary, TurnsSummary};
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
}
