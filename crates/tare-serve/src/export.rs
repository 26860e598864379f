//! The export of records: an archive that is made as it is sent.

use crate::contents::{Item, each};
use crate::query::Query;
use crate::shelf::Shelf;
use bytes::Bytes;
use rustix::fs::FileType;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};
use tokio::sync::mpsc::{Receiver, Sender};

/// Archives that are made at the same time, each with a thread.
pub(crate) const EXPORTS_MOST: usize = 4;
/// Bytes that are sent at once, and how many of these wait for a browser.
const PIECE: usize = 64 << 10;
const PIECES_WAITING: usize = 16;
/// The file that says what is not in the archive, unless a record has its name.
const LEFT_OUT: &str = "LEFT-OUT.txt";

/// The records that are named, each once; none if there is none, or one of them is not there.
pub(crate) fn named(shelf: &Shelf, query: &Query) -> Option<Vec<String>> {
    let mut names: Vec<String> = query.all("run").map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty() && names.iter().all(|name| shelf.record(name).is_some())).then_some(names)
}

/// A channel to a browser.
pub(crate) fn channel() -> (Sender<Bytes>, Receiver<Bytes>) {
    tokio::sync::mpsc::channel(PIECES_WAITING)
}

/// Sends an archive of these records until all of it is sent or the browser has gone. Blocks its thread.
pub(crate) fn send(shelf: &Shelf, names: &[String], browser: Sender<Bytes>) {
    // Who has gone away needs no archive.
    let _ = write(shelf, names, BufWriter::with_capacity(PIECE, Sending(browser)));
}

/// What is written goes to a browser.
struct Sending(Sender<Bytes>);

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Bytes::copy_from_slice(bytes));
        sent.map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes an archive of these records. What cannot be read, and what is no file, is named in it.
///
/// # Errors
/// When it cannot be written.
fn write(shelf: &Shelf, names: &[String], to: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(to);
    let mut left_out = String::new();
    for name in names {
        let Some(record) = shelf.record(name) else {
            left_out.push_str(&format!("{name}: it is gone\n"));
            continue;
        };
        let mut broken = None;
        let listed = each(record.contents(), &mut |item| {
            let path = Path::new(name).join(item.path);
            let put = put(&mut archive, item, &path, &mut left_out);
            // A record that cannot be listed further on is named; an archive that cannot be written ends.
            put.map_err(|error| io::Error::from(broken.insert(error).kind()))
        });
        match (broken, listed) {
            (Some(error), _) => return Err(error),
            (None, Err(error)) => left_out.push_str(&format!("{name}: what follows could not be listed: {error}\n")),
            (None, Ok(())) => {}
        }
    }
    if !left_out.is_empty() {
        let text = format!("Not in this archive, or not whole:\n\n{left_out}");
        let mut header = head(EntryType::Regular, text.len() as u64, 0);
        archive.append_data(&mut header, list_of(names), text.as_bytes())?;
    }
    archive.into_inner()?.flush()
}

/// What the list of what is left out is called: as no record in the archive is. Some file systems do not tell capital
/// letters from others.
fn list_of(names: &[String]) -> String {
    let is_free = |name: &String| {
        let mut tops = names.iter().filter_map(|one| one.split('/').next());
        !tops.any(|top| top.eq_ignore_ascii_case(name))
    };
    let others = (2..).map(|number| format!("LEFT-OUT-{number}.txt"));
    let mut all = std::iter::once(LEFT_OUT.to_owned()).chain(others);
    all.find(is_free).expect("there are more numbers than records")
}

/// A path as one line, whatever is in its names.
fn on_one_line(path: &Path) -> String {
    let shown = path.display().to_string();
    shown.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// Puts a file or a folder into the archive.
fn put(archive: &mut Builder<impl Write>, item: &Item<'_>, path: &Path, left_out: &mut String) -> io::Result<()> {
    let mut leave_out = |why: &str| left_out.push_str(&format!("{}: {why}\n", on_one_line(path)));
    match item.kind {
        FileType::RegularFile => {}
        FileType::Directory => {
            let folder: PathBuf = path.join("");
            return archive.append_data(&mut head(EntryType::Directory, 0, 0), folder, io::empty());
        }
        FileType::Symlink => {
            leave_out("a link");
            return Ok(());
        }
        _ => {
            leave_out("no file");
            return Ok(());
        }
    }
    let opened = item.open().and_then(|file| Ok((file.metadata()?, file)));
    let (known, file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            leave_out(&error.to_string());
            return Ok(());
        }
    };
    // Of a file that grows meanwhile, what there was.
    let mut whole = Whole { file, left: known.len(), is_short: false };
    let mut header = head(EntryType::Regular, known.len(), u64::try_from(known.mtime()).unwrap_or_default());
    archive.append_data(&mut header, path, &mut whole)?;
    if whole.is_short {
        leave_out("the end could not be read: there are zeros in its place");
    }
    Ok(())
}

fn head(kind: EntryType, bytes: u64, modified: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    // Records may hold secrets: who unpacks one is its owner, and opens it to others.
    header.set_mode(if kind == EntryType::Directory { 0o700 } else { 0o600 });
    header.set_mtime(modified);
    header.set_size(bytes);
    header
}

/// So many bytes of a file as its head in the archive promises, whatever becomes of the file.
struct Whole {
    file: File,
    left: u64,
    /// Whether the file did not have them.
    is_short: bool,
}

impl Read for Whole {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let into = &mut into[..most];
        let read = match self.file.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Ok(read) if read > 0 || most == 0 => read,
            _ => {
                self.is_short = true;
                into.fill(0);
                most
            }
        };
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    #[test]
    fn an_archive_has_what_is_in_records_and_names_what_it_leaves_out() {
        let above = tempfile::tempdir().unwrap();
        let records = above.path().join("records");
        let long = format!("trials/{}", "x".repeat(200));
        std::fs::create_dir_all(records.join("one").join(&long)).unwrap();
        std::fs::write(above.path().join("secret"), "hunter2").unwrap();
        std::fs::write(records.join("one/record.json"), "{}").unwrap();
        std::fs::write(records.join("one").join(&long).join("trial.json"), "trial").unwrap();
        symlink(above.path().join("secret"), records.join("one/secret")).unwrap();
        let shelf = Shelf::open(&records).unwrap();
        let mut bytes = Vec::new();
        write(&shelf, &["gone".to_owned(), "one".to_owned()], &mut bytes).unwrap();
        assert!(!bytes.windows(7).any(|seven| seven == b"hunter2"));
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let (path, mut text) = (entry.path().unwrap().display().to_string(), String::new());
            entry.read_to_string(&mut text).unwrap();
            found.insert(path, text);
        }
        let trial = format!("one/{long}/trial.json");
        assert_eq!((found["one/record.json"].as_str(), found[&trial].as_str()), ("{}", "trial"));
        let left_out = &found[LEFT_OUT];
        assert!(left_out.contains("gone: it is gone") && left_out.contains("one/secret: a link"), "{left_out}");
    }

    #[test]
    fn the_list_of_what_is_left_out_takes_no_record_s_name_and_is_one_line_for_each() {
        let records = tempfile::tempdir().unwrap();
        for name in ["LEFT-OUT.txt", "left-out-2.TXT"] {
            std::fs::create_dir(records.path().join(name)).unwrap();
            std::fs::write(records.path().join(name).join("record.json"), "{}").unwrap();
        }
        symlink("/", records.path().join("LEFT-OUT.txt/a\nb: a link\nc")).unwrap();
        let shelf = Shelf::open(records.path()).unwrap();
        let mut bytes = Vec::new();
        write(&shelf, &["LEFT-OUT.txt".to_owned(), "left-out-2.TXT".to_owned()], &mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let (mut name, mut text) = (String::new(), String::new());
        // The last of them; an entry has to be read before the next.
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            name = entry.path().unwrap().display().to_string();
            text.clear();
            entry.read_to_string(&mut text).unwrap();
        }
        assert_eq!(name, "LEFT-OUT-3.txt");
        assert_eq!(text.lines().next_back(), Some("LEFT-OUT.txt/a\\nb: a link\\nc: a link"));
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn a_file_that_shrinks_is_as_long_as_was_promised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        let mut whole = Whole { file: File::open(&path).unwrap(), left: 5, is_short: false };
        let mut bytes = Vec::new();
        whole.read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.as_slice(), whole.is_short), (&b"abc\0\0"[..], true));
        let mut whole = Whole { file: File::open(&path).unwrap(), left: 2, is_short: false };
        bytes.clear();
        whole.read_to_end(&mut bytes).unwrap();
        assert_eq!((bytes.as_slice(), whole.is_short), (&b"ab"[..], false));
    }
}
