//! `services:` of a workload.

use super::names::read_names;
use super::readiness::{Sought, read_ready};
use super::volumes::read_volumes;
use super::{
    FILE_WANTED, INSTANCES_MAX, OwnResources, Readiness, Resources, Service, ServiceOption, StopSignal,
    refuse_idle_quota, why_not_in_image, why_not_stated,
};
use crate::bundle::{Build, ExtraFile, Recipe, Source, read_packages};
use crate::catalog::Catalog;
use crate::config::{Fields, Node, Place, Problems};
use crate::environment;
use crate::image::{FromImage, listed_ports};
use crate::parameters::mentions;
use std::collections::BTreeMap;
use std::path::Path;

/// The only program that a bundle can be made from: the one that is running.
const OWN_PROGRAM: &str = "tare";

/// The context of the services of a workload.
pub(super) struct Around<'a> {
    /// The workload's folder.
    pub(super) folder: &'a Path,
    /// Knows what images say.
    pub(super) catalog: &'a dyn Catalog,
    /// Whether the load goes to the service being read.
    pub(super) loaded: bool,
    /// The port of that service that the load names.
    pub(super) loaded_port: Option<String>,
}

pub(super) fn read_service(
    name: &str,
    place: Place,
    node: &Node,
    around: &Around,
    problems: &mut Problems,
) -> Option<Service> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        problems.add(place, format!("'{name}' cannot name a service"), "use a-z, 0-9 and -");
    }
    let folder = around.folder;
    let mut fields = Fields::of(node, format!("service '{name}'"), problems)?;
    let source = fields.require("bundle", problems).and_then(|node| read_source(node, folder, problems));
    let mut image = read_image(&mut fields, source.as_ref(), around.catalog, problems);
    let files = fields.get("files").map(|node| read_files(node, folder, problems)).unwrap_or_default();
    let build = read_build(&mut fields, folder, &files, problems);
    let command = read_command(&mut fields, place, image.as_mut(), problems);
    let environment = read_environment(&mut fields, image.as_mut(), problems);
    let as_image = read_as_image(&mut fields, source.as_ref(), problems);
    let user = match (fields.get("user"), &mut image) {
        (Some(node), _) => read_user(node, as_image, problems),
        (None, Some(image)) => image.take_user(as_image),
        (None, None) => None,
    };
    let directory = read_directory(&mut fields, image.as_mut(), problems);
    let mut ports = read_ports(&mut fields, image.as_mut(), problems);
    let names = fields.get("names").map(|node| read_names(node, problems)).unwrap_or_default();
    let moves = takes_port(command.as_deref().unwrap_or_default(), &environment);
    let (loaded, loaded_port) = (around.loaded, around.loaded_port.as_deref());
    let sought = Sought { name, ports: &ports, moves, loaded, loaded_port };
    let ready = read_ready(&mut fields, &sought, image.as_mut(), problems);
    // What does its work and ends is another program than the one that the image's ports are for.
    if let Some(image) = image.as_mut().filter(|_| ready.as_ref().is_some_and(Readiness::ends))
        && image.taken.remove("ports").is_some()
    {
        ports.clear();
    }
    let volumes = read_volumes(&mut fields, image.as_mut(), as_image, problems);
    let resources = read_resources(&mut fields, problems);
    let stop_signal = read_stop_signal(&mut fields, image.as_mut(), problems);
    let stop_within = fields.duration("stop_within", problems);
    let options = fields.get("options").map(|node| read_options(node, problems)).unwrap_or_default();
    let instances = fields.integer("instances", 1..=INSTANCES_MAX, problems);
    fields.finish(problems);
    let usual = Service::of(name, Recipe { source: source?, files, build }, command?, ready?);
    Some(Service {
        environment,
        user: user.unwrap_or(usual.user),
        own_user: user.is_none(),
        as_image,
        directory,
        ports,
        names,
        volumes,
        resources: resources?,
        stop_signal: stop_signal.unwrap_or(usual.stop_signal),
        stop_within: stop_within.unwrap_or(usual.stop_within),
        options,
        instances: instances.map_or(usual.instances, |count| count as u32),
        image,
        ..usual
    })
}

/// The image that the bundle is made from, with what it says if that is known.
fn read_image(
    fields: &mut Fields,
    source: Option<&Source>,
    catalog: &dyn Catalog,
    problems: &mut Problems,
) -> Option<FromImage> {
    let Some(Source::Image(image)) = source else { return None };
    let says = catalog.image(image).unwrap_or_else(|fault| {
        let place = fields.get("bundle").and_then(|node| node.kind("a bundle", problems));
        problems.add(place.map_or(fields.place(), |(.., value)| value.place), fault.message, fault.remedy);
        None
    });
    Some(FromImage::new(image, says))
}

/// An empty command stands for that of an image that is not known yet.
fn read_command(
    fields: &mut Fields,
    place: Place,
    image: Option<&mut FromImage>,
    problems: &mut Problems,
) -> Option<Vec<String>> {
    let Some(image) = image else {
        let node = fields.require("command", problems)?;
        let command = fields.texts("command", problems);
        if command.as_ref().is_some_and(|c| c.first().is_none_or(|program| !program.starts_with('/'))) {
            let hint = "start it with '/', the path of the program inside the bundle";
            problems.add(node.place, "the command must name a program by its absolute path", hint);
        }
        return command;
    };
    if let Some(node) = fields.get("command") {
        let command = fields.texts("command", problems);
        if command.as_ref().is_some_and(|c| c.first().is_none_or(String::is_empty)) {
            problems.add(node.place, "the command names no program", "omit 'command' to use the image's own");
        }
        return command;
    }
    let Some(says) = &image.says else { return Some(Vec::new()) };
    let command = says.whole_command();
    if command.first().is_none_or(String::is_empty) {
        let message = "this service has no 'command', and its image has none either: no ENTRYPOINT and no CMD";
        problems.add(place, message, "add 'command:' here");
        return None;
    }
    image.note("command", command.join(" "));
    Some(command)
}

fn read_environment(
    fields: &mut Fields,
    image: Option<&mut FromImage>,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let own = fields.get("environment").map(|node| read_texts(node, problems)).unwrap_or_default();
    let mut all = image.as_ref().and_then(|image| image.says.as_ref()).map(|says| says.variables()).unwrap_or_default();
    all.retain(|name, _| !own.contains_key(name));
    for (name, _) in all.iter().filter(|(_, text)| environment::refers(text)) {
        let message = format!("the image's variable '{name}' refers to a variable of this machine's environment");
        problems.add(fields.place(), message, format!("set '{name}' under 'environment:'"));
    }
    if let Some(image) = image.filter(|_| !all.is_empty()) {
        image.note("environment", all.keys().map(String::as_str).collect::<Vec<_>>().join(", "));
    }
    all.extend(own);
    all
}

fn read_directory(fields: &mut Fields, image: Option<&mut FromImage>, problems: &mut Problems) -> Option<String> {
    if let Some(node) = fields.get("directory") {
        let directory = node.text(problems)?;
        if !directory.starts_with('/') || directory.split('/').any(|part| part == "..") {
            problems.add(node.place, "the directory inside the bundle must be absolute, without '..'", "");
        }
        return (directory != "/").then_some(directory);
    }
    let image = image?;
    let directory = image.says.as_ref()?.start_directory()?;
    image.note("directory", &directory);
    Some(directory)
}

fn read_source(node: &Node, folder: &Path, problems: &mut Problems) -> Option<Source> {
    let (kind, place, value) = node.kind("a bundle", problems)?;
    match kind {
        "packages" => Some(Source::Packages(read_packages(value, problems)?)),
        "image" => {
            let text = value.text(problems)?;
            let is_path = text.starts_with('.') || text.starts_with('/');
            Some(Source::Image(if is_path { folder.join(text).display().to_string() } else { text }))
        }
        "folder" => Some(Source::Folder(folder.join(value.text(problems)?))),
        "program" => value.choice(&[OWN_PROGRAM], problems).map(|name| Source::Program(name.to_owned())),
        other => {
            Node::unknown(other, place, "kind of bundle", &["packages", "image", "folder", "program"], problems);
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
        let content = file_wanted(folder, &local).into();
        files.push(ExtraFile { path: path.clone(), content, mode: 0o644 });
    }
    files.sort();
    files
}

/// Stands for the content of the file `name` of `folder` until it has been read.
fn file_wanted(folder: &Path, name: &str) -> String {
    format!("{FILE_WANTED}{}", folder.join(name).display())
}

fn read_build(fields: &mut Fields, folder: &Path, files: &[ExtraFile], problems: &mut Problems) -> Option<Build> {
    let bundle = fields.get("bundle").and_then(|node| node.kind("a bundle", &mut Problems::default()));
    let node = fields.get("build")?;
    if let Some((kind, place, _)) = bundle.filter(|(kind, ..)| *kind != "packages") {
        let message =
            format!("what is built here runs with the distribution's libraries, and '{kind}' may have others");
        problems.add(place, message, "use 'packages:' as the bundle of a service with 'build:'");
    }
    Build::read(node, &|name| file_wanted(folder, name), files, problems)
}

fn read_texts(node: &Node, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(fields) = Fields::of(node, "the environment", problems) else { return BTreeMap::new() };
    fields.entries().iter().filter_map(|(key, _, value)| Some((key.clone(), value.text(problems)?))).collect()
}

/// Whether the service runs as its image does. Only an image says how that is.
fn read_as_image(fields: &mut Fields, source: Option<&Source>, problems: &mut Problems) -> bool {
    let Some(node) = fields.get("as_image") else { return false };
    let as_image = node.boolean(problems).unwrap_or(false);
    if as_image && source.is_some_and(|source| !matches!(source, Source::Image(_))) {
        let message = "'as_image' is for services whose bundle is an image";
        problems.add(node.place, message, "leave it out, or use 'bundle: {image: ...}'");
    }
    as_image
}

fn read_user(node: &Node, as_image: bool, problems: &mut Problems) -> Option<(u32, u32)> {
    let text = node.text(problems)?;
    let (uid, gid) = text.split_once(':').unwrap_or((&text, &text));
    let why_not = if as_image { why_not_in_image } else { why_not_stated };
    match (uid.parse(), gid.parse()) {
        (Ok(uid), Ok(gid)) => match why_not((uid, gid)) {
            None => Some((uid, gid)),
            Some(why) => {
                problems.add(node.place, why, "name another uid, such as 999, or none: each instance then has its own");
                None
            }
        },
        _ => {
            let hint = "names differ between forms, numbers do not; write for example 999:999";
            problems.add(node.place, format!("'{text}' is not a numeric user id"), hint);
            None
        }
    }
}

fn read_ports(fields: &mut Fields, image: Option<&mut FromImage>, problems: &mut Problems) -> BTreeMap<String, u16> {
    if let Some(node) = fields.get("ports") {
        let Some(ports) = Fields::of(node, "ports", problems) else { return BTreeMap::new() };
        let entries = ports.entries().iter();
        return entries
            .filter_map(|(key, _, value)| Some((key.clone(), value.integer(1..=65_535, problems)? as u16)))
            .collect();
    }
    let Some(image) = image else { return BTreeMap::new() };
    let Some(says) = &image.says else { return BTreeMap::new() };
    let (ports, unread) = (says.tcp_ports(), says.unread_ports());
    let read = if ports.is_empty() { "none".to_owned() } else { listed_ports(&ports) };
    match unread {
        Some(unread) => image.note("ports", format!("{read}; not read: {unread}")),
        None if ports.is_empty() => {}
        None => image.note("ports", read),
    }
    ports
}

/// Whether a command or an environment refers to a port of its service.
fn takes_port(command: &[String], environment: &BTreeMap<String, String>) -> bool {
    let mut references = command.iter().chain(environment.values()).flat_map(|text| mentions(text));
    references.any(|reference| reference.starts_with("port."))
}

fn read_stop_signal(fields: &mut Fields, image: Option<&mut FromImage>, problems: &mut Problems) -> Option<StopSignal> {
    if let Some(node) = fields.get("stop_signal") {
        let text = node.text(problems)?;
        let signal = StopSignal::parse(&text);
        if signal.is_none() {
            problems.add(node.place, format!("'{text}' is not a signal"), "write for example SIGQUIT");
        }
        return signal;
    }
    let image = image?;
    let text = image.says.as_ref()?.stop_signal.clone();
    if text.is_empty() {
        return None;
    }
    let signal = StopSignal::parse(&text);
    let what = match signal {
        Some(signal) => signal.to_string(),
        None => format!("'{text}', which is not a signal; {} is used", StopSignal::TERM),
    };
    image.note("stop_signal", what);
    signal
}

fn read_resources(fields: &mut Fields, problems: &mut Problems) -> Option<Resources> {
    let place = fields.place();
    let mut resources = Resources::default();
    if let Some(node) = fields.get("resources") {
        resources = OwnResources::read(node, problems)?.over(resources);
    }
    refuse_idle_quota(resources, place, problems);
    Some(resources)
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
