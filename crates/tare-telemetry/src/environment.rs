//! The description of the machine in the header of a record. It leaves out what identifies its owner: host name,
//! addresses, serial numbers, users, the kernel's command line.

use crate::SOURCES;
use crate::accounting::accounting;
use crate::root::Root;
use crate::source::SourceState;
use crate::topology::topology_at;
use std::path::Path;
use tare_core::host::Facts;
use tare_core::record::NOT_COUNTED;
use tare_core::units::show_bytes;

/// The facts about this machine. What cannot be read is absent.
pub fn environment() -> Facts {
    environment_at(&Root::machine())
}

/// The facts about the machine whose files are below `root`.
pub fn environment_at(root: &Root) -> Facts {
    let topology = topology_at(root);
    let mut facts = Facts::new();
    let mut fact = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(key.to_owned(), value);
        }
    };
    fact("os", os_name(root));
    fact("kernel", root.text("proc/sys/kernel/osrelease"));
    fact("architecture", Some(std::env::consts::ARCH.to_owned()));
    fact("cpu.model", cpu_model(root));
    let counted = |count: usize| (count > 0).then(|| count.to_string());
    fact("cpu.logical", counted(topology.cpus.len()));
    if root.has("sys/devices/system/cpu") {
        fact("cpu.cores", counted(topology.cores().len()));
        fact("cpu.packages", counted(topology.packages()));
        fact("cpu.smt", Some(if topology.smt() { "on" } else { "off" }.to_owned()));
        fact("cpu.numa_nodes", counted(topology.nodes.len()));
        fact("cpu.last_level_caches", counted(topology.last_level().len()));
        fact("cpu.offline", Some(topology.offline.to_string()));
    }
    for (name, value) in accounting(root) {
        fact(name, Some(value));
    }
    fact("cpu.isolated", root.text("sys/devices/system/cpu/isolated"));
    fact("cpu.governor", governor(root));
    fact("cpu.frequency_driver", root.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"));
    fact("cpu.turbo", turbo(root).map(|on| if on { "on" } else { "off" }.to_owned()));
    fact("cpu.mitigations", mitigations(root));
    fact("memory.total", meminfo(root, "MemTotal").map(show_bytes));
    fact("memory.swap", meminfo(root, "SwapTotal").map(show_bytes));
    fact("memory.thp", chosen(root, "sys/kernel/mm/transparent_hugepage/enabled"));
    fact("memory.huge_pages", root.text("proc/sys/vm/nr_hugepages"));
    fact("virtualisation", Some(virtualisation(root)));
    fact("cgroup.version", cgroup_version(root).map(str::to_owned));
    fact("clocksource", root.text("sys/devices/system/clocksource/clocksource0/current_clocksource"));
    let uptime = root.text("proc/uptime").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    fact("uptime_s", uptime.map(|seconds| format!("{seconds:.0}")));
    let load = root.text("proc/loadavg");
    fact("load_average", load.map(|text| text.split(' ').take(3).collect::<Vec<_>>().join(" ")));
    for source in SOURCES {
        if let SourceState::Unavailable { why, how_to_check } = (source.probe)(root) {
            fact(&format!("{NOT_COUNTED}{}", source.name), Some(format!("{why}; see {how_to_check}")));
        }
    }
    facts
}

fn os_name(root: &Root) -> Option<String> {
    let text = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"))?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

/// The CPUs' model name. Arm kernels only give numbers.
pub(crate) fn cpu_model(root: &Root) -> Option<String> {
    if let Some(model) = cpuinfo(root, "model name") {
        return Some(model);
    }
    let (implementer, part) = (cpuinfo(root, "CPU implementer")?, cpuinfo(root, "CPU part")?);
    Some(format!("Arm implementer {implementer} part {part}"))
}

/// A value from `/proc/cpuinfo`, of the first CPU.
pub(crate) fn cpuinfo(root: &Root, key: &str) -> Option<String> {
    let text = root.text("proc/cpuinfo")?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

/// A value from `/proc/meminfo`, bytes.
pub(crate) fn meminfo(root: &Root, key: &str) -> Option<u64> {
    let text = root.text("proc/meminfo")?;
    crate::scan::keyed(text.as_bytes(), key).map(|kibibytes| kibibytes * 1024)
}

/// The choice in brackets in a file such as `always [madvise] never`.
pub(crate) fn chosen(root: &Root, path: impl AsRef<Path>) -> Option<String> {
    let text = root.text(path)?;
    let inner = text.split('[').nth(1)?.split(']').next()?;
    Some(inner.to_owned())
}

/// The governors in use, each once.
pub(crate) fn governor(root: &Root) -> Option<String> {
    let policies = root.names("sys/devices/system/cpu/cpufreq");
    let read = |policy: &String| root.text(format!("sys/devices/system/cpu/cpufreq/{policy}/scaling_governor"));
    let mut governors: Vec<String> = policies.iter().filter_map(read).collect();
    governors.sort_unstable();
    governors.dedup();
    (!governors.is_empty()).then(|| governors.join(", "))
}

/// Whether the CPUs may run faster than their base clock.
pub(crate) fn turbo(root: &Root) -> Option<bool> {
    let no_turbo = root.number("sys/devices/system/cpu/intel_pstate/no_turbo").map(|no| no == 0);
    no_turbo.or_else(|| root.number("sys/devices/system/cpu/cpufreq/boost").map(|yes| yes != 0))
}

/// The state of the mitigations of CPU vulnerabilities, in words.
pub(crate) fn mitigations(root: &Root) -> Option<String> {
    let directory = "sys/devices/system/cpu/vulnerabilities";
    let (mut unaffected, mut mitigated, mut vulnerable) = (0, 0, Vec::new());
    for name in root.names(directory) {
        match root.text(format!("{directory}/{name}"))?.to_ascii_lowercase() {
            state if state.starts_with("not affected") => unaffected += 1,
            state if state.starts_with("vulnerable") => vulnerable.push(name),
            _ => mitigated += 1,
        }
    }
    if unaffected + mitigated + vulnerable.len() == 0 {
        return None;
    }
    let open = if vulnerable.is_empty() { "none open".to_owned() } else { format!("open: {}", vulnerable.join(", ")) };
    Some(format!("{mitigated} mitigated, {unaffected} not affected, {open}"))
}

/// The hypervisor under this machine; "none seen" is all that can be said of bare metal.
pub(crate) fn virtualisation(root: &Root) -> String {
    let dmi = |name: &str| root.text(format!("sys/class/dmi/id/{name}")).filter(|text| !text.is_empty());
    let under = cpuinfo(root, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let kind = root.text("sys/hypervisor/type");
    let product = [dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    match (under, kind) {
        (_, Some(kind)) => format!("a guest of {kind}"),
        (true, None) if product.is_empty() => "a guest of an unnamed hypervisor".to_owned(),
        (true, None) => format!("a guest: {product}"),
        (false, None) => "none seen".to_owned(),
    }
}

/// The cgroup versions that are mounted.
pub(crate) fn cgroup_version(root: &Root) -> Option<&'static str> {
    let mounts = root.text("proc/mounts").or_else(|| root.text("proc/self/mounts"))?;
    let kinds: Vec<&str> = mounts.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    Some(match (kinds.contains(&"cgroup"), kinds.contains(&"cgroup2")) {
        (true, true) => "v1 with a v2 tree beside it (hybrid)",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    })
}
