//! The reference of all keys, a page for each kind of file, generated from the schemas, so that it says what editors
//! show. The pages are golden files; if one is out of date, the test writes the new one beside it.

use super::{lab, study, workload};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The page of a schema.
fn page(title: &str, schema: &Value) -> String {
    let mut page = format!("# {title}\n\n");
    let command = schema["title"].as_str().unwrap_or_default().trim_start_matches("Tare ");
    let _ = writeln!(
        page,
        "Made from `tare check --schema {command}`, which editors use to complete and check such files."
    );
    let _ = writeln!(
        page,
        "A key is optional unless it says *required*. Where a value says *see there*, [the layers' \
         README](../../../crates/tare-layers/README.md) or [the protocol's](../workloads.md#load) describes it.\n"
    );
    for (name, value) in keys(schema) {
        section(&mut page, name, value, is_required(schema, name));
    }
    let _ = writeln!(page, "## Kinds of values\n\nSeveral keys take these.\n");
    for (name, value) in schema["$defs"].as_object().into_iter().flatten() {
        section(&mut page, &format!("kind {name}"), value, false);
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

/// A key or a kind of value, with a table of the keys below it.
fn section(page: &mut String, name: &str, value: &Value, required: bool) {
    let (level, title) = match name.strip_prefix("kind ") {
        Some(kind) => ("###", kind.to_owned()),
        None => ("##", format!("`{name}`")),
    };
    let _ = writeln!(page, "{level} {title}\n");
    if let Some(said) = said(value) {
        let _ = writeln!(page, "{said}\n");
    }
    let required = if required { "*required*, " } else { "" };
    let _ = writeln!(page, "Value: {required}{}.\n", kind(value));
    let mut rows = Vec::new();
    below("", value, &mut rows);
    if !rows.is_empty() {
        let _ = writeln!(page, "| key | value | meaning |\n|---|---|---|\n{}\n", rows.join("\n"));
    }
}

/// The description of a value, as a sentence.
fn said(value: &Value) -> Option<String> {
    let text = value["description"].as_str()?.trim();
    Some(if text.ends_with('.') { text.to_owned() } else { format!("{text}.") })
}

fn keys(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value["properties"].as_object().into_iter().flatten()
}

fn is_required(value: &Value, name: &str) -> bool {
    value["required"].as_array().is_some_and(|required| required.iter().any(|required| required == name))
}

/// Rows for all keys below a value, each with its path from `above`.
fn below(above: &str, value: &Value, rows: &mut Vec<String>) {
    let path = |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
    for (name, inner) in keys(value) {
        let required = if is_required(value, name) { "*required*, " } else { "" };
        let meaning = inner["description"].as_str().unwrap_or_default();
        let row = [format!("`{}`", path(name)), format!("{required}{}", kind(inner)), meaning.to_owned()];
        let row = format!("| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
        // Two alternatives may have the same key.
        if !rows.contains(&row) {
            rows.push(row);
        }
        below(&path(name), inner, rows);
    }
    if value["additionalProperties"].is_object() {
        below(&path("NAME"), &value["additionalProperties"], rows);
    }
    if value["items"].is_object() {
        below(&format!("{above}[]"), &value["items"], rows);
    }
    for alternative in value["anyOf"].as_array().into_iter().flatten() {
        below(above, alternative, rows);
    }
}

/// What kind of value is expected, in a few words.
fn kind(value: &Value) -> String {
    if let Some(target) = value["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or(target);
        let linked = format!("[{name}](#{})", name.to_lowercase());
        return if target.starts_with("#/$defs/") { linked } else { format!("as for [`{name}`](#{name})") };
    }
    if let Some(alternatives) = value["anyOf"].as_array() {
        let mut kinds: Vec<String> = alternatives.iter().map(kind).collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    for (words, between) in [(&value["enum"], " or "), (&value["examples"], ", ")] {
        if let Some(words) = words.as_array().filter(|words| !words.is_empty()) {
            let word = |word: &Value| format!("`{}`", word.as_str().map_or_else(|| word.to_string(), str::to_owned));
            return words.iter().map(word).collect::<Vec<_>>().join(between);
        }
    }
    let types = match &value["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => return "*see there*".to_owned(),
    };
    // Text that YAML would read as a number or a boolean is still text.
    if types.contains(&"string") {
        return "text".to_owned();
    }
    types.into_iter().filter(|one| *one != "null").map(|one| of_type(one, value)).collect::<Vec<_>>().join(" or ")
}

fn of_type(name: &str, value: &Value) -> String {
    match name {
        "integer" => format!("whole number{}", range(value)),
        "number" => format!("number{}", range(value)),
        "boolean" => "`true` or `false`".to_owned(),
        "array" if value["items"].is_object() => format!("list, each: {}", kind(&value["items"])),
        "array" => "list".to_owned(),
        "object" if value["additionalProperties"].is_object() => {
            format!("names of your choice, each: {}", kind(&value["additionalProperties"]))
        }
        "object" if keys(value).next().is_none() => "map".to_owned(),
        "object" if value["maxProperties"] == 1 => "one of the keys below".to_owned(),
        "object" => "the keys below".to_owned(),
        other => other.to_owned(),
    }
}

fn range(value: &Value) -> String {
    let above = value["exclusiveMinimum"].as_f64().map(|least| format!(" above {least}"));
    let of = |name: &str| value[name].as_f64();
    match (of("minimum"), of("maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (Some(least), None) => format!(", at least {least}"),
        (None, Some(most)) => format!("{}, at most {most}", above.unwrap_or_default()),
        (None, None) => above.unwrap_or_default(),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference")
}

#[test]
fn the_reference_of_keys_matches_the_schemas() {
    let pages = [
        ("study.md", page("Keys of a study", &study())),
        ("workload.md", page("Keys of a workload", &workload())),
        ("lab.md", page("Keys of a lab", &lab())),
    ];
    let mut old = Vec::new();
    for (name, made) in pages {
        let kept = folder().join(name);
        if std::fs::read_to_string(&kept).is_ok_and(|found| found == made) {
            continue;
        }
        let new = kept.with_extension("md.new");
        std::fs::write(&new, &made).expect("the page can be written");
        old.push(new);
    }
    assert!(old.is_empty(), "out of date; replace the pages by these new ones: {old:?}");
}

#[test]
fn a_value_is_described_in_a_few_words() {
    let schema = serde_json::json!({
        "type": "object", "maxProperties": 1, "required": ["a"], "properties": {
            "a": { "type": "integer", "minimum": 1, "maximum": 9, "description": "How many" },
            "b": { "anyOf": [{ "$ref": "#/$defs/size" }, { "type": "array", "items": { "enum": ["x", "y"] } }] },
        },
    });
    assert_eq!(kind(&schema), "one of the keys below");
    let mut rows = Vec::new();
    below("", &schema, &mut rows);
    let wanted = [
        "| `a` | *required*, whole number, 1 to 9 | How many |",
        "| `b` | [size](#size) or list, each: `x` or `y` |  |",
    ];
    assert_eq!(rows, wanted);
}
