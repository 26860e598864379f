//! The page "Compare": records side by side, by the code of `tare compare`. Its address says which.

use crate::entry::Entry;
use crate::index::{Index, PAGE, Wanted};
use crate::pages::{Pages, bar, plain};
use crate::query::Query;
use crate::shelf::Shelf;
use crate::surroundings::Surroundings;
use minijinja::{Value, context};
use serde::Serialize;
use tare_core::fault::Fault;
use tare_core::record::{Header, Record};
use tare_report::{RunWords, Several, SeveralRow, Weighed, comparison, several};

/// Runs beside each other, at most: more columns than this cannot be read.
pub(crate) const RUNS_MOST: usize = 8;

/// What is said of a form.
#[derive(Serialize)]
struct Rows {
    form: String,
    rows: Vec<SeveralRow>,
}

/// One of the runs, as it is introduced.
#[derive(Serialize)]
struct Side {
    label: String,
    name: String,
    run: RunWords,
    /// The address of the same page with this run as the reference.
    first: String,
}

/// The page. `run` is in its address for each of the runs, which stand by their start. Of two, `swap` makes the later
/// one the one before; of more, `first` names the reference.
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
    let mut names: Vec<&str> = Vec::new();
    for name in query.all("run") {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let (choices, latest) = choices(index, shelf, &names)?;
    let compared = match names[..] {
        [one, other] => two(shelf, surroundings, query, one, other)?,
        [_, _, ..] if names.len() <= RUNS_MOST => many(shelf, surroundings, query, &names)?,
        _ => context! { chosen => plain(&names[..names.len().min(RUNS_MOST)]) },
    };
    let content = context! {
        title => "Compare", bar => bar("/compare"), script => "compare.js", choices => plain(choices),
        latest => plain(latest), most => plain(RUNS_MOST), too_many => names.len() > RUNS_MOST, ..compared
    };
    pages.fill("compare", content)
}

/// What there is to choose from, name and words, and how many there are if those are not all.
type Choices = (Vec<(String, String)>, Option<usize>);

fn choices(index: &Index, shelf: &Shelf, names: &[&str]) -> Result<Choices, Fault> {
    let listed = index.list(&Wanted::default(), &[])?;
    let latest = (listed.count > PAGE).then_some(PAGE);
    let sound = listed.entries.iter().filter(|entry| entry.fault.is_empty());
    let mut choices: Vec<(String, String)> = sound.map(choice).collect();
    // The list has the latest records only, but an address may name any.
    for name in names.iter().filter(|name| shelf.record(name).is_some()) {
        if !choices.iter().any(|(known, _)| known == name) {
            choices.push(((*name).to_owned(), (*name).to_owned()));
        }
    }
    Ok((choices, latest))
}

fn two(shelf: &Shelf, surroundings: &dyn Surroundings, query: &Query, one: &str, other: &str) -> Result<Value, Fault> {
    let (one, other) = ((one, read(shelf, one)?), (other, read(shelf, other)?));
    let is_later = one.1.header.started > other.1.header.started;
    let is_swapped = query.one("swap").is_some();
    let (before, after) = if is_later == is_swapped { (one, other) } else { (other, one) };
    let occasions = surroundings.occasions(&before.1.header, &after.1.header)?;
    let compared = comparison(&before.1, &after.1, &occasions);
    let swap = if is_swapped { query.with("swap", "") } else { query.with("swap", "yes") };
    Ok(context! { swap => swap, ..content(query, &[before.0, after.0], &compared) })
}

fn many(shelf: &Shelf, surroundings: &dyn Surroundings, query: &Query, names: &[&str]) -> Result<Value, Fault> {
    let mut runs: Vec<(&str, Header, Weighed)> = Vec::new();
    for &name in names {
        let record = read(shelf, name)?;
        runs.push((name, record.header.clone(), Weighed::of(&record)));
    }
    // The reference comes first, the others by their start.
    let first = query.one("first");
    runs.sort_by(|(one, a, _), (other, b, _)| {
        let is_behind = |name: &str| Some(name) != first;
        (is_behind(one), &a.started).cmp(&(is_behind(other), &b.started))
    });
    let mut occasions = Vec::new();
    for (_, header, _) in &runs[1..] {
        occasions.push(surroundings.occasions(&runs[0].1, header)?);
    }
    let chosen: Vec<&str> = runs.iter().map(|(name, ..)| *name).collect();
    let weighed: Vec<Weighed> = runs.into_iter().map(|(_, _, weighed)| weighed).collect();
    let compared = several(&weighed, &occasions);
    Ok(content(query, &chosen, &compared))
}

/// What the page shows of runs of these names.
fn content(query: &Query, names: &[&str], compared: &Several) -> Value {
    let runs = names.iter().zip(&compared.labels).zip(&compared.runs);
    let sides = runs.map(|((name, label), run)| Side {
        label: label.clone(),
        name: (*name).to_owned(),
        run: run.clone(),
        first: query.with("first", name),
    });
    context! {
        chosen => plain(names), sides => plain(sides.collect::<Vec<_>>()), markdown => plain(compared.markdown()),
        parts => plain(parts(&compared.rows)), compared => plain(compared),
    }
}

fn choice(entry: &Entry) -> (String, String) {
    let day = entry.started.get(..16).unwrap_or_default().replace('T', " ");
    (entry.name.clone(), format!("{day} {} {} [{}]", entry.study, entry.part, entry.run))
}

fn read(shelf: &Shelf, name: &str) -> Result<Record, Fault> {
    let missing = || Fault::new(format!("there is no record '{name}' here")).remedy("choose one of the list");
    shelf.record(name).ok_or_else(missing)?.read()
}

fn parts(rows: &[SeveralRow]) -> Vec<Rows> {
    let of_form = rows.chunk_by(|one, other| one.form == other.form);
    of_form.map(|rows| Rows { form: rows[0].form.clone(), rows: rows.to_vec() }).collect()
}
