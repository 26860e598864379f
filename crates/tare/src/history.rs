//! The history: an index over records. The records hold the truth; the index can be rebuilt from them.

mod spreads;

pub(crate) use spreads::spreads;

use crate::{machine, paths};
use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tare_core::form::Form;
use tare_core::layer::LayerUse;
use tare_core::record::{Header, PEAK_LOAD, Record};
use tare_core::study::Study;
use tare_core::workload::Workload;
use tare_layers::home;
use tare_stats::{Conditions, Equals, Interval, OCCASION_RUNS, Occasion, Occasions, Ratio, Series, SeriesPoint, Side};

/// The version of the tables.
const VERSION: i64 = 9;

/// The tables of version 9:
/// - `runs`: each record, with the conditions under which it was made;
/// - `ratios`: the ratio of every form in every metric, without an interval if that is withheld or the ratio is a
///   bound, and for a bound with the side on which the truth lies;
/// - `equals`: how far apart equals were, from the A/A control: `log` of its ratio, with its error and degrees of
///   freedom;
/// - `times`: how long trials of each form took beyond settling and measuring; `stands` is what was deployed, as JSON;
/// - `spreads`: how each ratio varied between blocks and within deployments;
/// - `unread`: records added by an older version, which kept less of them, until they have been read again.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS runs (
        run TEXT PRIMARY KEY, started TEXT NOT NULL, study TEXT NOT NULL, workload TEXT NOT NULL,
        kernel TEXT NOT NULL, trials INTEGER NOT NULL, ended TEXT NOT NULL, path TEXT NOT NULL,
        conditions TEXT NOT NULL DEFAULT '{}') STRICT;
    CREATE TABLE IF NOT EXISTS ratios (
        run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, form TEXT NOT NULL, metric TEXT NOT NULL,
        position INTEGER NOT NULL, ratio REAL, low REAL, high REAL, bound TEXT,
        PRIMARY KEY (run, form, metric)) STRICT;
    CREATE TABLE IF NOT EXISTS times (
        run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, form TEXT NOT NULL, stands TEXT NOT NULL,
        emulated INTEGER NOT NULL, overhead_s REAL NOT NULL, PRIMARY KEY (run, form)) STRICT;
    CREATE TABLE IF NOT EXISTS equals (
        run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, metric TEXT NOT NULL, log REAL NOT NULL,
        error REAL NOT NULL, degrees REAL NOT NULL, PRIMARY KEY (run, metric)) STRICT;
    CREATE TABLE IF NOT EXISTS spreads (
        run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, arm TEXT NOT NULL, metric TEXT NOT NULL,
        measure_s REAL NOT NULL, square REAL NOT NULL, degrees REAL NOT NULL, within REAL, within_degrees REAL,
        PRIMARY KEY (run, arm, metric)) STRICT;
    CREATE TABLE IF NOT EXISTS unread (path TEXT PRIMARY KEY) STRICT;
    INSERT OR IGNORE INTO unread SELECT path FROM runs;";

/// From version 1, which kept ratios of throughput only and no conditions.
const FROM_VERSION_1: &str = "
    ALTER TABLE runs ADD COLUMN conditions TEXT NOT NULL DEFAULT '{}';
    ALTER TABLE ratios RENAME TO ratios_1;";
const FROM_VERSION_1_KEPT: &str = "
    INSERT INTO ratios SELECT run, form, 'throughput', position, ratio, low, high, NULL FROM ratios_1;
    DROP TABLE ratios_1;";

/// From versions 2 to 5, which did not tell bounds from ratios.
const FROM_VERSION_2: &str = "ALTER TABLE ratios ADD COLUMN bound TEXT;";

/// From any version up to 7, which kept conditions as words, intervals of withheld verdicts, and a run's own error of
/// its equals. Records that still exist are read again; nothing is learned from the others.
const FROM_VERSION_7: &str = "
    UPDATE runs SET conditions = '{}';
    DELETE FROM equals;";

/// From any version up to 8, which kept what was deployed as words, which are no longer used as keys.
const FROM_VERSION_8: &str = "
    DELETE FROM times;";

/// How many of the latest runs predict how long a deployment takes: few, so that changes of the machine show soon.
const TIMES_KEPT_IN_MIND: u32 = 5;

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
    /// By form: the ratio to the baseline of its throughput, or of its peak load after a search.
    pub(crate) forms: Vec<FormRatio>,
}

/// A form's ratio to the baseline, with its interval if it has one.
#[derive(Debug, Serialize)]
pub(crate) struct FormRatio {
    pub(crate) form: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// The side on which the truth lies, if the ratio is only a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bound: Option<Side>,
}

fn open() -> Result<Connection> {
    home::look()?;
    open_at(&paths::history())
}

fn open_at(path: &Path) -> Result<Connection> {
    let doing = || format!("could not open the history {}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(doing)?;
    }
    let mut db = Connection::open(path).with_context(doing)?;
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).with_context(doing)?;
    anyhow::ensure!(version <= VERSION, "{}: a newer version of Tare wrote {}", doing(), path.display());
    if version < VERSION {
        let (before, kept) = match version {
            1 => (FROM_VERSION_1, FROM_VERSION_1_KEPT),
            2..=5 => (FROM_VERSION_2, ""),
            _ => ("", ""),
        };
        let forgotten = if version < 8 { FROM_VERSION_7 } else { "" };
        let after = format!("{kept} {forgotten} {FROM_VERSION_8}");
        let all = format!("BEGIN; {before} {TABLES} {after} PRAGMA user_version = {VERSION}; COMMIT;");
        db.execute_batch(&all).with_context(doing)?;
    }
    read_again(&mut db)?;
    Ok(db)
}

/// Reads again the records that are still where they were. If this is interrupted, the next one to open the history
/// continues.
fn read_again(db: &mut Connection) -> Result<()> {
    let paths: Vec<String> =
        db.prepare("SELECT path FROM unread")?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for path in paths {
        match tare_runner::read_record(Path::new(&path)) {
            Ok(record) => insert(db, &record, Path::new(&path))?,
            // It may be on a disk that is not mounted now.
            Err(_) if !Path::new(&path).exists() => continue,
            Err(_) => {}
        }
        db.execute("DELETE FROM unread WHERE path = ?1", [&path])?;
    }
    Ok(())
}

/// Adds a record to the history, replacing an earlier entry of the same run.
pub(crate) fn add(record: &Record, path: &Path) -> Result<()> {
    home::claim()?;
    insert(&mut open()?, record, path)
}

fn insert(db: &mut Connection, record: &Record, path: &Path) -> Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let header = &record.header;
    let analysis = tare_stats::analyse(record);
    let kernel = header.environment.get("kernel").cloned().unwrap_or_default();
    let ended = ended(record);
    let transaction = db.transaction()?;
    transaction.execute("DELETE FROM ratios WHERE run = ?1", [&header.run])?;
    transaction.execute("DELETE FROM times WHERE run = ?1", [&header.run])?;
    transaction.execute("DELETE FROM equals WHERE run = ?1", [&header.run])?;
    transaction.execute(
        "INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            header.run,
            header.started,
            header.study.name,
            header.workload.name,
            kernel,
            record.trials.len() as i64,
            ended,
            path.display().to_string(),
            serde_json::to_string(&tare_stats::conditions(header))?,
        ],
    )?;
    for (position, form) in header.study.forms.iter().enumerate() {
        for metric in header.metrics().into_iter().filter(|metric| metric.compared) {
            let StoredRatio { ratio, interval, side } =
                StoredRatio::of(tare_stats::ratio_of(&analysis, &form.name, metric.name));
            let (low, high) = (interval.map(|interval| interval.low), interval.map(|interval| interval.high));
            let side = side.map(|side| serde_json::to_string(&side)).transpose()?;
            transaction.execute(
                "INSERT INTO ratios VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![header.run, form.name, metric.name, position as i64, ratio, low, high, side],
            )?;
        }
    }
    for (metric, Equals { log, standard_error, degrees }) in tare_stats::equals(&analysis) {
        let row = params![header.run, metric, log, standard_error, degrees];
        transaction.execute("INSERT INTO equals VALUES (?1, ?2, ?3, ?4, ?5)", row)?;
    }
    spreads::insert(&transaction, record, &analysis)?;
    let overheads = tare_runner::overheads(record);
    for form in &header.study.forms {
        let Some(overhead) = overheads.get(&form.name) else { continue };
        let emulated = header.forms.get(&form.name).is_some_and(|state| state.emulated.is_some());
        transaction.execute(
            "INSERT INTO times VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                header.run,
                form.name,
                stands(&header.study, &header.workload, form),
                emulated,
                overhead.as_secs_f64()
            ],
        )?;
    }
    transaction.commit()?;
    Ok(())
}

/// What the history keeps of a ratio.
#[derive(Debug, PartialEq)]
struct StoredRatio {
    ratio: Option<f64>,
    interval: Option<Interval>,
    side: Option<Side>,
}

impl StoredRatio {
    /// A bound is kept without an interval, and so is a ratio whose verdict is withheld: neither is followed from run
    /// to run.
    fn of(ratio: Option<&Ratio>) -> StoredRatio {
        let side = ratio.and_then(|ratio| ratio.bound).map(|bound| bound.side);
        StoredRatio { ratio: ratio.map(|ratio| ratio.ratio), interval: ratio.and_then(Ratio::followed), side }
    }
}

/// What is deployed in a form, as JSON and without names: deployments of the same things take equally long.
fn stands(study: &Study, workload: &Workload, form: &Form) -> String {
    let Form { name: _, layers, placement: _, instances: _, options, resources, weight } = form;
    let services = study.deployed(workload, form).services.len();
    let stands = serde_json::json!({
        "layers": layers.iter().map(telling).collect::<Vec<_>>(),
        "options": options, "resources": resources, "weight": weight, "services": services,
    });
    stands.to_string()
}

/// A layer with the options that differ from the default, so that options added by newer versions change nothing.
fn telling(layer: &LayerUse) -> serde_json::Value {
    let usual = machine::usual_options(&layer.layer);
    let options = layer.options.as_object().into_iter().flatten();
    let telling: BTreeMap<&String, &serde_json::Value> =
        options.filter(|(name, value)| usual.get(name.as_str()) != Some(*value)).collect();
    serde_json::json!({"layer": layer.layer, "options": telling})
}

/// How long trials of a form took beyond settling and measuring, in one run.
#[derive(Debug, PartialEq)]
pub(crate) struct Time {
    pub(crate) emulated: bool,
    pub(crate) overhead: Duration,
}

/// By form of the study: how long trials of the same deployment took in the latest runs of this workload, newest first.
pub(crate) fn times(study: &Study, workload: &Workload) -> Result<BTreeMap<String, Vec<Time>>> {
    if !paths::history().exists() {
        return Ok(BTreeMap::new());
    }
    times_of(&open()?, study, workload)
}

fn times_of(db: &Connection, study: &Study, workload: &Workload) -> Result<BTreeMap<String, Vec<Time>>> {
    let mut query = db.prepare(
        "SELECT emulated, overhead_s FROM times JOIN runs USING (run) WHERE workload = ?1 AND stands = ?2
         ORDER BY started DESC, run LIMIT ?3",
    )?;
    let mut times = BTreeMap::new();
    for form in &study.forms {
        let key = params![workload.name, stands(study, workload, form), TIMES_KEPT_IN_MIND];
        let time = |row: &rusqlite::Row| {
            Ok(Time { emulated: row.get(0)?, overhead: Duration::from_secs_f64(row.get::<_, f64>(1)?.max(0.0)) })
        };
        times.insert(form.name.clone(), query.query_map(key, time)?.collect::<Result<_, _>>()?);
    }
    Ok(times)
}

/// By metric: what occasions add to the error between two runs, from the A/A controls of the latest runs on this
/// machine that are arranged like them. Empty if the two are not arranged alike.
pub(crate) fn occasions(before: &Header, after: &Header) -> Result<Occasions> {
    let workload = after.workload.name.clone();
    let [before, after] = [before, after].map(tare_stats::conditions);
    if !tare_stats::are_alike(&before, &after) || !paths::history().exists() {
        return Ok(Occasions::new());
    }
    occasions_of(&open()?, &workload, &after)
}

fn occasions_of(db: &Connection, workload: &str, conditions: &Conditions) -> Result<Occasions> {
    let mut query = db.prepare(
        "SELECT metric, log, error, degrees, conditions FROM equals JOIN runs USING (run) WHERE workload = ?1
         ORDER BY started DESC, run",
    )?;
    let mut equals: BTreeMap<String, Vec<Equals>> = BTreeMap::new();
    let mut found = query.query([workload])?;
    while let Some(row) = found.next()? {
        let past: Conditions = serde_json::from_str(&row.get::<_, String>(4)?).unwrap_or_default();
        let of_metric = equals.entry(row.get(0)?).or_default();
        if of_metric.len() < OCCASION_RUNS && tare_stats::are_alike(&past, conditions) {
            of_metric.push(Equals { log: row.get(1)?, standard_error: row.get(2)?, degrees: row.get(3)? });
        }
    }
    Ok(equals.into_iter().filter_map(|(metric, runs)| Some((metric, Occasion::learn(&runs)?))).collect())
}

/// How the run ended, and whether its record is still complete.
fn ended(record: &Record) -> String {
    let how = record.end.as_ref().map_or("unfinished", |end| end.how.as_str());
    match record.lost().len() {
        0 => how.to_owned(),
        1 => format!("{how}, but 1 of its trials is missing"),
        lost => format!("{how}, but {lost} of its trials are missing"),
    }
}

/// The history, oldest first.
pub(crate) fn list() -> Result<Vec<Entry>> {
    if !paths::history().exists() {
        return Ok(Vec::new());
    }
    let db = open()?;
    let mut runs = db
        .prepare("SELECT started, run, study, workload, kernel, trials, ended, path FROM runs ORDER BY started, run")?;
    let mut ratios = db.prepare(
        "SELECT form, max(ratio), max(low), max(high), max(bound) FROM ratios WHERE run = ?1 AND metric IN ('throughput', ?2)
         GROUP BY form ORDER BY position",
    )?;
    let rows = runs.query_map([], |row| {
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
        let forms = ratios.query_map([entry.run.as_str(), PEAK_LOAD], |row| {
            let side: Option<String> = row.get(4)?;
            let bound = side.and_then(|side| serde_json::from_str(&side).ok());
            Ok(FormRatio { form: row.get(0)?, ratio: row.get(1)?, low: row.get(2)?, high: row.get(3)?, bound })
        })?;
        entry.forms = forms.collect::<Result<_, _>>()?;
    }
    Ok(entries)
}

/// The series of every study, workload, baseline and form in `metric`, with their change points. Only ratios with an
/// interval count: without one, a ratio comes from too few blocks or from emulation, is only a bound, or is withheld.
pub(crate) fn series(metric: &str) -> Result<Vec<Series>> {
    if !paths::history().exists() {
        return Ok(Vec::new());
    }
    series_of(&open()?, metric)
}

fn series_of(db: &Connection, metric: &str) -> Result<Vec<Series>> {
    let mut rows = db.prepare(
        "SELECT study, workload, form, run, started, conditions, ratio, low, high FROM runs JOIN ratios USING (run)
         WHERE metric = ?1 AND ratio > 0 AND low IS NOT NULL AND high IS NOT NULL ORDER BY started, run, position",
    )?;
    let mut order: Vec<[String; 4]> = Vec::new();
    let mut points: BTreeMap<[String; 4], Vec<SeriesPoint>> = BTreeMap::new();
    let mut found = rows.query([metric])?;
    while let Some(row) = found.next()? {
        let conditions: String = row.get(5)?;
        let conditions: Conditions = serde_json::from_str(&conditions).unwrap_or_default();
        // Added by an older version and gone since, so the baseline of its ratios is unknown.
        let Some(baseline) = tare_stats::baseline_of(&conditions) else { continue };
        let key = [row.get(0)?, row.get(1)?, baseline, row.get(2)?];
        if !order.contains(&key) {
            order.push(key.clone());
        }
        points.entry(key).or_default().push(SeriesPoint {
            run: row.get(3)?,
            started: row.get(4)?,
            ratio: row.get(6)?,
            interval: Some(Interval { low: row.get(7)?, high: row.get(8)? }),
            conditions,
        });
    }
    let series = order.into_iter().map(|key| {
        let points = points.remove(&key).unwrap_or_default();
        let [study, workload, baseline, form] = &key;
        Series::new([study, workload, baseline, form, metric], points)
    });
    Ok(series.collect())
}

#[cfg(test)]
mod tests;
