//! A machine's CPUs and what they share: sockets, NUMA nodes, cores, caches. Read elsewhere; here it is data.

use crate::units::CpuSet;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Network cards and disks attached to a bus, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
}

/// A network card or a disk, and where it is attached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Device {
    /// Its kind.
    pub kind: DeviceKind,
    /// The kernel's name for it.
    pub name: String,
    /// The NUMA node whose bus it is attached to; none if the firmware does not say.
    pub node: Option<u32>,
}

/// The kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A network card.
    Network,
    /// A disk.
    Disk,
}

impl DeviceKind {
    /// As a word: `network`, `disk`.
    pub fn word(self) -> &'static str {
        match self {
            DeviceKind::Network => "network",
            DeviceKind::Disk => "disk",
        }
    }
}

/// A logical CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Its number.
    pub cpu: u32,
    /// Its package (socket); -1 if the firmware reports none, as on some Arm machines.
    pub package: i64,
    /// Its die within the package.
    pub die: i64,
    /// Its core within the package, as the firmware numbers it: numbers may have gaps.
    pub core: i64,
    /// The CPUs that share its core, itself included.
    pub siblings: CpuSet,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// The relative capacity that the scheduler assumes, out of 1024; differs if cores differ.
    pub capacity: Option<u64>,
}

impl Cpu {
    /// A CPU about which only its number is known: a core of its own, in no package and no node.
    pub fn bare(cpu: u32) -> Cpu {
        let siblings = CpuSet::new([cpu]);
        Cpu { cpu, package: -1, die: -1, core: i64::from(cpu), siblings, node: None, capacity: None }
    }
}

/// A cache and the CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3 ...
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Its size.
    pub bytes: u64,
    /// The CPUs that share it, in the kernel's notation.
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

    /// The sets of CPUs that share a cache of the outermost level: on many AMD machines, more than one per package.
    pub fn last_level(&self) -> Vec<CpuSet> {
        let outermost = self.caches.iter().map(|cache| cache.level).max();
        let caches = self.caches.iter().filter(|cache| Some(cache.level) == outermost && cache.kind != "Instruction");
        let mut sets: Vec<CpuSet> = caches.filter_map(|cache| CpuSet::parse(&cache.cpus).ok()).collect();
        sets.sort_by(|a, b| a.cpus().cmp(b.cpus()));
        sets
    }

    /// The same machine with only these of its CPUs, as seen by a process that may not run on the others.
    pub fn within(&self, cpus: &CpuSet) -> Topology {
        let keep = |set: &CpuSet| CpuSet::new(set.cpus().iter().copied().filter(|cpu| cpus.cpus().contains(cpu)));
        let mut within = self.clone();
        within.cpus.retain(|cpu| cpus.cpus().contains(&cpu.cpu));
        within.cpus.iter_mut().for_each(|cpu| cpu.siblings = keep(&cpu.siblings));
        within.nodes.values_mut().for_each(|set| *set = keep(set));
        within.nodes.retain(|_, set| !set.is_empty());
        for cache in &mut within.caches {
            cache.cpus = CpuSet::parse(&cache.cpus).map_or_else(|_| String::new(), |set| keep(&set).to_string());
        }
        within.caches.retain(|cache| !cache.cpus.is_empty());
        within
    }

    /// The CPU with this number, if it is online.
    pub fn cpu(&self, cpu: u32) -> Option<&Cpu> {
        self.cpus.iter().find(|candidate| candidate.cpu == cpu)
    }

    /// The NUMA nodes of these CPUs, ascending.
    pub fn nodes_of(&self, cpus: &CpuSet) -> Vec<u32> {
        let nodes: BTreeSet<u32> = cpus.cpus().iter().filter_map(|cpu| self.cpu(*cpu)?.node).collect();
        nodes.into_iter().collect()
    }
}
