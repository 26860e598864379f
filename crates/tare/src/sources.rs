//! Mistakes in the sources of a workload's bundles, reported by their place and together with all other mistakes.

use crate::cli::FileKind;
use crate::images::is_path;
use crate::paths::{self, shown};
use anyhow::Result;
use std::path::{Path, PathBuf};
use tare_core::bundle::Source;
use tare_core::config::{Node, NodeKind, Place, Problem, Problems, parse};
use tare_core::fault::Fault;
use tare_core::workload::Workload;

/// The start of a file, for want of a better place.
const START: Place = Place { line: 1, column: 1, width: 1 };

/// Reports folders, images and files of this machine that bundles need but that do not exist: here, where they have a
/// place, and not just before the first trial. A workload that could be `read` has its parameters filled in, and its
/// files are checked elsewhere; in one with other mistakes, whatever names a parameter is skipped.
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
        let relative = "name one that exists, relative to the workload's folder";
        if let Some(node) = service.find(&["bundle", "image"]) {
            // A reference to a registry is fetched when the bundle is built.
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

/// The kind of a file, by its content: a study if it has `study:`, or forms or parts but no services; a workload if it
/// has services but no forms or parts; a lab if it has machines and nothing of these. None if nothing or both apply.
pub(crate) fn kind(file: &Path) -> Option<FileKind> {
    let text = std::fs::read_to_string(file).ok()?;
    let root = parse(&text, &mut Problems::default())?;
    let has = |key: &str| root.find(&[key]).is_some();
    match (has("study"), has("forms") || has("parts"), has("services")) {
        (true, ..) | (_, true, false) => Some(FileKind::Study),
        (_, false, true) => Some(FileKind::Workload),
        (false, false, false) if has("machines") => Some(FileKind::Lab),
        _ => None,
    }
}

fn entries(node: Option<&Node>) -> &[(String, Place, Node)] {
    match node.map(|node| &node.kind) {
        Some(NodeKind::Map(entries)) => entries,
        _ => &[],
    }
}

/// A mistake found while or after building a bundle, with the place of the field that caused it, or else that of the
/// bundle.
///
/// # Errors
/// The fault itself, if it is not the user's, or the workload was not read from a file.
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
