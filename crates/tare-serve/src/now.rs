//! The page "Now": the run that goes on, as server-sent events made from the files that it writes anyway.

use crate::follow::{Followed, News, Said};
use crate::index::{Index, RUNNING, Wanted};
use crate::pages::{Pages, bar, plain, safe};
use crate::query::Query;
use crate::shelf::{Shelf, Shelved};
use crate::stopping::{Stopping, in_sentences, may_ask};
use crate::surroundings::Surroundings;
use crate::tail::{Piece, Tail};
use bytes::Bytes;
use minijinja::context;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::record::Header;
use tokio::sync::mpsc::Sender;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a browser is told that nothing happened, so that one that has gone is noticed; and whether the run lives
/// is asked.
const BREATH_EVERY: Duration = Duration::from_secs(5);
/// For how many looks the event that a run has ended is waited for, once the record says so.
const PATIENCE: u32 = 4;
/// The largest header and the largest trial that are read here, bytes.
const JSON_MOST: u64 = 64 << 20;
/// The events of a record.
const EVENTS: &str = "events.jsonl";

/// What a trial warns of.
#[derive(Deserialize)]
struct Warnings {
    #[serde(default)]
    warnings: Vec<String>,
}

/// The name of the record that is followed: the one asked for, else that of the latest run that goes on.
///
/// # Errors
/// When the index cannot be read.
pub(crate) fn followed(index: &Index, query: &Query, live: &[String]) -> Result<Option<String>, Fault> {
    if let Some(name) = query.one("run") {
        return Ok(Some(name.to_owned()));
    }
    if live.is_empty() {
        return Ok(None);
    }
    let running = index.list(&Wanted { state: Some(RUNNING), ..Wanted::default() }, live)?;
    Ok(running.entries.into_iter().next().map(|entry| entry.name))
}

/// The page, before anything has been told.
///
/// # Errors
/// When the record is missing or its header cannot be read.
pub(crate) fn page(
    pages: &Pages,
    shelf: &Shelf,
    surroundings: &dyn Surroundings,
    name: Option<&str>,
) -> Result<String, Fault> {
    let Some(name) = name else {
        let content = context! { title => "Now", bar => bar("/now"), script => "now.js" };
        return pages.fill("now", content);
    };
    let shelved = recorded(shelf, name)?;
    let header = header(&shelved)?;
    // A record is there a moment before its run is known to be in progress. Whoever asks it to end then is told.
    let is_known = shelved.has_ended() || surroundings.live_runs().contains(&header.run);
    let may = if is_known { may_ask(surroundings, &shelved, &header.run) } else { Ok(()) };
    let barred = may.err().map(|fault| in_sentences(&fault));
    let looks = Followed::of(&header).looks;
    let arms: Vec<Value> = looks
        .names()
        .map(|arm| json!({ "arm": arm, "class": looks.key_class(arm), "emulated": looks.is_emulated(arm) }))
        .collect();
    let content = context! {
        title => "Now", bar => bar("/now"), script => "now.js", name => plain(name), run => plain(&header.run),
        study => plain(&header.study.name), question => plain(&header.study.question),
        workload => plain(&header.workload.name), baseline => plain(&header.study.baseline),
        started => plain(&header.started), arms => plain(arms), hatches => safe(tare_report::hatches()),
        barred => plain(barred),
    };
    pages.fill("now", content)
}

/// The record of this name.
fn recorded(shelf: &Shelf, name: &str) -> Result<Shelved, Fault> {
    let missing = || Fault::new(format!("there is no record '{name}' here")).remedy("choose one of the list");
    shelf.record(name).ok_or_else(missing)
}

/// Asks the run of the record that the address names to end; returns what comes of it, in words.
///
/// # Errors
/// Why it was not asked.
pub(crate) fn end(
    stopping: &Stopping,
    shelf: &Shelf,
    surroundings: &dyn Surroundings,
    query: &Query,
) -> Result<&'static str, Fault> {
    let shelved = recorded(shelf, query.one("run").unwrap_or_default())?;
    stopping.ask(surroundings, &shelved, &header(&shelved)?.run, query.one("when"))
}

fn header(shelved: &Shelved) -> Result<Header, Fault> {
    let damaged = || Fault::new("the record.json of this record cannot be read").remedy("choose another one");
    let file = shelved.file("record.json").ok_or_else(damaged)?;
    serde_json::from_reader(std::io::BufReader::new(std::io::Read::take(file, JSON_MOST))).map_err(|_| damaged())
}

/// Follows a record until its run or the browser has ended: all there is first, then what comes. Blocks its thread.
pub(crate) fn follow(
    pages: &Pages,
    shelf: &Shelf,
    surroundings: &Arc<dyn Surroundings>,
    name: &str,
    browser: &Sender<Bytes>,
) {
    let Some(shelved) = shelf.record(name) else { return };
    let Ok(header) = header(&shelved) else { return };
    let mut told = Telling { pages, browser, followed: Followed::of(&header) };
    let mut events = None;
    let (mut is_first, mut breath, mut patience) = (true, Instant::now(), PATIENCE);
    loop {
        // Before the events, so that none of them is missed.
        let has_ended = shelved.has_ended();
        events = events.or_else(|| shelved.file(EVENTS).map(Tail::of));
        if let Some(events) = &mut events
            && !told.read(events)
        {
            return;
        }
        let mut news = told.followed.news();
        told.warnings(&shelved, &news);
        news.said.extend(told.followed.news().said);
        let mut is_there = if is_first { told.all() } else { told.news(&news) };
        is_first = false;
        if is_there && breath.elapsed() >= BREATH_EVERY {
            breath = Instant::now();
            is_there = browser.blocking_send(Bytes::from_static(b": still here\n\n")).is_ok();
            if !has_ended && !surroundings.live_runs().contains(&header.run) {
                told.tell("stopped", &json!({}));
            }
        }
        // The event that says so is written a moment after the file.
        patience = patience.saturating_sub(u32::from(has_ended));
        if !is_there || has_ended && (told.followed.at.ended.is_some() || patience == 0) {
            told.tell("end", &json!({}));
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Telling a browser.
struct Telling<'a> {
    pages: &'a Pages,
    browser: &'a Sender<Bytes>,
    followed: Followed,
}

impl Telling<'_> {
    /// Takes in all that there is; returns whether the browser is still there.
    fn read(&mut self, events: &mut Tail) -> bool {
        loop {
            match events.piece() {
                Ok(Piece::Lines(lines)) => lines.iter().for_each(|line| self.followed.note(line)),
                Ok(Piece::Beyond) => {
                    let at = self.followed.at.told_at.clone();
                    let text = "these events are longer than 1 GiB: what comes after that is not shown here";
                    self.followed.say(&at, "warning", text, "");
                }
                Ok(Piece::End) | Err(_) => return true,
            }
            if self.browser.is_closed() {
                return false;
            }
        }
    }

    /// Sends an event; returns whether the browser is still there.
    fn tell(&self, event: &str, data: &Value) -> bool {
        // JSON has no line feeds of its own, which would end the event.
        self.browser.blocking_send(Bytes::from(format!("event: {event}\ndata: {data}\n\n"))).is_ok()
    }

    /// Everything there is, for who has just come.
    fn all(&self) -> bool {
        let mut said: Vec<&Said> = self.followed.said().collect();
        // What trials warn of was read at the end.
        said.sort_by(|one, other| one.at.cmp(&other.at));
        self.tell("begin", &json!({}))
            && self.whereabouts()
            && self.ratios()
            && self.followed.arms().all(|arm| self.seconds(arm))
            && said.iter().all(|said| self.tell("said", &json!(said)))
    }

    fn news(&self, news: &News) -> bool {
        // With each trial the scales may have changed, which all arms share.
        let mut arms = self.followed.arms().filter(|arm| news.has_ratios || news.seconds.contains(*arm));
        (!news.is_elsewhere || self.whereabouts())
            && (!news.has_ratios || self.ratios())
            && arms.all(|arm| self.seconds(arm))
            && news.said.iter().all(|said| self.tell("said", &json!(said)))
    }

    fn whereabouts(&self) -> bool {
        self.tell("state", &json!(self.followed.at))
    }

    fn ratios(&self) -> bool {
        let ratios = self.followed.so_far.ratios();
        let looks = &self.followed.looks;
        let rows = looks.names().filter_map(|arm| ratios.iter().find(|ratio| ratio.arm == arm)).map(|ratio| {
            json!({
                "arm": ratio.arm, "class": looks.key_class(&ratio.arm), "emulated": looks.is_emulated(&ratio.arm),
                "blocks": ratio.blocks, "figure": ratio.text(), "has_interval": ratio.interval.is_some(),
            })
        });
        let rows: Vec<Value> = rows.collect();
        let drawing = safe(looks.ratios(&self.followed.so_far));
        match self.pages.fill("so-far", context! { rows => plain(rows), drawing => drawing }) {
            Ok(html) => self.tell("ratios", &json!({ "html": html })),
            Err(_) => true,
        }
    }

    fn seconds(&self, arm: &str) -> bool {
        self.tell("seconds", &json!({ "arm": arm, "html": self.followed.drawn(arm) }))
    }

    /// Says what the trials that have ended warn of.
    fn warnings(&mut self, shelved: &Shelved, news: &News) {
        for (index, at) in &news.ended {
            let Some(file) = shelved.file(&format!("trials/{index:04}/trial.json")) else { continue };
            let file = std::io::BufReader::new(std::io::Read::take(file, JSON_MOST));
            let Ok(Warnings { warnings }) = serde_json::from_reader(file) else { continue };
            for warning in warnings {
                self.followed.say(at, "warning", &format!("trial {index}: {warning}"), "");
            }
        }
    }
}
