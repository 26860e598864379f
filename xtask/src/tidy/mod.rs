//! The rules that no compiler knows, checked by scanning text: good enough to catch a slip, simple enough to trust.
//! Only what modules use of each other is read as Rust.
//!
//! A rule is a function from the [`Tree`] to its findings, and one row of [`RULES`].

mod circles;
mod crates;
mod data;
mod names;
mod phrases;
mod size;
mod source;
mod told;
mod tree;
mod words;

use crate::output_of;
use anyhow::{Context, Result};
use std::fmt;
use std::path::Path;
use tree::Tree;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// The file, from the workspace's root.
    file: String,
    /// The line, from 1.
    line: usize,
    /// The rule's name.
    rule: &'static str,
    /// What to do.
    advice: String,
}

impl Finding {
    fn new(file: &str, line: usize, rule: &'static str, advice: impl Into<String>) -> Self {
        Finding { file: file.to_owned(), line, rule, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.advice)
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    size::file_length,
    size::function_length,
    size::line_length,
    size::trailing_space,
    words::module_names,
    words::refused_words,
    words::sentences,
    words::unfinished,
    words::machine_paths,
    crates::dependencies,
    crates::reexports,
    crates::crate_docs,
    crates::clock_and_environment,
    circles::between_modules,
    names::foreign_names,
    phrases::refused_phrases,
    told::named_tests,
    data::workloads,
    data::example,
];

/// Checks the workspace at `root` and prints every finding. Whether there was none.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let mut findings = check(&tree);
    findings.extend(data::commit_subjects(&recent_commits(root)?));
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings in {} files", findings.len(), tree.files.len());
    Ok(findings.is_empty())
}

/// What git says about the workspace; none where the source is no checkout.
///
/// # Errors
/// What git says where there is a checkout that it does not read: less would be checked, and nobody would know.
fn git(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    if root.join(".git").symlink_metadata().is_err() {
        return Ok(None);
    }
    let remedy = || {
        let remedy = format!("git config --global --add safe.directory '{}'", root.display());
        format!("git does not read this checkout; where another user owns it, this helps: {remedy}")
    };
    output_of("git", arguments, root).with_context(remedy).map(Some)
}

/// Hash and subject of the last commit, and of those before it that no other repository has: what others have cannot be
/// reworded any more. Empty where the source is no checkout, or has no commit yet.
fn recent_commits(root: &Path) -> Result<String> {
    let git = |arguments: &[&str]| Ok::<_, anyhow::Error>(git(root, arguments)?.unwrap_or_default());
    if git(&["rev-list", "-n", "1", "--all"])?.is_empty() {
        return Ok(String::new());
    }
    let log = |range: &[&str]| git(&[&["log", "--no-merges", "-n", "100", "--format=%h %s", "HEAD"], range].concat());
    let last = log(&["-n", "1"])?;
    let has_remotes = !git(&["remote"])?.trim().is_empty();
    let unshared = if has_remotes { log(&["--not", "--remotes"])? } else { String::new() };
    Ok(if unshared.is_empty() { last } else { unshared })
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

/// What rules are tested with: the rule names found in a tree of these files.
#[cfg(test)]
fn found(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    rule(&Tree::of(files)).iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_sorted_and_with_their_place() {
        let tree = Tree::of(&[("crates/b/src/x.rs", "let a = 1; \n"), ("crates/a/src/x.rs", "fn f() {}\n\nlet b; \n")]);
        let lines: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(lines[0], "crates/a/src/x.rs:3: trailing-space: remove it");
        assert_eq!(lines[1], "crates/b/src/x.rs:1: trailing-space: remove it");
    }

    #[test]
    fn a_checkout_that_git_refuses_is_an_error_and_no_checkout_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.md"), "Text.\n").expect("it can be written");
        assert_eq!(Tree::read(folder.path()).expect("a tarball is a source tree too").files.len(), 1);
        assert_eq!(recent_commits(folder.path()).expect("it has none"), "");
        std::fs::write(folder.path().join(".git"), "no place\n").expect("it can be written");
        let refused = [Tree::read(folder.path()).err(), recent_commits(folder.path()).err()];
        for error in refused.map(|error| format!("{:#}", error.expect("git refuses it"))) {
            assert!(error.contains("--add safe.directory") && error.contains("invalid gitfile"), "{error}");
        }
    }

    #[test]
    fn a_checkout_without_a_commit_has_no_subjects() {
        let folder = tempfile::tempdir().expect("a folder");
        output_of("git", &["init", "--quiet"], folder.path()).expect("there is a git");
        assert_eq!(recent_commits(folder.path()).expect("it has none yet"), "");
    }
}
