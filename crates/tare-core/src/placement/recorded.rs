//! Plans for machines, as their own kernels describe them.
//!
//! The numbers come from hwloc's recordings of real machines and from published inventories. A line is a last-level
//! cache: its package, its NUMA node, its size in MiB, and the CPUs of its cores, the first of each core and after a
//! slash the second.

use super::tests::aside;
use super::*;
use crate::topology::{Cache, Cpu, Device, DeviceKind};
use proptest::prelude::*;

/// Two Xeon Silver 4108 in a Supermicro SYS-4029GP: second threads are numbered after all first ones; both network
/// cards are attached to node 0.
const TWO_SOCKETS: &str = "0 0 11 0-7/16-23\n1 1 11 8-15/24-31";
/// Four Opteron 6276 in a Dell C6145: each package is two nodes, each with a cache of its own, and numbers its cores
/// from 0 in both.
const FOUR_SOCKETS: &str =
    "0 0 6 0-7\n0 1 6 8-15\n1 2 6 16-23\n1 3 6 24-31\n2 4 6 32-39\n2 5 6 40-47\n3 6 6 48-55\n3 7 6 56-63";
/// Four Xeon of 2.6 GHz with two cores each, CPUs 2, 5, 13 and 14 offline: packages are reported out of order, and
/// three cores have lost a thread or both. One node.
const WITH_OFFLINE_CPUS: &str = "0 0 4 0,4/8,12\n1 0 4 1/9\n3 0 4 3,7/11,15\n2 0 4 6,10";
/// Two Kunpeng 920 in a Huawei XA320 V2: 128 Arm cores without siblings; the firmware numbers packages 36 and 8442.
const ARM: &str = "36 0 32 0-31\n36 1 32 32-63\n8442 2 32 64-95\n8442 3 32 96-127";
/// A Threadripper 2950X: one package of two nodes, each of two core complexes with a cache of their own.
const CORE_COMPLEXES: &str = "0 0 8 0-3/16-19\n0 0 8 4-7/20-23\n0 1 8 8-11/24-27\n0 1 8 12-15/28-31";

fn machine(text: &str) -> Topology {
    let mut topology = Topology::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (first, second) = words[3].split_once('/').unwrap_or((words[3], ""));
        let [first, second] = [first, second].map(|cpus| CpuSet::parse(cpus).unwrap_or_default());
        let node: u32 = words[1].parse().unwrap();
        for (core, cpu) in first.cpus().iter().enumerate() {
            let siblings = CpuSet::new(std::iter::once(*cpu).chain(second.cpus().get(core).copied()));
            for cpu in siblings.cpus() {
                topology.cpus.push(Cpu {
                    package: words[0].parse().unwrap(),
                    die: 0,
                    core: core as i64,
                    siblings: siblings.clone(),
                    node: Some(node),
                    ..Cpu::bare(*cpu)
                });
            }
        }
        let all = CpuSet::new(first.cpus().iter().chain(second.cpus()).copied());
        let of_node = topology.nodes.entry(node).or_default();
        *of_node = CpuSet::new(of_node.cpus().iter().chain(all.cpus()).copied());
        let bytes = words[2].parse::<u64>().unwrap() << 20;
        topology.caches.push(Cache { level: 3, kind: "Unified".into(), bytes, cpus: all.to_string() });
    }
    topology.cpus.sort_by_key(|cpu| cpu.cpu);
    topology
}

fn machines() -> [Topology; 5] {
    let mut all = [TWO_SOCKETS, FOUR_SOCKETS, WITH_OFFLINE_CPUS, ARM, CORE_COMPLEXES].map(machine);
    let card = |name: &str| Device { kind: DeviceKind::Network, name: name.into(), node: Some(0) };
    all[0].devices = vec![card("enp96s0f0"), card("enp96s0f1")];
    all[2].offline = CpuSet::new([2, 5, 13, 14]);
    all
}

fn caches_of(topology: &Topology, cpus: &CpuSet) -> usize {
    let touches = |cache: &&Cache| {
        let of_cache = CpuSet::parse(&cache.cpus).unwrap();
        of_cache.cpus().iter().any(|cpu| cpus.cpus().contains(cpu))
    };
    topology.caches.iter().filter(touches).count()
}

#[test]
fn they_are_as_large_as_they_were() {
    let sizes = machines().map(|topology| (topology.cpus.len(), topology.nodes.len(), topology.caches.len()));
    assert_eq!(sizes, [(32, 2, 2), (64, 8, 8), (12, 1, 4), (128, 4, 4), (32, 2, 4)]);
}

proptest! {
    #[test]
    fn sets_are_disjoint_cores_whole_and_memory_local(
        which in 0usize..5,
        asked in proptest::collection::vec((1u32..12, 0u8..3), 1..7),
        generator in 0u32..5,
    ) {
        let topology = &machines()[which];
        let policy = |kind: u8| [Policy::Thread, Policy::Core, Policy::Node][usize::from(kind)].clone();
        let wish = |(n, (cpus, kind)): (usize, &(u32, u8))| {
            Wanted { service: format!("s{n}"), cpus: *cpus, policy: policy(*kind), near: None }
        };
        let wanted: Vec<Wanted> = asked.iter().enumerate().map(wish).collect();
        // What cannot be met is refused, each with a reason; that it really could not be met is tested on made-up
        // machines.
        let Ok(placement) = place(topology, &wanted, aside(generator), false) else { return Ok(()) };
        let mut seen: Vec<u32> = placement.generator.cpus().to_vec();
        for wish in &wanted {
            let placed = &placement.services[&wish.service];
            let cpus = placed.cpus.cpus();
            prop_assert!(cpus.len() >= wish.cpus as usize);
            if wish.policy == Policy::Core {
                for cpu in cpus {
                    let siblings = &topology.cpu(*cpu).unwrap().siblings;
                    prop_assert!(siblings.cpus().iter().all(|cpu| cpus.contains(cpu)), "a core is split: {}", placed.cpus);
                }
            }
            if wish.policy == Policy::Node {
                prop_assert_eq!(placed.memory.len(), 1);
            }
            prop_assert_eq!(&placed.memory, &topology.nodes_of(&placed.cpus));
            prop_assert!(cpus.iter().all(|cpu| topology.cpu(*cpu).is_some() && !seen.contains(cpu)), "{}", placed.cpus);
            seen.extend(cpus);
        }
    }

    #[test]
    fn what_fits_into_a_cache_stays_in_one(which in 0usize..5, cpus in 1u32..9, whole in proptest::bool::ANY) {
        let topology = &machines()[which];
        let largest = topology.caches.iter().map(|cache| CpuSet::parse(&cache.cpus).unwrap().len()).max().unwrap();
        prop_assume!(cpus as usize <= largest);
        let policy = if whole { Policy::Core } else { Policy::Thread };
        let wanted = [Wanted { service: "a".into(), cpus, policy, near: None }];
        let placed = place(topology, &wanted, Aside::default(), false).unwrap().services["a"].clone();
        prop_assert_eq!(caches_of(topology, &placed.cpus), 1, "{}", placed.cpus);
        prop_assert_eq!(placed.memory.len(), 1);
    }
}

#[test]
fn what_is_near_to_a_card_is_on_its_node() {
    let topology = &machines()[0];
    let near = |near| Wanted { service: "web".into(), cpus: 4, policy: Policy::Core, near };
    let first = Wanted { service: "db".into(), cpus: 12, policy: Policy::Core, near: Some(0) };
    let placement = place(topology, &[near(Some(1)), first], Aside::default(), false).unwrap();
    assert_eq!(placement.services["db"].memory, [0]);
    assert_eq!(placement.services["web"].memory, [1]);
}
