//! What measuring itself cost, and whether it kept up.

use crate::cpu::{cpu_total_s, spent};
use crate::probe_cost::{ProbeCost, is_probe, probe_cost};
use crate::ratios::MetricAnalysis;
use crate::trial::window_ns;
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::record::{NULL_COST, Record, TrialData};
use tare_core::telemetry::{RESTED, TelemetryRow, Vantage};

/// The apparatus: what measuring itself cost, and whether it kept up.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Apparatus {
    /// The generator's CPU time per operation in the baseline, us: geometric mean.
    pub generator_cpu_us_per_op: Option<f64>,
    /// What of it is the apparatus' own bookkeeping: CPU time per operation of the null protocol, which has neither
    /// network nor server, measured before the run on the same CPUs, us.
    pub null_cpu_us_per_op: Option<f64>,
    /// The largest share of its CPUs that the generator used in any measured trial.
    pub generator_busy_max: Option<f64>,
    /// The largest share of a CPU that the probe used in any measured trial, while it did not rest.
    pub probe_share_max: Option<f64>,
    /// The same in guests, on CPUs that may be the service's.
    pub guest_probe_share_max: Option<f64>,
    /// What sampling takes from a closed load, where samplers rested while it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_cost: Option<ProbeCost>,
    /// Operations planned but never started, in all measured trials.
    pub dropped: u64,
    /// Operations not answered correctly, in all measured trials.
    pub errors: u64,
    /// Operations answered correctly, in all measured trials.
    pub operations: u64,
}

/// The apparatus' own cost and health over all measured trials.
pub(crate) fn apparatus(record: &Record, measured: &[&TrialData], metrics: &[MetricAnalysis]) -> Apparatus {
    let baseline = &record.header.study.baseline;
    let generator = metrics.iter().find(|metric| metric.name == "generator_cpu_us_per_op");
    let of_baseline = generator.and_then(|metric| metric.estimates.iter().find(|e| e.arm == *baseline));
    let loads = || measured.iter().filter_map(|trial| trial.record.load.as_ref());
    let operations = || loads().flat_map(|load| load.operations.values());
    let busy = measured.iter().filter_map(|trial| {
        let load = trial.record.load.as_ref().filter(|load| load.generator_cpus > 0)?;
        // Between slices the generator rests; by turns it works for others.
        let slices = trial.record.slices.iter().map(|slice| slice.end_ns.saturating_sub(slice.start_ns));
        let whole_ns = window_ns(load);
        let window_ns = if trial.record.slices.is_empty() { whole_ns } else { slices.sum() };
        Some(load.generator_cpu_s / (window_ns as f64 / 1e9 * f64::from(load.generator_cpus)))
    });
    Apparatus {
        generator_cpu_us_per_op: of_baseline.and_then(|estimate| estimate.geometric_mean),
        null_cpu_us_per_op: record.header.environment.get(NULL_COST).and_then(|us| us.parse().ok()),
        generator_busy_max: busy.filter(|share| share.is_finite()).reduce(f64::max),
        probe_share_max: probe_share_max(measured, Vantage::Host),
        guest_probe_share_max: probe_share_max(measured, Vantage::Guest),
        probe_cost: probe_cost(measured),
        dropped: loads().map(|load| load.dropped).sum(),
        errors: operations().map(|operation| operation.errors).sum(),
        operations: operations().map(|operation| operation.count).sum(),
    }
}

/// The largest share of a CPU that the sampler used in any trial, on one side; of several guests together. None where
/// it was not sampled itself, as in older records.
fn probe_share_max(measured: &[&TrialData], vantage: Vantage) -> Option<f64> {
    let share = |trial: &&TrialData| {
        let load = trial.record.load.as_ref()?;
        let seconds = load.measure_end_ns.saturating_sub(load.measure_start_ns) as f64 / 1e9;
        let mut scopes: BTreeMap<&str, Vec<&TelemetryRow>> = BTreeMap::new();
        for row in trial.telemetry.iter().filter(|row| row.vantage == vantage && is_probe(row)) {
            scopes.entry(&row.scope).or_default().push(row);
        }
        let used = scopes.values().filter_map(|rows| spent(rows, cpu_total_s, load)).reduce(|sum, used| sum + used);
        // Samplers of one side rest at the same moments.
        let rested = |row: &TelemetryRow| Some(row.values.get(RESTED).copied().unwrap_or_default());
        let rested = scopes.values().filter_map(|rows| spent(rows, rested, load)).fold(0.0, f64::max);
        used.map(|used| used / (seconds - rested)).filter(|share| share.is_finite() && *share >= 0.0)
    };
    measured.iter().filter(|trial| trial.record.slices.is_empty()).filter_map(share).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::LoadSummary;
    use tare_core::plan::PlannedTrial;
    use tare_core::record::TrialRecord;
    use tare_core::trial::Outcome;

    #[test]
    fn what_the_probe_used_is_told_of_either_side() {
        let planned =
            PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        record.load = Some(LoadSummary { measure_end_ns: 2_000_000_000, ..LoadSummary::default() });
        let row = |second: u64, vantage: Vantage, scope: &str, each_s: f64| TelemetryRow {
            at_ns: second * 1_000_000_000,
            vantage,
            scope: scope.into(),
            serving: false,
            values: [("cpu_total_s".to_owned(), each_s * second as f64)].into(),
        };
        let rows = |second| {
            [
                row(second, Vantage::Host, "probe", 0.003),
                row(second, Vantage::Guest, "probe of guest 1", 0.01),
                row(second, Vantage::Guest, "probe of guest 2", 0.02),
                row(second, Vantage::Host, "prober", 0.9),
            ]
        };
        let trial = TrialData { record, seconds: Vec::new(), telemetry: (0..3).flat_map(rows).collect() };
        let share = |vantage| probe_share_max(&[&trial], vantage).unwrap();
        assert!((share(Vantage::Host) - 0.003).abs() < 1e-12 && (share(Vantage::Guest) - 0.03).abs() < 1e-12);
        // At the last reading it has rested for half a second.
        let mut rested = trial.clone();
        let last = rested.telemetry.iter_mut().filter(|row| row.scope == "probe" && row.at_ns == 2_000_000_000);
        last.for_each(|row| _ = row.values.insert(RESTED.to_owned(), 0.5));
        let share_at_work = probe_share_max(&[&rested], Vantage::Host).unwrap();
        assert!((share_at_work - 0.006 / 1.5).abs() < 1e-12, "{share_at_work}");
        let unsampled = TrialData { telemetry: Vec::new(), ..trial.clone() };
        assert_eq!(probe_share_max(&[&unsampled], Vantage::Host), None);
    }
}
