//! The resource probe: reports the resources of its own process. It is started in each form as the service is, and its
//! reports are compared between forms before anything is measured.

pub(crate) mod costs;
mod limits;

use crate::away::affinity;
use crate::environment::{chosen, cpu_model, cpuinfo, meminfo};
use crate::root::Root;
use limits::Limit;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tare_core::host::{Property, ResourceReport};
use tare_core::units::{CpuSet, show_bytes};

/// The resources of this process. Needs no privileges, no `/proc` and no `/sys`: what cannot be read is absent. Takes
/// less than a second on real hardware.
pub fn resource_report() -> ResourceReport {
    let current = std::env::current_dir().ok();
    let mut directories: Vec<PathBuf> = current.into_iter().collect();
    directories.extend(["/data", "/tmp"].map(PathBuf::from));
    resource_report_at(&Root::machine(), &directories)
}

/// The resources of this process, read from the files below `root`, with the cost of an fsync in the directories that
/// are writable.
pub fn resource_report_at(root: &Root, directories: &[PathBuf]) -> ResourceReport {
    let mut report = Properties::default();
    cpus(root, &mut report);
    memory(root, &mut report);
    network_and_files(root, &mut report);
    kernel(root, &mut report);
    rights(root, &mut report);
    for directory in costs::one_of_each(directories) {
        if let Some(us) = costs::fsync_us(directory) {
            let name = format!("fsync_us:{}", directory.display());
            report.number(&name, format!("{us:.0} us"), us, 1.0, false);
        }
    }
    ResourceReport { properties: report.0 }
}

/// CPU features by which libraries choose their code: a form that hides one runs other code.
const NOTABLE_FLAGS: &[&str] = &[
    "sse4_2", "avx", "avx2", "avx512f", "aes", "sha_ni", "bmi2", "erms", "fsrm", "rdrand", "invpcid", "pcid", "asimd",
    "atomics", "sve", "sha2", "crc32",
];

#[derive(Default)]
struct Properties(BTreeMap<String, Property>);

impl Properties {
    fn text(&mut self, name: &str, value: Option<String>, matters: bool) {
        if let Some(value) = value {
            let property = Property { value, number: None, tolerance: 0.0, matters };
            self.0.insert(name.to_owned(), property);
        }
    }

    fn number(&mut self, name: &str, value: String, number: f64, tolerance: f64, matters: bool) {
        // An infinite limit has no number; its text is compared.
        let number = number.is_finite().then_some(number);
        self.0.insert(name.to_owned(), Property { value, number, tolerance, matters });
    }

    fn exact(&mut self, name: &str, number: Option<u64>, matters: bool) {
        if let Some(number) = number {
            self.number(name, number.to_string(), number as f64, 0.0, matters);
        }
    }
}

fn cpus(root: &Root, report: &mut Properties) {
    let allowed = affinity(None).map(CpuSet::new);
    // For machines with more CPUs than the call above can report.
    let allowed = allowed.or_else(|| CpuSet::parse(&status(root, "Cpus_allowed_list")?).ok());
    if let Some(allowed) = &allowed {
        report.exact("cpus", Some(allowed.len() as u64), true);
        report.text("cpu_numbers", Some(allowed.to_string()), false);
    }
    match limits::cpu_quota(root) {
        Limit::At(quota) => report.number("cpu_quota", format!("{quota:.2} CPUs"), quota, 0.01, false),
        Limit::None => report.text("cpu_quota", Some("none".to_owned()), false),
        Limit::Hidden => {}
    }
    let rate = costs::best_spin() / 1e6;
    report.number("spin_rate", format!("{rate:.0} million steps/s"), rate, 0.10, true);
    let call = costs::system_call_ns();
    report.number("system_call_ns", format!("{call:.0} ns"), call, 1.0, false);
    report.text("cpu_model", cpu_model(root), false);
    let flags = cpuinfo(root, "flags").or_else(|| cpuinfo(root, "Features"));
    let flags = flags.map(|flags| {
        let has = |notable: &&&str| flags.split(' ').any(|flag| flag == **notable);
        NOTABLE_FLAGS.iter().filter(has).copied().collect::<Vec<_>>().join(" ")
    });
    report.text("cpu_flags", flags, true);
    let nodes = crate::topology::topology_at(root).nodes.len() as u64;
    report.exact("numa_nodes", (nodes > 0).then_some(nodes), false);
}

fn memory(root: &Root, report: &mut Properties) {
    let total = meminfo(root, "MemTotal");
    let limit = match limits::memory(root) {
        Limit::At(bytes) => Some(total.map_or(bytes as u64, |total| total.min(bytes as u64))),
        Limit::None => total,
        Limit::Hidden => None,
    };
    if let Some(bytes) = limit {
        // A guest's memory also holds its kernel, and perhaps a container engine; what is added for them is an
        // estimate.
        report.number("memory_limit_bytes", show_bytes(bytes), bytes as f64, 0.6, true);
    }
    if let Some(bytes) = total {
        report.number("memory_total_bytes", show_bytes(bytes), bytes as f64, 0.0, false);
    }
    report.exact("page_size", Some(rustix::param::page_size() as u64), true);
    report.text("transparent_huge_pages", chosen(root, "sys/kernel/mm/transparent_hugepage/enabled"), true);
    report.exact("huge_pages", root.number("proc/sys/vm/nr_hugepages"), false);
    report.exact("overcommit_memory", root.number("proc/sys/vm/overcommit_memory"), false);
    report.exact("swappiness", root.number("proc/sys/vm/swappiness"), false);
}

fn network_and_files(root: &Root, report: &mut Properties) {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    for (name, limit, matters) in [("open_files", files.current, true), ("open_files_hard", files.maximum, false)] {
        match limit {
            Some(_) => report.exact(name, limit, matters),
            None => report.text(name, Some("unlimited".to_owned()), matters),
        }
    }
    report.exact("somaxconn", root.number("proc/sys/net/core/somaxconn"), true);
    let spaced = |path: &str| root.text(path).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    // The kernel derives the greatest of the three from the machine's memory.
    report.text("tcp_rmem", spaced("proc/sys/net/ipv4/tcp_rmem"), false);
    report.text("tcp_wmem", spaced("proc/sys/net/ipv4/tcp_wmem"), false);
    report.exact("tcp_max_syn_backlog", root.number("proc/sys/net/ipv4/tcp_max_syn_backlog"), false);
    report.text("tcp_congestion_control", root.text("proc/sys/net/ipv4/tcp_congestion_control"), false);
}

fn kernel(root: &Root, report: &mut Properties) {
    report.text("kernel", root.text("proc/sys/kernel/osrelease"), false);
    let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    report.text("clocksource", root.text(clock), true);
    report.text("virtualisation", root.has("proc/cpuinfo").then(|| crate::environment::virtualisation(root)), false);
    report.text("mitigations", crate::environment::mitigations(root), false);
}

fn rights(root: &Root, report: &mut Properties) {
    let user = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    report.text("user", Some(format!("{}:{}", user.0, user.1)), false);
    report.text("capabilities", status(root, "CapEff"), false);
    let mode = status(root, "Seccomp").map(|mode| match mode.as_str() {
        "0" => "none".to_owned(),
        "1" => "strict".to_owned(),
        "2" => format!("{} filters", status(root, "Seccomp_filters").unwrap_or_else(|| "some".to_owned())),
        other => other.to_owned(),
    });
    report.text("seccomp", mode, false);
    report.text("no_new_privileges", status(root, "NoNewPrivs"), false);
}

/// A value of `/proc/self/status`.
fn status(root: &Root, key: &str) -> Option<String> {
    let text = root.text("proc/self/status")?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.trim().to_owned()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_told_of_and_its_numbers_are_finite() {
        let report = resource_report();
        let cpus = report.properties["cpus"].number.unwrap();
        assert!(cpus >= 1.0 && cpus <= std::thread::available_parallelism().unwrap().get() as f64 * 64.0);
        for name in ["spin_rate", "page_size", "open_files", "user"] {
            assert!(report.properties.contains_key(name), "{name} is missing");
        }
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<ResourceReport>(&text).unwrap().properties.len(), report.properties.len());
    }

    #[test]
    fn without_proc_and_sys_what_the_kernel_says_itself_is_left() {
        let empty = tempfile::tempdir().unwrap();
        let report = resource_report_at(&Root::at(empty.path()), &[empty.path().to_path_buf()]);
        assert!(report.properties.contains_key("cpus"));
        assert!(!report.properties.contains_key("memory_limit_bytes"));
        assert!(report.properties.keys().any(|name| name.starts_with("fsync_us:")));
        assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "the fsync test left a file");
    }
}
