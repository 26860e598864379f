//! Reads a Compose file with all that it includes and extends, and fills in its variables.

use crate::disk::{Disk, Thing};
use crate::dotenv;
use crate::interpolate::fill;
use crate::keys::Keys;
use crate::merge::merge;
use crate::sources::{At, Sources, Weight, is_below, plain};
use crate::yaml::{Entry, Kind, Value, parse};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tare_core::config::Place;

/// How deeply services may extend each other.
const DEPTH_MAX: usize = 16;
/// How deeply files may include each other.
const INCLUDE_DEPTH_MAX: usize = 16;
/// How many files may be included. One that is included several times with other variables counts each time: files that
/// include the same ones over and over would otherwise take time that grows exponentially with their number.
const INCLUDES_MAX: usize = 200;
/// What stands where a variable cannot be replaced: a word that is wrong in few places, so that the variable is the
/// only mistake.
const UNFILLED: &str = "unset";
/// The parts of a file that others may include.
const SECTIONS: [&str; 5] = ["services", "networks", "volumes", "secrets", "configs"];
/// Further keys at the top of a file.
const TOP: [&str; 4] = ["version", "name", "include", "models"];

/// Variables by name.
pub(crate) type Environment = BTreeMap<String, String>;

/// An item of `include:`: its files, their folder and their variables.
type Included = (Vec<PathBuf>, PathBuf, Environment);

/// A Compose file with all that it includes.
pub(crate) struct Project {
    /// What its `name:` says.
    pub(crate) name: Option<String>,
    /// The variables of `.env`, with those of the process over them.
    pub(crate) environment: Environment,
    root: Value,
}

impl Project {
    /// Where the file begins.
    pub(crate) fn at(&self) -> At {
        self.root.at
    }

    /// The entries of one of the file's parts, such as `services`.
    pub(crate) fn section(&self, name: &str) -> &[Entry] {
        let found = self.root.entries().iter().find(|entry| entry.key == name);
        found.map(|entry| entry.value.entries()).unwrap_or_default()
    }
}

/// Reads files, one after the other.
pub(crate) struct Loader<'a> {
    /// The files of this machine.
    pub(crate) disk: &'a dyn Disk,
    /// The variables of whoever runs this program.
    pub(crate) process: &'a Environment,
    /// Where mistakes and notes go.
    pub(crate) sources: &'a mut Sources,
    /// Files that were read, so that their mistakes are reported once.
    read: Vec<((PathBuf, PathBuf, Environment), Option<Value>)>,
    /// The folder of the file that the user named.
    root: PathBuf,
    /// The files that are being read, each with the one that it includes behind it.
    including: Vec<PathBuf>,
    /// How many files were included so far.
    includes: usize,
    /// What was included, so that an item that stands in many files is read once.
    included: Vec<(Included, Option<Value>)>,
}

impl<'a> Loader<'a> {
    /// Has read nothing yet.
    pub(crate) fn new(disk: &'a dyn Disk, process: &'a Environment, sources: &'a mut Sources) -> Loader<'a> {
        let (read, including, included) = (Vec::new(), Vec::new(), Vec::new());
        Loader { disk, process, sources, read, root: PathBuf::new(), including, includes: 0, included }
    }

    /// Reads the file that the user named, and puts those of `over` over it. `None` when one cannot be read; then at
    /// least one mistake was added.
    pub(crate) fn project(&mut self, path: &Path, over: &[PathBuf]) -> Option<Project> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let environment = self.environment(&folder.join(".env"), None, &Environment::new());
        let mut root = self.load(path, &folder, None, &environment)?;
        for over in over {
            let over = self.load(over, &folder, None, &environment)?;
            root = Value { at: root.at, ..merge("", root, over) };
        }
        let name = root.entries().iter().find(|entry| entry.key == "name").and_then(|entry| entry.value.scalar());
        let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
        let name = name.or_else(|| environment.get("COMPOSE_PROJECT_NAME").cloned());
        self.root = plain(&folder);
        self.including.push(plain(path));
        let root = self.complete(root, &environment)?;
        Some(Project { name, environment, root })
    }

    /// The variables of a file, over `base`, and those of the process over both. A file that nobody names may be
    /// missing.
    fn environment(&mut self, path: &Path, named: Option<At>, base: &Environment) -> Environment {
        let mut environment = base.clone();
        let there = named.is_some() || matches!(self.disk.at(path), Some(Thing::File { .. }));
        let read = if there { self.open(path, path.parent().unwrap_or(Path::new("")), named) } else { None };
        if let Some((file, text)) = read {
            let process = self.process;
            match dotenv::read(&text, false, &|name| process.get(name).cloned()) {
                Ok(lines) => environment.extend(lines.into_iter().filter_map(|line| Some((line.name, line.value?)))),
                Err((line, why)) => {
                    let place = Place { line, column: 1, width: 1 };
                    self.sources.wrong(At { file, place }, why, "write NAME=value");
                }
            }
        }
        environment.extend(self.process.iter().map(|(name, value)| (name.clone(), value.clone())));
        environment
    }

    /// Reads a file as text and adds it to the sources.
    fn open(&mut self, path: &Path, folder: &Path, named: Option<At>) -> Option<(usize, String)> {
        let text = |bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned());
        let read = self.disk.read(path).and_then(text);
        let shown = path.display().to_string();
        match (read, named) {
            (Ok(text), _) => Some((self.sources.open(&shown, &text, folder), text)),
            (Err(why), Some(at)) => {
                self.sources.wrong(at, format!("cannot read {shown}: {why}"), "");
                None
            }
            (Err(why), None) => {
                let file = self.sources.open(&shown, "", folder);
                let at = At { file, place: Place { line: 1, column: 1, width: 1 } };
                self.sources.wrong(at, format!("cannot read {shown}: {why}"), "");
                None
            }
        }
    }

    /// Reads one file and fills in its variables.
    fn load(&mut self, path: &Path, folder: &Path, named: Option<At>, environment: &Environment) -> Option<Value> {
        let path = plain(path);
        // The same file has other variables and other paths where another project names it.
        let key = (path, folder.to_owned(), environment.clone());
        if let Some((_, known)) = self.read.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        let value = self.open(&key.0, folder, named).and_then(|(file, text)| {
            let mut root = parse(&text, file, self.sources)?;
            let sources = &mut *self.sources;
            root.each_scalar(&mut |at, text, quoted| {
                if !text.contains('$') {
                    return;
                }
                // What a variable leaves is a text: an empty one is not absent, and "null" is a word.
                *quoted = true;
                match fill(text, &|name| environment.get(name).cloned()) {
                    Ok(filled) => {
                        *text = filled.text;
                        for name in filled.unset {
                            let instead = "it is not set, so nothing stands in its place: set it, or give it a default";
                            sources.note(at, format!("${{{name}}}"), Weight::Differs, instead);
                        }
                    }
                    Err(unfilled) => {
                        UNFILLED.clone_into(text);
                        sources.wrong(at, unfilled.why, unfilled.hint);
                        sources.tell_no_more_of(at);
                    }
                }
            });
            Some(root)
        });
        self.read.push((key, value.clone()));
        value
    }

    /// The file with the services that its own extend, and with what it includes.
    fn complete(&mut self, root: Value, environment: &Environment) -> Option<Value> {
        let mut keys = Keys::of(&root, "a Compose file", self.sources)?;
        keys.know(&SECTIONS);
        keys.know(&TOP);
        keys.finish(self.sources);
        let mut sections: Vec<Entry> = Vec::new();
        for name in SECTIONS {
            let Some(section) = root.entries().iter().find(|entry| entry.key == name) else { continue };
            let Some(_) = Keys::of(&section.value, format!("'{name}'"), self.sources) else { continue };
            let mut entries = section.value.entries().to_vec();
            if name == "services" {
                let all = section.value.entries();
                for (entry, own) in entries.iter_mut().zip(all) {
                    if let Some(extended) = self.extended(all, own, environment, DEPTH_MAX) {
                        entry.value = extended;
                    }
                }
            }
            let value = Value { at: section.value.at, kind: Kind::Map(entries) };
            sections.push(Entry { value, ..section.clone() });
        }
        if let Some(include) = root.entries().iter().find(|entry| entry.key == "include") {
            for item in include.value.items(self.sources).to_vec() {
                if let Some(other) = self.included(&item, environment) {
                    self.add(&mut sections, other);
                }
            }
        }
        Some(Value { at: root.at, kind: Kind::Map(sections) })
    }

    /// What an item of `include:` names.
    fn included(&mut self, item: &Value, environment: &Environment) -> Option<Value> {
        let (mut paths, mut folder, mut files) = (vec![item.clone()], None, Vec::new());
        if let Kind::Map(_) = item.kind {
            let mut keys = Keys::of(item, "an item of 'include'", self.sources)?;
            paths = keys.get("path").map(|entry| entry.value.items(self.sources).to_vec()).unwrap_or_default();
            folder = keys.text("project_directory", self.sources).map(|path| self.sources.resolve(item.at, &path));
            files = keys.get("env_file").map(|entry| entry.value.items(self.sources).to_vec()).unwrap_or_default();
            keys.finish(self.sources);
            if paths.is_empty() {
                self.sources.wrong(item.at, "an item of 'include' has no 'path'", "add 'path:' here");
            }
        }
        let mut named = Vec::new();
        for path in &paths {
            let text = path.text(self.sources)?;
            named.push((path.at, self.sources.resolve(path.at, &text)));
        }
        let (_, first) = named.first()?;
        let folder = folder.unwrap_or_else(|| first.parent().unwrap_or(Path::new("")).to_owned());
        let mut own = self.environment(&folder.join(".env"), None, &Environment::new());
        for file in &files {
            let text = file.text(self.sources)?;
            let path = self.sources.resolve(file.at, &text);
            if !is_below(&self.root, &path) {
                let message = format!("{text} is outside of the folder of the Compose file");
                self.sources.wrong(file.at, message, "copy it there");
                return None;
            }
            own = self.environment(&path, Some(file.at), &own);
        }
        // The variables of the file that includes go over those beside the one that is included.
        own.extend(environment.clone());
        let paths: Vec<PathBuf> = named.iter().map(|(_, path)| path.clone()).collect();
        let key: Included = (paths, folder.clone(), own.clone());
        if let Some((_, known)) = self.included.iter().find(|(known, _)| *known == key) {
            return known.clone();
        }
        self.may_include(&named)?;
        let mut whole: Option<Value> = None;
        for (at, path) in &named {
            let root = self.load(path, &folder, Some(*at), &own)?;
            whole = Some(match whole {
                Some(base) => merge("", base, root),
                None => root,
            });
        }
        let depth = self.including.len();
        self.including.extend(named.into_iter().map(|(_, path)| path));
        let whole = self.complete(whole?, &own);
        self.including.truncate(depth);
        self.included.push((key, whole.clone()));
        whole
    }

    /// Adds a mistake, and returns `None`, when these files may not be included where they are named.
    fn may_include(&mut self, named: &[(At, PathBuf)]) -> Option<()> {
        for (at, path) in named {
            if let Some(first) = self.including.iter().position(|open| open == path) {
                let cycle = self.including[first..].iter().chain([path]).map(|path| path.display().to_string());
                let message = format!("files include each other: {}", cycle.collect::<Vec<_>>().join(", "));
                self.sources.wrong(*at, message, "remove one of these from 'include'");
                return None;
            }
            self.includes += 1;
            if self.including.len() > INCLUDE_DEPTH_MAX {
                self.sources.wrong(*at, "files include others too deeply here", "include this file further up");
                return None;
            }
            if self.includes > INCLUDES_MAX {
                // Every further one would say the same.
                if self.includes == INCLUDES_MAX + 1 {
                    let message = format!("more than {INCLUDES_MAX} files are included");
                    self.sources.wrong(*at, message, "put the services of several files into one");
                }
                return None;
            }
        }
        Some(())
    }

    /// Adds the parts of an included file.
    fn add(&mut self, sections: &mut Vec<Entry>, other: Value) {
        let Kind::Map(others) = other.kind else { return };
        for section in others {
            let Some(known) = sections.iter_mut().find(|known| known.key == section.key) else {
                sections.push(section);
                continue;
            };
            let (Kind::Map(entries), Kind::Map(more)) = (&mut known.value.kind, section.value.kind) else { continue };
            for entry in more {
                match entries.iter().find(|known| known.key == entry.key) {
                    Some(known) if section.key == "services" && known.value != entry.value => {
                        let message = format!("service '{}' stands in an included file, too", entry.key);
                        self.sources.wrong(known.at, message, "give one of them another name");
                    }
                    Some(_) => {}
                    None => entries.push(entry),
                }
            }
        }
    }

    /// A service with the one that it extends below it.
    fn extended(&mut self, all: &[Entry], own: &Entry, environment: &Environment, depth: usize) -> Option<Value> {
        let Kind::Map(mut entries) = own.value.kind.clone() else { return Some(own.value.clone()) };
        let Some(at) = entries.iter().position(|entry| entry.key == "extends") else { return Some(own.value.clone()) };
        let extends = entries.remove(at);
        if depth == 0 {
            let message = format!("service '{}' extends others too deeply", own.key);
            self.sources.wrong(extends.at, message, "does one of them extend itself?");
            return None;
        }
        let (name, file) = match &extends.value.kind {
            Kind::Scalar { .. } => (extends.value.text(self.sources)?, None),
            _ => {
                let mut keys = Keys::of(&extends.value, "'extends'", self.sources)?;
                let service = keys.text("service", self.sources);
                let file = keys.get("file");
                keys.finish(self.sources);
                if service.is_none() {
                    self.sources.wrong(extends.value.at, "'extends' names no service", "add 'service:' here");
                }
                (service?, file)
            }
        };
        let others: Vec<Entry> = match file {
            Some(file) => {
                let text = file.value.text(self.sources)?;
                let path = self.sources.resolve(file.value.at, &text);
                let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                let root = self.load(&path, &folder, Some(file.value.at), environment)?;
                let services = root.entries().iter().find(|entry| entry.key == "services");
                services.map(|entry| entry.value.entries().to_vec()).unwrap_or_default()
            }
            None => all.to_vec(),
        };
        let Some(base) = others.iter().find(|entry| entry.key == name) else {
            let known: Vec<&str> = others.iter().map(|entry| entry.key.as_str()).collect();
            self.sources.unknown(extends.value.at, format!("there is no service '{name}' to extend"), &name, &known);
            return None;
        };
        let base = self.extended(&others, base, environment, depth - 1)?;
        Some(merge("", base, Value { at: own.value.at, kind: Kind::Map(entries) }))
    }
}
