//! Presets and parts: maps of study fields that override those at the top of the file.

use crate::config::{Node, NodeKind, Place, Problems};

/// Fields whose entries are replaced one by one; every other field is replaced as a whole.
const MERGED: [&str; 5] = ["parameters", "options", "time", "resources", "parts"];

/// An entry of a map: its key, the key's place, and the value.
type Entry = (String, Place, Node);

/// The study at `root` with its preset `chosen` applied over its other fields. `presets:` is left out. `None`, with a
/// problem added, when there is no such preset.
pub(super) fn with_preset(root: &Node, chosen: Option<&str>, problems: &mut Problems) -> Option<Node> {
    let NodeKind::Map(entries) = &root.kind else { return Some(root.clone()) };
    let presets = entries.iter().find(|(key, ..)| key == "presets");
    let rest: Vec<Entry> = entries.iter().filter(|(key, ..)| key != "presets").cloned().collect();
    let known: &[Entry] = match presets {
        Some((.., Node { kind: NodeKind::Map(known), .. })) => known,
        Some((.., node)) if !node.is_null() => {
            problems.add(node.place, "presets must be a map of names, each with fields of the study", "");
            return None;
        }
        _ => &[],
    };
    let entries = match chosen {
        None => rest,
        Some(name) => {
            let Some((.., over)) = known.iter().find(|(key, ..)| key == name) else {
                let names: Vec<&str> = known.iter().map(|(key, ..)| key.as_str()).collect();
                let place = presets.map_or(root.place, |(_, place, _)| *place);
                problems.add_unknown(place, format!("this study has no preset '{name}'"), name, &names);
                return None;
            };
            merged(&rest, over, problems)
        }
    };
    Some(Node { place: root.place, kind: NodeKind::Map(entries) })
}

/// The names of the presets of the study at `root`, in their order.
pub(super) fn presets(root: &Node) -> Vec<String> {
    let NodeKind::Map(entries) = &root.kind else { return Vec::new() };
    let presets = entries.iter().filter(|(key, ..)| key == "presets").filter_map(|(.., node)| match &node.kind {
        NodeKind::Map(known) => Some(known),
        _ => None,
    });
    presets.flatten().map(|(name, ..)| name.clone()).collect()
}

/// `base` with the entries of `over` replacing its own or added after them. An entry that is empty in `over` is
/// removed.
pub(super) fn merged(base: &[Entry], over: &Node, problems: &mut Problems) -> Vec<Entry> {
    let mut entries = base.to_vec();
    let over: &[Entry] = match &over.kind {
        NodeKind::Map(over) => over,
        _ if over.is_null() => &[],
        _ => {
            problems.add(over.place, format!("expected fields of the study, found {}", over.describe()), "");
            &[]
        }
    };
    for (key, place, value) in over {
        let slot = entries.iter_mut().find(|(known, ..)| known == key);
        match (slot, &value.kind) {
            (Some(_), _) if value.is_null() => entries.retain(|(known, ..)| known != key),
            (Some((.., old)), NodeKind::Map(_)) if MERGED.contains(&key.as_str()) => {
                *old = together(key, old, value, problems);
            }
            (Some(slot), _) => *slot = (key.clone(), *place, value.clone()),
            (None, _) => entries.push((key.clone(), *place, value.clone())),
        }
    }
    entries
}

/// Two maps of a field whose entries are replaced one by one. The parts of a study are studies themselves.
fn together(key: &str, old: &Node, new: &Node, problems: &mut Problems) -> Node {
    let NodeKind::Map(entries) = &old.kind else { return new.clone() };
    let entries = if key == "parts" {
        let NodeKind::Map(over) = &new.kind else { return new.clone() };
        let mut parts = entries.clone();
        for (name, place, part) in over {
            match parts.iter_mut().find(|(known, ..)| known == name) {
                Some(_) if part.is_null() => parts.retain(|(known, ..)| known != name),
                Some((.., old)) => {
                    if let NodeKind::Map(fields) = &old.kind {
                        old.kind = NodeKind::Map(merged(&fields.clone(), part, problems));
                    }
                }
                None => parts.push((name.clone(), *place, part.clone())),
            }
        }
        parts
    } else {
        merged(entries, new, problems)
    };
    Node { place: old.place, kind: NodeKind::Map(entries) }
}
