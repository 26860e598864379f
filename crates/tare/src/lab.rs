//! Finds and reads lab files.

use crate::files;
use crate::mistake::Mistake;
use crate::paths::{self, shown};
use anyhow::Result;
use std::path::Path;
use tare_core::lab::{Lab, Machine};
use tare_layers::hands;
use tare_layers::lab::KINDS;

/// Reads a lab file.
///
/// # Errors
/// All mistakes in it, or why it cannot be read.
pub(crate) fn read(path: &Path) -> Result<Lab> {
    let text = files::read_text(path)?;
    Lab::read(&shown(path), &text, &KINDS).map_err(|problems| Mistake::in_files(problems).into())
}

/// Reads the lab file that was typed, else the user's own.
///
/// # Errors
/// As [`read`]; and when there is no lab file, or, for root, somebody else could have written it: it names commands.
pub(crate) fn find(typed: Option<&Path>) -> Result<Lab> {
    if let Some(path) = typed {
        return read(path);
    }
    let to_do = "write one (see `tare check --schema lab`), or name it by --lab FILE";
    let Some(path) = paths::lab() else {
        return Err(Mistake::new(format!(
            "no folder of configuration is known, for HOME is not set\n  to do: {to_do}"
        ))
        .into());
    };
    if !path.exists() {
        return Err(Mistake::new(format!("there is no lab file {}\n  to do: {to_do}", path.display())).into());
    }
    refuse_others(&path)?;
    read(&path)
}

fn refuse_others(path: &Path) -> Result<()> {
    let Some(found) = hands::in_other_hands(path, paths::behind_sudo()) else { return Ok(()) };
    let (path, place) = (path.display(), found.path.display());
    let message = format!("root does not follow the lab file {path}: {place} {}", found.why);
    Err(Mistake::new(format!("{message}\n  to do: name the lab file by --lab FILE, if it is the one that you mean"))
        .into())
}

/// The machines of these names, or all, in the order of the lab.
///
/// # Errors
/// The names that no machine has.
pub(crate) fn chosen<'l>(lab: &'l Lab, names: &[String]) -> Result<Vec<&'l Machine>> {
    let known: Vec<&str> = lab.machines.iter().map(|machine| machine.name.as_str()).collect();
    let unknown: Vec<&str> = names.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    if !unknown.is_empty() {
        let message = format!("the lab has no machine '{}'; it has {}", unknown.join("', '"), known.join(", "));
        return Err(Mistake::new(message).into());
    }
    let is_chosen = |machine: &&Machine| names.is_empty() || names.contains(&machine.name);
    Ok(lab.machines.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::show_error;

    fn lab(text: &str) -> Result<Lab> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn machines_are_chosen_by_name_and_all_by_default() {
        let lab = lab("machines:\n  b: {ssh: b}\n  a: {ssh: a}\n  c: {ssh: c}\n").unwrap();
        let names = |typed: &[&str]| {
            let typed: Vec<String> = typed.iter().map(|name| (*name).to_owned()).collect();
            chosen(&lab, &typed)
                .map(|found| found.iter().map(|machine| machine.name.clone()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names(&[]).unwrap(), "b a c");
        assert_eq!(names(&["c", "b"]).unwrap(), "b c");
        let error = names(&["d", "b", "e"]).unwrap_err().to_string();
        assert_eq!(error, "the lab has no machine 'd', 'e'; it has b, a, c");
    }

    #[test]
    fn kinds_to_come_are_refused_by_name_and_every_mistake_has_its_place() {
        let error =
            lab("machines:\n  a: {slurm: {partition: lab}}\n  b: {kubernetes: {node: x}}\n  c: {shh: root@c}\n");
        let text = show_error(&error.unwrap_err(), 80);
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for wanted in [
            "machines of the kind 'slurm' do not exist yet",
            "machines of the kind 'kubernetes' do not exist yet",
            "machine 'c' has no field 'shh'",
            "did you mean 'ssh'?",
            "machine 'c' has no kind",
            "4 mistakes; nothing was started",
        ] {
            assert!(flat.contains(wanted), "{wanted} is missing in:\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80 || line.contains(" --> ")), "{text}");
    }
}
