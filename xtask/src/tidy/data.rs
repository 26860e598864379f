//! Workloads and commits.

use super::Finding;
use super::names::names;
use super::source::has_word;
use super::tree::Tree;
use std::collections::BTreeSet;

const SUBJECT_MAX: usize = 60;

/// A workload is explained, and does not know in what it will be deployed.
pub(super) fn workloads(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rule = "workload";
    let inside = tree.files.iter().filter_map(|file| file.path.strip_prefix("workloads/")?.split_once('/'));
    let folders: BTreeSet<&str> = inside.map(|(folder, _)| folder).collect();
    for folder in folders {
        for wanted in ["workload.yaml", "README.md"] {
            let path = format!("workloads/{folder}/{wanted}");
            if !tree.files.iter().any(|file| file.path == path) {
                findings.push(Finding::new(&path, 1, rule, "is missing; a workload has both"));
            }
        }
    }
    let names = names(tree);
    let layers: Vec<&String> = names.iter().filter(|(_, kind)| **kind == "layer").map(|(name, _)| name).collect();
    let is_workload = |path: &str| path.starts_with("workloads/") && path.ends_with(".yaml");
    for file in tree.files.iter().filter(|file| is_workload(&file.path)) {
        for (at, line) in file.text.lines().enumerate() {
            let said = line.split(" #").next().filter(|line| !line.starts_with('#')).unwrap_or_default();
            for layer in layers.iter().filter(|layer| has_word(said, layer)) {
                let advice = format!("names the layer '{layer}'; forms are the study's business");
                findings.push(Finding::new(&file.path, at + 1, rule, advice));
            }
        }
    }
    findings
}

/// The example in CONTRIBUTING.md is a workload that exists, word for word, so it is tested like one.
pub(super) fn example(tree: &Tree) -> Vec<Finding> {
    let text = |path: &str| tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let Some(document) = text("CONTRIBUTING.md") else { return Vec::new() };
    let lines: Vec<&str> = document.lines().map(str::trim_start).collect();
    let Some(start) = lines.iter().position(|line| *line == "```yaml") else { return Vec::new() };
    let shown: Vec<&str> = lines[start + 1..].iter().copied().take_while(|line| *line != "```").collect();
    let name = shown.first().and_then(|line| line.strip_prefix("workload: ")).unwrap_or_default();
    let real = text(&format!("workloads/{name}/workload.yaml")).unwrap_or_default();
    let real: Vec<&str> = real.lines().map(str::trim_start).filter(|line| !line.starts_with('#')).collect();
    if shown == real {
        return Vec::new();
    }
    let advice = format!("the example is not workloads/{name}/workload.yaml; copy that one, without its comments");
    vec![Finding::new("CONTRIBUTING.md", start + 1, "example", advice)]
}

/// Subjects of commits, given as `git log --format='%h %s'` prints them.
pub(super) fn commit_subjects(log: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in log.lines() {
        let (hash, subject) = line.split_once(' ').unwrap_or((line, ""));
        let (area, summary) = subject.split_once(": ").unwrap_or_default();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/., ".contains(c);
        let place = format!("commit {hash}");
        if area.is_empty() || summary.is_empty() || !area.chars().all(fits) {
            findings.push(Finding::new(&place, 1, "commit-subject", "write 'area: summary', the area in lower case"));
        }
        let length = subject.chars().count();
        if length > SUBJECT_MAX {
            let advice = format!("{length} characters; at most {SUBJECT_MAX}, the rest belongs in the body");
            findings.push(Finding::new(&place, 1, "commit-subject", advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn incomplete_and_knowing_workloads_are_found() {
        let table =
            ("crates/tare-layers/src/x.rs", "impl Layer for Cage {\n    const NAME: &'static str = \"cage\";\n");
        let bad = [table, ("workloads/toy/workload.yaml", "workload: toy\nforms: [cage]\n")];
        let findings = found(workloads, &bad);
        assert_eq!(findings.len(), 2, "{findings:#?}");
        assert!(findings[0].starts_with("workloads/toy/README.md:1: workload: is missing"));
        let good = [
            table,
            ("workloads/toy/workload.yaml", "# not in a cage\nworkload: toy # nor in a cage\n"),
            ("workloads/toy/README.md", "Once in a cage.\n"),
        ];
        assert!(found(workloads, &good).is_empty());
    }

    #[test]
    fn an_example_that_drifted_from_its_workload_is_found() {
        let workload = ("workloads/toy/workload.yaml", "# A toy.\nworkload: toy\nservices:\n  toy: {}\n");
        let document = |lines: &str| format!("1. Do:\n\n   ```yaml\n{lines}   ```\n");
        let same = document("   workload: toy\n   services:\n     toy: {}\n");
        assert!(found(example, &[workload, ("CONTRIBUTING.md", &same)]).is_empty());
        let drifted = document("   workload: toy\n   services:\n     toy: {a: b}\n");
        let findings = found(example, &[workload, ("CONTRIBUTING.md", &drifted)]);
        assert_eq!(findings[0].split(" the ").next(), Some("CONTRIBUTING.md:3: example:"));
    }

    #[test]
    fn commits_without_an_area_or_too_long_are_found() {
        let long = format!("c3 core: {}", "x".repeat(SUBJECT_MAX));
        let bad = format!("a1 Fix things\nb2 Core: with a capital\n{long}\n");
        assert_eq!(commit_subjects(&bad).len(), 3);
        assert!(commit_subjects("a1 core: vocabulary, traits and file formats\nb2 load, stats: agree\n").is_empty());
    }
}
