//! The names by which the services of a workload find each other.

use crate::model::{Alias, Service};
use crate::sources::{Sources, Weight};
use std::collections::BTreeMap;
use tare_core::workload::is_host_name;

/// Gives the services their names: the one in the file where the workload calls it otherwise, then the further ones.
/// Names are looked up in small letters, and each leads to one service.
pub(crate) fn settle(services: &mut [Service], sources: &mut Sources) {
    let own = services.iter().enumerate().map(|(number, service)| (service.own.clone(), number));
    let mut taken: BTreeMap<String, usize> = own.collect();
    let mut wanted: Vec<(usize, Alias, String)> = Vec::new();
    for (number, service) in services.iter().enumerate() {
        let alias = Alias { name: service.name.clone(), at: service.at, key: "" };
        wanted.push((number, alias, format!("services.{}", service.name)));
    }
    for (number, service) in services.iter().enumerate() {
        wanted.extend(service.aliases.iter().map(|alias| (number, alias.clone(), service.key(alias.key))));
        for (name, alias) in &service.calls {
            let called = services.iter().position(|other| other.name == *name);
            wanted.extend(called.map(|called| (called, alias.clone(), service.key(alias.key))));
        }
    }
    for (number, alias, key) in wanted {
        let name = alias.name.to_ascii_lowercase();
        let instead = match taken.get(&name) {
            Some(other) if *other == number => continue,
            Some(other) => format!("'{name}' leads to '{}' alone", services[*other].name),
            None if is_host_name(&name) => {
                services[number].names.push(name.clone());
                taken.insert(name, number);
                continue;
            }
            None => format!("'{name}' is no name that a host may have, and does not resolve"),
        };
        sources.note(alias.at, key, Weight::Differs, instead);
    }
}
