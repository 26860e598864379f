//! The index: what the list shows of each record, so that ten thousand of them are listed at once. Made from records,
//! made anew where they are newer, and never the truth.

use crate::database;
use crate::entry::{Entry, UNREADABLE};
use crate::points;
use crate::shelf::{Shelf, Shelved};
use crate::wanted::{TO_COME, conditions};
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tare_core::fault::{Doing, Fault};

pub(crate) use crate::wanted::{RUNNING, UNFINISHED, Wanted};

/// How many records a page lists.
pub(crate) const PAGE: usize = 50;
/// Of more new records than these, headers are read first: all are listed soon, and their figures come later.
const READ_AT_ONCE: usize = 16;
/// Records that are read before the folder is looked through again, if somebody has asked for that meanwhile.
const AT_A_TIME: usize = 20;
/// The stamp of a record of which only the header was read.
const BEGUN: &str = "";

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
        let db = match database::in_file(folder) {
            Ok(db) => db,
            Err(_) => database::in_memory().doing("make an index of the records")?,
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

    /// Waits for what is being written, and lets nothing be written from then on: a process that ends in the middle
    /// would leave a file that is damaged.
    pub(crate) fn close(&self) {
        std::mem::forget(self.db());
    }

    fn progress_now(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is new or newer, the latest records first, and forgets what is gone. The progress says what failed.
    pub(crate) fn refresh(&self, shelf: &Shelf) {
        let mut read = 0;
        loop {
            let asked = self.progress_now().asked;
            let looked = self.look_through(shelf, asked, &mut read);
            if matches!(looked, Ok(false)) {
                continue;
            }
            let mut progress = self.progress_now();
            (progress.done, progress.of, progress.looked) = (0, 0, asked);
            progress.trouble = looked.err().map(|fault| fault.to_string()).unwrap_or_default();
            return;
        }
    }

    /// Looks through the folder, which had been asked for `asked` times. `read` counts the records that were read;
    /// returns whether none are left: who asks meanwhile wants what is new, not to wait for the rest of ten thousand.
    fn look_through(&self, shelf: &Shelf, asked: u64, read: &mut usize) -> Result<bool, Fault> {
        let found = shelf.found()?;
        let known = self.stamps().doing("read the index")?;
        for gone in known.keys().filter(|name| !found.records.contains_key(*name)) {
            self.db().execute("DELETE FROM records WHERE name = ?1", [gone]).doing("write the index")?;
        }
        // Names of records begin with their date.
        let newer: Vec<(&String, &String)> =
            found.records.iter().rev().filter(|(name, stamp)| known.get(*name) != Some(*stamp)).collect();
        let of = *read + newer.len();
        let tell = |done: usize| {
            let mut progress = self.progress_now();
            (progress.done, progress.of) = (done, of);
            (progress.unnamed, progress.closed) = (found.unnamed, found.closed);
            progress.asked
        };
        tell(*read);
        let unlisted: Vec<&String> =
            newer.iter().map(|(name, _)| *name).filter(|name| !known.contains_key(*name)).collect();
        if unlisted.len() > READ_AT_ONCE {
            for name in unlisted {
                self.take_in(shelf, name, BEGUN, |shelved| Entry::begun(name, shelved))?;
            }
        }
        for (at, (name, stamp)) in newer.iter().enumerate() {
            self.take_in(shelf, name, stamp, |shelved| Some(Entry::of(name, shelved)))?;
            *read += 1;
            let (done, left) = (at + 1, newer.len() - at - 1);
            if tell(*read) != asked && done >= AT_A_TIME && left > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts what `read` makes of a record into the index. The record may be gone since.
    fn take_in(
        &self,
        shelf: &Shelf,
        name: &str,
        stamp: &str,
        read: impl FnOnce(&Shelved) -> Option<Entry>,
    ) -> Result<(), Fault> {
        match shelf.record(name).as_ref().and_then(read) {
            Some(entry) => self.put(&entry, stamp).doing("write the index"),
            None => Ok(()),
        }
    }

    fn stamps(&self) -> rusqlite::Result<BTreeMap<String, String>> {
        let db = self.db();
        let mut query = db.prepare("SELECT name, stamp FROM records")?;
        query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Which of these names are of records that are listed.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub(crate) fn listed<'a>(&self, names: impl Iterator<Item = &'a String>) -> Result<BTreeSet<String>, Fault> {
        let names: Vec<&String> = names.collect();
        if names.is_empty() {
            return Ok(BTreeSet::new());
        }
        let names = serde_json::to_string(&names).expect("names are plain data");
        let text = "SELECT name FROM records WHERE name IN (SELECT value FROM json_each(?1))";
        self.read(|db| db.prepare(text)?.query_map([names], |row| row.get(0))?.collect())
    }

    fn put(&self, entry: &Entry, stamp: &str) -> rusqlite::Result<()> {
        let forms: String = entry.forms.iter().map(|form| format!("\n{}\n", form.form)).collect();
        let text = serde_json::to_string(entry).expect("an entry is plain data");
        let Entry { name, started, run, study, machine, ended, .. } = entry;
        let row = params![name, stamp, started, run, study, machine, ended, forms, entry.words()];
        let mut db = self.db();
        let all = db.transaction()?;
        all.execute("INSERT OR REPLACE INTO records VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)", row)?;
        all.execute("INSERT OR REPLACE INTO entries VALUES (?1, ?2)", params![name, text])?;
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
        // What is searched is apart from what is shown, which is larger and read for one page alone.
        let all = format!("SELECT rowid FROM records WHERE {conditions} ORDER BY started DESC, name");
        self.read(|db| {
            let mut query = db.prepare(&all)?;
            let rows = query.query_map(params_from_iter(&values), |row| row.get::<_, i64>(0))?;
            let rows: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
            let mut entry =
                db.prepare("SELECT entry FROM records JOIN entries USING (name) WHERE records.rowid = ?1")?;
            let mut entries = Vec::new();
            for row in rows.iter().skip(wanted.page.saturating_mul(PAGE)).take(PAGE) {
                let text: Option<String> = entry.query_row([row], |row| row.get(0)).optional()?;
                let shown: Option<Entry> = text.and_then(|text| serde_json::from_str(&text).ok());
                entries.extend(shown);
            }
            Ok(Listed { entries, count: rows.len() })
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{FILE, MARK, TABLES, VERSION, usable};
    use rusqlite::OpenFlags;

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
    fn who_asks_while_many_are_read_waits_for_some_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let (shelf, index) = (Shelf::open(folder.path()).unwrap(), Index::open(folder.path()).unwrap());
        for number in 0..AT_A_TIME + 5 {
            let record = folder.path().join(format!("{number:03}"));
            std::fs::create_dir(&record).unwrap();
            std::fs::write(record.join("record.json"), "{}").unwrap();
        }
        let mut read = 0;
        let mut look = |asked| index.look_through(&shelf, asked, &mut read).unwrap();
        // It was asked for again since.
        assert!(!look(0));
        let known = index.stamps().unwrap();
        assert!(known.len() == AT_A_TIME && !known.contains_key("000"), "the latest are read first: {known:?}");
        assert!(look(0) && index.stamps().unwrap().len() == AT_A_TIME + 5 && read == AT_A_TIME + 5);
        index.refresh(&shelf);
        assert!(!index.progress().is_busy());
    }

    #[test]
    fn nothing_is_written_once_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::open(folder.path()).unwrap();
        assert!(index.db.try_lock().is_ok());
        index.close();
        assert!(index.db.try_lock().is_err());
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
