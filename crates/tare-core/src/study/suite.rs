//! A study of several parts: the same question asked of several workloads, in the same forms.

use super::overlay::{merged, presets, with_preset};
use super::published::{Published, read_published};
use super::{Study, find_name};
use crate::catalog::Catalog;
use crate::config::{Fields, Node, NodeKind, Place, Problems, parse};
use crate::parameters::Parameters;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};

/// Finds a workload by its name, given the name's place in the file and the parameters that a study chose; or adds
/// problems.
pub type FindWorkload<'a> = dyn FnMut(&str, Place, &Parameters, &mut Problems) -> Option<Workload> + 'a;

/// What a study file asks: one question of one or several workloads.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Its name.
    pub name: String,
    /// The question, in words.
    pub question: String,
    /// The preset that was chosen.
    pub preset: Option<String>,
    /// The parts, each a study of its own with its workload; a study without parts has itself as the only one.
    pub parts: Vec<(Study, Workload)>,
}

/// Which part of a study of several parts this is, and how it is shown beside the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The name of the study as a whole.
    pub of: String,
    /// Its own name.
    pub name: String,
    /// What it measures, as a heading: parts of one panel are shown together.
    pub panel: String,
    /// The metrics that are shown for it, by name; none shows those that the workload is about.
    #[serde(default)]
    pub shows: Vec<String>,
    /// What others have published about the same, measured on other machines.
    #[serde(default)]
    pub published: Option<Published>,
}

impl Suite {
    /// Reads a study, with parts or without. `None` when anything is wrong; then at least one problem was added.
    pub fn read(
        text: &str,
        preset: Option<&str>,
        catalog: &dyn Catalog,
        problems: &mut Problems,
        find_workload: &mut FindWorkload<'_>,
    ) -> Option<Suite> {
        let before = problems.len();
        let suite = Self::read_text(text, preset, catalog, problems, find_workload);
        // A duplicate name is a mistake, but the rest can still be read.
        suite.filter(|_| problems.len() == before)
    }

    fn read_text(
        text: &str,
        preset: Option<&str>,
        catalog: &dyn Catalog,
        problems: &mut Problems,
        find_workload: &mut FindWorkload<'_>,
    ) -> Option<Suite> {
        let root = parse(text, problems)?;
        let root = with_preset(&root, preset, problems)?;
        let preset = preset.map(str::to_owned);
        let NodeKind::Map(entries) = &root.kind else {
            Study::read_node(&root, None, catalog, problems, find_workload);
            return None;
        };
        let Some((.., parts)) = entries.iter().find(|(key, ..)| key == "parts") else {
            let (study, workload) = Study::read_node(&root, None, catalog, problems, find_workload)?;
            let (name, question) = (study.name.clone(), study.question.clone());
            return Some(Suite { name, question, preset, parts: vec![(study, workload)] });
        };
        let before = problems.len();
        let base = common(entries, problems);
        let name = find_name(&base);
        let fields = Fields::of(parts, "parts", problems)?;
        if fields.entries().is_empty() {
            problems.add(parts.place, "a study of parts needs at least one", "add one, or leave 'parts' out");
        }
        let mut read = Vec::new();
        for (part, place, node) in fields.entries() {
            check_name(part, *place, problems);
            let Some((described, rest)) = read_part(part, &name, node, problems) else { continue };
            let whole = Node { place: node.place, kind: NodeKind::Map(merged(&base, &rest, problems)) };
            read.extend(Study::read_node(&whole, Some(described), catalog, problems, find_workload));
        }
        if problems.len() > before {
            return None;
        }
        let question = read.first().map(|(study, _)| study.question.clone()).unwrap_or_default();
        Some(Suite { name, question, preset, parts: read })
    }

    /// The names of the presets in the text of a study, in their order; empty when it cannot be read.
    pub fn presets(text: &str) -> Vec<String> {
        parse(text, &mut Problems::default()).map(|root| presets(&root)).unwrap_or_default()
    }

    /// Whether it has parts.
    pub fn is_divided(&self) -> bool {
        self.parts.first().is_some_and(|(study, _)| study.part.is_some())
    }
}

/// The fields at the top of a study with parts; the reader of a study knows them too, and asks for each in every part.
const FIELDS: [&str; 28] = [
    "study",
    "question",
    "workload",
    "baseline",
    "repeat",
    "until",
    "at_most",
    "design",
    "margin",
    "idle",
    "ruler",
    "from",
    "load",
    "qos",
    "time",
    "emulated_blocks",
    "forms",
    "ladder",
    "advise",
    "profile",
    "placement",
    "instances",
    "resources",
    "options",
    "parameters",
    "seed",
    "parts",
    "presets",
];

/// The fields that all parts have in common. A field that no study has is reported once, here, and not for each part.
fn common(entries: &[(String, Place, Node)], problems: &mut Problems) -> Vec<(String, Place, Node)> {
    for (key, place, _) in entries.iter().filter(|(key, ..)| !FIELDS.contains(&key.as_str())) {
        problems.add_unknown(*place, format!("the study has no field '{key}'"), key, &FIELDS);
    }
    let of_parts = |key: &str| FIELDS.contains(&key) && key != "parts";
    entries.iter().filter(|(key, ..)| of_parts(key)).cloned().collect()
}

/// The names of parts are also names of folders in a record.
fn check_name(part: &str, place: Place, problems: &mut Problems) {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-_.".contains(c);
    if part.is_empty() || part.len() > 40 || part.starts_with('.') || !part.chars().all(fits) {
        problems.add(place, format!("'{part}' cannot name a part"), "use a-z, 0-9, '+', '-', '_' and '.'");
    }
}

/// The fields of a part alone, and those that it has in common with every study.
fn read_part(name: &str, of: &str, node: &Node, problems: &mut Problems) -> Option<(Part, Node)> {
    const OWN: [&str; 3] = ["panel", "shows", "published"];
    let mut fields = Fields::of(node, format!("part '{name}'"), problems)?;
    let panel = fields.text("panel", problems).unwrap_or_else(|| name.to_owned());
    let shows = fields.texts("shows", problems).unwrap_or_default();
    let published = fields.get("published").and_then(|node| read_published(node, problems));
    let rest = fields.entries().iter().filter(|(key, ..)| !OWN.contains(&key.as_str())).cloned().collect();
    let part = Part { of: of.to_owned(), name: name.to_owned(), panel, shows, published };
    Some((part, Node { place: node.place, kind: NodeKind::Map(rest) }))
}
