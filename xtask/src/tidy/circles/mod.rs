//! No circles between modules: what a module needs can be read, tested and moved without what needs it.
//!
//! For every module with child modules, a crate's root included, its children are taken with all that is below each of
//! them. From one child to another leads an arrow when a path in the first, in a `use` or in code, leads to something
//! that is defined in the second, whatever re-exports it goes through. These arrows must not lead back to where they
//! began. What a child takes from its parent's own file is no arrow, and neither is what is there in tests only; what
//! is there under another condition counts.
//!
//! Only what is named is seen: a method that is called on a value names neither its type nor its trait, and neither
//! does a field. Of what a macro or an attribute is handed, only paths of several names are, and a macro of
//! `macro_rules!` without a path belongs to nobody.

mod modules;
mod read;

use super::Finding;
use super::tree::Tree;
use modules::{Files, Modules};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const RULE: &str = "circle";

/// What a thread may use to read expressions in expressions: without optimisation each costs some kilobytes.
const STACK_BYTES: usize = 64 << 20;

/// The arrows between the children of one module: from which, to which, and where the first stands.
type Arrows = BTreeMap<String, BTreeMap<String, Arrow>>;

/// Where one module names what is defined in another.
struct Arrow {
    file: String,
    line: usize,
    path: String,
}

/// What a circle is made of is told with one place for each of its arrows.
pub(super) fn between_modules(tree: &Tree) -> Vec<Finding> {
    let product = tree.rust().filter(|(_, source)| !source.is_test);
    let files: Files<'_> = product.map(|(file, _)| (file.path.as_str(), file.text.as_str())).collect();
    let is_root = |path: &&str| path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    let roots: Vec<&str> = files.keys().copied().filter(is_root).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut findings = Vec::new();
        while let Some(root) = roots.get(next.fetch_add(1, Ordering::Relaxed)) {
            findings.extend(of_crate(&files, root));
        }
        findings
    };
    let at_once = thread::available_parallelism().map_or(1, usize::from).min(roots.len());
    thread::scope(|scope| {
        let start = |_| {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, work).expect("a thread can be started")
        };
        let threads: Vec<_> = (0..at_once).map(start).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("reading does not panic")).collect()
    })
}

/// The circles of one crate.
fn of_crate(files: &Files<'_>, root: &str) -> Vec<Finding> {
    let modules = match Modules::of_crate(files, root) {
        Ok(modules) => modules,
        Err(unread) => return vec![unread],
    };
    let source = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    let name = source.rsplit('/').nth(1).unwrap_or_default();
    let mut findings = Vec::new();
    for (level, arrows) in &arrows(&modules) {
        let folder = level.iter().fold(source.to_owned(), |folder, module| format!("{folder}/{module}"));
        for (circle, all) in circles(arrows) {
            findings.push(finding(&format!("{name} has a circle in {folder}"), arrows, &circle, &all));
        }
    }
    findings
}

/// The arrows in a crate, by the module between whose children they are.
fn arrows(modules: &Modules) -> BTreeMap<&[String], Arrows> {
    let mut levels: BTreeMap<&[String], Arrows> = BTreeMap::new();
    for (at, module) in modules.all.iter().enumerate() {
        for used in modules.uses(at) {
            let (from, to) = (&module.path, &modules.all[used.of].path);
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            // Where one of them ends, it is the other's parent or further above, or both are the same.
            let (Some(a), Some(b)) = (from.get(common), to.get(common)) else { continue };
            let arrows = levels.entry(&from[..common]).or_default().entry(a.clone()).or_default();
            let arrow = || Arrow { file: module.file.clone(), line: used.line, path: used.path };
            arrows.entry(b.clone()).or_insert_with(arrow);
        }
    }
    levels
}

/// The sets of modules of which each reaches all others, and of each set a shortest circle.
fn circles(arrows: &Arrows) -> Vec<(Vec<&str>, BTreeSet<&str>)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for module in arrows.keys() {
        let leads_back = |other: &&str| reached(arrows, other).contains(module.as_str());
        let all: BTreeSet<&str> = reached(arrows, module).into_iter().filter(leads_back).collect();
        let shortest = all.iter().copied().map(|module| way_back(arrows, module)).min_by_key(Vec::len);
        if let Some(shortest) = shortest
            && seen.insert(all.clone())
        {
            found.push((shortest, all));
        }
    }
    found
}

/// What the arrows from a module lead to, and those from there.
fn reached<'a>(arrows: &'a Arrows, module: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![module];
    while let Some(module) = open.pop() {
        for next in arrows.get(module).into_iter().flat_map(|arrows| arrows.keys()) {
            if reached.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    reached
}

/// The modules on a shortest way from one back to itself; empty if there is none.
fn way_back<'a>(arrows: &'a Arrows, module: &'a str) -> Vec<&'a str> {
    let mut ways = VecDeque::from([vec![module]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let last = way[way.len() - 1];
        for next in arrows.get(last).into_iter().flat_map(|arrows| arrows.keys()) {
            if next == module {
                return way;
            }
            if seen.insert(next) {
                ways.push_back([&way[..], &[next.as_str()]].concat());
            }
        }
    }
    Vec::new()
}

/// `a -> b -> a`, and by what each of them leads to the next.
fn finding(beginning: &str, arrows: &Arrows, circle: &[&str], all: &BTreeSet<&str>) -> Finding {
    let steps = circle.iter().zip(circle.iter().cycle().skip(1));
    let steps: Vec<&Arrow> = steps.map(|(from, to)| &arrows[*from][*to]).collect();
    let way = [circle, &circle[..1]].concat().join(" -> ");
    let places: Vec<String> =
        steps.iter().map(|Arrow { file, line, path }| format!("{path} at {file}:{line}")).collect();
    let mut advice = format!("{beginning}: {way}, by {}; move what both need below both", places.join(" and "));
    if all.len() > circle.len() {
        let names: Vec<&str> = all.iter().copied().collect();
        advice += &format!("; {} modules there need each other so: {}", all.len(), names.join(", "));
    }
    Finding::new(&steps[0].file, steps[0].line, RULE, advice)
}

#[cfg(test)]
mod tests;
