//! `forms:` of a study: names, layers, and what else is a form's own.

use super::Catalog;
use crate::config::{Fields, Node, NodeKind, Problems};
use crate::form::{Form, LayerUse};
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
        let (value, placement) = read_form(name, value, problems);
        let items = match value {
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
        forms.push(Form { name: name.clone(), layers, placement });
    }
    forms
}

/// A form is its layers, or one layer; or a map with `layers` and with what else is the form's own.
fn read_form<'n>(name: &str, node: &'n Node, problems: &mut Problems) -> (Option<&'n Node>, Option<Rules>) {
    let is_whole = |key: &str| ["layers", "placement"].contains(&key);
    match &node.kind {
        NodeKind::Map(entries) if entries.iter().any(|(key, ..)| is_whole(key)) => {}
        _ => return (Some(node), None),
    }
    let Some(mut fields) = Fields::of(node, format!("form '{name}'"), problems) else { return (None, None) };
    let layers = fields.get("layers");
    let placement = fields.get("placement").and_then(|node| Rules::read(node, None, problems));
    fields.finish(problems);
    (layers, placement)
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
