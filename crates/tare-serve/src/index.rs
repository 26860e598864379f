//! The index: what the list shows of each record, so that ten thousand of them are listed at once. Made from records,
//! made anew where they are newer, and never the truth.

use crate::entry::{Entry, UNREADABLE};
use crate::points;
use crate::shelf::Shelf;
use crate::wanted::{TO_COME, conditions};
use rusqlite::{Connection, OpenFlags, params, params_from_iter};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fchmod, fstat, openat};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tare_core::fault::{Doing, Fault};

pub(crate) use crate::wanted::{RUNNING, UNFINISHED, Wanted};

/// The file, in the folder of records.
const FILE: &str = ".tare-serve.sqlite";
/// Marks the file as Tare's own: "TARE".
const MARK: i64 = 0x5441_5245;
/// The version of the tables. Another one is made anew.
const VERSION: i64 = 3;

/// The list's; [`points::TABLES`] are those of histories.
const TABLES: &str = "
    CREATE TABLE records (
        name TEXT PRIMARY KEY, stamp TEXT NOT NULL, started TEXT NOT NULL, run TEXT NOT NULL, study TEXT NOT NULL,
        machine TEXT NOT NULL, ended TEXT NOT NULL, forms TEXT NOT NULL, words TEXT NOT NULL,
        entry TEXT NOT NULL) STRICT;
    CREATE INDEX by_start ON records (started DESC, name);";

/// How many records a page lists.
pub(crate) const PAGE: usize = 50;

/// How far the index is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Records that have been read anew, and that are to be.
    pub(crate) done: usize,
    pub(crate) of: usize,
    /// How often the folder was asked to be looked through, and up to which of these it has been.
    asked: u64,
    looked: u64,
    /// Folders left out because their names are not UTF-8.
    pub(crate) unnamed: usize,
    /// Folders left out because this user may not open them.
    pub(crate) closed: usize,
    /// Why the last look failed, or nothing.
    pub(crate) trouble: String,
}

impl Progress {
    /// Whether the folder is still to be looked through.
    pub(crate) fn is_busy(&self) -> bool {
        self.looked < self.asked
    }
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) entries: Vec<Entry>,
    /// How many there are on all pages.
    pub(crate) count: usize,
}

/// What lists can be narrowed down to.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Choices {
    pub(crate) studies: Vec<String>,
    pub(crate) forms: Vec<String>,
    pub(crate) machines: Vec<String>,
    pub(crate) states: Vec<String>,
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    db: Mutex<Connection>,
    progress: Mutex<Progress>,
}

impl Index {
    /// Opens the index of a folder, or begins one in memory where none can be written, or what is there is not ours.
    ///
    /// # Errors
    /// When there is no memory for one.
    pub(crate) fn open(folder: &Path) -> Result<Index, Fault> {
        let db = match in_file(&folder.join(FILE)) {
            Ok(db) => db,
            Err(_) => in_memory().doing("make an index of the records")?,
        };
        // The first look is taken unasked.
        let progress = Progress { asked: 1, ..Progress::default() };
        Ok(Index { db: Mutex::new(db), progress: Mutex::new(progress) })
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> Progress {
        self.progress_now().clone()
    }

    /// The folder is to be looked through again: what is listed until then may be old.
    pub(crate) fn expect(&self) {
        self.progress_now().asked += 1;
    }

    fn progress_now(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is new or newer, the latest records first, and forgets what is gone. The progress says what failed.
    pub(crate) fn refresh(&self, shelf: &Shelf) {
        let asked = self.progress_now().asked;
        let looked = self.look_through(shelf);
        let mut progress = self.progress_now();
        (progress.done, progress.of, progress.looked) = (0, 0, asked);
        progress.trouble = looked.err().map(|fault| fault.to_string()).unwrap_or_default();
    }

    fn look_through(&self, shelf: &Shelf) -> Result<(), Fault> {
        let found = shelf.found()?;
        let known = self.stamps().doing("read the index")?;
        let names: BTreeSet<&String> = found.names.iter().collect();
        for gone in known.keys().filter(|name| !names.contains(name)) {
            self.db().execute("DELETE FROM records WHERE name = ?1", [gone]).doing("write the index")?;
        }
        // Names of records begin with their date.
        let newer = found.names.iter().rev().filter_map(|name| {
            let stamp = shelf.record(name)?.stamp();
            (known.get(name) != Some(&stamp)).then_some((name, stamp))
        });
        let newer: Vec<(&String, String)> = newer.collect();
        let tell = |done| {
            let mut progress = self.progress_now();
            (progress.done, progress.of) = (done, newer.len());
            (progress.unnamed, progress.closed) = (found.unnamed, found.closed);
        };
        tell(0);
        for (done, (name, stamp)) in newer.iter().enumerate() {
            // It may be gone since.
            if let Some(shelved) = shelf.record(name) {
                self.put(&Entry::of(name, &shelved), stamp).doing("write the index")?;
            }
            tell(done + 1);
        }
        Ok(())
    }

    fn stamps(&self) -> rusqlite::Result<BTreeMap<String, String>> {
        let db = self.db();
        let mut query = db.prepare("SELECT name, stamp FROM records")?;
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// The names of all records.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(crate) fn names(&self) -> Result<BTreeSet<String>, Fault> {
        Ok(self.stamps().doing("read the index")?.into_keys().collect())
    }

    fn put(&self, entry: &Entry, stamp: &str) -> rusqlite::Result<()> {
        let forms: String = entry.forms.iter().map(|form| format!("\n{}\n", form.form)).collect();
        let text = serde_json::to_string(entry).expect("an entry is plain data");
        let Entry { name, started, run, study, machine, ended, .. } = entry;
        let row = params![name, stamp, started, run, study, machine, ended, forms, entry.words(), text];
        let mut db = self.db();
        let all = db.transaction()?;
        all.execute("INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)", row)?;
        points::put(&all, name, started, entry.followed.as_ref())?;
        all.commit()
    }

    /// What `ask` reads in it.
    pub(crate) fn read<T>(&self, ask: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Fault> {
        let db: &Connection = &self.db();
        ask(db).doing("read the index")
    }

    /// The records that are wanted, the latest first. `live` are the runs that go on.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(crate) fn list(&self, wanted: &Wanted, live: &[String]) -> Result<Listed, Fault> {
        let (conditions, values) = conditions(wanted, live);
        let count = format!("SELECT count(*) FROM records WHERE {conditions}");
        let page = format!(
            "SELECT entry FROM records WHERE {conditions} ORDER BY started DESC, name LIMIT {PAGE} OFFSET {}",
            wanted.page.saturating_mul(PAGE)
        );
        let read = || -> rusqlite::Result<Listed> {
            let db = self.db();
            let count: i64 = db.query_row(&count, params_from_iter(&values), |row| row.get(0))?;
            let mut query = db.prepare(&page)?;
            let rows = query.query_map(params_from_iter(&values), |row| row.get::<_, String>(0))?;
            let entries = rows.collect::<rusqlite::Result<Vec<String>>>()?;
            let entries = entries.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
            Ok(Listed { entries, count: usize::try_from(count).unwrap_or_default() })
        };
        read().doing("read the index")
    }

    /// What there is to choose from.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(crate) fn choices(&self) -> Result<Choices, Fault> {
        let read = || -> rusqlite::Result<Choices> {
            let db = self.db();
            let distinct = |column: &str| -> rusqlite::Result<Vec<String>> {
                let text = format!("SELECT DISTINCT {column} FROM records WHERE {column} != '' ORDER BY 1");
                db.prepare(&text)?.query_map([], |row| row.get(0))?.collect()
            };
            let forms: BTreeSet<String> = distinct("forms")?
                .iter()
                .flat_map(|forms| forms.split('\n').filter(|form| !form.is_empty()))
                .map(str::to_owned)
                .collect();
            let ended = distinct("ended")?;
            let states = [RUNNING, TO_COME, UNFINISHED].map(str::to_owned).into_iter().chain(ended).collect();
            Ok(Choices {
                studies: distinct("study")?,
                forms: forms.into_iter().collect(),
                machines: distinct("machine")?,
                states,
            })
        };
        read().doing("read the index")
    }

    /// How many records cannot be read.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(crate) fn unreadable(&self) -> Result<usize, Fault> {
        let text = "SELECT count(*) FROM records WHERE ended = ?1";
        let count: rusqlite::Result<i64> = self.db().query_row(text, [UNREADABLE], |row| row.get(0));
        Ok(usize::try_from(count.doing("read the index")?).unwrap_or_default())
    }
}

fn in_memory() -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(&format!("PRAGMA foreign_keys = ON; {TABLES} {}", points::TABLES))?;
    Ok(db)
}

/// The index in a file, which is only changed if it is new or ours. Its file is its owner's alone, as records are.
fn in_file(path: &Path) -> rusqlite::Result<Connection> {
    let file = private(path)?;
    let db = connect(path)?;
    let number = |text: &str| db.query_row(text, [], |row| row.get::<_, i64>(0));
    let (mark, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    let found = schema(&db)?;
    if mark != MARK && !found.is_empty() {
        return Err(rusqlite::Error::InvalidQuery);
    }
    // One of an earlier version may be open to all; that of another user stays as it is.
    let _ = fchmod(&file, OWNERS);
    // A view of this name may have no end, and a trigger may do anything: whoever made the folder has made the file.
    if (mark, version) == (MARK, VERSION) && found == schema(&in_memory()?)? {
        // Whether a record can be read depends on more than its files: on the user and the free memory, for two.
        db.execute("DELETE FROM records WHERE ended = ?1", [UNREADABLE])?;
        return Ok(db);
    }
    if found.is_empty() {
        return made_anew(db);
    }
    drop(db);
    std::fs::remove_file(path).map_err(|_| rusqlite::Error::InvalidPath(path.to_owned()))?;
    drop(private(path)?);
    made_anew(connect(path)?)
}

/// Read and written by its owner.
const OWNERS: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens the file, or makes it: `SQLite` would make one that all can read.
fn private(path: &Path) -> rusqlite::Result<OwnedFd> {
    // A pipe is not waited for.
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let none = || rusqlite::Error::InvalidPath(path.to_owned());
    let file = openat(CWD, path, flags, OWNERS).map_err(|_| none())?;
    let kind = fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if kind == Ok(FileType::RegularFile) { Ok(file) } else { Err(none()) }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    usable(Connection::open_with_flags(path, flags)?)
}

/// This database, if it can be written: `SQLite` opens one that cannot be, too.
fn usable(db: Connection) -> rusqlite::Result<Connection> {
    if db.is_readonly("main")? {
        return Err(rusqlite::Error::InvalidQuery);
    }
    db.busy_timeout(std::time::Duration::from_secs(2))?;
    // Whoever else can write to the folder has made a schema that this process would run.
    db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON;")?;
    db.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;")?;
    Ok(db)
}

/// The texts of everything that is declared in it; nothing of it is run.
fn schema(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let text = "SELECT concat_ws(' ', type, name, tbl_name, sql) FROM sqlite_schema ORDER BY 1";
    db.prepare(text)?.query_map([], |row| row.get(0))?.collect()
}

fn made_anew(db: Connection) -> rusqlite::Result<Connection> {
    db.execute_batch(&format!(
        "BEGIN; {TABLES} {} PRAGMA application_id = {MARK}; PRAGMA user_version = {VERSION}; COMMIT;",
        points::TABLES
    ))?;
    Ok(db)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, study: &str, ended: &str) -> Entry {
        let text = serde_json::json!({
            "name": name, "run": name, "started": format!("2026-01-{name}T10:00:00Z"), "study": study, "part": "",
            "question": "What? 100%", "workload": "redis", "baseline": "native", "machine": "m", "ended": ended,
            "trials": 1, "planned": 2, "metric": "throughput", "fault": "",
            "forms": [{"form": "vm", "class": "f1", "emulated": false, "figure": "", "words": "", "sense": ""}],
        });
        serde_json::from_value(text).unwrap()
    }

    fn names(index: &Index, wanted: &Wanted, live: &[String]) -> Vec<String> {
        let listed = index.list(wanted, live).unwrap();
        assert_eq!(listed.count, listed.entries.len());
        listed.entries.into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn a_list_is_narrowed_down_by_words_and_filters() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::open(folder.path()).unwrap();
        for entry in [entry("01", "One", "complete"), entry("02", "two", ""), entry("03", "two", "")] {
            index.put(&entry, "s").unwrap();
        }
        let live = ["02".to_owned()];
        let of = |wanted: &Wanted| names(&index, wanted, &live);
        assert_eq!(of(&Wanted::default()), ["03", "02", "01"]);
        assert_eq!(of(&Wanted { words: vec!["ONE".into(), "vm".into()], ..Wanted::default() }), ["01"]);
        let noted =
            Wanted { words: vec!["x".into()], noted: vec![vec!["03".into(), "gone".into()]], ..Wanted::default() };
        assert_eq!(of(&noted), ["03"]);
        assert_eq!(of(&Wanted { tagged: Some(vec!["01".into(), "gone".into()]), ..Wanted::default() }), ["01"]);
        assert_eq!(of(&Wanted { tagged: Some(Vec::new()), ..Wanted::default() }).len(), 0);
        // No pattern, and no SQL.
        assert_eq!(of(&Wanted { words: vec!["0%".into()], ..Wanted::default() }).len(), 3);
        assert_eq!(of(&Wanted { words: vec!["' OR 1 --".into()], ..Wanted::default() }).len(), 0);
        assert_eq!(of(&Wanted { study: Some("two"), ..Wanted::default() }), ["03", "02"]);
        assert_eq!(of(&Wanted { form: Some("v"), ..Wanted::default() }).len(), 0);
        assert_eq!(of(&Wanted { form: Some("vm"), state: Some(RUNNING), ..Wanted::default() }), ["02"]);
        assert_eq!(of(&Wanted { state: Some(UNFINISHED), ..Wanted::default() }), ["03"]);
        assert_eq!(of(&Wanted { state: Some(TO_COME), ..Wanted::default() }).len(), 0);
        let days = Wanted { from: Some("2026-01-02"), to: Some("2026-01-02"), ..Wanted::default() };
        assert_eq!(of(&days), ["02"]);
        assert_eq!(index.choices().unwrap().forms, ["vm"]);
        // What was put there is there again, without a second reading, unless it could not be read.
        index.put(&entry("04", "spoilt", UNREADABLE), "s").unwrap();
        drop(index);
        let again = Index::open(folder.path()).unwrap();
        assert_eq!(again.stamps().unwrap().len(), 3);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        Index::open(folder.path()).unwrap().put(&entry("01", "s", ""), "s").unwrap();
        let read_only = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        assert!(usable(read_only).is_err());
        // Root may write to it nevertheless.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
        let index = Index::open(folder.path()).unwrap();
        index.put(&entry("02", "s", ""), "s").unwrap();
        assert!(index.stamps().unwrap().contains_key("02"));
    }

    #[test]
    fn a_look_ends_whether_or_not_it_fails_and_another_may_be_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(folder.path()).unwrap();
        let index = Index::open(folder.path()).unwrap();
        assert!(index.progress().is_busy());
        index.refresh(&shelf);
        assert_eq!((index.progress().is_busy(), index.progress().trouble.as_str()), (false, ""));
        index.expect();
        assert!(index.progress().is_busy());
        index.db().execute_batch("DROP TABLE records").unwrap();
        index.refresh(&shelf);
        assert!(!index.progress().is_busy() && index.progress().trouble.contains("index"));
    }

    #[test]
    fn the_file_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let mode = || std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions()) & 0o777;
        drop(Index::open(folder.path()).unwrap());
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        drop(Index::open(folder.path()).unwrap());
        assert_eq!(mode(), 0o600);
        // Another one's is not touched.
        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE records (theirs TEXT);").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        drop(Index::open(folder.path()).unwrap());
        assert_eq!(mode(), 0o644);
    }

    #[test]
    fn an_index_that_only_pretends_to_be_ours_is_made_anew() {
        let endless = "CREATE VIEW records AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
            SELECT i AS name FROM n;";
        let trap = format!("{TABLES} CREATE TRIGGER trap BEFORE INSERT ON records BEGIN SELECT RAISE(IGNORE); END;");
        for (schema, version) in [(endless, VERSION), (trap.as_str(), VERSION), (TABLES, VERSION - 1)] {
            let folder = tempfile::tempdir().unwrap();
            let mark = format!("PRAGMA application_id = {MARK}; PRAGMA user_version = {version};");
            let db = Connection::open(folder.path().join(FILE)).unwrap();
            db.execute_batch(&format!("{schema} {mark}")).unwrap();
            drop(db);
            Index::open(folder.path()).unwrap().put(&entry("01", "s", ""), "s").unwrap();
            assert_eq!(Index::open(folder.path()).unwrap().stamps().unwrap().len(), 1, "{schema}");
        }
    }

    #[test]
    fn a_file_that_is_not_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        for content in [&b"no database at all, but long enough to be looked at"[..], b""] {
            std::fs::write(&path, content).unwrap();
            Index::open(folder.path()).unwrap().put(&entry("01", "s", ""), "s").unwrap();
            assert!(content.is_empty() || std::fs::read(&path).unwrap() == content);
        }
        std::fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE records (theirs TEXT);").unwrap();
        let before = std::fs::read(&path).unwrap();
        Index::open(folder.path()).unwrap().put(&entry("01", "s", ""), "s").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
        Index::open(folder.path()).unwrap().put(&entry("01", "s", ""), "s").unwrap();
        assert!(!folder.path().join("elsewhere").exists());
    }
}
