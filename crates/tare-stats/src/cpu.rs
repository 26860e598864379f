//! CPU time per operation, two ways.
//!
//! *Of the whole machine*: the busy time of all CPUs, the generator's included. It holds all the work of the kernel,
//! whomever it was charged to, and also whatever else the machine did, which it does beside every form alike. This is
//! what forms are compared by.
//!
//! *Attributed*: the CPU time of every process that serves the request (services, port proxies, hypervisors), as the
//! kernel charged it. Work that the kernel does in software interrupts (most of receiving a packet) is charged to
//! whichever task happened to run, so part of it lands in this figure, part on the generator, and part on nobody.
//!
//! A tool that runs inside the form is no process of the service's, and has ended before its last second is read.
//! What it used counts to the attributed time, for it is the form that spends it: the service's control group has it
//! where it counts CPU time, else the host that ran the tool tells it.
//!
//! Both take counters at the first and the last moment measured, interpolated between the two samples around each.

use std::collections::BTreeMap;
use tare_core::load::LoadSummary;
use tare_core::telemetry::{CPU_CLOCK, TelemetryRow, Vantage, WHOLE_MACHINE};

/// CPU time, s, that the serving processes used while measuring, and a tool inside the form. Only counted from the
/// host: what a guest counts for its own processes is already in its hypervisor's time.
///
/// None when there is no serving scope, or when one of them or the tool could not be read: a sum with a part missing
/// would flatter.
pub(crate) fn serving_cpu_s(load: &LoadSummary, telemetry: &[TelemetryRow]) -> Option<f64> {
    let mut scopes: BTreeMap<&str, Vec<&TelemetryRow>> = BTreeMap::new();
    for row in telemetry.iter().filter(|row| row.serving && row.vantage == Vantage::Host) {
        scopes.entry(&row.scope).or_default().push(row);
    }
    if scopes.is_empty() {
        return None;
    }
    let serving: Option<f64> = scopes.values().map(|rows| spent(rows, cpu_total_s, load)).sum();
    let tool = load.inside.map_or(Some(0.0), |inside| inside.cpu_s);
    Some(serving? + tool?)
}

/// How much CPU time services used, as a share of one CPU, during a load that was not theirs; `telemetry` is of their
/// own host. None where it was not sampled.
pub fn resting_share(others: &LoadSummary, telemetry: &[TelemetryRow]) -> Option<f64> {
    let length_s = others.measure_end_ns.saturating_sub(others.measure_start_ns) as f64 / 1e9;
    // A tool inside is the loaded form's, not this one's.
    let others = LoadSummary { inside: None, ..others.clone() };
    Some(serving_cpu_s(&others, telemetry)? / length_s).filter(|share| share.is_finite())
}

/// The CPU time of a scope so far, s.
pub(crate) fn cpu_total_s(row: &TelemetryRow) -> Option<f64> {
    let two = || Some(row.values.get("cpu_user_s")? + row.values.get("cpu_system_s")?);
    row.values.get("cpu_total_s").copied().or_else(two)
}

/// CPU time, s, that all CPUs of the machine were busy while measuring: the time that passed less that in which they
/// were idle, waiting for disks included, or taken away by a hypervisor. How long a CPU was idle the kernel knows
/// exactly where ticks stop meanwhile; what else it did it samples by the tick. Where single CPUs are not told apart,
/// the sum of what they were charged with, guests included. Of loads that took turns that is the time of all; theirs is
/// what services and generator were charged with, in whose time the interrupts of their packets are.
pub(crate) fn busy_cpu_s(load: &LoadSummary, telemetry: &[TelemetryRow]) -> Option<f64> {
    if load.turns.is_some() {
        return Some(serving_cpu_s(load, telemetry)? + load.generator_cpu_s);
    }
    let of_machine = |row: &&TelemetryRow| row.vantage == Vantage::Host && row.scope == WHOLE_MACHINE;
    let rows: Vec<&TelemetryRow> = telemetry.iter().filter(of_machine).collect();
    let cpus = |row: &&TelemetryRow| row.values.keys().filter(|key| key.starts_with("cpu_idle_s@")).count();
    let online = rows.first().map(cpus).filter(|online| *online > 0 && rows.iter().all(|row| cpus(row) == *online));
    if let Some(online) = online
        && let Some(idle) = spent(&rows, |row| all_cpus(row, "cpu_idle_s"), load)
    {
        let passed = load.measure_end_ns.saturating_sub(load.measure_start_ns) as f64 / 1e9 * online as f64;
        let stolen = spent(&rows, |row| all_cpus(row, "cpu_steal_s"), load).unwrap_or(0.0);
        return Some((passed - idle - stolen).max(0.0));
    }
    let charged = |row: &TelemetryRow| {
        let (user, system) = (all_cpus(row, "cpu_user_s")?, all_cpus(row, "cpu_system_s")?);
        let others = ["cpu_softirq_s", "cpu_irq_s", "cpu_guest_s"];
        Some(user + system + others.iter().filter_map(|metric| all_cpus(row, metric)).sum::<f64>())
    };
    spent(&rows, charged, load)
}

/// A metric of the whole machine: its own value, else the sum over its CPUs.
pub(crate) fn all_cpus(row: &TelemetryRow, metric: &str) -> Option<f64> {
    if let Some(value) = row.values.get(metric) {
        return Some(*value);
    }
    let one_cpu = |key: &str| key.strip_prefix(metric).is_some_and(|rest| rest.starts_with('@'));
    row.values.iter().filter(|(key, _)| one_cpu(key)).map(|(_, value)| *value).reduce(|sum, value| sum + value)
}

/// How far a counter went between the start and the end of measuring.
pub(crate) fn spent(
    rows: &[&TelemetryRow],
    read: impl Fn(&TelemetryRow) -> Option<f64>,
    load: &LoadSummary,
) -> Option<f64> {
    let mut points: Vec<(u64, f64)> = rows.iter().filter_map(|row| Some((read_ns(row), read(row)?))).collect();
    points.sort_by_key(|point| point.0);
    points.dedup_by_key(|point| point.0);
    Some(value_at(&points, load.measure_end_ns)? - value_at(&points, load.measure_start_ns)?)
}

/// When a row's counters were read: where a reading of all sources takes long, a row's own moment is late. A guest's
/// clock is another one.
fn read_ns(row: &TelemetryRow) -> u64 {
    match (row.vantage, row.values.get(CPU_CLOCK)) {
        (Vantage::Host, Some(seconds)) => (seconds * 1e9) as u64,
        _ => row.at_ns,
    }
}

/// The value at a moment, on the line through the two samples around it. Just outside of the samples the line through
/// the nearest two is prolonged by at most their distance; further out nothing is known.
fn value_at(points: &[(u64, f64)], at_ns: u64) -> Option<f64> {
    if points.len() < 2 {
        return None;
    }
    let after = points.partition_point(|point| point.0 < at_ns).clamp(1, points.len() - 1);
    let ((t0, v0), (t1, v1)) = (points[after - 1], points[after]);
    let position = (at_ns as f64 - t0 as f64) / (t1 as f64 - t0 as f64);
    (-1.0..=2.0).contains(&position).then_some(v0 + position * (v1 - v0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::InsideUse;

    const SECOND: u64 = 1_000_000_000;

    fn row(at_s: f64, vantage: Vantage, scope: &str, serving: bool, values: &[(&str, f64)]) -> TelemetryRow {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        TelemetryRow { at_ns: (at_s * SECOND as f64) as u64, vantage, scope: scope.into(), serving, values }
    }

    #[test]
    fn counters_of_cpus_are_of_the_moment_at_which_these_were_read() {
        let read = |at_s: f64, late_s: f64| {
            let values = [("cpu_idle_s@0", at_s / 2.0), (CPU_CLOCK, at_s)];
            row(at_s + late_s, Vantage::Host, WHOLE_MACHINE, false, &values)
        };
        let rows = [read(0.0, 0.1), read(1.0, 0.3), read(2.0, 0.0), read(3.0, 0.2)];
        let busy = busy_cpu_s(&window(0.5, 2.5), &rows).unwrap();
        assert!((busy - 1.0).abs() < 1e-9, "half of two seconds: {busy}");
    }

    fn window(start_s: f64, end_s: f64) -> LoadSummary {
        let ns = |seconds: f64| (seconds * SECOND as f64) as u64;
        LoadSummary { measure_start_ns: ns(start_s), measure_end_ns: ns(end_s), ..Default::default() }
    }

    #[test]
    fn serving_scopes_are_summed_between_interpolated_moments_and_a_guest_is_not_counted_twice() {
        let mut rows = Vec::new();
        for second in 0..=12 {
            let at = f64::from(second);
            rows.push(row(at, Vantage::Host, "server", true, &[("cpu_total_s", 0.5 * at)]));
            rows.push(row(at, Vantage::Host, "proxy", true, &[("cpu_user_s", 0.1 * at), ("cpu_system_s", 0.2 * at)]));
            rows.push(row(at, Vantage::Host, "probe", false, &[("cpu_total_s", at)]));
            rows.push(row(at, Vantage::Guest, "inner", true, &[("cpu_total_s", at)]));
        }
        let spent = serving_cpu_s(&window(1.25, 11.25), &rows).unwrap();
        assert!((spent - 8.0).abs() < 1e-9, "{spent}");
    }

    #[test]
    fn a_serving_scope_without_readings_takes_the_figure_away() {
        let mut rows: Vec<TelemetryRow> =
            (0..3).map(|n| row(f64::from(n), Vantage::Host, "server", true, &[("cpu_total_s", 1.0)])).collect();
        assert!(serving_cpu_s(&window(0.0, 2.0), &rows).is_some());
        rows.push(row(0.0, Vantage::Host, "proxy", true, &[("threads", 3.0)]));
        assert_eq!(serving_cpu_s(&window(0.0, 2.0), &rows), None);
    }

    #[test]
    fn a_tool_inside_the_form_counts_and_one_that_cannot_be_read_takes_the_figure_away() {
        let rows: Vec<TelemetryRow> = (0..=12)
            .map(f64::from)
            .map(|at| row(at, Vantage::Host, "server", true, &[("cpu_total_s", 0.5 * at)]))
            .collect();
        let used = |inside| serving_cpu_s(&LoadSummary { inside, ..window(1.0, 11.0) }, &rows);
        assert_eq!(used(None), Some(5.0));
        assert_eq!(used(Some(InsideUse { cpu_s: Some(9.5) })), Some(14.5));
        assert_eq!(used(Some(InsideUse { cpu_s: None })), None);
    }

    /// A machine of two CPUs that does this every second.
    fn machine(each_second: &[(&str, f64)]) -> Vec<TelemetryRow> {
        let at = |second: i32| {
            let values: Vec<(&str, f64)> =
                each_second.iter().map(|(name, value)| (*name, value * f64::from(second))).collect();
            row(f64::from(second), Vantage::Host, WHOLE_MACHINE, false, &values)
        };
        (0..=10).map(at).collect()
    }

    #[test]
    fn the_machine_is_busy_with_whatever_it_does_guests_and_the_generator_included() {
        let rows = machine(&[
            ("cpu_user_s@0", 0.3),
            ("cpu_user_s@1", 0.2),
            ("cpu_system_s@0", 0.1),
            ("cpu_softirq_s@0", 0.2),
            ("cpu_guest_s@1", 0.5),
            ("cpu_steal_s@0", 0.1),
        ]);
        let load = LoadSummary { generator_cpu_s: 3.0, ..window(0.0, 10.0) };
        let busy = busy_cpu_s(&load, &rows).unwrap();
        assert!((busy - 13.0).abs() < 1e-9, "{busy}");
    }

    #[test]
    fn what_is_neither_idle_nor_stolen_is_busy_whatever_the_ticks_saw() {
        let rows = machine(&[
            ("cpu_user_s@0", 0.9),
            ("cpu_system_s@1", 0.9),
            ("cpu_idle_s@0", 0.4),
            ("cpu_idle_s@1", 0.3),
            ("cpu_steal_s@1", 0.2),
        ]);
        let busy = busy_cpu_s(&window(1.5, 9.5), &rows).unwrap();
        assert!((busy - 8.0 * 1.1).abs() < 1e-9, "{busy}");
    }

    #[test]
    fn far_outside_of_the_samples_nothing_is_known() {
        let points = [(SECOND, 1.0), (2 * SECOND, 2.0)];
        assert_eq!(value_at(&points, 5 * SECOND / 2), Some(2.5));
        assert_eq!(value_at(&points, 4 * SECOND), None);
    }
}
