//! Real input, from files of the repository.

use std::path::{Component, Path, PathBuf};

/// What is in the files below `folder` that fit `pattern`, a relative path in whose parts one `*` may stand.
pub(crate) fn matching(folder: &str, pattern: &str) -> Vec<Vec<u8>> {
    let mut paths = vec![PathBuf::from(folder)];
    for part in pattern.split('/') {
        paths = paths.iter().flat_map(|path| fitting(path, part)).collect();
    }
    assert!(!paths.is_empty(), "no file fits {pattern} in {folder}");
    let read = |path: &PathBuf| std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    paths.iter().map(read).collect()
}

/// Files in one text, each after a line of `== ` and its path: (path, content). Paths that lead elsewhere than below a
/// folder are left out.
pub fn files(text: &[u8]) -> impl Iterator<Item = (String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match (line.strip_prefix(b"== "), files.last_mut()) {
            (Some(name), _) => files.push((String::from_utf8_lossy(name).trim_end().to_owned(), Vec::new())),
            (None, Some((_, content))) => content.extend_from_slice(line),
            (None, None) => {}
        }
    }
    let below = |name: &str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    files.into_iter().filter(move |(name, _)| !name.is_empty() && !name.contains('\0') && below(name))
}

/// What of a folder fits a part of a pattern, sorted.
fn fitting(folder: &Path, part: &str) -> Vec<PathBuf> {
    let Some((begin, end)) = part.split_once('*') else {
        return Some(folder.join(part)).filter(|path| path.exists()).into_iter().collect();
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let fits = |name: &str| name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end);
    let mut found: Vec<PathBuf> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(fits)).map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stand_in_one_text() {
        let text = b"before\n== a/b\nx\ny\n== ../c\nz\n== /d\n== e\n== f\nno end";
        let found: Vec<_> = files(text).collect();
        let file = |name: &str, content: &str| (name.to_owned(), content.as_bytes().to_vec());
        assert_eq!(found, [file("a/b", "x\ny\n"), file("e", ""), file("f", "no end")]);
    }

    #[test]
    fn patterns_find_files_and_one_that_finds_none_is_noticed() {
        let here = env!("CARGO_MANIFEST_DIR");
        assert_eq!(matching(here, "src/sam*.rs"), [include_bytes!("samples.rs")]);
        assert!(matching(here, "*/*.rs").len() >= 4 && matching(here, "../hostile/Cargo.toml").len() == 1);
        assert!(std::panic::catch_unwind(|| matching(here, "src/*.c")).is_err());
    }
}
