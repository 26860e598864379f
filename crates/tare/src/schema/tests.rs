//! The schemas and the readers agree: shipped files are valid, and exactly the keys that readers know are described.

use super::*;
use crate::files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tare_core::config::parse;
use tare_core::parameters::Parameters;
use tare_core::study::Suite;
use tare_core::workload::Workload;

/// Studies that together hold every map that has keys of its own.
const STUDIES: &[&str] = &[
    "{study: s, workload: redis, load: {closed: {connections: 2}}, forms: {a: [vm: {}]}, repeat: 3, \
     resources: {cpus: 1}, time: {measure: 2s}, design: {alternate: {slice: 5s}}}",
    "{study: s, workload: redis, load: {open: {rate: 10}}, forms: {a: [], b: {options: {persistence: always}, \
     resources: {cpu_quota: none, memory: 96MiB}}}, design: {blocks: {}}, time: {settle: {until: steady}}, \
     until: {half_width: 2%}}",
    "{study: s, workload: redis, load: {users: {users: 5, think: {exponential: {mean: 1s}}, connections: {shared: 2}, \
     behaviour: {sequence: [get]}}}, forms: {a: []}, design: {duet: {}}}",
    "{study: s, workload: redis, load: {users: {users: 5, cycle: {uniform: {max: 1s}}, behaviour: {markov: {start: get, \
     next: {get: {get: 1}}}}}}, forms: {a: []}}",
    "{study: s, workload: nginx-site, load: {users: {users: 5, think: 1s, behaviour: {markov: {start: home, next: {home: [{when: \
     session, unless: {session: [a, 5]}, to: {home: 1}}, {to: {home: 1}}]}}}}}, forms: {a: []}}",
    "{study: s, workload: nginx-site, qos: {\"*\": any, home: {p99: 1s, share: {of: 50%, within: 10%}}}, load: {users: {users: \
     5, think: 1s, behaviour: {markov: {start: home, restarts: true, next: {home: [{when: {session: {at_most: 3}}, unless: {session: {same: \
     session}}, to: {home: 1}}, {to: {home: 1}}]}, companions: {c: {after: home, at_most: 2, until: {home: all}, tells: \
     {session: session}, think: 1s, start: home, next: {home: end}}}}}}}, forms: {a: []}}",
    "{study: s, workload: redis, load: {steps: {levels: [1, 2], of: {closed: {pipeline: 1}}}}, forms: {a: []}}",
    "{study: s, workload: redis, load: {steps: {levels: [1, 2], warm: {level: 1, for: 2s}, of: {open: {connections: 3}}}}, \
     forms: {a: []}}",
    "{study: s, workload: redis, load: {steps: {levels: [1, 2], of: {users: {think: {normal: {mean: 1s, sd: 1s}}}}}}, \
     forms: {a: []}}",
    "{study: s, workload: redis, load: {closed: {}}, forms: {a: {layers: [vm: {}], placement: {policy: core}}}, placement: \
     {memory: any, aside: {generator: 1}, services: {redis: {near: eth0}}}}",
    "{study: s, workload: redis, load: {replay: {file: x}}, forms: {a: []}}",
    "{study: s, workload: redis, load: {closed: {}}, forms: {a: []}, design: {chop: {slice: 20ms, freeze: true}}, idle: shallow}",
    "{study: s, workload: redis, load: {closed: {}}, forms: {a: []}, presets: {quick: {repeat: 1}}, parts: {one: {panel: p, \
     shows: [throughput], parameters: {keys: 5}, published: {from: b, throughput: {a: 1.0}, \
     p99_us: {relative_to: a, unit: us, a: 5, b: 7.5}}}}}",
    "{study: s, workload: redis, qos: {\"*\": {p99: 10ms}, failures: 1%}, load: {peak: {of: {closed: {}}}}, forms: {a: []}}",
];

/// The same for workloads.
const WORKLOADS: &[&str] = &[
    "{workload: w, services: {s: {bundle: {packages: [p]}, command: [/p], ports: {main: 1}, ready: {port: main}, \
     resources: {cpus: 1}, options: {o: {default: a, levels: {a: [], b: [-b]}}}, build: {packages: [gcc], sources: [x.c], \
     command: [gcc, x.c], installs: {/p: a.out}}}}, load: {protocol: {redis: {}}, spread: true, behaviours: {b: {markov: \
     {start: get, next: {get: [{when: {c: {at_most: 3}}, unless: {c: 1}, to: {get: 1}}, {to: {get: 1}}]}, companions: {c: {after: get, cycle: {normal: \
     {mean: 1s, sd: 1s}}, until: {}, tells: {}, at_most: 1, start: get, next: {get: end}}, d: {after: get, think: {uniform: {max: 1s}}, start: get, \
     next: {get: end}}, e: {after: get, think: {exponential: {mean: 1s}}, start: get, next: {get: end}}}}}, s: {sequence: \
     [get]}}}, qos_sets: {q: \
     {get: {p99: 1ms, share: {of: 5%, within: 5%}}, failures: 1%}}}",
    "{workload: w, services: {d: {bundle: {packages: [p]}, command: [/p], ports: {main: 1}, volumes: {/d: 1MiB}}, \
     s: {bundle: {packages: [p]}, command: [/p], ports: {main: 2}, names: [n]}, t: {bundle: {packages: [p]}, \
     command: [/p], ports: {main: 3}, volumes: {/e: {shared: x, space: 1MiB, read_only: true}}}}, prepared: {volumes: \
     [d], by: s}, \
     load: {protocol: {redis: {}}}}",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A scalar, typed as in YAML 1.2, as editors do.
fn value(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().map(|(key, _, node)| (key.clone(), value(node))).collect(),
        NodeKind::List(items) => items.iter().map(value).collect(),
        NodeKind::Scalar { text, quoted: false } => match serde_json::from_str(text) {
            Ok(plain @ (Value::Bool(_) | Value::Number(_))) => plain,
            _ if node.is_null() => Value::Null,
            _ => json!(text),
        },
        NodeKind::Scalar { text, .. } => json!(text),
    }
}

fn yaml(text: &str) -> Value {
    let mut problems = Problems::new("sample", text);
    let node = parse(text, &mut problems);
    value(&node.unwrap_or_else(|| panic!("{:?}", problems.into_vec())))
}

/// Closed maps: their place in the schema, and the places of such maps in a file.
type Found = BTreeMap<String, Vec<Vec<String>>>;

/// As much of JSON Schema as the schemas use, except patterns. Notes closed maps on the way.
fn check(root: &Value, at: &str, value: &Value, path: &[String], found: &mut Found) -> Result<(), String> {
    let schema = root.pointer(at).unwrap_or_else(|| panic!("the schema has no {at}"));
    if let Some(name) = schema["$ref"].as_str() {
        return check(root, name.trim_start_matches('#'), value, path, found);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let fits = (0..choices.len()).find(|n| {
            let choice = format!("{at}/anyOf/{n}");
            check(root, &choice, value, path, &mut Found::new()).is_ok()
        });
        let Some(n) = fits else { return Err(format!("{path:?} fits no choice of {at}: {value}")) };
        return check(root, &format!("{at}/anyOf/{n}"), value, path, found);
    }
    scalar(schema, value).map_err(|what| format!("{path:?}: {what} ({at})"))?;
    let items = value.as_array().filter(|_| schema.get("items").is_some());
    for (n, item) in items.into_iter().flatten().enumerate() {
        let inner = [path, &[n.to_string()]].concat();
        check(root, &format!("{at}/items"), item, &inner, found)?;
    }
    let Some(map) = value.as_object() else { return Ok(()) };
    if schema["additionalProperties"] == json!(false) {
        found.entry(at.to_owned()).or_default().push(path.to_vec());
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        map.get(name).ok_or_else(|| format!("{path:?} has no {name}"))?;
    }
    for (key, inner) in map {
        let place = [path, std::slice::from_ref(key)].concat();
        if schema["properties"].get(key).is_some() {
            let key = key.replace('~', "~0").replace('/', "~1");
            check(root, &format!("{at}/properties/{key}"), inner, &place, found)?;
        } else if schema["additionalProperties"].is_object() {
            check(root, &format!("{at}/additionalProperties"), inner, &place, found)?;
        } else if schema["additionalProperties"] == json!(false) {
            return Err(format!("{place:?} is not described ({at})"));
        }
    }
    Ok(())
}

fn scalar(schema: &Value, value: &Value) -> Result<(), String> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let fits = types.contains(&kind) || kind == "integer" && types.contains(&"number");
    if !fits && !types.is_empty() {
        return Err(format!("{value} is of type {kind}, not {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        return Err(format!("{value} is none of those listed"));
    }
    let size = value.as_object().map(Map::len).unwrap_or_default() as u64;
    if value.is_object() && schema["maxProperties"].as_u64().is_some_and(|most| size > most) {
        return Err(format!("{size} entries"));
    }
    let number = value.as_f64();
    let beyond = |bound: &Value, wrong: fn(f64, f64) -> bool| {
        number.zip(bound.as_f64()).is_some_and(|(number, bound)| wrong(number, bound))
    };
    if beyond(&schema["minimum"], |a, b| a < b) || beyond(&schema["maximum"], |a, b| a > b) {
        return Err(format!("{value} is out of range"));
    }
    Ok(())
}

/// The places of closed maps in a schema, except those of layers' and protocols' options, which come from their
/// readers.
fn closed(schema: &Value, at: &str, all: &mut BTreeSet<String>) {
    let generated = |key: &str| {
        key == "examples" || ["/$defs/layer/anyOf/1", "/$defs/protocol"].contains(&at) && key == "properties"
    };
    if schema["additionalProperties"] == json!(false) {
        all.insert(at.to_owned());
    }
    match schema {
        Value::Object(map) => {
            for (key, inner) in map.iter().filter(|(key, _)| !generated(key)) {
                closed(inner, &format!("{at}/{key}"), all);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, inner)| closed(inner, &format!("{at}/{n}"), all));
        }
        _ => {}
    }
}

fn read_study(text: &str) -> Vec<tare_core::config::Problem> {
    let mut problems = Problems::new("study.yaml", text);
    let mut find = |name: &str, _: Place, chosen: &Parameters, _: &mut Problems| {
        let file = root().join("workloads").join(name).join("workload.yaml");
        let read = files::read_workload(&file, chosen).unwrap();
        Some(read.unwrap())
    };
    Suite::read(text, None, &Tables, &mut problems, &mut find);
    problems.into_vec()
}

fn read_workload(text: &str) -> Vec<tare_core::config::Problem> {
    let mut problems = Problems::new("workload.yaml", text);
    Workload::read(text, Path::new("w"), &Parameters::new(), &Tables, &mut problems);
    problems.into_vec()
}

/// The words allowed instead of the map at `at`, except those that are also its keys.
fn words(schema: &Value, at: &str, keys: &BTreeSet<String>) -> BTreeSet<String> {
    let choices = at.rsplit_once("/anyOf/").and_then(|(before, _)| schema.pointer(before)?["anyOf"].as_array());
    let listed = choices.into_iter().flatten().flat_map(|choice| choice["enum"].as_array()).flatten();
    listed.filter_map(Value::as_str).map(str::to_owned).filter(|word| !keys.contains(word)).collect()
}

/// Puts an unknown key into every closed map of the samples, and compares the keys that the reader then names with
/// those that the schema describes there.
fn agree(schema: &Value, samples: &[&str], read: fn(&str) -> Vec<tare_core::config::Problem>) {
    let mut visited: BTreeSet<String> = BTreeSet::new();
    for sample in samples {
        let straight = yaml(sample);
        // JSON is YAML.
        let said = read(&straight.to_string());
        assert!(said.is_empty(), "{sample} is wrong by itself: {said:#?}");
        let mut found = Found::new();
        check(schema, "", &straight, &[], &mut found).unwrap_or_else(|what| panic!("{sample}: {what}"));
        for (at, paths) in found {
            visited.insert(at.clone());
            let described = schema.pointer(&at).unwrap();
            let wanted: BTreeSet<String> = described["properties"].as_object().unwrap().keys().cloned().collect();
            for path in paths {
                let mut bent = straight.clone();
                let pointer: String = path.iter().map(|part| format!("/{}", part.replace('/', "~1"))).collect();
                let map = bent.pointer_mut(&pointer).and_then(Value::as_object_mut).unwrap();
                if described["maxProperties"] == json!(1) {
                    map.clear();
                }
                map.insert(NO_SUCH.to_owned(), json!({}));
                let said = read(&bent.to_string());
                let named = said.iter().find(|problem| problem.message.contains(NO_SUCH));
                let known = named.unwrap_or_else(|| panic!("nobody minds it in {bent}: {said:#?}")).known.clone();
                let known: BTreeSet<String> = known.into_iter().collect();
                // Where a kind without options may also be written as a word, readers name both in one breath.
                let known: BTreeSet<String> = known.difference(&words(schema, &at, &wanted)).cloned().collect();
                assert_eq!(known, wanted, "the reader's keys (left) and the schema's (right) at {at}, {pointer}");
            }
        }
    }
    let mut all = BTreeSet::new();
    closed(schema, "", &mut all);
    let missed: Vec<&String> = all.difference(&visited).collect();
    assert!(missed.is_empty(), "no sample has the maps {missed:#?}; add one that has");
}

#[test]
fn the_schema_of_studies_describes_what_the_reader_reads() {
    agree(&study(), STUDIES, read_study);
}

#[test]
fn the_schema_of_workloads_describes_what_the_reader_reads() {
    agree(&workload(), WORKLOADS, read_workload);
}

#[test]
fn the_schema_of_labs_describes_what_the_reader_reads() {
    let sample = "{machines: {a: {ssh: root@a, network: 10.0.0.1, home: /srv/tare}, \
                  b: {command: [x, \"{tare}\", agent]}}}";
    let read = |text: &str| tare_core::lab::Lab::read("lab.yaml", text, &KINDS).err().unwrap_or_default();
    agree(&lab(), &[sample], read);
}

#[test]
fn shipped_files_match_the_schemas() {
    let folder = |name: &str| std::fs::read_dir(root().join(name)).unwrap().map(|entry| entry.unwrap().path());
    let fits = |schema: &Value, path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        check(schema, "", &yaml(&text), &[], &mut Found::new())
            .unwrap_or_else(|what| panic!("{}: {what}", path.display()));
    };
    folder("studies").for_each(|path| fits(&study(), path));
    let all = folder("workloads").flat_map(|path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
    all.filter(|path| path.extension().is_some_and(|found| found == "yaml")).for_each(|path| fits(&workload(), path));
}

#[test]
fn options_of_layers_and_protocols_are_described_by_their_readers() {
    for layer in Tables.layers() {
        let name = layer.name();
        assert!(study().pointer("/$defs/layer/anyOf/1/properties").unwrap().get(name).is_some(), "{name}");
    }
    let known = options(&|node, problems| {
        let mut fields = tare_core::config::Fields::of(node, "it", problems)?;
        fields.choice("lid", &["open", "shut"], problems);
        fields.integer("walls", 0..=6, problems);
        fields.finish(problems);
        None
    });
    assert_eq!(known["properties"], json!({ "lid": { "examples": ["open", "shut"] }, "walls": {} }));
    assert_eq!(known["additionalProperties"], json!(false));
}

#[test]
fn wrong_files_do_not_match() {
    for bent in
        ["repeat: 0", "studdy: s", "load: {warp: {}}", "forms: {a: [kontainer]}", "load: {closed: {}, open: {}}"]
    {
        let (key, text) = (bent.split(':').next().unwrap(), format!("{{{bent}}}"));
        let mut sample = yaml(STUDIES[0]);
        sample[key] = yaml(&text)[key].clone();
        assert!(check(&study(), "", &sample, &[], &mut Found::new()).is_err(), "{bent}");
    }
}
