//! A Rust file, line by line, with code, comments and texts told apart.

/// A scanned file.
pub(super) struct Source {
    /// Line 1 is at index 0.
    pub(super) lines: Vec<Line>,
    /// Whether the whole file is test code.
    pub(super) is_test: bool,
}

/// One line.
#[derive(Default)]
pub(super) struct Line {
    /// The code, without comments; quoted texts are emptied: `f("")`.
    pub(super) code: String,
    /// The comments.
    pub(super) comment: String,
    /// Quoted texts that begin on this line.
    pub(super) texts: Vec<String>,
    /// Whether it stands in a module for tests.
    pub(super) in_test: bool,
}

/// A function with a body.
pub(super) struct Function {
    /// Its name.
    pub(super) name: String,
    /// The line of `fn`, from 1.
    pub(super) line: usize,
    /// Lines between its outer braces.
    pub(super) body_lines: usize,
}

enum State {
    Code,
    LineComment,
    BlockComment(usize),
    /// In a quoted text; with how many `#` it ends, none for one with escapes.
    Text(Option<usize>),
}

impl Source {
    /// Scans a file.
    pub(super) fn scan(path: &str, text: &str) -> Source {
        let mut lines = scan_lines(text);
        mark_tests(&mut lines);
        let name = path.rsplit('/').next().unwrap_or(path);
        let is_test = path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs");
        Source { lines, is_test }
    }

    /// The lines that are not test code, numbered from 1.
    pub(super) fn product(&self) -> impl Iterator<Item = (usize, &Line)> {
        let skip = self.is_test;
        self.lines.iter().enumerate().filter(move |(_, line)| !skip && !line.in_test).map(|(at, line)| (at + 1, line))
    }

    /// The functions that have a body.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            for (column, name) in function_starts(&line.code) {
                if let Some((open, close)) = self.body(at, column) {
                    let body_lines = (close - open).saturating_sub(1);
                    functions.push(Function { name, line: at + 1, body_lines });
                }
            }
        }
        functions
    }

    /// The functions that are marked as tests.
    pub(super) fn tests(&self) -> Vec<String> {
        let (mut tests, mut is_marked) = (Vec::new(), false);
        for line in &self.lines {
            is_marked |= line.code.contains("#[test]");
            if is_marked && let Some((_, name)) = function_starts(&line.code).into_iter().next() {
                tests.push(name);
                is_marked = false;
            }
        }
        tests
    }

    /// The lines of the braces around the body of what starts here; none when a `;` comes first.
    fn body(&self, start: usize, column: usize) -> Option<(usize, usize)> {
        let (mut open, mut depth, mut nested) = (0, 0usize, 0usize);
        for (at, line) in self.lines.iter().enumerate().skip(start) {
            let from = if at == start { column } else { 0 };
            for c in line.code.chars().skip(from) {
                match c {
                    '{' if depth == 0 && nested == 0 => (open, depth) = (at, 1),
                    '{' if depth > 0 => depth += 1,
                    '}' if depth == 1 => return Some((open, at)),
                    '}' if depth > 1 => depth -= 1,
                    '(' | '[' if depth == 0 => nested += 1,
                    ')' | ']' if depth == 0 => nested = nested.saturating_sub(1),
                    ';' if depth == 0 && nested == 0 => return None,
                    _ => {}
                }
            }
        }
        None
    }
}

/// The columns behind `fn name`, and the names, of functions that begin in this line.
fn function_starts(code: &str) -> Vec<(usize, String)> {
    let mut starts = Vec::new();
    let chars: Vec<char> = code.chars().collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for at in 0..chars.len().saturating_sub(3) {
        let begins = at == 0 || !is_word(chars[at - 1]);
        if begins && chars[at..].starts_with(&['f', 'n', ' ']) {
            let name: String = chars[at + 3..].iter().take_while(|c| is_word(**c)).collect();
            if !name.is_empty() {
                starts.push((at + 3 + name.chars().count(), name));
            }
        }
    }
    starts
}

fn scan_lines(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let c = rest[0];
        if c == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            lines.push(Line::default());
            at += 1;
            continue;
        }
        let line = lines.last_mut().expect("there is always a line");
        let mut step = 1;
        match &mut state {
            State::Code => step = code_step(&chars, at, line, &mut state),
            State::LineComment => line.comment.push(c),
            State::BlockComment(depth) => {
                if rest.starts_with(&['*', '/']) {
                    (*depth, step) = (*depth - 1, 2);
                    if *depth == 0 {
                        state = State::Code;
                    }
                } else if rest.starts_with(&['/', '*']) {
                    (*depth, step) = (*depth + 1, 2);
                } else {
                    line.comment.push(c);
                }
            }
            State::Text(hashes) => {
                if hashes.is_none() && c == '\\' {
                    // An escaped line end is left to the branch above.
                    step = if rest.get(1) == Some(&'\n') { 1 } else { 2 };
                } else if c == '"' && rest[1..].iter().take_while(|c| **c == '#').count() >= hashes.unwrap_or(0) {
                    step = 1 + hashes.unwrap_or(0);
                    line.code.push('"');
                    state = State::Code;
                } else if let Some(text) = lines.iter_mut().rev().find_map(|line| line.texts.last_mut()) {
                    text.push(c);
                }
            }
        }
        at += step;
    }
    lines
}

/// Takes one token's worth of code and returns how many characters that was.
fn code_step(chars: &[char], at: usize, line: &mut Line, state: &mut State) -> usize {
    let rest = &chars[at..];
    let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if rest.starts_with(&['/', '/']) {
        *state = State::LineComment;
        return 2;
    }
    if rest.starts_with(&['/', '*']) {
        *state = State::BlockComment(1);
        return 2;
    }
    if rest[0] == '"' {
        line.code.push('"');
        line.texts.push(String::new());
        *state = State::Text(None);
        return 1;
    }
    if rest[0] == 'r' && (!after_word || chars[at - 1] == 'b') {
        let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
        if rest.get(1 + hashes) == Some(&'"') {
            line.code.push('"');
            line.texts.push(String::new());
            *state = State::Text(Some(hashes));
            return 2 + hashes;
        }
    }
    if rest[0] == '\'' {
        // A character, not a lifetime: '\x' or 'x'.
        let end = if rest.get(1) == Some(&'\\') {
            rest.iter().skip(3).position(|c| *c == '\'').map(|end| end + 4)
        } else {
            (rest.get(2) == Some(&'\'')).then_some(3)
        };
        if let Some(end) = end {
            line.code.push_str("' '");
            return end;
        }
    }
    line.code.push(rest[0]);
    1
}

/// Marks the lines of `#[cfg(test)]` items.
fn mark_tests(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        if !lines[at].code.contains("#[cfg(test)]") {
            at += 1;
            continue;
        }
        let (mut depth, mut opened) = (0usize, false);
        while at < lines.len() {
            lines[at].in_test = true;
            let code = lines[at].code.clone();
            for c in code.chars() {
                match c {
                    '{' => (depth, opened) = (depth + 1, true),
                    '}' => depth = depth.saturating_sub(1),
                    // An item without braces: `mod x;`, `use y;`.
                    ';' if depth == 0 => opened = true,
                    _ => {}
                }
            }
            at += 1;
            if opened && depth == 0 {
                break;
            }
        }
    }
}

/// Whether `word` stands in `text` as a word of its own; `-` and `_` count as letters.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(is_word)
            && !text[at + word.len()..].chars().next().is_some_and(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r##"//! Doc // with slashes.
fn f<'a>(x: &'a str) -> char { // note
    let s = "a // no comment { \" {";
    let r = r#"raw " { "#; /* block { /* nested */ } */
    let c = '{';
    'x'
}
trait T { fn g(&self); }
#[cfg(test)]
mod tests {
    fn h() {
        Instant::now();
    }
}
fn last() {}
"##;

    #[test]
    fn code_comments_and_texts_are_told_apart() {
        let source = Source::scan("a.rs", SAMPLE);
        assert_eq!(source.lines[0].comment, "! Doc // with slashes.");
        assert_eq!(source.lines[2].code, "    let s = \"\";");
        assert_eq!(source.lines[2].texts, ["a // no comment {  {"]);
        assert_eq!(source.lines[3].texts, ["raw \" { "]);
        assert_eq!(source.lines[3].comment.trim(), "block {  nested  }");
        assert!(!source.lines[4].code.contains('{'));
    }

    #[test]
    fn functions_are_measured_and_tests_marked() {
        let source = Source::scan("a.rs", SAMPLE);
        let functions: Vec<(String, usize, usize)> =
            source.functions().into_iter().map(|f| (f.name, f.line, f.body_lines)).collect();
        assert_eq!(functions, [("f".into(), 2, 4), ("h".into(), 11, 1), ("last".into(), 15, 0)]);
        let marked: Vec<usize> =
            source.lines.iter().enumerate().filter(|(_, l)| l.in_test).map(|(at, _)| at + 1).collect();
        assert_eq!(marked, [9, 10, 11, 12, 13, 14]);
    }

    #[test]
    fn words_have_edges() {
        assert!(has_word("a vm, two", "vm") && has_word("vm", "vm"));
        assert!(!has_word("vmlinux kvm vm-like", "vm"));
    }
}
