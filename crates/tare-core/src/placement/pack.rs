//! Packs services into regions of a machine: the region of each service is given, and its CPUs follow.

use crate::topology::Topology;
use crate::units::CpuSet;
use std::collections::BTreeSet;

/// The manner in which services get their CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manner {
    /// Any CPU; the kernel decides.
    Free,
    /// As many logical CPUs as requested, each service its own.
    Thread,
    /// Whole cores, each service its own.
    Core,
    /// All CPUs of a last-level cache, shared with the other services there.
    Cache,
    /// All CPUs of a NUMA node, or of a package if there are no nodes, shared with the other services there.
    Node,
}

impl Manner {
    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            Manner::Free => "free",
            Manner::Thread => "thread",
            Manner::Core => "core",
            Manner::Cache => "cache",
            Manner::Node => "node",
        }
    }

    /// The manner of a candidate with this name: `thread-a` is one of threads.
    pub fn of_name(name: &str) -> Option<Manner> {
        let word = name.split('-').next().unwrap_or_default();
        let all = [Manner::Free, Manner::Thread, Manner::Core, Manner::Cache, Manner::Node];
        all.into_iter().find(|manner| manner.word() == word)
    }

    /// Whether services in the same region share its CPUs.
    pub(super) fn shares(self) -> bool {
        matches!(self, Manner::Cache | Manner::Node)
    }
}

/// Parts of a machine that services are packed into.
pub(super) struct Regions {
    /// By region: the cores in it that services may have, those with all their CPUs first.
    regions: Vec<Vec<Vec<u32>>>,
    /// By region: the order of the other regions that take what does not fit.
    onwards: Vec<Vec<usize>>,
}

impl Regions {
    /// The machine by last-level caches, nodes or packages: `sets`, each reduced to what services may have.
    pub(super) fn of(topology: &Topology, sets: &[CpuSet], services: &CpuSet) -> Regions {
        let allowed: BTreeSet<u32> = services.cpus().iter().copied().collect();
        let home = |set: &CpuSet| {
            let first = set.cpus().first().and_then(|cpu| topology.cpu(*cpu));
            first.map(|cpu| (cpu.package, cpu.node))
        };
        let cores = |set: &CpuSet| -> Vec<Vec<u32>> {
            let inside = |core: &CpuSet| -> Vec<u32> {
                let there = core.cpus().iter().copied();
                there.filter(|cpu| allowed.contains(cpu) && set.cpus().contains(cpu)).collect()
            };
            let mut cores: Vec<Vec<u32>> =
                topology.cores().iter().map(inside).filter(|core| !core.is_empty()).collect();
            cores.sort_by_key(|core| std::cmp::Reverse(core.len()));
            cores
        };
        let known: Vec<(_, Vec<Vec<u32>>)> =
            sets.iter().map(|set| (home(set), cores(set))).filter(|(_, cores)| !cores.is_empty()).collect();
        // First the rest of the same node, then that of the same package, then that of the machine.
        let far = |one: usize, other: usize| match (known[one].0, known[other].0) {
            (a, b) if a == b => 0,
            (Some((package, _)), Some((other, _))) if package == other => 1,
            _ => 2,
        };
        let onwards = |one: usize| {
            let mut others: Vec<usize> = (0..known.len()).filter(|other| *other != one).collect();
            others.sort_by_key(|other| (far(one, *other), *other));
            others
        };
        let onwards = (0..known.len()).map(onwards).collect();
        Regions { regions: known.into_iter().map(|(_, cores)| cores).collect(), onwards }
    }

    /// The number of regions.
    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }

    fn size(&self, region: usize) -> usize {
        self.regions[region].iter().map(Vec::len).sum()
    }

    /// The CPUs of each service, given how many it asks for and the number of its region. None when they do not fit. A
    /// service that asks for more than its whole region continues into neighbouring ones.
    pub(super) fn lay(&self, manner: Manner, asked: &[usize], ways: &[usize], whole: usize) -> Option<Vec<CpuSet>> {
        if manner.shares() { self.lay_together(asked, ways) } else { self.lay_apart(manner, asked, ways, whole) }
    }

    fn lay_together(&self, asked: &[usize], ways: &[usize]) -> Option<Vec<CpuSet>> {
        let all = |region: usize| CpuSet::new(self.regions[region].iter().flatten().copied());
        let wanted = |region: usize| -> usize {
            ways.iter().zip(asked).filter(|(way, _)| **way == region).map(|(_, count)| count).sum()
        };
        let fits = ways.iter().all(|region| wanted(*region) <= self.size(*region));
        fits.then(|| ways.iter().map(|region| all(*region)).collect())
    }

    /// The largest first, so that small ones fill what they leave. `whole` is the number of CPUs of a whole core.
    fn lay_apart(&self, manner: Manner, asked: &[usize], ways: &[usize], whole: usize) -> Option<Vec<CpuSet>> {
        let mut left = self.regions.clone();
        if manner == Manner::Core {
            left.iter_mut().for_each(|cores| cores.retain(|core| core.len() == whole));
        }
        let mut sets = vec![CpuSet::default(); asked.len()];
        let mut order: Vec<usize> = (0..asked.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(asked[*at]));
        for at in order {
            let (region, mut cpus) = (ways[at], Vec::new());
            take(&mut left[region], asked[at], manner, &mut cpus);
            if cpus.len() < asked[at] {
                if asked[at] <= self.size(region) {
                    return None;
                }
                for next in &self.onwards[region] {
                    take(&mut left[*next], asked[at], manner, &mut cpus);
                }
                if cpus.len() < asked[at] {
                    return None;
                }
            }
            sets[at] = CpuSet::new(cpus);
        }
        Some(sets)
    }
}

/// Takes cores until `cpus` are `count`, or no core is left. A last single CPU comes from a core that is already split,
/// if there is one, so that whole cores remain for services that want them.
fn take(cores: &mut Vec<Vec<u32>>, count: usize, manner: Manner, cpus: &mut Vec<u32>) {
    while cpus.len() < count && !cores.is_empty() {
        let lacking = count - cpus.len();
        let fitting = (0..cores.len()).filter(|at| cores[*at].len() <= lacking);
        // The largest of these, and among equals the first.
        let fitting = fitting.max_by_key(|at| (cores[*at].len(), std::cmp::Reverse(*at)));
        if manner == Manner::Core {
            cpus.extend(cores.remove(0));
        } else if let Some(at) = fitting {
            cpus.extend(cores.remove(at));
        } else {
            // A core is split; what is left of it is for the next service that wants little.
            let smallest = (0..cores.len()).min_by_key(|at| cores[*at].len()).expect("there is a core");
            cpus.extend(cores[smallest].drain(..lacking));
        }
    }
}
