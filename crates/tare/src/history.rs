//! The history: an index over records. Records hold the truth; the index can be made again from them.

use crate::paths;
use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use serde::Serialize;
use std::path::Path;
use tare_core::record::Record;

/// The version of the tables.
const VERSION: i64 = 1;

/// A line of the history.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) started: String,
    pub(crate) run: String,
    pub(crate) study: String,
    pub(crate) workload: String,
    pub(crate) kernel: String,
    pub(crate) trials: i64,
    pub(crate) ended: String,
    pub(crate) path: String,
    /// By form: its throughput's ratio to the baseline.
    pub(crate) forms: Vec<FormRatio>,
}

/// A form's ratio to the baseline, with its interval if it has one.
#[derive(Debug, Serialize)]
pub(crate) struct FormRatio {
    pub(crate) form: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

fn open() -> Result<Connection> {
    let path = paths::history();
    let doing = || format!("could not open the history {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(doing)?;
    }
    let db = Connection::open(&path).with_context(doing)?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).with_context(doing)?;
    anyhow::ensure!(version <= VERSION, "{}: a newer Tare wrote the history {}", doing(), path.display());
    if version < VERSION {
        db.execute_batch(&format!(
            "BEGIN;
             CREATE TABLE IF NOT EXISTS runs (
                run TEXT PRIMARY KEY, started TEXT NOT NULL, study TEXT NOT NULL, workload TEXT NOT NULL,
                kernel TEXT NOT NULL, trials INTEGER NOT NULL, ended TEXT NOT NULL, path TEXT NOT NULL) STRICT;
             CREATE TABLE IF NOT EXISTS ratios (
                run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, form TEXT NOT NULL, position INTEGER NOT NULL,
                ratio REAL, low REAL, high REAL, PRIMARY KEY (run, form)) STRICT;
             PRAGMA user_version = {VERSION};
             COMMIT;"
        ))
        .with_context(doing)?;
    }
    Ok(db)
}

/// Puts a record into the history, in place of what stood there of the same run.
pub(crate) fn add(record: &Record, path: &Path) -> Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let header = &record.header;
    let analysis = tare_stats::analyse(record);
    let kernel = header.environment.get("kernel").cloned().unwrap_or_default();
    let ended = record.end.as_ref().map_or("unfinished", |end| end.how.as_str());
    let mut db = open()?;
    let transaction = db.transaction()?;
    transaction.execute("DELETE FROM ratios WHERE run = ?1", [&header.run])?;
    transaction.execute(
        "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            header.run,
            header.started,
            header.study.name,
            header.workload.name,
            kernel,
            record.trials.len() as i64,
            ended,
            path.display().to_string()
        ],
    )?;
    for (position, form) in header.study.forms.iter().enumerate() {
        let (ratio, low, high) = tare_stats::ratio_of(&analysis, &form.name, "throughput");
        transaction.execute(
            "INSERT INTO ratios VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![header.run, form.name, position as i64, ratio, low, high],
        )?;
    }
    transaction.commit()?;
    Ok(())
}

/// The history, oldest first; of one study when it is named.
pub(crate) fn list(study: Option<&str>) -> Result<Vec<Entry>> {
    if !paths::history().exists() {
        return Ok(Vec::new());
    }
    let db = open()?;
    let mut runs = db.prepare(
        "SELECT started, run, study, workload, kernel, trials, ended, path FROM runs
         WHERE ?1 IS NULL OR study = ?1 ORDER BY started, run",
    )?;
    let mut ratios = db.prepare("SELECT form, ratio, low, high FROM ratios WHERE run = ?1 ORDER BY position")?;
    let rows = runs.query_map([study], |row| {
        Ok(Entry {
            started: row.get(0)?,
            run: row.get(1)?,
            study: row.get(2)?,
            workload: row.get(3)?,
            kernel: row.get(4)?,
            trials: row.get(5)?,
            ended: row.get(6)?,
            path: row.get(7)?,
            forms: Vec::new(),
        })
    })?;
    let mut entries: Vec<Entry> = rows.collect::<Result<_, _>>()?;
    for entry in &mut entries {
        let forms = ratios.query_map([&entry.run], |row| {
            Ok(FormRatio { form: row.get(0)?, ratio: row.get(1)?, low: row.get(2)?, high: row.get(3)? })
        })?;
        entry.forms = forms.collect::<Result<_, _>>()?;
    }
    Ok(entries)
}
