//! The files that rules look at.

use super::git;
use super::source::Source;
use anyhow::{Context, Result};
use std::path::Path;

/// The project's text files.
pub(super) struct Tree {
    /// In the order of their paths.
    pub(super) files: Vec<File>,
}

/// A text file.
pub(super) struct File {
    /// From the workspace's root, with `/`.
    pub(super) path: String,
    /// Its content.
    pub(super) text: String,
    /// Its scan, if it is Rust.
    pub(super) source: Option<Source>,
}

impl Tree {
    /// Reads the files that git tracks or would track; of a source tree that is no checkout, all but what is built.
    ///
    /// # Errors
    /// When a folder cannot be listed, or git does not read the checkout.
    pub(super) fn read(root: &Path) -> Result<Tree> {
        let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let paths: Vec<String> = match listed {
            Some(list) => list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect(),
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        let mut files = Vec::new();
        for path in paths {
            // A file that was just removed is still listed; one that is no UTF-8 is not ours to judge.
            let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
            let Ok(text) = String::from_utf8(bytes) else { continue };
            files.push(File::new(path, text));
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Tree { files })
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| File::new((*path).to_owned(), (*text).to_owned())).collect() }
    }

    /// The Rust files with their scans.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.source.as_ref()?)))
    }
}

impl File {
    fn new(path: String, text: String) -> File {
        let source = path.ends_with(".rs").then(|| Source::scan(&path, &text));
        File { path, text, source }
    }

    /// The crate's name, if the file belongs to one: `crates/<name>/...`.
    pub(super) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> Result<()> {
    let entries = std::fs::read_dir(root.join(folder)).with_context(|| format!("could not list {folder}"))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() && !(folder.is_empty() && ["target", "records", ".git"].contains(&name.as_str())) {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}
