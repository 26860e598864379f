//! Figures that others have published: shown beside ours for reference, and never compared with them.

use crate::config::{Fields, Node, Place, Problems};
use crate::units::grouped;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Others' figures, shown beside ours and never compared with them because they come from other machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Where they were published.
    pub from: String,
    /// By metric and form: a ratio to the baseline, or what was published about it, in words. What is in `values` is
    /// here in words as well.
    pub figures: BTreeMap<String, BTreeMap<String, String>>,
    /// By metric: figures that say what they are relative to, or their unit, so that they can be drawn.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, PublishedValues>,
}

/// Published figures of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedValues {
    /// The form that they are drawn relative to, by its name in this study; without `unit` they are ratios to it.
    pub relative_to: String,
    /// The unit, if they are absolute.
    pub unit: Option<String>,
    /// By form.
    pub values: BTreeMap<String, f64>,
}

impl PublishedValues {
    /// The published figure of a form divided by that of the form that all are relative to.
    pub fn ratio(&self, form: &str) -> Option<f64> {
        Some(self.values.get(form)? / self.values.get(&self.relative_to)?)
    }

    /// `0.77 of vm`, `30,657 users, 0.77 of vm`.
    pub fn words(&self, form: &str) -> Option<String> {
        let (value, ratio) = (self.values.get(form)?, self.ratio(form)?);
        let relative = format!("{ratio:.2} of {}", self.relative_to);
        let absolute = self.unit.as_ref().map(|unit| {
            let figure = if value.fract() == 0.0 { grouped(*value) } else { value.to_string() };
            format!("{figure} {unit}")
        });
        match absolute {
            Some(absolute) if form == self.relative_to => Some(absolute),
            Some(absolute) => Some(format!("{absolute}, {relative}")),
            None if form == self.relative_to => Some("what the others are relative to".to_owned()),
            None => Some(relative),
        }
    }
}

/// Reads `published: {from: ..., METRIC: {FORM: 0.98}}`; a metric may say `relative_to: FORM`, `unit: UNIT` or both.
pub(super) fn read_published(node: &Node, problems: &mut Problems) -> Option<Published> {
    let mut fields = Fields::of(node, "published", problems)?;
    let from = fields.require_text("from", problems)?;
    let mut published = Published { from, figures: BTreeMap::new(), values: BTreeMap::new() };
    for (metric, place, node) in fields.entries().iter().filter(|(key, ..)| key != "from") {
        let Some(mut of) = Fields::of(node, format!("figures of '{metric}'"), problems) else { continue };
        let (relative_to, unit) = (of.get("relative_to"), of.get("unit"));
        let entries = of.entries().iter().filter(|(key, ..)| !["relative_to", "unit"].contains(&key.as_str()));
        let entries: Vec<&(String, Place, Node)> = entries.collect();
        let words = if relative_to.is_some() || unit.is_some() {
            let Some(values) = read_values(*place, relative_to, unit, &entries, problems) else { continue };
            let words = values.values.keys().filter_map(|form| Some((form.clone(), values.words(form)?))).collect();
            published.values.insert(metric.clone(), values);
            words
        } else {
            entries.iter().filter_map(|(form, _, node)| Some((form.clone(), node.text(problems)?))).collect()
        };
        published.figures.insert(metric.clone(), words);
    }
    Some(published)
}

/// Reads figures that say what they are. Absolute figures must include the form that they are drawn relative to; among
/// ratios that form is 1 and may be left out.
fn read_values(
    place: Place,
    relative_to: Option<&Node>,
    unit: Option<&Node>,
    entries: &[&(String, Place, Node)],
    problems: &mut Problems,
) -> Option<PublishedValues> {
    let before = problems.len();
    let mut values = BTreeMap::new();
    for (form, _, node) in entries {
        let Some(value) = node.number(problems) else { continue };
        if value <= 0.0 {
            let hint = "leave out what was not published";
            problems.add(node.place, format!("a published figure of {value} cannot be a ratio"), hint);
        }
        values.insert(form.clone(), value);
    }
    let unit = unit.and_then(|node| node.text(problems));
    let Some(relative_to) = relative_to else {
        let hint = "add relative_to: and the form that the published bars stand beside";
        problems.add(place, "absolute figures are drawn relative to a form, and none is named", hint);
        return None;
    };
    let reference = relative_to.text(problems)?;
    match (values.get(&reference), &unit) {
        (None, Some(_)) => {
            let hint = "add its figure, or name one of those that have one";
            problems.add(relative_to.place, format!("there is no figure of '{reference}'"), hint);
        }
        (None, None) => {
            values.insert(reference.clone(), 1.0);
        }
        (Some(value), None) if *value != 1.0 => {
            let message = format!("the figure of '{reference}', relative to itself, is {value}");
            problems.add(relative_to.place, message, "write 1, or say with unit: what the figures are");
        }
        _ => {}
    }
    if values.len() < 2 && problems.len() == before {
        problems.add(place, "there is only the form to which the figures are relative", "add a form and its figure");
    }
    (problems.len() == before).then_some(PublishedValues { relative_to: reference, unit, values })
}
