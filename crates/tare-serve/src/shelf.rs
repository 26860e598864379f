//! The folder of records, held open. Names come from browsers and records from anybody: nothing outside of the folder
//! is opened, and no link is followed.

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, fsync, openat, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};
use tare_core::record::{Record, SuiteRecord};

/// The file that makes a folder a record, and the one that makes it a record of several parts.
const HEADER: &str = "record.json";
const SUITE: &str = "suite.json";

/// The largest JSON file that is read by itself, bytes: that of a record.
const JSON_MOST: u64 = 64 << 20;

/// The longest name of a folder, bytes.
const NAME_MOST: usize = 255;

/// The folder of records.
#[derive(Debug)]
pub(crate) struct Shelf {
    root: OwnedFd,
    path: PathBuf,
}

/// The records in the folder.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// By their names, what changes when they do. A name is that of a folder, or of a folder and a part in it:
    /// `2026-cost/memory`.
    pub(crate) records: BTreeMap<String, String>,
    /// How many entries were left out because their names are not UTF-8, or not of one line.
    pub(crate) unnamed: usize,
    /// How many folders this user may not open.
    pub(crate) closed: usize,
}

/// A record's folder, held open.
#[derive(Debug)]
pub(crate) struct Shelved {
    fd: OwnedFd,
    name: String,
}

impl Shelf {
    /// Opens the folder, whose own path may be a link.
    ///
    /// # Errors
    /// When there is no such folder, it cannot be opened, or it is itself a record.
    pub(crate) fn open(path: &Path) -> Result<Shelf, Fault> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty()).doing(format!("open {}", path.display()));
        let hint = "name the folder that holds records with --records, or make one with `tare run`";
        let root = root.map_err(|fault| fault.remedy(hint).as_mistake())?;
        if has(&root, HEADER) || has(&root, SUITE) {
            let fault = Fault::new(format!("{} is a record, not a folder of records", path.display()));
            return Err(fault.remedy("name the folder above it").as_mistake());
        }
        let path = path.canonicalize().doing(format!("open {}", path.display()))?;
        Ok(Shelf { root, path })
    }

    /// Its absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All records in it.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub(crate) fn found(&self) -> Result<Found, Fault> {
        let mut found = Found::default();
        let (names, unnamed) = names_in(&self.root, ".").doing(format!("list {}", self.path.display()))?;
        found.unnamed = unnamed;
        for name in names {
            if let Some(record) = self.entered(&name, &mut found) {
                if is_there(&record, HEADER) {
                    found.records.insert(name, stamp_of(&record));
                } else if is_there(&record, SUITE) {
                    self.parts(&name, &record, &mut found);
                    // One that cannot be read is named itself.
                    if !has(&record, SUITE) {
                        found.records.insert(name, stamp_of(&record));
                    }
                }
            }
        }
        Ok(found)
    }

    /// The parts of a record of several.
    fn parts(&self, name: &str, record: &OwnedFd, found: &mut Found) {
        let (parts, unnamed) = names_in(record, ".").unwrap_or_default();
        found.unnamed += unnamed;
        for part in parts.into_iter().map(|part| format!("{name}/{part}")) {
            if let Some(folder) = self.entered(&part, found).filter(|folder| is_there(folder, HEADER)) {
                found.records.insert(part, stamp_of(&folder));
            }
        }
    }

    /// A folder, unless this user may not look into it: such a folder is counted.
    fn entered(&self, name: &str, found: &mut Found) -> Option<OwnedFd> {
        let entered = self.folder(name).and_then(|folder| match kind(&folder, HEADER) {
            Err(error @ (Errno::ACCESS | Errno::PERM)) => Err(error),
            _ => Ok(folder),
        });
        found.closed += usize::from(matches!(entered, Err(Errno::ACCESS | Errno::PERM)));
        entered.ok()
    }

    /// The record of this name; none if there is none, or the name leads elsewhere. It may be one that cannot be read,
    /// such as one whose header is a link.
    pub(crate) fn record(&self, name: &str) -> Option<Shelved> {
        let fd = self.folder(name).ok()?;
        (is_there(&fd, HEADER) || is_there(&fd, SUITE)).then(|| Shelved { fd, name: name.to_owned() })
    }

    /// A record of several and all parts in it, as far as that is what this name is or is in; else itself alone.
    pub(crate) fn with_parts(&self, name: &str) -> Vec<String> {
        let top = name.split('/').next().unwrap_or(name);
        let mut found = Found::default();
        match self.folder(top) {
            Ok(folder) if is_there(&folder, SUITE) && !is_there(&folder, HEADER) => {
                self.parts(top, &folder, &mut found);
            }
            _ => return vec![name.to_owned()],
        }
        found.records.into_keys().collect()
    }

    /// Removes a record with all that is in it: nothing outside of its folder, and nothing that a link leads to.
    ///
    /// # Errors
    /// When there is none, or not all of it can be removed.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        if self.record(name).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (around, own) = match name.rsplit_once('/') {
            Some((folder, own)) => (self.folder(folder)?, own),
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                (openat(&self.root, ".", flags, Mode::empty())?, name)
            }
        };
        // The folder around it is held open, so that no link can be put in its place meanwhile.
        tare_removal::remove_tree(&held(&around).join(own))
    }

    /// A file of Tare's own in the folder, to read; none if there is none.
    ///
    /// # Errors
    /// When it cannot be opened, or is a link or no file.
    pub(crate) fn own_file(&self, name: &str) -> io::Result<Option<File>> {
        // A pipe is not waited for.
        let file = match beneath(&self.root, name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if file.metadata()?.is_file() { Ok(Some(file)) } else { Err(io::Error::other("it is no regular file")) }
    }

    /// Puts a file of Tare's own, which only its owner can read, in the place of the one that is there: all of it or,
    /// after an error, nothing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let new = format!("{name}.new");
        let mut file = self.new_file(&new)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        let replaced = written.and_then(|()| Ok(renameat(&self.root, &new, &self.root, name)?));
        if replaced.is_err() {
            let _ = unlinkat(&self.root, &new, AtFlags::empty());
        }
        replaced?;
        Ok(fsync(&self.root)?)
    }

    /// A new, empty file of Tare's own, which only its owner can read, to be written. What had its name is gone.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new_file(&self, name: &str) -> io::Result<File> {
        match unlinkat(&self.root, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.root, name, flags, Mode::RUSR | Mode::WUSR)?);
        // What root writes in the folder of another user is that user's, as records are.
        let folder = fstat(&self.root)?;
        let _ = fchown(&file, Some(folder.st_uid), Some(folder.st_gid));
        Ok(file)
    }

    fn folder(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let parts: Vec<&str> = name.split('/').collect();
        let is_plain = |part: &&str| !part.is_empty() && !part.starts_with('.') && part.len() <= NAME_MOST;
        if parts.len() > 2 || !parts.iter().all(is_plain) || !is_of_one_line(name) {
            return Err(Errno::NOENT);
        }
        beneath(&self.root, name, OFlags::RDONLY | OFlags::DIRECTORY)
    }
}

impl Shelved {
    /// Its folder.
    pub(crate) fn contents(&self) -> &OwnedFd {
        &self.fd
    }

    /// Whether it is a record of several parts.
    pub(crate) fn is_suite(&self) -> bool {
        is_there(&self.fd, SUITE) && !is_there(&self.fd, HEADER)
    }

    /// Whether its run has ended.
    pub(crate) fn has_ended(&self) -> bool {
        has(&self.fd, "end.json")
    }

    /// Reads it.
    ///
    /// # Errors
    /// As for [`tare_runner::read_record`], with the record's name in the place of its path.
    pub(crate) fn read(&self) -> Result<Record, Fault> {
        if self.is_suite() {
            // Its header may be what cannot be read.
            tare_runner::read_suite_header(&self.path()).map_err(|fault| self.named(fault))?;
        }
        tare_runner::read_record(&self.path()).map_err(|fault| self.named(fault))
    }

    /// Reads all of its parts.
    ///
    /// # Errors
    /// As for [`tare_runner::read_suite`].
    pub(crate) fn read_suite(&self) -> Result<SuiteRecord, Fault> {
        tare_runner::read_suite(&self.path()).map_err(|fault| self.named(fault))
    }

    /// A regular file in it, by its path; none if there is none, or a link is on the way.
    pub(crate) fn file(&self, path: &str) -> Option<File> {
        // A pipe is not waited for.
        let fd = beneath(&self.fd, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).ok()?;
        let file = File::from(fd);
        file.metadata().ok().filter(std::fs::Metadata::is_file).map(|_| file)
    }

    /// What changes when the record does, or who may read it, or the version of Tare that reads it.
    pub(crate) fn stamp(&self) -> String {
        stamp_of(&self.fd)
    }

    /// The names of the folders of its trials, by their numbers.
    pub(crate) fn trials(&self) -> Vec<String> {
        let folder = beneath(&self.fd, "trials", OFlags::RDONLY | OFlags::DIRECTORY);
        let (mut names, _) = folder.and_then(|folder| names_in(&folder, ".")).unwrap_or_default();
        names.retain(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        // From 10000 on they have more digits.
        names.sort_by_key(String::len);
        names
    }

    /// What a JSON file in it says; none if it cannot be read as that.
    pub(crate) fn json<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        serde_json::from_reader(BufReader::new(self.file(path)?.take(JSON_MOST))).ok()
    }

    /// The open folder as a path, which leads to this very folder whatever its name leads to meanwhile.
    fn path(&self) -> PathBuf {
        held(&self.fd)
    }

    fn named(&self, fault: Fault) -> Fault {
        let path = self.path().display().to_string();
        // A name keeps its letters, so no sentence begins with it.
        let begin = if fault.message.starts_with(&path) { "record " } else { "" };
        let [message, remedy] = [&fault.message, &fault.remedy].map(|text| text.replace(&path, &self.name));
        Fault { message: format!("{begin}{message}"), remedy, ..fault }
    }
}

/// What changes when a record does. Ten thousand of these are made at each look at the folder, so it is a digest; a
/// compiler that hashes otherwise has all records read again.
fn stamp_of(record: &OwnedFd) -> String {
    let mut state = DefaultHasher::new();
    for name in [HEADER, SUITE, "end.json", "trials", "profiles"] {
        let stat = statat(record, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        let file = stat.as_ref().map(|stat| (stat.st_size, stat.st_ino));
        let times = stat.map(|stat| (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec));
        (file, times).hash(&mut state);
    }
    format!("{} {:016x}", env!("CARGO_PKG_VERSION"), state.finish())
}

/// An open folder as a path.
fn held(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// Opens what is below `folder`, over no link, and never the folders above.
fn beneath(folder: &OwnedFd, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(folder, path, flags, Mode::empty(), resolve) {
        // Filters of system calls that do not know it.
        Err(Errno::NOSYS | Errno::PERM) => walk(folder, path, flags),
        opened => opened,
    }
}

/// The same step by step.
fn walk(folder: &OwnedFd, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut here = openat(folder, ".", step, Mode::empty())?;
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        if ["", ".", ".."].contains(&part) {
            return Err(Errno::XDEV);
        }
        let flags = if parts.peek().is_some() { step } else { flags };
        here = openat(&here, part, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(here)
}

fn kind(folder: &OwnedFd, name: &str) -> rustix::io::Result<FileType> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Whether there is something of this name in `folder`, be it a link or a pipe.
fn is_there(folder: &OwnedFd, name: &str) -> bool {
    kind(folder, name).is_ok()
}

/// Whether a name is shown as it is and comes back from a form as it was: browsers send other line feeds.
fn is_of_one_line(name: &str) -> bool {
    !name.contains(char::is_control)
}

/// Whether there is a regular file of this name in `folder`.
fn has(folder: &OwnedFd, name: &str) -> bool {
    kind(folder, name) == Ok(FileType::RegularFile)
}

/// The names in a folder that do not begin with a dot, sorted, and how many others are not UTF-8 or not of one line.
fn names_in(folder: &OwnedFd, path: &str) -> rustix::io::Result<(Vec<String>, usize)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (mut names, mut unnamed) = (Vec::new(), 0);
    for entry in Dir::new(openat(folder, path, flags, Mode::empty())?)? {
        match entry?.file_name().to_str() {
            Ok(name) if name.starts_with('.') => {}
            Ok(name) if is_of_one_line(name) => names.push(name.to_owned()),
            _ => unnamed += 1,
        }
    }
    names.sort_unstable();
    Ok((names, unnamed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(found: &Found) -> Vec<&str> {
        found.records.keys().map(String::as_str).collect()
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let above = tempfile::tempdir().unwrap();
        let make = |path: &str| {
            std::fs::create_dir_all(above.path().join(path)).unwrap();
            std::fs::write(above.path().join(path).join(HEADER), "{}").unwrap();
        };
        for path in ["outside", "records/good", "records/.hidden", "records/suite/part"] {
            make(path);
        }
        std::fs::write(above.path().join("records/suite/suite.json"), "{}").unwrap();
        symlink(above.path().join("outside"), above.path().join("records/link")).unwrap();
        symlink("/etc/hosts", above.path().join("records/good/events.jsonl")).unwrap();
        for name in [&b"\xff"[..], b"two\nlines"] {
            let folder = above.path().join("records").join(std::ffi::OsStr::from_bytes(name));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(HEADER), "{}").unwrap();
        }
        let shelf = Shelf::open(&above.path().join("records")).unwrap();
        let found = shelf.found().unwrap();
        assert_eq!((names(&found), found.unnamed), (vec!["good", "suite/part"], 2));
        for name in ["..", "../outside", "/etc", "link", ".hidden", "", "good/../good", "good/", "a/b/c", "good\0"] {
            assert!(shelf.record(name).is_none(), "{name:?}");
        }
        assert!(shelf.record("two\nlines").is_none());
        let good = shelf.record("good").unwrap();
        assert!(good.file("events.jsonl").is_none() && good.file("../../outside/record.json").is_none());
        // Without `openat2`, too.
        let walked = |path: &str| walk(&good.fd, path, OFlags::RDONLY | OFlags::CLOEXEC);
        assert!(walked(HEADER).is_ok() && walked("events.jsonl").is_err() && walked("../suite/suite.json").is_err());
        let root = &shelf.root;
        assert!(walk(root, "suite/part/record.json", OFlags::RDONLY).is_ok());
        assert!(walk(root, "link/record.json", OFlags::RDONLY).is_err());
        assert!(good.file(HEADER).is_some() && !good.has_ended() && shelf.record("suite").unwrap().is_suite());
        let fault = good.read().unwrap_err();
        assert!(
            fault.message.starts_with("record good/record.json is not") && !fault.message.contains("/proc/"),
            "{fault}"
        );
        assert!(Shelf::open(&above.path().join("outside")).unwrap_err().mistake);
    }

    #[test]
    fn only_a_record_is_removed_and_what_its_links_lead_to_stays() {
        let above = tempfile::tempdir().unwrap();
        let records = above.path().join("records");
        for path in ["outside", "records/one", "records/suite/a", "records/suite/b", "records/kept"] {
            std::fs::create_dir_all(above.path().join(path)).unwrap();
            std::fs::write(above.path().join(path).join(HEADER), "{}").unwrap();
        }
        std::fs::write(records.join("suite/suite.json"), "{}").unwrap();
        symlink(above.path().join("outside"), records.join("link")).unwrap();
        symlink(above.path().join("outside"), records.join("one/link")).unwrap();
        let shelf = Shelf::open(&records).unwrap();
        for name in ["link", "..", "../outside", "kept/..", "", ".", "suite/../kept", "nobody", "one/link"] {
            assert!(shelf.remove(name).is_err(), "{name:?}");
        }
        assert_eq!(
            (shelf.with_parts("suite/a"), shelf.with_parts("one")),
            (vec!["suite/a".to_owned(), "suite/b".to_owned()], vec!["one".to_owned()])
        );
        shelf.remove("one").unwrap();
        shelf.remove("suite/a").unwrap();
        assert!(above.path().join("outside/record.json").is_file() && !records.join("one").exists());
        assert_eq!(names(&shelf.found().unwrap()), ["kept", "suite/b"]);
        shelf.remove("suite").unwrap();
        assert_eq!(names(&shelf.found().unwrap()), ["kept"]);
    }

    #[test]
    fn folders_that_this_user_may_not_open_are_counted() {
        let records = tempfile::tempdir().unwrap();
        let allow = |path: &Path, bits: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
        };
        allow(records.path(), 0o755);
        let folders = [("closed", 0o000), ("listed", 0o444), ("open", 0o755)];
        for (name, bits) in folders {
            let path = records.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join(HEADER), "{}").unwrap();
            allow(&path, bits);
        }
        std::fs::write(records.path().join("a file"), "").unwrap();
        allow(&records.path().join("a file"), 0o000);
        let shelf = Shelf::open(records.path()).unwrap();
        let look = || {
            // Root may open everything, so this thread is somebody else's.
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            shelf.found().unwrap()
        };
        let found = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
        // So that they can be removed.
        folders.iter().for_each(|(name, _)| allow(&records.path().join(name), 0o755));
        assert_eq!((names(&found), found.closed), (vec!["open"], 2));
    }
}
