//! What services may refer to by `${{...}}`: their own ports and names, and the addresses of services that start before
//! them.

use super::Service;
use crate::config::{Fields, Node, NodeKind, Place, Problems};
use crate::environment;
use crate::parameters::mentions;

/// The key that stands for the whole workload among the names of services.
pub(crate) const TILES: &str = "tiles";

/// Reports which references in `node`, the map of services, stand for nothing.
pub(super) fn refuse_bad_references(node: &Node, services: &[Service], problems: &mut Problems) {
    let Some(fields) = Fields::of(node, "services", &mut Problems::default()) else { return };
    for (name, _, node) in fields.entries() {
        if name == TILES {
            problems.add(node.place, format!("'{TILES}' cannot name a service"), "it names the whole workload");
        }
        let Some(at) = services.iter().position(|service| service.name == *name) else { continue };
        let (before, service) = (&services[..at], &services[at]);
        let mut check = |field: &str, place: Place, reference: String| {
            if let Some(variable) = environment::variable_of(&reference) {
                return environment::check(variable, field, place, problems);
            }
            let known = known(service, before);
            if !known.contains(&reference) && !awaits_port(&reference, service, before) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let later = reference.strip_prefix("addresses.").filter(|of| {
                    let of = of.split('.').next().unwrap_or_default();
                    services[at..].iter().any(|other| other.name == of)
                });
                match later {
                    Some(of) => {
                        let message = format!("'{of}' has no address yet when '{name}' is started");
                        problems.add(place, message, "services start in this order: move it before this one");
                    }
                    None => {
                        problems.add_unknown(place, format!("'{reference}' has no meaning here"), &reference, &known);
                    }
                }
            }
        };
        let Some(fields) = Fields::of(node, "a service", &mut Problems::default()) else { continue };
        for (field, _, node) in fields.entries() {
            each_text(node, &mut |place, text| mentions(text).for_each(|reference| check(field, place, reference)));
        }
    }
}

/// Whether a reference is to ports that are known only once an image is known.
fn awaits_port(reference: &str, service: &Service, before: &[Service]) -> bool {
    match reference.split_once('.') {
        Some(("port", _)) => service.awaits_ports(),
        Some(("addresses", of)) => {
            let name = of.split('.').next();
            before.iter().any(|other| name == Some(&other.name) && other.awaits_ports())
        }
        _ => false,
    }
}

/// What a service may refer to: things of its own, and of services that start before it.
fn known(service: &Service, before: &[Service]) -> Vec<String> {
    let mut known: Vec<String> = service.ports.keys().map(|port| format!("port.{port}")).collect();
    known.extend(["instance.name".to_owned(), "instance.number".to_owned()]);
    for other in before {
        if other.ports.len() == 1 {
            known.push(format!("addresses.{}", other.name));
        }
        known.extend(other.ports.keys().map(|port| format!("addresses.{}.{port}", other.name)));
    }
    known
}

fn each_text(node: &Node, look: &mut dyn FnMut(Place, &str)) {
    match &node.kind {
        NodeKind::Scalar { text, .. } => look(node.place, text),
        NodeKind::List(items) => items.iter().for_each(|item| each_text(item, look)),
        NodeKind::Map(entries) => entries.iter().for_each(|(.., value)| each_text(value, look)),
    }
}
