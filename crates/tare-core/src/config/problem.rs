//! A mistake in a user's file, with its place.

use std::fmt;

/// A place in a file: line and column from 1, and how many characters it spans on that line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// How many characters to underline, at least 1.
    pub width: usize,
}

/// One mistake: where, what, and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// Where in the file.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do; empty when the message says it all.
    pub hint: String,
    /// The line of the file that contains it.
    pub excerpt: String,
    /// The names allowed there, when the name given is none of them.
    pub known: Vec<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column, width } = self.place;
        let gutter = line.to_string();
        let pad = " ".repeat(gutter.len());
        writeln!(f, "error: {}", self.message)?;
        writeln!(f, "{pad}--> {}:{line}:{column}", self.file)?;
        writeln!(f, "{pad} |")?;
        writeln!(f, "{gutter} | {}", self.excerpt)?;
        write!(f, "{pad} | {}{}", " ".repeat(column.saturating_sub(1)), "^".repeat(width.max(1)))?;
        if !self.hint.is_empty() {
            write!(f, "\n{pad} = hint: {}", self.hint)?;
        }
        Ok(())
    }
}

/// The mistakes found so far in one file, and access to the files beside it that it may name.
#[derive(Debug, Default)]
pub struct Problems {
    file: String,
    lines: Vec<String>,
    found: Vec<Problem>,
    beside: Beside,
}

/// Reads a file by the name that the user's file gives it.
#[derive(Default)]
struct Beside(Option<Box<ReadBeside>>);

type ReadBeside = dyn Fn(&str) -> Result<Vec<u8>, String>;

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "files beside it" } else { "no files beside it" })
    }
}

impl Problems {
    /// An empty list for `file`, whose `text` supplies the excerpts.
    pub fn new(file: impl Into<String>, text: &str) -> Self {
        Problems { file: file.into(), lines: lines(text), found: Vec::new(), beside: Beside(None) }
    }

    /// Lets the file name others beside it: `read` gets a name as written in the file and returns the content of the
    /// other file, or what is wrong with it.
    #[must_use]
    pub fn with_files(mut self, read: impl Fn(&str) -> Result<Vec<u8>, String> + 'static) -> Self {
        self.beside = Beside(Some(Box::new(read)));
        self
    }

    /// The text of a file beside the one being read.
    ///
    /// # Errors
    /// Why there is none, in words for a problem at the place that named it.
    pub fn beside(&self, name: &str) -> Result<String, String> {
        String::from_utf8(self.bytes_beside(name)?).map_err(|error| {
            let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
            format!("cannot read {name}: line {line} is not UTF-8 text")
        })
    }

    /// The content of a file beside the one being read, whether it is text or not.
    ///
    /// # Errors
    /// As [`Problems::beside`].
    pub fn bytes_beside(&self, name: &str) -> Result<Vec<u8>, String> {
        if name.is_empty() || name.starts_with('/') || name.split('/').any(|part| part == "..") {
            return Err(format!("'{name}' is no file of the workload's own folder"));
        }
        match &self.beside.0 {
            Some(read) => read(name),
            None => Err(format!("'{name}' cannot be read from here")),
        }
    }

    /// Adds a mistake at `place`.
    pub fn add(&mut self, place: Place, message: impl Into<String>, hint: impl Into<String>) {
        let (place, excerpt) = self.excerpt(place);
        let (message, hint) = (message.into(), hint.into());
        self.found.push(Problem { file: self.file.clone(), place, message, hint, excerpt, known: Vec::new() });
    }

    /// The place, or the nearest one inside the file, and the line that contains it.
    pub fn excerpt(&self, place: Place) -> (Place, String) {
        let place = self.inside(place);
        let excerpt = self.lines.get(place.line - 1).cloned().unwrap_or_default();
        // A tab or a very long line would break the caret's alignment and an 80-column terminal.
        let excerpt: String = excerpt.replace('\t', " ").chars().take(200).collect();
        let room = excerpt.chars().count().saturating_sub(place.column.saturating_sub(1)).max(1);
        (Place { width: place.width.clamp(1, room), ..place }, excerpt)
    }

    /// The place, or the nearest one inside the file: what is missing at the end of the file would be after it.
    fn inside(&self, place: Place) -> Place {
        let line = place.line.clamp(1, self.lines.len().max(1));
        let end = self.lines.get(line - 1).map_or(0, |text| text.chars().count()) + 1;
        let column = if place.line > line { end } else { place.column.clamp(1, end) };
        Place { line, column, ..place }
    }

    /// Adds that `given`, at `place`, is none of the names `known` that are allowed there.
    pub fn add_unknown(&mut self, place: Place, message: impl Into<String>, given: &str, known: &[&str]) {
        self.add(place, message, unknown_hint(given, known));
        if let Some(problem) = self.found.last_mut() {
            problem.known = known.iter().map(|name| (*name).to_owned()).collect();
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many mistakes were found so far.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// The mistakes in the order of their places, each once: fields that several parts share are read for each part.
    pub fn into_vec(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|problem| (problem.place.line, problem.place.column));
        self.found.dedup();
        self.found
    }
}

/// A longer list of known names helps nobody.
const SHOWN_MAX: usize = 40;

/// `did you mean 'x'?`, or the list of known names.
fn unknown_hint(given: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(given, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3)
        .min();
    match nearest {
        Some((_, name)) => format!("did you mean '{name}'?"),
        None if known.is_empty() => "nothing may stand here".to_owned(),
        None if known.len() > SHOWN_MAX => format!("none of the {} names known here is spelled like it", known.len()),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// The lines of a text as YAML counts them: they end in LF, CR LF or CR.
fn lines(text: &str) -> Vec<String> {
    text.replace("\r\n", "\n").replace('\r', "\n").lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_stands_in_the_file() {
        let shown = |text: &str, line, column| {
            let mut problems = Problems::new("w.yaml", text);
            problems.add(Place { line, column, width: 1 }, "wrong", "");
            let problem = problems.into_vec().remove(0);
            (problem.place.line, problem.place.column, problem.excerpt)
        };
        assert_eq!(shown("a: [1\n", 2, 1), (1, 6, "a: [1".to_owned()), "behind the last line");
        assert_eq!(shown("a: b\rc: [\n", 2, 4), (2, 4, "c: [".to_owned()), "a line may end in CR");
        assert_eq!(shown("", 1, 1), (1, 1, String::new()));
        assert_eq!(shown("\u{e9}: 1\n", 1, 9), (1, 5, "\u{e9}: 1".to_owned()));
    }

    #[test]
    fn a_long_list_of_names_is_not_told() {
        let names: Vec<String> = (0..41).map(|number| format!("name{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(unknown_hint("x", &names), "none of the 41 names known here is spelled like it");
        assert_eq!(unknown_hint("nam40", &names), "did you mean 'name40'?");
        assert!(unknown_hint("x", &names[..40]).starts_with("known here: name00, name01"));
    }

    #[test]
    fn a_file_beside_is_bytes_and_text_only_where_it_is_some() {
        let problems = Problems::new("w.yaml", "").with_files(|name| match name {
            "text" => Ok("ü\n".into()),
            _ => Ok(b"a\nb\n\xff".to_vec()),
        });
        assert_eq!(problems.beside("text").as_deref(), Ok("ü\n"));
        assert_eq!(problems.bytes_beside("picture").as_deref(), Ok(&b"a\nb\n\xff"[..]));
        assert_eq!(problems.beside("picture").unwrap_err(), "cannot read picture: line 3 is not UTF-8 text");
        for outside in ["/picture", "../picture", "a/../picture", ""] {
            assert!(problems.bytes_beside(outside).unwrap_err().contains("own folder"), "{outside}");
        }
        assert!(Problems::new("w.yaml", "").bytes_beside("text").unwrap_err().contains("from here"));
    }
}
