//! Reads the services of a project: what a workload has a word for is kept, and each other key is named in a note.

mod ignored;
mod limits;
mod nested;
mod ports;
mod sharing;
mod variables;
mod volumes;

pub(crate) use nested::sections;
pub(crate) use sharing::share;
pub(crate) use volumes::VOLUME_BYTES;

use crate::build;
use crate::disk::Disk;
use crate::keys::Keys;
use crate::known;
use crate::model::{Alias, Condition, Dependency, Health, Ready, Service, Words};
use crate::project::{Environment, Project};
use crate::shell;
use crate::sources::{At, Sources, Weight};
use crate::yaml::{Entry, Kind, Value};
use ignored::{Fate, KEYS};
use sharing::{Mounted, Taken};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tare_core::bundle::{ENGINE_IMAGE, is_own_image_name};
use tare_core::image::ImageConfig;
use tare_core::workload::{StopSignal, why_not_in_image};

/// Finds an image: the source that a workload names, and what the image says, if that is known.
pub(crate) type FindImage<'a> = dyn Fn(&str) -> (String, Option<ImageConfig>) + 'a;

/// Reads services, one after the other.
pub(crate) struct Reader<'a> {
    /// The files of this machine.
    pub(crate) disk: &'a dyn Disk,
    /// The variables of whoever runs this program.
    pub(crate) process: &'a Environment,
    /// Finds images.
    pub(crate) find_image: &'a FindImage<'a>,
    /// The file that is read.
    pub(crate) project: &'a Project,
    /// Its name.
    pub(crate) name: &'a str,
    /// The folder of the Compose file.
    pub(crate) root: &'a Path,
    /// Where mistakes and notes go.
    pub(crate) sources: &'a mut Sources,
    /// Where named volumes are mounted.
    pub(crate) mounted: Vec<Mounted>,
    /// Which services have the volumes of others.
    pub(crate) taken: Vec<Taken>,
}

impl Reader<'_> {
    /// Reads a service. `None` for one that is not deployed, or cannot be read: then a mistake was added.
    pub(crate) fn service(&mut self, entry: &Entry, own: String) -> Option<Service> {
        let mut keys = Keys::of(&entry.value, format!("service '{}'", entry.key), self.sources)?;
        keys.know(&["profiles", "extends"]);
        let mut service = blank(entry, own);
        self.image(&mut keys, &mut service)?;
        let of_image = service.says.as_ref().and_then(|says| says.health.clone());
        service.health = of_image.map(|check| Health { at: None, check });
        service.entrypoint = keys.get("entrypoint").and_then(|entry| self.words(&entry.value, entry.at));
        service.command = keys.get("command").and_then(|entry| self.words(&entry.value, entry.at));
        if let Some(entry) = keys.get("env_file") {
            self.env_files(&entry.value, &mut service);
        }
        if let Some(entry) = keys.get("environment") {
            self.environment(&entry.value, &mut service);
        }
        self.person(&mut keys, &mut service);
        self.listens(&mut keys, &mut service);
        self.reached(&mut keys, &mut service);
        self.shares_network(&mut keys, &mut service);
        self.depends(&mut keys, &mut service);
        if let Some(entry) = keys.get("volumes") {
            self.volumes(&entry.value, &mut service);
        }
        if let Some(entry) = keys.get("volumes_from") {
            self.volumes_from(&entry.value, &mut service);
        }
        if let Some(entry) = keys.get("tmpfs") {
            self.tmpfs(&entry.value, &mut service);
        }
        for section in ["secrets", "configs"] {
            if let Some(entry) = keys.get(section) {
                self.given(section, &entry.value, &mut service);
            }
        }
        let deployed = limits::read(&mut keys, &mut service, self.sources);
        if let Some(entry) = keys.get("healthcheck") {
            limits::health(&entry.value, &mut service, self.sources);
        }
        self.ends(&mut keys, &mut service);
        for &(name, fate) in KEYS {
            let Some(entry) = keys.get(name) else { continue };
            nested::check_service(entry, self.sources);
            let Fate::Noted(weight, instead) = fate else { continue };
            let idle = matches!(entry.value.scalar(), Some("" | "false" | "0" | "bridge"));
            if !idle {
                self.sources.note(entry.at, service.key(name), weight, instead);
            }
        }
        keys.finish(self.sources);
        deployed.then_some(service)
    }

    /// The image, or the one that an engine builds.
    fn image(&mut self, keys: &mut Keys, service: &mut Service) -> Option<()> {
        let build = keys.get("build");
        let named = keys.text("image", self.sources);
        let name = match (&named, build) {
            (Some(name), _) => name.clone(),
            // As Compose calls what it builds.
            (None, Some(_)) => format!("{}-{}", self.name, service.name),
            (None, None) => {
                let message = format!("service '{}' has neither 'image' nor 'build'", service.name);
                self.sources.wrong(service.at, message, "add 'image:' here");
                return None;
            }
        };
        if name.trim().is_empty() || name.contains(char::is_whitespace) {
            self.sources.wrong(service.at, format!("'{name}' is no image's name"), "write for example redis:7");
            return None;
        }
        if build.is_some() && is_own_image_name(&name) {
            let at = keys.get("image").map_or(service.at, |entry| entry.value.at);
            let message = format!("'{name}' is a name of Tare's own images, whose place the build would take");
            self.sources.wrong(at, message, "give 'image:' another name");
            return None;
        }
        let (source, says) = (self.find_image)(&name);
        let made = (service.name.as_str(), name.as_str());
        service.build = build.map(|entry| build::read(entry, made, (self.project, self.root), self.sources));
        // What is built is nowhere but in the engine.
        let in_engine = build.is_some() && says.is_none() && source == name;
        service.image = if in_engine { format!("{ENGINE_IMAGE}{name}") } else { source };
        service.says = says;
        Some(())
    }

    /// A command as a list, or as one text that is split into words.
    fn words(&mut self, value: &Value, at: At) -> Option<Words> {
        let words = match &value.kind {
            Kind::List(items) => {
                let items = items.clone();
                items.iter().filter_map(|item| if item.is_null() { None } else { item.text(self.sources) }).collect()
            }
            _ => match shell::split(&value.text(self.sources)?) {
                Ok(words) => words,
                Err(why) => {
                    self.sources.wrong(value.at, why, "write a list: [program, argument, ...]");
                    return None;
                }
            },
        };
        Some(Words { at, words })
    }

    /// Who runs it, and where.
    fn person(&mut self, keys: &mut Keys, service: &mut Service) {
        service.directory = keys.get_filled("working_dir").and_then(|entry| {
            let text = entry.value.text(self.sources)?;
            if text.starts_with('/') && text.split('/').all(|part| part != "..") {
                return Some(text);
            }
            self.sources.wrong(entry.value.at, "the directory must be an absolute path, without '..'", "");
            None
        });
        let Some(entry) = keys.get_filled("user") else { return };
        let Some(text) = entry.value.text(self.sources) else { return };
        let (user, group) = text.split_once(':').unwrap_or((&text, ""));
        let [user, group] = [user, group].map(|name| if name == "root" { "0" } else { name });
        let key = service.key("user");
        let numbers = (user.parse::<u32>(), if group.is_empty() { user.parse() } else { group.parse::<u32>() });
        let instead = match numbers {
            (Ok(user), Ok(group)) if why_not_in_image((user, group)).is_none() => {
                service.user = Some((user, group));
                if !text.contains(':') && user != 0 && service.says.is_none() {
                    let instead = "its group is the one of the same number, whatever the image's /etc/passwd says";
                    self.sources.note(entry.at, key, Weight::Differs, instead);
                }
                return;
            }
            (Ok(_), Ok(_)) => "users above 65535 cannot be had: the service runs as its image's user",
            _ => "a workload names users by number: the service runs as its image's user",
        };
        self.sources.note(entry.at, key, Weight::Differs, instead);
    }

    fn listens(&mut self, keys: &mut Keys, service: &mut Service) {
        if let Some(entry) = keys.get("ports") {
            let ports = ports::read(&entry.value, &service.key("ports"), self.sources);
            service.published = telling(&ports, &service.image);
            service.ports.extend(ports);
        }
        if let Some(entry) = keys.get("expose") {
            let ports = ports::read(&entry.value, &service.key("expose"), self.sources);
            service.ports.extend(ports);
        }
    }

    /// The names by which others reach it.
    fn reached(&mut self, keys: &mut Keys, service: &mut Service) {
        for key in ["container_name", "hostname"] {
            let Some(entry) = keys.get_filled(key) else { continue };
            let name = entry.value.text(self.sources);
            service.aliases.extend(name.map(|name| Alias { name, at: entry.at, key }));
        }
        let Some(entry) = keys.get("networks") else { return };
        for network in entry.value.entries() {
            let what = format!("network '{}' of service '{}'", network.key, service.name);
            let Some(mut keys) = Keys::of(&network.value, what, self.sources) else { continue };
            keys.know(&["priority", "gw_priority", "interface_name"]);
            if let Some(entry) = keys.get("aliases") {
                for alias in entry.value.items(self.sources).to_vec() {
                    let name = alias.text(self.sources);
                    service.aliases.extend(name.map(|name| Alias { name, at: alias.at, key: "networks.aliases" }));
                }
            }
            for name in ["ipv4_address", "ipv6_address", "link_local_ips", "mac_address", "driver_opts"] {
                if let Some(entry) = keys.get(name) {
                    let instead = "the form decides which addresses services have";
                    self.sources.note(entry.at, service.key(&format!("networks.{name}")), Weight::Differs, instead);
                }
            }
            keys.finish(self.sources);
        }
        let names: Vec<(String, At)> = match &entry.value.kind {
            Kind::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.at)).collect(),
            _ => {
                let items = entry.value.items(self.sources).to_vec();
                items.iter().filter_map(|item| Some((item.text(self.sources)?, item.at))).collect()
            }
        };
        let declared = self.project.section("networks");
        for (name, at) in names.iter().filter(|(name, _)| name != "default") {
            if declared.iter().all(|entry| entry.key != *name) {
                let known: Vec<&str> = declared.iter().map(|entry| entry.key.as_str()).collect();
                self.sources.unknown(*at, format!("there is no network '{name}'"), name, &known);
            }
        }
    }

    /// Whose network it shares.
    fn shares_network(&mut self, keys: &mut Keys, service: &mut Service) {
        let Some(entry) = keys.get_filled("network_mode") else { return };
        let mode = entry.value.text(self.sources).unwrap_or_default();
        let (weight, instead) = match mode.split_once(':') {
            None if mode == "host" => {
                service.on_machine = true;
                let instead = "it has the machine's network in the forms that have it; in others 'localhost' is the \
                               service alone, so that it must call other services by their names";
                (Weight::Differs, instead.to_owned())
            }
            None if ["bridge", "default", ""].contains(&mode.as_str()) => return,
            None if mode == "none" => (Weight::Differs, "it has a network, as each service of a form has".to_owned()),
            Some(("container", other)) => {
                let instead = format!("the container '{other}' is not of this file, so it is not deployed");
                (Weight::Stops, instead)
            }
            Some((_, other)) => {
                let instead = format!(
                    "it reaches '{other}' at localhost only in forms that have the machine's network: call '{other}' by \
                     its name, and leave this key out"
                );
                (Weight::Stops, instead)
            }
            None => (Weight::Differs, ignored::NETWORK.to_owned()),
        };
        self.sources.note(entry.at, service.key("network_mode"), weight, instead);
    }

    /// What starts before it.
    fn depends(&mut self, keys: &mut Keys, service: &mut Service) {
        let condition = Condition::Started;
        if let Some(entry) = keys.get("links") {
            for item in entry.value.items(self.sources).to_vec() {
                let Some(text) = item.text(self.sources) else { continue };
                let (name, alias) = text.split_once(':').unwrap_or((&text, ""));
                service.after.push(Dependency { name: name.to_owned(), at: item.at, optional: false, condition });
                if !alias.is_empty() && alias != name {
                    let alias = Alias { name: alias.to_owned(), at: item.at, key: "links" };
                    service.calls.push((name.to_owned(), alias));
                }
            }
        }
        let Some(entry) = keys.get("depends_on") else { return };
        let Kind::Map(entries) = &entry.value.kind else {
            for item in entry.value.items(self.sources).to_vec() {
                if let Some(name) = item.text(self.sources) {
                    service.after.push(Dependency { name, at: item.at, optional: false, condition });
                }
            }
            return;
        };
        for Entry { key, at, value, .. } in entries {
            let Some(mut keys) = Keys::of(value, "a dependency", self.sources) else { continue };
            keys.know(&["restart"]);
            let condition = keys.get("condition");
            let optional = !keys.flag("required", true, self.sources);
            keys.finish(self.sources);
            let stated = condition.and_then(|entry| Some((entry.value.at, entry.value.text(self.sources)?)));
            let condition = match stated.as_ref().map(|(_, text)| text.as_str()) {
                None | Some("service_started") => Condition::Started,
                Some("service_healthy") => Condition::Healthy,
                Some("service_completed_successfully") => Condition::Completed,
                Some(other) => {
                    let known = ["service_started", "service_healthy", "service_completed_successfully"];
                    let place = stated.as_ref().map_or(*at, |(place, _)| *place);
                    self.sources.unknown(place, format!("there is no condition '{other}'"), other, &known);
                    Condition::Started
                }
            };
            service.after.push(Dependency { name: key.clone(), at: *at, optional, condition });
        }
    }

    /// How it is ended, and that it is not started again.
    fn ends(&mut self, keys: &mut Keys, service: &mut Service) {
        let restart = keys.get_filled("restart");
        service.once =
            restart.filter(|entry| matches!(entry.value.scalar(), Some("no" | "false"))).map(|entry| entry.at);
        if let Some(entry) = keys.get_filled("stop_grace_period") {
            service.stop_within = entry.value.duration(self.sources);
        }
        if let Some(entry) = keys.get_filled("stop_signal")
            && let Some(signal) = entry.value.text(self.sources)
        {
            service.stop_signal = StopSignal::parse(&signal);
            if service.stop_signal.is_none() {
                let told = format!("there is no signal '{signal}'");
                self.sources.wrong(entry.value.at, &told, "name one as in `kill -l`, such as SIGQUIT");
            }
        }
    }
}

/// Of the ports that are published, the first whose protocol is known, else the first.
fn telling(ports: &[u16], image: &str) -> Option<u16> {
    let usual = known::image(image).map(|known| known.port);
    let tells = |port: &&u16| known::speaks(**port, "").is_some() || usual == Some(**port);
    ports.iter().find(tells).or(ports.first()).copied()
}

fn blank(entry: &Entry, own: String) -> Service {
    Service {
        name: entry.key.clone(),
        own,
        at: entry.at,
        image: String::new(),
        says: None,
        build: None,
        entrypoint: None,
        command: None,
        environment: Vec::new(),
        user: None,
        directory: None,
        ports: BTreeSet::new(),
        published: None,
        aliases: Vec::new(),
        calls: Vec::new(),
        names: Vec::new(),
        after: Vec::new(),
        volumes: BTreeMap::new(),
        files: BTreeMap::new(),
        cpus: None,
        cpuset: None,
        memory: None,
        stop_signal: None,
        stop_within: None,
        within: None,
        health: None,
        ready: Ready::Port,
        on_machine: false,
        once: None,
    }
}
