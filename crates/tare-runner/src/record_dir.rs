//! The record on disk, as docs/src/record-format.md describes it. Files appear complete, by rename, or not at all.
//!
//! Only its owner can read a record: the configuration and the output of services may hold secrets.

use serde::Serialize;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::profile::folded;
use tare_core::record::{End, Header, TrialData};

use crate::Event;
use crate::clock::between;
use crate::record_files::{FILE_MODE, Folder, LINES_MOST};

/// The file that makes a directory a record.
pub(crate) const HEADER: &str = "record.json";

/// The folder of the trials that count.
pub(crate) const TRIALS: &str = "trials";

/// The folder of profiled trials, which never count.
pub(crate) const PROFILES: &str = "profiles";

/// The call stacks of a profiled trial, in its folder.
pub(crate) const STACKS: &str = "stacks.folded";

/// The events, in order.
const EVENTS: &str = "events.jsonl";

/// The mode of a record's folders: only their owner may enter.
const FOLDER_MODE: u32 = 0o700;

/// What to do when a record cannot be created.
pub(crate) const WRITABLE: &str = "name a writable directory with --out";

/// The fault for a directory that already holds a record. It is the user's mistake to name it.
pub fn taken(path: &Path) -> Fault {
    Fault::new(format!("{} already holds a record, and records are never overwritten", path.display()))
        .remedy("name another directory with --out, or continue that run with `tare resume`")
        .as_mistake()
}

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
        // The folders above the record are not part of it.
        let above = path.parent().map_or(Ok(()), fs::create_dir_all);
        above
            .and_then(|()| create_folder(&path.join(TRIALS)))
            .doing(format!("create the record {}", path.display()))
            .map_err(|fault| fault.remedy(WRITABLE))?;
        if path.join(HEADER).exists() {
            return Err(taken(path));
        }
        write_json(&path.join(HEADER), header)?;
        Self::open(path)
    }

    /// Opens a record to add trials to it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn open(path: &Path) -> Result<RecordDir, Fault> {
        let doing = || format!("write {}", path.join(EVENTS).display());
        let Some(folder) = Folder::of_record(path)? else {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound)).doing(doing());
        };
        let remedy = "remove it: its events are not needed to continue";
        let events = end_last_line(folder.open_to_add(EVENTS, LINES_MOST, remedy)?).doing(doing())?;
        Ok(RecordDir { path: path.to_owned(), events })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether trial `index` is on disk.
    pub fn has_trial(&self, index: u32) -> bool {
        trial_dir(&self.path, TRIALS, index).join("trial.json").exists()
    }

    /// Whether the profiled trial `index` is on disk.
    pub(crate) fn has_profile(&self, index: u32) -> bool {
        trial_dir(&self.path, PROFILES, index).join("trial.json").exists()
    }

    /// Writes a trial to disk: into a folder of another name first, so that a crash leaves all of it or nothing.
    ///
    /// # Errors
    /// When the disk is full or gone.
    pub fn write_trial(&self, trial: &TrialData) -> Result<(), Fault> {
        self.write_whole_trial(TRIALS, trial)
    }

    /// Writes a profiled trial to disk likewise, apart from those that count.
    ///
    /// # Errors
    /// When the disk is full or gone.
    pub(crate) fn write_profile(&self, trial: &TrialData) -> Result<(), Fault> {
        let folder = self.path.join(PROFILES);
        create_folder(&folder).doing(format!("create {}", folder.display()))?;
        self.write_whole_trial(PROFILES, trial)
    }

    fn write_whole_trial(&self, folder: &str, trial: &TrialData) -> Result<(), Fault> {
        let index = trial.record.trial.index;
        let partial = self.path.join(folder).join(format!(".{index:04}.partial"));
        let doing = |what: &str| format!("write {what} of {folder}/{index:04} to {}", self.path.display());
        if partial.exists() {
            fs::remove_dir_all(&partial).doing(doing("an unfinished copy"))?;
        }
        create_folder(&partial).doing(doing("the folder"))?;
        write_lines(&partial.join("seconds.jsonl"), &trial.seconds)?;
        write_lines(&partial.join("telemetry.jsonl"), &trial.telemetry)?;
        let mut record = trial.record.clone();
        if let Some(profile) = &mut record.profile {
            let stacks = folded(&std::mem::take(&mut profile.stacks));
            write_whole(&partial.join(STACKS), |file| file.write_all(stacks.as_bytes()))?;
        }
        write_json(&partial.join("trial.json"), &record)?;
        fs::rename(&partial, trial_dir(&self.path, folder, index)).doing(doing("the folder"))?;
        sync_dir(&self.path.join(folder))
    }

    /// Adds an event to the log. It holds no measurements, so this does not wait for the disk.
    ///
    /// # Errors
    /// When the disk is full or gone.
    pub fn write_event(&mut self, timestamp: &str, event: &Event) -> Result<(), Fault> {
        let line = serde_json::json!({ "at": timestamp, "event": event });
        writeln!(self.events, "{line}").doing(format!("write the events of {}", self.path.display()))
    }

    /// Another writer of the events.
    ///
    /// # Errors
    /// When the process has too many open files.
    pub fn event_log(&self) -> Result<EventLog, Fault> {
        let file = self.events.try_clone().doing(format!("write the events of {}", self.path.display()))?;
        Ok(EventLog(file))
    }

    /// Records how the run ended.
    ///
    /// # Errors
    /// When the disk is full or gone.
    pub fn write_end(&self, end: &End) -> Result<(), Fault> {
        write_json(&self.path.join("end.json"), end)
    }

    /// How long processes have worked on this record so far: for each, from its start to its last event. Lines that
    /// cannot be read, such as an incomplete last one, are ignored.
    pub(crate) fn spent(&self) -> Duration {
        let (mut events, mut text) = (&self.events, Vec::new());
        let read = events.rewind().and_then(|()| events.take(LINES_MOST).read_to_end(&mut text));
        if read.is_err() {
            text.clear();
        }
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

    /// Removes the end of the run, because it continues.
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

/// A second writer of a record's events, for whoever watches a run from within: it adds what happens inside of trials,
/// for those who follow the record.
#[derive(Debug)]
pub struct EventLog(File);

impl EventLog {
    /// Adds an event, as one write, so that a line is whole wherever others write lines. It neither waits for the disk
    /// nor fails: a run does not depend on who follows it.
    pub fn note(&mut self, timestamp: &str, event: &Event) {
        let line = serde_json::json!({ "at": timestamp, "event": event });
        let _ = self.0.write_all(format!("{line}\n").as_bytes());
    }
}

/// Ends a line that a killed process left incomplete, so that it does not spoil the next one.
fn end_last_line(mut events: File) -> std::io::Result<File> {
    let mut last = [b'\n'];
    // There is no last byte in an empty file.
    if events.seek(SeekFrom::End(-1)).is_ok() {
        events.read_exact(&mut last)?;
    }
    if last != [b'\n'] {
        events.write_all(b"\n")?;
    }
    Ok(events)
}

/// The directory of trial `index` in this folder of the record at `path`.
pub(crate) fn trial_dir(path: &Path, folder: &str, index: u32) -> PathBuf {
    path.join(folder).join(trial_name(index))
}

/// The name of the folder of trial `index`.
pub(crate) fn trial_name(index: u32) -> String {
    format!("{index:04}")
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Fault> {
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
    let folder = path.parent().unwrap_or(Path::new("/"));
    let write = || -> std::io::Result<()> {
        // A file left by a killed process, or a stranger's link: it is removed, never written to.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&partial)?;
        let mut file = BufWriter::new(file);
        fill(&mut file)?;
        let file = file.into_inner().map_err(|error| error.into_error())?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        // Writes the name to disk too: a folder that is renamed next is then complete or absent after a power failure.
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| {
        // Best effort: on a full disk the unfinished file takes space.
        let _ = fs::remove_file(&partial);
        let fault = Fault::from_error(format!("write {}", path.display()), &error);
        let first = if fault.disk_full { "free some space" } else { "fix this" };
        fault.remedy(format!("{first}, then `tare resume`"))
    })
}

/// Makes a folder and the missing ones above it, closed to other users.
fn create_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

fn sync_dir(path: &Path) -> Result<(), Fault> {
    File::open(path).and_then(|dir| dir.sync_all()).doing(format!("write {}", path.display()))
}
