//! What a study says about placement: `placement:` of the whole study and of single forms.

use super::{Aside, Placement, Policy, Unmet, Wanted, place, unmet};
use crate::config::{Fields, Node, NodeKind, Place, Problems};
use crate::topology::Topology;
use crate::units::CpuSet;
use crate::workload::Service;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The policies that are a single word.
const POLICIES: [&str; 5] = ["free", "node", "socket", "core", "thread"];

/// The rules by which services get their CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// For services that have no rule of their own.
    pub rule: Rule,
    /// By service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, Rule>,
    /// Whether memory comes from the nodes of a service's CPUs, or from where the kernel likes.
    pub local_memory: bool,
    /// Whether services share CPUs if their wishes do not fit alongside each other.
    pub over_commit: bool,
}

/// The rule by which a service gets its CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rule {
    /// The policy.
    pub policy: Policy,
    /// A network card or a disk to be near, by the kernel's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<String>,
}

/// The part of the machine that a study keeps aside; what it does not name is chosen by the machine's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReservedCpus {
    /// CPUs for the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<u32>,
    /// CPUs for hypervisor threads that are not virtual CPUs.
    #[serde(default)]
    pub hypervisor: u32,
    /// CPUs for interrupts.
    #[serde(default)]
    pub interrupts: u32,
}

impl Default for Rules {
    /// What applies if a study says nothing: CPUs of its own for each service as long as there are enough, and memory
    /// from anywhere.
    fn default() -> Self {
        let rule = Rule { policy: Policy::Thread, near: None };
        Rules { rule, services: BTreeMap::new(), local_memory: false, over_commit: true }
    }
}

impl Rules {
    /// What applies to stated rules unless they say otherwise: memory next to the CPUs, and nothing shared.
    pub fn stated() -> Rules {
        Rules { rule: Rule::default(), services: BTreeMap::new(), local_memory: true, over_commit: false }
    }

    /// Reads `placement: core`, or a map with `policy` (or `cpus`), `near`, `services`, `memory`, `over_commit`. With
    /// `kept`, as for a whole study, the map may also have `aside`.
    pub fn read(node: &Node, kept: Option<&mut ReservedCpus>, problems: &mut Problems) -> Option<Rules> {
        if let NodeKind::Scalar { .. } = node.kind {
            let rule = Rule { policy: read_policy(node, problems)?, near: None };
            return Some(Rules { rule, ..Rules::stated() });
        }
        let mut fields = Fields::of(node, "placement", problems)?;
        let rule = read_rule(&mut fields, Policy::Thread, problems);
        let mut services = BTreeMap::new();
        let own = fields.get("services").and_then(|node| Fields::of(node, "services of the placement", problems));
        for (name, _, node) in own.iter().flat_map(|own| own.entries()) {
            services.extend(read_service(name, node, &rule, problems).map(|rule| (name.clone(), rule)));
        }
        let local_memory = fields.choice("memory", &["local", "any"], problems) != Some("any");
        let over_commit = fields.boolean("over_commit", problems).unwrap_or(false);
        // The load has to come from the same CPUs for every form.
        if let Some(kept) = kept {
            *kept = fields.get("aside").and_then(|node| read_kept(node, problems)).unwrap_or_default();
        }
        fields.finish(problems);
        Some(Rules { rule, services, local_memory, over_commit })
    }

    /// Reports the names in [`Rules::services`] that no service has; `place` gives the place of a name.
    pub fn refuse_unknown(&self, known: &[&str], place: impl Fn(&str) -> Place, problems: &mut Problems) {
        for name in self.services.keys().filter(|name| !known.contains(&name.as_str())) {
            Node::unknown(name, place(name), "service", known, problems);
        }
    }

    /// Plans where `services` run.
    ///
    /// # Errors
    /// Every wish that cannot be met, with the reason and what to do.
    pub fn place(&self, services: &[Service], aside: Aside, topology: &Topology) -> Result<Placement, Vec<Unmet>> {
        let mut problems = Vec::new();
        let mut wanted = Vec::new();
        for service in services {
            let own = self.services.get(&service.name).or_else(|| self.services.get(service.role()));
            let rule = own.unwrap_or(&self.rule);
            let device = |name: &String| topology.devices.iter().find(|device| device.name == *name);
            let near = rule.near.as_ref().and_then(device).and_then(|device| device.node);
            if let Some(name) = rule.near.as_ref().filter(|name| device(name).is_none()) {
                let known: Vec<&str> = topology.devices.iter().map(|device| device.name.as_str()).collect();
                let (known, remedy) = match known.as_slice() {
                    [] => ("none".to_owned(), unmet::NO_DEVICE),
                    known => (known.join(", "), unmet::DEVICE),
                };
                let service = &service.name;
                let wish = format!(
                    "service '{service}' must be near '{name}', which is not a device here; there are: {known}"
                );
                problems.push(Unmet::new(wish, remedy));
            }
            let cpus = service.resources.cpus;
            wanted.push(Wanted { service: service.name.clone(), cpus, policy: rule.policy.clone(), near });
        }
        let placed = place(topology, &wanted, aside, self.over_commit);
        let mut placement = match (placed, problems.is_empty()) {
            (Ok(placement), true) => placement,
            (Ok(_), false) => return Err(problems),
            (Err(more), _) => return Err(problems.into_iter().chain(more).collect()),
        };
        if !self.local_memory {
            placement.services.values_mut().for_each(|placed| placed.memory.clear());
        }
        Ok(placement)
    }
}

/// A rule of a service: a word, or a map.
fn read_service(name: &str, node: &Node, base: &Rule, problems: &mut Problems) -> Option<Rule> {
    if let NodeKind::Scalar { .. } = node.kind {
        return Some(Rule { policy: read_policy(node, problems)?, near: base.near.clone() });
    }
    let mut fields = Fields::of(node, format!("placement of '{name}'"), problems)?;
    let mut rule = read_rule(&mut fields, base.policy.clone(), problems);
    rule.near = rule.near.or_else(|| base.near.clone());
    fields.finish(problems);
    Some(rule)
}

fn read_rule(fields: &mut Fields, usual: Policy, problems: &mut Problems) -> Rule {
    let policy = fields.get("policy").map(|node| (node.place, read_policy(node, problems)));
    let near = fields.text("near", problems);
    let policy = match (policy, fields.get("cpus")) {
        (Some((place, _)), Some(_)) => {
            let message = "a service has either a 'policy' or 'cpus' of its own";
            problems.add(place, message, "omit one of the two");
            None
        }
        (None, Some(node)) => read_cpus(node, problems).map(Policy::Explicit),
        (policy, None) => policy.and_then(|(_, policy)| policy),
    };
    Rule { policy: policy.unwrap_or(usual), near }
}

fn read_policy(node: &Node, problems: &mut Problems) -> Option<Policy> {
    Some(match node.choice(&POLICIES, problems)? {
        "free" => Policy::Free,
        "node" => Policy::Node,
        "socket" => Policy::Socket,
        "core" => Policy::Core,
        _ => Policy::Thread,
    })
}

fn read_cpus(node: &Node, problems: &mut Problems) -> Option<CpuSet> {
    let text = node.text(problems)?;
    match CpuSet::parse(&text) {
        Ok(cpus) if !cpus.is_empty() => Some(cpus),
        Ok(_) => {
            problems.add(node.place, "this names no CPU", "write for example 0-3,8");
            None
        }
        Err(why) => {
            problems.add(node.place, why, "write for example 0-3,8");
            None
        }
    }
}

fn read_kept(node: &Node, problems: &mut Problems) -> Option<ReservedCpus> {
    let mut fields = Fields::of(node, "aside", problems)?;
    let mut count = |name| fields.integer(name, 0..=4096, problems).map(|count| count as u32);
    let generator = count("generator").map(|count| count.max(1));
    let (hypervisor, interrupts) = (count("hypervisor").unwrap_or(0), count("interrupts").unwrap_or(0));
    fields.finish(problems);
    Some(ReservedCpus { generator, hypervisor, interrupts })
}
