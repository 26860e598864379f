//! The page "Compare": two records side by side, by the code of `tare compare`. Its address says which.

use crate::entry::Entry;
use crate::index::{Index, PAGE, Wanted};
use crate::pages::{Pages, bar, plain};
use crate::query::Query;
use crate::shelf::Shelf;
use crate::surroundings::Surroundings;
use minijinja::context;
use serde::Serialize;
use tare_core::fault::Fault;
use tare_core::record::Record;
use tare_report::{ChangeWords, Comparison, comparison};

/// The changes of a form.
#[derive(Serialize)]
struct Form {
    form: String,
    changes: Vec<ChangeWords>,
}

/// The page. `run` is in its address twice; the record that started first is the one before, unless `swap` is there.
///
/// # Errors
/// When a record is missing or cannot be read, or the history cannot be.
pub(crate) fn page(
    pages: &Pages,
    index: &Index,
    shelf: &Shelf,
    surroundings: &dyn Surroundings,
    query: &Query,
) -> Result<String, Fault> {
    let names: Vec<&str> = query.all("run").collect();
    let listed = index.list(&Wanted::default(), &[])?;
    let latest = (listed.count > PAGE).then_some(PAGE);
    let choices = listed.entries;
    let mut choices: Vec<(String, String)> =
        choices.iter().filter(|entry| entry.fault.is_empty()).map(choice).collect();
    // The list has the latest records only, but an address may name any.
    for name in names.iter().filter(|name| shelf.record(name).is_some()) {
        if !choices.iter().any(|(known, _)| known == name) {
            choices.push(((*name).to_owned(), (*name).to_owned()));
        }
    }
    let [one, other] = names[..] else {
        let content = context! {
            title => "Compare", bar => bar("/compare"), script => "compare.js", choices => plain(choices),
            too_many => names.len() > 2, one => plain(names.first()), latest => plain(latest),
        };
        return pages.fill("compare", content);
    };
    let (one, other) = ((one, read(shelf, one)?), (other, read(shelf, other)?));
    let is_later = one.1.header.started > other.1.header.started;
    let is_swapped = query.one("swap").is_some();
    let (before, after) = if is_later == is_swapped { (one, other) } else { (other, one) };
    let occasions = surroundings.occasions(&before.1.header, &after.1.header)?;
    let compared = comparison(&before.1, &after.1, &occasions);
    let content = context! {
        title => "Compare", bar => bar("/compare"), script => "compare.js", choices => plain(choices),
        latest => plain(latest),
        before => plain(before.0), after => plain(after.0), compared => plain(&compared),
        forms => plain(by_form(&compared)), markdown => plain(compared.markdown()),
        swap => if is_swapped { query.with("swap", "") } else { query.with("swap", "yes") },
    };
    pages.fill("compare", content)
}

fn choice(entry: &Entry) -> (String, String) {
    let day = entry.started.get(..16).unwrap_or_default().replace('T', " ");
    (entry.name.clone(), format!("{day} {} {} [{}]", entry.study, entry.part, entry.run))
}

fn read(shelf: &Shelf, name: &str) -> Result<Record, Fault> {
    let missing = || Fault::new(format!("there is no record '{name}' here")).remedy("choose one of the list");
    shelf.record(name).ok_or_else(missing)?.read()
}

fn by_form(compared: &Comparison) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    for change in &compared.changes {
        match forms.last_mut().filter(|last| last.form == change.form) {
            Some(last) => last.changes.push(change.clone()),
            None => forms.push(Form { form: change.form.clone(), changes: vec![change.clone()] }),
        }
    }
    forms
}
