//! The method must be the same for all: what decides, computes or shows does not know what it deals with.

use super::Finding;
use super::source::has_word;
use super::tree::Tree;
use std::collections::BTreeMap;

/// The crates that may not name a layer, a workload or a protocol, not even in a text.
const IGNORANT: &[&str] = &["tare-runner", "tare-stats", "tare-report"];

/// Protocol names that are words of other things too; only a text that is nothing else counts.
const GENERAL: &[&str] = &["null", "http", "tcp", "exec", "echo", "local"];

/// How a layer or a protocol states its name.
const STATES_NAME: &str = "const NAME: &'static str = \"";

/// No layer, protocol or workload is named in the crates that must treat all alike.
pub(super) fn foreign_names(tree: &Tree) -> Vec<Finding> {
    let names = names(tree);
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        if !file.crate_name().is_some_and(|name| IGNORANT.contains(&name)) || !file.path.contains("/src/") {
            continue;
        }
        for (at, line) in source.product() {
            for (name, kind) in &names {
                let general = GENERAL.contains(&name.as_str());
                let says = |text: &String| if general { text == name } else { has_word(text, name) };
                if line.texts.iter().any(says) {
                    let advice = format!("'{name}' is the name of a {kind}; take it from the data");
                    findings.push(Finding::new(&file.path, at, "foreign-name", advice));
                }
            }
        }
    }
    findings
}

/// Names of layers and protocols, read from where they are defined, and of workloads, read from their folders.
pub(super) fn names(tree: &Tree) -> BTreeMap<String, &'static str> {
    let mut names = BTreeMap::new();
    for (file, source) in tree.rust() {
        let kind = match file.crate_name() {
            Some("tare-layers") => "layer",
            Some("tare-load") => "protocol",
            _ => continue,
        };
        for (_, line) in source.product().filter(|(_, line)| line.code.contains(STATES_NAME)) {
            names.extend(line.texts.first().map(|name| (name.clone(), kind)));
        }
    }
    for file in &tree.files {
        let folder = file.path.strip_prefix("workloads/").and_then(|rest| rest.split_once('/'));
        names.extend(folder.map(|(name, _)| (name.to_owned(), "workload")));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const TABLE: (&str, &str) = (
        "crates/tare-layers/src/cage/mod.rs",
        "impl Layer for Cage {\n    type Options = Bars;\n\n    const NAME: &'static str = \"cage\";\n}\n",
    );
    const PROTOCOLS: (&str, &str) = (
        "crates/tare-load/src/x.rs",
        "impl LoadProtocol for Null {\n    type Options = Options;\n    const NAME: &'static str = \"null\";\n}\n",
    );
    const WORKLOAD: (&str, &str) = ("workloads/toy/README.md", "");

    #[test]
    fn names_are_read_from_tables_and_folders() {
        let names = names(&Tree::of(&[TABLE, PROTOCOLS, WORKLOAD]));
        let names: Vec<(&str, &str)> = names.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        assert_eq!(names, [("cage", "layer"), ("null", "protocol"), ("toy", "workload")]);
    }

    #[test]
    fn a_name_in_a_text_is_found_outside_tests() {
        let bad = "fn f() { g(\"in a cage\", \"toy\", \"null\"); }\n";
        assert_eq!(found(foreign_names, &[TABLE, PROTOCOLS, WORKLOAD, ("crates/tare-report/src/a.rs", bad)]).len(), 3);
        let good = "// in a cage\nfn f() { g(\"caged\", \"null hypothesis\"); }\n\
                    #[cfg(test)]\nmod tests { const A: &str = \"cage\"; }\n";
        assert!(found(foreign_names, &[TABLE, PROTOCOLS, WORKLOAD, ("crates/tare-stats/src/a.rs", good)]).is_empty());
        assert!(found(foreign_names, &[TABLE, ("crates/tare/src/a.rs", bad)]).is_empty());
    }
}
