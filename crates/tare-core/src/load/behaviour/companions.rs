//! Reads from YAML what goes on beside users.

use super::{SpokenNames, known, known_value, read_matrix};
use crate::config::{Fields, Node, Problems};
use crate::load::pauses::read_pauses;
use crate::load::{Companion, Distribution, Ending, Pause};
use std::collections::BTreeMap;
use std::time::Duration;

/// More companions than this beside one user are a slip of the finger.
const AT_MOST: u64 = 16;

/// `companions:`, a map by name.
pub(super) fn read_companions(
    node: &Node,
    names: &SpokenNames,
    problems: &mut Problems,
) -> BTreeMap<String, Companion> {
    let Some(fields) = Fields::of(node, "companions", problems) else { return BTreeMap::new() };
    // Companions may depend on how many of them there are, as users do.
    let mut known = names.clone();
    known.variables.extend(fields.entries().iter().map(|(name, ..)| name.clone()));
    let mut companions = BTreeMap::new();
    for (name, place, node) in fields.entries() {
        if names.variables.contains(name) {
            let hint = "conditions ask for both by their names; give it another one";
            problems.add(*place, format!("'{name}' is already the name of a value"), hint);
        }
        let companion = Fields::of(node, format!("companion '{name}'"), problems)
            .and_then(|fields| read_companion(fields, &known, problems));
        companions.extend(companion.map(|companion| (name.clone(), companion)));
    }
    companions
}

fn read_companion(mut fields: Fields<'_>, names: &SpokenNames, problems: &mut Problems) -> Option<Companion> {
    let after_node = fields.require("after", problems);
    let mut after = Vec::new();
    for item in after_node.and_then(|node| node.items(problems)).unwrap_or_default() {
        let Some(name) = item.text(problems) else { continue };
        known(&name, item.place, names, problems);
        after.push(name);
    }
    let at_most = fields.integer("at_most", 1..=AT_MOST, problems).unwrap_or(1) as u32;
    let until = fields.get("until").map(|node| read_until(node, names, problems)).unwrap_or_default();
    let tells = fields.get("tells").map(|node| read_tells(node, names, problems)).unwrap_or_default();
    // A companion that waits for news asks again as soon as there is some.
    let at_once = Pause::Think(Distribution::Constant(Duration::ZERO));
    let pause = read_pauses(&mut fields, Some(at_once), problems);
    let matrix = read_matrix(&mut fields, names, true, problems);
    fields.finish(problems);
    let (start, next) = matrix?;
    Some(Companion { after, at_most, until, start, next, pause: pause?, tells })
}

/// Names of the user's operations, each with the companions it ends.
fn read_until(node: &Node, names: &SpokenNames, problems: &mut Problems) -> BTreeMap<String, Ending> {
    let Some(fields) = Fields::of(node, "until", problems) else { return BTreeMap::new() };
    let mut until = BTreeMap::new();
    for (name, place, node) in fields.entries() {
        known(name, *place, names, problems);
        let ending = node.choice(&["all", "newest"], problems);
        until.extend(ending.map(|word| {
            let ending = if word == "all" { Ending::All } else { Ending::Newest };
            (name.clone(), ending)
        }));
    }
    until
}

/// The values that a companion passes to the user: the user's name of each, with the companion's own.
fn read_tells(node: &Node, names: &SpokenNames, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(fields) = Fields::of(node, "tells", problems) else { return BTreeMap::new() };
    let mut tells = BTreeMap::new();
    for (name, place, node) in fields.entries() {
        known_value(name, *place, names, problems);
        let Some(own) = node.text(problems) else { continue };
        known_value(&own, node.place, names, problems);
        tells.insert(name.clone(), own);
    }
    tells
}
