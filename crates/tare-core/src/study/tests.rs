use super::*;
use std::fmt;
use std::path::Path;

struct Two;

impl Catalog for Two {
    fn layers(&self) -> Vec<&'static str> {
        vec!["box", "cage"]
    }
    fn layer_options(&self, layer: &str, node: &Node, problems: &mut Problems) -> Option<serde_json::Value> {
        let mut fields = Fields::of(node, format!("layer '{layer}'"), problems)?;
        let lid = fields.boolean("lid", problems).unwrap_or(true);
        fields.finish(problems);
        Some(serde_json::json!({ "lid": lid }))
    }
    fn protocols(&self) -> Vec<&'static str> {
        vec!["null", "tool", "inner-tool"]
    }
    fn protocol_options(&self, _: &str, _: &Node, _: &mut Problems) -> Option<serde_json::Value> {
        Some(serde_json::Value::Null)
    }
    fn layer_listens(&self, layer: &LayerUse) -> Listens {
        match (layer.layer.as_str(), layer.options["lid"].as_bool()) {
            ("cage", Some(false)) => Listens::Everywhere,
            ("cage", _) => Listens::AtItsAddress,
            _ => Listens::Apart,
        }
    }
    fn protocol_tells_seconds(&self, protocol: &str) -> bool {
        !protocol.ends_with("tool")
    }
    fn protocol_runs_inside(&self, protocol: &str, _: &serde_json::Value) -> bool {
        protocol == "inner-tool"
    }
}

/// A study with these forms; `design` stands in its sixth line.
pub(super) struct TextOf<'a> {
    pub(super) baseline: &'a str,
    pub(super) forms: &'a str,
    pub(super) design: &'a str,
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

const WORKLOAD: &str = "\
workload: toy
services:
  toy:
    bundle: {packages: [toy]}
    command: [/usr/bin/toy]
    ports: {main: 7000}
    options:
      care: {default: low, levels: {low: [], high: [--careful]}}
load:
  protocol: {null: {}}
";

pub(super) fn read(text: &str) -> Result<(Study, Workload), Vec<String>> {
    let mut problems = Problems::new("s.yaml", text);
    let mut find = |name: &str, place: Place, problems: &mut Problems| {
        if !["toy", "tool", "inner-tool"].contains(&name) {
            Node::unknown(name, place, "workload", &["toy"], problems);
            return None;
        }
        let text = if name == "toy" { WORKLOAD.to_owned() } else { WORKLOAD.replace("null", name) };
        let mut inner = Problems::new("w.yaml", &text);
        let workload = Workload::read(&text, Path::new("toy"), &Two, &mut inner);
        assert!(inner.is_empty(), "{:#?}", inner.into_vec());
        workload
    };
    let read = Study::read(text, &Two, &mut problems, &mut find);
    read.ok_or_else(|| problems.into_vec().iter().map(ToString::to_string).collect())
}

#[test]
fn a_study_is_read_with_its_defaults_and_options_applied() {
    let text = "study: s\nworkload: toy\nload: {closed: {}}\noptions: {care: high}\n\
                forms: {plain: [], boxed: [box, cage: {lid: false}]}\n";
    let (study, workload) = read(text).unwrap();
    assert_eq!(study.baseline, "plain");
    assert_eq!(study.load, LoadProfile::Closed { connections: 50, pipeline: 1 });
    assert_eq!(study.design.margin(), 0.01);
    assert_eq!(study.forms[1].layers.len(), 2);
    assert_eq!(study.forms[1].layers[1].options, serde_json::json!({ "lid": false }));
    assert_eq!(workload.services[0].command, ["/usr/bin/toy", "--careful"]);
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
    for wanted in ["either 'repeat' or 'until'", "write it once", "ends before it begins", "side by side", "to itself"]
    {
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
fn a_study_s_name_can_name_a_folder() {
    for name in ["../evil", "/etc/x", "", ".hidden", "a b"] {
        let text = format!("study: \"{name}\"\nworkload: toy\nload: {{closed: {{}}}}\nforms: {{plain: []}}\n");
        let found = read(&text).unwrap_err().join("\n");
        assert!(found.contains("cannot name a study") && found.contains("s.yaml:1"), "{name}: {found}");
    }
}
