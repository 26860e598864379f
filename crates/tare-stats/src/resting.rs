//! Forms that work while they are not loaded, where load takes turns: that work falls into the turns of others. What
//! each used in whose turns is counted; records that do not say tell what it used while another one was loaded alone.

use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::load::{LoadSummary, TurnUse};
use tare_core::record::{BUSY_PER_OP, CPU_PER_OP, TrialData, TrialRecord};

/// So much more of a CPU than the baseline is named.
const NAMED: f64 = 0.001;

/// A form that works while others are loaded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resting {
    /// The form.
    pub form: String,
    /// What it uses then, as a share of one CPU, on average over deployments.
    pub share: f64,
    /// The same of the baseline.
    pub of_baseline: f64,
    /// How much of `share` its own load brings about: what it uses in others' turns beyond what it uses while another
    /// one is loaded alone, and it has not been loaded for a while. None where one of the two is not known.
    pub follows: Option<f64>,
}

/// What the services of a deployment used in others' turns, as a share of one CPU.
pub fn share_in_others_turns(record: &TrialRecord) -> Option<f64> {
    let own = record.trial.arm();
    let others = record.cpu_by_turn.iter().filter(|(arm, _)| **arm != own).map(|(_, used)| *used);
    others.reduce(|sum, used| sum + used).and_then(cpu_share)
}

/// CPU time used, as a share of one CPU; none where nothing was counted.
pub fn cpu_share(used: TurnUse) -> Option<f64> {
    (used.during_ns > 0).then(|| used.cpu_ns as f64 / used.during_ns as f64)
}

/// What the deployments of a form tell: in others' turns, and while another one is loaded alone.
#[derive(Default)]
struct Seen {
    counted: Vec<f64>,
    alone: Vec<f64>,
}

impl Seen {
    fn share(&self) -> Option<f64> {
        mean(&self.counted).or(mean(&self.alone))
    }

    fn follows(&self) -> Option<f64> {
        Some(mean(&self.counted)? - mean(&self.alone)?)
    }
}

fn mean(shares: &[f64]) -> Option<f64> {
    (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
}

/// The forms whose own work differs from the baseline's by more than a thousandth of a CPU: so much of the time of
/// others is theirs, and their ratio is flattered by about as much.
pub(crate) fn resting(measured: &[&TrialData], baseline: &str) -> Vec<Resting> {
    let mut forms: BTreeMap<&str, Seen> = BTreeMap::new();
    // An emulated one is no claim anyway.
    for record in measured.iter().map(|trial| &trial.record).filter(|record| !record.emulated) {
        let seen = forms.entry(&record.trial.form).or_default();
        seen.counted.extend(share_in_others_turns(record));
        seen.alone.extend(record.resting_cpu);
    }
    let Some(of_baseline) = forms.get(baseline).and_then(Seen::share) else { return Vec::new() };
    let others = forms.iter().filter(|(form, _)| **form != baseline);
    let all = others.filter_map(|(form, seen)| {
        let (form, share, follows) = ((*form).to_owned(), seen.share()?, seen.follows());
        Some(Resting { form, share, of_baseline, follows })
    });
    all.filter(|found| (found.share - of_baseline).abs() > NAMED).collect()
}

/// Takes off the CPU time per operation of a load that took turns what its services used while others had theirs, by
/// the share of a CPU that they use then. It is of their own doing, but how much of it there is for each operation
/// hangs on how many forms stand beside each other; what they do by themselves in their own turns stays. A metric of
/// which that would be half or more is removed, and named: what is left of it is not known well enough.
pub fn leave_out_rest(metrics: &mut BTreeMap<String, f64>, load: &LoadSummary, resting_cpu: f64) -> Vec<&'static str> {
    let Some(turns) = load.turns else { return Vec::new() };
    let operations: u64 = load.operations.values().map(|operation| operation.count).sum();
    let span_ns = load.measure_end_ns.saturating_sub(load.measure_start_ns);
    let waited_us = span_ns.saturating_sub(turns.active_ns) as f64 / 1e3;
    let rest_us = resting_cpu * waited_us / operations.max(1) as f64;
    let is_mostly_rest = |name: &&str| metrics.get(*name).is_some_and(|value| rest_us >= value / 2.0);
    let removed: Vec<&str> = [CPU_PER_OP, BUSY_PER_OP].into_iter().filter(is_mostly_rest).collect();
    metrics.retain(|name, _| !removed.contains(&name.as_str()));
    for name in [CPU_PER_OP, BUSY_PER_OP] {
        if let Some(value) = metrics.get_mut(name) {
            *value -= rest_us;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::{OperationSummary, TurnsSummary};
    use tare_core::plan::PlannedTrial;
    use tare_core::record::TrialRecord;
    use tare_core::trial::Outcome;

    fn trial(form: &str, resting_cpu: Option<f64>) -> TrialData {
        let form = form.to_owned();
        let planned = PlannedTrial { index: 0, block: 0, form, control: false, again: None, profiled: false };
        let record = TrialRecord { resting_cpu, ..TrialRecord::new(planned, String::new(), Outcome::Measured) };
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    }

    #[test]
    fn who_works_while_others_are_loaded_is_named() {
        let mut trials = [
            trial("plain", Some(0.002)),
            trial("plain", None),
            trial("busy", Some(0.030)),
            trial("busy", Some(0.050)),
            trial("alike", Some(0.0025)),
            trial("unknown", None),
            trial("emulated", Some(0.060)),
        ];
        trials[6].record.emulated = true;
        let named = resting(&trials.iter().collect::<Vec<_>>(), "plain");
        assert_eq!(named, [Resting { form: "busy".into(), share: 0.040, of_baseline: 0.002, follows: None }]);
        assert_eq!(resting(&[&trials[2]], "plain"), [], "nobody knows what the baseline does");
    }

    #[test]
    fn whose_load_has_it_work_in_others_turns_is_named() {
        let used =
            |cpu_ms: u64, during_ms: u64| TurnUse { cpu_ns: cpu_ms * 1_000_000, during_ns: during_ms * 1_000_000 };
        let counted = |form: &str, in_turns: [(&str, TurnUse); 3], alone: f64| {
            let mut trial = trial(form, Some(alone));
            trial.record.cpu_by_turn = in_turns.map(|(arm, used)| (arm.to_owned(), used)).into();
            trial
        };
        // It does nothing by itself, and for 1 % of a CPU what it was asked for in its own turns.
        let cleans_up = [("plain", used(12, 1000)), ("plain (A/A)", used(8, 1000)), ("later", used(900, 1000))];
        let does_not = [("plain", used(900, 1000)), ("plain (A/A)", used(1, 1000)), ("later", used(1, 1000))];
        let trials = [counted("plain", does_not, 0.001), counted("later", cleans_up, 0.002)];
        let named = resting(&trials.iter().collect::<Vec<_>>(), "plain");
        let [found] = named.as_slice() else { panic!("{named:?}") };
        assert_eq!((found.form.as_str(), found.share, found.of_baseline), ("later", 0.010, 0.001));
        assert!((found.follows.unwrap() - 0.008).abs() < 1e-9, "{found:?}");
        assert_eq!(cpu_share(used(1, 0)), None);
    }

    #[test]
    fn what_is_used_in_others_turns_is_in_no_operation() {
        let operation = OperationSummary { count: 100_000, ..OperationSummary::default() };
        let turns = TurnsSummary { turns: 100, active_ns: 1_000_000_000, ..TurnsSummary::default() };
        let load = LoadSummary {
            measure_start_ns: 2_000_000_000,
            measure_end_ns: 7_000_000_000,
            operations: [("get".to_owned(), operation)].into(),
            turns: Some(turns),
            ..LoadSummary::default()
        };
        let all = || {
            BTreeMap::from([(CPU_PER_OP, 9.0), (BUSY_PER_OP, 15.0), ("p50_us", 300.0)].map(|(n, v)| (n.to_owned(), v)))
        };
        // 2 % of a CPU for four seconds are 80 ms, 0.8 us of each operation.
        let mut metrics = all();
        assert!(leave_out_rest(&mut metrics, &load, 0.02).is_empty());
        assert!((metrics[CPU_PER_OP] - 8.2).abs() < 1e-9 && (metrics[BUSY_PER_OP] - 14.2).abs() < 1e-9, "{metrics:?}");
        assert_eq!(metrics["p50_us"], 300.0);
        // 5 us of each: more than half of one, and less than half of the other.
        let mut metrics = all();
        assert_eq!(leave_out_rest(&mut metrics, &load, 0.125), [CPU_PER_OP]);
        assert!(!metrics.contains_key(CPU_PER_OP) && (metrics[BUSY_PER_OP] - 10.0).abs() < 1e-9, "{metrics:?}");
        let mut metrics = all();
        leave_out_rest(&mut metrics, &LoadSummary { turns: None, ..load }, 0.02);
        assert_eq!(metrics, all(), "who has the time for itself waits for nobody");
    }
}
