//! The modules of a crate, and what the paths in them lead to.

use super::read::{Content, Written, read};
use crate::tidy::Finding;
use std::collections::BTreeMap;

/// The text of each Rust file that is no test, by its path.
pub(super) type Files<'a> = BTreeMap<&'a str, &'a str>;

/// How many names may stand for each other until one stands for something.
const STEPS_MAX: usize = 16;

/// The modules of a crate, a parent before its children; the first is the root.
pub(super) struct Modules {
    pub(super) all: Vec<Module>,
}

/// A module.
pub(super) struct Module {
    /// The names of the modules around it, without the root, and its own.
    pub(super) path: Vec<String>,
    /// The file in which it stands.
    pub(super) file: String,
    /// What stands there.
    written: Written,
    parent: Option<usize>,
    children: Vec<(String, usize)>,
}

/// A place in which a path is written that leads to something of the crate.
pub(super) struct Use {
    /// The module in which that is defined; of a module, it itself.
    pub(super) of: usize,
    /// The line of the path.
    pub(super) line: usize,
    /// The path.
    pub(super) path: String,
}

/// What a name stands for.
#[derive(Clone, Copy)]
enum Meaning {
    Module(usize),
    /// Something that is defined in this module.
    Item(usize),
}

/// Names that are being looked for, each in a module.
type Trail = Vec<(usize, String)>;

impl Modules {
    /// Reads a crate from its root on.
    ///
    /// # Errors
    /// When a file cannot be read as Rust.
    pub(super) fn of_crate(files: &Files<'_>, root: &str) -> Result<Modules, Finding> {
        let mut modules = Modules { all: Vec::new() };
        let written = read(root, files[root])?;
        modules.add(files, written, &Place::of_folder(root), None, Vec::new())?;
        Ok(modules)
    }

    /// Adds a module and all below.
    fn add(
        &mut self,
        files: &Files<'_>,
        mut written: Written,
        place: &Place,
        parent: Option<usize>,
        path: Vec<String>,
    ) -> Result<usize, Finding> {
        let declared = std::mem::take(&mut written.children);
        let at = self.all.len();
        let file = place.file.clone();
        self.all.push(Module { path: path.clone(), file, written, parent, children: Vec::new() });
        for child in declared {
            let (written, place) = match child.content {
                Content::Here(written) => (written, place.in_braces(&child.name)),
                Content::File(said) => {
                    let Some(place) = place.of_child(files, &child.name, said.as_deref()) else { continue };
                    (read(&place.file, files[place.file.as_str()])?, place)
                }
            };
            let path = [&path[..], std::slice::from_ref(&child.name)].concat();
            let added = self.add(files, written, &place, Some(at), path)?;
            self.all[at].children.push((child.name, added));
        }
        Ok(at)
    }

    /// What a module uses of the crate.
    pub(super) fn uses(&self, at: usize) -> Vec<Use> {
        let written = &self.all[at].written;
        let mut uses = Vec::new();
        for import in &written.imports {
            let all = if import.name.is_none() { "::*" } else { "" };
            for meaning in self.follow(at, &import.path, &mut Vec::new()) {
                let path = format!("{}{all}", import.path.join("::"));
                uses.push(Use { of: meaning.module(), line: import.line, path });
            }
        }
        let is_variable = |path: &[String]| matches!(path, [name] if written.variables.contains(name));
        for (path, line) in written.paths.iter().filter(|(path, _)| !is_variable(path)) {
            for meaning in preferred(self.follow(at, path, &mut Vec::new()), Meaning::is_item) {
                uses.push(Use { of: meaning.module(), line: *line, path: path.join("::") });
            }
        }
        uses
    }

    /// What a path in a module leads to; nothing if it leads out of the crate. It is more than one thing where several
    /// have one name, such as a module and a function.
    fn follow(&self, from: usize, path: &[String], trail: &mut Trail) -> Vec<Meaning> {
        let mut reached = vec![Meaning::Module(from)];
        for (at, name) in path.iter().enumerate() {
            // More names stand behind a module before they stand behind a function of its name.
            let before = preferred(reached, |meaning| !meaning.is_item());
            reached = Vec::new();
            for meaning in before {
                let Meaning::Module(module) = meaning else {
                    // What belongs to a type stands where the type does, or is found by its own name.
                    reached.push(meaning);
                    continue;
                };
                match name.as_str() {
                    "crate" => reached.push(Meaning::Module(0)),
                    "self" => reached.push(meaning),
                    "super" => reached.extend(self.all[module].parent.map(Meaning::Module)),
                    name => {
                        let found = self.look_up(module, name, from, trail);
                        // What is not found in a module that was named is made there by a macro.
                        let is_made = found.is_empty() && at > 0;
                        reached.extend(found.into_iter().chain(is_made.then_some(Meaning::Item(module))));
                    }
                }
            }
        }
        reached
    }

    /// What a name stands for in a module, as seen from another one.
    fn look_up(&self, module: usize, name: &str, from: usize, trail: &mut Trail) -> Vec<Meaning> {
        let Module { written, children, .. } = &self.all[module];
        let named = children.iter().filter(|(child, _)| child == name);
        let mut found: Vec<Meaning> = named.map(|(_, child)| Meaning::Module(*child)).collect();
        found.extend(written.items.contains(name).then_some(Meaning::Item(module)));
        let wanted = (module, name.to_owned());
        if trail.contains(&wanted) || trail.len() >= STEPS_MAX {
            return found;
        }
        trail.push(wanted);
        let mut is_named = !found.is_empty();
        let seen = || written.imports.iter().filter(move |import| from == module || !import.is_local);
        for import in seen().filter(|import| import.name.as_deref() == Some(name)) {
            is_named = true;
            found.extend(self.follow(module, &import.path, trail));
        }
        // What has a name of its own goes before what is brought in with all else.
        for import in seen().filter(|import| !is_named && import.name.is_none()) {
            for meaning in self.follow(module, &import.path, trail) {
                if let Meaning::Module(other) = meaning {
                    found.extend(self.look_up(other, name, module, trail));
                }
            }
        }
        trail.pop();
        found
    }
}

impl Meaning {
    /// The module, or the one in which it stands.
    fn module(self) -> usize {
        let (Meaning::Module(module) | Meaning::Item(module)) = self;
        module
    }

    fn is_item(&self) -> bool {
        matches!(self, Meaning::Item(_))
    }
}

/// What is of a kind; all if nothing is.
fn preferred(mut meanings: Vec<Meaning>, is_it: fn(&Meaning) -> bool) -> Vec<Meaning> {
    if meanings.iter().any(is_it) {
        meanings.retain(is_it);
    }
    meanings
}

/// Where a module stands, and where its children's files are.
struct Place {
    file: String,
    /// The folder from which `#[path]` begins.
    folder: String,
    /// The folder in which files have children's names.
    children: String,
}

impl Place {
    /// Of a file that has its folder for itself: a root, `mod.rs`, and what `#[path]` names.
    fn of_folder(file: &str) -> Place {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        Place { file: file.to_owned(), children: folder.clone(), folder }
    }

    /// Of a child in braces.
    fn in_braces(&self, name: &str) -> Place {
        let folder = format!("{}/{name}", self.children);
        Place { file: self.file.clone(), children: folder.clone(), folder }
    }

    /// Of a child in a file; none for a test, which is no part of the product.
    fn of_child(&self, files: &Files<'_>, name: &str, said: Option<&str>) -> Option<Place> {
        let exists = |file: &String| files.contains_key(file.as_str());
        if let Some(said) = said {
            return Some(joined(&self.folder, said)).filter(exists).map(|file| Place::of_folder(&file));
        }
        let children = format!("{}/{name}", self.children);
        match Some(format!("{children}.rs")).filter(exists) {
            Some(file) => Some(Place { file, folder: self.children.clone(), children }),
            None => Some(format!("{children}/mod.rs")).filter(exists).map(|file| Place::of_folder(&file)),
        }
    }
}

/// A path from a folder on.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}
