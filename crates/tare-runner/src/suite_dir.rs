//! A record of several parts on disk: a header beside a folder for each part, which is a record of its own.

use crate::read_record::{HEADER_LOST, read_json, read_record};
use crate::record_dir::{HEADER, write_json};
use std::path::Path;
use tare_core::fault::{Doing, Fault};
use tare_core::record::{SCHEMA, SuiteHeader, SuiteRecord};

/// The file that makes a directory a record of several parts.
const SUITE: &str = "suite.json";

/// Starts a record of several parts in `path`, which must not hold one yet.
///
/// # Errors
/// When the directory cannot be written, or holds a record already.
pub fn create_suite(path: &Path, header: &SuiteHeader) -> Result<(), Fault> {
    let shown = path.display();
    let remedy = "name a directory that can be written with --out";
    std::fs::create_dir_all(path).doing(format!("create the record {shown}")).map_err(|fault| fault.remedy(remedy))?;
    if is_suite(path) {
        let fault = Fault::new(format!("{shown} holds a record already, and records are never overwritten"));
        return Err(fault.remedy("name another directory with --out, or continue that one with `tare resume`"));
    }
    write_json(&path.join(SUITE), header)
}

/// Whether `path` holds a record of several parts.
pub fn is_suite(path: &Path) -> bool {
    path.join(SUITE).is_file()
}

/// Reads the header of a record of several parts.
///
/// # Errors
/// When there is none, it is damaged, or another version of Tare wrote it.
pub fn read_suite_header(path: &Path) -> Result<SuiteHeader, Fault> {
    let header: SuiteHeader = read_json(&path.join(SUITE), HEADER_LOST)?;
    if header.schema != SCHEMA {
        let (shown, by, schema) = (path.display(), &header.tare, header.schema);
        let fault = Fault::new(format!("{shown} was written by Tare {by} in format {schema}, and this reads {SCHEMA}"));
        return Err(fault.remedy(format!("read it with Tare {by}")).as_mistake());
    }
    Ok(header)
}

/// Reads a whole record of several parts. Parts that were not begun are absent.
///
/// # Errors
/// As [`read_suite_header`] and [`read_record`].
pub fn read_suite(path: &Path) -> Result<SuiteRecord, Fault> {
    let header = read_suite_header(path)?;
    let folders = header.parts.iter().map(|part| path.join(part));
    let begun = folders.filter(|folder| folder.join(HEADER).is_file());
    let parts = begun.map(|folder| read_record(&folder)).collect::<Result<_, Fault>>()?;
    Ok(SuiteRecord { header, parts })
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
