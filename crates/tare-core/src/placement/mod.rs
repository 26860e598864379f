//! Which CPUs serve what: a plan from a machine's topology and what services ask for. A pure function, so that machines
//! of which there is only a description can be planned for.
//!
//! The same plan is carried out in every form, by affinity, cpuset or the binding of a guest's virtual CPUs.

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

/// By which rule a service gets its CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Any CPU that is not kept aside; services may share them, and the kernel decides.
    #[default]
    Free,
    /// All CPUs of one NUMA node, with its memory; no two services on one node while there are others.
    Node,
    /// All CPUs of one package; no two services on one package while there are others.
    Socket,
    /// Whole cores, as many as hold what is asked for; no core serves two services.
    Core,
    /// As many logical CPUs as are asked for, those of a core together; none serves two services.
    Thread,
    /// These.
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
    /// A NUMA node to be near to, such as that of a network card or a disk; heeded while it has room.
    #[serde(default)]
    pub near: Option<u32>,
}

/// How many CPUs are kept for what is not a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Aside {
    /// For the generator.
    pub generator: u32,
    /// For the threads of hypervisors that are no virtual CPUs.
    #[serde(default)]
    pub hypervisor: u32,
    /// For interrupts.
    #[serde(default)]
    pub interrupts: u32,
}

/// Where a service runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Its CPUs; for one that may run anywhere, all that are not kept aside.
    pub cpus: CpuSet,
    /// Whether it may run anywhere: then a guest for it has as many virtual CPUs as it asks for, and none is bound.
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
    /// Every CPU that is not kept aside.
    pub system_under_test: CpuSet,
}

/// Plans where services run on a machine. Services that name their CPUs come first, then those that want whole nodes
/// and packages, whole cores and single CPUs, so that what is small fits into what the large leave; among equals the
/// order is that of the list. Every set is taken from as few last-level caches and nodes as will do.
///
/// With `over_commit`, services whose wish cannot be met beside the others' share CPUs with them.
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

/// What is served first: what has the least choice.
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

/// A service that may run anywhere has its memory where the kernel puts it; any other has it beside its CPUs.
fn memory_of(topology: &Topology, wish: &Wanted, cpus: &CpuSet) -> Vec<u32> {
    if wish.policy == Policy::Free { Vec::new() } else { topology.nodes_of(cpus) }
}
