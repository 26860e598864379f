//! The tools whose results Tare can read without a declared parser.

mod k6;
mod rows;

use super::parser::{JsonFigure, Parser, Take};
pub(super) use rows::TOOLS;

/// A tool and how its result is read. `${output}` in the command is a file that is read in place of what the tool
/// prints.
pub(super) struct ToolRow {
    /// The parser's name, which is also the program's.
    pub name: &'static str,
    /// The Debian package that contains the program; none if Debian has none.
    pub package: Option<&'static str>,
    /// What one operation is.
    pub operation: &'static str,
    /// How the command must be written for its result to be read.
    pub form: &'static str,
    /// Arguments that make it print its version.
    pub version: &'static [&'static str],
    result: Form,
    /// What to do about an error, by a part of its message.
    pub advice: &'static [(&'static str, &'static str)],
}

enum Form {
    Regex(&'static [&'static str]),
    Json(&'static [(&'static str, &'static [&'static str], Take)]),
    /// They have parsers of their own.
    Fio,
    Jmeter,
    Locust,
}

impl ToolRow {
    /// The row for the name of a parser or program.
    pub(super) fn find(name: &str) -> Option<&'static ToolRow> {
        TOOLS.iter().find(|row| row.name == name)
    }

    /// The row whose parser this is.
    pub(super) fn of(parser: &Parser) -> Option<&'static ToolRow> {
        TOOLS.iter().find(|row| row.parser() == *parser)
    }

    /// The parser, as it could have been written in a workload.
    pub(super) fn parser(&self) -> Parser {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        match self.result {
            Form::Regex(patterns) => Parser::Regex(owned(patterns)),
            Form::Fio => Parser::Fio,
            Form::Jmeter => Parser::Jmeter,
            Form::Locust => Parser::Locust,
            Form::Json(figures) => {
                let figure = |(figure, at, take): &(&str, &[&str], Take)| JsonFigure {
                    figure: (*figure).to_owned(),
                    at: owned(at),
                    take: *take,
                };
                Parser::Json(figures.iter().map(figure).collect())
            }
        }
    }
}

/// What the tool `name` says of its version: the first line that has one, or else the first line.
pub(super) fn version_in(name: &str, said: &str) -> Option<String> {
    fn number(line: &str) -> Option<&str> {
        line.split([' ', '-', '/']).find(|part| {
            let digits = part.trim_start_matches('v');
            digits.starts_with(|c: char| c.is_ascii_digit()) && digits.contains('.')
        })
    }
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some((line, version)) = lines().find_map(|line| Some((line, number(line)?))) else {
        return lines().next().map(str::to_owned);
    };
    // JMeter draws its own name beside the version.
    let is_drawn = !line.starts_with(|c: char| c.is_alphanumeric());
    Some(if is_drawn { format!("{name} {version}") } else { line.to_owned() })
}

/// Takes any text as the output of each known tool, and of one written for Tare.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(output: &str) {
    use super::parser::{Table, compiled, read_regex, sound};
    use std::collections::BTreeMap;
    // Compiling the patterns takes far longer than searching for them.
    static PATTERNS: std::sync::OnceLock<Vec<Vec<regex::Regex>>> = std::sync::OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| {
        let of = |parser: Parser| match parser {
            Parser::Regex(patterns) => Some(compiled(&patterns).expect("they are ours")),
            _ => None,
        };
        TOOLS.iter().filter_map(|row| of(row.parser())).collect()
    });
    let by_patterns =
        patterns.iter().map(|patterns| read_regex(patterns, output).and_then(|figures| sound(figures.concluded(2.0)?)));
    let columns = [("throughput", "rps"), ("p99_ms", "p99")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let others = TOOLS.iter().map(ToolRow::parser).filter(|parser| !matches!(parser, Parser::Regex(_)));
    let others = others.chain([Parser::Tare, Parser::Csv(Table { columns, row: BTreeMap::new(), separator: ',' })]);
    for found in by_patterns.chain(others.map(|parser| parser.conclude(output, 2.0))).flatten() {
        let wrong = found.reported.iter().find(|(_, figure)| !(figure.is_finite() && **figure >= 0.0));
        assert!(wrong.is_none(), "{wrong:?} is no figure");
    }
}

#[cfg(test)]
mod tests;
