//! Which CPUs there are and what they share, from `/sys/devices/system`.

use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tare_core::units::{CpuSet, parse_bytes};

/// The machine's CPUs and what they share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Topology {
    /// CPUs that are online, ascending.
    pub cpus: Vec<Cpu>,
    /// CPUs that are there but offline.
    pub offline: CpuSet,
    /// NUMA nodes that have CPUs, by number. Empty when the kernel knows no nodes.
    pub nodes: BTreeMap<u32, CpuSet>,
    /// Caches, each once, by level, then by their CPUs.
    pub caches: Vec<Cache>,
}

/// A logical CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Its package (socket); -1 where the firmware tells none, as on some Arm machines.
    pub package: i64,
    /// Its die within the package.
    pub die: i64,
    /// Its core within the package, as the firmware numbers it: numbers may have gaps.
    pub core: i64,
    /// The CPUs that share its core, itself included.
    pub siblings: CpuSet,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// The relative capacity that the scheduler assumes, of 1024; differs where cores differ.
    pub capacity: Option<u64>,
}

/// A cache and who shares it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3 ...
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// In the kernel's notation: the CPUs that share it.
    pub cpus: String,
}

impl Topology {
    /// How many packages there are.
    pub fn packages(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.package).collect::<BTreeSet<_>>().len()
    }

    /// The CPUs of each core, ascending by their first CPU.
    pub fn cores(&self) -> Vec<CpuSet> {
        let mut cores: Vec<CpuSet> = Vec::new();
        for cpu in &self.cpus {
            if !cores.contains(&cpu.siblings) {
                cores.push(cpu.siblings.clone());
            }
        }
        cores
    }

    /// Whether any core runs more than one CPU.
    pub fn smt(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.siblings.len() > 1)
    }

    /// The sets of CPUs that share a cache of the outermost level: on many AMD machines more than one to a package.
    pub fn last_level(&self) -> Vec<CpuSet> {
        let outermost = self.caches.iter().map(|cache| cache.level).max();
        let caches = self.caches.iter().filter(|cache| Some(cache.level) == outermost && cache.kind != "Instruction");
        let mut sets: Vec<CpuSet> = caches.filter_map(|cache| CpuSet::parse(&cache.cpus).ok()).collect();
        sets.sort_by(|a, b| a.cpus().cmp(b.cpus()));
        sets
    }
}

/// The topology of this machine; empty where neither `/sys` nor `/proc` can be read.
pub fn topology() -> Topology {
    topology_at(&Root::machine())
}

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// The topology that a tree tells of.
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
    if cpus.is_empty() {
        return Topology { cpus: from_cpuinfo(root), ..Topology::default() };
    }
    Topology { cpus, offline: CpuSet::new(offline), nodes, caches: caches.into_iter().collect() }
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
    numbers
        .map(|cpu: u32| Cpu {
            cpu,
            package: -1,
            die: -1,
            core: i64::from(cpu),
            siblings: CpuSet::new([cpu]),
            node: None,
            capacity: None,
        })
        .collect()
}
