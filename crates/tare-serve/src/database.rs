//! The file of the index: its tables, and whose it must be before it is used. Whoever else can write to the folder may
//! have made it.

use crate::entry::UNREADABLE;
use crate::points;
use rusqlite::{Connection, OpenFlags};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fchmod, fstat, openat};
use std::path::Path;

/// The file, in the folder of records.
pub(crate) const FILE: &str = ".tare-serve.sqlite";
/// Marks the file as Tare's own: "TARE".
pub(crate) const MARK: i64 = 0x5441_5245;
/// The version of the tables. Another one is made anew.
pub(crate) const VERSION: i64 = 4;

/// The list's; [`points::TABLES`] are those of histories. `records` is what is searched and sorted: a search reads all
/// of it, so it is narrow. What a page shows of a record is in `entries`.
pub(crate) const TABLES: &str = "
    CREATE TABLE records (
        name TEXT PRIMARY KEY, stamp TEXT NOT NULL, started TEXT NOT NULL, run TEXT NOT NULL, study TEXT NOT NULL,
        machine TEXT NOT NULL, ended TEXT NOT NULL, forms TEXT NOT NULL, words TEXT NOT NULL) STRICT;
    CREATE INDEX by_start ON records (started DESC, name);
    CREATE INDEX by_study ON records (study, started DESC, name);
    CREATE INDEX by_machine ON records (machine, started DESC, name);
    CREATE INDEX by_end ON records (ended, started DESC, name);
    CREATE INDEX by_forms ON records (forms);
    CREATE TABLE entries (
        name TEXT PRIMARY KEY REFERENCES records ON DELETE CASCADE, entry TEXT NOT NULL) STRICT;";

/// Keeps what is searched of ten thousand records in memory: 16 MiB.
const CACHE: &str = "PRAGMA cache_size = -16384;";

/// One that is gone with the process.
///
/// # Errors
/// When there is no memory for it.
pub(crate) fn in_memory() -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    db.execute_batch(&format!("PRAGMA foreign_keys = ON; {TABLES} {}", points::TABLES))?;
    Ok(db)
}

/// That of a folder, which is only changed if it is new or ours. Its file is its owner's alone, as records are.
///
/// # Errors
/// When it cannot be written, or is not ours.
pub(crate) fn in_file(folder: &Path) -> rusqlite::Result<Connection> {
    let path = &folder.join(FILE);
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
///
/// # Errors
/// When it cannot be.
pub(crate) fn usable(db: Connection) -> rusqlite::Result<Connection> {
    if db.is_readonly("main")? {
        return Err(rusqlite::Error::InvalidQuery);
    }
    db.busy_timeout(std::time::Duration::from_secs(2))?;
    // Whoever else can write to the folder has made a schema that this process would run.
    db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON;")?;
    db.execute_batch(&format!("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; {CACHE}"))?;
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
