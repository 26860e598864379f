//! The page on which tags and the note of a record are edited, and the line about them above a report.

use crate::notes::{Note, Notes, TAG_MOST, TAGS_MOST, TEXT_MOST};
use crate::pages::{Pages, bar, plain};
use crate::query::Query;
use crate::shelf::Shelf;
use minijinja::context;
use tare_core::fault::Fault;

/// The page; none if there is no such record.
///
/// # Errors
/// When the notes cannot be read.
pub(crate) fn page(pages: &Pages, shelf: &Shelf, notes: &Notes, query: &Query) -> Result<Option<String>, Fault> {
    let Some(name) = query.one("run").filter(|name| shelf.record(name).is_some()) else { return Ok(None) };
    let note = notes.all(shelf)?.get(name).cloned().unwrap_or_default();
    let content = context! {
        title => "Tags and note", bar => bar(""), changes => true, name => plain(name),
        tags => plain(note.tags.join(", ")), text => plain(note.text), back => plain(query.one("back")),
        tags_most => plain(TAGS_MOST), tag_most => plain(TAG_MOST), text_most => plain(TEXT_MOST),
    };
    pages.fill("notes", content).map(Some)
}

/// What stands above the report of a record, as markup.
///
/// # Errors
/// When it cannot be filled in.
pub(crate) fn of_run(pages: &Pages, name: &str, note: &Note, has_timeline: bool) -> Result<String, Fault> {
    pages.fill("of-run", context! { name => plain(name), note => plain(note), has_timeline => has_timeline })
}
