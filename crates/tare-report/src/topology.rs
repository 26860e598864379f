//! A machine's topology for reading: what lies in what, in the manner of lstopo.

use crate::lines::paragraph;
use std::collections::BTreeSet;
use tare_core::topology::{Cpu, Topology};
use tare_core::units::{CpuSet, show_bytes};

/// A part of a machine with the parts in it, outermost first: package, NUMA node, last-level cache, core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// What it is.
    pub(crate) title: String,
    /// The CPUs in it.
    pub(crate) cpus: CpuSet,
    /// What lies in it; a core has nothing but its CPUs.
    pub(crate) inner: Vec<Part>,
}

/// The parts of a machine. Parts of different kinds with the same CPUs are one, with both titles.
pub(crate) fn outline(topology: &Topology) -> Vec<Part> {
    let all: Vec<&Cpu> = topology.cpus.iter().collect();
    let packages: BTreeSet<i64> = all.iter().map(|cpu| cpu.package).collect();
    let package = |number: i64| {
        let cpus = CpuSet::new(all.iter().filter(|cpu| cpu.package == number).map(|cpu| cpu.cpu));
        let title = if number < 0 { "CPUs".to_owned() } else { format!("package {number}") };
        merged(Part { title, inner: nodes(topology, &cpus), cpus })
    };
    packages.into_iter().map(package).collect()
}

fn nodes(topology: &Topology, within: &CpuSet) -> Vec<Part> {
    let parts = topology.nodes.iter().filter_map(|(number, cpus)| {
        let cpus = common(cpus, within)?;
        let inner = caches(topology, &cpus);
        Some(merged(Part { title: format!("NUMA node {number}"), cpus, inner }))
    });
    let parts: Vec<Part> = parts.collect();
    if parts.is_empty() { caches(topology, within) } else { parts }
}

fn caches(topology: &Topology, within: &CpuSet) -> Vec<Part> {
    let outermost = topology.caches.iter().map(|cache| cache.level).max();
    let last = topology.caches.iter().filter(|cache| Some(cache.level) == outermost && cache.kind != "Instruction");
    let parts = last.filter_map(|cache| {
        let cpus = common(&CpuSet::parse(&cache.cpus).ok()?, within)?;
        let title = format!("L{} {}", cache.level, show_bytes(cache.bytes));
        Some(Part { title, inner: cores(topology, &cpus), cpus })
    });
    let parts: Vec<Part> = parts.collect();
    if parts.is_empty() { cores(topology, within) } else { parts }
}

fn cores(topology: &Topology, within: &CpuSet) -> Vec<Part> {
    let number = |cpus: &CpuSet| cpus.cpus().first().and_then(|cpu| topology.cpu(*cpu)).map_or(0, |cpu| cpu.core);
    let of = topology.cores().into_iter().filter_map(|core| common(&core, within));
    of.map(|cpus| Part { title: format!("core {}", number(&cpus)), cpus, inner: Vec::new() }).collect()
}

fn common(a: &CpuSet, b: &CpuSet) -> Option<CpuSet> {
    let both = CpuSet::new(a.cpus().iter().copied().filter(|cpu| b.cpus().contains(cpu)));
    (!both.is_empty()).then_some(both)
}

/// A part that holds one other with the same CPUs, and is no core, is that other too.
fn merged(mut part: Part) -> Part {
    while let [only] = &part.inner[..]
        && only.cpus == part.cpus
        && !only.inner.is_empty()
    {
        part.title = format!("{}, {}", part.title, only.title);
        part.inner = only.inner.clone();
    }
    part
}

/// Devices in words, by node: `eth0 (network), nvme0n1 (disk)`.
pub(crate) fn devices(topology: &Topology) -> Vec<(Option<u32>, String)> {
    let nodes: BTreeSet<Option<u32>> = topology.devices.iter().map(|device| device.node).collect();
    let named = |node: Option<u32>| {
        let of = topology.devices.iter().filter(move |device| device.node == node);
        let texts = of.map(|device| format!("{} ({})", device.name, device.kind.word()));
        (node, texts.collect::<Vec<_>>().join(", "))
    };
    nodes.into_iter().map(named).collect()
}

/// The topology as indented lines of at most `width` columns.
pub fn topology_text(topology: &Topology, width: usize) -> String {
    let mut text = String::new();
    for part in outline(topology) {
        write(&part, 0, width, &mut text);
    }
    for (node, names) in devices(topology) {
        let label = node.map_or_else(|| "devices".to_owned(), |node| format!("devices of NUMA node {node}"));
        text.push_str(&paragraph("", 2, &format!("{label}: {names}"), width));
    }
    if !topology.offline.is_empty() {
        text.push_str(&paragraph("", 2, &format!("offline: CPUs {}", topology.offline), width));
    }
    text
}

fn write(part: &Part, depth: usize, width: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let all_cores = !part.inner.is_empty() && part.inner.iter().all(|inner| inner.inner.is_empty());
    let line = format!("{}: CPUs {}", part.title, part.cpus);
    text.push_str(&paragraph(&indent, indent.len() + 2, &line, width));
    if all_cores {
        let cores: Vec<String> = part.inner.iter().map(|core| format!("[{}]", core.cpus)).collect();
        let label = format!("{indent}  cores ");
        text.push_str(&paragraph(&label, label.len(), &cores.join(" "), width));
        return;
    }
    part.inner.iter().for_each(|inner| write(inner, depth + 1, width, text));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tare_core::topology::{Cache, Device, DeviceKind};

    /// Two packages, one of two nodes and one of one, each node with a cache over two cores of two CPUs.
    pub(crate) fn machine() -> Topology {
        let cpu = |cpu: u32, package: i64, node: u32| Cpu {
            cpu,
            package,
            die: 0,
            core: i64::from(cpu % 6),
            siblings: CpuSet::new([cpu % 6, cpu % 6 + 6]),
            node: Some(node),
            capacity: None,
        };
        let place = |number: u32| [(0, 0), (0, 0), (0, 1), (0, 1), (1, 2), (1, 2)][number as usize % 6];
        let cache = |cpus: &str| Cache { level: 3, kind: "Unified".into(), bytes: 16 << 20, cpus: cpus.into() };
        let device = |kind, name: &str, node| Device { kind, name: name.into(), node };
        let sets = ["0-1,6-7", "2-3,8-9", "4-5,10-11"];
        Topology {
            cpus: (0..12).map(|number| cpu(number, place(number).0, place(number).1)).collect(),
            offline: CpuSet::new([12]),
            nodes: (0..3).map(|n| (n, CpuSet::parse(sets[n as usize]).unwrap())).collect(),
            caches: sets.map(cache).to_vec(),
            devices: vec![device(DeviceKind::Network, "eth0", Some(1)), device(DeviceKind::Disk, "sda", None)],
        }
    }

    #[test]
    fn what_lies_in_what_is_indented_and_what_is_the_same_stands_once() {
        let text = topology_text(&machine(), 80);
        let wanted = "\
package 0: CPUs 0-3,6-9
  NUMA node 0, L3 16 MiB: CPUs 0-1,6-7
    cores [0,6] [1,7]
  NUMA node 1, L3 16 MiB: CPUs 2-3,8-9
    cores [2,8] [3,9]
package 1, NUMA node 2, L3 16 MiB: CPUs 4-5,10-11
  cores [4,10] [5,11]
devices: sda (disk)
devices of NUMA node 1: eth0 (network)
offline: CPUs 12
";
        assert_eq!(text, wanted, "{text}");
    }

    #[test]
    fn a_machine_that_tells_nothing_is_a_list_of_cpus() {
        let topology = Topology { cpus: (0..40).map(Cpu::bare).collect(), ..Topology::default() };
        let text = topology_text(&topology, 80);
        assert!(text.starts_with("CPUs: CPUs 0-39\n  cores [0] [1]"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
