//! Tags and notes of the user, by record. They are in a file of their own in the folder of records: a record is never
//! changed, and what is said of one that is gone does no harm.

use crate::shelf::Shelf;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tare_core::fault::{Doing, Fault};

/// The file, in the folder of records. Whatever reads records leaves out names that begin with a dot.
const FILE: &str = ".tare-notes.json";
/// The version of its format. A newer one is not touched.
const SCHEMA: u32 = 1;
/// Its largest size, bytes.
const FILE_MOST: usize = 16 << 20;

/// Tags of a record, at most.
pub(crate) const TAGS_MOST: usize = 16;
/// Characters of a tag, at most.
pub(crate) const TAG_MOST: usize = 40;
/// Characters of a note, at most.
pub(crate) const TEXT_MOST: usize = 4000;

/// What the user says of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Note {
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    #[serde(default)]
    pub(crate) text: String,
}

/// By the record's name.
pub(crate) type Noted = BTreeMap<String, Note>;

/// The file's content.
#[derive(Serialize, Deserialize)]
struct Written {
    schema: u32,
    runs: Noted,
}

impl Note {
    /// From what was typed: tags with commas between them.
    ///
    /// # Errors
    /// When it is longer than may be.
    pub(crate) fn typed(tags: &str, text: &str) -> Result<Note, Fault> {
        let words = |tag: &str| tag.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut all: Vec<String> = Vec::new();
        for tag in tags.split(',').map(|tag| words(&plain(tag, &[]))).filter(|tag| !tag.is_empty()) {
            if !all.contains(&tag) {
                all.push(tag);
            }
        }
        let text = plain(&text.replace("\r\n", "\n"), &['\n', '\t']).trim().to_owned();
        let too_long = match () {
            () if all.len() > TAGS_MOST => format!("a run has at most {TAGS_MOST} tags"),
            () if all.iter().any(|tag| is_longer(tag, TAG_MOST)) => format!("a tag has at most {TAG_MOST} characters"),
            () if is_longer(&text, TEXT_MOST) => format!("a note has at most {TEXT_MOST} characters"),
            () => return Ok(Note { tags: all, text }),
        };
        Err(Fault::new(too_long).remedy("go back in the browser and shorten it; until then it stays as it was"))
    }

    /// What is shown of it beside others: within the same limits, whoever wrote the file. What is kept stays whole.
    pub(crate) fn bounded(&self) -> Note {
        Note { tags: self.bounded_tags().collect(), text: cut(&self.text, TEXT_MOST) }
    }

    fn bounded_tags(&self) -> impl Iterator<Item = String> {
        self.tags.iter().take(TAGS_MOST).map(|tag| cut(tag, TAG_MOST))
    }

    fn holds(&self, word: &str) -> bool {
        self.tags.iter().chain([&self.text]).any(|text| text.to_lowercase().contains(word))
    }
}

/// Without control characters but these.
fn plain(text: &str, kept: &[char]) -> String {
    text.chars().filter(|c| !c.is_control() || kept.contains(c)).collect()
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

fn is_longer(text: &str, most: usize) -> bool {
    text.chars().nth(most).is_some()
}

/// The records of which a word is said, in a tag or in the note.
pub(crate) fn holding(noted: &Noted, word: &str) -> Vec<String> {
    let word = word.to_lowercase();
    noted.iter().filter(|(_, note)| note.holds(&word)).map(|(name, _)| name.clone()).collect()
}

/// What is said of a record and of the parts in it.
pub(crate) fn of_record(noted: &Noted, name: &str) -> Noted {
    let is_of = |of: &str| of == name || of.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
    noted.iter().filter(|(of, _)| is_of(of)).map(|(of, note)| (of.clone(), note.clone())).collect()
}

/// The records that have a tag.
pub(crate) fn tagged(noted: &Noted, tag: &str) -> Vec<String> {
    let has = |note: &Note| note.tags.iter().any(|known| known == tag);
    noted.iter().filter(|(_, note)| has(note)).map(|(name, _)| name.clone()).collect()
}

/// All tags of these records.
pub(crate) fn tags_of(noted: &Noted, names: &BTreeSet<String>) -> BTreeSet<String> {
    let there = noted.iter().filter(|(name, _)| names.contains(*name));
    there.flat_map(|(_, note)| note.bounded_tags()).collect()
}

/// The file as it was read last.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The state of the file that it was read from; empty if there is none.
    stamp: String,
    noted: Arc<Noted>,
}

impl Notes {
    /// Everything that is said of records in this folder.
    ///
    /// # Errors
    /// When the file is not one of these, or cannot be read.
    pub(crate) fn all(&self, shelf: &Shelf) -> Result<Arc<Noted>, Fault> {
        read(&mut self.kept(), shelf)
    }

    /// Says this of a record, in the place of what was said of it.
    ///
    /// # Errors
    /// When the file cannot be read or written; it is as it was then.
    pub(crate) fn put(&self, shelf: &Shelf, name: &str, note: Note) -> Result<(), Fault> {
        self.change(shelf, |noted| {
            if note == Note::default() {
                noted.remove(name);
            } else {
                noted.insert(name.to_owned(), note);
            }
        })
    }

    /// Forgets what was said of records, unless something else is said of them by now.
    ///
    /// # Errors
    /// As for [`Notes::put`].
    pub(crate) fn forget(&self, shelf: &Shelf, said: &Noted) -> Result<(), Fault> {
        self.change(shelf, |noted| noted.retain(|name, note| said.get(name) != Some(&*note)))
    }

    /// Writes what `change` makes of all that is said, if that is something else.
    fn change(&self, shelf: &Shelf, change: impl FnOnce(&mut Noted)) -> Result<(), Fault> {
        let mut kept = self.kept();
        let before = read(&mut kept, shelf)?;
        let mut noted = Noted::clone(&before);
        change(&mut noted);
        if noted == *before {
            return Ok(());
        }
        let written = Written { schema: SCHEMA, runs: noted };
        let text = serde_json::to_vec_pretty(&written).expect("notes are plain data");
        if text.len() > FILE_MOST {
            let fault = Fault::new(format!("the notes of this folder would be larger than {} MiB", FILE_MOST >> 20));
            return Err(fault.remedy("shorten some of them"));
        }
        let written = shelf.replace(FILE, &text).doing(format!("write {FILE} in the folder of records"));
        // Whatever is there now is read when it is needed.
        *kept = Kept::default();
        written.map_err(|fault| fault.remedy("serve as who may write there"))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(kept: &mut Kept, shelf: &Shelf) -> Result<Arc<Noted>, Fault> {
    read_anew(kept, shelf).map_err(|fault| fault.remedy(format!("mend or remove {FILE} in the folder of records")))?;
    Ok(kept.noted.clone())
}

/// Takes in what the file says if it has changed.
fn read_anew(kept: &mut Kept, shelf: &Shelf) -> Result<(), Fault> {
    let reading = format!("read {FILE} in the folder of records");
    let Some(file) = shelf.own_file(FILE).doing(&reading)? else {
        *kept = Kept::default();
        return Ok(());
    };
    let stamp = stamp(&file.metadata().doing(&reading)?);
    if kept.stamp == stamp {
        return Ok(());
    }
    let mut text = Vec::new();
    file.take(FILE_MOST as u64 + 1).read_to_end(&mut text).doing(&reading)?;
    if text.len() > FILE_MOST {
        return Err(Fault::new(format!("could not {reading}: it is larger than {} MiB", FILE_MOST >> 20)));
    }
    let written: Written = serde_json::from_slice(&text).doing(&reading)?;
    if written.schema > SCHEMA {
        return Err(Fault::new(format!("could not {reading}: a newer version of Tare has written it")));
    }
    *kept = Kept { stamp, noted: Arc::new(written.runs) };
    Ok(())
}

/// What changes when the file does.
fn stamp(of: &Metadata) -> String {
    format!("{}.{} {}.{} {} {}", of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec(), of.size(), of.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn shelf() -> (tempfile::TempDir, Shelf) {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(folder.path()).unwrap();
        (folder, shelf)
    }

    #[test]
    fn what_is_typed_becomes_tags_and_a_note_within_limits() {
        let note = Note::typed(" nightly,, tuned  kernel,nightly\u{7}", "one\r\ntwo\u{1b}\n").unwrap();
        assert_eq!((note.tags, note.text.as_str()), (vec!["nightly".into(), "tuned kernel".into()], "one\ntwo"));
        let many: String = (0..=TAGS_MOST).map(|number| format!("{number},")).collect();
        let long = |most: usize| "\u{e4}".repeat(most + 1);
        for (tags, text) in [(many, String::new()), (long(TAG_MOST), String::new()), (String::new(), long(TEXT_MOST))] {
            assert!(Note::typed(&tags, &text).unwrap_err().message.contains("at most"));
        }
        assert!(Note::typed(&long(TAG_MOST - 1), &long(TEXT_MOST - 1)).is_ok());
    }

    #[test]
    fn notes_are_found_again_and_those_of_others_stay() {
        let (folder, shelf) = shelf();
        let notes = Notes::default();
        assert!(notes.all(&shelf).unwrap().is_empty());
        notes.put(&shelf, "one", Note::typed("Nightly", "after the move").unwrap()).unwrap();
        notes.put(&shelf, "two/part", Note::typed("nightly, x", "").unwrap()).unwrap();
        let all = Notes::default().all(&shelf).unwrap();
        assert_eq!(all, notes.all(&shelf).unwrap());
        assert_eq!(holding(&all, "NIGHT"), ["one", "two/part"]);
        assert_eq!((holding(&all, "move"), tagged(&all, "nightly")), (vec!["one".into()], vec!["two/part".into()]));
        let there = BTreeSet::from(["one".to_owned()]);
        assert_eq!(tags_of(&all, &there), BTreeSet::from(["Nightly".to_owned()]), "the other record is gone");
        // What was said since it was shown stays.
        let shown = [of_record(&all, "one"), of_record(&all, "two")];
        assert_eq!(shown.iter().map(Noted::len).collect::<Vec<_>>(), [1, 1]);
        notes.put(&shelf, "two/part", Note::typed("nightly, y", "").unwrap()).unwrap();
        shown.iter().for_each(|said| notes.forget(&shelf, said).unwrap());
        assert_eq!(notes.all(&shelf).unwrap().keys().collect::<Vec<_>>(), ["two/part"]);
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, std::fs::read_dir(folder.path()).unwrap().count()), (0o600, 1));
    }

    #[test]
    fn a_file_that_is_not_theirs_is_neither_followed_nor_overwritten() {
        let (folder, shelf) = shelf();
        let path = folder.path().join(FILE);
        let refused = || {
            let notes = Notes::default();
            let put = notes.put(&shelf, "one", Note::typed("a", "").unwrap());
            notes.all(&shelf).is_err() && put.is_err()
        };
        for content in ["no notes", "{\"schema\": 99, \"runs\": {}}"] {
            std::fs::write(&path, content).unwrap();
            assert!(refused(), "{content}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        std::fs::remove_file(&path).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("theirs"), "{\"schema\": 1, \"runs\": {}}").unwrap();
        symlink(elsewhere.path().join("theirs"), &path).unwrap();
        assert!(refused());
        // What stands in the way of the new file goes, and is not followed.
        std::fs::remove_file(&path).unwrap();
        symlink(elsewhere.path().join("theirs"), folder.path().join(format!("{FILE}.new"))).unwrap();
        Notes::default().put(&shelf, "one", Note::typed("a", "").unwrap()).unwrap();
        let theirs = std::fs::read_to_string(elsewhere.path().join("theirs")).unwrap();
        assert_eq!(theirs, "{\"schema\": 1, \"runs\": {}}");
    }

    #[test]
    fn what_is_longer_than_can_be_typed_is_kept_whole_and_shown_in_part() {
        let (folder, shelf) = shelf();
        let (text, tags) = ("x".repeat(TEXT_MOST + 9), vec!["y".repeat(TAG_MOST + 9); TAGS_MOST + 9]);
        let long = serde_json::json!({"schema": 1, "runs": {"one": {"text": text, "tags": tags}}});
        std::fs::write(folder.path().join(FILE), long.to_string()).unwrap();
        Notes::default().put(&shelf, "two", Note::typed("a", "").unwrap()).unwrap();
        let all = Notes::default().all(&shelf).unwrap();
        let shown = all["one"].bounded();
        assert_eq!((&all["one"].text, &all["one"].tags), (&text, &tags));
        assert_eq!((shown.text.len(), shown.tags.len(), shown.tags[0].len()), (TEXT_MOST, TAGS_MOST, TAG_MOST));
        assert!(Note::typed(&tags.join(","), &text).unwrap_err().remedy.contains("stays as it was"));
    }
}
