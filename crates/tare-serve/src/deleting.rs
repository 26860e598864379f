//! What goes when records are deleted: the page that says so first, by which it is told whether it is still so.

use crate::contents::each;
use crate::notes::{Noted, of_record};
use crate::pages::{Pages, bar, plain};
use crate::query::Query;
use crate::shelf::{Shelf, Shelved};
use minijinja::context;
use rustix::fs::FileType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufReader, Read};
use tare_core::fault::Fault;
use tare_core::units::show_bytes;

/// Records that are deleted at once, at most.
pub(crate) const RECORDS_MOST: usize = 100;
/// The largest header that is read here, bytes.
const HEADER_MOST: u64 = 64 << 20;

/// A record that is to go.
#[derive(Debug, Serialize)]
pub(crate) struct Doomed {
    pub(crate) name: String,
    files: usize,
    /// Links, pipes and whatever else is no file. They go themselves; what a link leads to stays.
    others: usize,
    bytes: u64,
    /// Differs when anything in it has changed, or something else is said of it.
    #[serde(skip)]
    mark: u64,
    size: String,
    /// What is said of it and of its parts, which goes with it.
    pub(crate) said: Noted,
    /// Why it stays after all; empty if it does not.
    pub(crate) why: String,
}

/// Of a header, whose record it is.
#[derive(Deserialize)]
struct Identity {
    run: String,
}

/// The page that says what goes; none if nothing of what is named is there. `noted` is what is said of records, and
/// `changed` what has happened since it was said last.
///
/// # Errors
/// When the page cannot be filled in.
pub(crate) fn page(
    pages: &Pages,
    shelf: &Shelf,
    live: &[String],
    noted: &Noted,
    query: &Query,
    changed: &str,
) -> Result<Option<String>, Fault> {
    let all = doomed(shelf, live, noted, query);
    if all.is_empty() {
        return Ok(None);
    }
    let (go, stay): (Vec<Doomed>, Vec<Doomed>) = all.into_iter().partition(|one| one.why.is_empty());
    let content = context! {
        title => "Delete", bar => bar(""), changes => true, seen => plain(seen(&go)), changed => plain(changed),
        size => plain(show_bytes(go.iter().map(|one| one.bytes).sum())),
        files => plain(go.iter().map(|one| one.files).sum::<usize>()), most => plain(RECORDS_MOST),
        too_many => go.len() > RECORDS_MOST, go => plain(go), stay => plain(stay),
        unknown => plain(unknown(shelf, query)),
    };
    pages.fill("delete", content).map(Some)
}

/// The names among those asked for that are of no record.
pub(crate) fn unknown<'a>(shelf: &Shelf, query: &'a Query) -> BTreeSet<&'a str> {
    query.all("run").filter(|name| shelf.record(name).is_none()).collect()
}

/// What the named records hold, by name, as far as they are there. One that lies in another one of them goes with that.
pub(crate) fn doomed(shelf: &Shelf, live: &[String], noted: &Noted, query: &Query) -> Vec<Doomed> {
    let mut names: Vec<&str> = query.all("run").collect();
    names.sort_unstable();
    names.dedup();
    let is_within = |name: &str| name.split_once('/').is_some_and(|(folder, _)| names.contains(&folder));
    let apart = names.iter().filter(|name| !is_within(name));
    apart.filter_map(|name| Some(doomed_of(shelf, live, noted, name, &shelf.record(name)?))).collect()
}

fn doomed_of(shelf: &Shelf, live: &[String], noted: &Noted, name: &str, record: &Shelved) -> Doomed {
    let (mut files, mut others, mut bytes) = (0, 0, 0_u64);
    let mut marks = DefaultHasher::new();
    let listed = each(record.contents(), &mut |item| {
        item.mark(&mut marks);
        match item.kind {
            FileType::RegularFile => files += 1,
            FileType::Directory => {}
            _ => others += 1,
        }
        bytes = bytes.saturating_add(item.bytes);
        Ok(())
    });
    let said = of_record(noted, name);
    said.hash(&mut marks);
    let why = match listed {
        _ if goes_on(shelf, live, name) => "the run is in progress".to_owned(),
        Err(error) => format!("it cannot be said what goes: {error}"),
        Ok(()) => String::new(),
    };
    Doomed { name: name.to_owned(), files, others, bytes, mark: marks.finish(), size: show_bytes(bytes), said, why }
}

/// Whether its run goes on, or that of another part of its folder.
fn goes_on(shelf: &Shelf, live: &[String], name: &str) -> bool {
    shelf.with_parts(name).iter().any(|part| match shelf.record(part).as_ref().and_then(run_of) {
        Some(run) => live.contains(&run),
        // Nobody knows whose it is: the names of records end with their runs' ids.
        None => live.iter().any(|run| !run.is_empty() && part.contains(run.as_str())),
    })
}

fn run_of(record: &Shelved) -> Option<String> {
    let file = record.file("record.json")?.take(HEADER_MOST);
    serde_json::from_reader::<_, Identity>(BufReader::new(file)).ok().map(|identity| identity.run)
}

/// What was said of them, in short: by this it is told whether it is still so.
pub(crate) fn seen(all: &[Doomed]) -> String {
    let of = |one: &Doomed| format!("{} {} {} {:x} {}", one.files, one.others, one.bytes, one.mark, one.name);
    all.iter().map(of).collect::<Vec<_>>().join("/ ")
}
