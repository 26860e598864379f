//! Files to be delivered, in memory, so that nothing of the machine's own owners, modes, times and order gets in.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Files and folders by their paths, which begin without a slash. Every folder of a file is there, before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    entries: BTreeMap<String, Entry>,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A folder, and its mode.
    Folder(u32),
    /// A file: its content, and its mode.
    File(Rc<[u8]>, u32),
}

impl Tree {
    /// Puts a file that everybody may read.
    pub(crate) fn file(&mut self, path: &str, content: impl Into<Rc<[u8]>>) {
        self.add(path, Entry::File(content.into(), 0o644));
    }

    /// Puts a file that everybody may run.
    pub(crate) fn program(&mut self, path: &str, content: impl Into<Rc<[u8]>>) {
        self.add(path, Entry::File(content.into(), 0o755));
    }

    /// Puts a folder.
    pub(crate) fn folder(&mut self, path: &str, mode: u32) {
        self.add(path, Entry::Folder(mode));
    }

    /// Everything, every folder before what is in it.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The same below a folder. What `rename` says of a file stands at that path there; of what it says nothing, is
    /// left out.
    pub(crate) fn below(&self, folder: &str, rename: impl Fn(&str) -> Option<String>) -> Tree {
        let mut tree = Tree::default();
        for (path, entry) in &self.entries {
            if let (Entry::File(..), Some(name)) = (entry, rename(path)) {
                tree.add(&format!("{folder}/{name}"), entry.clone());
            }
        }
        tree
    }

    fn add(&mut self, path: &str, entry: Entry) {
        for (slash, _) in path.match_indices('/') {
            self.entries.entry(path[..slash].to_owned()).or_insert(Entry::Folder(0o755));
        }
        self.entries.insert(path.to_owned(), entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_stands_before_what_is_in_it() {
        let mut tree = Tree::default();
        tree.program("a/b/c", *b"1");
        tree.file("a-b", *b"2");
        tree.folder("t", 0o1777);
        let paths = |tree: &Tree| tree.entries().map(|(path, _)| path.to_owned()).collect::<Vec<_>>();
        assert_eq!(paths(&tree), ["a", "a-b", "a/b", "a/b/c", "t"]);
        let moved = tree.below("x/y", |path| (path != "a-b").then(|| path.replace("b/", "")));
        assert_eq!(paths(&moved), ["x", "x/y", "x/y/a", "x/y/a/c"]);
        let (_, last) = moved.entries().last().expect("it is there");
        assert_eq!(*last, Entry::File(Rc::from(*b"1"), 0o755));
    }
}
