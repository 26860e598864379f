//! `forms:` of a study: names, layers, and what else is a form's own.

use super::Catalog;
use crate::config::{Fields, Node, NodeKind, Problems};
use crate::form::{Form, LayerUse};
use crate::instances::Instances;
use crate::placement::Rules;

pub(super) fn read_forms(node: &Node, catalog: &dyn Catalog, problems: &mut Problems) -> Vec<Form> {
    let Some(fields) = Fields::of(node, "forms", problems) else { return Vec::new() };
    if fields.entries().is_empty() {
        problems.add(node.place, "a study needs at least one form", "add for example 'native: []'");
    }
    let known = catalog.layers();
    let mut forms = Vec::new();
    for (name, place, value) in fields.entries() {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-_.".contains(c);
        if name.is_empty() || name.len() > 40 || !name.chars().all(fits) {
            problems.add(*place, format!("'{name}' cannot name a form"), "use a-z, 0-9, '+', '-', '_' and '.'");
        }
        let own = read_form(name, value, problems);
        let items = match own.layers {
            Some(value) if !value.is_null() => value.items(problems).unwrap_or_default(),
            _ => &[],
        };
        let mut layers = Vec::new();
        for item in items {
            let plain = item.text(&mut Problems::default());
            let nothing = Node { place: item.place, kind: NodeKind::Map(Vec::new()) };
            let used = match &plain {
                Some(layer) => Some((layer.as_str(), item.place, &nothing)),
                None => item.kind("a layer", problems),
            };
            let Some((layer, place, options)) = used else { continue };
            if !known.contains(&layer) {
                Node::unknown(layer, place, "layer", &known, problems);
                continue;
            }
            if let Some(options) = catalog.layer_options(layer, options, problems) {
                layers.push(LayerUse { layer: layer.to_owned(), options });
            }
        }
        let Own { placement, mut instances, .. } = own;
        if instances.is_empty() {
            instances.push((None, Instances::default()));
        }
        for (number, instances) in instances {
            let name = number.map_or_else(|| name.clone(), |number| format!("{name}-x{number}"));
            forms.push(Form { name, layers: layers.clone(), placement: placement.clone(), instances });
        }
    }
    forms
}

/// What is a form's own.
#[derive(Default)]
struct Own<'n> {
    layers: Option<&'n Node>,
    placement: Option<Rules>,
    /// One for each form that this stands for, with the number that it is named by.
    instances: Vec<(Option<u64>, Instances)>,
}

/// A form is its layers, or one layer; or a map with `layers` and with what else is the form's own.
fn read_form<'n>(name: &str, node: &'n Node, problems: &mut Problems) -> Own<'n> {
    let is_whole = |key: &str| ["layers", "placement", "instances"].contains(&key);
    match &node.kind {
        NodeKind::Map(entries) if entries.iter().any(|(key, ..)| is_whole(key)) => {}
        _ => return Own { layers: Some(node), ..Own::default() },
    }
    let Some(mut fields) = Fields::of(node, format!("form '{name}'"), problems) else { return Own::default() };
    let layers = fields.get("layers");
    let placement = fields.get("placement").and_then(|node| Rules::read(node, None, problems));
    let instances = fields.get("instances").map(|node| Instances::read_sweep(node, problems)).unwrap_or_default();
    fields.finish(problems);
    Own { layers, placement, instances }
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
