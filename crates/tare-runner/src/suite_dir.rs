//! A record of several parts on disk: a header, and a folder for each part, which is a record of its own.

use crate::read_record::{HEADER_LOST, is_plain, missing, other_schema, read_begun, read_json};
use crate::record_dir::{WRITABLE, taken, write_json};
use crate::record_files::Folder;
use std::collections::BTreeSet;
use std::path::Path;
use tare_core::fault::{Doing, Fault};
use tare_core::record::{Record, SCHEMA, SuiteHeader, SuiteRecord};

/// The file that makes a directory a record of several parts.
const SUITE: &str = "suite.json";

/// Starts a record of several parts in `path`, which must not hold one yet.
///
/// # Errors
/// When the directory cannot be written, or holds a record already.
pub fn create_suite(path: &Path, header: &SuiteHeader) -> Result<(), Fault> {
    let created = std::fs::create_dir_all(path).doing(format!("create the record {}", path.display()));
    created.map_err(|fault| fault.remedy(WRITABLE))?;
    if is_suite(path) {
        return Err(taken(path));
    }
    write_json(&path.join(SUITE), header)
}

/// Whether `path` holds a record of several parts.
pub fn is_suite(path: &Path) -> bool {
    path.join(SUITE).is_file()
}

/// Reads the header of a record of several parts. The path may be a link; nothing in the record may be one.
///
/// # Errors
/// When there is none, it is damaged, or another version of Tare wrote it.
pub fn read_suite_header(path: &Path) -> Result<SuiteHeader, Fault> {
    header_in(&open(path)?)
}

/// Reads a whole record of several parts. Parts that were not begun are absent.
///
/// # Errors
/// As [`read_suite_header`] and [`crate::read_record`], and when a part is not what the header calls it.
pub fn read_suite(path: &Path) -> Result<SuiteRecord, Fault> {
    let folder = open(path)?;
    let header = header_in(&folder)?;
    let begun = header.parts.iter().filter_map(|name| read_part(&folder, name).transpose());
    let parts = begun.collect::<Result<_, Fault>>()?;
    Ok(SuiteRecord { header, parts })
}

fn open(path: &Path) -> Result<Folder, Fault> {
    Folder::of_record(path)?.ok_or_else(|| missing(&path.join(SUITE), HEADER_LOST))
}

fn header_in(folder: &Folder) -> Result<SuiteHeader, Fault> {
    let header: Option<SuiteHeader> = read_json(folder, SUITE, HEADER_LOST)?;
    let header = header.ok_or_else(|| missing(&folder.path().join(SUITE), HEADER_LOST))?;
    if header.schema != SCHEMA {
        return Err(other_schema(folder.path(), Some(&header.tare), u64::from(header.schema)));
    }
    let mut names = BTreeSet::new();
    match header.parts.iter().find(|name| !is_plain(name) || !names.insert(name.as_str())) {
        None => Ok(header),
        Some(name) => {
            let file = folder.path().join(SUITE);
            let why = "parts are folders in the record with distinct names";
            let fault = Fault::new(format!("{} has a part '{name}', but {why}", file.display()));
            Err(fault.remedy(HEADER_LOST).as_mistake())
        }
    }
}

/// A part; none while it was not begun.
fn read_part(folder: &Folder, name: &str) -> Result<Option<Record>, Fault> {
    let remedy = "restore it from a copy of the record";
    let part = folder.folder(name, remedy)?;
    let Some(record) = part.as_ref().map_or(Ok(None), read_begun)? else { return Ok(None) };
    let study = &record.header.study;
    let own = study.part.as_ref().map_or(&study.name, |part| &part.name);
    if own != name {
        // If the run continues, the part's own name decides where its trials are written.
        let place = folder.path().join(name);
        let fault = Fault::new(format!("{} contains the record of another part, '{own}'", place.display()));
        return Err(fault.remedy(remedy).as_mistake());
    }
    Ok(Some(record))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SuiteHeader {
        SuiteHeader {
            schema: SCHEMA,
            tare: "0.1.0".to_owned(),
            study: "s".to_owned(),
            question: "why?".to_owned(),
            preset: None,
            started: "2026-01-31T23:59:59Z".to_owned(),
            command: "tare run s".to_owned(),
            parts: vec!["one".to_owned(), "two".to_owned()],
        }
    }

    #[test]
    fn a_record_of_parts_is_created_once_and_read_as_far_as_it_was_begun() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        assert!(!is_suite(&path));
        create_suite(&path, &header()).unwrap();
        assert!(is_suite(&path));
        assert!(create_suite(&path, &header()).unwrap_err().message.contains("never overwritten"));
        assert_eq!(read_suite(&path).unwrap(), SuiteRecord { header: header(), parts: Vec::new() });
        let text = std::fs::read_to_string(path.join(SUITE)).unwrap();
        std::fs::write(path.join(SUITE), text.replace("\"schema\": 1", "\"schema\": 99")).unwrap();
        assert!(read_suite(&path).unwrap_err().message.contains("in format 99"));
    }
}
