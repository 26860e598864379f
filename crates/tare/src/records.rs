//! Finds the record that is meant, and checks that root may write to it.

use crate::mistake::Mistake;
use crate::{paths, written};
use anyhow::Result;
use std::path::{Path, PathBuf};
use tare_core::fault::Fault;
use tare_layers::hands;

/// The record named, else the latest in ./records.
pub(crate) fn record_path(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let folder = paths::records();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Names start with the date, so the greatest is the latest.
    let latest = entries.filter(|path| path.join("record.json").is_file() || tare_runner::is_suite(path)).max();
    latest.ok_or_else(|| Mistake::new("there is no record in ./records; name one, or run `tare run` first").into())
}

/// Makes ./records, the default place for records. Root uses it only if no other user could redirect what it writes.
pub(crate) fn claim_records() -> Result<()> {
    let folder = paths::records();
    let refused = |fault: Fault| {
        let text = format!("cannot use the default place for records, {}/: {}", folder.display(), fault.message);
        let hint =
            "name a directory with --out (or name the record), or start Tare in a folder where only you may write";
        Mistake::new(format!("{text}\n  to do: {hint}"))
    };
    Ok(hands::make_own(&folder, paths::behind_sudo()).map_err(refused)?)
}

/// Makes sure that nobody else has put, or could put, a link or file where root is about to write in a record. Records
/// have no links, so any link came from elsewhere: root's copy of a foreign record has foreign links, owned by root.
pub(crate) fn claim_record(record: &Path) -> Result<()> {
    let written = ["record.json", "suite.json", "trials", "profiles", "events.jsonl", "end.json", "report.html"];
    let places = || written.iter().map(|name| record.join(name));
    places().try_for_each(|place| refuse_link(&place))?;
    let mut all = places().chain([record.to_owned()]);
    let Some(foreign) = all.find(|at| !hands::is_own(at, paths::behind_sudo())) else { return Ok(()) };
    let text = format!("other users can change {}, and so redirect what root writes", foreign.display());
    let hint = "copy the record to a folder of your own without preserving owners (cp -r), and resume the copy";
    Err(Mistake::new(format!("{text}\n  to do: {hint}")).into())
}

/// The same for the record of a part of a study.
pub(crate) fn claim_part(record: &Path) -> Result<()> {
    refuse_link(record)?;
    claim_record(record)
}

fn refuse_link(place: &Path) -> Result<()> {
    if !place.is_symlink() {
        return Ok(());
    }
    let place = place.display();
    let text = format!("{place} is a link, which could redirect what is written; records have no links");
    Err(Mistake::new(format!("{text}\n  to do: remove it, or replace it by what it points to")).into())
}

/// Checks before a run that its record can be written, so that ten minutes do not end with "permission denied".
pub(crate) fn require_writable(out: &Path) -> Result<()> {
    if out.join("record.json").exists() || tare_runner::is_suite(out) {
        return Err(tare_runner::taken(out).into());
    }
    let probe = out.join(format!(".writable-{}", std::process::id()));
    // Created anew, so that what is removed is what was made.
    let tried = written::make_own_folder(out).and_then(|()| std::fs::File::create_new(&probe));
    let tried = tried.and_then(|mut file| std::io::Write::write_all(&mut file, b"x").and(std::fs::remove_file(&probe)));
    tried.map_err(|error| {
        let text = format!("cannot write the record to {}: {error}", out.display());
        Mistake::new(text + "\n  to do: name a writable directory with --out").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_holds_a_record_is_refused_in_the_words_of_the_runner() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("record.json"), "{}").unwrap();
        let told = require_writable(folder.path()).unwrap_err();
        let fault = told.downcast_ref::<Fault>().expect("it is the runner's");
        assert_eq!(fault, &tare_runner::taken(folder.path()));
        assert!(fault.mistake && fault.remedy.contains("--out"), "{fault}");
    }

    #[test]
    fn a_record_that_contains_a_link_is_not_written_to() {
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
        assert!(claim_part(&part).is_err(), "a record may be named by a link, but a part of one must not be one");
    }
}
