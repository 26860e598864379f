//! Reads a tool's result with a declared parser.

use super::figure::{Concluded, Figures, Wanted};
use super::{fio, jmeter, locust, report};
use crate::script::parse_csv;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use tare_core::fault::{Doing, Fault};

/// How a result is read; figures are named with their units, as in `p99_ms`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Parser {
    /// By JSON pointers.
    Json(Vec<JsonFigure>),
    /// By regular expressions whose named groups are figures. A figure is taken from the first expression that finds
    /// it; `wrong` and `errors` are added up over all of them.
    Regex(Vec<String>),
    /// By the columns of one row of a table.
    Csv(Table),
    /// As a report written for Tare; see [`super::report`].
    Tare,
    /// As fio's own JSON report, with its histograms and counters; see [`super::fio`].
    Fio,
    /// As JMeter's table of samples, or its summary; see [`super::jmeter`].
    Jmeter,
    /// As the list that Locust prints; see [`super::locust`].
    Locust,
}

/// A figure of a JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JsonFigure {
    /// The figure's name, with its unit.
    pub figure: String,
    /// Pointers (RFC 6901). In the last part, `*` at the end stands for any ending and adds up what it finds, and `!x`
    /// stands for everything except x. In a list, `key=value` stands for the first item with this member.
    pub at: Vec<String>,
    /// How several values are combined.
    pub take: Take,
}

/// How several values of one figure are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Take {
    /// The first one that exists.
    First,
    /// Their sum.
    Sum,
    /// The only one that is not 0; none if there are several, as percentiles cannot be added.
    Only,
}

/// A table whose columns are figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// By figure with its unit: the name of the column in the header line.
    pub columns: BTreeMap<String, String>,
    /// Which row, by columns and their values; if empty, there must be only one row.
    pub row: BTreeMap<String, String>,
    /// The character between fields.
    pub separator: char,
}

impl Parser {
    /// The result in a tool's output. `wall_s` is how long the tool ran.
    ///
    /// # Errors
    /// When the output does not have the form that the parser reads, contains several results, or gives no result.
    pub(super) fn conclude(&self, output: &str, wall_s: f64) -> Result<Concluded, Fault> {
        sound(match self {
            Parser::Tare => report::concluded(document(output)?, wall_s),
            Parser::Fio => fio::conclude(output),
            Parser::Jmeter => jmeter::conclude(output, wall_s),
            Parser::Locust => locust::conclude(document(output)?, wall_s),
            _ => self.read(output)?.concluded(wall_s),
        }?)
    }

    /// The operations that it always distinguishes; none if their names are the workload's or the tool's.
    pub(super) fn operations(&self) -> &'static [&'static str] {
        if *self == Parser::Fio { &["read", "write", "mixed"] } else { &[] }
    }

    /// The figures in a tool's output, if the parser reads figures.
    ///
    /// # Errors
    /// As [`Parser::conclude`].
    pub(super) fn read(&self, output: &str) -> Result<Figures, Fault> {
        match self {
            Parser::Tare | Parser::Fio | Parser::Jmeter | Parser::Locust => Ok(Figures::default()),
            Parser::Json(figures) => read_json(figures, output),
            Parser::Regex(patterns) => read_regex(&compiled(patterns)?, output),
            Parser::Csv(table) => read_table(table, output),
        }
    }
}

/// The result, if all its figures are finite and not negative.
pub(super) fn sound(found: Concluded) -> Result<Concluded, Fault> {
    match found.reported.iter().find(|(_, figure)| !(figure.is_finite() && **figure >= 0.0)) {
        Some((name, figure)) => Err(Fault::new(format!("the tool's result says that {name} is {figure}"))),
        None => Ok(found),
    }
}

fn wanted(name: &str) -> Result<Wanted, Fault> {
    Wanted::read(name).map_err(Fault::new)
}

fn read_json(wants: &[JsonFigure], output: &str) -> Result<Figures, Fault> {
    let document = document(output)?;
    let mut figures = Figures::default();
    for want in wants {
        let figure = wanted(&want.figure)?;
        let values: Vec<f64> = want.at.iter().filter_map(|pointer| find(&document, pointer, figure)).collect();
        let value = match want.take {
            Take::First => values.first().copied(),
            Take::Sum => (!values.is_empty()).then(|| values.iter().sum()),
            Take::Only => {
                let mut found = values.iter().filter(|value| **value != 0.0);
                found.next().copied().filter(|_| found.next().is_none())
            }
        };
        if let Some(value) = value {
            figures.add(figure, value);
        }
    }
    Ok(figures)
}

/// The JSON document in an output: all of it, or from the first line that starts one to the last closing bracket.
pub(super) fn document(output: &str) -> Result<Value, Fault> {
    let whole = serde_json::from_str(output);
    if let Ok(document) = whole {
        return Ok(document);
    }
    let starts = output.match_indices(['{', '[']).map(|(at, _)| at);
    let from = starts.into_iter().find(|at| *at == 0 || output.as_bytes()[at - 1] == b'\n');
    let to = output.rfind(['}', ']']).map(|at| at + 1);
    match (from, to) {
        (Some(from), Some(to)) if from < to => serde_json::from_str(&output[from..to]),
        _ => whole,
    }
    .doing("read the tool's result as JSON")
}

/// The number at a pointer.
fn find(document: &Value, pointer: &str, figure: Wanted) -> Option<f64> {
    let number = |value: &Value| match value {
        Value::Number(number) => figure.value(&number.to_string()),
        Value::String(text) => figure.value(text),
        _ => None,
    };
    let (folder, last) = pointer.rsplit_once('/')?;
    let chosen: Box<dyn Fn(&str) -> bool> = match (last.strip_suffix('*'), last.strip_prefix('!')) {
        (Some(start), _) => Box::new(move |key: &str| key.starts_with(start)),
        (None, Some(not)) => Box::new(move |key: &str| key != not),
        (None, None) => return number(pointed(document, pointer)?),
    };
    let members = pointed(document, folder)?.as_object()?;
    Some(members.iter().filter(|(key, _)| chosen(key)).filter_map(|(_, value)| number(value)).sum())
}

/// What a pointer leads to. Only tables of ours look for an item of a list by a member.
fn pointed<'d>(document: &'d Value, pointer: &str) -> Option<&'d Value> {
    pointer.split('/').skip(1).try_fold(document, |value, part| match (value, part.split_once('=')) {
        (Value::Array(items), Some((key, wanted))) => items.iter().find(|item| is_member(item.get(key), wanted)),
        _ => value.pointer(&format!("/{part}")),
    })
}

fn is_member(member: Option<&Value>, wanted: &str) -> bool {
    match member {
        Some(Value::String(text)) => text == wanted,
        Some(Value::Number(number)) => number.as_f64() == wanted.parse().ok(),
        _ => false,
    }
}

/// A pattern as Tare reads it: `^` and `$` match at the ends of lines.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(pattern).multi_line(true).size_limit(1 << 20).build().map_err(|error| error.to_string())
}

pub(super) fn compiled(patterns: &[String]) -> Result<Vec<Regex>, Fault> {
    patterns.iter().map(|pattern| compile(pattern)).collect::<Result<_, String>>().map_err(Fault::new)
}

pub(super) fn read_regex(patterns: &[Regex], output: &str) -> Result<Figures, Fault> {
    let mut figures = Figures::default();
    for regex in patterns {
        let mut found = Figures::default();
        for captures in regex.captures_iter(output) {
            for name in regex.capture_names().flatten() {
                let figure = wanted(name)?;
                let Some(value) = captures.name(name).and_then(|text| figure.value(text.as_str())) else { continue };
                if figures.has(figure) && !figure.adds_up() {
                    continue;
                }
                if found.has(figure) && !figure.adds_up() {
                    return Err(several(&format!("'{name}' stands in it more than once")));
                }
                found.add(figure, value);
            }
        }
        figures.merge(&found);
    }
    Ok(figures)
}

fn several(what: &str) -> Fault {
    Fault::new(format!("the tool's output holds several results: {what}"))
        .remedy("let the tool do one thing in a run, or let the parser say which result is meant")
}

fn read_table(table: &Table, output: &str) -> Result<Figures, Fault> {
    let rows =
        parse_csv(output, table.separator).map_err(|message| Fault::new(format!("the tool's table: {message}")))?;
    let mut rows = rows.iter().map(|(_, row)| row);
    let named = |header: &Vec<String>| table.columns.values().chain(table.row.keys()).all(|name| header.contains(name));
    // Lines that a tool prints before its table do not name the columns.
    let Some(header) = rows.find(|row| named(row)) else {
        let names: Vec<&str> = table.columns.values().chain(table.row.keys()).map(String::as_str).collect();
        return Err(Fault::new(format!("the tool's output has no line with the columns {}", names.join(", "))));
    };
    let column = |name: &String| header.iter().position(|known| known == name);
    let cell = |row: &'_ [String], name: &String| column(name).and_then(|at| row.get(at)).cloned();
    let fits = |row: &&Vec<String>| table.row.iter().all(|(name, value)| cell(row, name).as_ref() == Some(value));
    let mut fitting = rows.filter(fits);
    let Some(row) = fitting.next() else {
        return Err(Fault::new("the tool's table has no row that is asked for"));
    };
    if fitting.next().is_some() {
        return Err(several("several rows fit"));
    }
    let mut figures = Figures::default();
    for (figure, name) in &table.columns {
        let figure = wanted(figure)?;
        if let Some(value) = cell(row, name).and_then(|text| figure.value(&text)) {
            figures.add(figure, value);
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(found: &[(&str, f64)]) -> Figures {
        let mut figures = Figures::default();
        found.iter().for_each(|(name, value)| figures.add(Wanted::read(name).unwrap(), *value));
        figures
    }

    fn json(figure: &str, at: &[&str], take: Take) -> JsonFigure {
        JsonFigure { figure: figure.into(), at: at.iter().map(|at| (*at).to_owned()).collect(), take }
    }

    #[test]
    fn pointers_find_add_up_and_refuse_what_cannot_be_added() {
        let output = r#"starting
            {"a": {"n": 3, "m": 4}, "p": {"x": 7, "y": 0}, "q": {"x": 7, "y": 8},
             "codes": {"200": 5, "201": 1, "500": 2}}
            "#
        .replace("            {", "{");
        let parser = Parser::Json(vec![
            json("throughput", &["/none", "/a/n", "/a/m"], Take::First),
            json("operations", &["/codes/2*"], Take::Sum),
            json("errors", &["/codes/!200", "/a/n"], Take::Sum),
            json("p50_ms", &["/p/x", "/p/y"], Take::Only),
            json("p99_ms", &["/q/x", "/q/y"], Take::Only),
        ]);
        let wanted = figures(&[("throughput", 3.0), ("operations", 6.0), ("errors", 6.0), ("p50", 7000.0)]);
        assert_eq!(parser.read(&output), Ok(wanted));
        let listed = r#"{"l": [{"of": 50, "v": 1}, {"of": 99.0, "v": 2}, {"of": "all", "v": {"n": 7}}]}"#;
        let parser = Parser::Json(vec![
            json("p50_us", &["/l/of=50/v"], Take::First),
            json("p99_us", &["/l/of=99/v"], Take::First),
            json("operations", &["/l/of=none/v", "/l/of=all/v/n"], Take::First),
        ]);
        assert_eq!(parser.read(listed), Ok(figures(&[("p50_us", 1.0), ("p99_us", 2.0), ("operations", 7.0)])));
        assert!(parser.read("no json at all").unwrap_err().message.contains("as JSON"));
        assert!(parser.read("{\n").is_err());
    }

    #[test]
    fn groups_are_figures_and_two_results_are_refused() {
        let patterns =
            [r"^rate: (?<throughput>\S+)", r"alt: (?<throughput>\S+)", r"e=(?<errors>\d+)", r"f=(?<errors>\d+)"];
        let parser = Parser::Regex(patterns.iter().map(|pattern| (*pattern).to_owned()).collect());
        let wanted = figures(&[("throughput", 1200.0), ("errors", 6.0)]);
        assert_eq!(parser.read("rate: 1.2k\nalt: 5 alt: 6\ne=1 e=2\nf=3"), Ok(wanted));
        assert!(parser.read("rate: 1\nrate: 2\n").unwrap_err().message.contains("several results"));
        assert_eq!(parser.read("nothing"), Ok(Figures::default()));
    }

    #[test]
    fn a_row_of_a_table_is_chosen_by_its_columns() {
        let pair = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        let table = |row: &[(&str, &str)]| {
            let columns = [("throughput", "rps"), ("p99_ms", "p99")].map(pair).into();
            Parser::Csv(Table { columns, row: row.iter().copied().map(pair).collect(), separator: ',' })
        };
        let output = "hello, world\n\"test\",\"rps\",\"p99\"\n\"SET\",\"5.5\",\"0.2\"\n\"GET\",\"6\",\"0.1\"\n";
        assert_eq!(table(&[("test", "GET")]).read(output), Ok(figures(&[("throughput", 6.0), ("p99", 100.0)])));
        assert!(table(&[]).read(output).unwrap_err().message.contains("several results"));
        assert!(table(&[("test", "PUT")]).read(output).unwrap_err().message.contains("no row"));
        assert!(table(&[("name", "GET")]).read(output).unwrap_err().message.contains("the columns p99, rps, name"));
    }
}
