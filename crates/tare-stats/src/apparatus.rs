//! What measuring itself cost, and whether it kept up.

use crate::analysis::{Apparatus, MetricAnalysis};
use crate::trial::window_ns;
use tare_core::record::{NULL_COST, Record, TrialData};

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
        dropped: loads().map(|load| load.dropped).sum(),
        errors: operations().map(|operation| operation.errors).sum(),
        operations: operations().map(|operation| operation.count).sum(),
    }
}
