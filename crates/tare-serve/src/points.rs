//! What the index keeps of records for histories: which ratios are followed from run to run, and under which conditions
//! they were measured. A history of ten thousand runs is read from here, and no record is opened for it.

use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use tare_core::record::{Header, Record};
use tare_stats::{Analysis, Conditions, Equals, Interval, OCCASION_RUNS, ratio_of};

/// The tables:
/// - `subjects`: what was measured by records that are followed together;
/// - `series`: the forms and metrics of each;
/// - `weighed`: of a record, what it is of, the bundles that it weighed, and the conditions under which it was made;
/// - `points`: its ratios, by series and in the order of time;
/// - `equals`: how far apart equals were in it, by metric.
pub(crate) const TABLES: &str = "
    CREATE TABLE subjects (
        id INTEGER PRIMARY KEY, study TEXT NOT NULL, part TEXT NOT NULL, workload TEXT NOT NULL, baseline TEXT NOT NULL,
        UNIQUE (study, part, workload, baseline)) STRICT;
    CREATE TABLE series (
        id INTEGER PRIMARY KEY, subject INTEGER NOT NULL REFERENCES subjects, form TEXT NOT NULL, metric TEXT NOT NULL,
        title TEXT NOT NULL, more_is_better INTEGER NOT NULL, place INTEGER NOT NULL,
        UNIQUE (subject, form, metric)) STRICT;
    CREATE TABLE weighed (
        name TEXT PRIMARY KEY REFERENCES records ON DELETE CASCADE, subject INTEGER NOT NULL REFERENCES subjects,
        started TEXT NOT NULL, bundles TEXT NOT NULL, conditions TEXT NOT NULL) STRICT;
    CREATE INDEX by_subject ON weighed (subject, started);
    CREATE TABLE points (
        series INTEGER NOT NULL REFERENCES series, started TEXT NOT NULL,
        name TEXT NOT NULL REFERENCES records ON DELETE CASCADE, ratio REAL NOT NULL, low REAL NOT NULL,
        high REAL NOT NULL, PRIMARY KEY (series, started, name)) STRICT, WITHOUT ROWID;
    CREATE INDEX by_record ON points (name);
    CREATE TABLE equals (
        name TEXT NOT NULL REFERENCES records ON DELETE CASCADE, metric TEXT NOT NULL, log REAL NOT NULL,
        error REAL NOT NULL, degrees REAL NOT NULL, PRIMARY KEY (name, metric)) STRICT;";

/// Services whose bundles are named; a study has few.
const BUNDLES_MOST: usize = 8;
/// Digits of a digest that tell it from others at sight.
const DIGITS: usize = 12;

/// What is followed of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Followed {
    study: String,
    part: String,
    workload: String,
    baseline: String,
    /// The bundles that were weighed, by the beginnings of their digests.
    bundles: String,
    /// Its conditions, as JSON.
    conditions: String,
    ratios: Vec<FollowedRatio>,
    equals: Vec<(String, Equals)>,
}

/// A ratio that is followed.
#[derive(Debug, Clone, PartialEq)]
struct FollowedRatio {
    form: String,
    metric: String,
    title: String,
    more_is_better: bool,
    /// The form's place beside the baseline, from 1.
    place: i64,
    ratio: f64,
    interval: Interval,
}

impl Followed {
    /// Of a record; none while its run goes on, or where no ratio has an interval that can be followed.
    pub(crate) fn of(record: &Record, analysis: &Analysis) -> Option<Followed> {
        record.end.as_ref()?;
        let (header, study) = (&record.header, &record.header.study);
        let metrics: Vec<_> = header.metrics().into_iter().filter(|metric| metric.compared).collect();
        let mut ratios = Vec::new();
        for (place, form) in (1..).zip(study.forms.iter().filter(|form| form.name != study.baseline)) {
            for metric in &metrics {
                let Some(found) = ratio_of(analysis, &form.name, metric.name) else { continue };
                let Some(interval) = found.followed() else { continue };
                if !is_sound(found.ratio, interval) {
                    continue;
                }
                ratios.push(FollowedRatio {
                    form: form.name.clone(),
                    metric: metric.name.to_owned(),
                    title: metric.title.to_owned(),
                    more_is_better: metric.more_is_better,
                    place,
                    ratio: found.ratio,
                    interval,
                });
            }
        }
        (!ratios.is_empty()).then(|| Followed {
            study: study.name.clone(),
            part: study.part.as_ref().map(|part| part.name.clone()).unwrap_or_default(),
            workload: header.workload.name.clone(),
            baseline: study.baseline.clone(),
            bundles: bundles(header),
            conditions: serde_json::to_string(&tare_stats::conditions(header)).expect("conditions are plain data"),
            ratios,
            equals: tare_stats::equals(analysis).into_iter().filter(|(_, of)| are_sound(of)).collect(),
        })
    }
}

/// Whether a ratio has a logarithm, and a place on a scale. That of a hostile record, or index, may have none.
fn is_sound(ratio: f64, interval: Interval) -> bool {
    [ratio, interval.low, interval.high].iter().all(|value| value.is_finite() && *value > 0.0)
}

fn are_sound(equals: &Equals) -> bool {
    [equals.log, equals.standard_error, equals.degrees].iter().all(|value| value.is_finite())
}

/// `redis 5c1f0f3b8a6d, proxy 77b3c0de1f22`.
fn bundles(header: &Header) -> String {
    let short = |(service, digest): (&String, &String)| {
        let digits = digest.split_once(':').map_or(digest.as_str(), |(_, digits)| digits);
        format!("{service} {}", digits.chars().take(DIGITS).collect::<String>())
    };
    let mut all: Vec<String> = header.bundles.iter().take(BUNDLES_MOST).map(short).collect();
    if header.bundles.len() > BUNDLES_MOST {
        all.push(format!("and {} more", header.bundles.len() - BUNDLES_MOST));
    }
    all.join(", ")
}

/// Puts what is followed of a record in the place of what was.
///
/// # Errors
/// When the index cannot be written.
pub(crate) fn put(db: &Connection, name: &str, started: &str, followed: Option<&Followed>) -> rusqlite::Result<()> {
    for table in ["points", "weighed", "equals"] {
        db.execute(&format!("DELETE FROM {table} WHERE name = ?1"), [name])?;
    }
    let Some(Followed { study, part, workload, baseline, bundles, conditions, ratios, equals }) = followed else {
        return Ok(());
    };
    let of = [study, part, workload, baseline];
    db.execute("INSERT OR IGNORE INTO subjects (study, part, workload, baseline) VALUES (?1, ?2, ?3, ?4)", of)?;
    let found = "SELECT id FROM subjects WHERE study = ?1 AND part = ?2 AND workload = ?3 AND baseline = ?4";
    let subject: i64 = db.query_row(found, of, |row| row.get(0))?;
    let row = params![name, subject, started, bundles, conditions];
    db.execute("INSERT INTO weighed VALUES (?1, ?2, ?3, ?4, ?5)", row)?;
    let mut series = db.prepare(
        "INSERT INTO series (subject, form, metric, title, more_is_better, place) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (subject, form, metric)
         DO UPDATE SET title = excluded.title, more_is_better = excluded.more_is_better, place = excluded.place
         RETURNING id",
    )?;
    // Forms of a hostile record may share a name.
    let mut point = db.prepare("INSERT OR REPLACE INTO points VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for of in ratios {
        let row = params![subject, of.form, of.metric, of.title, of.more_is_better, of.place];
        let id: i64 = series.query_row(row, |row| row.get(0))?;
        point.execute(params![id, started, name, of.ratio, of.interval.low, of.interval.high])?;
    }
    let mut equal = db.prepare("INSERT OR REPLACE INTO equals VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (metric, of) in equals {
        equal.execute(params![name, metric, of.log, of.standard_error, of.degrees])?;
    }
    Ok(())
}

/// What records are followed together: those of a study, or of a part of one, with the same workload and baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    id: i64,
    pub(crate) study: String,
    /// Its part in a study of several, or nothing.
    pub(crate) part: String,
    pub(crate) workload: String,
    pub(crate) baseline: String,
    /// How many records there are of it.
    pub(crate) runs: i64,
}

impl Subject {
    /// What an address calls it.
    pub(crate) fn key(&self) -> String {
        let Subject { study, part, workload, baseline, .. } = self;
        let parts = [study, part, workload, baseline].into_iter().filter(|part| !part.is_empty());
        parts.map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

/// All subjects, that of the latest record first.
pub(crate) fn subjects(db: &Connection) -> rusqlite::Result<Vec<Subject>> {
    let mut query = db.prepare(
        "SELECT id, study, part, workload, baseline, runs
         FROM subjects JOIN (
            SELECT subject, count(*) AS runs, max(started) AS latest FROM weighed GROUP BY subject) ON subject = id
         ORDER BY latest DESC, id",
    )?;
    let subject = |row: &Row<'_>| {
        let (id, study, part) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Subject { id, study, part, workload: row.get(3)?, baseline: row.get(4)?, runs: row.get(5)? })
    };
    query.query_map([], subject)?.collect()
}

/// A form of a subject in a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    id: i64,
    pub(crate) form: String,
    pub(crate) metric: String,
    /// The metric's title.
    pub(crate) title: String,
    pub(crate) more_is_better: bool,
    /// The form's place beside the baseline, from 1.
    pub(crate) place: i64,
}

/// The forms of a subject in the order of its study, each with its metrics.
pub(crate) fn lines(db: &Connection, subject: &Subject) -> rusqlite::Result<Vec<Line>> {
    let mut query = db.prepare(
        "SELECT id, form, metric, title, more_is_better, place FROM series
         WHERE subject = ?1 AND EXISTS (SELECT 1 FROM points WHERE points.series = series.id) ORDER BY place, form, id",
    )?;
    let line = |row: &Row<'_>| {
        let (id, form, metric) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Line { id, form, metric, title: row.get(3)?, more_is_better: row.get(4)?, place: row.get(5)? })
    };
    query.query_map([subject.id], line)?.collect()
}

/// A form's ratio in one record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// The record's name.
    pub(crate) name: String,
    /// RFC 3339.
    pub(crate) started: String,
    pub(crate) ratio: f64,
    pub(crate) interval: Interval,
}

/// The points of a line, oldest first.
pub(crate) fn points(db: &Connection, line: &Line) -> rusqlite::Result<Vec<Point>> {
    let text = "SELECT name, started, ratio, low, high FROM points WHERE series = ?1 ORDER BY started, name";
    let mut query = db.prepare(text)?;
    let point = |row: &Row<'_>| {
        let interval = Interval { low: row.get(3)?, high: row.get(4)? };
        Ok(Point { name: row.get(0)?, started: row.get(1)?, ratio: row.get(2)?, interval })
    };
    let mut all: Vec<Point> = query.query_map([line.id], point)?.collect::<rusqlite::Result<_>>()?;
    all.retain(|point| is_sound(point.ratio, point.interval));
    Ok(all)
}

/// What else is shown of a record.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Shown {
    pub(crate) run: String,
    pub(crate) machine: String,
    pub(crate) bundles: String,
    /// When it started, in days; none if that is no moment.
    pub(crate) at: Option<f64>,
}

/// What else is shown of these records; of one that has just gone, nothing.
pub(crate) fn shown<'a>(
    db: &Connection,
    names: impl Iterator<Item = &'a str>,
) -> rusqlite::Result<BTreeMap<String, Shown>> {
    let mut query = db.prepare(
        "SELECT run, machine, bundles, julianday(records.started) FROM records JOIN weighed USING (name)
         WHERE records.name = ?1",
    )?;
    let mut all = BTreeMap::new();
    for name in names {
        let shown =
            |row: &Row<'_>| Ok(Shown { run: row.get(0)?, machine: row.get(1)?, bundles: row.get(2)?, at: row.get(3)? });
        all.insert(name.to_owned(), query.query_row([name], shown).optional()?.unwrap_or_default());
    }
    Ok(all)
}

/// The conditions under which these records were made.
pub(crate) fn conditions<'a>(
    db: &Connection,
    names: impl Iterator<Item = &'a str>,
) -> rusqlite::Result<BTreeMap<String, Conditions>> {
    let mut query = db.prepare("SELECT conditions FROM weighed WHERE name = ?1")?;
    let mut all = BTreeMap::new();
    for name in names {
        let text: Option<String> = query.query_row([name], |row| row.get(0)).optional()?;
        all.insert(name.to_owned(), text.map(|text| read(&text)).unwrap_or_default());
    }
    Ok(all)
}

/// How far apart equals were in a metric in the latest records of a subject, with their conditions, the latest first.
pub(crate) fn equals(db: &Connection, subject: &Subject, metric: &str) -> rusqlite::Result<Vec<(Conditions, Equals)>> {
    let mut query = db.prepare(
        "SELECT conditions, log, error, degrees FROM weighed JOIN equals USING (name)
         WHERE subject = ?1 AND metric = ?2 ORDER BY started DESC LIMIT ?3",
    )?;
    let equal = |row: &Row<'_>| {
        let text: String = row.get(0)?;
        Ok((read(&text), Equals { log: row.get(1)?, standard_error: row.get(2)?, degrees: row.get(3)? }))
    };
    let found = query.query_map(params![subject.id, metric, OCCASION_RUNS as i64], equal)?;
    let mut all: Vec<(Conditions, Equals)> = found.collect::<rusqlite::Result<_>>()?;
    all.retain(|(_, equals)| are_sound(equals));
    Ok(all)
}

fn read(conditions: &str) -> Conditions {
    serde_json::from_str(conditions).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(study: &str, ratio: f64) -> Followed {
        let of = |form: &str, place| FollowedRatio {
            form: form.into(),
            metric: "throughput".into(),
            title: "throughput".into(),
            more_is_better: true,
            place,
            ratio,
            interval: Interval { low: 0.99 * ratio, high: 1.01 * ratio },
        };
        Followed {
            study: study.into(),
            part: String::new(),
            workload: "redis".into(),
            baseline: "native".into(),
            bundles: "redis 5c1f".into(),
            conditions: "{\"environment.kernel\":\"\\\"6.1\\\"\"}".into(),
            // Two forms of one name, as only a hostile record has them.
            ratios: vec![of("vm", 2), of("box", 1), of("box", 1)],
            equals: vec![("throughput".into(), Equals { log: 0.01, standard_error: 0.002, degrees: 4.0 })],
        }
    }

    fn database() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        let records = "PRAGMA foreign_keys = ON;
            CREATE TABLE records (name TEXT PRIMARY KEY, run TEXT, machine TEXT, started TEXT) STRICT;";
        db.execute_batch(&format!("{records} {TABLES}")).unwrap();
        db
    }

    fn add(db: &Connection, name: &str, started: &str, followed: Option<&Followed>) {
        let row = [name, name, "m", started];
        db.execute("INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        put(db, name, started, followed).unwrap();
    }

    #[test]
    fn points_are_read_in_the_order_of_time_and_go_with_their_record() {
        let db = database();
        add(&db, "b", "2026-01-02T00:00:00Z", Some(&followed("one", 0.8)));
        add(&db, "a", "2026-01-03T12:00:00Z", Some(&followed("one", 0.7)));
        add(&db, "c", "soon", Some(&followed("two", 0.9)));
        add(&db, "d", "2026-01-04T00:00:00Z", None);
        let all = subjects(&db).unwrap();
        assert_eq!(all.iter().map(Subject::key).collect::<Vec<_>>(), ["two/redis/native", "one/redis/native"]);
        assert_eq!(all[1].runs, 2);
        let found = lines(&db, &all[1]).unwrap();
        assert_eq!(found.iter().map(|line| line.form.as_str()).collect::<Vec<_>>(), ["box", "vm"]);
        let names = |line: &Line| points(&db, line).unwrap().into_iter().map(|point| point.name).collect::<Vec<_>>();
        assert_eq!(names(&found[0]), ["b", "a"]);
        let of = shown(&db, ["a", "b", "c", "gone"].into_iter()).unwrap();
        assert!((of["a"].at.unwrap() - of["b"].at.unwrap() - 1.5).abs() < 1e-6, "{of:?}");
        assert_eq!((of["c"].at, of["a"].bundles.as_str(), of["gone"].run.as_str()), (None, "redis 5c1f", ""));
        assert_eq!(conditions(&db, ["a"].into_iter()).unwrap()["a"].len(), 1);
        assert_eq!(equals(&db, &all[1], "throughput").unwrap().len(), 2);
        // An index is not believed either.
        db.execute("UPDATE points SET ratio = -1 WHERE name = 'a'", []).unwrap();
        assert_eq!(names(&found[0]), ["b"]);
        db.execute("UPDATE points SET ratio = 0.7 WHERE name = 'a'", []).unwrap();
        // Read again, without anything to follow; and gone.
        add(&db, "b", "2026-01-02T00:00:00Z", None);
        db.execute("DELETE FROM records WHERE name = 'c'", []).unwrap();
        assert_eq!(names(&found[0]), ["a"]);
        assert_eq!(subjects(&db).unwrap().len(), 1);
    }
}
