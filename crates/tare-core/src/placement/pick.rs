//! Takes CPUs from what is left.

use super::unmet::{FREE_ONES, LESS, OTHERS, POLICY, SHARE};
use super::{Policy, Unmet, Wanted};
use crate::topology::Topology;
use crate::units::CpuSet;
use std::collections::BTreeSet;

/// What is left of a machine.
pub(super) struct Room<'t> {
    topology: &'t Topology,
    /// All CPUs not kept aside.
    all: BTreeSet<u32>,
    /// Those of them that no service has to itself.
    free: BTreeSet<u32>,
    /// Those of services that share a node or a package.
    shared: BTreeSet<u32>,
}

impl<'t> Room<'t> {
    pub(super) fn of(topology: &'t Topology) -> Self {
        let all: BTreeSet<u32> = topology.cpus.iter().map(|cpu| cpu.cpu).collect();
        Room { topology, free: all.clone(), all, shared: BTreeSet::new() }
    }

    /// Every CPU not kept aside.
    pub(super) fn all(&self) -> CpuSet {
        CpuSet::new(self.all.iter().copied())
    }

    /// How many CPUs are left.
    pub(super) fn left(&self) -> usize {
        self.free.len()
    }

    /// Takes `count` CPUs from the end of the machine, whole cores first. At least one CPU stays for services.
    pub(super) fn keep_aside(&mut self, count: u32) -> Option<CpuSet> {
        let count = count as usize;
        if count >= self.all.len() && count > 0 {
            return None;
        }
        let mut cores = self.cores(&self.all);
        cores.reverse();
        let kept: BTreeSet<u32> = fill(&cores, count);
        self.all.retain(|cpu| !kept.contains(cpu));
        self.free.retain(|cpu| !kept.contains(cpu));
        Some(CpuSet::new(kept))
    }

    /// The CPUs of a service; the error does not name it.
    pub(super) fn take(&mut self, wish: &Wanted, over_commit: bool) -> Result<CpuSet, Unmet> {
        let count = wish.cpus as usize;
        let cpus: BTreeSet<u32> = match &wish.policy {
            Policy::Free => return self.anywhere(count),
            Policy::Explicit(cpus) => self.named(cpus, count, over_commit)?,
            Policy::Node => {
                let nodes = self.topology.nodes.values().map(|cpus| cpus.cpus().to_vec()).collect();
                self.whole("NUMA node", nodes, wish, over_commit)?
            }
            Policy::Socket => self.whole("package", self.packages(), wish, over_commit)?,
            Policy::Core => self.cores_for(wish, over_commit)?,
            Policy::Thread => self.threads_for(wish, over_commit)?,
        };
        self.free.retain(|cpu| !cpus.contains(cpu));
        Ok(CpuSet::new(cpus))
    }

    fn anywhere(&self, count: usize) -> Result<CpuSet, Unmet> {
        if count > self.all.len() {
            let there = self.all.len();
            return Err(Unmet::new(format!("it asks for {count} CPUs, and there are {there} for services"), LESS));
        }
        Ok(self.all())
    }

    fn named(&self, cpus: &CpuSet, count: usize, over_commit: bool) -> Result<BTreeSet<u32>, Unmet> {
        let named: BTreeSet<u32> = cpus.cpus().iter().copied().collect();
        if named.is_empty() {
            return Err(Unmet::new("it names no CPU", OTHERS));
        }
        let missing: Vec<u32> = named.iter().copied().filter(|cpu| !self.all.contains(cpu)).collect();
        if !missing.is_empty() {
            let missing = CpuSet::new(missing);
            return Err(Unmet::new(format!("CPUs {missing} are not there, are offline, or are kept aside"), OTHERS));
        }
        if named.len() < count {
            return Err(Unmet::new(format!("it asks for {count} CPUs and names {}", named.len()), OTHERS));
        }
        let taken: Vec<u32> = named.iter().copied().filter(|cpu| !self.free.contains(cpu)).collect();
        if !taken.is_empty() && !over_commit {
            return Err(Unmet::new(format!("CPUs {} serve another service already", CpuSet::new(taken)), FREE_ONES));
        }
        Ok(named)
    }

    /// One whole node or package: a free one if there is any, otherwise one that only such services share.
    fn whole(
        &mut self,
        what: &str,
        sets: Vec<Vec<u32>>,
        wish: &Wanted,
        over_commit: bool,
    ) -> Result<BTreeSet<u32>, Unmet> {
        let count = wish.cpus as usize;
        let sets: Vec<BTreeSet<u32>> =
            sets.iter().map(|set| self.of_services(set)).filter(|set| !set.is_empty()).collect();
        let largest = sets.iter().map(BTreeSet::len).max().unwrap_or(0);
        if sets.is_empty() {
            return Err(Unmet::new(format!("this machine reports no {what}"), POLICY));
        }
        if count > largest {
            let why = format!("it asks for {count} CPUs, and no {what} has more than {largest} for services");
            return Err(Unmet::new(why, LESS));
        }
        let near = |set: &BTreeSet<u32>| self.is_near(set, wish.near);
        let enough: Vec<&BTreeSet<u32>> = sets.iter().filter(|set| set.len() >= count).collect();
        let untouched = |set: &&&BTreeSet<u32>| set.iter().all(|cpu| self.free.contains(cpu));
        let shareable =
            |set: &&&BTreeSet<u32>| set.iter().all(|cpu| self.free.contains(cpu) || self.shared.contains(cpu));
        let best = |sets: Vec<&&BTreeSet<u32>>| sets.into_iter().min_by_key(|set| !near(set)).map(|set| (*set).clone());
        let chosen = best(enough.iter().filter(untouched).collect())
            .or_else(|| over_commit.then(|| best(enough.iter().filter(shareable).collect())).flatten())
            .or_else(|| over_commit.then(|| best(enough.iter().collect())).flatten());
        let chosen = chosen.ok_or_else(|| Unmet::new(format!("no {what} with {count} CPUs is left"), SHARE))?;
        self.shared.extend(chosen.iter().copied());
        Ok(chosen)
    }

    /// Whole cores that no other service has, with at least `count` CPUs.
    fn cores_for(&self, wish: &Wanted, over_commit: bool) -> Result<BTreeSet<u32>, Unmet> {
        let count = wish.cpus as usize;
        let pick = |from: &BTreeSet<u32>| {
            let cores: Vec<Vec<u32>> = self.whole_cores(from);
            self.nearest(&cores, count, wish.near).map(|cores| cores.into_iter().flatten().collect())
        };
        let there: usize = self.whole_cores(&self.free).iter().map(Vec::len).sum();
        pick(&self.free).or_else(|| over_commit.then(|| pick(&self.all)).flatten()).ok_or_else(|| {
            let why = format!("it asks for whole cores with {count} CPUs, and those that are left have {there}");
            Unmet::new(why, too_few(over_commit))
        })
    }

    /// `count` CPUs that no other service has, from as few cores as possible.
    fn threads_for(&self, wish: &Wanted, over_commit: bool) -> Result<BTreeSet<u32>, Unmet> {
        let count = wish.cpus as usize;
        let pick = |from: &BTreeSet<u32>| {
            let cores = self.cores(from);
            let chosen = self.nearest(&cores, count, wish.near)?;
            Some(fill(&chosen, count))
        };
        let left = self.free.len();
        pick(&self.free).or_else(|| over_commit.then(|| pick(&self.all)).flatten()).ok_or_else(|| {
            let why = format!("it asks for {count} CPUs to itself, and {left} are left");
            Unmet::new(why, too_few(over_commit))
        })
    }

    /// Cores that hold `count` CPUs together, from the smallest group of CPUs that has them: a last-level cache, a
    /// node, a package, the machine. Groups nearest to the wish come first, then those that are left with the fewest
    /// CPUs.
    fn nearest(&self, cores: &[Vec<u32>], count: usize, near: Option<u32>) -> Option<Vec<Vec<u32>>> {
        let caches = self.topology.last_level().iter().map(|set| set.cpus().to_vec()).collect();
        let nodes = self.topology.nodes.values().map(|set| set.cpus().to_vec()).collect();
        let machine = vec![self.topology.cpus.iter().map(|cpu| cpu.cpu).collect()];
        let levels: [Vec<Vec<u32>>; 4] = [caches, nodes, self.packages(), machine];
        for groups in levels {
            let within = |group: &Vec<u32>| -> Vec<Vec<u32>> {
                cores.iter().filter(|core| core.iter().all(|cpu| group.contains(cpu))).cloned().collect()
            };
            let candidates = groups.iter().map(|group| (group, within(group)));
            let enough = candidates.filter(|(_, cores)| cores.iter().map(Vec::len).sum::<usize>() >= count);
            let best = enough.min_by_key(|(group, cores)| {
                let far = !self.is_near(&group.iter().copied().collect(), near);
                (far, cores.iter().map(Vec::len).sum::<usize>())
            });
            if let Some((_, cores)) = best {
                let mut held = 0;
                let needed = |core: &&Vec<u32>| {
                    let wanted = held < count;
                    held += core.len();
                    wanted
                };
                return Some(cores.iter().take_while(needed).cloned().collect());
            }
        }
        None
    }

    fn is_near(&self, cpus: &BTreeSet<u32>, near: Option<u32>) -> bool {
        let Some(node) = near else { return true };
        cpus.iter().all(|cpu| self.topology.cpu(*cpu).is_some_and(|cpu| cpu.node == Some(node)))
    }

    fn of_services(&self, cpus: &[u32]) -> BTreeSet<u32> {
        cpus.iter().copied().filter(|cpu| self.all.contains(cpu)).collect()
    }

    fn packages(&self) -> Vec<Vec<u32>> {
        let numbers: BTreeSet<i64> = self.topology.cpus.iter().map(|cpu| cpu.package).collect();
        let of = |package: i64| self.topology.cpus.iter().filter(move |cpu| cpu.package == package).map(|cpu| cpu.cpu);
        numbers.into_iter().map(|package| of(package).collect()).collect()
    }

    /// The part of each core that is in `from`, in the order of the cores: by node, last-level cache and first CPU.
    fn cores(&self, from: &BTreeSet<u32>) -> Vec<Vec<u32>> {
        let caches = self.topology.last_level();
        let place = |core: &Vec<u32>| {
            let first = core[0];
            let node = self.topology.cpu(first).and_then(|cpu| cpu.node);
            (node, caches.iter().position(|cache| cache.cpus().contains(&first)), first)
        };
        let of = |core: &CpuSet| -> Vec<u32> { core.cpus().iter().copied().filter(|cpu| from.contains(cpu)).collect() };
        let mut cores: Vec<Vec<u32>> = self.topology.cores().iter().map(of).filter(|core| !core.is_empty()).collect();
        cores.sort_by_key(place);
        cores
    }

    /// The cores that have every CPU in `from`.
    fn whole_cores(&self, from: &BTreeSet<u32>) -> Vec<Vec<u32>> {
        let size = |core: &Vec<u32>| self.topology.cpu(core[0]).map_or(1, |cpu| cpu.siblings.len());
        self.cores(from).into_iter().filter(|core| core.len() == size(core)).collect()
    }
}

/// What to do if there are too few CPUs: sharing them helps only those who do not share them yet.
fn too_few(over_commit: bool) -> &'static str {
    if over_commit { LESS } else { SHARE }
}

/// The first `count` CPUs of `cores`.
fn fill(cores: &[Vec<u32>], count: usize) -> BTreeSet<u32> {
    cores.iter().flatten().copied().take(count).collect()
}
