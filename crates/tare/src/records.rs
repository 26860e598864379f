//! Where records are: which one is meant, and whether root may write there.

use crate::mistake::Mistake;
use crate::{paths, written};
use anyhow::Result;
use std::path::{Path, PathBuf};
use tare_core::fault::Fault;
use tare_layers::hands;

/// The record that was named, else the latest in ./records.
pub(crate) fn record_path(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let folder = paths::records();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Names start with the date, so the greatest is the latest.
    let latest = entries.filter(|path| path.join("record.json").is_file() || tare_runner::is_suite(path)).max();
    latest.ok_or_else(|| Mistake::new("there is no record in ./records; name one, or `tare run` first").into())
}

/// Makes ./records for who does not say where a record is to go. Root writes there only where no other user could have
/// it write elsewhere.
pub(crate) fn claim_records() -> Result<()> {
    let folder = paths::records();
    let refused = |fault: Fault| {
        let text = format!("records go to {}/ here, but {}", folder.display(), fault.message);
        let hint = "name a directory with --out (or the record), or start Tare in a folder where you alone may write";
        Mistake::new(format!("{text}\n  to do: {hint}"))
    };
    Ok(hands::make_own(&folder, paths::behind_sudo()).map_err(refused)?)
}

/// Makes sure that nobody else has, or could put, a link or a file of theirs where root is about to write in a record.
/// There are no links in a record, so one that is there came from somewhere else: a copy of one made by others has
/// their links in it, as root's own.
pub(crate) fn claim_record(record: &Path) -> Result<()> {
    let written = ["record.json", "suite.json", "trials", "profiles", "events.jsonl", "end.json", "report.html"];
    let places = || written.iter().map(|name| record.join(name));
    places().try_for_each(|place| refuse_link(&place))?;
    let mut all = places().chain([record.to_owned()]);
    let Some(foreign) = all.find(|at| !hands::is_own(at, paths::behind_sudo())) else { return Ok(()) };
    let text = format!("{} is in the hands of others, who could have what root writes go elsewhere", foreign.display());
    let hint = "copy the record to a folder of your own, without its owners (cp -r), and resume the copy";
    Err(Mistake::new(format!("{text}\n  to do: {hint}")).into())
}

/// The same of a part's record in that of a whole study.
pub(crate) fn claim_part(record: &Path) -> Result<()> {
    refuse_link(record)?;
    claim_record(record)
}

fn refuse_link(place: &Path) -> Result<()> {
    if !place.is_symlink() {
        return Ok(());
    }
    let place = place.display();
    let text = format!("{place} is a link, of which there are none in a record: what is written could go elsewhere");
    Err(Mistake::new(format!("{text}\n  to do: remove it, or put what it names in its place")).into())
}

/// A run of ten minutes must not end with "permission denied".
pub(crate) fn require_writable(out: &Path) -> Result<()> {
    if out.join("record.json").exists() || tare_runner::is_suite(out) {
        let text = format!("{} holds a record already, and records are never overwritten", out.display());
        return Err(Mistake::new(text + "\n  to do: name another directory, or continue that one: tare resume").into());
    }
    let probe = out.join(format!(".writable-{}", std::process::id()));
    // Made new: what is removed is what was made.
    let tried = written::make_own_folder(out).and_then(|()| std::fs::File::create_new(&probe));
    let tried = tried.and_then(|mut file| std::io::Write::write_all(&mut file, b"x").and(std::fs::remove_file(&probe)));
    tried.map_err(|error| {
        let text = format!("the record cannot be written to {}: {error}", out.display());
        Mistake::new(text + "\n  to do: name a directory that can be written with --out").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_a_link_in_it_is_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        claim_record(folder.path()).unwrap();
        for name in ["report.html", "trials"] {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink("/etc/hosts", &link).unwrap();
            let told = claim_record(folder.path()).unwrap_err().to_string();
            assert!(told.contains(name) && told.contains("is a link"), "{told}");
            std::fs::remove_file(&link).unwrap();
        }
        let part = folder.path().join("part");
        std::os::unix::fs::symlink(folder.path(), &part).unwrap();
        claim_record(&part).unwrap();
        assert!(claim_part(&part).is_err(), "a record may be called by a link, a part of one may not");
    }
}
