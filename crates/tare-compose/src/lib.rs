//! Reads Compose files, and writes workloads of them.
//!
//! A Compose file says how containers are started; a workload says the same of services that stand in any form. This
//! crate reads the one, with what it includes and extends, and writes the other. Each key that cannot mean the same in
//! all forms becomes a [`Note`] with its place and what happens instead; a key that Compose does not know is a mistake.
//! It opens no file, asks no engine and starts nothing: the binary hands it a [`Disk`] and what it knows of images.

mod addresses;
mod build;
mod called;
mod disk;
mod dotenv;
mod interpolate;
mod keys;
mod known;
mod merge;
mod model;
mod names;
mod order;
mod project;
mod read;
mod shell;
mod sources;
mod stack;
mod write;
mod yaml;

pub use build::Build;
pub use disk::{Disk, Thing};
pub use sources::{Note, Weight, beneath, plain};
pub use stack::Stack;

use addresses::{Addresses, usual_ports};
use model::{Condition, Ready, Service, Words};
use order::Order;
use project::{Loader, Project};
use read::{Reader, VOLUME_BYTES};
use sources::Sources;
use stack::Planned;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tare_core::config::Problem;
use tare_core::image::ImageConfig;
use tare_core::units::exact_duration;
use yaml::Entry;

/// What is around a Compose file.
pub struct Around<'a> {
    /// The files of this machine.
    pub disk: &'a dyn Disk,
    /// The files that are put over the one that is imported, in this order.
    pub over: &'a [PathBuf],
    /// The variables of whoever runs this program.
    pub environment: &'a BTreeMap<String, String>,
    /// The profiles that are asked for; `*` is all of them.
    pub profiles: &'a [String],
    /// The name of the file's folder, after which a project is called that has no name.
    pub folder: &'a str,
    /// Finds an image by the name that the Compose file gives it: the image as a workload names it, and what it says,
    /// if that is known.
    pub image: &'a dyn Fn(&str) -> (String, Option<ImageConfig>),
    /// The service that gets the load; none to choose one.
    pub service: Option<&'a str>,
    /// Whether images that are not known now will be when the file is imported again: what depends on them is then not
    /// told yet.
    pub images_follow: bool,
}

/// A workload made of a Compose file.
#[derive(Debug, Clone)]
pub struct Imported {
    /// Its name.
    pub name: String,
    /// The files of its folder, by their names: `workload.yaml`, `study.yaml`, and what was copied.
    pub files: BTreeMap<String, String>,
    /// Of what was copied, the files that are no text.
    pub other_files: BTreeMap<String, Vec<u8>>,
    /// The keys that cannot mean the same in all forms, in the order of their places.
    pub notes: Vec<Note>,
    /// What the Compose file leaves open and was assumed, a sentence each, with where to change it.
    pub assumed: Vec<String>,
    /// Which load the files have, a sentence with where to change it.
    pub load: String,
    /// The images that an engine must build first.
    pub built: Vec<Build>,
    /// The services, for whoever chooses another load for them.
    pub stack: Stack,
}

impl Imported {
    /// Whether anything keeps it from running in every form until it is edited.
    pub fn is_stopped(&self) -> bool {
        self.notes.iter().any(|note| note.weight == Weight::Stops)
    }
}

/// Makes a workload of the Compose file at `file`.
///
/// # Errors
/// All mistakes in it and in the files that it names.
pub fn import(file: &Path, around: &Around) -> Result<Imported, Vec<Problem>> {
    let mut sources = Sources::default();
    let made = make(file, around, &mut sources);
    let failed = sources.mistakes() > 0;
    let (problems, notes) = sources.finish();
    match made {
        Some(made) if !failed => Ok(Imported { notes, ..made }),
        _ => Err(problems),
    }
}

fn make(file: &Path, around: &Around, sources: &mut Sources) -> Option<Imported> {
    let mut loader = Loader::new(around.disk, around.environment, &mut *sources);
    let project = loader.project(file, around.over)?;
    let name = project_name(project.name.as_deref().unwrap_or(around.folder));
    let (wanted, left_out) = chosen(&project, around, sources);
    if wanted.is_empty() {
        let hint = "add 'services:', or ask for a profile by --profile";
        sources.wrong(project.at(), "there is no service to deploy", hint);
        return None;
    }
    let (mut services, left_out) = read_services(file, &project, &name, around, wanted, left_out, sources);
    called::settle(&mut services, sources);
    let mut order = Order::of(&services, &left_out, sources);
    Addresses::new(&services, &left_out, &mut order, sources).put_in(&mut services);
    note_networks(&project, sources);
    read::sections(&project, sources);
    choose_ready(&mut services, sources);
    let sorted = order.sorted();
    if sources.mistakes() > 0 || sorted.len() < services.len() || services.is_empty() {
        return None;
    }
    let stack = plan((file, &name), (&project, around), &services, &sorted, sources);
    let mut made = Imported {
        name,
        files: BTreeMap::new(),
        other_files: BTreeMap::new(),
        notes: Vec::new(),
        assumed: assumed(&services, &left_out),
        load: String::new(),
        built: services.iter().filter_map(|service| service.build.clone()).collect(),
        stack,
    };
    for over in around.over {
        let [over, file] = [over.as_path(), file].map(|path| path.display());
        made.assumed.push(format!("{over} is put over {file}; name {file} to import it alone"));
    }
    write_files(&services, &mut made);
    Some(made)
}

/// A name that a workload's folder may have.
fn project_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let plain: String = lower.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    let plain = plain.trim_matches(['-', '_']);
    // A study's name has at most 60 characters, and all of these are ASCII.
    if plain.is_empty() { "compose".to_owned() } else { plain[..plain.len().min(60)].to_owned() }
}

/// The services whose profiles are asked for, and the names of the others.
fn chosen<'p>(project: &'p Project, around: &Around, sources: &mut Sources) -> (Vec<&'p Entry>, Vec<String>) {
    let stated = project.environment.get("COMPOSE_PROFILES").map(String::as_str).unwrap_or_default();
    let mut asked: Vec<&str> = stated.split(',').filter(|name| !name.is_empty()).collect();
    asked.extend(around.profiles.iter().map(String::as_str));
    let (mut wanted, mut left_out) = (Vec::new(), Vec::new());
    let mut known = BTreeSet::new();
    for entry in project.section("services") {
        let profiles = entry.value.entries().iter().find(|entry| entry.key == "profiles");
        let items = profiles.map(|entry| entry.value.items(sources).to_vec()).unwrap_or_default();
        let names: Vec<String> = items.iter().filter_map(|item| item.text(sources)).collect();
        let is_asked = |name: &String| asked.contains(&"*") || asked.contains(&name.as_str());
        if names.is_empty() || names.iter().any(is_asked) {
            wanted.push(entry);
        } else {
            left_out.push(entry.key.clone());
        }
        known.extend(names);
    }
    for name in around.profiles.iter().filter(|name| *name != "*" && !known.contains(*name)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let message = format!("no service has the profile '{name}'");
        if known.is_empty() {
            sources.wrong(project.at(), message, "leave --profile out: no service here has profiles");
        } else {
            sources.unknown(project.at(), message, name, &known);
        }
    }
    (wanted, left_out)
}

/// Reads the services that are wanted; those that are scaled to nothing are left out, too.
fn read_services(
    file: &Path,
    project: &Project,
    name: &str,
    around: &Around,
    wanted: Vec<&Entry>,
    mut left_out: Vec<String>,
    sources: &mut Sources,
) -> (Vec<Service>, Vec<String>) {
    let root = plain(file.parent().unwrap_or(Path::new("")));
    let mut reader = Reader {
        disk: around.disk,
        process: around.environment,
        find_image: around.image,
        project,
        name,
        root: &root,
        sources: &mut *sources,
        mounted: Vec::new(),
        taken: Vec::new(),
    };
    let mut services: Vec<Service> = Vec::new();
    for entry in wanted {
        let own = service_name(&entry.key, &services);
        match reader.service(entry, own) {
            Some(service) => services.push(service),
            None => left_out.push(entry.key.clone()),
        }
    }
    let Reader { mounted, taken, .. } = reader;
    read::share(&mounted, &taken, &mut services, sources);
    // Whoever waits for its end knows that it ends.
    let completed = waited_for(&services, Condition::Completed);
    for service in services.iter_mut().filter(|service| completed.contains(&service.name)) {
        service.ready = Ready::Ended;
    }
    suppose_ended(&mut services, sources);
    (services, left_out)
}

/// Takes a service to do its work and end that others depend on, that listens nowhere and that says it is not started
/// again: nobody writes that of a server.
fn suppose_ended(services: &mut [Service], sources: &mut Sources) {
    let needed: BTreeSet<String> =
        services.iter().flat_map(|service| &service.after).map(|other| other.name.clone()).collect();
    for service in services.iter_mut().filter(|service| service.ready == Ready::Port && service.health.is_none()) {
        let Some(at) = service.once.filter(|_| needed.contains(&service.name)) else { continue };
        if usual_ports(service).is_empty() {
            service.ready = Ready::Ended;
            let instead = "it is taken to do its work and end before the services that depend on it start; if it goes \
                           on, leave this key out";
            sources.note(at, service.key("restart"), Weight::Differs, instead);
        }
    }
}

/// The name that a workload gives a service: it allows `a-z`, `0-9` and `-`, and no name twice.
fn service_name(name: &str, others: &[Service]) -> String {
    let allowed = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let plain: String = name.to_ascii_lowercase().chars().map(allowed).collect();
    // The name that stands for the whole workload is no service's.
    let taken = |name: &str| name.is_empty() || name == "tiles" || others.iter().any(|other| other.own == name);
    let numbered = |number: usize| format!("{plain}-{number}");
    if !taken(&plain) {
        return plain;
    }
    (2..).map(numbered).find(|name| !taken(name)).expect("there are more numbers than services")
}

/// Compose keeps services of different networks apart.
fn note_networks(project: &Project, sources: &mut Sources) {
    let mut networks = project.section("networks").iter().filter(|entry| entry.key != "default");
    if let (Some(_), Some(second)) = (networks.next(), networks.next()) {
        let instead = "all services stand on one network, and each could reach every other";
        sources.note(second.at, "networks", Weight::Differs, instead);
    }
}

/// The names of the services of which others wait for this.
fn waited_for(services: &[Service], condition: Condition) -> BTreeSet<String> {
    let waits = services.iter().flat_map(|service| &service.after);
    waits.filter(|other| other.condition == condition).map(|other| other.name.clone()).collect()
}

/// Has those services asked by their health checks for whose health others wait, and those that nothing else tells of.
/// Which these are depends on the ports, with those that others name.
fn choose_ready(services: &mut [Service], sources: &mut Sources) {
    let healthy = waited_for(services, Condition::Healthy);
    for service in services.iter_mut().filter(|service| service.ready != Ready::Ended) {
        let Some(health) = &service.health else { continue };
        if healthy.contains(&service.name) || usual_ports(service).is_empty() {
            service.ready = Ready::Health;
        } else if let Some(at) = health.at {
            let within = exact_duration(service.within.unwrap_or_default());
            let instead = format!(
                "no service waits for it, so it is not run; the service is ready when its port accepts connections, \
                 within {within}"
            );
            sources.note(at, service.key("healthcheck.test"), Weight::Differs, instead);
        }
    }
}

/// What was assumed.
fn assumed(services: &[Service], left_out: &[String]) -> Vec<String> {
    let mut assumed = Vec::new();
    if !left_out.is_empty() {
        assumed.push(format!("not deployed: {}; ask for profiles by --profile", left_out.join(", ")));
    }
    for service in services.iter().filter(|service| service.own != service.name) {
        assumed.push(format!("service '{}' is called '{}'", service.name, service.own));
    }
    for service in services.iter().filter(|service| service.memory.is_none() || service.cpus.is_none()) {
        let resources = write::resources(service);
        assumed.push(format!("service {} gets {resources}; change `resources:` in workload.yaml", service.own));
    }
    for service in services {
        let usual = service.volumes.iter().filter(|(_, volume)| volume.bytes == VOLUME_BYTES);
        let usual: Vec<&str> = usual.map(|(path, _)| path.as_str()).collect();
        if !usual.is_empty() {
            let paths = usual.join(", ");
            assumed.push(format!("service {}: 512MiB for {paths}; change `volumes:` in workload.yaml", service.own));
        }
    }
    assumed
}

/// The services in their starting order, and which of them gets the load.
fn plan(
    (file, name): (&Path, &str),
    (project, around): (&Project, &Around),
    services: &[Service],
    sorted: &[usize],
    sources: &mut Sources,
) -> Stack {
    let mut planned: Vec<Planned> = Vec::new();
    for number in sorted {
        let service = services[*number].clone();
        let ports = if service.ports.is_empty() { usual_ports(&service) } else { service.ports.clone() };
        let command = command(&service, around.images_follow, sources);
        planned.push(Planned { service, command, ports, stops: Vec::new() });
    }
    for planned in &mut planned {
        planned.stops = stops(&planned.service, services, sources);
    }
    let asked = around.service.and_then(|name| {
        let named = planned.iter().position(|planned| planned.service.name == name);
        let found = named.or_else(|| planned.iter().position(|planned| planned.service.own == name));
        if found.is_none() {
            let known: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
            let message = format!("no service '{name}' is deployed, so it cannot get the load");
            sources.unknown(project.at(), message, name, &known);
        }
        found
    });
    let (loaded, port) = target(asked, services, &planned, sources);
    let shared = shared_port(&planned, sources);
    let file = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Stack { name: name.to_owned(), file, services: planned, loaded, port, shared }
}

fn write_files(services: &[Service], made: &mut Imported) {
    let stack = &made.stack;
    let at = stack.port.map(|port| format!(" at port {port}")).unwrap_or_default();
    let spoken = match write::speaks(stack) {
        Some(speaks) => format!("{speaks:?}").to_lowercase(),
        None => "http, which is a guess".to_owned(),
    };
    let of = stack.loaded();
    made.load = format!("the load goes to {of}{at} and speaks {spoken}; change `load:` in workload.yaml");
    made.files.insert("workload.yaml".to_owned(), write::workload(stack));
    made.files.insert("study.yaml".to_owned(), write::study(&made.name, stack.shared));
    for copied in services.iter().flat_map(|service| service.files.values()) {
        match String::from_utf8(copied.content.clone()) {
            Ok(text) => drop(made.files.insert(copied.name.clone(), text)),
            Err(other) => drop(made.other_files.insert(copied.name.clone(), other.into_bytes())),
        }
    }
}

/// The number of the service that gets the load, and its port if that is known: the one that was asked for, else the
/// first that publishes one, else the last that has one. A service that ends by itself gets none.
fn target(
    asked: Option<usize>,
    services: &[Service],
    planned: &[Planned],
    sources: &mut Sources,
) -> (usize, Option<u16>) {
    let runs = |service: &Service| service.ready != Ready::Ended;
    let first = services.iter().find(|service| service.published.is_some() && runs(service));
    let first = first.and_then(|first| planned.iter().position(|planned| planned.service.name == first.name));
    let last = || planned.iter().rposition(|planned| !planned.ports.is_empty() && runs(&planned.service));
    let any = || planned.iter().position(|planned| runs(&planned.service));
    let loaded = asked.or(first).or_else(last).or_else(any).unwrap_or(0);
    let service = &planned[loaded].service;
    let port = service.published.or(planned[loaded].ports.first().copied());
    let hint = "add 'ports:' to the service that your users reach";
    if !runs(service) {
        let message = match asked {
            Some(_) => format!("service '{}' ends by itself, and the load needs one that runs", service.name),
            None => "every service ends by itself, and the load needs one that runs".to_owned(),
        };
        sources.wrong(service.at, message, hint);
    } else if port.is_none() && service.says.is_some() && asked.is_none() {
        sources.wrong(service.at, "no service listens at a port, and the load needs one", hint);
    }
    (loaded, port)
}

/// What keeps a service from running, a sentence each with its key and place.
fn stops(service: &Service, services: &[Service], sources: &Sources) -> Vec<String> {
    let is_of = |note: &Note, service: &Service| note.key.starts_with(&service.key(""));
    // A name may have dots, so another service's name may begin with this one's and a dot.
    let longer = |note: &Note| services.iter().any(|other| other.name.len() > service.name.len() && is_of(note, other));
    let own = sources.stops().filter(|note| is_of(note, service) && !longer(note));
    own.map(|Note { file, place, key, instead, .. }| format!("{key} ({file}:{}): {instead}", place.line)).collect()
}

/// The whole command of a service; none to take the image's. What an image that follows may change is not told.
fn command(service: &Service, images_follow: bool, sources: &mut Sources) -> Option<Vec<String>> {
    let words = |words: &Option<Words>| words.as_ref().map(|words| words.words.clone()).unwrap_or_default();
    let at = service.entrypoint.as_ref().or(service.command.as_ref())?.at;
    let command = match (&service.entrypoint, &service.command) {
        (Some(_), _) => [words(&service.entrypoint), words(&service.command)].concat(),
        (None, _) => {
            let own = words(&service.command);
            match &service.says {
                Some(says) => [says.entrypoint.clone(), own].concat(),
                // Nothing but the image's own entry point is left.
                None if own.is_empty() => return None,
                None if images_follow => own,
                None => {
                    let instead = "it is the whole command here, for what the image's ENTRYPOINT is is not known: have \
                                   the image on this machine and import again, or write the ENTRYPOINT in front";
                    let weight = if own[0].starts_with('-') { Weight::Stops } else { Weight::Differs };
                    sources.note(at, service.key("command"), weight, instead);
                    own
                }
            }
        }
    };
    if command.first().is_none_or(String::is_empty) {
        sources.wrong(at, "nothing is left to start", "name the program in 'command'");
        return None;
    }
    Some(command)
}

/// A port that two services have. Where they share a network, only one of them can listen there.
fn shared_port(planned: &[Planned], sources: &mut Sources) -> Option<u16> {
    let mut shared = None;
    // The first service that has a port.
    let mut taken: BTreeMap<u16, &str> = BTreeMap::new();
    // What has ended listens no more.
    for Planned { service, ports, .. } in planned.iter().filter(|planned| planned.service.ready != Ready::Ended) {
        let others = ports.iter().filter_map(|port| Some((*port, *taken.get(port)?)));
        let others: Vec<(u16, &str)> = others.collect();
        if let Some((first, _)) = others.first() {
            shared = shared.or(Some(*first));
            let told: Vec<String> = others.iter().map(|(port, other)| format!("'{other}' has port {port}")).collect();
            let instead = format!(
                "{}, too, and where services share a network only one can listen there: such forms are left out of \
                 study.yaml; to have them, move one by a setting that is given ${{{{port.{first}}}}}",
                told.join(", ")
            );
            sources.note(service.at, service.key("ports"), Weight::Differs, instead);
        }
        for port in ports {
            taken.entry(*port).or_insert(&service.name);
        }
    }
    shared
}
