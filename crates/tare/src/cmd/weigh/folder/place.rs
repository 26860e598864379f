//! What stands where the folder is to be.

use crate::cmd::weigh::args::About;
use crate::files::{self, STUDY_FILE, WORKLOAD_FILE};
use crate::mistake::Mistake;
use crate::paths;
use anyhow::Result;
use std::path::{Path, PathBuf};
use tare_layers::hands;

/// What stands where the folder is to be.
#[derive(Debug, PartialEq)]
pub(in crate::cmd::weigh) enum Standing {
    /// Nothing.
    Nothing,
    /// A folder that the same command has made. It may have been edited since.
    Made,
}

/// Where the folder is to be: as it is typed for `tare run`, which takes a word without a slash for a name.
pub(in crate::cmd::weigh) fn place(about: &About, name: &str) -> PathBuf {
    // Without a slash at the end, which would lead through a link.
    match about.out.as_ref().map(|out| out.components().collect::<PathBuf>()) {
        Some(out) if out.components().count() == 1 && out.is_relative() => Path::new(".").join(out),
        Some(out) => out,
        None => Path::new(".").join(format!("weigh-{name}")),
    }
}

/// Looks what stands there.
///
/// # Errors
/// When it is something else than what this command makes: it is never written over. Or when another user could have
/// made it: root would run what that user has written there.
pub(in crate::cmd::weigh) fn standing(folder: &Path, about: &About) -> Result<Standing> {
    // A link to nothing is something, too.
    if folder.symlink_metadata().is_err() {
        return Ok(Standing::Nothing);
    }
    if let Some(why) = not_own(folder, paths::behind_sudo()) {
        return Err(Mistake::new(format!("{why}\n  to do: name another folder, --out DIR")).into());
    }
    let text = files::read_text(&folder.join(WORKLOAD_FILE)).unwrap_or_default();
    if text.lines().next() == Some(head(about).as_str()) && folder.join(STUDY_FILE).is_file() {
        return Ok(Standing::Made);
    }
    let shown = folder.display();
    let repeat = if folder.join(STUDY_FILE).is_file() {
        format!("; to run what is there, `tare run {shown}`")
    } else {
        String::new()
    };
    let text = format!("{shown} exists already, and this command did not make it");
    Err(Mistake::new(format!("{text}\n  to do: name another folder, --out DIR{repeat}")).into())
}

/// Why a folder, or a file in it that decides what is run, may not be what this command has made there, in words.
pub(super) fn not_own(folder: &Path, behind_sudo: Option<u32>) -> Option<String> {
    let places = [folder.to_owned(), folder.join(WORKLOAD_FILE), folder.join(STUDY_FILE)];
    if let Some(link) = places.iter().find(|place| place.is_symlink()) {
        return Some(format!("{} is a link, which this command did not make", link.display()));
    }
    let foreign = places.iter().find_map(|place| hands::in_other_hands(place, behind_sudo))?;
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    // As it was typed, if it is the folder or in it.
    let shown = match foreign.path.strip_prefix(&whole) {
        Ok(inner) if inner.as_os_str().is_empty() => folder.to_owned(),
        Ok(inner) => folder.join(inner),
        Err(_) => foreign.path.clone(),
    };
    Some(format!("{} {}: somebody else could have written what would be run", shown.display(), foreign.why))
}

/// The first line of a workload, by which the command that made it is known.
pub(super) fn head(about: &About) -> String {
    // What was typed begins with the name of this program, as the mark does.
    format!("# Made by: {}", about.typed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::weigh::args::typed;

    #[test]
    fn the_folder_is_typed_with_a_slash() {
        let out = |more: &[&str]| place(&typed::about(&[&["x"][..], more].concat()), "app");
        assert_eq!(out(&[]), Path::new("./weigh-app"));
        assert_eq!(out(&["--out", "mine"]), Path::new("./mine"));
        assert_eq!(out(&["--out", "/a/b/"]).as_os_str(), "/a/b");
    }
}
