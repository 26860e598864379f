//! The CPUs that services get in a trial, and those on which they were seen.

use crate::trial::TrialInputs;
use tare_core::host::{Instance, ServiceStart};
use tare_core::telemetry::TelemetryRow;
use tare_core::units::CpuSet;

/// The services to start, each with its CPUs.
pub(crate) fn starts(inputs: &TrialInputs) -> Vec<ServiceStart> {
    let placed = |name: &str| inputs.placement.and_then(|placement| placement.services.get(name));
    let start = |service: &tare_core::workload::Service| match placed(&service.name) {
        Some(placed) => ServiceStart {
            free: placed.free,
            memory: placed.memory.clone(),
            ..ServiceStart::on(service.clone(), Some(placed.cpus.clone()))
        },
        None => {
            let own = inputs.service_cpus.cpus().iter().copied().take(service.resources.cpus as usize);
            ServiceStart::on(service.clone(), Some(CpuSet::new(own)))
        }
    };
    inputs.workload.services.iter().map(start).collect()
}

/// The CPUs on which threads of a service ran, as numbered where it runs; empty if nothing was seen.
pub(crate) fn ran_on(service: &str, telemetry: &[TelemetryRow]) -> CpuSet {
    let rows = telemetry.iter().filter(|row| row.scope == service);
    let on = rows.flat_map(|row| &row.values).filter(|(_, seconds)| **seconds > 0.0);
    CpuSet::new(on.filter_map(|(metric, _)| metric.strip_prefix("cpu_on_s@")?.parse().ok()))
}

/// Why the trial is void, if the service ran on CPUs outside those to which it was confined.
pub(crate) fn strayed(instance: &Instance, ran_on: &CpuSet) -> Option<String> {
    let allowed = instance.cpus.as_ref()?;
    let outside: Vec<u32> = ran_on.cpus().iter().copied().filter(|cpu| !allowed.cpus().contains(cpu)).collect();
    let outside = (!outside.is_empty()).then(|| CpuSet::new(outside))?;
    Some(format!("service {} ran on CPUs {outside}, but is confined to {allowed}", instance.instance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tare_core::telemetry::Vantage;

    fn row(scope: &str, values: &[(&str, f64)]) -> TelemetryRow {
        let values = values.iter().map(|(metric, value)| ((*metric).to_owned(), *value)).collect();
        TelemetryRow { at_ns: 1, vantage: Vantage::Host, scope: scope.to_owned(), serving: true, values }
    }

    #[test]
    fn who_ran_elsewhere_is_seen() {
        let rows = [
            row("a", &[("cpu_on_s@0", 0.5), ("cpu_total_s", 2.0)]),
            row("a", &[("cpu_on_s@0", 0.5), ("cpu_on_s@3", 0.1), ("cpu_on_s@7", 0.0)]),
            row("b", &[("cpu_on_s@1", 1.0)]),
        ];
        assert_eq!(ran_on("a", &rows), CpuSet::new([0, 3]));
        let instance = |cpus: Option<CpuSet>| Instance {
            instance: "a".to_owned(),
            endpoints: BTreeMap::new(),
            peers: BTreeMap::new(),
            path: String::new(),
            cpus,
            warnings: Vec::new(),
        };
        let seen = ran_on("a", &rows);
        assert_eq!(strayed(&instance(None), &seen), None, "it was not confined");
        assert_eq!(strayed(&instance(Some(CpuSet::new(0..4))), &seen), None);
        let why = strayed(&instance(Some(CpuSet::new([0, 1]))), &seen).unwrap();
        assert_eq!(why, "service a ran on CPUs 3, but is confined to 0-1");
        assert_eq!(strayed(&instance(Some(CpuSet::new([0]))), &CpuSet::default()), None, "nothing was seen");
    }
}
