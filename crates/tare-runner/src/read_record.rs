//! Reads a record from disk, or says what to do if that fails. A missing or damaged record is the mistake of the user
//! who named it; a file that cannot be read at all is not.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::profile::unfolded;
use tare_core::record::{Header, Record, SCHEMA, TrialData, TrialRecord};

use crate::record_dir::{HEADER, PROFILES, STACKS, TRIALS, trial_name};
use crate::record_files::{Folder, JSON_MOST, LINES_MOST, ROW_MOST, ROWS_MOST};

/// How to find records.
const NAME_ONE: &str = "name the directory that `tare run` printed; `tare history` lists records";
/// What to do about a lost header.
pub(crate) const HEADER_LOST: &str = "restore it from a copy of the record; without it, what was measured is unknown";

/// What to do about a lost folder of trials.
const TRIALS_LOST: &str =
    "restore it from a copy of the record, or make an empty one: `tare resume` then runs every trial";

/// Reads a whole record. Missing trials are simply absent ([`Record::lost`] lists those that should exist). An
/// incomplete last line, as an interrupted copy or a kill leaves it, is dropped with a warning in its trial. The path
/// may be a link; nothing in the record may be one.
///
/// # Errors
/// When there is no record, when another version of Tare wrote it, or when one of its files is missing, damaged, larger
/// than any run writes, or not a regular file.
pub fn read_record(path: &Path) -> Result<Record, Fault> {
    let record = Folder::of_record(path)?.map_or(Ok(None), |folder| read_begun(&folder))?;
    record.ok_or_else(|| no_record(path).as_mistake())
}

/// The same for an open folder; none if no record was begun there.
pub(crate) fn read_begun(folder: &Folder) -> Result<Option<Record>, Fault> {
    let Some(header) = read_header(folder)? else { return Ok(None) };
    let trials = folder.folder(TRIALS, TRIALS_LOST)?;
    let trials = trials.ok_or_else(|| missing(&folder.path().join(TRIALS), TRIALS_LOST))?;
    // Older records, and those of studies that profile nothing, have no such folder.
    let profiles = folder.folder(PROFILES, "remove it: `tare resume` then profiles again")?;
    let end = folder.path().join("end.json");
    let remedy = format!("remove {}: the run then counts as not ended, and `tare resume` ends it", end.display());
    Ok(Some(Record {
        header,
        trials: read_trials(&trials)?,
        profiles: profiles.as_ref().map_or(Ok(Vec::new()), read_trials)?,
        end: read_json(folder, "end.json", &remedy)?,
    }))
}

fn read_trials(folder: &Folder) -> Result<Vec<TrialData>, Fault> {
    trial_numbers(folder)?.into_iter().map(|index| read_trial(folder, &trial_name(index))).collect()
}

fn read_header(folder: &Folder) -> Result<Option<Header>, Fault> {
    let file = folder.path().join(HEADER);
    let Some(raw) = read_json::<Value>(folder, HEADER, HEADER_LOST)? else { return Ok(None) };
    let Some(schema) = raw.get("schema").and_then(Value::as_u64) else {
        let fault = Fault::new(format!("{} is not the header of a record: it has no 'schema'", file.display()));
        return Err(fault.remedy(NAME_ONE).as_mistake());
    };
    if schema != u64::from(SCHEMA) {
        let by = raw.get("tare").and_then(Value::as_str);
        return Err(other_schema(folder.path(), by, schema));
    }
    let header: Header = serde_json::from_value(raw).map_err(|error| damaged(file.display(), &error, HEADER_LOST))?;
    match header.workload.services.iter().find(|service| !is_plain(&service.name)) {
        None => Ok(Some(header)),
        Some(service) => {
            Err(Fault::new(format!("{}: '{}' is not a valid name of a service", file.display(), service.name))
                .remedy(HEADER_LOST))
        }
    }
}

/// Whether a folder may have this name without leading elsewhere: the record may be from somebody else.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// The fault for a record in another format, written by the version `by` if that is known.
pub(crate) fn other_schema(path: &Path, by: Option<&str>, schema: u64) -> Fault {
    let own = env!("CARGO_PKG_VERSION");
    let by = by.map_or_else(|| "another version of Tare".to_owned(), |version| format!("Tare {version}"));
    let newer = schema > u64::from(SCHEMA);
    let than = if newer { "newer" } else { "older" };
    let fault = Fault::new(format!(
        "{} was written by {by} in format {schema}, which is {than} than format {SCHEMA}, which this Tare {own} reads",
        path.display()
    ));
    fault.remedy(format!("read it with {by}{}", if newer { ", or a newer one" } else { "" })).as_mistake()
}

/// The fault for a path without a record, with a guess of what was meant.
fn no_record(path: &Path) -> Fault {
    let shown = path.display();
    if path.is_file() {
        let fault = Fault::new(format!("{shown} is a file; a record is a directory that contains {HEADER}"));
        let folder = path.parent().filter(|_| path.file_name().is_some_and(|name| name == HEADER));
        return match folder {
            Some(folder) if folder.as_os_str().is_empty() => fault.remedy("name its directory: ."),
            Some(folder) => fault.remedy(format!("name its directory: {}", folder.display())),
            None => fault.remedy(NAME_ONE),
        };
    }
    if !path.exists() {
        return Fault::new(format!("there is no record at {shown}: no such directory")).remedy(NAME_ONE);
    }
    let fault = Fault::new(format!("{shown} is not a record: it has no {HEADER}"));
    match first_record_in(path) {
        Some(one) => fault.remedy(format!("name one of the records in it, such as {}", one.display())),
        None => fault.remedy(NAME_ONE),
    }
}

fn first_record_in(path: &Path) -> Option<PathBuf> {
    let inside = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path());
    inside.filter(|path| path.join(HEADER).is_file()).min()
}

fn read_trial(folder: &Folder, name: &str) -> Result<TrialData, Fault> {
    let path = folder.path().join(name);
    let remedy = format!(
        "restore it from a copy of the record, or move {} away: `tare resume` then runs that trial again",
        path.display()
    );
    let folder = folder.folder(name, &remedy)?.ok_or_else(|| missing(&path, &remedy))?;
    let record = read_json(&folder, "trial.json", &remedy)?;
    let mut record: TrialRecord = record.ok_or_else(|| missing(&path.join("trial.json"), &remedy))?;
    let (seconds, seconds_torn) = read_rows(&folder, "seconds.jsonl", &remedy)?;
    let (telemetry, telemetry_torn) = read_rows(&folder, "telemetry.jsonl", &remedy)?;
    for (file, torn) in [("seconds.jsonl", seconds_torn), ("telemetry.jsonl", telemetry_torn)] {
        if torn {
            record.warnings.push(format!("the last line of {file} is incomplete and was dropped"));
        }
    }
    if let Some(profile) = &mut record.profile {
        let text = folder.read(STACKS, LINES_MOST, &remedy)?.ok_or_else(|| missing(&path.join(STACKS), &remedy))?;
        profile.stacks = unfolded(&String::from_utf8_lossy(&text));
    }
    Ok(TrialData { record, seconds, telemetry })
}

/// The numbers of the trials on disk: those of the plan, and those of blocks that were run again.
fn trial_numbers(folder: &Folder) -> Result<Vec<u32>, Fault> {
    let number = |name: &String| name.parse().ok().filter(|number| trial_name(*number) == *name);
    let mut numbers: Vec<u32> = folder.names()?.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// The content of a JSON file; none if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(folder: &Folder, name: &str, remedy: &str) -> Result<Option<T>, Fault> {
    let Some(text) = folder.read(name, JSON_MOST, remedy)? else { return Ok(None) };
    let place = folder.path().join(name);
    serde_json::from_slice(&text).map(Some).map_err(|error| damaged(place.display(), &error, remedy))
}

/// The rows of a file, and whether its last line is incomplete: every complete line ends with a line feed.
fn read_rows<T: DeserializeOwned>(folder: &Folder, name: &str, remedy: &str) -> Result<(Vec<T>, bool), Fault> {
    let path = folder.path().join(name);
    let file = folder.open(name, ROWS_MOST, remedy)?.ok_or_else(|| missing(&path, remedy))?;
    let mut file = BufReader::new(file);
    let (mut rows, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let read = file.by_ref().take(ROW_MOST).read_until(b'\n', &mut line);
        let long = read.doing(format!("read {}", path.display()))? as u64;
        if long == 0 {
            return Ok((rows, false));
        }
        match serde_json::from_slice(&line) {
            Ok(row) => rows.push(row),
            Err(_) if !line.ends_with(b"\n") && long < ROW_MOST => return Ok((rows, true)),
            Err(error) => return Err(damaged(format!("{}:{}", path.display(), rows.len() + 1), &error, remedy)),
        }
    }
}

pub(crate) fn missing(path: &Path, remedy: &str) -> Fault {
    Fault::new(format!("the record is damaged: {} is missing", path.display())).remedy(remedy).as_mistake()
}

fn damaged(place: impl std::fmt::Display, error: &serde_json::Error, remedy: &str) -> Fault {
    Fault::from_error(format!("read {place}: it is damaged"), error).remedy(remedy).as_mistake()
}
