//! What measuring itself cost, and whether it kept up.

use crate::cpu::{cpu_total_s, spent};
use crate::probe_cost::{ProbeCost, is_probe, probe_cost};
use crate::ratios::MetricAnalysis;
use crate::trial::window_ns;
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::load::LoadSummary;
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
    /// The largest share of a CPU that the probe used in any measured trial, by its usual readings.
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
        let rested = |rows: &[&TelemetryRow]| spent(rows, |row| Some(rested_s(row)), load).unwrap_or_default();
        let of_scope = |rows: &Vec<&TelemetryRow>| {
            let whole = || spent(rows, cpu_total_s, load).map(|used| used / (seconds - rested(rows)));
            between_usual_readings(rows, load).or_else(whole)
        };
        let used = scopes.values().filter_map(of_scope).reduce(|sum, used| sum + used);
        used.filter(|share| share.is_finite() && *share >= 0.0)
    };
    measured.iter().filter(|trial| trial.record.slices.is_empty()).filter_map(share).reduce(f64::max)
}

fn rested_s(row: &TelemetryRow) -> f64 {
    row.values.get(RESTED).copied().unwrap_or_default()
}

/// The share of a CPU that a sampler that rests now and then uses between two readings that are none of a rest. Those
/// at the two ends of a rest come on top of the usual ones, so time beside it has more readings than time far from it.
/// None if it never rested, or there are no such readings.
fn between_usual_readings(rows: &[&TelemetryRow], load: &LoadSummary) -> Option<f64> {
    let is_within = |row: &&&TelemetryRow| row.at_ns >= load.measure_start_ns && row.at_ns <= load.measure_end_ns;
    let mut rows: Vec<&TelemetryRow> = rows.iter().filter(is_within).copied().collect();
    rows.sort_by_key(|row| row.at_ns);
    let rests: Vec<bool> = rows.windows(2).map(|pair| rested_s(pair[1]) > rested_s(pair[0])).collect();
    if !rests.contains(&true) {
        return None;
    }
    let is_near = |at: usize| rests[at.saturating_sub(1)..rests.len().min(at + 2)].contains(&true);
    let (mut used_s, mut ns) = (0.0, 0);
    for (_, pair) in rows.windows(2).enumerate().filter(|(at, _)| !is_near(*at)) {
        used_s += cpu_total_s(pair[1])? - cpu_total_s(pair[0])?;
        ns += pair[1].at_ns - pair[0].at_ns;
    }
    (ns > 0).then(|| used_s / (ns as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        // A reading each second, and one at each end of a rest; each costs 3 ms.
        let mut read = trial.clone();
        read.record.load = Some(LoadSummary { measure_end_ns: 12_000_000_000, ..LoadSummary::default() });
        let at_ms = [0, 1000, 2000, 2300, 4300, 5000, 6000, 7000, 7300, 9300, 10_000, 11_000, 12_000];
        let reading = |(number, at_ms): (usize, u64)| TelemetryRow {
            at_ns: at_ms * 1_000_000,
            values: [
                ("cpu_total_s".to_owned(), 0.003 * number as f64),
                (RESTED.to_owned(), 2.0 * [4300, 9300].iter().filter(|end| **end <= at_ms).count() as f64),
            ]
            .into(),
            ..row(0, Vantage::Host, "probe", 0.0)
        };
        read.telemetry = at_ms.into_iter().enumerate().map(reading).collect();
        let share_of_usual = probe_share_max(&[&read], Vantage::Host).unwrap();
        assert!((share_of_usual - 0.003).abs() < 1e-9, "{share_of_usual}");
        let unsampled = TrialData { telemetry: Vec::new(), ..trial.clone() };
        assert_eq!(probe_share_max(&[&unsampled], Vantage::Host), None);
    }
}
