//! A workload: what is deployed, which requests are made of it, and which answers count as correct. It never names a
//! form.

mod names;
mod prepared;
mod readiness;
mod references;
mod resources;
mod service;
mod volumes;

pub use names::is_host_name;
pub use prepared::Prepared;
pub use readiness::Readiness;
pub(crate) use references::TILES;
pub(crate) use resources::refuse_idle_quota;
pub use resources::{OwnResources, Quota};
pub use volumes::{Shared, Volume, volume_bytes};

use crate::bundle::{Content, Recipe};
use crate::catalog::Catalog;
use crate::config::{Fields, Node, Problems, parse};
use crate::image::FromImage;
use crate::load::{Behaviour, OwnMetric, SpokenNames, read_behaviours};
use crate::parameters::{self, Parameters};
use crate::protocol::ProtocolFacts;
use crate::qos::Qos;
use names::refuse_shared_names;
use references::refuse_bad_references;
use serde::{Deserialize, Serialize};
use service::{Around, read_service};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use volumes::settle_shared;

pub use crate::stop_signal::StopSignal;
pub use crate::users::{FIRST_OWN, NOBODY, why_not_in_image, why_not_stated, why_not_user};

/// The JSON Schema (draft 2020-12) of workload files, without the protocols, which [`Catalog`] knows.
pub const FILE_SCHEMA: &str = include_str!("../assets/workload.schema.json");

/// What container engines set PATH to in every environment without one; the same in every form.
pub const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The most instances in total.
pub const INSTANCES_MAX: u64 = 1000;

/// A workload, read from `workload.yaml` and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name, which is also the name of its folder.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// The services, in starting order.
    pub services: Vec<Service>,
    /// The load's protocol and where it is spoken.
    pub protocol: ProtocolUse,
    /// The QoS its users expect, unless a study asks for another.
    #[serde(default)]
    pub qos: Option<Qos>,
    /// Other QoS that users may expect, by the names that studies use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub qos_sets: BTreeMap<String, Qos>,
    /// The values of its parameters, already substituted in its fields.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// The data set that may be kept between deployments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<Prepared>,
    /// The file it was read from, so that mistakes that show only once its bundles are there can be reported with their
    /// place. A record has none.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

/// What the load speaks, and to whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProtocolUse {
    /// The protocol's name in the table of protocols.
    pub protocol: String,
    /// The service that the load addresses.
    pub service: String,
    /// The port of that service, by name; none if the load is a tool inside the form that needs no port.
    #[serde(default)]
    pub port: Option<String>,
    /// Whether several instances of the service are one site: connections go to all of them in turn. Otherwise each has
    /// a load process of its own, which drives the whole load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
    /// The options as the protocol wrote them after checking the user's, with every default filled in.
    pub options: serde_json::Value,
    /// What one operation is, if it counts something with a unit of its own: MB, IO. Throughput is then in that unit
    /// per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The metrics that the load has in addition to those of every trial; ratios are made of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<OwnMetric>,
    /// How its users may behave, by the names that studies use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub behaviours: BTreeMap<String, Behaviour>,
}

impl ProtocolUse {
    /// What follows from its options; nothing if the protocol is not known.
    pub fn facts(&self, catalog: &dyn Catalog) -> ProtocolFacts {
        catalog.protocol(&self.protocol).map(|protocol| protocol.facts(&self.options)).unwrap_or_default()
    }
}

/// One long-running program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How its root filesystem is made.
    pub recipe: Recipe,
    /// The program, an absolute path in the bundle, and its arguments. A program taken from an image may be a name to
    /// be found in PATH until the bundle is there; the command is empty until the image is there.
    pub command: Vec<String>,
    /// Its environment; nothing else is inherited, in any form.
    pub environment: BTreeMap<String, String>,
    /// User and group ids it runs as, in every form.
    pub user: (u32, u32),
    /// Whether neither the workload nor its image states a user: each instance then gets a user of its own, and `user`
    /// is [`NOBODY`] until the workload is spelled out ([`crate::instances`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_user: bool,
    /// Whether it runs as its image does in a container engine: as root if the image says so, on a root that it may
    /// write to, with the image's own /tmp and /run, and with what the image holds in its volumes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_image: bool,
    /// The directory it starts in, an absolute path in the bundle, if not the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Port numbers by name.
    pub ports: BTreeMap<String, u16>,
    /// The names by which services that start later find it, beside its own. In a workload that is spelled out
    /// ([`crate::instances`]) its own is among them, and an instance that listens elsewhere than stated has none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub names: BTreeSet<String>,
    /// When it counts as ready.
    pub ready: Readiness,
    /// Its volumes, by their paths in the bundle.
    pub volumes: BTreeMap<String, Volume>,
    /// The resources it gets, the same in every form that does not say otherwise.
    pub resources: Resources,
    /// The signal that asks it to end.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub stop_signal: StopSignal,
    /// How long it may take to end after its stop signal.
    pub stop_within: Duration,
    /// Named options with named levels; a study chooses levels. Their arguments are put into `command`
    /// when it is deployed ([`Study::deployed`](crate::study::Study::deployed)).
    pub options: BTreeMap<String, ServiceOption>,
    /// How many instances of it are deployed, unless a study says otherwise.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub instances: u32,
    /// The image that its bundle is made from, if any, and what it took from the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<FromImage>,
    /// Which instance it is, in a workload that is spelled out ([`crate::instances`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Replica>,
}

fn one() -> u32 {
    1
}

// serde prescribes the signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_usual(signal: &StopSignal) -> bool {
    *signal == StopSignal::TERM
}

// serde prescribes the signature.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Service {
    /// A service with defaults for everything else: each instance has a user of its own, one CPU, 512 MiB of memory,
    /// and ten seconds to end; it has no ports and no volumes.
    pub fn of(name: &str, recipe: Recipe, command: Vec<String>, ready: Readiness) -> Service {
        Service {
            name: name.to_owned(),
            recipe,
            command,
            environment: BTreeMap::new(),
            user: (NOBODY, NOBODY),
            own_user: true,
            as_image: false,
            directory: None,
            ports: BTreeMap::new(),
            names: BTreeSet::new(),
            ready,
            volumes: BTreeMap::new(),
            resources: Resources::default(),
            stop_signal: StopSignal::TERM,
            stop_within: Duration::from_secs(10),
            options: BTreeMap::new(),
            instances: one(),
            image: None,
            replica: None,
        }
    }

    /// The name of the service that it is or that it is an instance of.
    pub fn role(&self) -> &str {
        self.replica.as_ref().map_or(&self.name, |replica| &replica.of)
    }

    /// The names that lead to it: those of a workload that is spelled out, and that of an instance of several.
    pub(crate) fn own_names(&self) -> impl Iterator<Item = &String> {
        let names = self.names.iter().chain(self.replica.as_ref().map(|_| &self.name));
        names.filter(|name| *name != "localhost")
    }

    /// Whether it takes what it leaves out from an image that is not known yet.
    pub fn awaits_image(&self) -> bool {
        self.image.as_ref().is_some_and(|image| image.says.is_none())
    }

    /// Whether its ports will be those of an image that is not known yet.
    pub(crate) fn awaits_ports(&self) -> bool {
        self.ports.is_empty() && self.awaits_image()
    }

    /// The number of its tile, from 1.
    pub fn tile(&self) -> u32 {
        self.replica.as_ref().map_or(1, |replica| replica.tile)
    }
}

/// Which instance a service is in a workload that is spelled out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The service that it is an instance of.
    pub of: String,
    /// Its number among the instances of its tile, from 1.
    pub number: u32,
    /// Its tile's number, from 1.
    pub tile: u32,
}

impl Replica {
    /// Whether it is the first of its service, in the first tile.
    pub fn is_first(&self) -> bool {
        (self.tile, self.number) == (1, 1)
    }
}

/// An option of a service, such as how durable it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceOption {
    /// The level that applies when the study names none.
    pub default: String,
    /// The arguments that each level adds to the command.
    pub levels: BTreeMap<String, Vec<String>>,
}

/// The resources a service gets: the same in every form that does not say otherwise, enforced in each form by its own
/// means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Whole CPUs it may run on; a guest gets the same number of virtual CPUs.
    pub cpus: u32,
    /// CPU time per second of real time, in CPUs, enforced by quota; none means unlimited.
    pub cpu_quota: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Default for Resources {
    /// One CPU without a quota, and 512 MiB.
    fn default() -> Self {
        Resources { cpus: 1, cpu_quota: None, memory_bytes: 512 << 20 }
    }
}

impl Workload {
    /// Reads `workload.yaml`. Relative paths in it (`folder:`, `image:`) are relative to `folder`. Files named under
    /// `files:` are listed in the result with empty content: the caller, which may do I/O, fills them in with
    /// [`Workload::files_wanted`] and [`Workload::supply_file`]. `chosen` overrides the defaults of its parameters.
    ///
    /// `None` when anything is wrong; then at least one problem was added.
    pub fn read(
        text: &str,
        folder: &Path,
        chosen: &Parameters,
        catalog: &dyn Catalog,
        problems: &mut Problems,
    ) -> Option<Workload> {
        let before = problems.len();
        let mut root = parse(text, problems)?;
        let parameters = parameters::fill_in(&mut root, chosen, problems);
        let mut fields = Fields::of(&root, "the workload", problems)?;
        let name = fields.require_text("workload", problems);
        let about = fields.text("about", problems).unwrap_or_default();
        let mut services: Vec<Service> = Vec::new();
        let load = fields.get("load");
        if let Some(node) = fields.require("services", problems)
            && let Some(entries) = Fields::of(node, "services", problems)
        {
            if entries.entries().is_empty() {
                problems.add(node.place, "a workload needs at least one service", "");
            }
            for (key, place, node) in entries.entries() {
                let first = *key == entries.entries()[0].0;
                let (loaded, loaded_port) = load.map(|load| loaded(load, key, first)).unwrap_or_default();
                let around = Around { folder, catalog, loaded, loaded_port };
                services.extend(read_service(key, *place, node, &around, problems));
            }
            refuse_bad_references(node, &services, problems);
            refuse_shared_names(node, problems);
            settle_shared(node, &mut services, problems);
        }
        let protocol = fields.require("load", problems).and_then(|n| read_protocol(n, &services, catalog, problems));
        let known = protocol.as_ref().map(|spoken| spoken.facts(catalog).operations).unwrap_or_default();
        let qos = fields.get("qos").and_then(|node| Qos::read(node, &known, problems));
        let qos_sets = fields.get("qos_sets").map(|node| Qos::read_sets(node, &known, problems)).unwrap_or_default();
        let prepared = fields.get("prepared").and_then(|node| Prepared::read(node, &services, problems));
        fields.get("parameters");
        fields.finish(problems);
        if problems.len() > before {
            return None;
        }
        let protocol = protocol?;
        Some(Workload { name: name?, about, services, protocol, qos, qos_sets, parameters, prepared, file: None })
    }

    /// Adds a problem for each name in `chosen`, a study's map of parameters, that this workload does not have.
    pub(crate) fn refuse_unknown_parameters(&self, chosen: &Node, problems: &mut Problems) {
        let Some(fields) = Fields::of(chosen, "parameters", &mut Problems::default()) else { return };
        let known: Vec<&str> = self.parameters.keys().map(String::as_str).collect();
        for (name, place, _) in fields.entries().iter().filter(|(name, ..)| !self.parameters.contains_key(name)) {
            let message = format!("workload '{}' has no parameter '{name}'", self.name);
            problems.add_unknown(*place, message, name, &known);
        }
    }

    /// The files whose content the caller must supply: (service; path in the bundle or, for a source of a build, its
    /// name; path on this machine).
    pub fn files_wanted(&self) -> Vec<(String, String, PathBuf)> {
        let mut wanted = Vec::new();
        for service in &self.services {
            let files = service.recipe.files.iter().filter_map(|file| Some((&file.path, file.content.text()?)));
            let sources = service.recipe.build.iter().flat_map(|build| &build.sources);
            for (path, content) in files.chain(sources.map(|(name, content)| (name, content.as_str()))) {
                if let Some(local) = content.strip_prefix(FILE_WANTED) {
                    wanted.push((service.name.clone(), path.clone(), PathBuf::from(local)));
                }
            }
        }
        wanted
    }

    /// Supplies the files of a folder among a build's sources that [`Workload::files_wanted`] asked for. They replace
    /// the folder: names relative to it, each with its content. `folder` is its name, ending in `/`.
    pub fn supply_folder(&mut self, service: &str, folder: &str, files: &BTreeMap<String, String>) {
        for service in self.services.iter_mut().filter(|s| s.name == service) {
            let Some(build) = service.recipe.build.as_mut() else { continue };
            if build.sources.remove(folder).is_some() {
                let named = files.iter().map(|(name, content)| (format!("{folder}{name}"), content.clone()));
                build.sources.extend(named);
            }
        }
    }

    /// Supplies the content of a file that [`Workload::files_wanted`] asked for. What is no text is no source of a
    /// build.
    pub fn supply_file(&mut self, service: &str, path: &str, content: Content) {
        for recipe in self.services.iter_mut().filter(|s| s.name == service).map(|s| &mut s.recipe) {
            for file in recipe.files.iter_mut().filter(|file| file.path == path) {
                file.content.clone_from(&content);
            }
            // Source names are relative, so none can be a path in the bundle as well.
            if let Some(source) = recipe.build.as_mut().and_then(|build| build.sources.get_mut(path)) {
                source.clear();
                source.push_str(content.text().unwrap_or_default());
            }
        }
    }
}

/// Marks an [`ExtraFile`](crate::bundle::ExtraFile) whose content has yet to be read. NUL cannot start a configuration
/// file.
const FILE_WANTED: &str = "\0file:";

/// Whether the load goes to this service, which may be the first one, and which of its ports the load names.
fn loaded(load: &Node, service: &str, first: bool) -> (bool, Option<String>) {
    let quiet = &mut Problems::default();
    let Some(mut fields) = Fields::of(load, "load", quiet) else { return (false, None) };
    let here = fields.text("service", quiet).map_or(first, |name| name == service);
    (here, fields.text("port", quiet).filter(|_| here))
}

fn read_protocol(
    node: &Node,
    services: &[Service],
    catalog: &dyn Catalog,
    problems: &mut Problems,
) -> Option<ProtocolUse> {
    let mut fields = Fields::of(node, "load", problems)?;
    let service_node = fields.get("service");
    let service_name = match service_node {
        Some(node) => node.text(problems)?,
        None => services.first()?.name.clone(),
    };
    let Some(service) = services.iter().find(|service| service.name == service_name) else {
        let known: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
        Node::unknown(&service_name, service_node.map_or(node.place, |n| n.place), "service", &known, problems);
        return None;
    };
    let kind_node = fields.require("protocol", problems)?;
    let (protocol, place, value) = kind_node.kind("a protocol", problems)?;
    let port_node = fields.get("port");
    let unit = fields.text("unit", problems);
    let spread_node = fields.get("spread");
    let Some(spoken) = catalog.protocol(protocol) else {
        let known: Vec<&str> = catalog.protocols().iter().map(|protocol| protocol.name()).collect();
        fields.finish(problems);
        Node::unknown(protocol, place, "protocol", &known, problems);
        return None;
    };
    let options = spoken.read(value, problems);
    let facts = options.as_ref().map(|options| spoken.facts(options)).unwrap_or_default();
    for other in facts.speaks_to.iter().filter(|other| services.iter().all(|service| service.name != **other)) {
        let known: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
        Node::unknown(other, value.place, "service", &known, problems);
    }
    let inside = facts.runs_inside;
    let port = match port_node {
        Some(node) => node.text(problems),
        None => service.ports.keys().next().cloned(),
    };
    let told = !service.awaits_ports();
    if let Some(image) = service.image.as_ref().filter(|_| port_node.is_none() && !inside) {
        let hint = format!("write for example 'port: {}'", port.as_deref().unwrap_or_default());
        image.refuse_to_choose(&service.ports, node.place, &hint, problems);
    }
    if told && port.as_ref().map_or(!inside && options.is_some(), |port| !service.ports.contains_key(port)) {
        let known: Vec<&str> = service.ports.keys().map(String::as_str).collect();
        let place = port_node.map_or(node.place, |node| node.place);
        match port.as_deref() {
            Some(port) => Node::unknown(port, place, &format!("port of service '{service_name}'"), &known, problems),
            None => {
                let message = format!("service '{service_name}' declares no ports, and the load needs one");
                problems.add(place, message, "add to the service, for example, ports: {main: 6379}");
            }
        }
    }
    let spread = spread_node.and_then(|node| node.boolean(problems)).unwrap_or(false);
    if let Some(node) = spread_node.filter(|_| spread && inside) {
        let message = "a tool inside runs beside one instance, and opens connections of its own";
        problems.add(node.place, message, "omit 'spread'");
    }
    let behaviours = fields.get("behaviours");
    fields.finish(problems);
    let options = options?;
    let ProtocolFacts { operations, variables, metrics, .. } = facts;
    let names = SpokenNames { operations, variables, behaviours: BTreeMap::new() };
    let behaviours = behaviours.map(|node| read_behaviours(node, &names, problems)).unwrap_or_default();
    let (protocol, service) = (protocol.to_owned(), service_name);
    Some(ProtocolUse { protocol, service, port, spread, options, unit, metrics, behaviours })
}

#[cfg(test)]
#[path = "workload/image_tests.rs"]
mod image_tests;
