//! What a placement costs according to a model: CPUs lost to waiting, distance, shared cores and shared caches.
//!
//! The formula and what it leaves out are in docs/src/methodology/placement-search.md. Its weights are guesses of the
//! usual size of each effect: the model chooses what is worth measuring, and measurement decides.

use super::ground::Ground;
use super::{Placed, Placement};
use crate::topology::Topology;
use crate::workload::Service;
use serde::Serialize;
use std::collections::BTreeMap;

/// What two services that are both busy on one CPU lose, as a share of the time in which both are: switching, and
/// caches that the other has filled.
const SWITCHED: f64 = 0.1;
/// What the two CPUs of a core lose while both are busy: together they do about 1.3 times the work of one, not 2.
const CORE_SHARED: f64 = 0.7;
/// What a neighbour in the same last-level cache costs, as a share of the smaller one's need.
const CACHE_SHARED: f64 = 0.02;
/// How much of its time a service spends on memory and locks that its own threads share.
const OWN: f64 = 0.5;
/// How much of its time a service spends on talking to all the others together, if nobody said.
const TALK_ASSUMED: f64 = 0.2;

/// What is known about services before anything has been measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demand {
    /// By service: the CPUs that it keeps busy, on average.
    pub cpus: BTreeMap<String, f64>,
    /// By pair of services, or of a service and a device, in either order: the share of their CPU time spent on talking
    /// to each other.
    pub talk: BTreeMap<(String, String), f64>,
}

impl Demand {
    /// What is assumed if nothing is known: that each service keeps busy the CPUs it asks for, or its quota, and talks
    /// equally to all the others.
    pub fn assumed(services: &[Service]) -> Demand {
        let need = |service: &Service| {
            let asked = f64::from(service.resources.cpus);
            service.resources.cpu_quota.map_or(asked, |quota| quota.min(asked))
        };
        let each = TALK_ASSUMED / services.len().saturating_sub(1).max(1) as f64;
        let pairs = services.iter().enumerate().flat_map(|(at, one)| {
            services[at + 1..].iter().map(move |other| ((one.name.clone(), other.name.clone()), each))
        });
        Demand {
            cpus: services.iter().map(|service| (service.name.clone(), need(service))).collect(),
            talk: pairs.collect(),
        }
    }
}

/// What a placement costs according to the model, in CPUs lost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Cost {
    /// To CPUs from which more is wanted than they can give, and to switching between services.
    pub waiting: f64,
    /// To services' traffic with each other, with devices and with their own memory over a distance.
    pub distance: f64,
    /// To cores that run two CPUs at once.
    pub cores: f64,
    /// To neighbours in the same last-level cache.
    pub caches: f64,
}

impl Cost {
    /// The total.
    pub fn total(&self) -> f64 {
        self.waiting + self.distance + self.cores + self.caches
    }
}

/// What `placement` costs on this machine.
pub fn cost(topology: &Topology, placement: &Placement, demand: &Demand) -> Cost {
    Model::new(topology, demand).cost(&placement.services)
}

/// The model of one machine and one demand.
pub(super) struct Model<'a> {
    topology: &'a Topology,
    demand: &'a Demand,
    ground: Ground,
}

/// A service as it is placed.
struct Lying<'a> {
    name: &'a str,
    need: f64,
    cpus: &'a [u32],
    shares: Vec<(usize, f64)>,
}

impl<'a> Model<'a> {
    pub(super) fn new(topology: &'a Topology, demand: &'a Demand) -> Model<'a> {
        Model { topology, demand, ground: Ground::of(topology) }
    }

    /// What it costs when services are placed like this; some may be missing.
    pub(super) fn cost(&self, placed: &BTreeMap<String, Placed>) -> Cost {
        let lying = self.lying(placed);
        let (waiting, cores) = self.shared_cpus(&lying);
        Cost { waiting, cores, distance: self.distance(&lying), caches: shared_caches(&lying) }
    }

    fn lying<'p>(&self, placed: &'p BTreeMap<String, Placed>) -> Vec<Lying<'p>> {
        let of = |(name, placed): (&'p String, &'p Placed)| Lying {
            name,
            need: self.demand.cpus.get(name).copied().unwrap_or(0.0),
            cpus: placed.cpus.cpus(),
            shares: self.ground.shares(&placed.cpus),
        };
        placed.iter().map(of).collect()
    }

    /// What is lost to waiting and to shared cores. Each service keeps its CPUs equally busy, independently of the
    /// others; of a service's own CPUs the kernel uses whole cores first.
    fn shared_cpus(&self, lying: &[Lying]) -> (f64, f64) {
        // By CPU and by core: the sum over services of how busy they keep it, and the sum of squares. The sums over
        // pairs of services follow from these.
        let mut by_cpu: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
        let mut by_core = vec![[0.0; 2]; self.ground.cores];
        let add = |sums: &mut [f64; 2], busy: f64| *sums = [sums[0] + busy, sums[1] + busy * busy];
        let mut cores = 0.0;
        for service in lying.iter().filter(|service| !service.cpus.is_empty()) {
            let each = (service.need / service.cpus.len() as f64).min(1.0);
            let mut own: BTreeMap<usize, f64> = BTreeMap::new();
            for cpu in service.cpus {
                add(by_cpu.entry(*cpu).or_default(), each);
                if let Some(core) = self.ground.core(*cpu) {
                    *own.entry(core).or_default() += each;
                }
            }
            for (core, busy) in own {
                add(&mut by_core[core], busy);
                cores += CORE_SHARED * (busy - 1.0).max(0.0);
            }
        }
        let pairs = |[sum, squares]: [f64; 2]| 0.5 * (sum * sum - squares);
        let on_cpus: f64 = by_cpu.values().map(|sums| pairs(*sums)).sum();
        let on_cores: f64 = by_core.iter().map(|sums| pairs(*sums)).sum();
        cores += CORE_SHARED * (on_cores - on_cpus).max(0.0);
        let lacking: f64 = by_cpu.values().map(|[busy, _]| (busy - 1.0).max(0.0)).sum();
        let beyond = |service: &Lying| (service.need - service.cpus.len() as f64).max(0.0);
        let beyond: f64 = lying.iter().map(beyond).sum();
        (lacking + beyond + SWITCHED * on_cpus, cores)
    }

    fn distance(&self, lying: &[Lying]) -> f64 {
        let own = |service: &Lying| OWN * service.need * self.ground.hop(&service.shares, &service.shares);
        let own: f64 = lying.iter().map(own).sum();
        let find = |name: &str| lying.iter().find(|service| service.name == name);
        let talk = |((one, other), share): (&(String, String), &f64)| match (find(one), find(other)) {
            (Some(one), Some(other)) => share * (one.need + other.need) * self.ground.hop(&one.shares, &other.shares),
            (Some(service), None) => share * service.need * self.to_device(service, other),
            (None, Some(service)) => share * service.need * self.to_device(service, one),
            (None, None) => 0.0,
        };
        self.demand.talk.iter().map(talk).fold(own, |sum, talk| sum + talk)
    }

    /// How far a service is from a device; zero if the device's node is unknown.
    fn to_device(&self, service: &Lying, device: &str) -> f64 {
        let device = self.topology.devices.iter().find(|known| known.name == device);
        device.and_then(|device| device.node).map_or(0.0, |node| self.ground.to_node(&service.shares, node))
    }

    /// Everything the model sees of a placement, in whole millionths. If placements agree in it, the model cannot say
    /// which is better: for example, two that differ only in which of two equal nodes serves whom.
    pub(super) fn seen(&self, placed: &BTreeMap<String, Placed>) -> Vec<i64> {
        let lying = self.lying(placed);
        let mut seen = Vec::new();
        let mut see = |value: f64| seen.push((value * 1e6).round() as i64);
        for (at, one) in lying.iter().enumerate() {
            let cores: std::collections::BTreeSet<_> =
                one.cpus.iter().filter_map(|cpu| self.ground.core(*cpu)).collect();
            see(one.cpus.len() as f64);
            see(cores.len() as f64);
            see(self.ground.hop(&one.shares, &one.shares));
            for (pair, _) in self.demand.talk.iter().filter(|((a, b), _)| [a, b].contains(&&one.name.to_owned())) {
                let other = if pair.0 == one.name { &pair.1 } else { &pair.0 };
                see(self.to_device(one, other));
            }
            for other in &lying[at + 1..] {
                see(self.ground.hop(&one.shares, &other.shares));
                see(overlap(one, other));
                let both = one.cpus.iter().filter(|cpu| other.cpus.contains(cpu)).count();
                let beside = other.cpus.iter().filter_map(|cpu| self.ground.core(*cpu));
                see(both as f64);
                see(beside.filter(|core| cores.contains(core)).count() as f64);
            }
        }
        seen
    }
}

fn shared_caches(lying: &[Lying]) -> f64 {
    let pairs = lying.iter().enumerate().flat_map(|(at, one)| lying[at + 1..].iter().map(move |other| (one, other)));
    // Starts at 0: the sum of nothing would otherwise be a negative zero.
    pairs.fold(0.0, |sum, (one, other)| sum + CACHE_SHARED * one.need.min(other.need) * overlap(one, other))
}

/// The share of two services that is in the same last-level caches.
fn overlap(one: &Lying, other: &Lying) -> f64 {
    let of = |cell: usize| other.shares.iter().find(|(theirs, _)| *theirs == cell).map_or(0.0, |(_, share)| *share);
    one.shares.iter().map(|(cell, share)| share.min(of(*cell))).sum()
}
