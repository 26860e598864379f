//! A reply as it arrives: its head is judged, and its body is searched and kept as far as needed.

use super::cookies::Moment;
use super::frame::Receiver;
use super::inflate::Coding;
use super::options::Cache;
use super::program::{Ask, Catch, Origin};
use super::state::{Memory, Phase, Seen, User};
use super::{Http, date};
use crate::clock;
use crate::operation::Failure;
use httparse::Header;

/// Examines the reply to one request.
pub(super) struct Reading<'a> {
    pub http: &'a Http,
    /// The request that it answers, or whose page it is embedded in.
    pub ask: &'a Ask,
    pub phase: Phase,
    /// Redirects followed so far.
    pub hops: u8,
    /// The requested path.
    pub path: &'a [u8],
    pub seen: &'a mut Seen,
    pub user: &'a mut User,
}

impl Receiver for Reading<'_> {
    #[inline]
    fn head(&mut self, status: u16, headers: &[Header<'_>]) -> Result<(), Failure> {
        self.seen.status = status;
        let embedded = matches!(self.phase, Phase::Embedded(_));
        let leads_on = !embedded && self.ask.redirects > 0 && matches!(status, 301..=303 | 307 | 308);
        for header in headers {
            // The lengths distinguish nearly all names without comparing them.
            match header.name.len() {
                10 if self.http.cookies && header.name.eq_ignore_ascii_case("set-cookie") => {
                    self.keep_cookie(header.value, headers);
                }
                8 if leads_on && header.name.eq_ignore_ascii_case("location") => {
                    self.seen.location.clear();
                    self.seen.location.extend_from_slice(header.value);
                    self.seen.follow = true;
                }
                16 if self.ask.reads && header.name.eq_ignore_ascii_case("content-encoding") => {
                    self.seen.coding = Some(Coding::of(header.value));
                }
                4 if embedded && header.name.eq_ignore_ascii_case("etag") => {
                    self.keep_validator(b"If-None-Match: ", header.value);
                }
                13 if embedded && header.name.eq_ignore_ascii_case("last-modified") => {
                    self.keep_validator(b"If-Modified-Since: ", header.value);
                }
                _ => {}
            }
        }
        let asked = if embedded { &self.http.program.embedded } else { self.ask };
        if self.seen.follow {
            if self.hops >= self.ask.redirects {
                self.seen.follow = false;
                self.wrong(Failure::Redirect);
            }
        } else if !(asked.judge.accepts(status) || status == 304 && self.phase == Phase::Embedded(true)) {
            self.wrong(Failure::Status(status));
        }
        if !embedded && !self.seen.follow {
            self.look_at(headers);
            self.prepare();
        }
        Ok(())
    }

    #[inline]
    fn body(&mut self, piece: &[u8]) -> Result<(), Failure> {
        let passing = self.seen.follow || self.seen.wrong.is_some() || matches!(self.phase, Phase::Embedded(_));
        if !self.ask.reads || passing {
            return Ok(());
        }
        if self.seen.coding.is_none() {
            take(self.ask, self.http.body_max, self.seen, piece);
            return Ok(());
        }
        self.decode(piece);
        Ok(())
    }
}

impl Reading<'_> {
    fn wrong(&mut self, failure: Failure) {
        self.seen.wrong.get_or_insert(failure);
    }

    #[cold]
    fn keep_cookie(&mut self, value: &[u8], headers: &[Header<'_>]) {
        let told = headers.iter().find(|header| header.name.eq_ignore_ascii_case("date"));
        let told = told.and_then(|header| date::parse(header.value));
        let now_s = clock::monotonic_ns() / clock::SECOND_NS;
        let moment = Moment { now_s, unix_s: told.unwrap_or_else(clock::unix_s) };
        self.http.memory(self.user).jar.set(value, self.path, moment);
    }

    fn keep_validator(&mut self, name: &[u8], value: &[u8]) {
        if self.ask.cache == Cache::Revalidate && value.len() <= 256 {
            for part in [name, value, b"\r\n"] {
                self.seen.validators.extend_from_slice(part);
            }
        }
    }

    /// Checks headers and captures from them.
    #[inline]
    fn look_at(&mut self, headers: &[Header<'_>]) {
        let value = |name: &str| {
            headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
        };
        let right = |(name, pattern): &(String, regex::bytes::Regex)| value(name).is_some_and(|v| pattern.is_match(v));
        if !self.ask.judge.headers.iter().all(right) {
            self.wrong(Failure::WrongReply);
        }
        for catch in &self.ask.captures {
            if let Origin::Header(name) = &catch.from {
                let memory = self.http.memory(self.user);
                if !keep(catch, value(name), memory) {
                    self.wrong(Failure::Capture);
                }
            }
        }
    }

    /// Gets a decoder, if the body that follows needs one.
    #[inline]
    fn prepare(&mut self) {
        match self.seen.coding {
            None => {}
            Some(Coding::Identity) => self.seen.coding = None,
            Some(Coding::Unknown) => self.wrong(Failure::Coding),
            Some(coding) => self.seen.inflate = Some(self.http.decoders.take(coding)),
        }
    }

    fn decode(&mut self, piece: &[u8]) {
        let Some(mut inflate) = self.seen.inflate.take() else { return };
        let (ask, body_max, seen) = (self.ask, self.http.body_max, &mut *self.seen);
        let result = inflate.feed(piece, &mut |decoded| take(ask, body_max, seen, decoded));
        self.seen.inflate = Some(inflate);
        if let Err(failure) = result {
            self.wrong(failure);
        }
    }
}

/// Searches a piece of the body, and keeps it if the whole body is needed.
#[inline]
fn take(ask: &Ask, body_max: usize, seen: &mut Seen, piece: &[u8]) {
    for (needle, state) in ask.judge.needles.iter().zip(&mut seen.states) {
        needle.find(state, piece);
    }
    if !ask.keeps {
        return;
    }
    if seen.kept.len() + piece.len() > body_max {
        seen.wrong.get_or_insert(Failure::TooLarge);
        return;
    }
    seen.kept.extend_from_slice(piece);
}

/// Stores a captured value; returns `false` if there is none and there should be.
pub(super) fn keep(catch: &Catch, value: Option<&[u8]>, memory: &mut Memory) -> bool {
    match value {
        Some(value) => memory.values.text_mut(catch.slot).extend_from_slice(value),
        None => memory.values.unset(catch.slot),
    }
    value.is_some() || catch.optional
}
