//! Reads the files of a record safely. Anybody may have made a record, and root reads it to continue its run. So links
//! in it are not followed, pipes are not waited for, and files are read up to a limit. The path of the record itself
//! may be a link, because the user names it.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Take};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tare_core::fault::{Doing, Fault};
use tare_core::units::show_bytes;

/// The mode of a record's files: only their owner may read them.
pub(crate) const FILE_MODE: u32 = 0o600;

/// The largest JSON file that is written at once, bytes. A header has about 150 bytes for each trial of its plan, and a
/// trial about 10 KB for each histogram; the largest seen so far had less than a hundredth of this.
pub(crate) const JSON_MOST: u64 = 64 << 20;

/// The largest file with a row for each second, bytes. Telemetry has about 200 bytes a second for each CPU and 1 KB for
/// each scope, so this is a day of 128 CPUs and twenty scopes. Rows are read one by one; the text is never held whole.
pub(crate) const ROWS_MOST: u64 = 4 << 30;

/// The longest row, bytes: that of a machine with 4096 CPUs has about 1 MB.
pub(crate) const ROW_MOST: u64 = 16 << 20;

/// The largest file of lines that is held whole, bytes: call stacks, each distinct one once and rarely longer than 10
/// KB, and events, one of about 400 bytes for each second of load and some for each trial and its stages, so this is a
/// month of load.
pub(crate) const LINES_MOST: u64 = 1 << 30;

/// All files of a record together may be as large as the free memory divided by this: in memory they take about three
/// times as much.
const FREE_PART: u64 = 8;

/// A folder of a record, held open: what is opened through it is in it, whatever happens to its path meanwhile.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
    room: Rc<Room>,
}

/// How many bytes of a record may still be read.
#[derive(Debug)]
struct Room {
    whole: u64,
    left: Cell<u64>,
}

impl Room {
    fn of(whole: u64) -> Rc<Room> {
        Rc::new(Room { whole, left: Cell::new(whole) })
    }
}

/// The free memory, bytes; that of a small machine if unknown.
fn free_memory() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.map_or(4 << 30, |kilobytes| kilobytes << 10)
}

impl Folder {
    /// The folder of a whole record, whose path may be a link; none if there is no such folder.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn of_record(path: &Path) -> Result<Option<Folder>, Fault> {
        match openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => Ok(Some(Folder { fd, path: path.to_owned(), room: Room::of(free_memory() / FREE_PART) })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error).doing(format!("read {}", path.display())),
        }
    }

    /// Its path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder in it; none if there is nothing of that name. `remedy` says what to do if it is something else.
    ///
    /// # Errors
    /// When it is not a folder, or cannot be opened.
    pub(crate) fn folder(&self, name: &str, remedy: &str) -> Result<Option<Folder>, Fault> {
        let found = self.reach(name, OFlags::PATH | OFlags::DIRECTORY, FileType::Directory, remedy)?;
        Ok(found.map(|fd| Folder { fd, path: self.path.join(name), room: self.room.clone() }))
    }

    /// The names in it, in no order; those that are not UTF-8 are left out.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub(crate) fn names(&self) -> Result<Vec<String>, Fault> {
        let doing = || format!("list {}", self.path.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = openat(&self.fd, ".", flags, Mode::empty()).and_then(Dir::new).doing(doing())?;
        let mut names = Vec::new();
        for entry in listed {
            let entry = entry.doing(doing())?;
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    /// A file in it, to be read up to `most` bytes; none if there is nothing of that name. `remedy` says what to do if
    /// it is something else, or larger.
    ///
    /// # Errors
    /// When it is not a file, is larger, or cannot be opened.
    pub(crate) fn open(&self, name: &str, most: u64, remedy: &str) -> Result<Option<Take<File>>, Fault> {
        let Some(fd) = self.reach(name, OFlags::RDONLY, FileType::RegularFile, remedy)? else { return Ok(None) };
        self.bounded(name, File::from(fd), most, remedy).map(|file| Some(file.take(most)))
    }

    /// The content of a file in it, opened by [`Folder::open`].
    ///
    /// # Errors
    /// As for that, and when it cannot be read.
    pub(crate) fn read(&self, name: &str, most: u64, remedy: &str) -> Result<Option<Vec<u8>>, Fault> {
        let Some(mut file) = self.open(name, most, remedy)? else { return Ok(None) };
        let mut content = Vec::new();
        file.read_to_end(&mut content).doing(format!("read {}", self.path.join(name).display()))?;
        Ok(Some(content))
    }

    /// A file in it to read and append to, created if there is none.
    ///
    /// # Errors
    /// When it is not a file, is larger than `most` bytes, or cannot be opened or created.
    pub(crate) fn open_to_add(&self, name: &str, most: u64, remedy: &str) -> Result<File, Fault> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        match self.reach(name, flags, FileType::RegularFile, remedy)? {
            Some(fd) => self.bounded(name, File::from(fd), most, remedy),
            None => Err(Fault::new(format!("{} is gone, so nothing can be written to it", self.path.display()))),
        }
    }

    /// Opens `name` if it is of the `wanted` kind, without following a link, waiting, or taking over a terminal.
    fn reach(&self, name: &str, flags: OFlags, wanted: FileType, remedy: &str) -> Result<Option<OwnedFd>, Fault> {
        let path = self.path.join(name);
        let doing = || format!("open {}", path.display());
        let kind = |mode| FileType::from_raw_mode(mode);
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = match openat(&self.fd, name, flags, Mode::from_raw_mode(FILE_MODE)) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened,
        };
        // If something cannot be opened, such as a link, its kind says more than the error.
        let found = match &opened {
            Ok(fd) => kind(fstat(fd).doing(doing())?.st_mode),
            Err(_) => statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_or(wanted, |facts| kind(facts.st_mode)),
        };
        if found != wanted {
            return Err(no_part(&path, found, wanted).remedy(remedy).as_mistake());
        }
        opened.doing(doing()).map(Some)
    }

    /// The file, unless it is too large.
    fn bounded(&self, name: &str, file: File, most: u64, remedy: &str) -> Result<File, Fault> {
        let path = self.path.join(name);
        let bytes = file.metadata().doing(format!("read {}", path.display()))?.len();
        if bytes > most {
            let (path, most) = (path.display(), show_bytes(most));
            let text =
                format!("{path} is larger than {most}, more than any run writes: reading it could fill the memory");
            return Err(Fault::new(text).remedy(remedy).as_mistake());
        }
        let Some(left) = self.room.left.get().checked_sub(bytes) else {
            let (path, whole) = (path.display(), show_bytes(self.room.whole));
            let text = format!(
                "with {path} the record has more than {whole} to read, an eighth of this machine's free memory"
            );
            return Err(Fault::new(text).remedy("read it on a machine with more memory"));
        };
        self.room.left.set(left);
        Ok(file)
    }
}

/// The fault for something of another kind than a record has in its place.
fn no_part(path: &Path, found: FileType, wanted: FileType) -> Fault {
    let name = |kind: FileType| match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "something unknown",
    };
    let (path, found, wanted) = (path.display(), name(found), name(wanted));
    let why = "its content could be from elsewhere, or have no end";
    Fault::new(format!("{path} is {found} instead of {wanted}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::mkfifoat;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    const REMEDY: &str = "put it back";

    #[test]
    fn only_a_file_of_its_own_is_read_and_none_is_waited_for() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("record");
        std::fs::create_dir_all(path.join("folder")).unwrap();
        std::fs::write(path.join("file"), "text").unwrap();
        symlink(path.join("file"), path.join("link")).unwrap();
        symlink("missing", path.join("dangling")).unwrap();
        symlink("folder", path.join("way")).unwrap();
        mkfifoat(CWD, path.join("pipe"), Mode::RWXU).unwrap();
        let _socket = UnixListener::bind(path.join("socket")).unwrap();
        // The record itself may be called by a link.
        let named = above.path().join("named");
        symlink(&path, &named).unwrap();
        let record = Folder::of_record(&named).unwrap().unwrap();
        let told = |fault: Fault, name: &str, what: &str| {
            let wanted = format!("{}/{name} is {what} instead of", named.display());
            assert!(fault.message.starts_with(&wanted), "{fault}");
            assert!(fault.remedy == REMEDY && fault.mistake, "{fault:?}");
        };
        for (name, what) in [
            ("link", "a link"),
            ("dangling", "a link"),
            ("way", "a link"),
            ("pipe", "a pipe"),
            ("socket", "a socket"),
            ("folder", "a folder"),
        ] {
            told(record.read(name, 9, REMEDY).unwrap_err(), name, what);
            told(record.open_to_add(name, 9, REMEDY).unwrap_err(), name, what);
        }
        for (name, what) in [("link", "a link"), ("way", "a link"), ("pipe", "a pipe"), ("file", "a file")] {
            told(record.folder(name, REMEDY).unwrap_err(), name, what);
        }
        assert_eq!(record.read("file", 9, REMEDY).unwrap().as_deref(), Some(&b"text"[..]));
        assert!(record.read("missing", 9, REMEDY).unwrap().is_none() && !path.join("missing").exists());
        assert!(record.folder("missing", REMEDY).unwrap().is_none());
        assert_eq!(record.folder("folder", REMEDY).unwrap().unwrap().read("x", 9, REMEDY).unwrap(), None);
        let mut names = record.names().unwrap();
        names.sort();
        assert_eq!(names, [".", "..", "dangling", "file", "folder", "link", "pipe", "socket", "way"]);
        assert!(Folder::of_record(&path.join("file")).unwrap().is_none());
        assert!(Folder::of_record(&path.join("missing")).unwrap().is_none());
    }

    #[test]
    fn a_record_is_read_as_far_as_there_is_memory_for_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("trials")).unwrap();
        std::fs::write(folder.path().join("first"), "text").unwrap();
        std::fs::hard_link(folder.path().join("first"), folder.path().join("trials/again")).unwrap();
        let mut record = Folder::of_record(folder.path()).unwrap().unwrap();
        assert!(record.room.whole > 1 << 20, "{} bytes", record.room.whole);
        record.room = Room::of(7);
        let trials = record.folder("trials", REMEDY).unwrap().unwrap();
        assert!(record.read("first", 9, REMEDY).unwrap().is_some());
        let fault = trials.read("again", 9, REMEDY).unwrap_err();
        assert!(fault.message.contains("trials/again the record has more than 7 B to read"), "{fault}");
    }

    #[test]
    fn a_file_is_read_as_far_as_a_run_writes_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let record = Folder::of_record(folder.path()).unwrap().unwrap();
        std::fs::write(folder.path().join("file"), "text").unwrap();
        assert_eq!(record.read("file", 4, REMEDY).unwrap().as_deref(), Some(&b"text"[..]));
        for fault in [record.read("file", 3, REMEDY).unwrap_err(), record.open_to_add("file", 3, REMEDY).unwrap_err()] {
            assert!(fault.message.contains("/file is larger than 3 B, more than any run writes"), "{fault}");
            assert!(fault.remedy == REMEDY && fault.mistake, "{fault:?}");
        }
        // One that grows is not followed either.
        let mut open = record.open("file", 4, REMEDY).unwrap().unwrap();
        std::fs::write(folder.path().join("file"), "longer text").unwrap();
        let mut read = String::new();
        open.read_to_string(&mut read).unwrap();
        assert_eq!(read, "long");
    }
}
