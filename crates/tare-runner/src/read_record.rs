//! Reading a record from disk, and saying of one that cannot be read what to do about it. That there is no record, or a
//! damaged one, is a mistake of who named it; that a file cannot be read at all is not.

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::profile::unfolded;
use tare_core::record::{Header, Record, SCHEMA, TrialData, TrialRecord};

use crate::record_dir::{HEADER, PROFILES, STACKS, TRIALS, trial_dir};

/// Where records are found.
const NAME_ONE: &str = "name the directory that `tare run` printed; `tare history` lists records";
/// What a lost header means.
pub(crate) const HEADER_LOST: &str = "put it back from a copy of the record; without it nobody knows what was measured";

/// Reads a whole record. Trials that are not there are simply absent ([`Record::lost`] tells which should be). A last
/// line that is torn, as a copy that was cut off or a kill leaves it, is left out, with a warning of its trial.
///
/// # Errors
/// When there is no record, when another version of Tare wrote it, or when a file of it is missing or damaged.
pub fn read_record(path: &Path) -> Result<Record, Fault> {
    let header = read_header(path)?;
    let trials = read_trials(path, TRIALS)?;
    // Older records, and those of studies that profile nothing, have no such folder.
    let profiles = if path.join(PROFILES).exists() { read_trials(path, PROFILES)? } else { Vec::new() };
    let end = path.join("end.json");
    let end = if end.exists() {
        let remedy = format!("remove {}: the run then counts as not ended, and `tare resume` ends it", end.display());
        Some(read_json(&end, &remedy)?)
    } else {
        None
    };
    Ok(Record { header, trials, profiles, end })
}

fn read_trials(path: &Path, folder: &str) -> Result<Vec<TrialData>, Fault> {
    trial_numbers(path, folder)?.into_iter().map(|index| read_trial(&trial_dir(path, folder, index))).collect()
}

fn read_header(path: &Path) -> Result<Header, Fault> {
    let file = path.join(HEADER);
    if path.is_file() || matches!(file.try_exists(), Ok(false)) {
        return Err(no_record(path).as_mistake());
    }
    let raw: Value = read_json(&file, HEADER_LOST)?;
    let Some(schema) = raw.get("schema").and_then(Value::as_u64) else {
        let fault = Fault::new(format!("{} is no header of a record: it has no 'schema'", file.display()));
        return Err(fault.remedy(NAME_ONE).as_mistake());
    };
    if schema != u64::from(SCHEMA) {
        return Err(other_schema(path, &raw, schema).as_mistake());
    }
    let header: Header = serde_json::from_value(raw).map_err(|error| damaged(file.display(), &error, HEADER_LOST))?;
    // Folders are called so when the run goes on, and the record may come from somebody else.
    let plain = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
    match header.workload.services.iter().find(|service| !plain(&service.name)) {
        None => Ok(header),
        Some(service) => {
            Err(Fault::new(format!("{}: '{}' is no name of a service", file.display(), service.name))
                .remedy(HEADER_LOST))
        }
    }
}

fn other_schema(path: &Path, raw: &Value, schema: u64) -> Fault {
    let own = env!("CARGO_PKG_VERSION");
    let by = raw.get("tare").and_then(Value::as_str).map(|version| format!("Tare {version}"));
    let by = by.unwrap_or_else(|| "another version of Tare".to_owned());
    let newer = schema > u64::from(SCHEMA);
    let than = if newer { "newer than" } else { "older than" };
    let fault = Fault::new(format!(
        "{} was written by {by} in format {schema}, which is {than} format {SCHEMA}, the one that this Tare {own} reads",
        path.display()
    ));
    fault.remedy(format!("read it with {by}{}", if newer { ", or a newer one" } else { "" }))
}

/// Why there is no record at `path`, and what may have been meant.
fn no_record(path: &Path) -> Fault {
    let shown = path.display();
    if path.is_file() {
        let fault = Fault::new(format!("{shown} is a file, and a record is a directory with {HEADER} in it"));
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
    let fault = Fault::new(format!("{shown} holds no record: there is no {HEADER} in it"));
    match first_record_in(path) {
        Some(one) => fault.remedy(format!("name one of the records in it, such as {}", one.display())),
        None => fault.remedy(NAME_ONE),
    }
}

fn first_record_in(path: &Path) -> Option<PathBuf> {
    let inside = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path());
    inside.filter(|path| path.join(HEADER).is_file()).min()
}

fn read_trial(folder: &Path) -> Result<TrialData, Fault> {
    let remedy = format!(
        "put it back from a copy of the record, or move {} away: `tare resume` then runs that trial again",
        folder.display()
    );
    let mut record: TrialRecord = read_json(&folder.join("trial.json"), &remedy)?;
    let (seconds, seconds_torn) = read_lines(&folder.join("seconds.jsonl"), &remedy)?;
    let (telemetry, telemetry_torn) = read_lines(&folder.join("telemetry.jsonl"), &remedy)?;
    for (file, torn) in [("seconds.jsonl", seconds_torn), ("telemetry.jsonl", telemetry_torn)] {
        if torn {
            record.warnings.push(format!("the last line of {file} is torn, and left out"));
        }
    }
    if let Some(profile) = &mut record.profile {
        let text = read_file(&folder.join(STACKS), &remedy)?;
        profile.stacks = unfolded(&String::from_utf8_lossy(&text));
    }
    Ok(TrialData { record, seconds, telemetry })
}

/// The numbers of the trials on disk: those of the plan, and of blocks that were run again.
fn trial_numbers(path: &Path, folder: &str) -> Result<Vec<u32>, Fault> {
    let folder = path.join(folder);
    let remedy = "put it back from a copy of the record, or make an empty one: `tare resume` then runs every trial";
    if matches!(folder.try_exists(), Ok(false)) {
        return Err(missing(&folder, remedy));
    }
    let entries = fs::read_dir(&folder).doing(format!("list {}", folder.display()))?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| number(entry.ok()?)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, remedy: &str) -> Result<T, Fault> {
    serde_json::from_slice(&read_file(path, remedy)?).map_err(|error| damaged(path.display(), &error, remedy))
}

/// The rows of a file, and whether its last line is torn: every line that was written whole ends with a line feed.
fn read_lines<T: DeserializeOwned>(path: &Path, remedy: &str) -> Result<(Vec<T>, bool), Fault> {
    let mut rows = Vec::new();
    for (number, line) in read_file(path, remedy)?.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match serde_json::from_slice(line) {
            Ok(row) => rows.push(row),
            Err(_) if !line.ends_with(b"\n") => return Ok((rows, true)),
            Err(error) => return Err(damaged(format!("{}:{}", path.display(), number + 1), &error, remedy)),
        }
    }
    Ok((rows, false))
}

fn read_file(path: &Path, remedy: &str) -> Result<Vec<u8>, Fault> {
    fs::read(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(path, remedy),
        _ => Fault::from_error(format!("read {}", path.display()), &error),
    })
}

fn missing(path: &Path, remedy: &str) -> Fault {
    Fault::new(format!("the record is damaged: {} is missing", path.display())).remedy(remedy).as_mistake()
}

fn damaged(place: impl std::fmt::Display, error: &serde_json::Error, remedy: &str) -> Fault {
    Fault::from_error(format!("read {place}: it is damaged"), error).remedy(remedy).as_mistake()
}
