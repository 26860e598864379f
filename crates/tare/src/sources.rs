//! What a workload has its bundles made of, as far as it is wrong: told by its place, with all other mistakes at once.

use crate::cli::FileKind;
use crate::images::is_path;
use crate::paths::{self, shown};
use anyhow::Result;
use std::path::{Path, PathBuf};
use tare_core::bundle::Source;
use tare_core::config::{Node, NodeKind, Place, Problem, Problems, parse};
use tare_core::fault::Fault;
use tare_core::workload::Workload;

/// The start of a file, where nothing better is known.
const START: Place = Place { line: 1, column: 1, width: 1 };

/// Folders, images and files of this machine that bundles are to be made of, and that are not there: found here, where
/// they have a place, and not when the first trial is about to start. A workload that could be `read` has its
/// parameters filled in, and its files are asked for elsewhere; of one with other mistakes, what names a parameter is
/// left out.
pub(crate) fn missing(text: &str, folder: &Path, read: Option<&Workload>, problems: &mut Problems) {
    let Some(root) = parse(text, &mut Problems::default()) else { return };
    for (name, _, service) in entries(root.find(&["services"])) {
        let written = |node: &Node| {
            let named = node.text(&mut Problems::default()).filter(|named| !named.contains("${{"))?;
            Some(folder.join(named))
        };
        let source = read.and_then(|workload| workload.services.iter().find(|service| service.name == *name));
        let mut tell =
            |kind: &str, node: &Node, path: Option<PathBuf>, is_there: &dyn Fn(&Path) -> bool, hint: &str| {
                if let Some(path) = path.filter(|path| !is_there(path)) {
                    let plain = shown(&paths::plain(&path));
                    problems.add(node.place, format!("the {kind} {plain} of service '{name}' does not exist"), hint);
                }
            };
        let relative = "name one that does, relative to the workload's own folder";
        if let Some(node) = service.find(&["bundle", "image"]) {
            // A reference of a registry is fetched when the bundle is built.
            let path = match source.map(|service| &service.recipe.source) {
                Some(Source::Image(image)) => Some(PathBuf::from(image)).filter(|_| is_path(image)),
                _ => node.text(&mut Problems::default()).filter(|named| is_path(named)).and_then(|_| written(node)),
            };
            tell("image", node, path, &Path::exists, relative);
        }
        if let Some(node) = service.find(&["bundle", "folder"]) {
            let path = match source.map(|service| &service.recipe.source) {
                Some(Source::Folder(folder)) => Some(folder.clone()),
                _ => written(node),
            };
            tell("folder", node, path, &Path::is_dir, relative);
        }
        for (.., file) in entries(service.find(&["files"])).iter().filter(|_| read.is_none()) {
            tell("file", file, written(file), &Path::exists, "name regular files of the workload's own folder");
        }
    }
}

/// What a file is by what stands in it: a study by `study:`, or by its forms or parts where it has no services of its
/// own; else a workload by its services. None where neither is so, or both are.
pub(crate) fn kind(file: &Path) -> Option<FileKind> {
    let text = std::fs::read_to_string(file).ok()?;
    let root = parse(&text, &mut Problems::default())?;
    let has = |key: &str| root.find(&[key]).is_some();
    match (has("study"), has("forms") || has("parts"), has("services")) {
        (true, ..) | (_, true, false) => Some(FileKind::Study),
        (_, false, true) => Some(FileKind::Workload),
        _ => None,
    }
}

fn entries(node: Option<&Node>) -> &[(String, Place, Node)] {
    match node.map(|node| &node.kind) {
        Some(NodeKind::Map(entries)) => entries,
        _ => &[],
    }
}

/// A mistake that showed only when a bundle was built, or when it was there, by the place of the field that it comes
/// from; where that is not written, by that of the bundle.
///
/// # Errors
/// The fault itself, where it is none of the user's, or the workload was read from no file.
pub(crate) fn placed(file: Option<&Path>, service: &str, field: &str, fault: Fault) -> Result<Problem> {
    let Some((file, text)) =
        file.filter(|_| fault.mistake).and_then(|file| Some((file, std::fs::read_to_string(file).ok()?)))
    else {
        return Err(fault.into());
    };
    let root = parse(&text, &mut Problems::default());
    let find = |keys: &[&str]| root.as_ref()?.find(keys);
    let bundle =
        || ["image", "folder", "packages"].iter().find_map(|kind| find(&["services", service, "bundle", kind]));
    let written = if field == "bundle" { None } else { find(&["services", service, field]) };
    let node = written.or_else(bundle).or_else(|| find(&["services", service]));
    let mut problems = Problems::new(shown(file), &text);
    problems.add(node.map_or(START, |node| node.place), fault.message, fault.remedy);
    Ok(problems.into_vec().remove(0))
}
