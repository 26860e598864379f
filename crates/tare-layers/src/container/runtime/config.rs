//! How a container is described to a runtime: `config.json` of the OCI runtime specification 1.0.2, a pure function of
//! the service, the options and what this machine has.

use super::super::options::{ContainerOptions, Limits, Namespaces};
use super::super::spec::{QUOTA_PERIOD_US, cpu_quota, nodes};
use crate::local::accounts::environment;
use crate::local::confinement::BOUNDS;
use crate::local::root::PROGRAM_INSIDE;
use crate::local::volumes::VolumeFolder;
use crate::local::{CORE_BYTES, PROCESSES};
use serde_json::{Value, json};
use std::path::Path;
use tare_core::host::ServiceStart;
use tare_core::units::CpuSet;

/// The version of the specification that all of this follows.
const VERSION: &str = "1.0.2";
/// The kernel's capability names, by number, as of Linux 6.0.
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What a container is made from.
pub(super) struct Order<'a> {
    /// The layer's options.
    pub(super) options: ContainerOptions,
    /// The service.
    pub(super) start: &'a ServiceStart,
    /// The home of the service's user.
    pub(super) home: &'a str,
    /// Where the root file system is mounted.
    pub(super) root: &'a Path,
    /// The volumes.
    pub(super) volumes: &'a [VolumeFolder],
    /// The program that runs in the service's place to report what it gets, if any.
    pub(super) probe: Option<&'a Path>,
    /// The container's group, relative to the root of each hierarchy.
    pub(super) group: &'a Path,
    /// The CPUs that it may run on; `None` if the host itself is already confined.
    pub(super) cpus: Option<&'a CpuSet>,
    /// The open files that it may have.
    pub(super) open_files: u64,
    /// What this machine has.
    pub(super) machine: HostFacts,
}

/// The properties of a machine that decide how a container is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostFacts {
    /// Whether a limit on memory and swap together can be set.
    pub(super) limits_swap: bool,
    /// Whether cgroups are version 2; engines then give a container a cgroup namespace.
    pub(super) unified: bool,
    /// The capabilities that this process may pass on, one bit each.
    pub(super) capabilities: u64,
}

impl HostFacts {
    /// This machine.
    pub(super) fn this() -> HostFacts {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bounds = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
        let capabilities = bounds.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
        let hierarchies = crate::cgroup::hierarchies::hierarchies().unwrap_or_default();
        let has_memory = |name: &String| name == "memory";
        let first = hierarchies.iter().find(|h| h.controllers.as_ref().is_some_and(|c| c.iter().any(has_memory)));
        // Version 2 has no such limit, and a runtime translates it to "no swap".
        let limits_swap = first.is_none_or(|h| h.root.join("memory.memsw.limit_in_bytes").exists());
        HostFacts { limits_swap, unified: first.is_none(), capabilities }
    }
}

/// The whole of `config.json`.
pub(super) fn config(order: &Order) -> Value {
    let kinds: &[&str] = match (order.options.namespaces, order.machine.unified) {
        (Namespaces::Own, true) => &["mount", "pid", "ipc", "uts", "cgroup"],
        (Namespaces::Own, false) => &["mount", "pid", "ipc", "uts"],
        (Namespaces::Host, _) => &[],
    };
    let namespaces: Vec<Value> = kinds.iter().map(|kind| json!({ "type": kind })).collect();
    json!({
        "ociVersion": VERSION,
        "root": { "path": order.root, "readonly": order.options.read_only },
        "process": process(order),
        "mounts": mounts(order),
        "linux": {
            "cgroupsPath": Path::new("/").join(order.group),
            "namespaces": namespaces,
            "resources": resources(order),
        },
    })
}

/// The process that a container begins with.
pub(super) fn process(order: &Order) -> Value {
    let service = &order.start.service;
    let environment = environment(&service.environment, order.home);
    let command = match order.probe {
        Some(_) => vec![PROGRAM_INSIDE.to_owned(), "resources".to_owned()],
        None => service.command.clone(),
    };
    let all = capabilities(order.machine.capabilities);
    json!({
        "terminal": false,
        "user": { "uid": service.user.0, "gid": service.user.1, "umask": 0o022 },
        "args": command,
        "env": environment.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>(),
        "cwd": service.directory.as_deref().unwrap_or("/"),
        "capabilities": { "bounding": all, "effective": all, "permitted": all },
        "rlimits": [
            { "type": "RLIMIT_NOFILE", "soft": order.open_files, "hard": order.open_files },
            { "type": "RLIMIT_NPROC", "soft": PROCESSES, "hard": PROCESSES },
            { "type": "RLIMIT_CORE", "soft": CORE_BYTES, "hard": CORE_BYTES },
        ],
        "noNewPrivileges": true,
    })
}

/// The capabilities of a plain process, of those that this process may pass on; the kernel decides which of them its
/// user may use.
pub(super) fn capabilities(passed: u64) -> Vec<String> {
    let bounds = passed & BOUNDS;
    let held = |(number, _): &(usize, &&str)| bounds & 1 << number != 0;
    CAPABILITIES.iter().enumerate().filter(held).map(|(_, name)| format!("CAP_{name}")).collect()
}

/// The same file systems that a plain process has, see [`crate::local::root`]; /tmp and /run are already in the root.
fn mounts(order: &Order) -> Vec<Value> {
    let mount = |to: &str, kind: &str, options: &[&str]| mounted(to, kind, Path::new(kind), options);
    let bind = |to: &str, from: &Path, options: &[&str]| mounted(to, "bind", from, options);
    let quiet = ["nosuid", "nodev", "noexec"];
    let mut all = vec![mount("/proc", "proc", &quiet)];
    if order.options.namespaces == Namespaces::Own {
        // As engines do: only its own groups are visible.
        all.push(mount("/sys", "sysfs", &["nosuid", "nodev", "noexec", "ro"]));
        all.push(mount("/sys/fs/cgroup", "cgroup", &["nosuid", "nodev", "noexec", "relatime", "ro"]));
    } else {
        all.push(bind("/sys", Path::new("/sys"), &["rbind", "rro"]));
    }
    all.push(mount("/dev", "tmpfs", &["nosuid", "mode=755", "size=64k"]));
    all.push(mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]));
    all.push(mount("/dev/shm", "tmpfs", &["nosuid", "nodev", "noexec", "mode=1777", "size=64m"]));
    // What is shared comes last, so that nothing is mounted in what others may change meanwhile.
    let (shared, own): (Vec<&VolumeFolder>, Vec<&VolumeFolder>) =
        order.volumes.iter().partition(|volume| volume.shared);
    all.extend(own.into_iter().chain(shared).map(|VolumeFolder { inside, folder, read_only, .. }| {
        let access = if *read_only { "ro" } else { "rw" };
        bind(inside, folder, &["rbind", access, "nosuid", "nodev"])
    }));
    all.extend(order.probe.map(|program| bind(PROGRAM_INSIDE, program, &["bind", "ro"])));
    all
}

fn mounted(to: &str, kind: &str, source: &Path, options: &[&str]) -> Value {
    json!({ "destination": to, "type": kind, "source": source, "options": options })
}

fn resources(order: &Order) -> Value {
    let wanted = &order.start.service.resources;
    // The sum of memory and swap: the same figure means no swap.
    let memory = match order.machine.limits_swap {
        true => json!({ "limit": wanted.memory_bytes, "swap": wanted.memory_bytes }),
        false => json!({ "limit": wanted.memory_bytes, "swappiness": 0 }),
    };
    let mut cpu = serde_json::Map::new();
    if let Some(cpus) = cpu_quota(order.options.limits, wanted) {
        cpu.insert("period".to_owned(), json!(QUOTA_PERIOD_US as u64));
        cpu.insert("quota".to_owned(), json!((cpus * QUOTA_PERIOD_US).round() as i64));
    }
    if let Some(cpus) = order.cpus.filter(|_| order.options.limits != Limits::Affinity) {
        cpu.insert("cpus".to_owned(), json!(cpus.to_string()));
    }
    if let Some(nodes) = nodes(&order.start.memory) {
        cpu.insert("mems".to_owned(), json!(nodes));
    }
    // As for a plain process: it may open what is in its /dev, since everything else is mounted without devices.
    json!({ "memory": memory, "cpu": cpu, "devices": [{ "allow": true, "access": "rwm" }] })
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
