//! The metrics of a record, which of them are compared, and what they are called there.

use crate::account::interrupts_apart;
use crate::ratios::MetricAnalysis;
use tare_core::record::{BUSY_PER_OP, CPU_PER_OP, Record, TrialData, TrialMetric};

/// The record's metrics. What was charged to whom is no comparison where the sum is known: see the module `cpu`.
pub(crate) fn known_metrics<'a>(record: &'a Record, measured: &[&TrialData]) -> Vec<TrialMetric<'a>> {
    let mut known = record.header.metrics();
    prefer_what_is_known(&mut known, measured);
    let by_turns = measured.iter().any(|trial| trial.record.load.as_ref().is_some_and(|load| load.turns.is_some()));
    if by_turns && interrupts_apart(record) == Some(true) {
        lack_interrupts(&mut known);
    }
    known
}

/// Of loads that take turns, CPU time is what was charged to processes. Where interrupts are in nobody's time, that
/// lacks most of receiving a packet, more of it for one form than for another.
fn lack_interrupts(metrics: &mut [TrialMetric<'_>]) {
    let of_cpu = |metric: &&mut TrialMetric<'_>| [BUSY_PER_OP, CPU_PER_OP].contains(&metric.name);
    metrics.iter_mut().filter(of_cpu).for_each(|metric| metric.compared = false);
}

/// What is charged to the services stands in where nobody knows what the machine did for a form: in duets, and in older
/// records.
fn prefer_what_is_known(metrics: &mut [TrialMetric<'_>], measured: &[&TrialData]) {
    let any = |name: &str| measured.iter().any(|trial| trial.record.metrics.contains_key(name));
    let lesser = match (any(BUSY_PER_OP), any(CPU_PER_OP)) {
        (true, _) => CPU_PER_OP,
        (false, true) => BUSY_PER_OP,
        (false, false) => return,
    };
    metrics.iter_mut().filter(|metric| metric.name == lesser).for_each(|metric| metric.compared = false);
}

/// Says what levels and operations are counted in.
pub(crate) fn name_units(record: &Record, metrics: &mut [MetricAnalysis]) {
    if let (Some(plan), Some(metric)) = (&record.header.study.peak, metrics.first_mut()) {
        metric.unit.clone_from(&plan.unit);
    }
    if let Some(unit) = &record.header.workload.protocol.unit {
        metrics.iter_mut().for_each(|metric| name_operation(metric, unit));
    }
}

/// Says what an operation is where it counts something of a unit.
fn name_operation(metric: &mut MetricAnalysis, unit: &str) {
    match metric.name.as_str() {
        "throughput" => metric.unit = format!("{unit}/s"),
        BUSY_PER_OP => metric.title = format!("CPU per {unit}"),
        CPU_PER_OP => metric.title = format!("CPU per {unit}, attributed"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tare_core::load::{LoadSummary, TurnsSummary};
    use tare_core::plan::PlannedTrial;
    use tare_core::record::{INTERRUPTS_APART, TrialRecord};
    use tare_core::trial::Outcome;

    /// A trial that brought these.
    fn trial(brought: &[&str]) -> TrialData {
        let planned =
            PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
        let mut trial = TrialRecord::new(planned, String::new(), Outcome::Measured);
        trial.metrics = brought.iter().map(|name| ((*name).to_owned(), 1.0)).collect();
        TrialData { record: trial, seconds: Vec::new(), telemetry: Vec::new() }
    }

    /// The names of those of CPU time that are compared.
    fn of_cpu<'a>(known: &[TrialMetric<'a>]) -> Vec<&'a str> {
        let names = [BUSY_PER_OP, CPU_PER_OP];
        let compared = known.iter().filter(|metric| metric.compared && names.contains(&metric.name));
        compared.map(|metric| metric.name).collect()
    }

    /// The names of those that are compared, of trials that brought these.
    fn compared(brought: &[&str]) -> Vec<&'static str> {
        let mut known = tare_core::record::TRIAL_METRICS.to_vec();
        prefer_what_is_known(&mut known, &[&trial(brought)]);
        of_cpu(&known)
    }

    /// A record on a machine that accounts for interrupts apart, or does not, or does not tell.
    fn record(apart: Option<bool>) -> Record {
        let second = json!({"secs": 1, "nanos": 0});
        let mut header = json!({
            "schema": 1, "tare": "0", "run": "r", "started": "", "command": "", "seed": 1, "plan": [], "forms": {},
            "environment": {}, "bundles": {}, "placement": {},
            "study": {
                "name": "s", "question": "", "workload": "w", "baseline": "f", "repeat": 5, "from": "outside",
                "load": {"closed": {"connections": 1, "pipeline": 1}}, "settle": second, "measure": second,
                "timeout": second, "emulated_blocks": 1, "forms": [], "options": {},
            },
            "workload": {
                "name": "w", "about": "", "services": [],
                "protocol": {"protocol": "p", "service": "db", "port": "main", "options": {}},
            },
        });
        if let Some(apart) = apart {
            header["environment"][INTERRUPTS_APART] = json!(if apart { "yes" } else { "no" });
        }
        let header = serde_json::from_value(header).unwrap();
        Record { header, trials: Vec::new(), profiles: Vec::new(), end: None }
    }

    #[test]
    fn one_figure_of_cpu_time_is_compared() {
        assert_eq!(compared(&[BUSY_PER_OP, CPU_PER_OP]), [BUSY_PER_OP]);
        assert_eq!(compared(&[BUSY_PER_OP]), [BUSY_PER_OP]);
        // By turns, in duets, and in older records.
        assert_eq!(compared(&[CPU_PER_OP]), [CPU_PER_OP]);
        assert_eq!(compared(&[]), [BUSY_PER_OP, CPU_PER_OP]);
    }

    #[test]
    fn cpu_time_that_lacks_interrupts_is_not_compared() {
        let mut known = tare_core::record::TRIAL_METRICS.to_vec();
        lack_interrupts(&mut known);
        assert!(known.iter().all(|metric| !metric.compared || ![BUSY_PER_OP, CPU_PER_OP].contains(&metric.name)));
        assert!(known.iter().any(|metric| metric.compared && metric.name == "throughput"));
    }

    #[test]
    fn by_turns_cpu_time_is_compared_unless_interrupts_are_in_nobody_s() {
        let alone = trial(&["throughput", CPU_PER_OP]);
        let mut turned = alone.clone();
        let turns = Some(TurnsSummary::default());
        turned.record.load = Some(LoadSummary { turns, ..LoadSummary::default() });
        for (apart, by_turns, wanted) in [
            (Some(true), true, vec![]),
            (Some(false), true, vec![CPU_PER_OP]),
            (None, true, vec![CPU_PER_OP]),
            (Some(true), false, vec![CPU_PER_OP]),
        ] {
            let record = record(apart);
            let second = if by_turns { &turned } else { &alone };
            let known = known_metrics(&record, &[&alone, second]);
            assert_eq!(of_cpu(&known), wanted, "{apart:?}, by turns: {by_turns}");
            assert!(known.iter().any(|metric| metric.compared && metric.name == "throughput"));
        }
    }
}
