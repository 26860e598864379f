//! The record on disk. FORMAT.md describes it; every file appears whole, by rename, or not at all.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::record::{End, Header, Record, SCHEMA, TrialData, TrialRecord};

use crate::Event;
use crate::clock::between;

/// A record being written.
#[derive(Debug)]
pub struct RecordDir {
    path: PathBuf,
    events: File,
}

impl RecordDir {
    /// Starts a new record in `path`, which must not hold one yet.
    ///
    /// # Errors
    /// When the directory cannot be written, or holds a record already.
    pub fn create(path: &Path, header: &Header) -> Result<RecordDir, Fault> {
        let shown = path.display();
        fs::create_dir_all(path.join("trials"))
            .doing(format!("create the record {shown}"))
            .map_err(|fault| fault.remedy("name a directory that can be written with --out"))?;
        if path.join("record.json").exists() {
            let fault = Fault::new(format!("{shown} holds a record already, and records are never overwritten"));
            return Err(fault.remedy("name another directory with --out, or continue that one with `tare resume`"));
        }
        write_json(&path.join("record.json"), header)?;
        Self::open(path)
    }

    /// Opens a record to add trials to it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path) -> Result<RecordDir, Fault> {
        let file = path.join("events.jsonl");
        let events = OpenOptions::new().create(true).append(true).open(&file);
        let events = events.doing(format!("write {}", file.display()))?;
        Ok(RecordDir { path: path.to_owned(), events })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether trial `index` is on disk.
    pub fn has_trial(&self, index: u32) -> bool {
        trial_dir(&self.path, index).join("trial.json").exists()
    }

    /// Puts a trial on disk: into a folder of another name first, so that a crash leaves none or a whole one.
    ///
    /// # Errors
    /// When the disk is full or gone.
    pub fn write_trial(&self, trial: &TrialData) -> Result<(), Fault> {
        let index = trial.record.trial.index;
        let partial = self.path.join("trials").join(format!(".{index:04}.partial"));
        let doing = |what: &str| format!("write {what} of trial {index} to {}", self.path.display());
        if partial.exists() {
            fs::remove_dir_all(&partial).doing(doing("an unfinished copy"))?;
        }
        fs::create_dir_all(&partial).doing(doing("the folder"))?;
        write_lines(&partial.join("seconds.jsonl"), &trial.seconds)?;
        write_lines(&partial.join("telemetry.jsonl"), &trial.telemetry)?;
        write_json(&partial.join("trial.json"), &trial.record)?;
        fs::rename(&partial, trial_dir(&self.path, index)).doing(doing("the folder"))?;
        sync_dir(&self.path.join("trials"))
    }

    /// Adds an event to the log. Losing one loses nothing that was measured, so the disk is not waited for.
    ///
    /// # Errors
    /// When the disk is full or gone.
    pub fn write_event(&mut self, timestamp: &str, event: &Event) -> Result<(), Fault> {
        let line = serde_json::json!({ "at": timestamp, "event": event });
        writeln!(self.events, "{line}").doing(format!("write the events of {}", self.path.display()))
    }

    /// Says how the run ended.
    ///
    /// # Errors
    /// When the disk is full or gone.
    pub fn write_end(&self, end: &End) -> Result<(), Fault> {
        write_json(&self.path.join("end.json"), end)
    }

    /// How long processes were at this record so far: for each, from its start to the last event that it wrote down.
    /// What cannot be read of the log, such as a last line that was torn, counts for nothing.
    pub(crate) fn spent(&self) -> Duration {
        let text = fs::read(self.path.join("events.jsonl")).unwrap_or_default();
        let (mut spent, mut began, mut now) = (Duration::ZERO, None, Duration::ZERO);
        for line in String::from_utf8_lossy(&text).lines() {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let Some(at) = line["at"].as_str() else { continue };
            if line["event"].get("run-started").is_some() {
                (spent, began, now) = (spent + now, Some(at.to_owned()), Duration::ZERO);
            }
            let since = began.as_deref().and_then(|began| between(began, at));
            now = now.max(since.unwrap_or_default());
        }
        spent + now
    }

    /// Forgets how the run ended, because it goes on.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn reopen(&self) -> Result<(), Fault> {
        match fs::remove_file(self.path.join("end.json")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).doing(format!("continue the record {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Reads a whole record. Trials that are not there are simply absent.
///
/// # Errors
/// When there is no record, when it was written by a newer Tare, or when a file of it is damaged.
pub fn read_record(path: &Path) -> Result<Record, Fault> {
    let header_path = path.join("record.json");
    if !header_path.exists() {
        let fault = Fault::new(format!("{} holds no record: there is no record.json", path.display()));
        return Err(fault.remedy("name the directory that `tare run` printed; `tare history` lists records"));
    }
    let raw: serde_json::Value = read_json(&header_path)?;
    let schema = raw.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if schema != u64::from(SCHEMA) {
        let fault = Fault::new(format!("{} has format {schema}, this Tare reads {SCHEMA}", path.display()));
        return Err(fault.remedy("use the version of Tare that wrote it; record.json names it"));
    }
    let header: Header = serde_json::from_value(raw).doing(format!("read {}: it is damaged", header_path.display()))?;
    let mut trials = Vec::new();
    for index in trial_numbers(path)? {
        let folder = trial_dir(path, index);
        let record: TrialRecord = read_json(&folder.join("trial.json"))?;
        let seconds = read_lines(&folder.join("seconds.jsonl"))?;
        let telemetry = read_lines(&folder.join("telemetry.jsonl"))?;
        trials.push(TrialData { record, seconds, telemetry });
    }
    let end_path = path.join("end.json");
    let end = if end_path.exists() { Some(read_json(&end_path)?) } else { None };
    Ok(Record { header, trials, end })
}

/// The numbers of the trials on disk: those of the plan, and of blocks that were run again.
fn trial_numbers(path: &Path) -> Result<Vec<u32>, Fault> {
    let folder = path.join("trials");
    let entries = fs::read_dir(&folder).doing(format!("list {}", folder.display()))?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| number(entry.ok()?)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn trial_dir(path: &Path, index: u32) -> PathBuf {
    path.join("trials").join(format!("{index:04}"))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Fault> {
    let text = serde_json::to_string_pretty(value).doing(format!("encode {}", path.display()))?;
    write_whole(path, |file| file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")))
}

fn write_lines<T: Serialize>(path: &Path, rows: &[T]) -> Result<(), Fault> {
    write_whole(path, |file| {
        for row in rows {
            serde_json::to_writer(&mut *file, row)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    })
}

fn write_whole(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<(), Fault> {
    let partial = path.with_extension("partial");
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(&partial)?);
        fill(&mut file)?;
        let file = file.into_inner().map_err(|error| error.into_error())?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().map_err(|error| {
        // Best effort: on a full disk the unfinished file is what fills it.
        let _ = fs::remove_file(&partial);
        Fault::from_error(format!("write {}", path.display()), &error).remedy("free some space, then `tare resume`")
    })
}

fn sync_dir(path: &Path) -> Result<(), Fault> {
    File::open(path).and_then(|dir| dir.sync_all()).doing(format!("write {}", path.display()))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Fault> {
    let text = fs::read_to_string(path).doing(format!("read {}", path.display()))?;
    serde_json::from_str(&text).doing(format!("read {}: it is damaged", path.display()))
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Fault> {
    let file = File::open(path).doing(format!("read {}", path.display()))?;
    let mut rows = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.doing(format!("read {}", path.display()))?;
        let row = serde_json::from_str(&line);
        rows.push(row.doing(format!("read {}:{}: it is damaged", path.display(), number + 1))?);
    }
    Ok(rows)
}
