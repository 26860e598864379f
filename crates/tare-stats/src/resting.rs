//! Forms that work while they are not loaded, where load takes turns: that work falls into the turns of others.

use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::record::TrialData;

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
}

/// The forms whose own work differs from the baseline's by more than a thousandth of a CPU: so much of the time of
/// others is theirs, and their ratio is flattered by about as much.
pub(crate) fn resting(measured: &[&TrialData], baseline: &str) -> Vec<Resting> {
    let mut shares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    // An emulated one is no claim anyway.
    for trial in measured.iter().filter(|trial| !trial.record.emulated) {
        shares.entry(&trial.record.trial.form).or_default().extend(trial.record.resting_cpu);
    }
    let mean = |shares: &Vec<f64>| shares.iter().sum::<f64>() / shares.len() as f64;
    let Some(of_baseline) = shares.get(baseline).filter(|shares| !shares.is_empty()).map(mean) else {
        return Vec::new();
    };
    let forms = shares.iter().filter(|(form, shares)| **form != baseline && !shares.is_empty());
    let all = forms.map(|(form, shares)| Resting { form: (*form).to_owned(), share: mean(shares), of_baseline });
    all.filter(|found| (found.share - of_baseline).abs() > NAMED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(named, [Resting { form: "busy".into(), share: 0.040, of_baseline: 0.002 }]);
        assert_eq!(resting(&[&trials[2]], "plain"), [], "nobody knows what the baseline does");
    }
}
