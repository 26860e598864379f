//! Reads the CPUs and what they share from `/sys/devices/system`.

use crate::root::Root;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::topology::{Cache, Cpu, Device, DeviceKind, Topology};
use tare_core::units::{CpuSet, parse_bytes};

/// The topology of this machine; empty if neither `/sys` nor `/proc` can be read.
pub fn topology() -> Topology {
    topology_at(&Root::machine())
}

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";
const NETWORK: &str = "sys/class/net";
const DISKS: &str = "sys/block";

/// The topology of the machine whose files are below `root`.
pub fn topology_at(root: &Root) -> Topology {
    let numbered = |directory: &str, prefix: &str| -> Vec<u32> {
        let names = root.names(directory);
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    };
    let mut nodes = BTreeMap::new();
    for node in numbered(NODES, "node") {
        let cpus = root.text(format!("{NODES}/node{node}/cpulist")).and_then(|text| CpuSet::parse(&text).ok());
        if let Some(cpus) = cpus.filter(|cpus| !cpus.is_empty()) {
            nodes.insert(node, cpus);
        }
    }
    let present = numbered(CPUS, "cpu");
    let online = root.text(format!("{CPUS}/online")).and_then(|text| CpuSet::parse(&text).ok());
    let is_online = |cpu: &u32| match &online {
        Some(online) => online.cpus().contains(cpu),
        None => root.has(format!("{CPUS}/cpu{cpu}/topology")),
    };
    let (online, offline): (Vec<u32>, Vec<u32>) = present.into_iter().partition(is_online);
    let cpus: Vec<Cpu> = online.iter().map(|cpu| read_cpu(root, *cpu, &nodes)).collect();
    let caches: BTreeSet<Cache> = online.iter().flat_map(|cpu| read_caches(root, *cpu)).collect();
    let devices = read_devices(root);
    if cpus.is_empty() {
        return Topology { cpus: from_cpuinfo(root), devices, ..Topology::default() };
    }
    Topology { cpus, offline: CpuSet::new(offline), nodes, caches: caches.into_iter().collect(), devices }
}

/// Devices on a bus: virtual links, bridges and loop devices have no device below them.
fn read_devices(root: &Root) -> Vec<Device> {
    let of = |kind, directory: &'static str| {
        let names =
            root.names(directory).into_iter().filter(move |name| root.has(format!("{directory}/{name}/device")));
        names.map(move |name| {
            // -1 where the firmware does not say. A virtio device's own place is that of the bus device above it.
            let at = ["device/numa_node", "device/../numa_node"];
            let node = at.iter().find_map(|at| root.text(format!("{directory}/{name}/{at}")));
            Device { kind, name, node: node.and_then(|text| text.parse().ok()) }
        })
    };
    let mut devices: Vec<Device> = of(DeviceKind::Network, NETWORK).chain(of(DeviceKind::Disk, DISKS)).collect();
    devices.sort();
    devices
}

fn read_cpu(root: &Root, cpu: u32, nodes: &BTreeMap<u32, CpuSet>) -> Cpu {
    let text = |name: &str| root.text(format!("{CPUS}/cpu{cpu}/topology/{name}"));
    let number = |name: &str| text(name).and_then(|text| text.parse().ok());
    // Kernels before 5.3 know the older name only.
    let siblings = text("core_cpus_list").or_else(|| text("thread_siblings_list"));
    let siblings = siblings.and_then(|text| CpuSet::parse(&text).ok()).filter(|set| set.cpus().contains(&cpu));
    Cpu {
        cpu,
        package: number("physical_package_id").unwrap_or(-1),
        die: number("die_id").unwrap_or(-1),
        core: number("core_id").unwrap_or(i64::from(cpu)),
        siblings: siblings.unwrap_or_else(|| CpuSet::new([cpu])),
        node: nodes.iter().find(|(_, cpus)| cpus.cpus().contains(&cpu)).map(|(node, _)| *node),
        capacity: root.number(format!("{CPUS}/cpu{cpu}/cpu_capacity")),
    }
}

fn read_caches(root: &Root, cpu: u32) -> Vec<Cache> {
    let directory = format!("{CPUS}/cpu{cpu}/cache");
    let indexes = root.names(&directory).into_iter().filter(|name| name.starts_with("index"));
    indexes
        .filter_map(|index| {
            let text = |name: &str| root.text(format!("{directory}/{index}/{name}"));
            Some(Cache {
                level: text("level")?.parse().ok()?,
                kind: text("type")?,
                bytes: parse_bytes(&text("size")?).ok()?,
                cpus: CpuSet::parse(&text("shared_cpu_list")?).ok()?.to_string(),
            })
        })
        .collect()
}

/// Where `/sys` is not mounted: the CPUs that `/proc/cpuinfo` lists, each as a core of its own.
fn from_cpuinfo(root: &Root) -> Vec<Cpu> {
    let text = root.text("proc/cpuinfo").unwrap_or_default();
    let numbers =
        text.lines().filter_map(|line| line.strip_prefix("processor")?.split(':').nth(1)?.trim().parse().ok());
    numbers.map(Cpu::bare).collect()
}
