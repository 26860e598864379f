//! Tests that documents name are there: who is told `./test NAME` finds one, and so does whoever asks what holds a
//! promise.

use super::Finding;
use super::tree::{File, Tree};

/// Every name of a test in a document is that of one, or how some begin.
pub(super) fn named_tests(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files.iter().filter(|file| file.path == "test" || file.path.ends_with(".md"));
    let mut findings = Vec::new();
    for file in documents.filter(|file| !file.path.contains('/')) {
        for (at, line) in file.text.lines().enumerate() {
            for name in named(file, line).into_iter().filter(|name| !is_there(tree, name)) {
                let advice = format!("there is no test '{name}'; name one that there is");
                findings.push(Finding::new(&file.path, at + 1, "named-test", advice));
            }
        }
    }
    findings
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
        assert!(found(named_tests, &[code, ("METHODOLOGY.md", promises)]).is_empty());
    }
}
