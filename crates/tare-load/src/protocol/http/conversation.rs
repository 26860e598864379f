//! An operation from its first request to its last reply.

use super::frame::Framed;
use super::judging::group;
use super::options::{CERTAIN, Cache};
use super::program::{Ask, Found, count};
use super::reading::Reading;
use super::state::{Phase, Session, User, key_of};
use super::{Http, redirect};
use crate::draw::Draw;
use crate::operation::{Failure, Reply, Step};
use crate::script::Slot;

impl Http {
    fn asked(&self, session: &Session) -> &Ask {
        &self.program.asks[session.ask as usize]
    }

    /// Appends the first request of an operation.
    #[inline]
    pub(super) fn open(
        &self,
        session: &mut Session,
        user: &mut User,
        operation: u16,
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) {
        let script = &self.program.scripts[usize::from(operation)];
        (session.ask, session.end) = (script.first, script.end);
        if !script.feeds.is_empty() {
            self.program.feeds.draw(&script.feeds, draw, &mut self.memory(user).values);
        }
        // A request that cannot be sent correctly is sent all the same: the engine waits for a reply to a first
        // request.
        if let Err(failure) = self.ask(session, user, out) {
            session.seen.wrong = Some(failure);
        }
    }

    /// Appends the current request.
    #[inline]
    fn ask(&self, session: &mut Session, user: &mut User, out: &mut Vec<u8>) -> Result<(), Failure> {
        let ask = &self.program.asks[session.ask as usize];
        (session.phase, session.hops) = (Phase::Page, 0);
        session.seen.restart(ask);
        if ask.forget
            && let Some(memory) = user
        {
            memory.jar = Default::default();
            memory.cached.clear();
        }
        if self.program.counting {
            count(&ask.counts.sent);
        }
        let worked_out = if ask.sets.is_empty() { Ok(()) } else { self.work_out(ask, user) };
        let composed = self.compose(ask, user, &mut session.trip, out);
        worked_out.and(composed)
    }

    /// Sets the values that are computed from others.
    ///
    /// # Errors
    /// When one of those has no value, or one that is not a number.
    fn work_out(&self, ask: &Ask, user: &mut User) -> Result<(), Failure> {
        let memory = self.memory(user);
        for set in &ask.sets {
            let value = |slot| memory.values.get(slot, self.program.feeds.texts()).decimal();
            let number = set.of.evaluate_decimal(value).ok_or(Failure::Unset)?;
            let mut text = memory.values.take_text(set.slot);
            text.extend_from_slice(format!("{number:.0$}", set.digits).as_bytes());
            memory.values.put_text(set.slot, text);
        }
        Ok(())
    }

    /// Takes more of the current reply; the operation's next request, if any, is appended to `out`.
    #[inline]
    pub(super) fn take(
        &self,
        session: &mut Session,
        user: &mut User,
        bytes: &[u8],
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> Step {
        let ask = &self.program.asks[session.ask as usize];
        let Session { frame, seen, phase, hops, trip, .. } = session;
        let path = Http::path_of(ask, *phase, trip);
        let mut reading = Reading { http: self, ask, phase: *phase, hops: *hops, path, seen, user };
        let used = match frame.feed(Http::is_bodiless(ask, *phase), &mut reading, bytes) {
            Framed::More => return Step::More,
            Framed::Broken(failure) => return Step::Broken(failure),
            Framed::Done(used) => used,
        };
        let last = session.frame.is_last();
        let sent = out.len();
        match self.go_on(session, user, draw, out) {
            Some(reply) => Step::Done { used, reply, last },
            // What follows was not asked for.
            None if used < bytes.len() => {
                out.truncate(sent);
                Step::Broken(Failure::Garbage)
            }
            None if last => {
                session.left = out.split_off(sent);
                Step::Reopen
            }
            None => Step::More,
        }
    }

    /// A reply is complete: returns the outcome of the operation, or none if another request was sent.
    #[inline]
    pub(super) fn go_on(
        &self,
        session: &mut Session,
        user: &mut User,
        draw: &mut Draw,
        out: &mut Vec<u8>,
    ) -> Option<Reply> {
        if session.seen.follow {
            return self.follow(session, user, out).err().map(Reply::Wrong);
        }
        if let Phase::Embedded(_) = session.phase {
            self.keep_embedded(session, user);
            if let Some(failure) = session.seen.wrong {
                return Some(Reply::Wrong(failure));
            }
        } else {
            let ask = &self.program.asks[session.ask as usize];
            if let Some(failure) = self.judge(ask, &mut session.seen, user, draw) {
                return Some(Reply::Wrong(failure));
            }
            if !ask.embedded.is_empty() {
                self.list_embedded(session, user);
                if let Some(failure) = session.seen.wrong {
                    return Some(Reply::Wrong(failure));
                }
            }
        }
        if session.phase == Phase::Page && session.ask + 1 == session.end && self.asked(session).embedded.is_empty() {
            return Some(Reply::Right);
        }
        self.next(session, user, draw, out)
    }

    /// Sends what is left to ask: embedded resources, then the operation's further requests.
    fn next(&self, session: &mut Session, user: &mut User, draw: &mut Draw, out: &mut Vec<u8>) -> Option<Reply> {
        if !self.asked(session).embedded.is_empty() && self.ask_embedded(session, user, out) {
            return None;
        }
        while session.ask + 1 < session.end {
            session.ask += 1;
            if self.is_due(self.asked(session), user, draw) {
                let from = out.len();
                let asked = self.ask(session, user, out);
                // A request that cannot be sent correctly is not sent; there is no reply to wait for.
                return asked.err().map(|failure| {
                    out.truncate(from);
                    Reply::Wrong(failure)
                });
            }
        }
        Some(Reply::Right)
    }

    fn is_due(&self, ask: &Ask, user: &User, draw: &mut Draw) -> bool {
        let is_set = |slot: Slot| user.as_ref().is_some_and(|memory| memory.values.is_set(slot));
        ask.when.is_none_or(is_set)
            && !ask.unless.is_some_and(is_set)
            && (ask.chance == CERTAIN || draw.below(u64::from(CERTAIN)) < u64::from(ask.chance))
    }

    /// Follows a redirect.
    #[inline(never)]
    fn follow(&self, session: &mut Session, user: &mut User, out: &mut Vec<u8>) -> Result<(), Failure> {
        let ask = &self.program.asks[session.ask as usize];
        let from = Http::path_of(ask, session.phase, &session.trip);
        let path = redirect::resolve(&session.seen.location, from, self.tls.is_some(), &self.program.hosts);
        session.trip.path = path.ok_or(Failure::Redirect)?;
        session.hops += 1;
        session.phase = Phase::Redirected;
        session.seen.restart(ask);
        count(&ask.counts.redirected);
        self.compose_redirected(ask, session.seen.status, user, &session.trip.path, out)
    }

    /// Lists what a browser would fetch for the page that has just arrived.
    #[inline(never)]
    fn list_embedded(&self, session: &mut Session, user: &mut User) {
        let ask = &self.program.asks[session.ask as usize];
        let Session { seen, phase, trip, .. } = session;
        let page = Http::path_of(ask, *phase, trip).to_vec();
        let memory = self.memory(user);
        trip.clear();
        for found in &ask.embedded {
            match found {
                Found::Path(path) => {
                    if !trip.push(|out| self.write_embedded(path, memory, out)) {
                        seen.wrong.get_or_insert(Failure::Unset);
                    }
                }
                Found::Find(pattern, max, suffix) => {
                    let links = pattern.captures_iter(&seen.kept).filter_map(|captures| group(&captures));
                    let secure = self.tls.is_some();
                    let paths = links.filter_map(|link| redirect::resolve(link, &page, secure, &self.program.hosts));
                    paths.take(*max).for_each(|path| {
                        trip.push(|out| {
                            out.extend_from_slice(&path);
                            out.extend_from_slice(suffix.as_bytes());
                        });
                    });
                }
            }
        }
    }

    /// Asks for the next embedded resource; returns `false` if there are no more.
    fn ask_embedded(&self, session: &mut Session, user: &mut User, out: &mut Vec<u8>) -> bool {
        let ask = &self.program.asks[session.ask as usize];
        while session.trip.advance() {
            let path = std::mem::take(&mut session.trip.path);
            let known = user.as_ref().and_then(|memory| memory.cached.get(key_of(&path)));
            let skip = ask.cache == Cache::Keep && known.is_some();
            if !skip {
                let lines = known.filter(|_| ask.cache == Cache::Revalidate).unwrap_or_default().to_vec();
                session.phase = Phase::Embedded(!lines.is_empty());
                session.seen.restart(ask);
                count(&ask.counts.embedded);
                self.compose_embedded(user, &path, &lines, out);
            }
            session.trip.path = path;
            if !skip {
                return true;
            }
        }
        false
    }

    /// Remembers an embedded resource that has arrived.
    fn keep_embedded(&self, session: &Session, user: &mut User) {
        let ask = self.asked(session);
        match session.seen.status {
            304 => count(&ask.counts.unchanged),
            200 if ask.cache != Cache::Off => {
                let lines = self.validators.keep(&session.seen.validators);
                self.memory(user).cached.insert(key_of(&session.trip.path), lines);
            }
            _ => {}
        }
    }

    /// The connection ended: returns the outcome of the operation, if that completes it correctly. If it continues on
    /// another connection, the next request is left in the session.
    pub(super) fn close(&self, session: &mut Session, user: &mut User) -> Option<Reply> {
        if !session.frame.ends_with_connection() || (self.tls.is_some() && !session.ended) {
            return None;
        }
        let mut left = Vec::new();
        // The same draws for every operation that ends here: this is rare, and the connection's own draw is not
        // available.
        let reply = self.go_on(session, user, &mut Draw::new(0, 0), &mut left);
        session.left = left;
        reply
    }
}
