//! The apparatus cost: the CPU time of an operation without network and server.

use crate::driver::{Asked, Driver};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tare_core::load::{LoadPlan, LoadProfile, LoadSummary};
use tare_core::units::CpuSet;
use tare_runner::Stop;

/// Long enough for millions of operations.
const MEASURE: Duration = Duration::from_millis(300);
const LIMIT: Duration = Duration::from_secs(10);

/// CPU time per operation of the `null` protocol on these CPUs, us. It accompanies every result but decides nothing, so
/// failing to measure it is no reason not to run.
pub(crate) fn measure(cpus: &CpuSet) -> Option<f64> {
    let plan = LoadPlan {
        settle: Duration::from_millis(50),
        measure: MEASURE,
        timeout: Duration::from_secs(1),
        cpus: cpus.clone(),
        ..LoadPlan::of(
            "null",
            serde_json::json!({}),
            SocketAddr::from((Ipv4Addr::LOCALHOST, 9)),
            LoadProfile::Closed { connections: 1, pipeline: 1 },
        )
    };
    let mut driver = Driver::start(Driver::command(), None, &plan).ok()?;
    let asked = Asked { each_second: &mut |_| {}, next: None, inside: None };
    let summary = driver.wait(plan.task, LIMIT, &Stop::default(), asked).ok()?;
    cost(&summary)
}

fn cost(summary: &LoadSummary) -> Option<f64> {
    let operations: u64 = summary.operations.values().map(|operation| operation.count).sum();
    (operations > 0).then(|| summary.generator_cpu_s * 1e6 / operations as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::OperationSummary;

    #[test]
    fn the_cost_is_cpu_time_per_operation() {
        let mut summary = LoadSummary { generator_cpu_s: 0.25, ..LoadSummary::default() };
        assert_eq!(cost(&summary), None);
        let nothing = OperationSummary { count: 10_000_000, ..OperationSummary::default() };
        summary.operations.insert("nothing".to_owned(), nothing);
        assert!((cost(&summary).unwrap() - 0.025).abs() < 1e-12);
    }
}
