//! Which files of a folder its `.dockerignore` keeps out of a build.
//!
//! The rules are the engines': a line is a pattern, `!` before it lets in again what earlier lines keep out, the last
//! line that matches decides, and what matches a folder matches everything in it. `*` and `?` stand for anything but a
//! slash, `**` for any number of folders, `[a-z]` for one of these letters, `\` takes away the meaning of the next one.

use std::collections::HashSet;
use tare_core::fault::Fault;

/// The lines of a `.dockerignore`.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    lets_in: bool,
    pattern: Vec<char>,
}

impl Ignored {
    /// Reads the text of a `.dockerignore`.
    ///
    /// # Errors
    /// A pattern that has no end, as a mistake with its line.
    pub(super) fn read(text: &str) -> Result<Ignored, Fault> {
        let mut lines = Vec::new();
        for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            if line.starts_with('#') {
                continue;
            }
            let line = line.trim();
            let (lets_in, pattern) = match line.strip_prefix('!') {
                Some(pattern) => (true, pattern.trim()),
                None => (false, line),
            };
            let pattern = plain(pattern);
            if pattern.is_empty() {
                continue;
            }
            if !has_end(&pattern) {
                let message = format!("line {} of .dockerignore is no pattern: '{line}'", at + 1);
                return Err(Fault::new(message).remedy("close the '[', or write '\\[' for the letter").as_mistake());
            }
            lines.push(Line { lets_in, pattern });
        }
        Ok(Ignored { lines })
    }

    /// Whether the file or folder at this path, relative to the folder, is kept out.
    pub(super) fn has(&self, path: &str) -> bool {
        let path: Vec<char> = path.chars().collect();
        let folders = path.iter().enumerate().filter(|(_, letter)| **letter == '/').map(|(at, _)| &path[..at]);
        let tried: Vec<&[char]> = folders.chain([&path[..]]).collect();
        self.lines.iter().fold(false, |kept_out, line| {
            // Only a line that would change something needs a look.
            let changes = kept_out == line.lets_in && tried.iter().any(|path| matches(&line.pattern, path));
            if changes { !kept_out } else { kept_out }
        })
    }

    /// Whether something in a folder that is kept out may be let in again.
    pub(super) fn lets_in_again(&self) -> bool {
        self.lines.iter().any(|line| line.lets_in)
    }
}

/// A pattern without what means nothing: `./a//b/` and `/a/b` are `a/b`; `..` goes up, at most to the folder itself.
fn plain(pattern: &str) -> Vec<char> {
    let mut parts: Vec<&str> = Vec::new();
    for part in pattern.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/").chars().collect()
}

/// Whether every `[` has its `]`, and every `\` the letter that it is about.
fn has_end(mut pattern: &[char]) -> bool {
    while let Some((first, rest)) = pattern.split_first() {
        pattern = match first {
            '\\' if rest.is_empty() => return false,
            '\\' => &rest[1..],
            '[' => match set(rest, 'x') {
                Some((_, rest)) => rest,
                None => return false,
            },
            _ => rest,
        };
    }
    true
}

/// Whether a letter is one of a set, whose `[` has been read, and what follows the set; none if it has no end.
fn set(pattern: &[char], letter: char) -> Option<(bool, &[char])> {
    let (negated, mut rest) = match pattern {
        ['^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let (mut found, mut first) = (false, true);
    loop {
        let (low, after) = match rest {
            [']', rest @ ..] if !first => return Some((found != negated, rest)),
            ['\\', low, rest @ ..] | [low, rest @ ..] => (*low, rest),
            [] => return None,
        };
        let (high, after) = match after {
            ['-', '\\', high, rest @ ..] => (*high, rest),
            ['-', high, rest @ ..] if *high != ']' => (*high, rest),
            rest => (low, rest),
        };
        found |= (low..=high).contains(&letter);
        (rest, first) = (after, false);
    }
}

/// Whether a pattern stands for the whole of a path.
fn matches(pattern: &[char], path: &[char]) -> bool {
    tried(pattern, path, &mut HashSet::new())
}

/// The same for their ends. `before` has the lengths of those ends that were compared and do not match: without it a
/// pattern of many stars would be tried in more ways than there is time for.
fn tried(pattern: &[char], path: &[char], before: &mut HashSet<(usize, usize)>) -> bool {
    if !before.insert((pattern.len(), path.len())) {
        return false;
    }
    // Where a slash or the end is, behind which the rest may match.
    let mut after_folders = |rest: &[char]| {
        let behind = path.iter().enumerate().filter(|(_, letter)| **letter == '/').map(|(at, _)| at + 1);
        [0].into_iter().chain(behind).any(|from| tried(rest, &path[from..], before))
    };
    match pattern {
        [] => path.is_empty(),
        ['*', '*'] | ['*', '*', '/'] => true,
        ['*', '*', '/', rest @ ..] | ['*', '*', rest @ ..] => after_folders(rest),
        ['*', rest @ ..] => {
            let name = path.iter().position(|letter| *letter == '/').unwrap_or(path.len());
            (0..=name).any(|from| tried(rest, &path[from..], before))
        }
        [first, rest @ ..] => {
            let Some((letter, behind)) = path.split_first() else { return false };
            match first {
                '?' => *letter != '/' && tried(rest, behind, before),
                '[' => set(rest, *letter).is_some_and(|(is, rest)| is && *letter != '/' && tried(rest, behind, before)),
                '\\' => rest.split_first().is_some_and(|(own, rest)| own == letter && tried(rest, behind, before)),
                own => own == letter && tried(rest, behind, before),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_out(text: &str, paths: &[&str]) -> Vec<String> {
        let ignored = Ignored::read(text).unwrap();
        paths.iter().filter(|path| ignored.has(path)).map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn names_keep_out_files_and_whole_folders() {
        let text = "\u{feff}# a comment\n\n  node_modules  \n/target/\n./a//b\n";
        let paths =
            ["node_modules", "node_modules/x/y", "src/node_modules", "target/x", "a/b", "a/bc", "a", "# a comment"];
        assert_eq!(kept_out(text, &paths), ["node_modules", "node_modules/x/y", "target/x", "a/b"]);
        assert!(kept_out("", &paths).is_empty() && kept_out(".\n/\n", &paths).is_empty());
    }

    #[test]
    fn a_pattern_of_many_stars_is_soon_compared() {
        let path = "a".repeat(200);
        let paths = [path.as_str()];
        assert!(kept_out(&format!("{}b\n{}b\n", "a*".repeat(100), "**/".repeat(100)), &paths).is_empty());
        assert_eq!(kept_out(&"a*".repeat(100), &paths).len(), 1);
    }

    #[test]
    fn stars_stand_for_names_and_two_stars_for_folders() {
        let paths = ["x.log", "a/x.log", "a/b/x.log", "a/b", "x.logs"];
        assert_eq!(kept_out("*.log", &paths), ["x.log"]);
        assert_eq!(kept_out("*/*.log", &paths), ["a/x.log"]);
        assert_eq!(kept_out("**/*.log", &paths), ["x.log", "a/x.log", "a/b/x.log"]);
        assert_eq!(kept_out("a/**", &paths), ["a/x.log", "a/b/x.log", "a/b"]);
        assert_eq!(kept_out("a/**/x.log", &paths), ["a/x.log", "a/b/x.log"]);
        assert_eq!(kept_out("?.log", &paths), ["x.log"]);
        assert_eq!(kept_out("*", &paths), paths);
    }

    #[test]
    fn sets_and_escaped_letters_are_what_they_say() {
        let paths = ["a1", "b2", "c3", "a-", "[x]", "a*"];
        assert_eq!(kept_out("[ab][0-9]", &paths), ["a1", "b2"]);
        assert_eq!(kept_out("[^ab][0-9]", &paths), ["c3"]);
        assert_eq!(kept_out("a[-]", &paths), ["a-"]);
        assert_eq!(kept_out("a\\*", &paths), ["a*"]);
        assert_eq!(kept_out("\\[x]", &paths), ["[x]"]);
    }

    #[test]
    fn the_last_line_that_matches_decides() {
        let paths = ["docs/a.md", "docs/keep.md", "docs", "README.md"];
        assert_eq!(kept_out("docs\n!docs/keep.md\n", &paths), ["docs/a.md", "docs"]);
        assert_eq!(kept_out("!docs/keep.md\ndocs\n", &paths), ["docs/a.md", "docs/keep.md", "docs"]);
        assert!(Ignored::read("docs\n!docs/keep.md").unwrap().lets_in_again());
        assert!(!Ignored::read("docs").unwrap().lets_in_again());
    }

    #[test]
    fn a_pattern_without_an_end_is_a_mistake_with_its_line() {
        for pattern in ["[a", "x[", "x[]", "x\\"] {
            let fault = Ignored::read(&format!("fine\n{pattern}\n")).unwrap_err();
            assert!(fault.mistake && fault.message.contains("line 2 of .dockerignore"), "{pattern}: {fault}");
        }
    }
}
