//! Requests that change something: what the user says of records, what records there are, how long a run goes on, and
//! that one begins.
//! They come from pages made here, and nowhere else: they must name the origin that all requests are held to.

use crate::answer::{self, Answer};
use crate::deleting::{self, Doomed, RECORDS_MOST, doomed, seen, unknown};
use crate::guard::Guard;
use crate::new_runs::{NEW_RUN, Posted};
use crate::notes::Note;
use crate::now;
use crate::query::{Query, encoded};
use crate::routes::{Site, missing};
use crate::stopping::in_sentences;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode, Uri};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tare_core::fault::{Doing, Fault};

/// The pages that are sent to.
const PAGES: [&str; 4] = ["/notes", "/delete", END, NEW_RUN];
/// What ends a run. It has its options in its address.
const END: &str = "/now/end";
/// The largest form, bytes.
const FORM_MOST: usize = 256 << 10;
/// How long one may take to come.
const FORM_WITHIN: Duration = Duration::from_secs(10);

/// Whether a request asks for a change that is made here.
pub(crate) fn is_change(guard: &Guard, method: &Method, uri: &Uri) -> bool {
    method == Method::POST && guard.behind_key(uri.path()).is_some_and(|page| PAGES.contains(&page))
}

/// Makes the change that a request asks for. `is_known` becomes true if it may.
pub(crate) async fn change(
    site: Arc<Site>,
    is_known: &AtomicBool,
    uri: &Uri,
    headers: &HeaderMap,
    body: Incoming,
) -> Answer {
    if let Err(refusal) = site.guard.admit(&Method::POST, headers) {
        return answer::refused(refusal.status, format!("Refused: {}.\n", refusal.why));
    }
    is_known.store(true, Ordering::Relaxed);
    let Ok(Some(form)) = tokio::time::timeout(FORM_WITHIN, form(body)).await else {
        let why = format!("Refused: a form comes within {} s and is no form beyond 256 KiB.\n", FORM_WITHIN.as_secs());
        return answer::refused(StatusCode::BAD_REQUEST, why);
    };
    let page = site.guard.behind_key(uri.path()).unwrap_or_default().to_owned();
    let form = if page == END { Query::of(uri.query()) } else { form };
    let turn = match &site.new_runs {
        Some(new_runs) if page == NEW_RUN => new_runs.turn().acquire_owned().await.ok(),
        _ => None,
    };
    let made_by = site.clone();
    let made = tokio::task::spawn_blocking(move || {
        // Kept until it is made, even if the browser has gone.
        let _turn = turn;
        made_by.change(&page, &form)
    });
    let made = made.await;
    made.unwrap_or_else(|_| {
        let fault = Fault::new("Tare stumbled over this; the terminal of `tare serve` says where");
        site.pages.problem(StatusCode::INTERNAL_SERVER_ERROR, "Cannot be done", &fault)
    })
}

/// What a form says; none if it is too long or no text.
async fn form(mut body: Incoming) -> Option<Query> {
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame.ok()?.into_data() else { continue };
        if text.len() + data.len() > FORM_MOST {
            return None;
        }
        text.extend_from_slice(&data);
    }
    Some(Query::of(Some(std::str::from_utf8(&text).ok()?)))
}

impl Site {
    fn change(&self, page: &str, form: &Query) -> Answer {
        match page {
            END => self.end(form),
            "/delete" => self.delete(form),
            NEW_RUN => self.new_run(form),
            _ => self.note(form),
        }
    }

    /// Has a run end.
    fn end(&self, form: &Query) -> Answer {
        match now::end(&self.stopping, &self.shelf, self.surroundings.as_ref(), form) {
            Ok(said) => answer::words(StatusCode::OK, said.to_owned()),
            Err(fault) => answer::words(StatusCode::CONFLICT, in_sentences(&fault)),
        }
    }

    /// Makes, checks or starts a new run, where that is allowed.
    fn new_run(&self, form: &Query) -> Answer {
        let Some(new_runs) = &self.new_runs else { return missing(self) };
        match new_runs.post(&self.pages, &self.shelf, &self.surroundings.live_runs(), form) {
            Ok(Posted::Page(status, html)) => answer::page(status, html),
            Ok(Posted::Elsewhere(page)) => answer::elsewhere(&format!("{}{page}", self.guard.base())),
            Err(fault) => self.pages.problem(StatusCode::UNPROCESSABLE_ENTITY, "Cannot be shown", &fault),
        }
    }

    /// Says something else of a record.
    fn note(&self, form: &Query) -> Answer {
        let Some(name) = form.one("run").filter(|name| self.shelf.record(name).is_some()) else { return missing(self) };
        let text = |name: &str| form.one(name).unwrap_or_default();
        let typed = Note::typed(text("tags"), text("text"));
        match typed.and_then(|note| self.notes.put(&self.shelf, name, note)) {
            Ok(()) => answer::elsewhere(&self.back(form, name)),
            Err(fault) => self.pages.problem(StatusCode::UNPROCESSABLE_ENTITY, "Not kept", &fault),
        }
    }

    /// Deletes what a form names, if it is what its page has said.
    fn delete(&self, form: &Query) -> Answer {
        let (live, noted) = (self.surroundings.live_runs(), self.noted());
        let all = doomed(&self.shelf, &live, &noted, form);
        if let Some(Doomed { name, why, .. }) = all.iter().find(|one| !one.why.is_empty()) {
            let fault = Fault::new(format!("nothing was deleted: of '{name}' {why}")).remedy("choose other runs");
            return self.pages.problem(StatusCode::CONFLICT, "Not deleted", &fault);
        }
        if all.is_empty() || all.len() > RECORDS_MOST {
            return missing(self);
        }
        let is_as_seen = form.one("seen") == Some(seen(&all).as_str());
        let changed = match unknown(&self.shelf, form).len() {
            0 if is_as_seen => return self.remove(&all),
            0 => "Nothing was deleted: something has changed since this was said.",
            _ => "Nothing was deleted: not all of these are here.",
        };
        match deleting::page(&self.pages, &self.shelf, &live, &noted, form, changed) {
            Ok(Some(html)) => answer::page(StatusCode::CONFLICT, html),
            Ok(None) => missing(self),
            Err(fault) => self.pages.problem(StatusCode::UNPROCESSABLE_ENTITY, "Not deleted", &fault),
        }
    }

    fn remove(&self, all: &[Doomed]) -> Answer {
        for (gone, Doomed { name, said, .. }) in all.iter().enumerate() {
            if let Err(fault) = self.shelf.remove(name).doing(format!("delete '{name}'")) {
                self.look();
                let fault = fault.context(format!("{gone} of {} are gone, and part of this one may be", all.len()));
                let fault = fault.remedy("serve as who may delete it, or delete it by hand");
                return self.pages.problem(StatusCode::UNPROCESSABLE_ENTITY, "Not all deleted", &fault);
            }
            // Notes that cannot be changed do no harm, and what was said since stays.
            let _ = self.notes.forget(&self.shelf, said);
        }
        self.look();
        answer::elsewhere(&format!("{}/?chosen=none", self.guard.base()))
    }

    /// Where the browser came from: the report of a record, or the list as it was narrowed down.
    fn back(&self, form: &Query, name: &str) -> String {
        let base = self.guard.base();
        match form.one("back") {
            Some("run") => format!("{base}/run/{}", encoded(name)),
            Some(list) => format!("{base}/?{}", Query::of(Some(list)).whole()),
            None => format!("{base}/"),
        }
    }
}
