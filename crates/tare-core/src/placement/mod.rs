//! Which CPUs serve what: a plan made from a machine's topology and what services ask for. It is a pure function, so a
//! description of a machine is enough to plan for it.
//!
//! The same plan is carried out in every form, by affinity, cpuset or pinning a guest's virtual CPUs.

mod ground;
mod model;
mod pack;
mod pick;
mod rank;
#[cfg(test)]
mod recorded;
mod rules;
#[cfg(test)]
mod tests;
mod unmet;

pub use model::{Cost, Demand, cost};
pub use rank::{Candidate, Manner, candidates};
pub use rules::{ReservedCpus, Rule, Rules};
pub use unmet::Unmet;

use crate::topology::Topology;
use crate::units::CpuSet;
use pick::Room;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The rule by which a service gets its CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Any CPU not kept aside; services may share them, and the kernel decides.
    #[default]
    Free,
    /// All CPUs of one NUMA node, with its memory; two services share a node only if there are no others.
    Node,
    /// All CPUs of one package; two services share a package only if there are no others.
    Socket,
    /// As many whole cores as the requested CPUs take; no core serves two services.
    Core,
    /// As many logical CPUs as requested, those of a core together; none serves two services.
    Thread,
    /// Exactly these CPUs.
    Explicit(CpuSet),
}

/// What a service asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The service, by name.
    pub service: String,
    /// How many logical CPUs it is given; a rule that gives whole nodes or packages gives no fewer.
    pub cpus: u32,
    /// The rule.
    pub policy: Policy,
    /// A NUMA node to be near, such as that of a network card or a disk; respected while it has room.
    #[serde(default)]
    pub near: Option<u32>,
}

/// How many CPUs are kept for what is not a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Aside {
    /// For the generator.
    pub generator: u32,
    /// For hypervisor threads that are not virtual CPUs.
    #[serde(default)]
    pub hypervisor: u32,
    /// For interrupts.
    #[serde(default)]
    pub interrupts: u32,
}

/// Where a service runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Its CPUs; for a service that may run anywhere, all that are not kept aside.
    pub cpus: CpuSet,
    /// Whether it may run anywhere: a guest for it then has as many virtual CPUs as it asks for, and none is pinned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
    /// The NUMA nodes that its memory comes from; empty leaves that to the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<u32>,
}

/// Which CPUs serve what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Placement {
    /// By service.
    pub services: BTreeMap<String, Placed>,
    /// The generator's.
    pub generator: CpuSet,
    /// Those of hypervisors' other threads.
    pub hypervisor: CpuSet,
    /// Those of interrupts.
    pub interrupts: CpuSet,
    /// Every CPU not kept aside.
    pub system_under_test: CpuSet,
}

/// Plans where services run on a machine. Services that name their CPUs come first, then those that want whole nodes
/// and packages, whole cores and single CPUs, so that small wishes fit into what large ones leave; equals keep the
/// order of the list. Every set is taken from as few last-level caches and nodes as will do.
///
/// With `over_commit`, services whose wish cannot be met alongside the others' share CPUs with them.
///
/// # Errors
/// Every wish that cannot be met, with the reason and what to do.
pub fn place(topology: &Topology, wanted: &[Wanted], aside: Aside, over_commit: bool) -> Result<Placement, Vec<Unmet>> {
    let mut room = Room::of(topology);
    let mut placement = Placement::default();
    let mut problems = Vec::new();
    // From the far end of the machine, where the first services are not.
    for (what, count, slot) in [
        ("the generator", aside.generator, &mut placement.generator),
        ("interrupts", aside.interrupts, &mut placement.interrupts),
        ("hypervisors' own threads", aside.hypervisor, &mut placement.hypervisor),
    ] {
        match room.keep_aside(count) {
            Some(cpus) => *slot = cpus,
            None => {
                let left = room.left();
                let wish = format!("{count} CPUs are to be kept aside for {what}, and only {left} are left");
                problems.push(Unmet::new(wish, unmet::LESS));
            }
        }
    }
    placement.system_under_test = room.all();
    let mut order: Vec<&Wanted> = wanted.iter().collect();
    order.sort_by_key(|wanted| rank(&wanted.policy));
    for wish in order {
        match room.take(wish, over_commit) {
            Ok(cpus) => {
                let memory = memory_of(topology, wish, &cpus);
                let free = wish.policy == Policy::Free;
                placement.services.insert(wish.service.clone(), Placed { cpus, free, memory });
            }
            Err(why) => problems.push(Unmet::new(format!("service '{}': {why}", wish.service), why.remedy)),
        }
    }
    if problems.is_empty() { Ok(placement) } else { Err(problems) }
}

/// The order of service: the wish with the least choice comes first.
fn rank(policy: &Policy) -> u8 {
    match policy {
        Policy::Explicit(_) => 0,
        Policy::Node => 1,
        Policy::Socket => 2,
        Policy::Core => 3,
        Policy::Thread => 4,
        Policy::Free => 5,
    }
}

/// A service that may run anywhere has its memory where the kernel puts it; any other has it next to its CPUs.
fn memory_of(topology: &Topology, wish: &Wanted, cpus: &CpuSet) -> Vec<u32> {
    if wish.policy == Policy::Free { Vec::new() } else { topology.nodes_of(cpus) }
}
