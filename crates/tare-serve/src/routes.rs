//! Which address shows what.

use crate::answer::{self, Answer};
use crate::guard::Guard;
use crate::index::Index;
use crate::pages::{ASSETS, Pages};
use crate::query::{Query, decoded};
use crate::reports::Reports;
use crate::shelf::Shelf;
use crate::surroundings::Surroundings;
use crate::{compared, now, runs};
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode, Uri};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use tare_core::fault::Fault;

/// Browsers that follow runs at the same time, each with a thread.
const FOLLOWERS_MOST: usize = 32;
/// Events that wait for a browser. One that takes none for long only holds its own thread up.
const EVENTS_WAITING: usize = 64;

/// For who comes without the key.
const NOT_LET_IN: &str = "Not let in: this address does not hold the key that is in the link printed by `tare serve`.\n\
    To do: open that link; each start of `tare serve` makes a new one.\n";

/// What all answers are made from.
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) shelf: Shelf,
    pub(crate) index: Index,
    pub(crate) pages: Pages,
    pub(crate) reports: Reports,
    pub(crate) surroundings: Arc<dyn Surroundings>,
    /// Asks for the folder to be looked through again.
    pub(crate) ask: SyncSender<()>,
    /// Records are large: one is read at a time.
    pub(crate) reading: Mutex<()>,
    pub(crate) followers: AtomicUsize,
}

/// Answers a request.
pub(crate) async fn answer(site: Arc<Site>, method: Method, uri: Uri, headers: HeaderMap) -> Answer {
    if let Err(refusal) = site.guard.admit(&method, &headers) {
        return answer::refused(refusal.status, format!("Refused: {}.\n", refusal.why));
    }
    let Some(path) = site.guard.behind_key(uri.path()) else {
        return answer::refused(StatusCode::FORBIDDEN, NOT_LET_IN.to_owned());
    };
    if let Some(name) = path.strip_prefix("/assets/") {
        let asset = ASSETS.iter().find(|(known, ..)| *known == name);
        return asset.map_or_else(|| missing(&site), |&(_, kind, text)| answer::asset(kind, text));
    }
    let (path, query) = (path.to_owned(), Query::of(uri.query()));
    let made_by = site.clone();
    let made = tokio::task::spawn_blocking(move || made_by.route(&path, &query)).await;
    made.unwrap_or_else(|_| {
        let fault = Fault::new("something in this record made Tare stumble; the terminal of `tare serve` says where");
        site.pages.problem(StatusCode::INTERNAL_SERVER_ERROR, "Cannot be shown", &fault)
    })
}

fn missing(site: &Site) -> Answer {
    let fault = Fault::new("there is no such page or record").remedy("choose one of the list of runs");
    site.pages.problem(StatusCode::NOT_FOUND, "Not found", &fault)
}

impl Site {
    fn route(self: Arc<Site>, path: &str, query: &Query) -> Answer {
        let html = match path {
            "/" => {
                // If it is asked already, once is enough.
                let _ = self.ask.try_send(());
                runs::page(&self.pages, &self.index, query, &self.surroundings.live_runs())
            }
            "/compare" => {
                let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
                compared::page(&self.pages, &self.index, &self.shelf, self.surroundings.as_ref(), query)
            }
            "/now" => {
                let _ = self.ask.try_send(());
                self.now(query).and_then(|name| now::page(&self.pages, &self.shelf, name.as_deref()))
            }
            "/now/events" => return self.events(query),
            path => return self.report(path),
        };
        match html {
            Ok(html) => answer::page(StatusCode::OK, html),
            Err(fault) => self.pages.problem(StatusCode::UNPROCESSABLE_ENTITY, "Cannot be shown", &fault),
        }
    }

    fn now(&self, query: &Query) -> Result<Option<String>, Fault> {
        now::followed(&self.index, query, &self.surroundings.live_runs())
    }

    fn report(&self, path: &str) -> Answer {
        let Some(name) = path.strip_prefix("/run/").and_then(decoded) else { return missing(self) };
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        match self.reports.of(&self.shelf, &name, &self.guard.base()) {
            Ok(Some(html)) => answer::report(html),
            Ok(None) => missing(self),
            Err(fault) => self.pages.problem(StatusCode::UNPROCESSABLE_ENTITY, "Cannot be read", &fault),
        }
    }

    fn events(self: Arc<Site>, query: &Query) -> Answer {
        let name = match self.now(query) {
            Ok(Some(name)) if self.shelf.record(&name).is_some() => name,
            _ => return missing(&self),
        };
        let site = self.clone();
        let (sender, receiver) = tokio::sync::mpsc::channel(EVENTS_WAITING);
        if self.followers.fetch_add(1, Ordering::Relaxed) >= FOLLOWERS_MOST {
            self.followers.fetch_sub(1, Ordering::Relaxed);
            let fault = Fault::new(format!("{FOLLOWERS_MOST} browsers follow runs already")).remedy("close some pages");
            return self.pages.problem(StatusCode::SERVICE_UNAVAILABLE, "Too many", &fault);
        }
        let started = std::thread::Builder::new().name("follow".to_owned()).spawn(move || {
            let _counted = Counted(&site.followers);
            now::follow(&site.pages, &site.shelf, &site.surroundings, &name, &sender);
        });
        match started {
            Ok(_) => answer::events(receiver),
            Err(error) => {
                self.followers.fetch_sub(1, Ordering::Relaxed);
                let fault = Fault::from_error("start a thread", &error);
                self.pages.problem(StatusCode::SERVICE_UNAVAILABLE, "Cannot be shown", &fault)
            }
        }
    }
}

/// A follower, counted until it ends, however it does.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
