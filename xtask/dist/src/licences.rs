//! The licences of what is linked into the program: they ask to go along with it.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const HEAD: &str = "\
The program tare is linked statically. What is in it besides its own code, and under which licences:

- the standard library of Rust, MIT or Apache-2.0, <https://www.rust-lang.org>;
- the GNU C library, LGPL-2.1 or later, <https://www.gnu.org/software/libc>; the program can be linked again with
  another one from its own source, by `cargo build --release`;
- parts of GCC, GPL-3.0 or later with the GCC runtime library exception;
- the packages that are listed here. Their own words follow the list, each text once.

";

/// What a file is called that says how others may use a package.
const NAMES: &[&str] = &["licen", "copying", "copyright", "notice", "unlicense"];

/// A text of all packages that go into the program.
pub(crate) fn third_party(metadata: &Value) -> Result<String> {
    let linked = linked(metadata)?;
    let mut text = HEAD.to_owned();
    let mut wordings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let is_linked = |package: &Value| linked.contains(package["id"].as_str().unwrap_or_default());
    let mut packages: Vec<&Value> =
        packages.iter().filter(|package| !package["source"].is_null() && is_linked(package)).collect();
    packages.sort_by_key(|package| (package["name"].to_string(), package["version"].to_string()));
    for package in packages {
        let word = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {}", word("name"), word("version"));
        text += &format!("{name}: {}", package["license"].as_str().unwrap_or("see below"));
        if !word("repository").is_empty() {
            text += &format!(", <{}>", word("repository"));
        }
        text.push('\n');
        let folder = Path::new(word("manifest_path")).parent().context("a package lies in no folder")?;
        for (path, words) in files(folder, "")? {
            let users = wordings.entry(words.replace("\r\n", "\n").trim().to_owned()).or_default();
            users.push(format!("{name} ({path})"));
        }
    }
    let mut wordings: Vec<(String, Vec<String>)> = wordings.into_iter().collect();
    wordings.sort_by(|a, b| a.1.cmp(&b.1));
    for (words, users) in wordings {
        text += &format!("\n{}\n{}\n\n{words}\n", "-".repeat(80), users.join("\n"));
    }
    Ok(text)
}

/// The ids of packages that the program depends on when it runs: not what only builds or tests it.
fn linked(metadata: &Value) -> Result<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata resolves nothing")?;
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let needs: BTreeMap<String, &Value> = nodes.iter().map(|node| (id(&node["id"]), &node["deps"])).collect();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let own = packages.filter(|package| package["source"].is_null() && package["name"] == "tare");
    let mut open: Vec<String> = own.map(|package| id(&package["id"])).collect();
    let mut found = BTreeSet::new();
    while let Some(package) = open.pop() {
        let needed = needs.get(&package).and_then(|needed| needed.as_array()).into_iter().flatten();
        let normal = |need: &&Value| {
            need["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        open.extend(needed.filter(normal).map(|need| id(&need["pkg"])).filter(|id| !found.contains(id)));
        found.insert(package);
    }
    Ok(found)
}

/// The files of a package that speak of licences, also of what others wrote in its folders.
fn files(root: &Path, below: &str) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root.join(below)).with_context(|| format!("could not list {}", root.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            found.extend(files(root, &path)?);
        } else if NAMES.iter().any(|known| name.to_lowercase().starts_with(known)) {
            let words = fs::read(entry.path()).with_context(|| format!("could not read {path}"))?;
            found.insert(path, String::from_utf8_lossy(&words).into_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_only_builds_or_tests_the_program_is_not_in_it() {
        let need = |package: &str, kind: Value| json!({"pkg": package, "dep_kinds": [{"kind": kind}]});
        let node = |id: &str, deps: Vec<Value>| json!({"id": id, "deps": deps});
        let metadata = json!({
            "packages": [{"name": "tare", "id": "t", "source": null}, {"name": "tare", "id": "x", "source": "registry"}],
            "resolve": {"nodes": [
                node("t", vec![need("a", Value::Null), need("b", json!("dev"))]),
                node("a", vec![need("c", json!("build")), need("d", Value::Null), need("t", Value::Null)]),
                node("b", vec![need("e", Value::Null)]),
                node("c", vec![]),
                node("d", vec![]),
            ]},
        });
        let linked: Vec<String> = linked(&metadata).expect("it is complete").into_iter().collect();
        assert_eq!(linked, ["a", "d", "t"]);
    }

    #[test]
    fn texts_are_found_in_the_folders_of_others_too() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("zstd/lib")).expect("it can be made");
        for name in ["LICENSE-MIT", "licence.txt", "README.md", "zstd/COPYING", "zstd/lib/x.c"] {
            fs::write(folder.path().join(name), name).expect("it can be written");
        }
        let found = files(folder.path(), "").expect("it is read");
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["LICENSE-MIT", "licence.txt", "zstd/COPYING"]);
    }
}
