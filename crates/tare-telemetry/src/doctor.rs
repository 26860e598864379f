//! What this machine can measure, and what would improve its measurements: the rows of `tare doctor` about the machine
//! itself. Layers check their own needs.

use crate::SOURCES;
use crate::environment::{cgroup_version, chosen, governor, meminfo, mitigations, turbo, virtualisation};
use crate::profile::Profiler;
use crate::root::Root;
use crate::source::SourceState;
use crate::topology::topology_at;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tare_core::profile::{CALL_STACKS, SYSTEM_CALLS};
use tare_core::units::show_bytes;

/// One row of `tare doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorCheck {
    /// Its area: "cpu", "memory", "kernel", "network", [`TELEMETRY`], "disk", [`PROFILE`].
    pub area: String,
    /// What was checked.
    pub name: String,
    /// What was found.
    pub value: String,
    /// How good that is.
    pub verdict: Verdict,
    /// What it means for measuring, or what it would make possible.
    pub meaning: String,
    /// How to change it; empty if there is nothing to change.
    pub remedy: String,
}

/// The area of the counters of a trial.
pub const TELEMETRY: &str = "telemetry";

/// The area of profiled trials.
pub const PROFILE: &str = "profile";

/// How good something is for measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, with a limitation worth knowing.
    Note,
    /// It makes measurements wrong or impossible.
    Bad,
}

use Verdict::{Bad, Good, Note};

/// The checks of this machine.
pub fn checks() -> Vec<DoctorCheck> {
    checks_at(&Root::machine())
}

/// The checks of the machine whose files are below `root`.
pub fn checks_at(root: &Root) -> Vec<DoctorCheck> {
    let mut rows = Vec::new();
    cpu(root, &mut rows);
    memory(root, &mut rows);
    kernel(root, &mut rows);
    network(root, &mut rows);
    telemetry(root, &mut rows);
    rows
}

/// Whether call stacks and system calls can be recorded, found by doing so for a moment.
pub fn profiler_checks() -> Vec<DoctorCheck> {
    let missing = Profiler::missing(&Root::machine());
    let check = |what| match missing.get(what) {
        None => row(PROFILE, what, "yes", Good, "profiled trials (--profile) show where the CPU time goes", ""),
        Some(why) => row(PROFILE, what, "no", Note, &why.message, &why.remedy),
    };
    [CALL_STACKS, SYSTEM_CALLS].map(check).into()
}

/// Whether the disk of a directory, which need not exist yet, has room for bundles and records.
pub fn disk_check(directory: &Path) -> DoctorCheck {
    let name = "free space";
    let whole = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let Some(space) = whole.ancestors().find_map(|there| rustix::fs::statvfs(there).ok()) else {
        let value = format!("unknown at {}", directory.display());
        return row("disk", name, &value, Bad, "bundles and records are kept there", "name a directory that exists");
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let (verdict, remedy) = match free >> 20 {
        0..2048 => (Bad, "free at least 2 GiB, or choose another directory"),
        2048..8192 => (Note, "free about 8 GiB, or choose another directory, before building many bundles"),
        _ => (Good, ""),
    };
    let value = format!("{} at {}", show_bytes(free), directory.display());
    row("disk", name, &value, verdict, "bundles, guest disks and records are kept there", remedy)
}

fn row(area: &str, name: &str, value: &str, verdict: Verdict, meaning: &str, remedy: &str) -> DoctorCheck {
    let remedy = if verdict == Good { "" } else { remedy }.to_owned();
    let [area, name, value, meaning] = [area, name, value, meaning].map(str::to_owned);
    DoctorCheck { area, name, value, verdict, meaning, remedy }
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn cpu(root: &Root, rows: &mut Vec<DoctorCheck>) {
    let topology = topology_at(root);
    let (cpus, cores) = (topology.cpus.len(), topology.cores().len());
    let value = format!("{cpus} on {}, {}", count(cores, "core"), count(topology.packages(), "package"));
    let meaning = "load and service each have their own CPUs; with fewer than four, engine and kernel share those";
    let verdict = if cpus >= 4 {
        Good
    } else if cpus >= 2 {
        Note
    } else {
        Bad
    };
    rows.push(row("cpu", "CPUs", &value, verdict, meaning, "use a machine with at least four CPUs"));
    let meaning = "two CPUs of one core slow each other down; load and service must not share a core";
    let verdict = if topology.smt() { Note } else { Good };
    let remedy = "echo off > /sys/devices/system/cpu/smt/control, or leave placement to Tare";
    rows.push(row("cpu", "SMT", on_off(topology.smt()), verdict, meaning, remedy));
    if topology.nodes.len() > 1 {
        let meaning = "memory of another node is slower; keep a service within one node";
        let value = topology.nodes.len().to_string();
        rows.push(row("cpu", "NUMA nodes", &value, Note, meaning, "give services no more CPUs than one node has"));
    }
    let meaning = "if the clock follows the load, forms differ by how steadily they load a CPU";
    match governor(root) {
        Some(governor) => {
            let verdict = if governor == "performance" { Good } else { Note };
            let remedy = "cpupower frequency-set -g performance";
            rows.push(row("cpu", "governor", &governor, verdict, meaning, remedy));
        }
        None => rows.push(row("cpu", "governor", "not visible", Note, meaning, "set it on the host of this machine")),
    }
    if let Some(on) = turbo(root) {
        let meaning = "the clock depends on temperature and on how many CPUs are busy";
        let remedy = "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > \
                      /sys/devices/system/cpu/cpufreq/boost";
        rows.push(row("cpu", "turbo", on_off(on), if on { Note } else { Good }, meaning, remedy));
    }
    if let Some(state) = mitigations(root) {
        let meaning = "they make system calls and VM exits more expensive; a guest's kernel may choose others";
        rows.push(row("cpu", "mitigations", &state, Good, meaning, ""));
    }
    let kind = virtualisation(root);
    let verdict = if kind == "none seen" { Good } else { Note };
    let meaning = "a guest shares its hardware with others, and its own guests are nested";
    rows.push(row("cpu", "virtualisation", &kind, verdict, meaning, "measure on bare metal for figures to publish"));
    steal(root, rows);
}

fn steal(root: &Root, rows: &mut Vec<DoctorCheck>) {
    let Some(text) = root.text("proc/stat") else { return };
    let line = text.lines().next().unwrap_or_default();
    let times: Vec<f64> = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).take(8).collect();
    if let (Some(steal), all @ 1.0..) = (times.get(7), times.iter().sum::<f64>()) {
        let share = steal / all * 100.0;
        let verdict = if share < 0.5 {
            Good
        } else if share < 2.0 {
            Note
        } else {
            Bad
        };
        let meaning = "the share of time since boot in which the hypervisor ran something else";
        let remedy = "use a machine with dedicated CPUs";
        rows.push(row("cpu", "steal", &format!("{share:.2} %"), verdict, meaning, remedy));
    }
}

fn memory(root: &Root, rows: &mut Vec<DoctorCheck>) {
    if let (Some(total), Some(available)) = (meminfo(root, "MemTotal"), meminfo(root, "MemAvailable")) {
        let verdict = match available >> 20 {
            0..1024 => Bad,
            1024..4096 => Note,
            _ => Good,
        };
        let value = format!("{} of {} available", show_bytes(available), show_bytes(total));
        let meaning = "a guest takes all of its memory, in addition to the page cache of bundles";
        rows.push(row(
            "memory",
            "memory",
            &value,
            verdict,
            meaning,
            "stop other programs or add memory: 4 GiB are ample",
        ));
    }
    if let Some(mode) = chosen(root, "sys/kernel/mm/transparent_hugepage/enabled") {
        let verdict = if mode == "always" { Note } else { Good };
        let meaning = "huge pages that a service did not ask for change its latency in some forms and not in others";
        let remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
        rows.push(row("memory", "transparent huge pages", &mode, verdict, meaning, remedy));
    }
    if let Some(swap) = meminfo(root, "SwapTotal") {
        let verdict = if swap == 0 { Good } else { Note };
        let value = if swap == 0 { "none".to_owned() } else { show_bytes(swap) };
        rows.push(row(
            "memory",
            "swap",
            &value,
            verdict,
            "if a service is swapped out, the disk is measured",
            "swapoff -a",
        ));
    }
}

fn kernel(root: &Root, rows: &mut Vec<DoctorCheck>) {
    if let Some(version) = cgroup_version(root) {
        let (verdict, meaning) = match version {
            "none" => (Bad, "without control groups neither CPU nor memory can be limited"),
            "v2" => (Good, "limits, throttling and pressure of each service can be read"),
            _ => (Note, "limits work; pressure by service needs version 2"),
        };
        let remedy = "boot with systemd.unified_cgroup_hierarchy=1";
        rows.push(row("kernel", "cgroups", version, verdict, meaning, remedy));
    }
    if let Some(clock) = root.text("sys/devices/system/clocksource/clocksource0/current_clocksource") {
        let fast = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
        let verdict = if fast.contains(&clock.as_str()) { Good } else { Bad };
        let meaning = "every request reads the clock; if that takes a system call, it costs a microsecond each time";
        rows.push(row(
            "kernel",
            "clock",
            &clock,
            verdict,
            meaning,
            "boot with tsc=reliable if the CPU's time-stamp counter is stable",
        ));
    }
}

fn network(root: &Root, rows: &mut Vec<DoctorCheck>) {
    // Nothing needs to be changed, whether it is on or off.
    let (value, verdict) = match root.number("proc/sys/net/ipv4/ip_forward") {
        Some(0) => ("off; switched on for a run's own links while it runs", Good),
        Some(_) => ("on", Good),
        None => ("unknown", Note),
    };
    let meaning = "requests from the generator's own network pass through this machine to guests and containers: Tare \
                   forwards packets of its own links during a run, a container engine those to published ports";
    rows.push(row("network", "IPv4 forwarding", value, verdict, meaning, ""));
    match (
        root.number("proc/sys/net/netfilter/nf_conntrack_max"),
        root.number("proc/sys/net/netfilter/nf_conntrack_count"),
    ) {
        (Some(most), Some(now)) => {
            let verdict = if now * 2 < most { Good } else { Bad };
            let meaning = "a full table drops connections to published ports";
            let remedy = "sysctl -w net.netfilter.nf_conntrack_max=1048576";
            rows.push(row("network", "connection tracking", &format!("{now} of {most}"), verdict, meaning, remedy));
        }
        _ => {
            let meaning = "published ports need address translation, which tracks connections";
            let remedy = "modprobe nf_conntrack, or start the container engine, which loads it";
            rows.push(row("network", "connection tracking", "not loaded", Note, meaning, remedy));
        }
    }
}

fn telemetry(root: &Root, rows: &mut Vec<DoctorCheck>) {
    for source in SOURCES.iter().filter(|source| !source.metrics.is_empty()) {
        match (source.probe)(root) {
            SourceState::Ready => rows.push(row(TELEMETRY, source.name, "ready", Good, source.about, "")),
            SourceState::Unavailable { why, how_to_check } => {
                rows.push(row(TELEMETRY, source.name, "unavailable", Note, &why, &format!("check: {how_to_check}")));
            }
        }
    }
    let waits = root.text("proc/self/schedstat").or_else(|| root.text("proc/1/schedstat"));
    let (value, verdict) = if waits.is_some() { ("kept", Good) } else { ("not kept", Note) };
    let meaning = "the time that threads wait for a CPU explains latency that CPU time does not";
    rows.push(row(TELEMETRY, "run-queue waits", value, verdict, meaning, "use a kernel with CONFIG_SCHED_INFO"));
    let pressure = root.has("proc/pressure/cpu");
    let (value, verdict) = if pressure { ("on", Good) } else { ("off", Note) };
    let meaning = "the time in which work stalled for lack of CPU, memory or disk";
    rows.push(row(TELEMETRY, "pressure (PSI)", value, verdict, meaning, "boot with psi=1"));
    if let Some(level) = root.text("proc/sys/kernel/perf_event_paranoid") {
        let open = level.parse::<i64>().is_ok_and(|level| level <= 1);
        let meaning = "at 1 or below, programs without root may count cycles and cache misses";
        let remedy = "sysctl -w kernel.perf_event_paranoid=1";
        rows.push(row(TELEMETRY, "perf_event_paranoid", &level, if open { Good } else { Note }, meaning, remedy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_still_to_be_made_has_the_room_of_the_one_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let (there, to_come) = (disk_check(folder.path()), disk_check(&folder.path().join("not/made/yet")));
        assert_eq!(there.verdict, to_come.verdict);
        assert!(to_come.value.ends_with("not/made/yet") && !to_come.value.contains("unknown"), "{to_come:?}");
        assert!(!disk_check(Path::new("relative/and/not/made")).value.contains("unknown"));
    }

    #[test]
    fn nobody_is_told_to_have_the_whole_machine_forward() {
        let keep = tempfile::tempdir().unwrap();
        let root = Root::at(keep.path());
        let forwarding = || {
            let row = checks_at(&root).into_iter().find(|check| check.name == "IPv4 forwarding").unwrap();
            assert_eq!(row.remedy, "");
            (row.value, row.verdict)
        };
        assert_eq!(forwarding(), ("unknown".to_owned(), Note));
        for (state, value) in [("0\n", "off; switched on for a run's own links"), ("1\n", "on")] {
            tare_testkit::files::write(&keep.path().join("proc/sys/net/ipv4/ip_forward"), state);
            let (said, verdict) = forwarding();
            assert!(said.starts_with(value) && verdict == Good, "{said}");
        }
    }

    #[test]
    fn the_profiler_says_what_it_can_see_and_why_not_the_rest() {
        let checks = profiler_checks();
        let names: Vec<&str> = checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, [CALL_STACKS, SYSTEM_CALLS]);
        for check in checks {
            assert_eq!(check.value == "yes", check.remedy.is_empty(), "{check:?}");
            assert!(!check.meaning.is_empty(), "{check:?}");
        }
    }
}
