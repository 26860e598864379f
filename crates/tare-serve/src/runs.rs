//! The page "Runs": all records, with search and filters, which are in its address.

use crate::compared::RUNS_MOST;
use crate::entry::{Entry, UNREADABLE};
use crate::index::{Index, PAGE, RUNNING, UNFINISHED, Wanted};
use crate::notes::{Note, Noted, holding, tagged, tags_of};
use crate::pages::{Pages, bar, plain};
use crate::query::Query;
use crate::wanted::TO_COME;
use minijinja::{Value, context};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use tare_core::fault::Fault;

/// Words of a search, at most.
const WORDS: usize = 16;

/// A record as a row shows it.
#[derive(Serialize)]
struct Row {
    entry: Entry,
    note: Note,
    /// Date and time, in words.
    day: String,
    time: String,
    state: String,
    /// The class of the state.
    mood: &'static str,
}

impl Row {
    /// `folders` are those of several parts of which one goes on.
    fn of(entry: Entry, noted: &Noted, live: &[String], folders: &BTreeSet<String>) -> Row {
        let is_to_come = entry.name.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
        let state = match entry.ended.as_str() {
            "" if live.contains(&entry.run) => RUNNING,
            "" if is_to_come => TO_COME,
            "" => UNFINISHED,
            ended => ended,
        };
        let mood = match state {
            RUNNING => "live",
            UNREADABLE => "bad",
            UNFINISHED | "interrupted" | "budget spent" => "cut",
            _ => "whole",
        };
        let part = |from: usize, to: usize| entry.started.get(from..to).unwrap_or_default().to_owned();
        let note = noted.get(&entry.name).map(Note::bounded).unwrap_or_default();
        Row { day: part(0, 10), time: part(11, 16), state: state.to_owned(), mood, note, entry }
    }
}

/// The page, or only its list where the script asks for it. What could not be read of notes is told in it.
///
/// # Errors
/// When the index cannot be read.
pub(crate) fn page(
    pages: &Pages,
    index: &Index,
    query: &Query,
    live: &[String],
    noted: &Result<Arc<Noted>, Fault>,
) -> Result<String, Fault> {
    let (none, no_trouble) = (Noted::new(), String::new());
    let (noted, trouble) = match noted {
        Ok(noted) => (&**noted, no_trouble),
        Err(fault) => (&none, fault.to_string()),
    };
    let list = context! { notes_trouble => plain(trouble), ..list(index, query, live, noted)? };
    if query.one("part") == Some("list") {
        return pages.fill("list", list);
    }
    let content = context! {
        title => "Runs", bar => bar("/"), script => "runs.js", choices => plain(index.choices()?),
        q => plain(query.one("q")), study => plain(query.one("study")), form => plain(query.one("form")),
        machine => plain(query.one("machine")), state => plain(query.one("state")), from => plain(query.one("from")),
        to => plain(query.one("to")), tag => plain(query.one("tag")),
        tags => plain(tags_of(noted, &index.listed(noted.keys())?)),
        ..list
    };
    pages.fill("runs", content)
}

fn list(index: &Index, query: &Query, live: &[String], noted: &Noted) -> Result<Value, Fault> {
    let words: Vec<String> =
        query.one("q").unwrap_or_default().split_whitespace().take(WORDS).map(str::to_owned).collect();
    let page = query.one("page").and_then(|page| page.parse::<usize>().ok()).unwrap_or(1).max(1);
    let wanted = Wanted {
        noted: words.iter().map(|word| holding(noted, word)).collect(),
        words,
        tagged: query.one("tag").map(|tag| tagged(noted, tag)),
        study: query.one("study"),
        form: query.one("form"),
        machine: query.one("machine"),
        state: query.one("state"),
        from: query.one("from"),
        to: query.one("to"),
        page: page - 1,
    };
    let (progress, unreadable) = (index.progress(), index.unreadable()?);
    let listed = index.list(&wanted, live)?;
    let folders = live_folders(index, live)?;
    let pages = listed.count.div_ceil(PAGE).max(1);
    let is_narrowed =
        ["q", "study", "form", "machine", "state", "from", "to", "tag"].iter().any(|name| query.one(name).is_some());
    let rows: Vec<Row> = listed.entries.into_iter().map(|entry| Row::of(entry, noted, live, &folders)).collect();
    let other = |page: usize| query.with("page", &page.to_string());
    Ok(context! {
        here => plain(query.whole()), most => plain(RUNS_MOST),
        rows => plain(rows), count => plain(listed.count), page => plain(page), pages => plain(pages),
        is_narrowed => is_narrowed, before => plain((page > 1).then(|| other(page - 1))),
        after => plain((page < pages).then(|| other(page + 1))), busy => progress.is_busy(),
        done => plain(progress.done), of => plain(progress.of), unnamed => plain(progress.unnamed),
        unreadable => plain(unreadable), closed => plain(progress.closed), trouble => plain(&progress.trouble),
    })
}

/// The folders of several parts of which one goes on.
fn live_folders(index: &Index, live: &[String]) -> Result<BTreeSet<String>, Fault> {
    if live.is_empty() {
        return Ok(BTreeSet::new());
    }
    let running = index.list(&Wanted { state: Some(RUNNING), ..Wanted::default() }, live)?.entries;
    Ok(running.iter().filter_map(|entry| entry.name.split_once('/')).map(|(folder, _)| folder.to_owned()).collect())
}
