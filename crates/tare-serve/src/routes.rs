//! Which address shows what.

use crate::answer::{self, Answer};
use crate::guard::Guard;
use crate::history::{self, FoundChanges};
use crate::index::Index;
use crate::new_runs::{NEW_RUN, NewRuns};
use crate::notes::{Note, Noted, Notes};
use crate::pages::{ASSETS, Pages, bar_markup};
use crate::query::{Query, decoded};
use crate::reports::Reports;
use crate::shelf::Shelf;
use crate::stopping::Stopping;
use crate::surroundings::Surroundings;
use crate::{compared, deleting, export, noted, now, runs, timeline};
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode, Uri};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use tare_core::fault::Fault;
use tokio::sync::Semaphore;

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
    pub(crate) found: FoundChanges,
    pub(crate) notes: Notes,
    pub(crate) surroundings: Arc<dyn Surroundings>,
    pub(crate) stopping: Stopping,
    /// Asks for the folder to be looked through again.
    pub(crate) ask: SyncSender<()>,
    /// Records are large: one is read at a time for reports and comparisons, and another one for the index. Who waits
    /// for it holds no thread, so that other pages come meanwhile.
    pub(crate) reading: Arc<Semaphore>,
    pub(crate) followers: AtomicUsize,
    /// Archives that may be made at the same time.
    pub(crate) exports: Arc<Semaphore>,
    /// What starts runs, if this server may.
    pub(crate) new_runs: Option<NewRuns>,
}

/// Answers a request. `is_known` becomes true if it brings the key.
pub(crate) async fn answer(
    site: Arc<Site>,
    is_known: &AtomicBool,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    if let Err(refusal) = site.guard.admit(&method, &headers) {
        return answer::refused(refusal.status, format!("Refused: {}.\n", refusal.why));
    }
    let Some(path) = site.guard.behind_key(uri.path()) else {
        return answer::refused(StatusCode::FORBIDDEN, NOT_LET_IN.to_owned());
    };
    is_known.store(true, Ordering::Relaxed);
    if method == Method::POST {
        return answer::refused(StatusCode::METHOD_NOT_ALLOWED, "Refused: this page is only read.\n".to_owned());
    }
    if let Some(name) = path.strip_prefix("/assets/") {
        let asset = ASSETS.iter().find(|(known, ..)| *known == name);
        return asset.map_or_else(|| missing(&site), |&(_, kind, text)| answer::asset(kind, text));
    }
    let (path, query) = (path.to_owned(), Query::of(uri.query()));
    let reads = path.starts_with("/run/") || ["/compare", "/timeline", "/trial"].contains(&path.as_str());
    let turn = match &site.new_runs {
        Some(new_runs) if path == NEW_RUN => Some(new_runs.turn()),
        _ => reads.then(|| site.reading.clone()),
    };
    let turn = match turn {
        Some(turn) => turn.acquire_owned().await.ok(),
        None => None,
    };
    let made_by = site.clone();
    let made = tokio::task::spawn_blocking(move || {
        // Kept until it is made, even if the browser has gone.
        let _turn = turn;
        made_by.route(&path, &query)
    });
    let made = made.await;
    made.unwrap_or_else(|_| {
        let fault = Fault::new("something in this record made Tare stumble; the terminal of `tare serve` says where");
        site.pages.problem(StatusCode::INTERNAL_SERVER_ERROR, "Cannot be shown", &fault)
    })
}

/// A page that says that what is asked for is not there.
pub(crate) fn missing(site: &Site) -> Answer {
    let fault = Fault::new("there is no such page or record").remedy("choose one of the list of runs");
    site.pages.problem(StatusCode::NOT_FOUND, "Not found", &fault)
}

impl Site {
    fn route(self: Arc<Site>, path: &str, query: &Query) -> Answer {
        let html = match path {
            "/" => {
                // Whoever only waits for the look that was asked for does not ask for another one.
                if query.one("again").is_none() {
                    self.look();
                }
                let live = self.surroundings.live_runs();
                runs::page(&self.pages, &self.index, query, &live, &self.notes.all(&self.shelf))
            }
            "/notes" => return self.maybe(noted::page(&self.pages, &self.shelf, &self.notes, query)),
            "/delete" => {
                let live = self.surroundings.live_runs();
                return self.maybe(deleting::page(&self.pages, &self.shelf, &live, &self.noted(), query, ""));
            }
            "/timeline" => return self.maybe(timeline::page(&self.pages, &self.shelf, &self.guard.base(), query)),
            "/trial" => return self.maybe(timeline::trial_page(&self.pages, &self.shelf, query)),
            "/export" => return self.export(query),
            NEW_RUN => {
                let Some(new_runs) = &self.new_runs else { return missing(&self) };
                let live = self.surroundings.live_runs();
                return self.maybe(new_runs.page(&self.pages, &self.shelf, &live, query));
            }
            "/compare" => compared::page(&self.pages, &self.index, &self.shelf, self.surroundings.as_ref(), query),
            "/history" => {
                self.look();
                history::page(&self.pages, &self.index, &self.found, &self.guard.base(), query)
            }
            "/now" => {
                self.look();
                let surroundings = self.surroundings.as_ref();
                self.now(query).and_then(|name| now::page(&self.pages, &self.shelf, surroundings, name.as_deref()))
            }
            "/now/events" => return self.events(query),
            path => return self.report(path),
        };
        self.maybe(html.map(Some))
    }

    /// What is said of records; nothing where that cannot be read.
    pub(crate) fn noted(&self) -> Arc<Noted> {
        self.notes.all(&self.shelf).unwrap_or_default()
    }

    /// A page, unless what it is about is not there.
    fn maybe(&self, html: Result<Option<String>, Fault>) -> Answer {
        match html {
            Ok(Some(html)) => answer::page(StatusCode::OK, html),
            Ok(None) => missing(self),
            Err(fault) => self.pages.problem(StatusCode::UNPROCESSABLE_ENTITY, "Cannot be shown", &fault),
        }
    }

    /// Has the folder be looked through again.
    pub(crate) fn look(&self) {
        self.index.expect();
        // If it is asked already, once is enough.
        let _ = self.ask.try_send(());
    }

    fn now(&self, query: &Query) -> Result<Option<String>, Fault> {
        now::followed(&self.index, query, &self.surroundings.live_runs())
    }

    fn report(&self, path: &str) -> Answer {
        let Some(name) = path.strip_prefix("/run/").and_then(decoded) else { return missing(self) };
        // A report is shown even if nothing can be said of its record.
        let note = self.noted().get(&name).map(Note::bounded).unwrap_or_default();
        let has_timeline = self.shelf.record(&name).is_some_and(|record| !record.is_suite());
        let above = noted::of_run(&self.pages, &name, &note, has_timeline);
        let bar = bar_markup(&self.guard.base(), self.new_runs.is_some());
        match above.and_then(|above| self.reports.of(&self.shelf, &name, &bar, &above)) {
            Ok(Some(html)) => answer::report(html),
            Ok(None) => missing(self),
            Err(fault) => self.pages.problem(StatusCode::UNPROCESSABLE_ENTITY, "Cannot be read", &fault),
        }
    }

    /// An archive of the records that are named, as it is made.
    fn export(self: Arc<Site>, query: &Query) -> Answer {
        let Some(names) = export::named(&self.shelf, query) else { return missing(&self) };
        let Ok(turn) = self.exports.clone().try_acquire_owned() else {
            let fault = Fault::new("several exports are being made already").remedy("wait for one of them to end");
            return self.pages.problem(StatusCode::SERVICE_UNAVAILABLE, "Too many", &fault);
        };
        let site = self.clone();
        let (sender, receiver) = export::channel();
        let started = std::thread::Builder::new().name("export".to_owned()).spawn(move || {
            let _turn = turn;
            export::send(&site.shelf, &names, sender);
        });
        match started {
            Ok(_) => answer::archive(receiver),
            Err(error) => {
                let fault = Fault::from_error("start a thread", &error);
                self.pages.problem(StatusCode::SERVICE_UNAVAILABLE, "Cannot be exported", &fault)
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HOST;
    use std::time::Duration;
    use tare_core::record::{EndRequest, Header};

    struct Nothing;

    impl Surroundings for Nothing {
        fn occasions(&self, _: &Header, _: &Header) -> Result<tare_stats::Occasions, Fault> {
            Ok(tare_stats::Occasions::new())
        }

        fn live_runs(&self) -> Vec<String> {
            Vec::new()
        }

        fn may_ask(&self, _: &str) -> Result<(), Fault> {
            Err(Fault::new("no run goes on"))
        }

        fn ask(&self, run: &str, _: EndRequest) -> Result<(), Fault> {
            self.may_ask(run)
        }
    }

    fn site(folder: &std::path::Path) -> Arc<Site> {
        let guard = Guard::new(4000).unwrap();
        Arc::new(Site {
            pages: Pages::new(&guard.base()).unwrap(),
            guard,
            shelf: Shelf::open(folder).unwrap(),
            index: Index::open(folder).unwrap(),
            reports: Reports::default(),
            found: FoundChanges::default(),
            notes: Notes::default(),
            surroundings: Arc::new(Nothing),
            stopping: Stopping::default(),
            ask: std::sync::mpsc::sync_channel(1).0,
            reading: Arc::new(Semaphore::new(1)),
            followers: AtomicUsize::new(0),
            exports: Arc::new(Semaphore::new(1)),
            new_runs: None,
        })
    }

    #[test]
    fn the_list_does_not_wait_for_those_who_wait_for_a_record() {
        let folder = tempfile::tempdir().unwrap();
        let site = site(folder.path());
        let ask = |page: &str| {
            let uri: Uri = format!("{}{page}", site.guard.base()).parse().unwrap();
            let site = site.clone();
            async move {
                let mut headers = HeaderMap::new();
                headers.insert(HOST, "127.0.0.1:4000".parse().unwrap());
                answer(site, &AtomicBool::new(false), Method::GET, uri, headers).await.status()
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(2).build();
        runtime.unwrap().block_on(async {
            let held = site.reading.clone().acquire_owned().await.unwrap();
            let waiting: Vec<_> = (0..4).map(|_| tokio::spawn(ask("/run/nobody"))).collect();
            tokio::task::yield_now().await;
            let list = tokio::time::timeout(Duration::from_secs(10), ask("/")).await;
            assert_eq!(list.unwrap(), StatusCode::OK);
            assert!(waiting.iter().all(|one| !one.is_finished()));
            drop(held);
            for one in waiting {
                assert_eq!(one.await.unwrap(), StatusCode::NOT_FOUND);
            }
        });
    }
}
