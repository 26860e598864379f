//! A workload: what is deployed, what is asked of it, and what counts as a right answer. It never names a form.

use crate::bundle::{ExtraFile, Recipe, Source};
use crate::config::{Fields, Node, Place, Problems, parse};
use crate::parameters::{self, Parameters};
use crate::qos::Qos;
use crate::record::OwnMetric;
use crate::study::Catalog;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The JSON Schema (draft 2020-12) of workload files, less the protocols, which [`Catalog`] knows.
pub const FILE_SCHEMA: &str = include_str!("../assets/workload.schema.json");

/// The uid and gid of a service that names none: Debian's `nobody` and `nogroup`.
pub const NOBODY: u32 = 65_534;

/// A workload, read from `workload.yaml` and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name, which is also its folder's.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// The services, in the order in which they start.
    pub services: Vec<Service>,
    /// The load's protocol and where it is spoken.
    pub protocol: ProtocolUse,
    /// What its users expect, unless a study asks for something else.
    #[serde(default)]
    pub qos: Option<Qos>,
    /// The values of its parameters, which stand in its fields already.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
}

/// What the load speaks, and to whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProtocolUse {
    /// The protocol's name in the table of protocols.
    pub protocol: String,
    /// The service that is addressed.
    pub service: String,
    /// The port of that service, by name; none where the load is a tool inside the form that needs no port.
    #[serde(default)]
    pub port: Option<String>,
    /// The options as the protocol itself wrote them down after checking the user's, every default filled in.
    pub options: serde_json::Value,
    /// What one operation is, where it counts something that has a unit of its own: MB, IO. Throughput is then so many
    /// of them a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The metrics that the load has beside those of every trial; ratios are made of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<OwnMetric>,
}

/// One long-running program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// How its root filesystem is made.
    pub recipe: Recipe,
    /// The program, an absolute path in the bundle, and its arguments.
    pub command: Vec<String>,
    /// Its environment; nothing else is inherited, in any form.
    pub environment: BTreeMap<String, String>,
    /// User and group ids it runs as, in every form.
    pub user: (u32, u32),
    /// Port numbers by name.
    pub ports: BTreeMap<String, u16>,
    /// When it counts as ready.
    pub ready: Readiness,
    /// Paths in the bundle at which it may write, each with the bytes it may need.
    pub volumes: BTreeMap<String, u64>,
    /// What it is given, the same in every form.
    pub resources: Resources,
    /// How long it may take to end after SIGTERM.
    pub stop_within: Duration,
    /// Named options with named levels; a study chooses levels. Resolved into `command` before anything starts.
    pub options: BTreeMap<String, ServiceOption>,
}

/// An option of a service, such as how durable it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceOption {
    /// The level that holds when the study names none.
    pub default: String,
    /// The arguments that each level adds to the command.
    pub levels: BTreeMap<String, Vec<String>>,
}

/// When a service counts as ready. Asked from where the load will come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// A TCP connection to this port (by name) is accepted and one operation of the load's protocol, if it is spoken
    /// there, succeeds.
    Port {
        /// The port's name.
        port: String,
        /// How long it may take.
        within: Duration,
    },
    /// A line with this text stands in its output.
    Log {
        /// The text.
        text: String,
        /// How long it may take.
        within: Duration,
    },
}

impl Readiness {
    /// How long the service may take to become ready.
    pub fn within(&self) -> Duration {
        match self {
            Readiness::Port { within, .. } | Readiness::Log { within, .. } => *within,
        }
    }
}

/// What a service is given, the same in every form, enforced in each by its own means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// Whole CPUs it may run on; a guest gets as many virtual ones.
    pub cpus: u32,
    /// CPU time per second of real time, in CPUs, enforced by quota; none is unlimited.
    pub cpu_quota: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

impl Workload {
    /// Reads `workload.yaml`. Relative paths in it (`folder:`, `image:`) are relative to `folder`.
    /// Files named under `files:` are listed in the result with empty content: the caller, who may do I/O, fills them
    /// in with [`Workload::files_wanted`] and [`Workload::supply_file`]. `chosen` goes over the defaults of its
    /// parameters.
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
        if let Some(node) = fields.require("services", problems)
            && let Some(entries) = Fields::of(node, "services", problems)
        {
            if entries.entries().is_empty() {
                problems.add(node.place, "a workload needs at least one service", "");
            }
            for (key, place, node) in entries.entries() {
                services.extend(read_service(key, *place, node, folder, problems));
            }
        }
        let protocol = fields.require("load", problems).and_then(|n| read_protocol(n, &services, catalog, problems));
        let known = protocol.as_ref().map(|spoken| catalog.protocol_operations(&spoken.protocol, &spoken.options));
        let qos = fields.get("qos").and_then(|node| Qos::read(node, &known.unwrap_or_default(), problems));
        fields.get("parameters");
        fields.finish(problems);
        if problems.len() > before {
            return None;
        }
        Some(Workload { name: name?, about, services, protocol: protocol?, qos, parameters })
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

    /// The files whose content the caller must supply: (service, path in the bundle, path on this machine).
    pub fn files_wanted(&self) -> Vec<(String, String, PathBuf)> {
        let mut wanted = Vec::new();
        for service in &self.services {
            for file in &service.recipe.files {
                if let Some(path) = file.content.strip_prefix(FILE_WANTED) {
                    wanted.push((service.name.clone(), file.path.clone(), PathBuf::from(path)));
                }
            }
        }
        wanted
    }

    /// Supplies the content of a file that [`Workload::files_wanted`] asked for.
    pub fn supply_file(&mut self, service: &str, path: &str, content: String) {
        let files = self.services.iter_mut().filter(|s| s.name == service).flat_map(|s| &mut s.recipe.files);
        for file in files.filter(|file| file.path == path) {
            file.content.clone_from(&content);
        }
    }
}

/// Marks an [`ExtraFile`] whose content has yet to be read. NUL cannot start a configuration file.
const FILE_WANTED: &str = "\0file:";

fn read_service(name: &str, place: Place, node: &Node, folder: &Path, problems: &mut Problems) -> Option<Service> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        problems.add(place, format!("'{name}' cannot name a service"), "use a-z, 0-9 and -");
    }
    let mut fields = Fields::of(node, format!("service '{name}'"), problems)?;
    let source = fields.require("bundle", problems).and_then(|node| read_source(node, folder, problems));
    let files = fields.get("files").map(|node| read_files(node, folder, problems)).unwrap_or_default();
    let command_place = fields.get("command").map_or(place, |node| node.place);
    let command = fields.require("command", problems).and_then(|_| fields.texts("command", problems));
    if command.as_ref().is_some_and(|c| c.first().is_none_or(|program| !program.starts_with('/'))) {
        let hint = "start it with '/', the path of the program inside the bundle";
        problems.add(command_place, "the command must name a program by its absolute path", hint);
    }
    let environment = fields.get("environment").map(|node| read_texts(node, problems)).unwrap_or_default();
    let user = fields.get("user").and_then(|node| read_user(node, problems)).unwrap_or((NOBODY, NOBODY));
    let ports = fields.get("ports").map(|node| read_ports(node, problems)).unwrap_or_default();
    let ready = read_ready(&mut fields, &ports, problems);
    let volumes = fields.get("volumes").map(|node| read_volumes(node, problems)).unwrap_or_default();
    let resources = read_resources(&mut fields, problems);
    let stop_within = fields.duration("stop_within", problems).unwrap_or(Duration::from_secs(10));
    let options = fields.get("options").map(|node| read_options(node, problems)).unwrap_or_default();
    fields.finish(problems);
    Some(Service {
        name: name.to_owned(),
        recipe: Recipe { source: source?, files },
        command: command?,
        environment,
        user,
        ports,
        ready: ready?,
        volumes,
        resources: resources?,
        stop_within,
        options,
    })
}

fn read_source(node: &Node, folder: &Path, problems: &mut Problems) -> Option<Source> {
    let (kind, place, value) = node.kind("a bundle", problems)?;
    match kind {
        "packages" => {
            let names: Vec<String> = value.items(problems)?.iter().filter_map(|n| n.text(problems)).collect();
            let fits = |c: char| c.is_ascii_alphanumeric() || "+-.:=~".contains(c);
            for (name, item) in names.iter().zip(value.items(problems)?) {
                if name.is_empty() || name.starts_with('-') || !name.chars().all(fits) {
                    problems.add(item.place, format!("'{name}' cannot be the name of a Debian package"), "");
                }
            }
            Some(Source::Packages(names))
        }
        "image" => {
            let text = value.text(problems)?;
            let is_path = text.starts_with('.') || text.starts_with('/');
            Some(Source::Image(if is_path { folder.join(text).display().to_string() } else { text }))
        }
        "folder" => Some(Source::Folder(folder.join(value.text(problems)?))),
        other => {
            Node::unknown(other, place, "kind of bundle", &["packages", "image", "folder"], problems);
            None
        }
    }
}

fn read_files(node: &Node, folder: &Path, problems: &mut Problems) -> Vec<ExtraFile> {
    let Some(fields) = Fields::of(node, "files", problems) else { return Vec::new() };
    let mut files = Vec::new();
    for (path, place, value) in fields.entries() {
        if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
            problems.add(*place, "the path inside the bundle must be absolute, without '..'", "");
        }
        let Some(local) = value.text(problems) else { continue };
        if local.starts_with('/') || local.split('/').any(|part| part == "..") {
            problems.add(value.place, "a workload's files stand in its own folder", "name a file of that folder");
        }
        let content = format!("{FILE_WANTED}{}", folder.join(local).display());
        files.push(ExtraFile { path: path.clone(), content, mode: 0o644 });
    }
    files.sort();
    files
}

fn read_texts(node: &Node, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(fields) = Fields::of(node, "the environment", problems) else { return BTreeMap::new() };
    fields.entries().iter().filter_map(|(key, _, value)| Some((key.clone(), value.text(problems)?))).collect()
}

fn read_user(node: &Node, problems: &mut Problems) -> Option<(u32, u32)> {
    let text = node.text(problems)?;
    let (uid, gid) = text.split_once(':').unwrap_or((&text, &text));
    match (uid.parse(), gid.parse()) {
        (Ok(0), _) => {
            problems.add(node.place, "a service runs unprivileged, never as user 0", "name another uid, such as 65534");
            None
        }
        (Ok(uid), Ok(gid)) => Some((uid, gid)),
        _ => {
            let hint = "names differ between forms, numbers do not; write for example 999:999";
            problems.add(node.place, format!("'{text}' is not a numeric user id"), hint);
            None
        }
    }
}

fn read_ports(node: &Node, problems: &mut Problems) -> BTreeMap<String, u16> {
    let Some(fields) = Fields::of(node, "ports", problems) else { return BTreeMap::new() };
    let entries = fields.entries().iter();
    entries.filter_map(|(key, _, value)| Some((key.clone(), value.integer(1..=65_535, problems)? as u16))).collect()
}

fn read_ready(fields: &mut Fields, ports: &BTreeMap<String, u16>, problems: &mut Problems) -> Option<Readiness> {
    let place = fields.place();
    let default_within = Duration::from_secs(30);
    let Some(node) = fields.get("ready") else {
        let Some(port) = ports.keys().next() else {
            problems.add(place, "nothing says when this service is ready", "add 'ports:' or 'ready:'");
            return None;
        };
        return Some(Readiness::Port { port: port.clone(), within: default_within });
    };
    let mut ready = Fields::of(node, "ready", problems)?;
    let within = ready.duration("within", problems).unwrap_or(default_within);
    let port = ready.get("port");
    let log = ready.text("log", problems);
    ready.finish(problems);
    match (port, log) {
        (Some(node), None) => {
            let port = node.text(problems)?;
            if !ports.contains_key(&port) {
                let known: Vec<&str> = ports.keys().map(String::as_str).collect();
                Node::unknown(&port, node.place, "port", &known, problems);
            }
            Some(Readiness::Port { port, within })
        }
        (None, Some(text)) => Some(Readiness::Log { text, within }),
        _ => {
            problems.add(node.place, "ready takes either 'port' or 'log'", "");
            None
        }
    }
}

fn read_volumes(node: &Node, problems: &mut Problems) -> BTreeMap<String, u64> {
    let Some(fields) = Fields::of(node, "volumes", problems) else { return BTreeMap::new() };
    let mut volumes = BTreeMap::new();
    for (path, place, value) in fields.entries() {
        if !path.starts_with('/') || path.len() < 2 || path.split('/').any(|part| part == "..") {
            problems.add(*place, "a volume's path must be absolute, without '..'", "");
        }
        if let Some(bytes) = value.bytes(problems) {
            volumes.insert(path.clone(), bytes);
        }
    }
    volumes
}

fn read_resources(fields: &mut Fields, problems: &mut Problems) -> Option<Resources> {
    let place = fields.place();
    let mut resources = Resources { cpus: 1, cpu_quota: None, memory_bytes: 512 << 20 };
    if let Some(node) = fields.get("resources") {
        resources = update_resources(node, resources, problems)?;
    }
    if let Some(quota) = resources.cpu_quota.filter(|quota| *quota > f64::from(resources.cpus)) {
        let message = format!("a quota of {quota} CPUs on {} CPUs can never be used", resources.cpus);
        problems.add(place, message, "lower 'cpu_quota' or raise 'cpus'");
    }
    Some(resources)
}

/// Reads a `resources:` map over what holds otherwise. Used by workloads and, to override them, by studies.
pub(crate) fn update_resources(node: &Node, base: Resources, problems: &mut Problems) -> Option<Resources> {
    let mut fields = Fields::of(node, "resources", problems)?;
    let cpus = fields.integer("cpus", 1..=4096, problems).map_or(base.cpus, |cpus| cpus as u32);
    let cpu_quota = match fields.get("cpu_quota") {
        Some(node) => node.number(problems).filter(|quota| {
            let fits = *quota >= 0.01;
            if !fits {
                problems.add(node.place, "a quota below 0.01 CPU starts nothing", "write CPUs, such as 0.5");
            }
            fits
        }),
        None => base.cpu_quota,
    };
    let memory_bytes = match fields.get("memory") {
        Some(node) => {
            let bytes = node.bytes(problems)?;
            if bytes < 8 << 20 {
                problems.add(node.place, "less than 8 MiB of memory starts nothing", "write for example 256MiB");
            }
            bytes
        }
        None => base.memory_bytes,
    };
    fields.finish(problems);
    Some(Resources { cpus, cpu_quota, memory_bytes })
}

fn read_options(node: &Node, problems: &mut Problems) -> BTreeMap<String, ServiceOption> {
    let Some(fields) = Fields::of(node, "options", problems) else { return BTreeMap::new() };
    let mut options = BTreeMap::new();
    for (name, _, node) in fields.entries() {
        let Some(mut option) = Fields::of(node, format!("option '{name}'"), problems) else { continue };
        let default_node = option.require("default", problems);
        let default = default_node.and_then(|node| node.text(problems)).unwrap_or_default();
        let mut levels = BTreeMap::new();
        if let Some(node) = option.require("levels", problems)
            && let Some(entries) = Fields::of(node, "levels", problems)
        {
            for (level, _, arguments) in entries.entries() {
                let items = arguments.items(problems).unwrap_or_default();
                let arguments = items.iter().map(|item| item.text(problems).unwrap_or_default()).collect();
                levels.insert(level.clone(), arguments);
            }
        }
        option.finish(problems);
        if let Some(node) = default_node.filter(|_| !levels.contains_key(&default)) {
            let known: Vec<&str> = levels.keys().map(String::as_str).collect();
            Node::unknown(&default, node.place, "level", &known, problems);
        }
        options.insert(name.clone(), ServiceOption { default, levels });
    }
    options
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
    let known = catalog.protocols();
    let port_node = fields.get("port");
    let unit = fields.text("unit", problems);
    if !known.contains(&protocol) {
        fields.finish(problems);
        Node::unknown(protocol, place, "protocol", &known, problems);
        return None;
    }
    let options = catalog.protocol_options(protocol, value, problems);
    let inside = options.as_ref().is_some_and(|options| catalog.protocol_runs_inside(protocol, options));
    let port = match port_node {
        Some(node) => node.text(problems),
        None => service.ports.keys().next().cloned(),
    };
    if port.as_ref().map_or(!inside && options.is_some(), |port| !service.ports.contains_key(port)) {
        let known: Vec<&str> = service.ports.keys().map(String::as_str).collect();
        let place = port_node.map_or(node.place, |node| node.place);
        let port = port.as_deref().unwrap_or_default();
        Node::unknown(port, place, &format!("port of service '{service_name}'"), &known, problems);
    }
    fields.finish(problems);
    let options = options?;
    let metrics = catalog.protocol_metrics(protocol, &options);
    Some(ProtocolUse { protocol: protocol.to_owned(), service: service_name, port, options, unit, metrics })
}
