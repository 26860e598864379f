//! Laying services into regions of a machine: which region serves whom is given, which CPUs follows.

use crate::topology::Topology;
use crate::units::CpuSet;
use std::collections::BTreeSet;

/// In which manner services have their CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manner {
    /// Any CPU; the kernel decides.
    Free,
    /// As many logical CPUs as are asked for, for each service its own.
    Thread,
    /// Whole cores, for each service its own.
    Core,
    /// All CPUs of a last-level cache, with the other services there.
    Cache,
    /// All CPUs of a NUMA node, or of a package where there are no nodes, with the other services there.
    Node,
}

impl Manner {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Manner::Free => "free",
            Manner::Thread => "thread",
            Manner::Core => "core",
            Manner::Cache => "cache",
            Manner::Node => "node",
        }
    }

    /// That of a candidate of this name: `thread-a` is one of threads.
    pub fn of_name(name: &str) -> Option<Manner> {
        let word = name.split('-').next().unwrap_or_default();
        let all = [Manner::Free, Manner::Thread, Manner::Core, Manner::Cache, Manner::Node];
        all.into_iter().find(|manner| manner.word() == word)
    }

    /// Whether services that lie together have the same CPUs.
    pub(super) fn shares(self) -> bool {
        matches!(self, Manner::Cache | Manner::Node)
    }
}

/// Parts of a machine that services are laid into.
pub(super) struct Regions {
    /// By region: the cores in it, as far as services may have them, those with all their CPUs first.
    regions: Vec<Vec<Vec<u32>>>,
    /// By region: the order in which what does not fit goes on to others.
    onwards: Vec<Vec<usize>>,
}

impl Regions {
    /// The machine by last-level caches, by nodes or by packages: `sets`, each as far as services may have it.
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
        // First the rest of the same node, then of the same package, then of the machine.
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

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }

    fn size(&self, region: usize) -> usize {
        self.regions[region].iter().map(Vec::len).sum()
    }

    /// The CPUs of each service, which asks for so many and is laid into the region of that number. None when they do
    /// not fit. What asks for more than its whole region goes on into those beside it.
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

    /// The largest first, so that what is small fills what they leave. `whole` is the number of CPUs of a whole core.
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

/// Takes cores until `cpus` are `count`, or no core is left. A last single CPU comes from a core that is begun already,
/// if there is one, so that whole ones stay for those who want them.
fn take(cores: &mut Vec<Vec<u32>>, count: usize, manner: Manner, cpus: &mut Vec<u32>) {
    while cpus.len() < count && !cores.is_empty() {
        let lacking = count - cpus.len();
        let fitting = (0..cores.len()).filter(|at| cores[*at].len() <= lacking);
        // The largest of these, and of equals the first.
        let fitting = fitting.max_by_key(|at| (cores[*at].len(), std::cmp::Reverse(*at)));
        if manner == Manner::Core {
            cpus.extend(cores.remove(0));
        } else if let Some(at) = fitting {
            cpus.extend(cores.remove(at));
        } else {
            // A core is split; what is left of it is for the next that wants little.
            let smallest = (0..cores.len()).min_by_key(|at| cores[*at].len()).expect("there is a core");
            cpus.extend(cores[smallest].drain(..lacking));
        }
    }
}
