//! JSON Schemas of the files that users write, for editors that complete and check while one types. `tare check`
//! decides: a schema describes shapes, not whether a form, a port or a level exists.

use crate::catalog::Tables;
use serde_json::{Map, Value, json};
use tare_core::catalog::Catalog;
use tare_core::config::{Node, NodeKind, Place, Problems};
use tare_layers::lab::KINDS;

/// A name that no option of any layer or protocol has.
const NO_SUCH: &str = "no such name";

/// The schema of study files, with the options of every layer.
pub(crate) fn study() -> Value {
    let mut schema = parsed(tare_core::study::FILE_SCHEMA);
    let layers = Tables.layers();
    let described =
        layers.iter().map(|layer| (layer.name().to_owned(), options(&|node, problems| layer.read(node, problems))));
    let described: Map<String, Value> = described.collect();
    let layer = &mut schema["$defs"]["layer"]["anyOf"];
    layer[0]["enum"] = layers.iter().map(|layer| layer.name()).collect();
    layer[1]["properties"] = Value::Object(described);
    schema
}

/// The schema of workload files, with the options of every protocol.
pub(crate) fn workload() -> Value {
    let mut schema = parsed(tare_core::workload::FILE_SCHEMA);
    let described = Tables.protocols().into_iter().map(|protocol| {
        let options = options(&|node, problems| protocol.read(node, problems));
        (protocol.name().to_owned(), options)
    });
    schema["$defs"]["protocol"]["properties"] = Value::Object(described.collect());
    schema
}

/// The schema of lab files, with every kind of machine.
pub(crate) fn lab() -> Value {
    let mut schema = parsed(tare_core::lab::FILE_SCHEMA);
    let fields = &mut schema["$defs"]["machine"]["properties"];
    let own = fields.as_object().cloned().unwrap_or_default();
    *fields = KINDS.known.iter().map(|kind| (kind.name().to_owned(), kind.schema())).chain(own).collect();
    schema
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("the built-in schemas are valid JSON; a test reads them")
}

type Read<'a> = &'a dyn Fn(&Node, &mut Problems) -> Option<Value>;

/// The schema of options, made by asking their reader: given an unknown option, it names the known ones; given an
/// unknown word, it names the known words. It says nothing about other values.
fn options(read: Read<'_>) -> Value {
    let known = known_to(read, NO_SUCH, NodeKind::Scalar { text: String::new(), quoted: true });
    if known.is_empty() {
        return json!({ "type": ["object", "null"] });
    }
    let value = |name: &String| {
        let words = known_to(read, name, NodeKind::Scalar { text: NO_SUCH.to_owned(), quoted: true });
        if words.is_empty() { json!({}) } else { json!({ "examples": words }) }
    };
    let properties: Map<String, Value> = known.iter().map(|name| (name.clone(), value(name))).collect();
    json!({ "type": ["object", "null"], "properties": properties, "additionalProperties": false })
}

/// The names that the reader lists when it finds [`NO_SUCH`] in the map `{name: value}`.
fn known_to(read: Read<'_>, name: &str, value: NodeKind) -> Vec<String> {
    let place = Place::default();
    let entry = (name.to_owned(), place, Node { place, kind: value });
    let mut problems = Problems::default();
    read(&Node { place, kind: NodeKind::Map(vec![entry]) }, &mut problems);
    let named = problems.into_vec().into_iter().find(|problem| problem.message.contains(NO_SUCH));
    named.map(|problem| problem.known).unwrap_or_default()
}

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
