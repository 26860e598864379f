//! Reads `feeds:` from a user's file.

use super::csv::parse_csv;
use super::distribution::{Shape, Spread};
use super::number::{NUMBER_MAX, parse_number};
use super::spec::{FeedSpec, FeedSpecs, Order, Per, Source};
use super::values::is_name;
use std::collections::BTreeSet;
use tare_core::config::{Fields, Node, NodeKind, Place, Problems};

/// More feeds, or columns of one feed, than any script has.
const FEEDS_MAX: usize = 256;
/// More cells, over all tables, than a plan can carry.
const CELLS_MAX: usize = 1_000_000;
/// The longest random text.
const TEXT_MAX: u64 = 1 << 20;

type ReadKind = fn(&Node, &mut Problems) -> Option<FeedSpec>;

/// Every kind of feed.
const KINDS: &[(&str, ReadKind)] = &[
    ("uniform", |node, problems| read_spread("uniform", node, problems, |_, _| Some(Shape::Uniform))),
    ("zipf", |node, problems| read_spread("zipf", node, problems, read_zipf)),
    ("nurand", |node, problems| read_spread("nurand", node, problems, read_nurand)),
    ("gaussian", |node, problems| read_spread("gaussian", node, problems, read_gaussian)),
    ("exponential", |node, problems| read_spread("exponential", node, problems, read_exponential)),
    ("sequence", read_sequence),
    ("csv", read_table),
    ("choice", read_choice),
    ("text", read_text),
    ("pattern", read_pattern),
];

/// Reads a map of feeds: each has a name, and one kind with its options. Each mistake is a problem with its place; the
/// feeds without mistakes are returned.
pub(crate) fn read_feeds(node: &Node, problems: &mut Problems) -> FeedSpecs {
    let mut specs = FeedSpecs::new();
    let Some(fields) = Fields::of(node, "feeds", problems) else { return specs };
    if fields.entries().len() > FEEDS_MAX {
        problems.add(node.place, "these are too many feeds", format!("at most {FEEDS_MAX}"));
        return specs;
    }
    for (name, place, node) in fields.entries() {
        if !is_name(name) {
            problems.add(
                *place,
                format!("'{name}' cannot name a feed"),
                "use letters, digits, _ and -, a letter first",
            );
        }
        if let Some(spec) = read_feed(node, problems) {
            specs.insert(name.clone(), spec);
        }
    }
    let cells = |spec: &FeedSpec| match &spec.source {
        Source::Csv { columns, rows, .. } => columns.len() * rows.len(),
        _ => 0,
    };
    if specs.values().map(cells).sum::<usize>() > CELLS_MAX {
        problems.add(node.place, format!("the tables of all feeds have more than {CELLS_MAX} cells"), "shorten them");
    }
    specs
}

fn read_feed(node: &Node, problems: &mut Problems) -> Option<FeedSpec> {
    let (kind, place, value) = node.kind("a feed", problems)?;
    let Some((_, read)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        Node::unknown(kind, place, "kind of feed", &known, problems);
        return None;
    };
    read(value, problems)
}

fn read_per(fields: &mut Fields<'_>, problems: &mut Problems) -> Per {
    match fields.choice("per", &["operation", "user"], problems) {
        Some("user") => Per::User,
        _ => Per::Operation,
    }
}

/// An integer, which may be negative.
fn signed(node: Option<&Node>, problems: &mut Problems) -> Option<i64> {
    let node = node?;
    let text = node.text(problems)?;
    parse_number(&text).map_err(|message| problems.add(node.place, message, format!("at most {NUMBER_MAX}"))).ok()
}

fn read_range(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<(i64, i64)> {
    let from = signed(fields.require("from", problems), problems);
    let to_node = fields.require("to", problems);
    let to = signed(to_node, problems);
    let (from, to) = (from?, to?);
    if from > to {
        let place = to_node.map_or(fields.place(), |node| node.place);
        problems.add(place, format!("the range from {from} to {to} is empty"), "'to' is at least 'from'");
        return None;
    }
    Some((from, to))
}

fn read_spread(
    kind: &str,
    node: &Node,
    problems: &mut Problems,
    shape: fn(&mut Fields<'_>, &mut Problems) -> Option<Shape>,
) -> Option<FeedSpec> {
    let mut fields = Fields::of(node, format!("feed '{kind}'"), problems)?;
    let range = read_range(&mut fields, problems);
    let shape = shape(&mut fields, problems);
    let per = read_per(&mut fields, problems);
    fields.finish(problems);
    let ((from, to), shape) = (range?, shape?);
    Some(FeedSpec { source: Source::Number(Spread { from, to, shape }), per })
}

/// A number within `bounds`, or `default` if the field is absent.
fn bounded(
    fields: &mut Fields<'_>,
    name: &'static str,
    default: Option<f64>,
    bounds: (f64, f64),
    problems: &mut Problems,
) -> Option<f64> {
    let node = match (fields.get(name), default) {
        (Some(node), _) => node,
        (None, Some(default)) => return Some(default),
        (None, None) => fields.require(name, problems)?,
    };
    let value = node.number(problems)?;
    if (bounds.0..=bounds.1).contains(&value) {
        return Some(value);
    }
    problems.add(node.place, format!("{value} is out of range"), format!("from {} to {}", bounds.0, bounds.1));
    None
}

fn read_zipf(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Shape> {
    let theta = bounded(fields, "theta", Some(0.99), (0.001, 20.0), problems);
    let scatter = fields.boolean("scatter", problems).unwrap_or(false);
    Some(Shape::Zipf { theta: theta?, scatter })
}

fn read_nurand(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Shape> {
    let a = fields.require("a", problems).and_then(|node| node.integer(0..=NUMBER_MAX as u64, problems))?;
    let c = match fields.get("c") {
        Some(node) => node.integer(0..=a, problems)?,
        None => 0,
    };
    Some(Shape::Nurand { a, c })
}

fn read_gaussian(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Shape> {
    bounded(fields, "parameter", None, (2.0, 100.0), problems).map(|parameter| Shape::Gaussian { parameter })
}

fn read_exponential(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Shape> {
    bounded(fields, "parameter", None, (0.001, 700.0), problems).map(|parameter| Shape::Exponential { parameter })
}

fn read_sequence(node: &Node, problems: &mut Problems) -> Option<FeedSpec> {
    let mut fields = Fields::of(node, "feed 'sequence'", problems)?;
    let from_node = fields.get("from");
    let from = if from_node.is_some() { signed(from_node, problems) } else { Some(1) };
    let to_node = fields.get("to");
    let to = if to_node.is_some() { signed(to_node, problems) } else { Some(NUMBER_MAX) };
    let step = fields.integer("step", 1..=NUMBER_MAX as u64, problems).unwrap_or(1);
    let per = read_per(&mut fields, problems);
    let place = fields.place();
    fields.finish(problems);
    let (from, to) = (from?, to?);
    if from > to {
        problems.add(to_node.map_or(place, |node| node.place), "this sequence is empty", "'to' is at least 'from'");
        return None;
    }
    Some(FeedSpec { source: Source::Sequence { from, to, step }, per })
}

fn read_table(node: &Node, problems: &mut Problems) -> Option<FeedSpec> {
    let mut fields = Fields::of(node, "feed 'csv'", problems)?;
    let columns = fields.get("columns").is_some().then(|| fields.texts("columns", problems).unwrap_or_default());
    let separator = match fields.get("separator") {
        Some(node) => read_separator(node, problems),
        None => Some(','),
    };
    let order = match fields.choice("order", &["random", "in-turn"], problems) {
        Some("in-turn") => Order::InTurn,
        _ => Order::Random,
    };
    let per = read_per(&mut fields, problems);
    let file = fields.require("file", problems);
    fields.finish(problems);
    let file = file?;
    let name = file.text(problems)?;
    let separator = separator?;
    let text = problems.beside(&name).map_err(|message| problems.add(file.place, message, "")).ok()?;
    match table(&text, separator, columns) {
        Ok((columns, rows)) => Some(FeedSpec { source: Source::Csv { columns, rows, order }, per }),
        Err(message) => {
            problems.add(file.place, format!("{name}: {message}"), "");
            None
        }
    }
}

fn read_separator(node: &Node, problems: &mut Problems) -> Option<char> {
    let text = node.text(problems)?;
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(separator), None) if !matches!(separator, '"' | '\n' | '\r') => Some(separator),
        _ => {
            problems.add(node.place, format!("'{text}' cannot separate fields"), "write one character, such as ';'");
            None
        }
    }
}

type Table = (Vec<String>, Vec<Vec<String>>);

/// The columns and rows of a table. Without `columns` the first line names them.
fn table(text: &str, separator: char, columns: Option<Vec<String>>) -> Result<Table, String> {
    let mut rows = parse_csv(text, separator)?.into_iter();
    let columns = match columns {
        Some(columns) => columns,
        None => rows.next().map(|(_, header)| header).unwrap_or_default(),
    };
    let mut seen = BTreeSet::new();
    if columns.is_empty() || columns.len() > FEEDS_MAX {
        return Err(format!("{} columns are not from 1 to {FEEDS_MAX}", columns.len()));
    }
    if let Some(bad) = columns.iter().find(|column| !is_name(column)) {
        return Err(format!("'{bad}' cannot name a column; name them by 'columns: [...]'"));
    }
    if let Some(twice) = columns.iter().find(|column| !seen.insert(column.as_str())) {
        return Err(format!("two columns are named '{twice}'"));
    }
    let fitting = |(line, row): (usize, Vec<String>)| {
        let width = columns.len();
        if row.len() == width { Ok(row) } else { Err(format!("line {line} has {} fields, not {width}", row.len())) }
    };
    let rows = rows.map(fitting).collect::<Result<Vec<_>, _>>()?;
    if rows.is_empty() { Err("there is no row in it".to_owned()) } else { Ok((columns, rows)) }
}

/// A kind given as a single value, or as a map with that value under `of` and with `per`.
fn read_of<'n>(what: &str, node: &'n Node, problems: &mut Problems) -> Option<(&'n Node, Per)> {
    let NodeKind::Map(_) = node.kind else { return Some((node, Per::Operation)) };
    let mut fields = Fields::of(node, format!("feed '{what}'"), problems)?;
    let of = fields.require("of", problems);
    let per = read_per(&mut fields, problems);
    fields.finish(problems);
    Some((of?, per))
}

fn read_choice(node: &Node, problems: &mut Problems) -> Option<FeedSpec> {
    let (of, per) = read_of("choice", node, problems)?;
    let words = match &of.kind {
        NodeKind::Map(entries) => {
            let weighted = |(word, _, weight): &(String, Place, Node)| {
                Some((word.clone(), weight.integer(0..=1_000_000_000, problems)?))
            };
            entries.iter().map(weighted).collect::<Option<Vec<_>>>()?
        }
        _ => {
            let items = of.items(problems)?;
            items.iter().map(|item| Some((item.text(problems)?, 1))).collect::<Option<Vec<_>>>()?
        }
    };
    if words.iter().map(|(_, weight)| weight).sum::<u64>() == 0 {
        problems.add(of.place, "there is nothing to choose from", "give at least one word, with a weight above 0");
        return None;
    }
    Some(FeedSpec { source: Source::Choice(words), per })
}

fn read_text(node: &Node, problems: &mut Problems) -> Option<FeedSpec> {
    let mut fields = Fields::of(node, "feed 'text'", problems)?;
    let letters_node = fields.get("letters");
    let letters = match letters_node {
        Some(node) => node.text(problems)?,
        None => ('a'..='z').collect(),
    };
    let length = fields.get("length");
    let (from, to) = match length {
        Some(node) => (Some(node), Some(node)),
        None => (fields.require("from", problems), fields.require("to", problems)),
    };
    let read = |node: Option<&Node>, problems: &mut Problems| node?.integer(0..=TEXT_MAX, problems);
    let (from, to_place) = (read(from, problems), to.map_or(node.place, |node| node.place));
    let to = if length.is_some() { from } else { read(to, problems) };
    let per = read_per(&mut fields, problems);
    fields.finish(problems);
    let (from, to) = (from?, to?);
    if from > to {
        problems.add(to_place, format!("there is no length from {from} to {to}"), "'to' is at least 'from'");
        return None;
    }
    if letters.is_empty() || !letters.is_ascii() {
        let place = letters_node.map_or(node.place, |node| node.place);
        problems.add(place, "the letters are at least one character, all ASCII", "write for example 0123456789");
        return None;
    }
    Some(FeedSpec { source: Source::Text { letters, from: from as u32, to: to as u32 }, per })
}

fn read_pattern(node: &Node, problems: &mut Problems) -> Option<FeedSpec> {
    let (of, per) = read_of("pattern", node, problems)?;
    Some(FeedSpec { source: Source::Pattern(of.text(problems)?), per })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "name,password\nann,a\n\"b,b\",c\n";

    fn read(text: &str) -> (FeedSpecs, Vec<String>) {
        let mut problems = Problems::new("workload.yaml", text).with_files(|name| match name {
            "users.csv" => Ok(USERS.into()),
            "ragged.csv" => Ok("a,b\n1,2\n3\n".into()),
            _ => Err(format!("there is no file {name}")),
        });
        let node = tare_core::config::parse(text, &mut problems).unwrap();
        let specs = read_feeds(&node, &mut problems);
        (specs, problems.into_vec().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_kind_is_read_and_survives_the_way_to_another_process() {
        let text = "a: {uniform: {from: -3, to: 1_000}}\nb: {zipf: {from: 1, to: 10, theta: 1.2, scatter: true}}\n\
            c: {nurand: {a: 1023, c: 259, from: 1, to: 3000}}\nd: {gaussian: {from: 1, to: 9, parameter: 2.5}}\n\
            e: {exponential: {from: 1, to: 9, parameter: 5, per: user}}\nf: {sequence: {}}\n\
            g: {csv: {file: users.csv, order: in-turn}}\nh: {csv: {file: users.csv, columns: [x, y]}}\n\
            i: {choice: [red, blue]}\nj: {choice: {of: {red: 3, blue: 1}, per: user}}\n\
            k: {text: {length: 3}}\nl: {text: {from: 1, to: 2, letters: ab}}\nm: {pattern: \"##-@\"}\n";
        let (specs, problems) = read(text);
        assert!(problems.is_empty(), "{problems:#?}");
        assert_eq!(specs.len(), 13);
        let there = serde_json::to_string(&specs).unwrap();
        assert_eq!(serde_json::from_str::<FeedSpecs>(&there).unwrap(), specs);
        let rows = |name: &str| match &specs[name].source {
            Source::Csv { columns, rows, order } => (columns.join(" "), rows.len(), rows[1][0].clone(), *order),
            other => panic!("{other:?}"),
        };
        assert_eq!(rows("g"), ("name password".into(), 2, "b,b".into(), Order::InTurn));
        assert_eq!(rows("h"), ("x y".into(), 3, "ann".into(), Order::Random));
        assert_eq!(specs["f"].source, Source::Sequence { from: 1, to: NUMBER_MAX, step: 1 });
        assert_eq!((specs["e"].per, specs["j"].per, specs["i"].per), (Per::User, Per::User, Per::Operation));
    }

    #[test]
    fn every_mistake_has_its_place() {
        let wrong = [
            ("1a: {pattern: x}", "cannot name a feed"),
            ("b: {ziff: {from: 1, to: 2}}", "did you mean 'zipf'"),
            ("c: {uniform: {from: 5, to: 4}}", "from 5 to 4 is empty"),
            ("d: {zipf: {from: 1, to: 2, theta: 0}}", "0 is out of range"),
            ("e: {gaussian: {from: 1, to: 2}}", "no 'parameter'"),
            ("f: {nurand: {a: 10, c: 11, from: 1, to: 2}}", "11 is out of range"),
            ("g: {csv: {file: no.csv}}", "there is no file no.csv"),
            ("h: {csv: {file: ragged.csv}}", "line 3 has 1 fields, not 2"),
            ("i: {csv: {file: users.csv, columns: [a, a]}}", "two columns are named 'a'"),
            ("j: {choice: {of: {a: 0}}}", "nothing to choose"),
            ("k: {text: {length: -1}}", "whole number"),
            ("l: {text: {from: 3, to: 2}}", "no length from 3 to 2"),
            ("m: {text: {length: 3, letters: é}}", "ASCII"),
            ("n: {sequence: {step: 0}}", "out of range"),
            ("o: {uniform: {from: x, to: 9}}", "found 'x'"),
            ("p: {uniform: {from: 1, to: 2}, pre: 1}", "a second"),
            ("q: {uniform: {from: 1, to: 2, pre: user}}", "did you mean 'per'"),
            ("r: {csv: {file: users.csv, separator: ab}}", "cannot separate"),
        ];
        let text: String = wrong.iter().map(|(line, _)| format!("{line}\n")).collect();
        let (_, problems) = read(&text);
        assert_eq!(problems.len(), wrong.len(), "{problems:#?}");
        for (number, (problem, (_, wanted))) in problems.iter().zip(wrong).enumerate() {
            assert!(problem.contains(&format!("workload.yaml:{}:", number + 1)), "{problem}");
            assert!(problem.contains(wanted), "{problem} does not say '{wanted}'");
        }
    }
}
