//! How long files, functions and lines may be.

use super::Finding;
use super::tree::Tree;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 120;

/// Files that may be longer, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Rust files end before a reader loses the thread.
pub(super) fn file_length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        let lines = source.lines.len() - usize::from(file.text.ends_with('\n'));
        if lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|(path, _)| *path == file.path) {
            let advice = format!("{lines} lines; split it by subject, at most {FILE_LINES_MAX}");
            findings.push(Finding::new(&file.path, FILE_LINES_MAX + 1, "file-length", advice));
        }
    }
    findings
}

/// Functions fit on a screen.
pub(super) fn function_length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        for function in source.functions().iter().filter(|function| function.body_lines > FUNCTION_LINES_MAX) {
            let (name, lines) = (&function.name, function.body_lines);
            let advice = format!("'{name}' has {lines} lines; split it by step, at most {FUNCTION_LINES_MAX}");
            findings.push(Finding::new(&file.path, function.line, "function-length", advice));
        }
    }
    findings
}

/// Lines of Rust fit beside each other. Quoted texts do not count: a message is easier to find in one piece.
pub(super) fn line_length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        for (at, (line, scanned)) in file.text.lines().zip(&source.lines).enumerate() {
            let quoted: usize = scanned.texts.iter().map(|text| text.chars().count()).sum();
            let columns = line.chars().count().saturating_sub(quoted);
            // A line inside of a long quoted text has no code and no comment.
            let is_text = scanned.code.trim().is_empty() && scanned.comment.is_empty();
            if columns > LINE_COLUMNS_MAX && !is_text {
                let advice = format!("{columns} columns; break it, at most {LINE_COLUMNS_MAX}");
                findings.push(Finding::new(&file.path, at + 1, "line-length", advice));
            }
        }
    }
    findings
}

/// No line ends in blanks. Fixtures are what some program wrote, so they are left alone.
pub(super) fn trailing_space(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let captured = |path: &str| path.contains("/fixtures/") || path.ends_with(".snap") || path.ends_with(".golden");
    for file in tree.files.iter().filter(|file| !captured(&file.path)) {
        for (at, _) in file.text.lines().enumerate().filter(|(_, line)| line.ends_with([' ', '\t'])) {
            findings.push(Finding::new(&file.path, at + 1, "trailing-space", "remove it"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn long_files_are_found() {
        assert_eq!(found(file_length, &[("a.rs", &"x\n".repeat(FILE_LINES_MAX))]), Vec::<String>::new());
        assert_eq!(found(file_length, &[("a.rs", &"x\n".repeat(FILE_LINES_MAX + 1))]).len(), 1);
        assert_eq!(found(file_length, &[("a.md", &"x\n".repeat(FILE_LINES_MAX + 1))]).len(), 0);
    }

    #[test]
    fn long_functions_are_found() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "x();\n".repeat(lines));
        assert!(found(function_length, &[("a.rs", &function(FUNCTION_LINES_MAX))]).is_empty());
        let findings = found(function_length, &[("a.rs", &function(FUNCTION_LINES_MAX + 1))]);
        assert!(findings[0].starts_with("a.rs:1: function-length: 'f' has 71 lines"), "{findings:?}");
    }

    #[test]
    fn long_lines_and_trailing_blanks_are_found() {
        assert!(found(line_length, &[("a.rs", &"x".repeat(LINE_COLUMNS_MAX))]).is_empty());
        assert!(found(line_length, &[("a.rs", &format!("f(\"{}\");", "x ".repeat(LINE_COLUMNS_MAX)))]).is_empty());
        assert_eq!(found(line_length, &[("a.rs", &format!("// {}", "x ".repeat(LINE_COLUMNS_MAX)))]).len(), 1);
        assert_eq!(found(line_length, &[("a.rs", &"x".repeat(LINE_COLUMNS_MAX + 1))]).len(), 1);
        assert_eq!(found(trailing_space, &[("a.md", "a \nb\n"), ("x/fixtures/y", "a \n")]).len(), 1);
    }
}
