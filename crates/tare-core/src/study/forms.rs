//! `forms:` of a study: names, layers, and a form's other settings.

use crate::catalog::Catalog;
use crate::config::{Fields, Node, NodeKind, Problems};
use crate::form::Form;
use crate::instances::Instances;
use crate::layer::LayerUse;
use crate::placement::Rules;
use crate::study::services::{read_options, read_own_resources};
use crate::workload::{OwnResources, Workload};
use std::collections::BTreeMap;

/// The most forms that one form with lists may expand to.
const FORMS_MAX: usize = 100;

/// `workload` already has the study's resources.
pub(super) fn read_forms(
    node: &Node,
    workload: Option<&Workload>,
    catalog: &dyn Catalog,
    problems: &mut Problems,
) -> Vec<Form> {
    let Some(fields) = Fields::of(node, "forms", problems) else { return Vec::new() };
    if fields.entries().is_empty() {
        problems.add(node.place, "a study needs at least one form", "add for example 'native: []'");
    }
    let mut forms = Vec::new();
    for (name, place, value) in fields.entries() {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-_.".contains(c);
        if name.is_empty() || name.len() > 40 || !name.chars().all(fits) {
            problems.add(*place, format!("'{name}' cannot name a form"), "use a-z, 0-9, '+', '-', '_' and '.'");
        }
        let own = read_form(name, value, workload, problems);
        let items = match own.layers {
            Some(value) if !value.is_null() => value.items(problems).unwrap_or_default(),
            _ => &[],
        };
        let stacks = read_layers(items, catalog, problems);
        let Own { placement, mut instances, options, resources, .. } = own;
        if instances.is_empty() {
            instances.push((None, Instances::default()));
        }
        for (suffix, layers) in stacks {
            for (number, instances) in &instances {
                let number = number.map_or_else(String::new, |number| format!("-x{number}"));
                let name = format!("{name}{suffix}{number}");
                if forms.iter().any(|form: &Form| form.name == name) {
                    let message = format!("two forms are called '{name}'");
                    problems.add(
                        *place,
                        message,
                        "a list of values makes a form for each value, named after it; rename one",
                    );
                }
                let (layers, placement, instances) = (layers.clone(), placement.clone(), instances.clone());
                let (options, weight) = (options.clone(), None);
                forms.push(Form { name, layers, placement, instances, options, resources, weight });
            }
        }
    }
    forms
}

/// The layers of a form. If an option is a list, there is one stack for each of its values, with what it adds to the
/// name.
fn read_layers(items: &[Node], catalog: &dyn Catalog, problems: &mut Problems) -> Vec<(String, Vec<LayerUse>)> {
    let mut stacks = vec![(String::new(), Vec::new())];
    for item in items {
        let plain = item.text(&mut Problems::default());
        let nothing = Node { place: item.place, kind: NodeKind::Map(Vec::new()) };
        let used = match &plain {
            Some(layer) => Some((layer.as_str(), item.place, &nothing)),
            None => item.kind("a layer", problems),
        };
        let Some((layer, place, options)) = used else { continue };
        let Some(known) = catalog.layer(layer) else {
            let names: Vec<&str> = catalog.layers().iter().map(|layer| layer.name()).collect();
            Node::unknown(layer, place, "layer", &names, problems);
            continue;
        };
        let mut next = Vec::new();
        for (suffix, options) in levels(options, problems) {
            let Some(options) = known.read(&options, problems) else { continue };
            next.extend(stacks.iter().map(|(name, layers): &(String, Vec<LayerUse>)| {
                let used = LayerUse { layer: layer.to_owned(), options: options.clone() };
                (format!("{name}{suffix}"), layers.iter().cloned().chain([used]).collect())
            }));
        }
        if next.len() > FORMS_MAX {
            let hint = format!("{FORMS_MAX} at most: write shorter lists");
            problems.add(place, format!("these lists make {} forms of one", next.len()), hint);
            next.truncate(1);
        }
        if !next.is_empty() {
            stacks = next;
        }
    }
    stacks
}

/// A layer's options, once for each value of those that are lists, with the text that names the values: `-cpus-4`.
fn levels(options: &Node, problems: &mut Problems) -> Vec<(String, Node)> {
    let mut all = vec![(String::new(), options.clone())];
    let NodeKind::Map(entries) = &options.kind else { return all };
    for (at, (option, place, value)) in entries.iter().enumerate() {
        let NodeKind::List(values) = &value.kind else { continue };
        if values.is_empty() || values.len() > FORMS_MAX {
            let hint = format!("write a value, or a list of 1 to {FORMS_MAX} for a form of each");
            problems.add(*place, format!("'{option}' has {} values", values.len()), hint);
            continue;
        }
        let mut next = Vec::new();
        for value in values {
            // Only a plain value can name a form, and the layer would not accept anything else as one of several
            // either.
            let Some(text) = value.text(problems) else { continue };
            for (suffix, options) in &all {
                let NodeKind::Map(mut entries) = options.kind.clone() else { continue };
                entries[at].2 = value.clone();
                let options = Node { place: options.place, kind: NodeKind::Map(entries) };
                next.push((format!("{suffix}-{option}-{}", named_by(&text)), options));
            }
        }
        if next.len() <= FORMS_MAX && !next.is_empty() {
            all = next;
        }
    }
    all
}

/// A value as a part of a form's name.
fn named_by(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "+_.".contains(c) { c.to_ascii_lowercase() } else { '-' };
    text.chars().map(fits).collect::<String>().trim_matches('-').to_owned()
}

/// A form's own settings.
#[derive(Default)]
struct Own<'n> {
    layers: Option<&'n Node>,
    placement: Option<Rules>,
    /// One for each form that this expands to, with the number that names it.
    instances: Vec<(Option<u64>, Instances)>,
    options: BTreeMap<String, String>,
    resources: OwnResources,
}

/// A form is a list of layers, one layer, or a map with `layers` and the form's other settings.
fn read_form<'n>(name: &str, node: &'n Node, workload: Option<&Workload>, problems: &mut Problems) -> Own<'n> {
    let is_whole = |key: &str| ["layers", "placement", "instances", "options", "resources"].contains(&key);
    match &node.kind {
        NodeKind::Map(entries) if entries.iter().any(|(key, ..)| is_whole(key)) => {}
        _ => return Own { layers: Some(node), ..Own::default() },
    }
    let Some(mut fields) = Fields::of(node, format!("form '{name}'"), problems) else { return Own::default() };
    let layers = fields.get("layers");
    let placement = fields.get("placement").and_then(|node| Rules::read(node, None, problems));
    let instances = fields.get("instances").map(|node| Instances::read_sweep(node, problems)).unwrap_or_default();
    let options = read_options(fields.get("options"), workload, problems);
    let resources = fields.get("resources").map(|node| read_own_resources(node, workload, problems));
    fields.finish(problems);
    Own { layers, placement, instances, options, resources: resources.unwrap_or_default() }
}

pub(super) fn read_baseline(fields: &mut Fields, forms: &[Form], problems: &mut Problems) -> Option<String> {
    let Some(node) = fields.get("baseline") else { return forms.first().map(|form| form.name.clone()) };
    let baseline = node.text(problems)?;
    if !forms.iter().any(|form| form.name == baseline) {
        let known: Vec<&str> = forms.iter().map(|form| form.name.as_str()).collect();
        Node::unknown(&baseline, node.place, "form", &known, problems);
    }
    Some(baseline)
}
