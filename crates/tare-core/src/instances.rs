//! How many times services are deployed: instances of single services, and tiles, each of which is a copy of the whole
//! workload.
//!
//! A workload is spelled out before it is deployed: every instance becomes a service with a name and ports of its own.
//! References in commands and environments give instances what they must know about each other:
//!
//! | `${{...}}` | stands for |
//! |---|---|
//! | `port.<port>` | the instance's own port of that name |
//! | `addresses.<service>`, `addresses.<service>.<port>` | `address:port` of its instances in the tile, in a row |
//! | `instance.name`, `instance.number` | its name; its number among its service's instances in the tile, from 1 |
//!
//! `env.<variable>` stands for a secret, which has nothing to do with instances: see [`crate::secrets`].

use crate::config::{Fields, Node, NodeKind, Place, Problems};
use crate::host::Instance;
use crate::parameters::{mentions, put_in};
use crate::workload::{FIRST_OWN, INSTANCES_MAX, Replica, Service, TILES, Workload};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The first port that is not reserved for well-known services.
const FIRST_PORT: u16 = 1024;

/// How many times the whole workload and its services are deployed; what is not stated is left to the settings it
/// overrides.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Instances {
    /// How many times the whole workload is deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiles: Option<u32>,
    /// How many times each service is deployed within a tile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, u32>,
}

impl Instances {
    /// Whether nothing is stated.
    pub fn is_empty(&self) -> bool {
        *self == Instances::default()
    }

    /// Reads `instances: 4`, the number of tiles, or a map of services and numbers, which may also contain `tiles`.
    pub fn read(node: &Node, problems: &mut Problems) -> Option<Instances> {
        if let NodeKind::Scalar { .. } = node.kind {
            let tiles = node.integer(1..=INSTANCES_MAX, problems)? as u32;
            return Some(Instances { tiles: Some(tiles), ..Instances::default() });
        }
        let fields = Fields::of(node, "instances", problems)?;
        let mut instances = Instances::default();
        for (name, _, value) in fields.entries() {
            let Some(count) = value.integer(1..=INSTANCES_MAX, problems) else { continue };
            if name == TILES {
                instances.tiles = Some(count as u32);
            } else {
                instances.services.insert(name.clone(), count as u32);
            }
        }
        Some(instances)
    }

    /// The same, but one of the numbers may be a list, for a form to be expanded once for each. Each result comes with
    /// its number.
    ///
    /// Without a list there is one result, without a number.
    pub fn read_sweep(node: &Node, problems: &mut Problems) -> Vec<(Option<u64>, Instances)> {
        let listed = |node: &Node| matches!(node.kind, NodeKind::List(_));
        let entries: &[(String, Place, Node)] = match &node.kind {
            NodeKind::Map(entries) => entries,
            _ => &[],
        };
        let mut lists = entries.iter().enumerate().filter(|(_, (.., value))| listed(value));
        let swept = lists.next();
        if let Some((_, (name, place, _))) = lists.next() {
            let message = format!("'{name}' is a second list of numbers");
            problems.add(*place, message, "one number at a time may change: write forms of their own for others");
        }
        let numbers = match swept {
            Some((_, (.., list))) => list,
            None if listed(node) => node,
            None => return Instances::read(node, problems).map(|instances| (None, instances)).into_iter().collect(),
        };
        let mut all = Vec::new();
        for number in numbers.items(problems).unwrap_or_default() {
            let Some(n) = number.integer(1..=INSTANCES_MAX, problems) else { continue };
            let kind = match swept {
                None => number.kind.clone(),
                Some((at, _)) => {
                    let mut entries = entries.to_vec();
                    entries[at].2 = number.clone();
                    NodeKind::Map(entries)
                }
            };
            let one = Instances::read(&Node { place: node.place, kind }, problems);
            all.extend(one.map(|instances| (Some(n), instances)));
        }
        all
    }

    /// Reports the names that no service of the workload has; `place` gives the place of a name.
    pub fn refuse_unknown(&self, workload: &Workload, place: impl Fn(&str) -> Place, problems: &mut Problems) {
        let known: Vec<&str> = workload.services.iter().map(|service| service.name.as_str()).collect();
        for name in self.services.keys().filter(|name| !known.contains(&name.as_str())) {
            Node::unknown(name, place(name), "service", &known, problems);
        }
    }

    /// These, completed from `base` where they state nothing.
    #[must_use]
    pub fn over(&self, base: &Instances) -> Instances {
        let mut services = base.services.clone();
        services.extend(self.services.iter().map(|(name, count)| (name.clone(), *count)));
        Instances { tiles: self.tiles.or(base.tiles), services }
    }

    fn of(&self, service: &Service) -> u32 {
        self.services.get(&service.name).copied().unwrap_or(service.instances)
    }

    /// Each service that would be deployed more than once and listens on a port that its command does not take from
    /// here, with the names of such ports: all instances would listen on the same one.
    pub fn fixed_ports(&self, workload: &Workload) -> Vec<(String, Vec<String>)> {
        let several = |service: &&Service| self.tiles.unwrap_or(1) * self.of(service) > 1;
        let fixed = |service: &Service| (service.name.clone(), fixed_ports(service).cloned().collect::<Vec<_>>());
        workload.services.iter().filter(several).map(fixed).filter(|(_, ports)| !ports.is_empty()).collect()
    }

    /// How many instances there are in total.
    pub fn total(&self, workload: &Workload) -> u64 {
        let tile: u64 = workload.services.iter().map(|service| u64::from(self.of(service))).sum();
        u64::from(self.tiles.unwrap_or(1)) * tile
    }

    /// The workload with every instance as a service of its own, tile by tile, with its own ports and names in its
    /// command, and a user of its own unless one is stated. Only references to addresses are left. More than
    /// [`INSTANCES_MAX`] in total, which the reader of studies refuses, are not spelled out.
    pub fn spell_out(&self, workload: &Workload) -> Workload {
        self.spell_out_beside(workload, &mut Ports::default())
    }

    /// The same for a deployment beside others of the workload on one machine, on ports that none of the others has:
    /// those were spelled out with the same `ports`. Only a workload whose [ports can move](has_movable_ports) listens
    /// there.
    pub fn spell_out_beside(&self, workload: &Workload, ports: &mut Ports) -> Workload {
        if self.total(workload) > INSTANCES_MAX {
            return workload.clone();
        }
        let tiles = self.tiles.unwrap_or(1);
        let first = ports.begin(workload);
        let mut users = own_users(workload);
        let mut services = Vec::new();
        for tile in 1..=tiles {
            for service in &workload.services {
                let count = self.of(service);
                for number in 1..=count {
                    let mut instance = service.clone();
                    let mut name = service.name.clone();
                    for (several, suffix) in [(tiles > 1, tile), (count > 1, number)] {
                        name = if several { format!("{name}-{suffix}") } else { name };
                    }
                    instance.name = name;
                    instance.instances = 1;
                    let replica = Replica { of: service.name.clone(), number, tile };
                    instance.replica = (tiles > 1 || count > 1).then_some(replica);
                    let order = (tile - 1) * count + number - 1;
                    instance.ports =
                        if first && order == 0 { service.ports.clone() } else { ports.near(service, order) };
                    if number > 1 || instance.ports != service.ports {
                        // Who looks up a name expects the usual ports, where another instance may listen.
                        instance.names.clear();
                    } else {
                        instance.names.insert(service.name.clone());
                    }
                    if instance.own_user {
                        instance.user = users.next().map_or(service.user, |id| (id, id));
                    }
                    tell_itself(&mut instance, number);
                    services.push(instance);
                }
            }
        }
        Workload { services, ..workload.clone() }
    }
}

/// The ids for instances with users of their own, handed out in sequence, so that an instance has the same id in every
/// form. Ids that services state are not handed out.
fn own_users(workload: &Workload) -> impl Iterator<Item = u32> {
    let stating = workload.services.iter().filter(|service| !service.own_user);
    let stated: BTreeSet<u32> = stating.flat_map(|service| [service.user.0, service.user.1]).collect();
    (FIRST_OWN..).filter(move |id| !stated.contains(id))
}

/// The ports of a service that its command does not take from here: it always listens there.
fn fixed_ports(service: &Service) -> impl Iterator<Item = &String> {
    let taken: BTreeSet<String> = texts(service).flat_map(mentions).collect();
    service.ports.keys().filter(move |port| !taken.contains(&format!("port.{port}")))
}

/// Whether every service listens where it is told to, and none is looked up by a further name, so that the workload can
/// be deployed several times on one network.
pub fn has_movable_ports(workload: &Workload) -> bool {
    why_fixed(workload).is_none()
}

/// Why the workload cannot be deployed several times on one network, if it cannot. Whoever looks up a further name of a
/// service connects to its usual port.
pub fn why_fixed(workload: &Workload) -> Option<&'static str> {
    let stays = |service: &Service| service.awaits_ports() || fixed_ports(service).next().is_some();
    if workload.services.iter().any(stays) {
        return Some("its commands do not take each port from ${{port.NAME}}");
    }
    let is_named = |service: &Service| service.names.iter().any(|name| name != service.role());
    workload.services.iter().any(is_named).then_some("further names of its services lead to their usual ports alone")
}

/// Ports that have been assigned.
#[derive(Debug, Default)]
pub struct Ports {
    taken: BTreeSet<u16>,
}

impl Ports {
    /// Whether this is the first deployment: there, the first instance of each service has the ports that the workload
    /// names.
    fn begin(&mut self, workload: &Workload) -> bool {
        let first = self.taken.is_empty();
        self.taken.extend(workload.services.iter().flat_map(|service| service.ports.values().copied()));
        first
    }

    /// For the instance with this number, from 0: the nearest free ports above its service's.
    fn near(&mut self, service: &Service, order: u32) -> BTreeMap<String, u16> {
        let mut ports = service.ports.clone();
        for port in ports.values_mut() {
            let above = (*port).saturating_add(u16::try_from(order).unwrap_or(u16::MAX));
            let free = (above..=u16::MAX).chain(FIRST_PORT..above).find(|port| !self.taken.contains(port));
            // If none is free, the second to listen there is refused, and the trial says so.
            *port = free.unwrap_or(above);
            self.taken.insert(*port);
        }
        ports
    }
}

/// Fills in what an instance knows about itself.
fn tell_itself(instance: &mut Service, number: u32) {
    let (name, ports) = (instance.name.clone(), instance.ports.clone());
    put_in(texts_of(instance), &|reference| match reference.split_once('.')? {
        ("port", port) => ports.get(port).map(u16::to_string),
        ("instance", "name") => Some(name.clone()),
        ("instance", "number") => Some(number.to_string()),
        _ => None,
    });
}

/// The service with the addresses of others filled in: those of the instances of its tile that were started before it.
#[must_use]
pub fn introduced(service: &Service, started: &[(&Service, &Instance)]) -> Service {
    let mut introduced = service.clone();
    put_in(texts_of(&mut introduced), &|reference| {
        let (of, port) = reference.strip_prefix("addresses.").map(|of| of.split_once('.').unwrap_or((of, "")))?;
        let others = started.iter().filter(|(other, _)| other.role() == of && other.tile() == service.tile());
        let address = |(_, instance): &(&Service, &Instance)| {
            let at = |port: &String| instance.peers.get(port).or_else(|| instance.endpoints.get(port)).copied();
            let port = if port.is_empty() { instance.endpoints.keys().next()?.clone() } else { port.to_owned() };
            Some(at(&port)?.to_string())
        };
        Some(others.filter_map(address).collect::<Vec<_>>().join(" "))
    });
    introduced
}

/// The names that a service can look up, each with the address at which it reaches what has the name: its own, at the
/// loopback until its host knows better ([`ServiceStart::standing_at`](crate::host::ServiceStart::standing_at)), and
/// those of the instances of its tile that were started before it and listen somewhere. An instance has its service's
/// names if it is the first and listens where the workload says, and one of several has its own.
#[must_use]
pub fn known_names(service: &Service, started: &[(&Service, &Instance)]) -> BTreeMap<String, IpAddr> {
    let mut known = BTreeMap::new();
    let own = (service, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let others = started.iter().filter(|(other, _)| other.tile() == service.tile()).map(|(other, instance)| {
        (*other, instance.peers.values().chain(instance.endpoints.values()).next().map(SocketAddr::ip))
    });
    for (named, address) in std::iter::once(own).chain(others) {
        let Some(address) = address else { continue };
        for name in named.own_names() {
            known.entry(name.clone()).or_insert(address);
        }
    }
    known
}

/// The texts of a service that may contain references.
fn texts(service: &Service) -> impl Iterator<Item = &str> {
    let levels = service.options.values().flat_map(|option| option.levels.values().flatten());
    service.command.iter().chain(service.environment.values()).chain(levels).map(String::as_str)
}

/// The texts of a service in which references are replaced.
fn texts_of(service: &mut Service) -> impl Iterator<Item = &mut String> {
    let asks = service.ready.texts_mut().iter_mut();
    service.command.iter_mut().chain(service.environment.values_mut()).chain(asks)
}

#[cfg(test)]
mod tests;
