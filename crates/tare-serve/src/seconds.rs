//! The seconds of a record's trials, read by themselves: histograms and telemetry, which are most of a record, are not
//! needed for a timeline.

use crate::shelf::Shelved;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{BufReader, Read};
use tare_core::fault::Fault;
use tare_core::load::SecondRow;
use tare_core::plan::PlannedTrial;
use tare_core::record::{Header, SCHEMA, TrialData, TrialRecord};
use tare_core::trial::Outcome;

/// Bytes that are read of a record's trials, at most, and of one trial's telemetry: some hundred thousand seconds.
pub(crate) const BYTES_MOST: u64 = 64 << 20;

/// What a timeline shows of a record.
#[derive(Debug)]
pub(crate) struct Seconds {
    pub(crate) header: Header,
    /// The trials that were measured and have seconds, by their number.
    pub(crate) trials: Vec<(PlannedTrial, Vec<SecondRow>)>,
    /// How many trials could not be read.
    pub(crate) unread: usize,
    /// Whether there are more trials than are read.
    pub(crate) is_cut: bool,
}

/// What is needed of a trial.
#[derive(Deserialize)]
struct Brief {
    trial: PlannedTrial,
    outcome: Outcome,
}

impl Seconds {
    /// Of a record.
    ///
    /// # Errors
    /// When its header cannot be read.
    pub(crate) fn of(shelved: &Shelved) -> Result<Seconds, Fault> {
        let mut read = Seconds { header: header(shelved)?, trials: Vec::new(), unread: 0, is_cut: false };
        let mut left = BYTES_MOST;
        for name in shelved.trials() {
            let file = |of: &str| shelved.file(&format!("trials/{name}/{of}"));
            let (Some(trial), Some(seconds)) = (file("trial.json"), file("seconds.jsonl")) else {
                read.unread += 1;
                continue;
            };
            let Some(rest) = left.checked_sub(long(&trial).saturating_add(long(&seconds))) else {
                read.is_cut = true;
                break;
            };
            left = rest;
            match (serde_json::from_reader::<_, Brief>(whole(trial)), rows::<SecondRow>(seconds)) {
                (Ok(Brief { trial, outcome: Outcome::Measured }), Ok(rows)) if !rows.is_empty() => {
                    read.trials.push((trial, rows));
                }
                (Ok(_), Ok(_)) => {}
                _ => read.unread += 1,
            }
        }
        Ok(read)
    }
}

/// All of one trial; its telemetry only if that is not longer than [`BYTES_MOST`]. None if there is no such trial.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn trial(shelved: &Shelved, index: u32) -> Result<Option<TrialData>, Fault> {
    let file = |of: &str| shelved.file(&format!("trials/{index:04}/{of}"));
    let Some(trial) = file("trial.json") else { return Ok(None) };
    let damaged = || Fault::new(format!("trial {index} of this record cannot be read")).remedy("choose another one");
    let record: TrialRecord = serde_json::from_reader(whole(trial)).map_err(|_| damaged())?;
    let fits = |file: &File| long(file) <= BYTES_MOST;
    let seconds = file("seconds.jsonl").filter(fits).map_or(Ok(Vec::new()), rows);
    let telemetry = file("telemetry.jsonl").filter(fits).map_or(Ok(Vec::new()), rows);
    Ok(Some(TrialData {
        record,
        seconds: seconds.map_err(|_| damaged())?,
        telemetry: telemetry.map_err(|_| damaged())?,
    }))
}

/// The header of a record.
///
/// # Errors
/// When it cannot be read, or the record is of several parts.
pub(crate) fn header(shelved: &Shelved) -> Result<Header, Fault> {
    if shelved.is_suite() {
        return Err(Fault::new("this record has several parts").remedy("choose one of them in the list of runs"));
    }
    let header = shelved.json("record.json").filter(|header: &Header| header.schema == SCHEMA);
    header.ok_or_else(|| {
        Fault::new("the record.json of this record cannot be read").remedy("open its report, which says why")
    })
}

fn long(file: &File) -> u64 {
    file.metadata().map_or(0, |facts| facts.len())
}

/// As much of a file as may be read, whatever becomes of the file.
fn whole(file: File) -> BufReader<impl Read> {
    BufReader::new(file.take(BYTES_MOST))
}

/// The rows of a file. A last one that a killed run left incomplete is left out.
fn rows<T: DeserializeOwned>(file: File) -> serde_json::Result<Vec<T>> {
    let mut rows = Vec::new();
    for row in serde_json::Deserializer::from_reader(whole(file)).into_iter() {
        match row {
            Ok(row) => rows.push(row),
            Err(error) if error.is_eof() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(rows)
}
