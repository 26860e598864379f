//! What a workload may say about a tool.

use super::figure::Wanted;
use super::folder::{ToolFile, read_files};
use super::metric::{self, Metric};
use super::parser::{JsonFigure, Parser, Table, Take, compile};
use super::tools::{TOOLS, ToolRow};
use crate::script::{Names, Template};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::config::{Fields, Node, NodeKind, Place, Problems};

/// More than any command has.
const ARGUMENTS_MAX: usize = 1000;

/// The parser of tools written for Tare.
const OWN_REPORT: &str = "tare";

/// The placeholders in a command, and what each stands for.
pub(super) const PLACES: &[(&str, &str)] = &[
    ("host", "the service's address"),
    ("port", "its port"),
    ("connections", "connections of a closed or open load"),
    ("pipeline", "operations in flight on each connection of a closed load"),
    ("rate", "operations a second of an open load, rounded"),
    ("users", "users of a load of users"),
    ("seconds", "how long to load, rounded up to whole seconds"),
    ("seed", "the seed of the trial"),
    ("cpus", "how many CPUs the tool has"),
    ("llc_bytes", "this machine's last-level caches together, bytes; 0 where the kernel does not say"),
    ("output", "a file whose content is read in place of what the tool prints"),
    ("files", "a folder with copies of the files that the option 'files' names"),
];

/// The options, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The program and its arguments, with placeholders.
    pub command: Vec<String>,
    /// How its result is read.
    pub parser: Parser,
    /// The name of one operation.
    pub operation: String,
    /// Commands that write the data set, in order.
    pub populate: Vec<Vec<String>>,
    /// A command that succeeds when the service is ready; without one, an accepted connection is enough.
    pub ready: Option<Vec<String>>,
    /// Additions to the environment, with placeholders.
    pub environment: BTreeMap<String, String>,
    /// Exit codes that count as success.
    pub exit_codes: Vec<u8>,
    /// How long a command may take. None allows the measured time, one operation's timeout and half a minute; ten
    /// minutes for populating.
    pub within: Option<Duration>,
    /// Whether the command also runs while the load settles.
    pub settle: bool,
    /// The Debian package that contains the program, for the message that it is missing.
    pub package: Option<String>,
    /// The share of its CPUs above which the tool may have been the limit.
    pub busy_max: f64,
    /// Where its commands run.
    #[serde(default, rename = "where")]
    pub place: Where,
    /// The directory in which its commands start; none is the root inside the form, and beside it the directory where
    /// Tare was started.
    #[serde(default)]
    pub directory: Option<String>,
    /// Its own figures, of which ratios are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Files beside the workload of which the tool gets copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ToolFile>,
}

impl Options {
    /// The names of its operations.
    pub(super) fn operations(&self) -> Vec<String> {
        match self.parser.operations() {
            [] => vec![self.operation.clone()],
            told_apart => told_apart.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

/// Where commands run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Where {
    /// On this machine, in place of the generator.
    #[default]
    Beside,
    /// Inside the form, like the service that is loaded, on its CPUs.
    Inside,
}

/// The names of [`PLACES`].
pub(super) fn places() -> Names {
    let mut names = Names::default();
    for (name, _) in PLACES {
        names.declare(name).expect("the names of the table are names");
    }
    names
}

/// Checks a user's options.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<Options> {
    let before = problems.len();
    let names = places();
    let mut fields = Fields::of(node, "protocol 'exec'", problems)?;
    let command = fields.require("command", problems).and_then(|node| read_command(node, &names, problems));
    let program = command.as_ref().and_then(|command| command.first()).map(|path| program_of(path).to_owned());
    let row = program.as_deref().and_then(ToolRow::find);
    let parser = match fields.get("parser") {
        Some(node) => read_parser(node, problems),
        None if row.is_none() => {
            let known: Vec<&str> = TOOLS.iter().map(|row| row.name).collect();
            let hint = format!("one of {}, or json:, regex: or csv:", known.join(", "));
            fields.require("parser", problems);
            problems.add(node.place, "nothing says how this tool's result is read", hint);
            None
        }
        None => row.map(|row| (row.parser(), Some(row))),
    };
    let row = parser.as_ref().and_then(|(_, row)| *row);
    let operation = fields.text("operation", problems);
    let operation = operation.unwrap_or_else(|| row.map_or("operation", |row| row.operation).to_owned());
    let populate = fields.get("populate").map(|node| read_commands(node, &names, problems)).unwrap_or_default();
    let ready = fields.get("ready").and_then(|node| read_command(node, &names, problems));
    let environment =
        fields.get("environment").map(|node| read_environment(node, &names, problems)).unwrap_or_default();
    let exit_codes = fields.get("exit_codes").map_or_else(|| vec![0], |node| read_codes(node, problems));
    let within = fields.duration("within", problems);
    let settle = fields.boolean("settle", problems).unwrap_or(true);
    let package = fields.text("package", problems).or_else(|| row.and_then(|row| row.package).map(str::to_owned));
    let busy_max = fields.get("busy_max").map_or(Some(0.98), |node| node.percent(problems)).unwrap_or(0.98);
    let place = match fields.choice("where", &["beside", "inside"], problems) {
        Some("inside") => Where::Inside,
        _ => Where::Beside,
    };
    let directory = fields.get("directory").and_then(|node| read_directory(node, problems));
    let declared = fields.get("metrics");
    let metrics = declared.map(|node| metric::read(node, parser.as_ref().map(|(parser, _)| parser), problems));
    let metrics = metrics.unwrap_or_default();
    let files = fields.get("files").map(|node| read_files(node, problems)).unwrap_or_default();
    if place == Where::Inside {
        check_inside(&mut fields, &names, problems);
    }
    fields.finish(problems);
    if problems.len() > before {
        return None;
    }
    let (command, parser) = (command?, parser?.0);
    Some(Options {
        command,
        parser,
        operation,
        populate,
        ready,
        environment,
        exit_codes,
        within,
        settle,
        package,
        busy_max,
        place,
        directory,
        metrics,
        files,
    })
}

/// The last part of a program's path.
pub(super) fn program_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn read_command(node: &Node, names: &Names, problems: &mut Problems) -> Option<Vec<String>> {
    let NodeKind::List(items) = &node.kind else {
        let message = format!("a command is a list of a program and its arguments, found {}", node.describe());
        problems.add(node.place, message, "write [program, argument, ...]; no shell reads it");
        return None;
    };
    if items.is_empty() || items.len() > ARGUMENTS_MAX {
        problems.add(node.place, format!("a command of {} parts starts nothing", items.len()), "");
        return None;
    }
    let mut command = Vec::new();
    for item in items {
        command.push(Template::read(item, names, problems)?);
    }
    let program = &command[0];
    if program.contains("${") || program.is_empty() || (program.contains('/') && !program.starts_with('/')) {
        let hint = "write a name that is looked for in PATH, or an absolute path";
        problems.add(items[0].place, format!("'{program}' cannot be the program"), hint);
        return None;
    }
    Some(command)
}

fn read_directory(node: &Node, problems: &mut Problems) -> Option<String> {
    let directory = node.text(problems)?;
    if !directory.starts_with('/') || directory.contains('\0') {
        problems.add(node.place, format!("'{directory}' is no absolute path"), "write for example /data");
    }
    Some(directory)
}

/// Refuses what a tool inside the form cannot have: a file that is read from outside, and CPUs of its own.
fn check_inside(fields: &mut Fields, names: &Names, problems: &mut Problems) {
    let [output, files] = ["output", "files"].map(|name| names.slot(name));
    let names_it = |text: &str, slot| Template::compile(text, names).is_ok_and(|text| text.uses(slot));
    for field in ["command", "populate", "ready", "environment"] {
        for (place, text) in fields.get(field).map(texts_of).unwrap_or_default() {
            if names_it(&text, output) {
                let message = "a file inside the form is not read from outside, so there is no ${output}";
                let hint = "let the tool print its result, or write /dev/stdout for its file";
                problems.add(place, message, hint);
            }
            if names_it(&text, files) {
                let message = "files of this machine are not inside the form, so there is no ${files}";
                problems.add(place, message, "put them into the service's bundle");
            }
        }
    }
    if let Some(node) = fields.get("files") {
        let message = "files of this machine are not given to a tool inside the form";
        problems.add(node.place, message, "put them into the service's bundle");
    }
    if let Some(node) = fields.get("busy_max") {
        let message = "a tool inside the form has no CPUs of its own whose use could be bounded";
        problems.add(node.place, message, "omit 'busy_max': its CPU time is the form's");
    }
}

/// All texts below a node, with their places.
fn texts_of(node: &Node) -> Vec<(Place, String)> {
    match &node.kind {
        NodeKind::Scalar { text, .. } => vec![(node.place, text.clone())],
        NodeKind::List(items) => items.iter().flat_map(texts_of).collect(),
        NodeKind::Map(entries) => entries.iter().flat_map(|(.., value)| texts_of(value)).collect(),
    }
}

fn read_commands(node: &Node, names: &Names, problems: &mut Problems) -> Vec<Vec<String>> {
    let NodeKind::List(items) = &node.kind else {
        problems.add(node.place, "expected a list of commands, each a list", "write - [program, argument]");
        return Vec::new();
    };
    items.iter().filter_map(|item| read_command(item, names, problems)).collect()
}

fn read_environment(node: &Node, names: &Names, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(fields) = Fields::of(node, "the environment", problems) else { return BTreeMap::new() };
    let mut environment = BTreeMap::new();
    for (name, place, value) in fields.entries() {
        if name.is_empty() || name.contains(['=', '\0']) {
            problems.add(*place, format!("'{name}' cannot name a variable"), "");
        }
        if let Some(value) = Template::read(value, names, problems) {
            environment.insert(name.clone(), value);
        }
    }
    environment
}

fn read_codes(node: &Node, problems: &mut Problems) -> Vec<u8> {
    let items = node.items(problems).unwrap_or_default();
    items.iter().filter_map(|item| item.integer(0..=255, problems)).map(|code| code as u8).collect()
}

type ReadParser = (Parser, Option<&'static ToolRow>);

fn read_parser(node: &Node, problems: &mut Problems) -> Option<ReadParser> {
    if let NodeKind::Scalar { text, .. } = &node.kind {
        if text == OWN_REPORT {
            return Some((Parser::Tare, None));
        }
        let Some(row) = ToolRow::find(text) else {
            let known: Vec<&str> = TOOLS.iter().map(|row| row.name).chain([OWN_REPORT]).collect();
            Node::unknown(text, node.place, "parser", &known, problems);
            return None;
        };
        return Some((row.parser(), Some(row)));
    }
    let (kind, place, value) = node.kind("a parser", problems)?;
    let parser = match kind {
        "json" => read_json(value, problems),
        "regex" => read_regex(value, problems),
        "csv" => read_csv(value, problems),
        other => {
            Node::unknown(other, place, "kind of parser", &["json", "regex", "csv"], problems);
            None
        }
    };
    parser.map(|parser| (parser, None))
}

fn check_figure(name: &str, place: Place, problems: &mut Problems) {
    if let Err(message) = Wanted::read(name) {
        problems.add(place, message, "write a unit behind a time: p99_ms");
    }
}

/// Without one of these, the figures have no result.
fn check_enough<'a>(names: impl Iterator<Item = &'a str>, place: Place, problems: &mut Problems) {
    let main = ["throughput", "operations", "answered"];
    let base = |name: &str| name.split('_').next().unwrap_or_default().to_owned();
    if !names.into_iter().any(|name| main.contains(&base(name).as_str())) {
        let message = "neither a throughput nor a number of operations is read";
        problems.add(place, message, format!("add one of {}", main.join(", ")));
    }
}

fn read_json(node: &Node, problems: &mut Problems) -> Option<Parser> {
    let fields = Fields::of(node, "parser 'json'", problems)?;
    let mut figures = Vec::new();
    for (figure, place, value) in fields.entries() {
        check_figure(figure, *place, problems);
        let at: Vec<String> = value.items(problems)?.iter().filter_map(|item| item.text(problems)).collect();
        for (pointer, item) in at.iter().zip(value.items(problems)?) {
            if !pointer.starts_with('/') {
                problems.add(
                    item.place,
                    format!("'{pointer}' is no JSON pointer"),
                    "write /a/b for {\"a\": {\"b\": 1}}",
                );
            }
        }
        figures.push(JsonFigure { figure: figure.clone(), at, take: Take::Sum });
    }
    check_enough(figures.iter().map(|figure| figure.figure.as_str()), node.place, problems);
    Some(Parser::Json(figures))
}

fn read_regex(node: &Node, problems: &mut Problems) -> Option<Parser> {
    let (mut patterns, mut names) = (Vec::new(), Vec::new());
    for item in node.items(problems)? {
        let pattern = item.text(problems)?;
        match compile(&pattern) {
            Ok(regex) => {
                let groups: Vec<&str> = regex.capture_names().flatten().collect();
                if groups.is_empty() {
                    problems.add(item.place, "this pattern has no named group", "write (?<throughput>[0-9.]+)");
                }
                groups.iter().for_each(|name| check_figure(name, item.place, problems));
                names.extend(groups.into_iter().map(str::to_owned));
            }
            Err(message) => {
                let last = message.lines().last().unwrap_or_default().trim().to_owned();
                problems.add(item.place, format!("this is no regular expression: {last}"), "");
            }
        }
        patterns.push(pattern);
    }
    check_enough(names.iter().map(String::as_str), node.place, problems);
    Some(Parser::Regex(patterns))
}

fn read_csv(node: &Node, problems: &mut Problems) -> Option<Parser> {
    let mut fields = Fields::of(node, "parser 'csv'", problems)?;
    let mut read_map = |name, what: &str, problems: &mut Problems| -> BTreeMap<String, (Place, String)> {
        let Some(node) = fields.get(name) else { return BTreeMap::new() };
        let Some(entries) = Fields::of(node, what.to_owned(), problems) else { return BTreeMap::new() };
        let entry = |(key, place, value): &(String, Place, Node), problems: &mut Problems| {
            Some((key.clone(), (*place, value.text(problems)?)))
        };
        entries.entries().iter().filter_map(|found| entry(found, problems)).collect()
    };
    let columns = read_map("columns", "the columns", problems);
    let row = read_map("row", "the row", problems);
    for (figure, (place, _)) in &columns {
        check_figure(figure, *place, problems);
    }
    check_enough(columns.keys().map(String::as_str), node.place, problems);
    let separator = fields.text("separator", problems).unwrap_or_else(|| ",".to_owned());
    fields.finish(problems);
    let plain =
        |map: BTreeMap<String, (Place, String)>| map.into_iter().map(|(key, (_, value))| (key, value)).collect();
    let mut characters = separator.chars();
    match (characters.next(), characters.next()) {
        (Some(separator), None) => Some(Parser::Csv(Table { columns: plain(columns), row: plain(row), separator })),
        _ => {
            problems.add(node.place, format!("'{separator}' cannot separate fields"), "write one character");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::read_text;

    fn check(text: &str) -> Result<Options, Vec<String>> {
        read_text(read, text)
    }

    #[test]
    fn a_known_program_brings_its_parser() {
        let options = check("command: [/opt/wrk, \"http://${host}:${port}/\", --latency]\n").unwrap();
        assert_eq!(options.parser, ToolRow::find("wrk").unwrap().parser());
        assert_eq!((options.operation.as_str(), options.package.as_deref()), ("request", Some("wrk")));
        assert_eq!((options.exit_codes, options.settle, options.within), (vec![0], true, None));
    }

    #[test]
    fn a_tool_runs_beside_the_form_unless_it_says_otherwise() {
        let options = check("command: [wrk, -o, '${output}']\n").unwrap();
        assert_eq!((options.place, options.directory), (Where::Beside, None));
        let text = "command: [wrk, '$${output}', '${cpus}']\nwhere: inside\ndirectory: /data\n";
        let options = check(text).unwrap();
        assert_eq!((options.place, options.directory.as_deref()), (Where::Inside, Some("/data")));
        let mut json = serde_json::to_value(&options).unwrap();
        assert_eq!(json["where"], "inside");
        // Options written before there was a choice.
        json.as_object_mut().unwrap().retain(|key, _| !["where", "directory"].contains(&key.as_str()));
        assert_eq!(serde_json::from_value::<Options>(json).unwrap().place, Where::Beside);
    }

    #[test]
    fn metrics_of_its_own_are_declared_with_their_place() {
        let text = "command: [x]\nparser: tare\nmetrics:\n  gflops: {title: LINPACK, unit: GFLOP/s, better: more}\n  \
                    stall: {unit: us, better: less, at: /a/b}\n";
        let metrics = check(text).unwrap().metrics;
        assert_eq!((metrics[0].at.as_str(), metrics[0].own.title.as_str()), ("/metrics/gflops", "LINPACK"));
        assert_eq!((metrics[1].at.as_str(), metrics[1].own.title.as_str()), ("/a/b", "stall"));
        assert!(metrics[0].own.more_is_better && !metrics[1].own.more_is_better);
        let document = serde_json::json!({"metrics": {"gflops": 61.5}, "a": {"b": 3}});
        let values = metric::values(&metrics, &document).unwrap();
        assert_eq!((values["gflops"], values["stall"]), (61.5, 3.0));
        for wrong in [serde_json::json!({"metrics": {"gflops": 0}}), serde_json::json!({"metrics": {"gflops": "61"}})] {
            let refused = metric::values(&metrics, &wrong).unwrap_err();
            assert!(refused.message.contains("'gflops' should stand at /metrics/gflops"), "{refused}");
        }
    }

    #[test]
    fn files_beside_the_workload_come_with_their_content() {
        let options = check("command: [wrk, -s, '${files}/picture.jpg']\nfiles: [picture.jpg]\n").unwrap();
        assert_eq!((options.files[0].name.as_str(), &options.files[0].content[..]), ("picture.jpg", &b"\xff\xd8"[..]));
    }

    #[test]
    fn an_own_parser_is_read() {
        let text = "command: [x]\nparser: {json: {throughput: /rps, operations: [/r, /w], p99_ms: /l/p99}}\n";
        let Parser::Json(figures) = check(text).unwrap().parser else { panic!("not JSON") };
        assert_eq!(figures.iter().map(|figure| figure.at.len()).collect::<Vec<_>>(), [1, 2, 1]);
        let text =
            "command: [x]\nparser: {csv: {columns: {throughput: rps}, row: {test: SET}}}\npopulate: [[a, b], [c]]\n";
        let options = check(text).unwrap();
        assert_eq!(options.populate.len(), 2);
        assert!(matches!(options.parser, Parser::Csv(Table { separator: ',', .. })));
        assert!(check("command: [x]\nparser: {regex: '(?<throughput>\\d+)/s'}\n").is_ok());
    }

    #[test]
    fn every_mistake_has_its_place() {
        let found = |text: &str| check(text).unwrap_err().join("\n");
        let cases = [
            ("parser: wrk\n", 1, "no 'command'"),
            ("command: wrk -t1\n", 1, "no shell reads it"),
            ("command: [bin/wrk]\n", 1, "cannot be the program"),
            ("command: [wrk, '${hots}']\n", 1, "'${hots}' is no value"),
            ("command: [unheard-of]\n", 1, "how this tool's result is read"),
            ("command: [x]\nparser: wrq\n", 2, "did you mean 'wrk'"),
            ("command: [x]\nparser: {jsn: {}}\n", 2, "did you mean 'json'"),
            ("command: [x]\nparser:\n  json: {throughput: rps}\n", 3, "no JSON pointer"),
            ("command: [x]\nparser:\n  json: {p98: /x, operations: /y}\n", 3, "no figure 'p98'"),
            ("command: [x]\nparser:\n  json: {p99_ms: /x}\n", 3, "neither a throughput"),
            ("command: [x]\nparser:\n  regex: '(?<throughput>'\n", 3, "no regular expression"),
            ("command: [x]\nparser:\n  regex: 'x'\n", 3, "no named group"),
            ("command: [wrk]\nexit_codes: [300]\n", 2, "out of range"),
            ("command: [wrk]\npopulate: [a, b]\n", 2, "a command is a list"),
            ("command: [wrk]\nwithn: 3s\n", 2, "did you mean 'within'"),
            ("command: [wrk]\nwhere: insde\n", 2, "did you mean 'inside'"),
            ("command: [x]\nparser: tara\n", 2, "did you mean 'tare'"),
            ("command: [x]\nparser: tare\nmetrics:\n  p50_us: {unit: us, better: less}\n", 4, "every trial has"),
            ("command: [x]\nparser: tare\nmetrics:\n  flops: {better: faster}\n", 4, "no 'unit'"),
            ("command: [wrk]\nmetrics:\n  a: {unit: b, better: more}\n", 3, "read from JSON"),
            ("command: [fio]\nmetrics:\n  a: {unit: b, better: more}\n", 3, "nothing says where"),
            ("command: [wrk]\ndirectory: data\n", 2, "no absolute path"),
            ("command: [wrk]\nwhere: inside\nbusy_max: 50%\n", 3, "no CPUs of its own"),
            ("command: [wrk, -o, '${output}']\nwhere: inside\n", 1, "there is no ${output}"),
            ("command: [wrk]\nwhere: inside\npopulate:\n  - [cp, a, 'x${output}']\n", 4, "there is no ${output}"),
            ("command: [wrk, '${files}/x']\nwhere: inside\n", 1, "there is no ${files}"),
            ("command: [wrk]\nwhere: inside\nfiles: []\n", 3, "not given to a tool inside"),
            ("command: [wrk]\nfiles: [../x]\n", 2, "no file of the workload's own folder"),
            ("command: [wrk]\nwhere: inside\nenvironment:\n  A: ${output}\n", 4, "there is no ${output}"),
        ];
        for (text, line, wanted) in cases {
            let found = found(text);
            assert!(found.contains(&format!("workload.yaml:{line}:")) && found.contains(wanted), "{text}: {found}");
        }
    }
}
