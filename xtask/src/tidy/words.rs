//! Words that mean nothing, mean too much, or say that something is not done.

use super::Finding;
use super::tree::Tree;

/// Names that tell a reader nothing about what is inside.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "stuff", "shared"];

/// Words that docs/src/glossary.md refuses, with the word to use.
const REFUSED: &[(&str, &str)] = &[
    ("scenario", "form, study or load profile"),
    ("scenarios", "forms, studies or load profiles"),
    ("bench", "study or workload"),
    ("benches", "studies or workloads"),
    ("campaign", "study"),
    ("sla", "QoS"),
    ("qps", "offered or achieved load"),
];

/// Calls and marks of what is not finished.
const UNFINISHED_CODE: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];
const UNFINISHED_MARKS: &[&str] = &["FIXME", "TODO", "XXX"];

/// Folders of one developer's machine.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/")];

/// Files and modules are called after their subject.
pub(super) fn module_names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rule = "module-name";
    for (file, source) in tree.rust() {
        let mut parts: Vec<&str> = file.path.split('/').collect();
        // Tests share set-up code in `tests/<subject>/mod.rs`; it has a subject too.
        let name = parts.pop().and_then(|name| name.strip_suffix(".rs")).unwrap_or_default();
        parts.push(name);
        for part in parts.iter().filter(|part| EMPTY_NAMES.contains(part)) {
            findings.push(Finding::new(&file.path, 1, rule, format!("'{part}' says nothing; name the subject")));
        }
        for (at, line) in source.lines.iter().enumerate() {
            let code = line.code.trim_end();
            let inline = code.strip_suffix('{').map(str::trim_end);
            let Some(name) = inline.and_then(|code| code.split("mod ").nth(1)) else { continue };
            if EMPTY_NAMES.contains(&name) {
                findings.push(Finding::new(
                    &file.path,
                    at + 1,
                    rule,
                    format!("'{name}' says nothing; name the subject"),
                ));
            }
        }
    }
    findings
}

/// One word per idea, in names and in comments.
pub(super) fn refused_words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        for (at, line) in source.lines.iter().enumerate() {
            let words = words_of(&line.code).chain(words_of(&line.comment));
            for word in words {
                if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == word) {
                    let advice = format!("docs/src/glossary.md refuses '{word}'; say {instead}");
                    findings.push(Finding::new(&file.path, at + 1, "refused-word", advice));
                }
            }
        }
    }
    findings
}

/// Where results are worked out: they are types there, and become words in reports.
const RESULTS: &str = "crates/tare-stats/src/";

/// Files of these that hold other texts: titles of figures, errors of what cannot be read.
const TEXTS: &[&str] = &["evidence.rs", "finding/rule.rs", "histogram.rs", "scaling/records.rs", "slices.rs"];

/// A text of so many words is a sentence, or a part of one.
const SENTENCE: usize = 5;

/// Words are made in one place, from data: what was worked out is no sentence, which others would have to read back.
pub(super) fn sentences(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        if file.path.strip_prefix(RESULTS).is_none_or(|name| TEXTS.contains(&name)) {
            continue;
        }
        let is_word = |word: &&str| word.chars().all(|c| c.is_alphabetic() || c == '\'');
        let is_sentence = |text: &String| {
            text.split([' ', ',', ':', ';', '.']).filter(is_word).filter(|word| !word.is_empty()).count() >= SENTENCE
        };
        for (at, line) in source.product() {
            let is_own = ["expect(", "assert", "Fault::new(", "Err("].iter().any(|call| line.code.contains(call));
            if !is_own && line.texts.iter().any(is_sentence) {
                let advice = "this is a sentence; make it a type, and its words in tare-report";
                findings.push(Finding::new(&file.path, at, "sentence", advice));
            }
        }
    }
    findings
}

/// The words of a line in lower case: names are split at `_` and where capitals begin.
fn words_of(text: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in text.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.into_iter().filter(|word| !word.is_empty())
}

/// What is not done does not go in.
pub(super) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        for (at, line) in source.lines.iter().enumerate() {
            let code = UNFINISHED_CODE.iter().filter(|mark| line.code.contains(**mark));
            let comment = UNFINISHED_MARKS.iter().filter(|mark| super::source::has_word(&line.comment, mark));
            for mark in code.chain(comment) {
                let advice = format!("'{mark}': do it, or open an issue and remove the mark");
                findings.push(Finding::new(&file.path, at + 1, "unfinished", advice));
            }
        }
    }
    findings
}

/// Nothing in the project knows the machine it was written on.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| !file.path.contains("/fixtures/")) {
        let tests = |at: usize| {
            file.source.as_ref().is_some_and(|source| source.is_test || source.lines.get(at).is_some_and(|l| l.in_test))
        };
        for (at, line) in file.text.lines().enumerate() {
            for path in MACHINE_PATHS.iter().filter(|path| starts_a_path(line, path) && !tests(at)) {
                let advice = format!("'{path}' is a path of one machine; derive it or take it as an argument");
                findings.push(Finding::new(&file.path, at + 1, "machine-path", advice));
            }
        }
    }
    findings
}

/// Whether `path` stands in `line` as the beginning of a path.
fn starts_a_path(line: &str, path: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "._-/}*".contains(c);
    line.match_indices(path).any(|(at, _)| !line[..at].chars().next_back().is_some_and(inside))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn empty_names_are_found() {
        assert_eq!(found(module_names, &[("crates/a/src/util.rs", ""), ("crates/a/src/misc/mod.rs", "")]).len(), 2);
        assert_eq!(found(module_names, &[("crates/a/src/x.rs", "pub mod helpers {\n}\n")]).len(), 1);
        assert!(found(module_names, &[("crates/a/src/units.rs", "mod common_cause {\n}\n")]).is_empty());
    }

    #[test]
    fn refused_words_are_found_in_names_and_comments_only() {
        let bad = "struct TestScenario; // as in the last bench\nfn run_campaign() {}\n";
        assert_eq!(found(refused_words, &[("a.rs", bad)]).len(), 3);
        let good = "// as redis-benchmark does\nlet benchmark = \"scenario\";\n";
        assert!(found(refused_words, &[("a.rs", good)]).is_empty());
    }

    #[test]
    fn sentences_are_found_where_results_are_worked_out() {
        let bad = "fn f() -> String { format!(\"{arm}: nothing of this is to be believed\") }\n";
        let [stats, report] = ["crates/tare-stats/src/a.rs", "crates/tare-report/src/a.rs"];
        assert_eq!(found(sentences, &[(stats, bad), (report, bad)]).len(), 1);
        let good = "let name = \"the time to settle\"; x.expect(\"a level was pushed if there was none\");\n";
        assert!(found(sentences, &[(stats, good)]).is_empty());
        for file in ["crates/tare-stats/src/condition.rs", "crates/tare-stats/src/compare.rs"] {
            assert_eq!(found(sentences, &[(file, bad)]).len(), 1, "conditions have their words in reports: {file}");
        }
        let tested = format!("#[cfg(test)]\nmod tests {{\n{bad}}}\n");
        assert!(found(sentences, &[(stats, &tested)]).is_empty());
    }

    #[test]
    fn unfinished_work_is_found() {
        let bad = "fn f() { todo!() }\n#[ignore = \"slow\"]\n// FIXME: later\nfn g() { dbg!(1); }\n";
        assert_eq!(found(unfinished, &[("a.rs", bad)]).len(), 4);
        assert!(found(unfinished, &[("a.rs", "let x = \"todo!\"; // a todo list\n")]).is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found_outside_tests() {
        let path = MACHINE_PATHS[1];
        let bad = format!("let x = \"{path}me/x\";\n#[cfg(test)]\nmod tests {{ const P: &str = \"{path}me\"; }}\n");
        assert_eq!(found(machine_paths, &[("a.rs", &bad), ("b.md", &format!("see {path}me\n"))]).len(), 2);
        assert!(found(machine_paths, &[("a.md", &format!("https://example.org{path}\n"))]).is_empty());
    }
}
