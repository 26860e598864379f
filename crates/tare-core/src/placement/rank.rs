//! Which of several placements is likely the best according to the model: the search measures only the top ones.

use super::model::{Cost, Demand, Model};
pub use super::pack::Manner;
use super::pack::Regions;
use super::{Aside, Placed, Placement, Policy, Rule, Rules, Unmet};
use crate::topology::Topology;
use crate::units::CpuSet;
use crate::workload::Service;
use std::collections::{BTreeMap, BTreeSet};

/// A placement that may be worth measuring.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its name: `free`, `core`, and with letters if there are several of a manner, `thread-a`.
    pub name: String,
    /// The manner in which services get their CPUs.
    pub manner: Manner,
    /// What a study would have to say to get it.
    pub rules: Rules,
    /// Where services run then.
    pub placement: Placement,
    /// What it costs according to the model.
    pub cost: Cost,
}

/// Up to this many ways of distributing services over regions are all examined; if there are more, the search moves
/// from good ones to their neighbours.
const WAYS_ALL: u32 = 4_096;
/// The most ways that are examined in each manner.
const WAYS_MAX: usize = 20_000;
/// How many placements of each manner are kept: there are enough letters for them.
const KEPT: usize = 12;
/// The kinds of machine parts that services are packed into, for each manner.
const KINDS: [(Manner, Part); 6] = [
    (Manner::Thread, Part::Cache),
    (Manner::Thread, Part::Node),
    (Manner::Core, Part::Cache),
    (Manner::Core, Part::Node),
    // If each node has one cache, these two are the same and have the name of the first.
    (Manner::Node, Part::Node),
    (Manner::Cache, Part::Cache),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Cache,
    Node,
}

/// The placements worth considering on this machine, each once, those that the model finds cheapest first. Of
/// placements between which the model sees no difference, such as two that differ only in which of two equal nodes
/// serves whom, one is listed.
///
/// # Errors
/// Every wish that cannot be met even where services may share all CPUs, with the reason.
pub fn candidates(
    services: &[Service],
    aside: Aside,
    topology: &Topology,
    demand: &Demand,
) -> Result<Vec<Candidate>, Vec<Unmet>> {
    let free = Rules { rule: Rule { policy: Policy::Free, near: None }, ..Rules::stated() };
    let anywhere = free.place(services, aside, topology)?;
    let allowed = anywhere.system_under_test.clone();
    let model = Model::new(topology, demand);
    let mut found = vec![(Manner::Free, free, anywhere)];
    for (manner, part) in KINDS {
        let regions = Regions::of(topology, &parts(topology, part), &allowed);
        let mut search = Search::new(services, manner, &regions, topology, &model);
        search.look();
        for placed in search.best() {
            let rules = explicit(&placed, manner);
            // Carried out like any study that names its CPUs.
            found.extend(rules.place(services, aside, topology).ok().map(|placement| (manner, rules, placement)));
        }
    }
    let mut seen = BTreeSet::new();
    let mut found: Vec<Candidate> = found
        .into_iter()
        .filter(|(_, _, placement)| seen.insert(model.seen(&placement.services)))
        .map(|(manner, rules, placement)| {
            let cost = model.cost(&placement.services);
            Candidate { name: String::new(), manner, rules, placement, cost }
        })
        .collect();
    found.sort_by_key(|candidate| rounded(&candidate.cost));
    name(&mut found);
    Ok(found)
}

/// Costs that differ by less than a millionth of a CPU are equal: sums are formed in different orders.
fn rounded(cost: &Cost) -> i64 {
    (cost.total() * 1e6).round() as i64
}

fn parts(topology: &Topology, part: Part) -> Vec<CpuSet> {
    let nodes: Vec<CpuSet> = topology.nodes.values().cloned().collect();
    let caches = topology.last_level();
    let numbers: BTreeSet<i64> = topology.cpus.iter().map(|cpu| cpu.package).collect();
    let of = |package: i64| topology.cpus.iter().filter(move |cpu| cpu.package == package).map(|cpu| cpu.cpu);
    let packages = || numbers.iter().map(|package| CpuSet::new(of(*package))).collect();
    match part {
        Part::Cache if !caches.is_empty() => caches,
        _ if !nodes.is_empty() => nodes,
        _ => packages(),
    }
}

fn explicit(placed: &BTreeMap<String, Placed>, manner: Manner) -> Rules {
    let rule = |placed: &Placed| Rule { policy: Policy::Explicit(placed.cpus.clone()), near: None };
    let services = placed.iter().map(|(service, placed)| (service.clone(), rule(placed))).collect();
    Rules { services, over_commit: manner.shares(), ..Rules::stated() }
}

/// Letters distinguish the placements of a manner, the cheapest first.
fn name(found: &mut [Candidate]) {
    let mut counts: BTreeMap<Manner, usize> = BTreeMap::new();
    found.iter().for_each(|candidate| *counts.entry(candidate.manner).or_default() += 1);
    let mut next: BTreeMap<Manner, usize> = BTreeMap::new();
    for candidate in found {
        let (word, at) = (candidate.manner.word(), next.entry(candidate.manner).or_default());
        candidate.name = match counts[&candidate.manner] {
            1 => word.to_owned(),
            // Two kinds of parts in one manner keep at most this many each.
            _ => format!("{word}-{}", char::from(b'a' + (*at).min(25) as u8)),
        };
        *at += 1;
    }
}

/// The search within one manner.
struct Search<'s> {
    services: &'s [Service],
    manner: Manner,
    regions: &'s Regions,
    model: &'s Model<'s>,
    asked: Vec<usize>,
    /// The number of CPUs of a whole core.
    whole: usize,
    /// By way: what it costs, in millionths; none if services do not fit.
    known: BTreeMap<Vec<usize>, Option<i64>>,
}

impl<'s> Search<'s> {
    fn new(
        services: &'s [Service],
        manner: Manner,
        regions: &'s Regions,
        topology: &Topology,
        model: &'s Model<'s>,
    ) -> Self {
        let whole = topology.cores().iter().map(CpuSet::len).max().unwrap_or(1);
        let asked = services.iter().map(|service| service.resources.cpus as usize).collect();
        Search { services, manner, regions, model, asked, whole, known: BTreeMap::new() }
    }

    /// Examines all ways, or those that a walk from several starting points passes.
    fn look(&mut self) {
        let (services, regions) = (self.services.len() as u32, self.regions.len() as u32);
        match regions.checked_pow(services).filter(|ways| *ways <= WAYS_ALL) {
            Some(all) => (0..all).for_each(|way| {
                let digit = |at: u32| (way / regions.pow(at) % regions) as usize;
                self.cost(&(0..services).map(digit).collect::<Vec<_>>());
            }),
            None => self.beginnings().into_iter().for_each(|way| self.walk(way)),
        }
    }

    /// Starting points: one region filled after the other, services dealt out in turn, and each service where it costs
    /// least so far.
    fn beginnings(&mut self) -> Vec<Vec<usize>> {
        let (services, regions) = (self.services.len(), self.regions.len());
        let dealt = (0..services).map(|at| at % regions).collect();
        let filled = (0..services).map(|at| at * regions / services).collect();
        vec![self.greedy(), filled, dealt]
    }

    fn greedy(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.services.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(self.asked[*at]));
        let (mut chosen, mut way) = (Vec::new(), vec![0; self.services.len()]);
        for at in order {
            chosen.push(at);
            let cost = |region: usize| {
                let mut way = way.clone();
                way[at] = region;
                self.price(&way, &chosen).unwrap_or(i64::MAX)
            };
            way[at] = (0..self.regions.len()).min_by_key(|region| cost(*region)).unwrap_or(0);
        }
        way
    }

    /// Moves to the best neighbour while there is a better one: one service elsewhere, or two that change places. If
    /// services do not fit, it moves to wherever they do.
    fn walk(&mut self, mut way: Vec<usize>) {
        loop {
            let here = self.cost(&way).unwrap_or(i64::MAX);
            let mut best = (here, None);
            for next in self.neighbours(&way) {
                if self.known.len() >= WAYS_MAX {
                    return;
                }
                let cost = self.cost(&next).unwrap_or(i64::MAX);
                if cost < best.0 {
                    best = (cost, Some(next));
                }
            }
            match best.1 {
                Some(next) => way = next,
                None => return,
            }
        }
    }

    fn neighbours(&self, way: &[usize]) -> Vec<Vec<usize>> {
        let changed = |changes: &[(usize, usize)]| {
            let mut next = way.to_vec();
            changes.iter().for_each(|(at, region)| next[*at] = *region);
            next
        };
        let mut all = Vec::new();
        for at in 0..way.len() {
            all.extend(
                (0..self.regions.len()).filter(|region| *region != way[at]).map(|region| changed(&[(at, region)])),
            );
            let others = (at + 1..way.len()).filter(|other| way[*other] != way[at]);
            all.extend(others.map(|other| changed(&[(at, way[other]), (other, way[at])])));
        }
        all
    }

    fn cost(&mut self, way: &[usize]) -> Option<i64> {
        if let Some(known) = self.known.get(way) {
            return *known;
        }
        let all: Vec<usize> = (0..self.services.len()).collect();
        let cost = self.price(way, &all);
        self.known.insert(way.to_vec(), cost);
        cost
    }

    fn price(&self, way: &[usize], chosen: &[usize]) -> Option<i64> {
        Some(rounded(&self.model.cost(&self.placed(way, chosen)?)))
    }

    /// Where the `chosen` services are placed; none if they do not fit.
    fn placed(&self, way: &[usize], chosen: &[usize]) -> Option<BTreeMap<String, Placed>> {
        let pick = |of: &[usize]| -> Vec<usize> { chosen.iter().map(|at| of[*at]).collect() };
        let sets = self.regions.lay(self.manner, &pick(&self.asked), &pick(way), self.whole)?;
        let placed = |(at, cpus): (&usize, CpuSet)| {
            (self.services[*at].name.clone(), Placed { cpus, free: false, memory: Vec::new() })
        };
        Some(chosen.iter().zip(sets).map(placed).collect())
    }

    /// The cheapest ways that were examined, at most [`KEPT`]; of those that the model cannot tell apart, one.
    fn best(&self) -> Vec<BTreeMap<String, Placed>> {
        let mut fitting: Vec<(i64, &Vec<usize>)> =
            self.known.iter().filter_map(|(way, cost)| Some(((*cost)?, way))).collect();
        fitting.sort_unstable();
        let all: Vec<usize> = (0..self.services.len()).collect();
        let mut seen = BTreeSet::new();
        let placed = fitting.into_iter().filter_map(|(_, way)| self.placed(way, &all));
        placed.filter(|placed| seen.insert(self.model.seen(placed))).take(KEPT).collect()
    }
}

#[cfg(test)]
#[path = "rank_tests.rs"]
mod tests;
