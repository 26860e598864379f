//! Files of variables: `.env`, and what `env_file:` names.

use crate::interpolate::{Variables, fill};

/// A variable of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its name.
    pub(crate) name: String,
    /// Its value; none if only the name stands there, which means the variable of whoever reads the file.
    pub(crate) value: Option<String>,
    /// The line on which it begins, from 1.
    pub(crate) line: usize,
}

/// Reads the variables of a text. Later lines may refer to earlier ones, and to `variables`, which go first. In a `raw`
/// file values stand as they are.
///
/// # Errors
/// What is wrong, and on which line, from 1.
pub(crate) fn read(text: &str, raw: bool, variables: &Variables) -> Result<Vec<Line>, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found: Vec<Line> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: String| (at + 1, why);
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let divider = line.find(['=', ':']).filter(|divider| !raw || line[*divider..].starts_with('='));
        let (name, rest) = match divider {
            Some(divider) => (line[..divider].trim_end(), Some(&line[divider + 1..])),
            None => (line.trim_end(), None),
        };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(wrong(format!("'{name}' cannot name a variable")));
        }
        let value = match rest {
            None => None,
            Some(rest) if raw => Some(rest.to_owned()),
            Some(rest) => {
                let rest = rest.trim_start();
                let mut whole = rest.to_owned();
                if let Some(quote) = rest.chars().next().filter(|c| ['\'', '"'].contains(c)) {
                    while closing(&whole, quote).is_none() {
                        let (_, more) = lines.next().ok_or_else(|| wrong("a quote is not closed".to_owned()))?;
                        whole = format!("{whole}\n{more}");
                    }
                }
                let earlier = |name: &str| {
                    let known = found.iter().rev().find(|line| line.name == name).and_then(|line| line.value.clone());
                    variables(name).or(known)
                };
                Some(value_of(&whole, &earlier).map_err(wrong)?)
            }
        };
        found.push(Line { name: name.to_owned(), value, line: at + 1 });
    }
    Ok(found)
}

/// Where the quote that a text begins with is closed.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            c if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// A value without its quotes: single ones keep everything as it is, double ones know escapes and variables.
fn value_of(text: &str, variables: &Variables) -> Result<String, String> {
    match text.chars().next() {
        Some('\'') => {
            let end = closing(text, '\'').ok_or("a quote is not closed")?;
            Ok(text[1..end].to_owned())
        }
        Some('"') => {
            let end = closing(text, '"').ok_or("a quote is not closed")?;
            filled(&unescaped(&text[1..end]), variables)
        }
        _ => {
            let comment = text.find(" #").or_else(|| text.find("\t#"));
            let text = if text.starts_with('#') { "" } else { &text[..comment.unwrap_or(text.len())] };
            filled(text.trim_end(), variables)
        }
    }
}

fn filled(text: &str, variables: &Variables) -> Result<String, String> {
    fill(text, variables).map(|filled| filled.text).map_err(|unfilled| unfilled.why)
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some('r')) => plain.push('\r'),
            ('\\', Some('t')) => plain.push('\t'),
            // A dollar that is escaped names no variable.
            ('\\', Some('$')) => plain.push_str("$$"),
            ('\\', Some(c @ ('"' | '\\'))) => plain.push(c),
            ('\\', Some(c)) => plain.extend(['\\', c]),
            (c, _) => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A variable and its value.
    type Pair = (String, Option<String>);

    fn pairs(text: &str) -> Result<Vec<Pair>, (usize, String)> {
        let variables = |name: &str| (name == "SHELL_SET").then(|| "s".to_owned());
        Ok(read(text, false, &variables)?.into_iter().map(|line| (line.name, line.value)).collect())
    }

    #[test]
    fn quotes_comments_and_variables_are_understood() {
        let text = "# c\n\nA=1 # one\nexport B=\"x\\n$A\" # two\nC='$A #'\nD=\nE\nF=a#b\nG=\"two\nlines\"\nH: y\n\
                    I=$SHELL_SET\n";
        let some = |text: &str| Some(text.to_owned());
        let wanted = [
            ("A", some("1")),
            ("B", some("x\n1")),
            ("C", some("$A #")),
            ("D", some("")),
            ("E", None),
            ("F", some("a#b")),
            ("G", some("two\nlines")),
            ("H", some("y")),
            ("I", some("s")),
        ];
        assert_eq!(pairs(text).unwrap(), wanted.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        assert_eq!(pairs("A=1\n=2\n").unwrap_err().0, 2);
        assert_eq!(pairs("A=1\n\nB=\"x\n").unwrap_err().0, 3);
        assert!(pairs("A=${B\n").unwrap_err().1.contains("is missing"));
    }

    #[test]
    fn a_raw_file_keeps_values_as_they_are() {
        let found = read("A=\"$B\" # x\n", true, &|_| None).unwrap();
        assert_eq!(found[0].value.as_deref(), Some("\"$B\" # x"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[A-C=:'\"\\\\$#{}\\n é]{0,60}") {
            let _ = pairs(&text);
        }
    }
}
