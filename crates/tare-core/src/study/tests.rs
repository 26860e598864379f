use super::*;
use crate::layer::{LayerOptions, LayerRung, LayerUse, LayerVariant, Listens};
use crate::protocol::ProtocolInfo;
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;

pub(crate) struct Two;

static LAYERS: [Toy; 2] = [Toy("box"), Toy("cage")];

impl Catalog for Two {
    fn layers(&self) -> Vec<&'static dyn LayerOptions> {
        LAYERS.iter().map(|layer| layer as &dyn LayerOptions).collect()
    }
    fn protocols(&self) -> Vec<&'static dyn ProtocolInfo> {
        PROTOCOLS.to_vec()
    }
}

const PROTOCOLS: &[&dyn ProtocolInfo] = &[&Named("null"), &Named("tool"), &Named("inner-tool")];

/// A protocol without options, and a tool if its name says so.
struct Named(&'static str);

impl ProtocolInfo for Named {
    fn name(&self) -> &'static str {
        self.0
    }
    fn read(&self, _: &Node, _: &mut Problems) -> Option<serde_json::Value> {
        Some(serde_json::Value::Null)
    }
    fn facts(&self, _: &serde_json::Value) -> ProtocolFacts {
        ProtocolFacts { runs_inside: self.0 == "inner-tool", ..ProtocolFacts::default() }
    }
    fn tells_seconds(&self) -> bool {
        !self.0.ends_with("tool")
    }
}

/// A layer that may have a lid and a tap.
struct Toy(&'static str);

impl LayerOptions for Toy {
    fn name(&self) -> &'static str {
        self.0
    }
    fn about(&self) -> &'static str {
        "a toy"
    }
    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Value> {
        let mut fields = Fields::of(node, format!("layer '{}'", self.0), problems)?;
        let lid = fields.boolean("lid", problems).unwrap_or(true);
        let tap = fields.boolean("tap", problems).unwrap_or(false);
        fields.finish(problems);
        Some(if tap { json!({ "lid": lid, "tap": tap }) } else { json!({ "lid": lid }) })
    }
    fn rungs(&self, options: &Value, _: &[LayerUse], _: LoadOrigin) -> Vec<LayerRung> {
        let rung = |name, lid: bool| LayerRung { name, adds: name, options: json!({ "lid": lid }) };
        let lid = options["lid"].as_bool().unwrap();
        if lid { vec![rung("open", false), rung("lid", true)] } else { vec![rung("open", false)] }
    }
    fn variants(&self, options: &Value, _: LoadOrigin) -> Vec<LayerVariant> {
        let open = json!({ "lid": false });
        let variant = LayerVariant { name: "no-lid", changes: "no lid", trades: "what it covers", options: open };
        if *options == variant.options { Vec::new() } else { vec![variant] }
    }
    fn listens(&self, options: &Value) -> Listens {
        match (self.0, options["lid"].as_bool()) {
            ("cage", Some(false)) => Listens::Everywhere,
            ("cage", _) => Listens::AtItsAddress,
            _ => Listens::Apart,
        }
    }
    fn has_quota(&self, options: &Value) -> bool {
        options["tap"] == true
    }
}

/// A study with these forms; `design` is on line six.
pub(crate) struct TextOf<'a> {
    pub(crate) baseline: &'a str,
    pub(crate) forms: &'a str,
    pub(crate) design: &'a str,
}

impl fmt::Display for TextOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextOf { baseline, forms, design } = self;
        write!(
            f,
            "study: s\nworkload: toy\nload: {{closed: {{}}}}\nbaseline: {baseline}\nforms: {forms}\ndesign: {design}\n"
        )
    }
}

pub(crate) const WORKLOAD: &str = "\
workload: toy
services:
  toy:
    bundle: {packages: [toy]}
    command: [/usr/bin/toy]
    ports: {main: 7000}
    options:
      care: {default: low, levels: {low: [], high: [--careful]}}
    environment: {SIZE: '${{size}}'}
parameters: {size: 5}
load:
  protocol: {null: {}}
";

pub(crate) fn read(text: &str) -> Result<(Study, Workload), Vec<String>> {
    with(text, |problems, find| Study::read(text, &Two, problems, find))
}

/// Reads a study of the workload with the given text; returns the mistakes of both as one text.
pub(crate) fn read_toy(text: &str, workload: &str) -> Result<(Study, Workload), String> {
    let mut problems = Problems::new("s.yaml", text);
    let mut inner = Problems::new("w.yaml", workload);
    let mut find = |_: &str, _: Place, chosen: &Parameters, _: &mut Problems| {
        Workload::read(workload, Path::new("toy"), chosen, &Two, &mut inner)
    };
    let read = Study::read(text, &Two, &mut problems, &mut find);
    let found: Vec<String> = problems.into_vec().iter().chain(&inner.into_vec()).map(ToString::to_string).collect();
    read.filter(|_| found.is_empty()).ok_or(found.join("\n"))
}

fn read_suite(text: &str, preset: Option<&str>) -> Result<Suite, Vec<String>> {
    with(text, |problems, find| Suite::read(text, preset, &Two, problems, find))
}

fn with<T>(text: &str, read: impl FnOnce(&mut Problems, &mut FindWorkload<'_>) -> Option<T>) -> Result<T, Vec<String>> {
    let mut problems = Problems::new("s.yaml", text);
    let mut find = |name: &str, place: Place, chosen: &Parameters, problems: &mut Problems| {
        if !["toy", "tool", "inner-tool"].contains(&name) {
            Node::unknown(name, place, "workload", &["toy"], problems);
            return None;
        }
        let text = if name == "toy" { WORKLOAD.to_owned() } else { WORKLOAD.replace("null", name) };
        let mut inner = Problems::new("w.yaml", &text);
        let workload = Workload::read(&text, Path::new("toy"), chosen, &Two, &mut inner);
        assert!(inner.is_empty(), "{:#?}", inner.into_vec());
        workload
    };
    let read = read(&mut problems, &mut find);
    read.ok_or_else(|| problems.into_vec().iter().map(ToString::to_string).collect())
}

const SUITE: &str = "\
study: s
question: why?
workload: toy
repeat: 5
load: {closed: {connections: 1}}
time: {settle: 1s, measure: 8s}
forms: {plain: [], boxed: [box]}
parts:
  one:
    panel: Memory
    shows: [copy]
    parameters: {size: 7}
    published: {from: a paper, copy: {boxed: 0.98, caged: about the same}}
  two: {workload: tool, load: {closed: {}}, time: {measure: 4s}}
presets:
  quick:
    repeat: 3
    time: {measure: 2s}
    forms: {plain: []}
    parts: {one: {parameters: {size: 9}, time: {settle: 0s}}, two: ~}
";

#[test]
fn a_name_that_stands_there_twice_is_a_mistake_of_the_study() {
    let whole = SUITE.split("parts:").next().unwrap();
    for text in [SUITE, whole] {
        assert!(read_suite(text, None).is_ok());
        let found = read_suite(&format!("{text}repeat: 3\n"), None).unwrap_err();
        assert!(found.len() == 1 && found[0].contains("'repeat' appears a second time"), "{found:#?}");
    }
}

#[test]
fn a_part_is_a_study_with_what_all_have_in_common() {
    let suite = read_suite(SUITE, None).unwrap();
    assert_eq!((suite.name.as_str(), suite.question.as_str(), suite.parts.len()), ("s", "why?", 2));
    let [(one, toy), (two, _)] = &suite.parts[..] else { panic!("two parts") };
    let part = one.part.as_ref().unwrap();
    assert_eq!((one.name.as_str(), part.panel.as_str(), part.of.as_str()), ("s.one", "Memory", "s"));
    assert_eq!((part.shows.as_slice(), toy.services[0].environment["SIZE"].as_str()), (&["copy".to_owned()][..], "7"));
    assert_eq!(part.published.as_ref().unwrap().figures["copy"]["caged"], "about the same");
    let seconds = Duration::from_secs;
    assert_eq!((one.repeat, one.settle, one.measure), (5, seconds(1), seconds(8)));
    assert_eq!((two.workload.as_str(), two.settle, two.measure), ("tool", seconds(1), seconds(4)));
    assert_eq!(two.load, LoadProfile::Closed { connections: 50, pipeline: 1 });
    assert_eq!(two.part.as_ref().unwrap().panel, "two");
    assert!(read(SUITE).unwrap_err()[0].contains("this one has parts"));
}

#[test]
fn a_preset_goes_over_the_rest() {
    assert_eq!(Suite::presets(SUITE), ["quick"]);
    let suite = read_suite(SUITE, Some("quick")).unwrap();
    let [(one, toy)] = &suite.parts[..] else { panic!("one part") };
    assert_eq!((one.repeat, one.forms.len(), toy.services[0].environment["SIZE"].as_str()), (3, 1, "9"));
    assert_eq!((one.settle, one.measure), (Duration::ZERO, Duration::from_secs(2)));
    let plain = "study: s\nworkload: toy\nload: {closed: {}}\nforms: {a: []}\npresets: {long: {repeat: 50}}\n";
    assert_eq!(read_suite(plain, Some("long")).unwrap().parts[0].0.repeat, 50);
    assert!(!read_suite(plain, None).unwrap().is_divided());
}

#[test]
fn mistakes_in_parts_and_presets_have_their_place_and_stand_once() {
    let found = read_suite(SUITE, Some("qick")).unwrap_err();
    assert!(found[0].contains("s.yaml:15:1") && found[0].contains("did you mean 'quick'?"), "{found:#?}");
    let wrong = SUITE.replace("repeat: 5", "repeet: 5").replace("size: 7", "sise: 7").replace("panel", "pannel");
    let found = read_suite(&wrong, None).unwrap_err();
    assert_eq!(found.len(), 3, "{found:#?}");
    let all = found.join("\n");
    for wanted in ["did you mean 'repeat'?", "s.yaml:12:18", "did you mean 'size'?", "did you mean 'panel'?"] {
        assert!(all.contains(wanted), "{wanted}: {all}");
    }
    let found = read_suite(&SUITE.replace("  one:", "  One:").replace("from: a paper, ", ""), None).unwrap_err();
    let all = found.join("\n");
    assert!(all.contains("cannot name a part") && all.contains("no 'from'"), "{all}");
}

#[test]
fn published_figures_say_what_they_are_relative_to() {
    let with = |figures: &str| SUITE.replace("copy: {boxed: 0.98, caged: about the same}", figures);
    let read = |figures: &str| {
        let suite = read_suite(&with(figures), None)?;
        Ok::<_, Vec<String>>(suite.parts[0].0.part.as_ref().unwrap().published.clone().unwrap())
    };
    let told = |published: &Published, form: &str| published.figures["copy"][form].clone();
    let ratios = read("copy: {relative_to: caged, boxed: 0.77}").unwrap();
    assert_eq!((ratios.values["copy"].ratio("boxed"), ratios.values["copy"].ratio("caged")), (Some(0.77), Some(1.0)));
    assert_eq!(told(&ratios, "boxed"), "0.77 of caged");
    let absolute = read("copy: {relative_to: caged, unit: users, caged: 40000, boxed: 30000}").unwrap();
    assert_eq!((absolute.values["copy"].ratio("boxed"), told(&absolute, "caged")), (Some(0.75), "40,000 users".into()));
    assert_eq!(told(&absolute, "boxed"), "30,000 users, 0.75 of caged");
    assert!(read("copy: {boxed: 0.98}").unwrap().values.is_empty(), "a ratio to the baseline, as ever");
    for (wrong, place, message) in [
        ("copy: {relative_to: caged, boxed: some}", "s.yaml:13:66", "expected a number"),
        ("copy: {relative_to: caged, boxed: 0}", "s.yaml:13:66", "cannot be a ratio"),
        ("copy: {unit: users, boxed: 3}", "s.yaml:13:32", "drawn relative to a form"),
        ("copy: {relative_to: caged, unit: users, boxed: 3}", "s.yaml:13:52", "no figure of 'caged'"),
        ("copy: {relative_to: caged, caged: 2, boxed: 3}", "s.yaml:13:52", "'caged', relative to itself, is 2"),
        ("copy: {relative_to: caged, caged: 1}", "s.yaml:13:32", "only the form to which"),
    ] {
        let found = read(wrong).unwrap_err().join("\n");
        assert!(found.contains(place) && found.contains(message), "{wrong}: {found}");
    }
}

#[test]
fn a_study_is_read_with_its_defaults_and_options_applied() {
    let text = "study: s\nworkload: toy\nload: {closed: {}}\noptions: {care: high}\n\
                forms: {plain: [], boxed: [box, cage: {lid: false}]}\n";
    let (study, workload) = read(text).unwrap();
    assert_eq!(study.baseline, "plain");
    assert_eq!(study.load, LoadProfile::Closed { connections: 50, pipeline: 1 });
    assert_eq!((study.design.margin(), study.design.idle), (0.01, Idle::Any));
    let (awake, _) = read(&format!("{text}idle: shallow\n")).unwrap();
    assert_eq!(awake.design.idle, Idle::Shallow);
    assert!(awake.design.describe().ends_with(", CPUs in no deep idle state"), "{}", awake.design.describe());
    let refused = read(&format!("{text}idle: deep\n")).unwrap_err().join("\n");
    assert!(refused.contains("shallow"), "{refused}");
    assert_eq!(study.forms[1].layers.len(), 2);
    assert_eq!(study.forms[1].layers[1].options, serde_json::json!({ "lid": false }));
    assert_eq!(study.resolved(&workload).services[0].command, ["/usr/bin/toy", "--careful"]);
}

#[test]
fn a_study_may_end_by_itself_and_settle_until_steady() {
    let text = "study: s\nworkload: toy\nload: {closed: {}}\nforms: {plain: []}\n\
                until: {half_width: 2%, at_most: 20m}\ntime: {settle: {until: steady, at_most: 30s}}\n";
    let (study, _) = read(text).unwrap();
    let seconds = Duration::from_secs;
    assert_eq!(study.design.half_width, Some(0.02));
    assert_eq!((study.repeat, study.at_most), (40, Some(seconds(1200))));
    assert_eq!((study.settle, study.design.steady_within), (seconds(3), Some(seconds(30))));
    let text = text.replace("until: {half_width: 2%", "repeat: 5\nat_most: 3m\nuntil: {half_width: 200%");
    let found = read(&text).unwrap_err().join("\n");
    assert!(found.contains("no interval is that"), "{found}");
    let text = text.replace("200%", "2%").replace("at_most: 30s", "at_most: 1s") + "design: duet\nfrom: host\n";
    let found = read(&text).unwrap_err().join("\n");
    for wanted in ["either 'repeat' or 'until'", "write it once", "than 'at_least'", "side by side", "to itself"] {
        assert!(found.contains(wanted), "{wanted} is missing in:\n{found}");
    }
}

#[test]
fn a_tool_inside_the_form_says_where_the_load_comes_from() {
    let text = |workload: &str, from: &str| {
        format!("study: s\nworkload: {workload}\nload: {{closed: {{}}}}\nforms: {{plain: []}}\n{from}\n")
    };
    let origin = |workload: &str, from: &str| read(&text(workload, from)).map(|(study, _)| study.from);
    assert_eq!(origin("tool", ""), Ok(LoadOrigin::Outside));
    assert_eq!(origin("tool", "from: host"), Ok(LoadOrigin::Host));
    assert_eq!(origin("inner-tool", ""), Ok(LoadOrigin::Inside));
    for from in ["from: outside", "from: host", "from: moon"] {
        let found = origin("inner-tool", from).unwrap_err().join("\n");
        assert!(found.contains("runs inside the form") && found.contains("s.yaml:5"), "{found}");
    }
    assert!(origin("tool", "from: inside").unwrap_err().join("\n").contains("'inside' is not known here"));
}

#[test]
fn every_mistake_of_a_study_is_found_in_one_reading() {
    let text = "study: s\nworkload: tou\nload: {opne: {}}\nrepeat: 0\nbaseline: nativ\n\
                forms: {native: [], boxed: [bok: {}], caged: [cage: {lit: true}]}\nextra: 1\n";
    let found = read(text).unwrap_err().join("\n");
    let wanted =
        ["'toy'", "did you mean 'open'", "0 is out of range", "'native'", "'box'", "'lid'", "no field 'extra'"];
    for wanted in wanted {
        assert!(found.contains(wanted), "{wanted} is missing in:\n{found}");
    }
}

#[test]
fn what_is_said_of_a_service_that_is_not_there_has_its_own_place() {
    let text = "study: s\nworkload: toy\nload: {closed: {}}\nforms:\n  plain: []\n  many: {layers: [], instances: {tiy: \
                [1, 2]}}\n  apart:\n    layers: []\n    placement: {services: {tay: core}}\nplacement: {services: \
                {tey: core}}\ninstances: {tuy: 2}\n";
    let found = read(text).unwrap_err();
    for (name, place) in [("tiy", "6:34"), ("tay", "9:28"), ("tey", "10:24"), ("tuy", "11:13")] {
        let (what, place) = (format!("there is no service '{name}'"), format!("s.yaml:{place}\n"));
        let told = |told: &String| told.contains(&what) && told.contains(&place);
        assert_eq!(found.iter().filter(|found| told(found)).count(), 1, "{what} at {place}: {found:#?}");
    }
}

#[test]
fn a_second_kind_hides_no_mistake_of_the_first() {
    let text = "study: s\nworkload: toy\nload: {closed: {conections: 1}, open: {}}\nforms: {plain: []}\n";
    let found = read(text).unwrap_err().join("\n");
    assert!(found.contains("here is a second") && found.contains("did you mean 'connections'"), "{found}");
}

#[test]
fn a_study_s_name_can_name_a_folder() {
    for name in ["../evil", "/etc/x", "", ".hidden", "a b"] {
        let text = format!("study: \"{name}\"\nworkload: toy\nload: {{closed: {{}}}}\nforms: {{plain: []}}\n");
        let found = read(&text).unwrap_err().join("\n");
        assert!(found.contains("cannot name a study") && found.contains("s.yaml:1"), "{name}: {found}");
    }
}

#[test]
fn sources_of_a_build_are_asked_for_and_supplied_beside_other_files() {
    let build = "    files: {/etc/x: x.conf}\n    build: {sources: [x.c], command: [cc, x.c], installs: {/x: a}}\n";
    let text = WORKLOAD.replace("    ports:", &format!("{build}    ports:"));
    let read = |text: &str| {
        let mut problems = Problems::new("workload.yaml", text);
        let workload = Workload::read(text, Path::new("/w"), &Parameters::new(), &Two, &mut problems);
        workload.ok_or_else(|| problems.into_vec().iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let mut workload = read(&text).unwrap();
    let wanted = workload.files_wanted();
    let paths: Vec<_> = wanted.iter().map(|(_, inside, local)| (inside.as_str(), local.to_str().unwrap())).collect();
    assert_eq!(paths, [("/etc/x", "/w/x.conf"), ("x.c", "/w/x.c")]);
    for (service, inside, _) in wanted {
        workload.supply_file(&service, &inside, format!("content of {inside}").into());
    }
    let recipe = &workload.services[0].recipe;
    assert_eq!(recipe.files[0].content.text(), Some("content of /etc/x"));
    assert_eq!(recipe.build.as_ref().unwrap().sources["x.c"], "content of x.c");
    assert!(workload.files_wanted().is_empty());
    let found = read(&text.replace("{packages: [toy]}", "{image: ./toy.tar}")).unwrap_err();
    assert!(found.len() == 1 && found[0].contains("use 'packages:'"), "{found:#?}");
}
