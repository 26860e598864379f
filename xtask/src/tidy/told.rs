//! Tests that documents name are there: who is told `./test NAME` finds one, and so does whoever asks what holds a
//! promise. And so are those that the gate's own tables name.

use super::Finding;
use super::source::Source;
use super::tree::{File, Tree};

/// Where tests are told apart by how their full names begin. A row that fits none any more, as after a rename, would
/// leave them out, or beside what disturbs them, and nobody would see it.
const TABLES: [&str; 3] = ["xtask/src/ci/guest/mod.rs", "xtask/src/ci/lanes.rs", "xtask/src/ci/left.rs"];

/// Every name of a test in a document or a table of the gate is that of one, or how some begin.
pub(super) fn named_tests(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files.iter().filter(|file| file.path == "test" || file.path.ends_with(".md"));
    let mut findings = Vec::new();
    for file in documents.filter(|file| !file.path.contains('/') || file.path.starts_with("docs/")) {
        for (at, line) in file.text.lines().enumerate() {
            for name in named(file, line).into_iter().filter(|name| !is_there(tree, name)) {
                let advice = format!("there is no test '{name}'; name one that there is");
                findings.push(Finding::new(&file.path, at + 1, "named-test", advice));
            }
        }
    }
    let tables = tree.rust().filter(|(file, _)| TABLES.contains(&file.path.as_str()));
    for (file, source) in tables {
        let texts = source.product().flat_map(|(at, line)| line.texts.iter().map(move |text| (at, text)));
        for (at, name) in texts.filter(|(_, text)| is_path(text) && !has_tests(tree, text)) {
            let advice = format!("no test's full name begins with '{name}'; take it out, or name those that are meant");
            findings.push(Finding::new(&file.path, at, "named-test", advice));
        }
    }
    findings
}

/// Whether a text of a table is the beginning of a test's full name, or a part of it from a module on.
fn is_path(text: &str) -> bool {
    text.contains("::") && text.chars().all(|c| c.is_ascii_alphanumeric() || "_:-".contains(c))
}

/// Whether a module has tests whose names begin with the last part of the path, which may be empty.
fn has_tests(tree: &Tree, path: &str) -> bool {
    // The guest's are those of the machine under a prefix.
    let path = path.strip_prefix("cgroup2::").unwrap_or(path);
    let (modules, begin) = path.rsplit_once("::").unwrap_or(("", path));
    path.is_empty() || tree.rust().any(|(file, source)| is_in(tree, file, modules) && has_test(file, source, begin))
}

/// Whether a file has to do with all of these modules, of which the first may be a package.
fn is_in(tree: &Tree, file: &File, modules: &str) -> bool {
    let (first, rest) = modules.split_once("::").unwrap_or((modules, ""));
    let manifest = [format!("{first}/Cargo.toml"), format!("/{first}/Cargo.toml")];
    let is_manifest = |file: &&File| file.path == manifest[0] || file.path.ends_with(&manifest[1]);
    let package = tree.files.iter().find(is_manifest).and_then(|file| file.path.strip_suffix("Cargo.toml"));
    let modules = if package.is_some() { rest } else { modules };
    let mut modules = modules.split("::").filter(|module| !module.is_empty());
    package.is_none_or(|folder| file.path.starts_with(folder))
        && modules.all(|module| {
            let places = [format!("/{module}.rs"), format!("/{module}/")];
            places.iter().any(|place| file.path.contains(place)) || file.text.contains(&format!("mod {module} {{"))
        })
}

/// Whether a file has a test whose name begins so: a function, or what a program that makes its tests from tables
/// quotes.
fn has_test(file: &File, source: &Source, begin: &str) -> bool {
    let makes_its_own = || file.path.contains("/tests/") && !file.text.contains("#[test]");
    source.tests().iter().any(|name| name.starts_with(begin))
        || makes_its_own() && source.lines.iter().flat_map(|line| &line.texts).any(|text| text.starts_with(begin))
}

/// What follows `./test `, and in the page of promises whatever is written as the path of a test.
fn named(file: &File, line: &str) -> Vec<String> {
    let is_name = |word: &&str| {
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_:-".contains(c));
        plain && !word.starts_with('-') && word.contains(['_', ':'])
    };
    let typed = line.split("./test ").skip(1).filter_map(|rest| rest.split([' ', '`', ')', ',', '.']).next());
    let quoted = line.split('`').skip(1).step_by(2).filter(|text| text.contains("::"));
    let quoted = quoted.filter(|_| file.path == "SECURITY.md");
    typed.chain(quoted).filter(is_name).map(str::to_owned).collect()
}

/// Whether a module has the last name of the path that is not empty, or a function begins with it.
fn is_there(tree: &Tree, path: &str) -> bool {
    let (last, is_module) = match path.strip_suffix("::") {
        Some(above) => (above.rsplit("::").next().unwrap_or(above), true),
        None => (path.rsplit("::").next().unwrap_or(path), false),
    };
    let module = [format!("/{last}.rs"), format!("/{last}/")];
    // A contract is kept by each form, whose name then stands before that of the check.
    let check = last.split_once('_').map_or(last, |(_, check)| check);
    let code = [format!("fn {last}"), format!("mod {last} {{"), format!("\"{last}"), format!("\"{check}\"")];
    // The guest's tests are those of the machine under a prefix, and a crate is a folder.
    let of_guest = last == "cgroup2";
    of_guest
        || tree
            .files
            .iter()
            .filter(|file| is_module && file.path.ends_with(".rs"))
            .any(|file| module.iter().any(|part| file.path.contains(part.as_str())) || file.text.contains(&code[1]))
        || tree.rust().any(|(file, _)| !is_module && code.iter().any(|part| file.text.contains(part.as_str())))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn a_test_that_is_not_there_is_found() {
        let code = ("crates/tare-x/src/a.rs", "mod tests { fn it_holds_well() {} }\n");
        let good = "./test it_holds\n./test tare-x::\n./test --thorough, or ./test is all\n./test a::tests::\n";
        assert!(found(named_tests, &[code, ("CONTRIBUTING.md", good), ("test", good)]).is_empty());
        let bad = "./test it_fails_well\n./test tare-y::\n";
        assert_eq!(found(named_tests, &[code, ("test", bad)]).len(), 2);
        let promises = "Held by `a::tests::it_holds_well`, `a::tests::it_broke` and `rm -rf`.\n";
        assert_eq!(found(named_tests, &[code, ("SECURITY.md", promises)]).len(), 1);
        assert!(found(named_tests, &[code, ("ARCHITECTURE.md", promises)]).is_empty());
    }

    #[test]
    fn a_row_of_the_gates_tables_that_fits_no_test_is_found() {
        let code = [
            ("crates/tare-x/Cargo.toml", ""),
            ("crates/tare-x/src/a.rs", "mod tests {\n#[test]\nfn it_holds_well() {}\nfn it_helps() {}\n}\n"),
            (
                "crates/tare-x/tests/forms/checks.rs",
                "let all = [(\"every_form_is_left\", left), (\"native_{name}\", f)];\n",
            ),
            ("crates/tare-y/Cargo.toml", ""),
            ("crates/tare-y/src/b.rs", "#[test]\nfn it_waits() {}\n"),
        ];
        let among = |row: &str| {
            let table = format!("const LEFT: &[(&str, &str)] = &[(\"{row}\", \"as a::b:: is enough\")];\n");
            found(named_tests, &[&code[..], &[("xtask/src/ci/left.rs", table.as_str())][..]].concat())
        };
        let there = ["tare-x::a::", "tare-x::a::tests::it_holds_", "a::tests::it_holds_well", "tare-y::b::it_waits"];
        let made = ["tare-x::forms::", "tare-x::forms::every_form_", "tare-x::forms::native_", "cgroup2::", "tare-x::"];
        for row in there.iter().chain(&made) {
            assert_eq!(among(row), [""; 0], "{row}");
        }
        let gone =
            ["tare-x::a::it_broke", "tare-x::a::it_helps", "tare-x::b::it_waits", "tare-x::forms::all_", "b::it_holds"];
        for row in gone.iter().chain(&["tare-z::a::", "tare-y::a::", "cgroup2::tare-x::forms::it_"]) {
            let finding = format!("xtask/src/ci/left.rs:1: named-test: no test's full name begins with '{row}'");
            assert!(matches!(&among(row)[..], [only] if only.starts_with(&finding)), "{row}: {:?}", among(row));
        }
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        assert!(TABLES.iter().all(|table| root.join(table).exists()), "one was moved");
    }
}
