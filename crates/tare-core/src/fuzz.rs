//! Parsers that must survive any text: studies, workloads, quantities and stacks. The table makes a test of each for
//! the gate; `cargo xtask fuzz` runs them for as long as you like.

use crate::catalog::Catalog;
use crate::config::{Node, Place, Problem, Problems, parse};
use crate::image::{ImageConfig, ImageUser, user_numbers};
use crate::layer::{LayerOptions, LayerRung, LayerUse, LayerVariant, Listens};
use crate::load::LoadOrigin;
use crate::parameters::Parameters;
use crate::profile::{folded, unfolded};
use crate::protocol::{ProtocolFacts, ProtocolInfo};
use crate::study::{Study, Suite};
use crate::units::{CpuSet, exact_duration, parse_bytes, parse_duration, parse_percent, show_bytes, show_duration};
use crate::users::why_not_stated;
use crate::workload::Workload;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use std::path::Path;

hostile::targets! {
    yaml { files: &["../../studies/*.yaml", "../../workloads/*/*.yaml"], words: YAML, cases: 800, samples: &[
        b"a: [1, 2\n", b"a: b: c\n", b"\ta: 1\n", b"a: \"x\n", b"", b"\n\n", b"&x a: *x\n", b"---\na: 1\n---\nb: 2\n",
        b"a: |\n  text\n  more\nb: >-\n  folded\n", b"\xef\xbb\xbfa: 1\r\nb: '\xc3\xa9'\r\n",
    ] }
    study { files: &["../../studies/*.yaml"], words: YAML, cases: 300, samples: &[STUDY] }
    workload { files: &["../../workloads/*/*.yaml"], words: YAML, cases: 300, samples: &[WORKLOAD.as_bytes()] }
    units { words: UNITS, samples: &[b"1m30s", b"512MiB", b"2.5 %", b"0-3,8"] }
    image_users { samples: &[USERS.as_bytes()], words: USERS_WORDS }
    stacks {
        words: &[";", " ", "\n", "\r", "main", "12", "-1", "\u{85}"],
        samples: &[b"redis;io thread;main 12\nredis 1\n"],
    }
}

/// What an image says about its user, its `/etc/passwd` and its `/etc/group`, with a zero byte between them.
pub fn image_users(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\0');
    let mut next = || parts.next().unwrap_or_default();
    let (user, passwd, group) = (next(), next(), next());
    match user_numbers(user, passwd, group) {
        Err(why) => assert!(!why.is_empty()),
        Ok(numbers) => assert!(numbers.0 == 0 || why_not_stated(numbers).is_none(), "{numbers:?}"),
    }
    let config = ImageConfig {
        user: user.to_owned(),
        directory: passwd.to_owned(),
        environment: passwd.lines().map(str::to_owned).collect(),
        ports: group.lines().map(str::to_owned).collect(),
        volumes: group.lines().map(str::to_owned).collect(),
        ..ImageConfig::default()
    };
    ImageUser::of(user);
    assert!(config.variables().keys().all(|name| !name.is_empty()));
    assert!(config.tcp_ports().values().all(|port| *port != 0));
    let directories = config.volume_paths().into_iter().chain(config.start_directory());
    directories.for_each(|path| assert!(path.starts_with('/') && path != "/", "{path}"));
}

/// Any text as YAML: what is wrong with it has a place in it.
pub fn yaml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut problems = Problems::new("any.yaml", &text);
    let node = parse(&text, &mut problems);
    // A duplicate name is also a mistake, but the rest can be read.
    assert!(node.is_some() || !problems.is_empty(), "neither a node nor a mistake");
    check_places(problems.into_vec(), &text);
}

fn check_place(place: Place, text: &str) {
    // In YAML, a line may end in CR alone.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let line = text.lines().nth(place.line.wrapping_sub(1));
    let columns = line.unwrap_or_default().chars().count() + 1;
    let inside = line.is_some() || (text.is_empty() && place.line == 1);
    assert!(inside && (1..=columns).contains(&place.column) && place.width > 0, "{place:?} in {text:?}");
}

fn check_places(problems: Vec<Problem>, text: &str) {
    for problem in problems {
        check_place(problem.place, text);
        assert!(!problem.message.is_empty() && problem.to_string().contains("-->"), "{problem:?}");
    }
}

/// Knows many names and accepts any options.
struct Anything;

impl Catalog for Anything {
    fn layers(&self) -> Vec<&'static dyn LayerOptions> {
        LAYERS.iter().map(|layer| layer as &dyn LayerOptions).collect()
    }
    fn protocols(&self) -> Vec<&'static dyn ProtocolInfo> {
        PROTOCOLS.to_vec()
    }
}

const PROTOCOLS: &[&dyn ProtocolInfo] = &[
    &Named("redis"),
    &Named("http"),
    &Named("postgres"),
    &Named("mysql"),
    &Named("tcp"),
    &Named("exec"),
    &Named("null"),
];

/// A protocol that accepts any options.
struct Named(&'static str);

impl ProtocolInfo for Named {
    fn name(&self) -> &'static str {
        self.0
    }
    fn read(&self, _: &Node, _: &mut Problems) -> Option<Value> {
        Some(Value::Null)
    }
    fn facts(&self, _: &Value) -> ProtocolFacts {
        ProtocolFacts {
            operations: ["get", "set"].map(str::to_owned).into(),
            variables: vec!["page".to_owned()],
            runs_inside: self.0 == "exec",
            ..ProtocolFacts::default()
        }
    }
}

static LAYERS: [AnyOptions; 3] = [AnyOptions("container"), AnyOptions("vm"), AnyOptions("box")];

/// A layer that accepts any options.
struct AnyOptions(&'static str);

impl LayerOptions for AnyOptions {
    fn name(&self) -> &'static str {
        self.0
    }
    fn about(&self) -> &'static str {
        "any options"
    }
    fn read(&self, _: &Node, _: &mut Problems) -> Option<Value> {
        Some(Value::Null)
    }
    fn rungs(&self, options: &Value, _: &[LayerUse], _: LoadOrigin) -> Vec<LayerRung> {
        vec![LayerRung { name: "whole", adds: "the layer as a whole", options: options.clone() }]
    }
    fn variants(&self, _: &Value, _: LoadOrigin) -> Vec<LayerVariant> {
        Vec::new()
    }
    fn listens(&self, _: &Value) -> Listens {
        Listens::Apart
    }
    fn has_quota(&self, _: &Value) -> bool {
        false
    }
}

/// What is written is read back unchanged.
fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let written = serde_json::to_value(value).expect("it is plain data");
    let read: T = serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert!(read == *value, "{value:#?}\nbecame\n{read:#?}");
}

/// Any text as a study, with each of its presets, of an existing workload.
pub fn study(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let presets = Suite::presets(&text).into_iter().take(2).map(Some);
    for preset in [None].into_iter().chain(presets) {
        let mut problems = Problems::new("study.yaml", &text);
        let mut find = |_: &str, _: Place, chosen: &Parameters, _: &mut Problems| {
            let mut own = Problems::new("workload.yaml", WORKLOAD);
            Workload::read(WORKLOAD, Path::new("toy"), chosen, &Anything, &mut own)
        };
        let suite = Suite::read(&text, preset.as_deref(), &Anything, &mut problems, &mut find);
        let found = problems.into_vec();
        // A workload that does not accept the chosen parameters has mistakes of its own.
        assert!(suite.is_none() || found.is_empty(), "{found:#?}");
        check_places(found, &text);
        for (study, workload) in suite.iter().flat_map(|suite| &suite.parts) {
            survives::<Study>(study);
            study.forms.iter().for_each(|form| survives::<Workload>(&study.deployed(workload, form)));
        }
    }
}

/// Any text as a workload.
pub fn workload(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut problems = Problems::new("workload.yaml", &text);
    let workload = Workload::read(&text, Path::new("toy"), &Parameters::new(), &Anything, &mut problems);
    let found = problems.into_vec();
    assert_eq!(workload.is_none(), !found.is_empty(), "{found:#?}");
    check_places(found, &text);
    if let Some(workload) = workload {
        survives(&workload);
        workload.files_wanted();
    }
}

/// Any text as quantities.
pub fn units(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(duration) = parse_duration(&text) {
        show_duration(duration);
        let again = parse_duration(&exact_duration(duration).replace(' ', ""))
            .unwrap_or_else(|error| panic!("{duration:?}: {error}"));
        let off = again.as_secs_f64() - duration.as_secs_f64();
        assert!(off.abs() <= 1e-6 + 1e-9 * duration.as_secs_f64(), "{duration:?} became {again:?}");
    }
    if let Ok(bytes) = parse_bytes(&text) {
        show_bytes(bytes);
        assert_eq!(parse_bytes(&format!("{bytes}B")), Ok(bytes));
    }
    if let Ok(share) = parse_percent(&text) {
        assert!(share.is_finite() && share >= 0.0, "{share}");
    }
    if let Ok(cpus) = CpuSet::parse(&text) {
        assert_eq!(CpuSet::parse(&cpus.to_string()).as_ref(), Ok(&cpus));
        assert!(cpus.cpus().is_sorted_by(|a, b| a < b), "{cpus}");
    }
}

/// Any text as stacks of a profile.
pub fn stacks(bytes: &[u8]) {
    let stacks = unfolded(&String::from_utf8_lossy(bytes));
    assert_eq!(unfolded(&folded(&stacks)), stacks);
}

const USERS: &str = "app:www\0root:x:0:0::/root:/bin/sh\napp:x:101:101::/:/x\n\0www:x:33:\n80/tcp\n/data\n";
const USERS_WORDS: &[&str] = &[
    "app",
    "root",
    ":",
    "\0",
    "\n",
    "x",
    "0",
    "101",
    "4294967295",
    "65534",
    "/",
    "..",
    "80/tcp",
    "53/udp",
    "A=b",
    "=",
    " ",
];
const UNITS: &[&str] = &[
    "0",
    "1",
    "9",
    ".",
    "-",
    ",",
    "ms",
    "s",
    "m",
    "h",
    "us",
    "KiB",
    "MiB",
    "TiB",
    "%",
    " ",
    "65535",
    "4294967295",
    "_",
];
const YAML: &[&str] = &[
    ": ",
    "- ",
    "\n",
    "\n  ",
    "\n    ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "'",
    "\"",
    "|\n",
    ">-\n",
    "#",
    "&a ",
    "*a",
    "!!int ",
    "? ",
    "~",
    "null",
    "---\n",
    "...\n",
    "\t",
    "\r\n",
    "\u{e9}",
    "\u{feff}",
    "\u{2028}",
    "${{size}}",
    "${{",
    "}}",
    "study: s\n",
    "workload: toy\n",
    "forms: ",
    "layers: ",
    "container: ",
    "load: ",
    "closed: ",
    "connections: ",
    "parts: ",
    "presets: ",
    "repeat: ",
    "instances: ",
    "resources: ",
    "cpu_quota: ",
    "10s",
    "64MiB",
    "2%",
    "0-3",
    "services: ",
    "command: ",
    "ports: ",
    "bundle: ",
    "packages: ",
    "image: ",
    "ready: ",
    "options: ",
    "qos: ",
    "design: ",
];
const STUDY: &[u8] = b"\
study: s
question: why?
workload: toy
repeat: 5
load: {closed: {connections: 1}}
time: {settle: 1s, measure: 8s}
forms: {plain: [], boxed: [box], many: {layers: [box], instances: [1, 2]}}
parts:
  one:
    panel: Memory
    shows: [copy]
    parameters: {size: 7}
    published: {from: a paper, copy: {boxed: 0.98, plain: about the same}}
  two: {panel: Storage, repeat: 3}
presets:
  quick: {repeat: 1, time: {measure: 2s}}
";
const WORKLOAD: &str = "\
workload: toy
services:
  toy:
    bundle: {packages: [toy]}
    command: [/usr/bin/toy, -p, '${{port.main}}']
    ports: {main: 7000}
    options:
      care: {default: low, levels: {low: [], high: [--careful]}}
    environment: {SIZE: '${{size}}'}
parameters: {size: 5}
load:
  protocol: {redis: {}}
";
