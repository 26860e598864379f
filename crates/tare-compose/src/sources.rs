//! The files that were read, with the mistakes and notes found in them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use tare_core::config::{Place, Problem, Problems};

/// A place in one of several files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct At {
    /// The number of the file among those that were read.
    pub(crate) file: usize,
    /// The place in it.
    pub(crate) place: Place,
}

/// How much a note weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Weight {
    /// The workload runs, but the key does not mean what it means to Compose.
    Differs,
    /// The workload cannot run in every form until somebody edits it.
    Stops,
}

/// A key that cannot mean the same in all forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file as the user named it, or relative to that.
    pub file: String,
    /// Where in the file.
    pub place: Place,
    /// The key, such as `services.web.ulimits`.
    pub key: String,
    /// What happens instead, or what to do.
    pub instead: String,
    /// Whether it keeps the workload from running.
    pub weight: Weight,
    /// The line of the file that contains it.
    excerpt: String,
}

impl Note {
    /// The note as a mistake, for a strict import.
    pub fn as_problem(&self) -> Problem {
        Problem {
            file: self.file.clone(),
            place: self.place,
            message: format!("'{}' cannot mean the same in all forms", self.key),
            hint: self.instead.clone(),
            excerpt: self.excerpt.clone(),
            known: Vec::new(),
        }
    }
}

/// A file that was read.
#[derive(Debug)]
struct Source {
    name: String,
    folder: PathBuf,
    problems: Problems,
}

/// All files that were read, and what was found in them.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    files: Vec<Source>,
    notes: Vec<Note>,
    /// Places with a mistake from which others would follow.
    told: Vec<At>,
    /// What was noted, each once.
    noted: HashSet<(At, String, Weight, String)>,
}

impl Sources {
    /// Adds a file. Relative paths in it are relative to `folder`. Returns its number.
    pub(crate) fn open(&mut self, name: &str, text: &str, folder: &Path) -> usize {
        let problems = Problems::new(name, text);
        self.files.push(Source { name: name.to_owned(), folder: folder.to_owned(), problems });
        self.files.len() - 1
    }

    /// The path that a file means by `path`.
    pub(crate) fn resolve(&self, at: At, path: &str) -> PathBuf {
        plain(&self.files[at.file].folder.join(path))
    }

    /// The name of the file of a place, and where in it that is.
    pub(crate) fn place(&self, at: At) -> (String, Place) {
        let Source { name, problems, .. } = &self.files[at.file];
        (name.clone(), problems.excerpt(at.place).0)
    }

    /// Passes over further mistakes at this place: they would follow from the one that was added.
    pub(crate) fn tell_no_more_of(&mut self, at: At) {
        self.told.push(at);
    }

    /// Adds a mistake.
    pub(crate) fn wrong(&mut self, at: At, message: impl Into<String>, hint: impl Into<String>) {
        if self.told.contains(&at) {
            return;
        }
        self.files[at.file].problems.add(at.place, message, hint);
    }

    /// Adds that `given` is none of the names `known`.
    pub(crate) fn unknown(&mut self, at: At, message: impl Into<String>, given: &str, known: &[&str]) {
        if self.told.contains(&at) {
            return;
        }
        self.files[at.file].problems.add_unknown(at.place, message, given, known);
    }

    /// Adds a note about `key`.
    pub(crate) fn note(&mut self, at: At, key: impl Into<String>, weight: Weight, instead: impl Into<String>) {
        let (key, instead) = (key.into(), instead.into());
        if self.noted.insert((at, key.clone(), weight, instead.clone())) {
            let Source { name, problems, .. } = &self.files[at.file];
            let (place, excerpt) = problems.excerpt(at.place);
            self.notes.push(Note { file: name.clone(), place, key, instead, weight, excerpt });
        }
    }

    /// The notes so far that say what keeps the workload from running, in the order in which they were found.
    pub(crate) fn stops(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| note.weight == Weight::Stops)
    }

    /// How many mistakes were found.
    pub(crate) fn mistakes(&self) -> usize {
        self.files.iter().map(|file| file.problems.len()).sum()
    }

    /// All mistakes, file by file, and all notes in the order of their places.
    pub(crate) fn finish(self) -> (Vec<Problem>, Vec<Note>) {
        let Sources { files, mut notes, .. } = self;
        let order: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
        notes.sort_by_cached_key(|note| {
            let file = order.iter().position(|name| *name == note.file);
            (file, note.place.line, note.place.column)
        });
        (files.into_iter().flat_map(|file| file.problems.into_vec()).collect(), notes)
    }
}

/// A plain path relative to the folder `root`, if it is that folder or lies below it.
pub fn beneath<'p>(root: &Path, path: &'p Path) -> Option<&'p Path> {
    let rest = match root.as_os_str().is_empty() {
        true => Some(path).filter(|path| path.is_relative()),
        false => path.strip_prefix(root).ok(),
    };
    // Below `..`, `../../a` is outside.
    rest.filter(|rest| !rest.starts_with(".."))
}

/// Whether a plain path is the folder `root`, or lies below it.
pub(crate) fn is_below(root: &Path, path: &Path) -> bool {
    beneath(root, path).is_some()
}

/// A path without `.` and, where that is possible, without `..`: the paths that a [`Disk`](crate::Disk) is asked for.
pub fn plain(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some_and(|name| name != "..") => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_their_detours() {
        let cases = [("a/./b", "a/b"), ("a/../b", "b"), ("../b", "../b"), ("../../b", "../../b"), ("/a/../b", "/b")];
        for (path, wanted) in cases {
            assert_eq!(plain(Path::new(path)), PathBuf::from(wanted), "{path}");
        }
    }

    #[test]
    fn a_path_is_below_a_folder_or_not() {
        for (root, path) in [("", "a"), ("c", "c"), ("c", "c/a"), ("/c", "/c/a")] {
            assert!(is_below(Path::new(root), Path::new(path)), "{root} {path}");
        }
        for (root, path) in [
            ("..", "../../a"),
            ("../..", "../../../a"),
            ("", "../a"),
            ("", "/a"),
            ("c", "d"),
            ("c", "cc"),
            ("/c", "c/a"),
        ] {
            assert!(!is_below(Path::new(root), Path::new(path)), "{root} {path}");
        }
    }

    #[test]
    fn a_note_has_its_line_and_stands_once() {
        let mut sources = Sources::default();
        let file = sources.open("c.yaml", "a: 1\nb: 2\n", Path::new(""));
        let at = At { file, place: Place { line: 2, column: 1, width: 1 } };
        sources.note(at, "b", Weight::Differs, "it is ignored");
        sources.note(at, "b", Weight::Differs, "it is ignored");
        let (problems, notes) = sources.finish();
        assert!(problems.is_empty() && notes.len() == 1);
        assert_eq!(notes[0].as_problem().excerpt, "b: 2");
    }
}
