//! The step that turns a workload's own source into programs of its bundle.

use super::ExtraFile;
use crate::config::{Fields, Node, Place, Problems};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is built from the workload's own source before its bundle is finished. The build runs in a root of its own, of
/// which only the installed files are kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// Debian packages that are present during the build, in addition to those of the bundle itself.
    pub packages: Vec<String>,
    /// Files of the workload's own folder by name, each with its content. A name that ends in `/` is a folder that the
    /// caller has not yet replaced by the files in it.
    pub sources: BTreeMap<String, String>,
    /// The program and its arguments, started in the directory of the sources.
    pub command: Vec<String>,
    /// Absolute paths in the bundle, each with the name of the file that the command leaves among the sources.
    pub installs: BTreeMap<String, String>,
}

impl Build {
    /// Reads `build:`. `wanted` gives, for a source's name, the placeholder for its content until the caller has read
    /// it; `files` are put on top of the bundle and must not be among what the build makes.
    ///
    /// `None` when anything is wrong; then at least one problem was added.
    pub(crate) fn read(
        node: &Node,
        wanted: &dyn Fn(&str) -> String,
        files: &[ExtraFile],
        problems: &mut Problems,
    ) -> Option<Build> {
        let before = problems.len();
        let mut fields = Fields::of(node, "build", problems)?;
        let packages = fields.get("packages").map_or(Some(Vec::new()), |node| read_packages(node, problems));
        let sources = fields.require("sources", problems).map(|node| read_sources(node, wanted, problems));
        let command = fields.require("command", problems).and_then(|_| fields.texts("command", problems));
        if let Some(node) = fields.get("command").filter(|_| command.as_ref().is_some_and(Vec::is_empty)) {
            problems.add(node.place, "the command of a build names no program", "write for example [gcc, -O2, x.c]");
        }
        let installs = fields.require("installs", problems).map(|node| read_installs(node, files, problems));
        fields.finish(problems);
        if problems.len() > before {
            return None;
        }
        Some(Build { packages: packages?, sources: sources?, command: command?, installs: installs? })
    }
}

/// Reads a list of Debian package names.
pub(crate) fn read_packages(node: &Node, problems: &mut Problems) -> Option<Vec<String>> {
    let names: Vec<String> = node.items(problems)?.iter().filter_map(|n| n.text(problems)).collect();
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.:=~".contains(c);
    for (name, item) in names.iter().zip(node.items(problems)?) {
        if name.is_empty() || name.starts_with('-') || !name.chars().all(fits) {
            problems.add(item.place, format!("'{name}' cannot be the name of a Debian package"), "");
        }
    }
    Some(names)
}

fn read_sources(node: &Node, wanted: &dyn Fn(&str) -> String, problems: &mut Problems) -> BTreeMap<String, String> {
    let items = node.items(problems).unwrap_or_default();
    let mut sources = BTreeMap::new();
    for item in items {
        let Some(name) = item.text(problems) else { continue };
        check_name(name.strip_suffix('/').unwrap_or(&name), item.place, problems);
        if sources.insert(name.clone(), wanted(&name)).is_some() {
            problems.add(item.place, format!("the source '{name}' is named a second time"), "");
        }
    }
    if items.is_empty() {
        problems.add(node.place, "a build without sources builds nothing", "name files of the workload's own folder");
    }
    sources
}

fn read_installs(node: &Node, files: &[ExtraFile], problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(fields) = Fields::of(node, "installs", problems) else { return BTreeMap::new() };
    let mut installs = BTreeMap::new();
    for (path, place, value) in fields.entries() {
        if !path.starts_with('/') || path.ends_with('/') || path.split('/').any(|part| part == "..") {
            problems.add(*place, "the path inside the bundle must be absolute, without '..'", "");
        }
        if files.iter().any(|file| file.path == *path) {
            problems.add(*place, format!("{path} is also put there by 'files:'"), "keep one of them");
        }
        let Some(name) = value.text(problems) else { continue };
        check_name(&name, value.place, problems);
        installs.insert(path.clone(), name);
    }
    if fields.entries().is_empty() {
        let hint = "write {/usr/bin/program: program}";
        problems.add(node.place, "a build that installs nothing leaves nothing in the bundle", hint);
    }
    installs
}

/// Sources and what is made from them are in one directory; no name may lead out of it.
fn check_name(name: &str, place: Place, problems: &mut Problems) {
    let plain = !name.is_empty() && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !plain {
        let hint = "name a file of the workload's own folder, such as 'program.c'";
        problems.add(place, format!("'{name}' is no file of the directory of the build"), hint);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Recipe, Source};
    use super::*;
    use crate::config;

    fn read(text: &str) -> Result<Build, Vec<String>> {
        let files = [ExtraFile { path: "/etc/x".to_owned(), content: String::new().into(), mode: 0o644 }];
        let read =
            |node: &Node, problems: &mut Problems| Build::read(node, &|name| format!("<{name}>"), &files, problems);
        config::read("workload.yaml", text, read).map_err(|told| told.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_build_is_read() {
        let text = "packages: [gcc, libc6-dev]\nsources: [x.c, inc/x.h]\ncommand: [gcc, -o, x, x.c]\n\
                    installs: {/usr/bin/x: x}\n";
        let build = read(text).unwrap();
        assert_eq!(build.packages, ["gcc", "libc6-dev"]);
        assert_eq!(build.sources["inc/x.h"], "<inc/x.h>");
        let build = read(&text.replace("inc/x.h", "inc/")).unwrap();
        assert_eq!(build.sources["inc/"], "<inc/>", "a folder waits for the files in it");
        assert_eq!(build.command, ["gcc", "-o", "x", "x.c"]);
        assert_eq!(build.installs["/usr/bin/x"], "x");
    }

    #[test]
    fn all_mistakes_of_a_build_have_their_places() {
        let text = "package: [gcc]\nsources: [../x.c, x.c, x.c, /]\ncommand: []\n\
                    installs:\n  usr/bin/x: x\n  /etc/x: /x\n";
        let found = read(text).unwrap_err();
        let expected = [
            ("1:1", "did you mean 'packages'?"),
            ("2:11", "'../x.c' is no file"),
            ("2:24", "a second time"),
            ("2:29", "'' is no file"),
            ("3:10", "names no program"),
            ("5:3", "must be absolute"),
            ("6:3", "also put there by 'files:'"),
            ("6:11", "'/x' is no file"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, (place, what)) in found.iter().zip(expected) {
            assert!(found.contains(&format!("workload.yaml:{place}\n")) && found.contains(what), "{what}: {found}");
        }
    }

    #[test]
    fn a_recipe_without_a_build_is_written_as_before_there_were_builds() {
        let recipe = Recipe::plain(Source::Packages(vec!["redis-server".to_owned()]));
        let text = serde_json::to_string(&recipe).unwrap();
        assert_eq!(text, r#"{"source":{"packages":["redis-server"]},"files":[]}"#);
        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), recipe);
    }

    #[test]
    fn what_makes_nothing_is_refused() {
        let found = read("sources: []\ncommand: [make]\ninstalls: {}\n").unwrap_err();
        assert_eq!(found.len(), 2, "{found:#?}");
        let found = read("packages: [-x]\n").unwrap_err();
        assert_eq!(found.len(), 4, "sources, command, installs and the name: {found:#?}");
    }
}
