//! Named volumes, which several services may mount, and `volumes_from:`.

use super::Reader;
use crate::model::{Condition, Dependency, Service};
use crate::sources::{At, Sources, Weight};
use crate::yaml::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tare_core::workload::{Shared, Volume};

/// The longest that the name of a volume is made of one in a Compose file; a number may follow.
const NAME_MAX: usize = 50;

/// Where a service mounts a named volume.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) at: At,
    /// The service's name in the Compose file.
    pub(crate) service: String,
    /// The path inside.
    pub(crate) target: String,
}

/// A service that has the volumes of another one.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The service's name in the Compose file.
    service: String,
    /// The name of the other one.
    other: String,
    read_only: bool,
}

impl Reader<'_> {
    /// Reads `volumes_from:`, a list of `SERVICE[:MODE]`.
    pub(super) fn volumes_from(&mut self, value: &Value, service: &mut Service) {
        for item in value.items(self.sources).to_vec() {
            let Some(text) = item.text(self.sources) else { continue };
            let (name, mode) = text.split_once(':').unwrap_or((&text, "rw"));
            if name == "container" {
                let instead = "containers outside of this file are not there";
                self.sources.note(item.at, service.key("volumes_from"), Weight::Stops, instead);
                continue;
            }
            if !["ro", "rw"].contains(&mode) {
                let message = format!("'{text}' has no mode that is known");
                self.sources.wrong(item.at, message, "write SERVICE or SERVICE:ro");
                continue;
            }
            let condition = Condition::Started;
            service.after.push(Dependency { name: name.to_owned(), at: item.at, optional: false, condition });
            let (own, other) = (service.name.clone(), name.to_owned());
            self.taken.push(Taken { service: own, other, read_only: mode == "ro" });
        }
    }
}

/// Gives volumes that several services have names that a workload allows, and makes the others the services' own. Until
/// then every named volume is a shared one of the name that it has in the Compose file.
pub(crate) fn share(mounted: &[Mounted], taken: &[Taken], services: &mut [Service], sources: &mut Sources) {
    // A service may take what another one has taken; each round settles one of them at least.
    for _ in taken {
        let changed: Vec<bool> = taken.iter().map(|taken| take(taken, services)).collect();
        if !changed.contains(&true) {
            break;
        }
    }
    let names = names(services);
    let unnamed: BTreeSet<&String> = names.iter().filter(|(name, _)| name.contains(':')).map(|(_, own)| own).collect();
    let is_named = |volume: &Volume| volume.shared.as_ref().is_some_and(|shared| !unnamed.contains(&shared.name));
    let at = |service: &str, path: &str| {
        let here = |one: &&Mounted| one.service == service && one.target == path;
        mounted.iter().rfind(here).map(|one| one.at)
    };
    for service in services.iter_mut() {
        let mut alone = Vec::new();
        for (path, volume) in &mut service.volumes {
            let Some(shared) = &mut volume.shared else { continue };
            match names.get(&shared.name) {
                Some(name) => shared.name.clone_from(name),
                None => {
                    alone.extend(shared.read_only.then(|| path.clone()));
                    volume.shared = None;
                }
            }
        }
        for path in alone {
            let place = at(&service.name, &path).unwrap_or(service.at);
            let instead = "the service can write to the volume, too";
            sources.note(place, service.key("volumes"), Weight::Differs, instead);
        }
        for (path, above) in within(service) {
            let place = at(&service.name, &above).unwrap_or(service.at);
            let (weight, instead) = match service.volumes.remove(&path) {
                None => continue,
                Some(volume) if is_named(&volume) => {
                    let instead = format!("{path} and {above} are shared, and no shared volume is inside of another");
                    (Weight::Stops, instead)
                }
                Some(_) => {
                    (Weight::Differs, format!("{path} is a part of the volume at {above}, which services share"))
                }
            };
            sources.note(place, service.key("volumes"), weight, instead);
        }
        for (path, above) in hidden(service) {
            let copied = &service.files[&path];
            let instead = format!(
                "{path} is a part of the image, and seen only if this service is the first that has the volume at \
                 {above}, which services share"
            );
            sources.note(copied.at, service.key(copied.of), Weight::Differs, instead);
        }
    }
}

/// Gives a service what another one has mounted, except where it has something itself. Whether that changed anything.
fn take(taken: &Taken, services: &mut [Service]) -> bool {
    let position = |name: &str| services.iter().position(|service| service.name == name);
    // Whether the other one is deployed is a matter of the order of services, which tells it.
    let (Some(to), Some(from)) = (position(&taken.service), position(&taken.other)) else { return false };
    if to == from {
        return false;
    }
    let name = services[from].name.clone();
    let mut volumes = BTreeMap::new();
    for (number, (path, volume)) in services[from].volumes.iter_mut().enumerate() {
        // No name in a Compose file has a colon.
        let unnamed = || Shared { name: format!("{name}:{number}"), read_only: false };
        let shared = volume.shared.get_or_insert_with(unnamed);
        let read_only = shared.read_only || taken.read_only;
        volumes.insert(path.clone(), Volume::shared(&shared.name, volume.bytes, read_only));
    }
    let files = services[from].files.iter().filter(|(_, copied)| copied.of == "volumes");
    let files: Vec<_> = files.map(|(path, copied)| (path.clone(), copied.clone())).collect();
    let service = &mut services[to];
    let before = service.volumes.len() + service.files.len();
    for (path, volume) in volumes {
        service.volumes.entry(path).or_insert(volume);
    }
    for (path, copied) in files {
        service.files.entry(path).or_insert(copied);
    }
    service.volumes.len() + service.files.len() > before
}

/// The names of volumes that are mounted more than once, each with the one that it gets in the workload.
fn names(services: &[Service]) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for shared in services.iter().flat_map(|service| service.volumes.values()).filter_map(|one| one.shared.as_ref()) {
        *counts.entry(&shared.name).or_default() += 1;
    }
    let (mut names, mut given) = (BTreeMap::new(), BTreeSet::new());
    for (name, _) in counts.into_iter().filter(|(_, count)| *count > 1) {
        let own = own_name(name, &given);
        given.insert(own.clone());
        names.insert(name.to_owned(), own);
    }
    names
}

/// A name of `a-z`, `0-9` and `-` that is not among those given.
fn own_name(name: &str, given: &BTreeSet<String>) -> String {
    let allowed = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let plain: String = name.to_ascii_lowercase().chars().map(allowed).take(NAME_MAX).collect();
    let numbered = (2..).map(|number: usize| format!("{plain}-{number}"));
    let mut all = std::iter::once(plain.clone()).chain(numbered);
    all.find(|name| !name.is_empty() && !given.contains(name)).expect("there are more numbers than volumes")
}

/// The places of a service's volumes that are inside of a shared one, each with the place of that one.
fn within(service: &Service) -> Vec<(String, String)> {
    let inside = |path: &&String, above: &str| path.as_str() != above && Path::new(path).starts_with(above);
    let below = |above: &String| {
        let all = service.volumes.keys().filter(|path| inside(path, above));
        all.map(|path| (path.clone(), above.clone())).collect::<Vec<_>>()
    };
    shared_places(service).flat_map(below).collect()
}

/// The same for its files.
fn hidden(service: &Service) -> Vec<(String, String)> {
    let below = |above: &String| {
        let all = service.files.keys().filter(|path| Path::new(path).starts_with(above));
        all.map(|path| (path.clone(), above.clone())).collect::<Vec<_>>()
    };
    shared_places(service).flat_map(below).collect()
}

fn shared_places(service: &Service) -> impl Iterator<Item = &String> {
    service.volumes.iter().filter(|(_, volume)| volume.shared.is_some()).map(|(path, _)| path)
}
