//! How crates may depend on each other, and what each may touch.

use super::Finding;
use super::tree::Tree;
use std::collections::BTreeMap;

/// Which siblings a crate may depend on. `ARCHITECTURE.md` says why; a crate that is not listed may depend on all.
const ALLOWED: &[(&str, &[&str])] = &[
    ("tare-bpf", &[]),
    ("tare-clock", &[]),
    ("tare-compose", &["tare-core"]),
    ("tare-core", &[]),
    ("tare-removal", &[]),
    ("tare-stats", &["tare-core"]),
    ("tare-bundle", &["tare-core", "tare-removal"]),
    ("tare-layers", &["tare-bpf", "tare-clock", "tare-core", "tare-removal"]),
    ("tare-load", &["tare-clock", "tare-core"]),
    ("tare-telemetry", &["tare-bpf", "tare-clock", "tare-core"]),
    ("tare-runner", &["tare-core", "tare-stats"]),
    ("tare-report", &["tare-core", "tare-stats"]),
    ("tare-serve", &["tare-core", "tare-removal", "tare-report", "tare-runner", "tare-stats"]),
    ("tare-testkit", &["tare-core"]),
];

/// What tests alone depend on.
const TESTKIT: &str = "tare-testkit";

/// Crates that do not know each other, not even in their tests.
const STRANGERS: &[&str] = &["tare-bundle", "tare-layers", "tare-load", "tare-telemetry"];

/// The arrows between crates point at `tare-core`, and at `tare-bpf`, `tare-clock` and `tare-removal`, which know
/// nothing of Tare.
pub(super) fn dependencies(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let Some(name) = file.crate_name() else { continue };
        let allowed = ALLOWED.iter().find(|(listed, _)| *listed == name).map(|(_, allowed)| *allowed);
        let mut section = "";
        for (at, line) in file.text.lines().enumerate() {
            let line = line.trim();
            if let Some(title) = line.strip_prefix('[') {
                section = title.trim_end_matches(']');
            }
            // A crate's fuzz targets are a package of their own that uses it.
            let Some(sibling) = sibling_of(line, section).filter(|sibling| *sibling != name) else { continue };
            let for_tests = section.ends_with("dev-dependencies");
            let fits = match allowed {
                // Its types would be of two crates: the one under test, and the one that the kit was built with.
                _ if sibling == TESTKIT => for_tests && name != "tare-core",
                Some(allowed) if !for_tests => allowed.contains(&sibling),
                Some(_) => sibling != "tare" && !(STRANGERS.contains(&name) && STRANGERS.contains(&sibling)),
                None => true,
            };
            if !fits {
                let advice = format!("{name} must not depend on {sibling}; meet at a trait or a type of tare-core");
                findings.push(Finding::new(&file.path, at + 1, "dependency", advice));
            }
        }
    }
    findings
}

/// The sibling crate that this line of a section adds, as a key or as the section's own title.
fn sibling_of<'a>(line: &'a str, section: &'a str) -> Option<&'a str> {
    let is_ours = |name: &str| name == "tare" || name.starts_with("tare-");
    if line.starts_with('[') {
        let name = section.split_once("dependencies.")?.1;
        return is_ours(name).then_some(name);
    }
    let name = line.split(['.', '=', ' ']).next()?;
    (section.ends_with("dependencies") && is_ours(name)).then_some(name)
}

/// A name is found in the crate that defines it.
pub(super) fn reexports(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.rust() {
        for (at, line) in source.lines.iter().enumerate() {
            let code = line.code.trim_start();
            if code.starts_with("pub use tare_") || code.starts_with("pub use ::tare_") {
                let advice = "a name has one home; let users import it from there";
                findings.push(Finding::new(&file.path, at + 1, "reexport", advice));
            }
        }
    }
    findings
}

/// Every crate says what it is.
pub(super) fn crate_docs(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in tree.rust() {
        let is_root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
        let first = file.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        if is_root && !first.starts_with("//!") {
            findings.push(Finding::new(&file.path, 1, "crate-doc", "say in '//!' lines at the top what the crate is"));
        }
    }
    findings
}

/// Something read from outside that makes a result depend on when or where it was made.
struct Reading {
    what: &'static str,
    calls: &'static [&'static str],
    /// The crates to which the limit applies; empty means all.
    crates: &'static [&'static str],
}

/// Waiting needs a stopwatch, so only crates whose order and figures are tested without real time have to hand theirs
/// around. The wall clock and the environment are another matter: what they say ends up in results.
const READINGS: &[Reading] = &[
    Reading { what: "wall clock", calls: &["SystemTime::now", "Timestamp::now", "Zoned::now"], crates: &[] },
    Reading { what: "environment", calls: &["env::var(", "env::var_os(", "env::vars(", "env::vars_os("], crates: &[] },
    Reading {
        what: "stopwatch",
        calls: &["Instant::now"],
        crates: &["tare-core", "tare-stats", "tare-runner", "tare-report"],
    },
];

/// Clock and environment are read in one file per crate, where a test can put something else in their place.
pub(super) fn clock_and_environment(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Reading { what, calls, crates } in READINGS {
        let mut readers: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
        for (file, source) in tree.rust().filter(|(file, _)| file.path.contains("/src/")) {
            let Some(name) = file.crate_name().filter(|name| crates.is_empty() || crates.contains(name)) else {
                continue;
            };
            let reads = source.product().find(|(_, line)| calls.iter().any(|call| line.code.contains(call)));
            if let Some((line, _)) = reads {
                readers.entry(name).or_default().push((&file.path, line));
            }
        }
        for files in readers.values().filter(|files| files.len() > 1) {
            for (path, line) in files {
                let advice = format!("{} files of this crate read the {what}; keep it to one", files.len());
                findings.push(Finding::new(path, *line, "outside-reading", advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn forbidden_dependencies_are_found() {
        let bad = "[dependencies]\ntare-core.workspace = true\ntare-load = { path = \"x\" }\n\
                   [dev-dependencies]\ntare-telemetry.workspace = true\n[dependencies.tare-stats]\nworkspace = true\n";
        let findings = found(dependencies, &[("crates/tare-layers/Cargo.toml", bad)]);
        assert_eq!(findings.len(), 3, "{findings:#?}");
        assert!(findings[0].starts_with("crates/tare-layers/Cargo.toml:3: dependency: tare-layers must not depend"));
        let good = "[dependencies]\ntare-core.workspace = true\ntare-stats.workspace = true\n\
                    [dev-dependencies]\ntare-layers.workspace = true\n";
        assert!(found(dependencies, &[("crates/tare-runner/Cargo.toml", good)]).is_empty());
        assert!(found(dependencies, &[("crates/tare/Cargo.toml", bad)]).is_empty());
        let (product, tests) =
            ("[dependencies]\ntare-testkit.workspace = true\n", "[dev-dependencies]\ntare-testkit = {}\n");
        assert_eq!(found(dependencies, &[("crates/tare/Cargo.toml", product)]).len(), 1);
        assert_eq!(found(dependencies, &[("crates/tare-core/Cargo.toml", tests)]).len(), 1);
        assert!(found(dependencies, &[("crates/tare-load/Cargo.toml", tests)]).is_empty());
    }

    #[test]
    fn reexports_of_siblings_are_found() {
        assert_eq!(found(reexports, &[("a.rs", "pub use tare_core::host::Host;\n")]).len(), 1);
        assert!(found(reexports, &[("a.rs", "use tare_core::x;\npub use crate::y;\npub(crate) use z;\n")]).is_empty());
    }

    #[test]
    fn crates_without_a_description_are_found() {
        assert_eq!(found(crate_docs, &[("crates/a/src/lib.rs", "mod x;\n")]).len(), 1);
        assert!(
            found(crate_docs, &[("crates/a/src/lib.rs", "//! A.\n"), ("crates/a/src/x.rs", "mod y;\n")]).is_empty()
        );
    }

    #[test]
    fn a_second_reader_of_the_clock_is_found() {
        let reads = "fn f() { SystemTime::now(); }\n";
        let (a, b, other) = ("crates/a/src/x.rs", "crates/a/src/y.rs", "crates/b/src/x.rs");
        assert_eq!(found(clock_and_environment, &[(a, reads), (b, reads), (other, reads)]).len(), 2);
        let in_test = "#[cfg(test)]\nmod tests { fn f() { SystemTime::now(); } }\n";
        assert!(found(clock_and_environment, &[(a, reads), (b, in_test), (other, reads)]).is_empty());
        assert_eq!(found(clock_and_environment, &[(a, "std::env::var(x);"), (b, "env::var_os(x);")]).len(), 2);
        let waits = "fn f() { Instant::now(); }\n";
        assert!(found(clock_and_environment, &[(a, waits), (b, waits)]).is_empty());
        let runner = [("crates/tare-runner/src/x.rs", waits), ("crates/tare-runner/src/y.rs", waits)];
        assert_eq!(found(clock_and_environment, &runner).len(), 2);
    }
}
