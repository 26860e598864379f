//! A machine as the placement model sees it: which CPUs share a core or a last-level cache, and how far apart those
//! caches are.

use crate::topology::Topology;
use crate::units::CpuSet;
use std::collections::{BTreeMap, BTreeSet};

/// What the CPUs of a cell have in common: NUMA node, package and last-level cache, each if the machine reports it.
type CellKey = (Option<u32>, i64, Option<usize>);

/// The share lost of what crosses between last-level caches: within the same cache, to another of the node, to another
/// node of the package, to another package. Guesses of the usual size.
const HOPS: [f64; 4] = [0.0, 0.1, 0.2, 0.3];

/// The machine, by cells: CPUs that share a last-level cache and a NUMA node.
pub(super) struct Ground {
    cells: Vec<CellKey>,
    /// By CPU: its cell and its core.
    places: BTreeMap<u32, (usize, usize)>,
    /// How many cores there are.
    pub(super) cores: usize,
}

impl Ground {
    pub(super) fn of(topology: &Topology) -> Ground {
        let caches = topology.last_level();
        let key = |cpu: &crate::topology::Cpu| -> CellKey {
            (cpu.node, cpu.package, caches.iter().position(|cache| cache.cpus().contains(&cpu.cpu)))
        };
        let cells: Vec<CellKey> = topology.cpus.iter().map(key).collect::<BTreeSet<_>>().into_iter().collect();
        let cores = topology.cores();
        let place = |cpu: &crate::topology::Cpu| {
            let cell = cells.binary_search(&key(cpu)).expect("every CPU has a cell");
            let core = cores.iter().position(|core| *core == cpu.siblings).expect("every CPU has a core");
            (cpu.cpu, (cell, core))
        };
        let places = topology.cpus.iter().map(place).collect();
        Ground { places, cores: cores.len(), cells }
    }

    /// The core of a CPU, by its index among the cores.
    pub(super) fn core(&self, cpu: u32) -> Option<usize> {
        Some(self.places.get(&cpu)?.1)
    }

    /// The share of a set that lies in each cell.
    pub(super) fn shares(&self, cpus: &CpuSet) -> Vec<(usize, f64)> {
        let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
        for (cell, _) in cpus.cpus().iter().filter_map(|cpu| self.places.get(cpu)) {
            *counts.entry(*cell).or_default() += 1.0 / cpus.len() as f64;
        }
        counts.into_iter().collect()
    }

    /// The share lost from one cell to another.
    fn between(&self, one: usize, other: usize) -> f64 {
        let ((node, package, _), (to_node, to_package, _)) = (self.cells[one], self.cells[other]);
        match (one == other, node == to_node, package == to_package) {
            (true, ..) => HOPS[0],
            (_, true, _) => HOPS[1],
            (_, _, true) => HOPS[2],
            _ => HOPS[3],
        }
    }

    /// The share lost from one set to another, both given as shares of cells: the mean over all pairs of their CPUs.
    pub(super) fn hop(&self, one: &[(usize, f64)], other: &[(usize, f64)]) -> f64 {
        let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
        pairs.map(|((a, share), (b, of))| share * of * self.between(*a, *b)).sum()
    }

    /// The cells of a NUMA node, weighted equally; none for a node without CPUs.
    fn of_node(&self, node: u32) -> Vec<(usize, f64)> {
        let cells: Vec<usize> = (0..self.cells.len()).filter(|cell| self.cells[*cell].0 == Some(node)).collect();
        let count = cells.len() as f64;
        cells.into_iter().map(|cell| (cell, 1.0 / count)).collect()
    }

    /// The share lost between a set and a device on `node`: nothing from the node's own CPUs.
    pub(super) fn to_node(&self, one: &[(usize, f64)], node: u32) -> f64 {
        let cells = self.of_node(node);
        // A device is attached to the node, not to one of its caches: all of these are equally near.
        let near = |cell: usize| cells.iter().any(|(own, _)| *own == cell);
        one.iter().filter(|(cell, _)| !near(*cell)).map(|part| self.hop(&[*part], &cells)).sum()
    }
}
