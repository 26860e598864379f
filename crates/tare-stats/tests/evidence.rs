//! Whose counters make which figure, where the services stand in a guest.

use std::collections::BTreeMap;
use tare_core::load::{LoadSummary, OperationSummary};
use tare_core::plan::PlannedTrial;
use tare_core::record::{TrialData, TrialRecord};
use tare_core::telemetry::{METRICS, TelemetryRow, Vantage, WHOLE_MACHINE};
use tare_core::trial::Outcome;
use tare_stats::evidence;

const SECOND: u64 = 1_000_000_000;

/// A scope, whether it serves, and what it counts in a second.
type Counted = (Vantage, &'static str, bool, &'static [(&'static str, f64)]);

/// The figures of a trial of ten seconds and 1000 operations, whose generator took a tenth of a CPU.
fn figures(of: &[Counted]) -> BTreeMap<String, f64> {
    let planned = PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
    let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
    let operation = OperationSummary { count: 1000, ..OperationSummary::default() };
    record.load = Some(LoadSummary {
        operations: [("get".to_owned(), operation)].into(),
        measure_start_ns: SECOND,
        measure_end_ns: 11 * SECOND,
        generator_cpu_s: 1.0,
        ..LoadSummary::default()
    });
    let row = |at: u64, (vantage, scope, serving, counters): &Counted| TelemetryRow {
        at_ns: at * SECOND,
        vantage: *vantage,
        scope: (*scope).to_owned(),
        serving: *serving,
        values: counters.iter().map(|(name, rate)| ((*name).to_owned(), read(name, *rate, at))).collect(),
    };
    let telemetry = [0, 6, 12].iter().flat_map(|at| of.iter().map(move |one| row(*at, one))).collect();
    let trial = TrialData { record, seconds: Vec::new(), telemetry };
    evidence(&trial).into_iter().map(|(name, evidence)| (name, evidence.value)).collect()
}

/// What a metric says after so many seconds: gauges stand still.
fn read(name: &str, rate: f64, seconds: u64) -> f64 {
    let is_gauge = METRICS.iter().any(|metric| metric.name == name && !metric.counter);
    if is_gauge { rate } else { rate * seconds as f64 }
}

fn about(figures: &BTreeMap<String, f64>, name: &str, wanted: f64) {
    let value = figures.get(name).unwrap_or_else(|| panic!("no {name} in {figures:?}"));
    assert!((value - wanted).abs() < 1e-6 * wanted.max(1.0), "{name}: {value} instead of {wanted}");
}

const HYPERVISOR: Counted = (
    Vantage::Host,
    "hypervisor",
    true,
    &[("cpu_user_s", 0.5), ("run_queue_wait_s", 0.1), ("wait_sync_s", 0.3), ("disk_write_bytes", 4096.0)],
);
const MACHINE: Counted = (Vantage::Host, WHOLE_MACHINE, false, &[("listen_overflows", 0.0), ("interrupts", 100.0)]);
const INSIDE: Counted = (
    Vantage::Guest,
    "server",
    true,
    &[
        ("cpu_user_s", 0.4),
        ("run_queue_wait_s", 0.02),
        ("wait_sync_s", 0.4),
        ("wait_sleep_s", 0.2),
        ("throttled_s", 0.25),
        ("refaults", 50.0),
        ("disk_write_bytes", 4000.0),
    ],
);
const ENGINE: Counted = (Vantage::Guest, "engine", false, &[("cpu_user_s", 0.1), ("wait_sleep_s", 0.9)]);
const GUEST: Counted = (Vantage::Guest, WHOLE_MACHINE, false, &[("listen_overflows", 3.0), ("interrupts", 500.0)]);

#[test]
fn what_only_a_guest_sees_counts_and_nothing_counts_twice() {
    let seen = figures(&[HYPERVISOR, MACHINE, INSIDE, ENGINE, GUEST]);
    // Nobody outside sees these, and the engine beside the service is no service.
    about(&seen, "sleep_share", 0.2);
    about(&seen, "throttled_share", 0.25);
    about(&seen, "refaults_per_s", 50.0);
    about(&seen, "listen_overflows_per_s", 3.0);
    // Two queues, one behind the other.
    about(&seen, "run_queue_share", 0.12);
    // The same writing, seen from both sides.
    about(&seen, "sync_share", 0.4);
    about(&seen, "write_bytes_per_op", 40.96);
    // The guest's time is the hypervisor's already.
    about(&seen, "user_us_per_op", 5000.0);
    about(&seen, "interrupts_per_op", 1.0);
    assert!(!seen.contains_key("cpu_us_per_op:server"), "{seen:?}");
}

#[test]
fn without_a_guest_the_host_alone_counts() {
    let server: Counted = (Vantage::Host, "server", true, INSIDE.3);
    let seen = figures(&[server, MACHINE]);
    about(&seen, "sleep_share", 0.2);
    about(&seen, "sync_share", 0.4);
    about(&seen, "run_queue_share", 0.02);
    about(&seen, "user_us_per_op", 4000.0);
    about(&seen, "listen_overflows_per_s", 0.0);
}

#[test]
fn others_are_who_else_runs_on_the_cpus_that_serve() {
    let machine: Counted = (
        Vantage::Host,
        WHOLE_MACHINE,
        false,
        &[("cpu_user_s@0", 0.7), ("cpu_system_s@0", 0.2), ("cpu_user_s@1", 0.6), ("cpu_system_s@1", 0.1)],
    );
    let on_one: Counted = (Vantage::Host, "server", true, &[("cpu_on_s@0", 0.6), ("cpu_on_s@1", 0.01)]);
    about(&figures(&[machine, on_one]), "others_share", 0.3);
    // The generator runs on one of these.
    let on_both: Counted = (Vantage::Host, "server", true, &[("cpu_on_s@0", 0.6), ("cpu_on_s@1", 0.4)]);
    about(&figures(&[machine, on_both]), "others_share", 0.5);
    let alone: Counted = (Vantage::Host, "server", true, &[("cpu_on_s@0", 0.9), ("cpu_on_s@1", 0.65)]);
    about(&figures(&[machine, alone]), "others_share", 0.0);
}

#[test]
fn the_cpu_time_used_is_a_share_of_the_quota() {
    const HALF: &[(&str, f64)] =
        &[("cpu_total_s", 0.3), ("throttled_periods", 0.0), ("cpu_quota_s", 0.06), ("cpu_period_s", 0.1)];
    const NEARLY: &[(&str, f64)] =
        &[("cpu_total_s", 0.57), ("throttled_periods", 9.0), ("cpu_quota_s", 0.06), ("cpu_period_s", 0.1)];
    let (half, nearly) = ((Vantage::Host, "one", true, HALF), (Vantage::Host, "other", true, NEARLY));
    about(&figures(&[MACHINE, half]), "quota_share", 0.5);
    about(&figures(&[MACHINE, half, nearly]), "quota_share", 0.95);
    about(&figures(&[MACHINE, half, nearly]), "quota_periods_share", 0.9);
    about(&figures(&[MACHINE, half]), "quota_periods_share", 0.0);
    about(&figures(&[MACHINE, HYPERVISOR, (Vantage::Guest, "one", true, HALF)]), "quota_share", 0.5);
    let none = figures(&[MACHINE, (Vantage::Host, "one", true, &[("cpu_total_s", 0.3), ("cpu_period_s", 0.1)])]);
    assert!(!none.keys().any(|name| name.starts_with("quota")), "{none:?}");
}

#[test]
fn a_packet_s_size_is_that_of_the_machine_s_interfaces() {
    let counters =
        &[("net_rx_bytes", 3000.0), ("net_tx_bytes", 1000.0), ("net_rx_packets", 30.0), ("net_tx_packets", 10.0)];
    let found = figures(&[(Vantage::Host, WHOLE_MACHINE, false, counters)]);
    about(&found, "packet_bytes", 100.0);
    about(&found, "packets_per_op", 0.4);
    let silent = &[("net_rx_bytes", 0.0), ("net_rx_packets", 0.0)];
    assert!(!figures(&[(Vantage::Host, WHOLE_MACHINE, false, silent)]).contains_key("packet_bytes"));
}
