//! What the kernel counted in a trial, as figures per operation or per second: what goes with a form's cost.

use crate::cpu::{all_cpus, spent};
use std::collections::BTreeMap;
use tare_core::load::LoadSummary;
use tare_core::record::TrialData;
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};

/// Whose counters a figure is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The whole machine's, the generator's share included.
    Machine,
    /// Those of all processes that serve the request, as the host counts them: what a guest does is its hypervisor's.
    Serving,
    /// The same and what a guest counts for the services in it, which nobody sees from outside.
    Services,
    /// The same, where what both see is one and the same: the larger of the two.
    Either,
    /// The machine's and those of network namespaces of their own, which the machine's do not hold; of guests too.
    Everywhere,
}

/// By what a counter is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Per {
    Operation,
    Second,
}

/// Figures of one kind: whose counters, by what, and each one's name, unit, title, counters and factor.
struct Group(Of, Per, &'static [Row]);

/// A figure's name, unit, title, counters and factor.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str], f64);

/// The figures, by whose they are; a reader gets those first that differ most.
const GROUPS: &[Group] = &[
    Group(
        Of::Serving,
        Per::Operation,
        &[
            ("user_us_per_op", "us", "CPU in user mode per op", &["cpu_user_s"], 1e6),
            ("system_us_per_op", "us", "CPU in the kernel per op", &["cpu_system_s"], 1e6),
            (
                "waits_per_op",
                "",
                "voluntary context switches of the services per op",
                &["context_switches_voluntary"],
                1.0,
            ),
            ("preempted_per_op", "", "preemptions of the services per op", &["context_switches_involuntary"], 1.0),
            ("migrations_per_op", "", "CPU migrations per op", &["migrations"], 1.0),
        ],
    ),
    Group(Of::Serving, Per::Second, &[("busy_cpus", "", "CPUs that the services keep busy", &["cpu_total_s"], 1.0)]),
    Group(
        Of::Services,
        Per::Operation,
        &[
            ("run_queue_us_per_op", "us", "wait for a CPU per op", &["run_queue_wait_s"], 1e6),
            ("minor_faults_per_op", "", "page faults per op", &["minor_faults"], 1.0),
            ("major_faults_per_op", "", "page faults from disk per op", &["major_faults"], 1.0),
        ],
    ),
    Group(
        Of::Either,
        Per::Operation,
        &[
            ("read_bytes_per_op", "", "bytes read from disk per op", &["disk_read_bytes"], 1.0),
            ("write_bytes_per_op", "", "bytes written to disk per op", &["disk_write_bytes"], 1.0),
        ],
    ),
    Group(
        Of::Services,
        Per::Second,
        &[
            ("throttled_share", "share", "time throttled by a CPU quota", &["throttled_s"], 1.0),
            ("run_queue_share", "share", "time runnable but waiting for a CPU", &["run_queue_wait_s"], 1.0),
            ("sleep_share", "share", "time in sleeps that the services asked for", &["wait_sleep_s"], 1.0),
            ("stopped_share", "share", "time stopped by a signal, a tracer or a freezer", &["wait_stopped_s"], 1.0),
            ("lock_share", "", "threads waiting for one another", &["wait_lock_s"], 1.0),
            ("limit_hits_per_s", "", "memory limit hits per second", &["memory_limit_hits"], 1.0),
            ("reclaimed_per_s", "", "pages reclaimed per second", &["reclaimed_pages"], 1.0),
            ("refaults_per_s", "", "reclaimed pages read again per second", &["refaults"], 1.0),
        ],
    ),
    Group(
        Of::Either,
        Per::Second,
        &[
            ("sync_share", "share", "time waiting for writes to reach the disk", &["wait_sync_s"], 1.0),
            ("disk_share", "share", "time waiting for a disk", &["wait_disk_s"], 1.0),
            ("psi_cpu_share", "share", "time some task waited for a CPU", &["psi_cpu_some_s"], 1.0),
            ("psi_memory_share", "share", "time some task waited for memory", &["psi_memory_some_s"], 1.0),
            ("psi_io_share", "share", "time some task waited for I/O", &["psi_io_some_s"], 1.0),
        ],
    ),
    Group(
        Of::Machine,
        Per::Operation,
        &[
            ("softirq_us_per_op", "us", "CPU in software interrupts per op", &["cpu_softirq_s"], 1e6),
            ("switches_per_op", "", "context switches of the machine per op", &["context_switches"], 1.0),
            ("starts_per_op", "", "processes and threads started per op", &["tasks_started"], 1.0),
            ("interrupts_per_op", "", "interrupts per op", &["interrupts"], 1.0),
            (
                "softirqs_net_rx_per_op",
                "",
                "software interrupts for received packets per op",
                &["softirqs_net_rx"],
                1.0,
            ),
            (
                "packets_per_op",
                "",
                "packets per op, all interfaces but loopback",
                &["net_rx_packets", "net_tx_packets"],
                1.0,
            ),
            ("conntrack_per_op", "", "connection tracking lookups per op", &["conntrack_found"], 1.0),
            ("flushes_per_op", "", "disk flushes per op", &["disk_flushes"], 1.0),
            ("instructions_per_op", "", "instructions of the machine per op", &["instructions"], 1.0),
            ("cycles_per_op", "", "clock cycles of the machine per op", &["cycles"], 1.0),
            ("cache_misses_per_op", "", "cache misses of the machine per op", &["cache_misses"], 1.0),
            ("dtlb_misses_per_op", "", "data TLB misses of the machine per op", &["dtlb_misses"], 1.0),
            ("branch_misses_per_op", "", "branch misses of the machine per op", &["branch_misses"], 1.0),
            ("kvm_exits_per_op", "", "VM exits per op", &["kvm_exits"], 1.0),
        ],
    ),
    Group(
        Of::Machine,
        Per::Second,
        &[
            ("steal_share", "", "CPUs stolen by a hypervisor", &["cpu_steal_s"], 1.0),
            (
                "machine_psi_memory_share",
                "share",
                "time some task of the machine waited for memory",
                &["psi_memory_some_s"],
                1.0,
            ),
            ("machine_psi_io_share", "share", "time some task of the machine waited for I/O", &["psi_io_some_s"], 1.0),
            (
                "conntrack_drops_per_s",
                "",
                "packets dropped by connection tracking per second",
                &["conntrack_drops"],
                1.0,
            ),
            ("softnet_drops_per_s", "", "packets dropped at a full backlog per second", &["softnet_drops"], 1.0),
            ("remote_pages_per_s", "", "pages allocated on another NUMA node per second", &["numa_remote_pages"], 1.0),
        ],
    ),
    Group(
        Of::Everywhere,
        Per::Operation,
        &[
            ("retransmits_per_op", "", "TCP retransmits per op", &["tcp_retransmits"], 1.0),
            ("zero_windows_per_op", "", "TCP receive windows of zero per op", &["zero_windows"], 1.0),
            ("connections_per_op", "", "connections opened per op", &["connections_accepted"], 1.0),
        ],
    ),
    Group(
        Of::Everywhere,
        Per::Second,
        &[
            ("listen_drops_per_s", "", "connections dropped while being opened per second", &["listen_drops"], 1.0),
            ("listen_overflows_per_s", "", "listen queue overflows per second", &["listen_overflows"], 1.0),
            (
                "request_queue_full_per_s",
                "",
                "overflows of half-open connections per second",
                &["request_queue_full"],
                1.0,
            ),
            ("syn_retransmits_per_s", "", "SYN retransmits per second", &["syn_retransmits"], 1.0),
            ("receive_drops_per_s", "", "packets dropped at a full socket buffer per second", &["receive_drops"], 1.0),
        ],
    ),
];

/// Acknowledgments that the load's side held back until their time was up.
const LATE_ACKS: (&str, &str) = ("late_acks_per_op", "answers acknowledged late per op");

/// What stands still or nearly so: name, title, gauge, and what it is multiplied by.
const STANDING: [(&str, &str, &str, f64); 2] = [
    ("serving_threads", "serving threads", "threads", 1.0),
    ("huge_mib", "service memory in huge pages, MiB", "huge_bytes", 1.0 / (1 << 20) as f64),
];

/// What others than those who serve used of the CPUs that serve.
const OTHERS: (&str, &str) = ("others_share", "CPUs of the services used by others");

/// What a packet carries, its headers included: a longer path has more packets, and all of the same size.
const PACKET_BYTES: (&str, &str) = ("packet_bytes", "bytes per packet, all interfaces but loopback");

/// Of the CPU quota that was nearest to being used up: how often it was, and how much of it was used.
const OF_QUOTA: [(&str, &str); 2] = [
    ("quota_periods_share", "periods in which a CPU quota was exhausted"),
    ("quota_share", "share of a CPU quota that was used"),
];

/// The least share of the serving CPU time that was seen on a CPU of the services.
const SERVES: f64 = 0.1;

/// A figure of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// For readers.
    pub title: String,
    /// `us`, `share`, or nothing.
    pub unit: &'static str,
    /// In that unit.
    pub value: f64,
}

/// The figures of a trial by name; `cpu_us_per_op:` and a scope's name for the CPU time of each. What cannot be known
/// is absent.
pub fn evidence(trial: &TrialData) -> BTreeMap<String, Evidence> {
    trial.record.load_alone().map(|load| evidence_within(trial, load)).unwrap_or_default()
}

/// The same over the time and the operations that `load` says were measured.
pub(crate) fn evidence_within(trial: &TrialData, load: &LoadSummary) -> BTreeMap<String, Evidence> {
    let operations: u64 = load.operations.values().map(|operation| operation.count).sum();
    let seconds = load.measure_end_ns.saturating_sub(load.measure_start_ns) as f64 / 1e9;
    if operations == 0 || seconds <= 0.0 {
        return BTreeMap::new();
    }
    let (scopes, inside) = (scopes(trial, Vantage::Host), scopes(trial, Vantage::Guest));
    let spent_by = |scope: &str, metric: &str| spent(scopes.get(scope)?, |row| all_cpus(row, metric), load);
    let serving: Vec<&str> = scopes.keys().copied().filter(|scope| *scope != WHOLE_MACHINE).collect();
    let mut found = BTreeMap::new();
    for Group(of, per, rows) in GROUPS {
        let by = if *per == Per::Operation { operations as f64 } else { seconds };
        for (name, unit, title, metrics, factor) in *rows {
            let Some(sum) = counted(*of, metrics, &scopes, &inside, load) else { continue };
            let (name, title) = ((*name).to_owned(), (*title).to_owned());
            found.insert(name, Evidence { title, unit, value: sum * factor / by });
        }
    }
    for scope in &serving {
        let Some(cpu_s) = spent_by(scope, "cpu_total_s") else { continue };
        let title = format!("CPU of {scope} per op");
        let value = cpu_s * 1e6 / operations as f64;
        found.insert(format!("cpu_us_per_op:{scope}"), Evidence { title, unit: "us", value });
    }
    for ((name, title), share) in OF_QUOTA.into_iter().zip([quota_periods_share, quota_share]) {
        let shares = scopes.values().chain(inside.values()).filter_map(|rows| share(rows, seconds, load));
        if let Some(value) = shares.reduce(f64::max) {
            found.insert(name.to_owned(), Evidence { title: title.to_owned(), unit: "share", value });
        }
    }
    let of_machine = |metrics: &[&str]| counted(Of::Machine, metrics, &scopes, &inside, load);
    if let Some(bytes) = of_machine(&["net_rx_bytes", "net_tx_bytes"])
        && let Some(packets) = of_machine(&["net_rx_packets", "net_tx_packets"]).filter(|packets| *packets > 0.0)
    {
        let (name, title) = (PACKET_BYTES.0.to_owned(), PACKET_BYTES.1.to_owned());
        found.insert(name, Evidence { title, unit: "", value: bytes / packets });
    }
    if let Some(late) = load.late_acks {
        let (name, title) = (LATE_ACKS.0.to_owned(), LATE_ACKS.1.to_owned());
        found.insert(name, Evidence { title, unit: "", value: late as f64 / operations as f64 });
    }
    for (name, title, gauge, factor) in STANDING {
        // What runs in a guest is what serves; its hypervisor's threads and pages are another matter.
        let serving = |scopes: &Scopes| {
            scopes
                .values()
                .filter(|rows| rows[0].serving)
                .filter_map(|rows| mean(rows, gauge))
                .reduce(|sum, part| sum + part)
        };
        if let Some(value) = serving(if inside.is_empty() { &scopes } else { &inside }) {
            found.insert(name.to_owned(), Evidence { title: title.to_owned(), unit: "", value: value * factor });
        }
    }
    if let Some(others_s) = others_s(&scopes, &serving, load) {
        let (name, title) = (OTHERS.0.to_owned(), OTHERS.1.to_owned());
        found.insert(name, Evidence { title, unit: "", value: others_s / seconds });
    }
    found
}

/// Rows by scope.
type Scopes<'a> = BTreeMap<&'a str, Vec<&'a TelemetryRow>>;

/// The rows of what serves and of the machine, as they were seen from one side. A guest's machine is known by its rows
/// not serving; where there are several, each has a name of its own.
fn scopes(trial: &TrialData, vantage: Vantage) -> Scopes<'_> {
    let mut scopes = Scopes::new();
    let is_seen = |row: &&TelemetryRow| {
        row.vantage == vantage && (row.serving || row.scope == WHOLE_MACHINE || vantage == Vantage::Guest)
    };
    for row in trial.telemetry.iter().filter(is_seen) {
        scopes.entry(&row.scope).or_default().push(row);
    }
    scopes
}

/// How far counters went while measuring, summed over whom they are of. None where nobody has any of them.
fn counted(of: Of, metrics: &[&str], host: &Scopes, guests: &Scopes, load: &LoadSummary) -> Option<f64> {
    let sum = |scopes: &Scopes, is_counted: &dyn Fn(&str, &TelemetryRow) -> bool| -> Option<f64> {
        let counted = scopes.iter().filter(|(scope, rows)| is_counted(scope, rows[0]));
        let one = |rows: &[&TelemetryRow], metric: &str| spent(rows, |row| all_cpus(row, metric), load);
        let parts = counted.flat_map(|(_, rows)| metrics.iter().filter_map(move |metric| one(rows, metric)));
        parts.reduce(|sum, part| sum + part)
    };
    let serves = |_: &str, row: &TelemetryRow| row.serving;
    match of {
        Of::Machine => sum(host, &|scope, _| scope == WHOLE_MACHINE),
        Of::Serving => sum(host, &serves),
        Of::Services => added(sum(host, &serves), sum(guests, &serves)),
        Of::Either => sum(host, &serves).into_iter().chain(sum(guests, &serves)).reduce(f64::max),
        Of::Everywhere => added(sum(host, &|_, _| true), sum(guests, &|_, _| true)),
    }
}

/// The share of its CPU quota that a scope used; none where it has no quota.
fn quota_share(rows: &[&TelemetryRow], seconds: f64, load: &LoadSummary) -> Option<f64> {
    let allowed_s = told(rows, "cpu_quota_s")? / told(rows, "cpu_period_s")? * seconds;
    Some(spent(rows, |row| row.values.get("cpu_total_s").copied(), load)? / allowed_s)
}

/// The share of time in whose periods a scope used its quota up. Unlike the time that it was held back, it does not
/// hang on how much more the scope would have used.
fn quota_periods_share(rows: &[&TelemetryRow], seconds: f64, load: &LoadSummary) -> Option<f64> {
    told(rows, "cpu_quota_s")?;
    let used_up = spent(rows, |row| row.values.get("throttled_periods").copied(), load)?;
    Some(used_up * told(rows, "cpu_period_s")? / seconds)
}

/// What a gauge says that stands still.
fn told(rows: &[&TelemetryRow], metric: &str) -> Option<f64> {
    rows.iter().find_map(|row| row.values.get(metric).copied())
}

/// The mean of a gauge over all samples that have it.
fn mean(rows: &[&TelemetryRow], metric: &str) -> Option<f64> {
    let values: Vec<f64> = rows.iter().filter_map(|row| row.values.get(metric).copied()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn added(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(|sum, part| sum + part)
}

/// CPU time, s, that others spent in processes on the CPUs that served: those on which a tenth of the serving time was
/// seen. Where they are all the CPUs there are, the generator is among the others: its time is taken off the sum, for
/// which threads that were seen on another CPU than they had run on do not matter.
fn others_s(scopes: &Scopes, serving: &[&str], load: &LoadSummary) -> Option<f64> {
    let machine = scopes.get(WHOLE_MACHINE)?;
    let cpu_of = |key: &str, metric: &str| key.strip_prefix(metric)?.strip_prefix('@')?.parse::<u32>().ok();
    let known = |rows: &[&TelemetryRow], metric: &str| -> Vec<u32> {
        let mut cpus: Vec<u32> =
            rows.iter().flat_map(|row| row.values.keys().filter_map(|key| cpu_of(key, metric))).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    };
    let one = |rows: &[&TelemetryRow], metric: &str, cpu: u32| {
        let key = format!("{metric}@{cpu}");
        // A thread's first time on a CPU begins its counter there.
        spent(rows, |row| Some(row.values.get(&key).copied().unwrap_or(0.0)), load)
    };
    let all = known(machine, "cpu_user_s");
    let served = |cpu: u32| serving.iter().filter_map(|scope| one(&scopes[scope], "cpu_on_s", cpu)).sum::<f64>();
    let by_cpu: Vec<(u32, f64)> = all.iter().map(|cpu| (*cpu, served(*cpu))).collect();
    let total: f64 = by_cpu.iter().map(|(_, seconds)| seconds).sum();
    let ours: Vec<&(u32, f64)> = by_cpu.iter().filter(|(_, seconds)| *seconds > SERVES * total).collect();
    if ours.is_empty() {
        return None;
    }
    let busy = |cpu: u32| Some(one(machine, "cpu_user_s", cpu)? + one(machine, "cpu_system_s", cpu)?);
    let others: Vec<f64> = ours.iter().map(|(cpu, served)| Some(busy(*cpu)? - served)).collect::<Option<_>>()?;
    if ours.len() == all.len() {
        return Some((others.iter().sum::<f64>() - load.generator_cpu_s).max(0.0));
    }
    Some(others.iter().map(|others_s| others_s.max(0.0)).sum())
}

/// Whether a figure is counted per operation, and not per second, as its name says.
pub(crate) fn is_by_operation(name: &str) -> bool {
    name.split(':').next().is_some_and(|name| name.ends_with("_per_op"))
}

/// Whether trials may have a figure of this name.
#[cfg(test)]
pub(crate) fn is_figure(name: &str) -> bool {
    let rows = || GROUPS.iter().flat_map(|Group(_, _, rows)| *rows);
    let standing = STANDING.map(|(name, title, ..)| (name, title));
    OF_QUOTA.into_iter().chain([OTHERS, PACKET_BYTES, LATE_ACKS]).chain(standing).any(|(known, _)| name == known)
        || name.starts_with("cpu_us_per_op:")
        || rows().any(|(known, ..)| *known == name)
}
