//! Writes requests as bytes.

use super::cookies::without_query;
use super::program::{Ask, HeaderLine};
use super::state::{Memory, Phase, Trip, User};
use super::{Http, redirect};
use crate::clock;
use crate::operation::Failure;
use crate::script::{Escape, Template, write_number};

impl Http {
    /// Appends the whole request if the program has it; otherwise composes one, with its path in the trip.
    ///
    /// # Errors
    /// When a value was never set; something is appended all the same.
    #[inline]
    pub(super) fn compose(
        &self,
        ask: &Ask,
        user: &mut User,
        trip: &mut Trip,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if let Some(whole) = &ask.whole {
            if user.as_ref().is_none_or(|memory| memory.jar.is_empty()) {
                out.extend_from_slice(&whole.bytes);
            } else {
                out.extend_from_slice(&whole.bytes[..whole.head]);
                self.write_cookies(user, &whole.path, out);
                out.extend_from_slice(&whole.bytes[whole.head..]);
            }
            return Ok(());
        }
        let path = self.write_path(ask, user, trip);
        let request = self.write(ask, Some(&ask.method), user, &trip.path, b"", out);
        path.and(request)
    }

    /// Appends a request for the target of a redirect: the trip's path. All statuses except 307 and 308 turn methods
    /// other than GET and HEAD into GET, as browsers do.
    ///
    /// # Errors
    /// When a value was never set; something is appended all the same.
    pub(super) fn compose_redirected(
        &self,
        ask: &Ask,
        status: u16,
        user: &mut User,
        path: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let same = matches!(status, 307 | 308) || matches!(ask.method.as_str(), "GET" | "HEAD");
        self.write(ask, same.then_some(ask.method.as_str()), user, path, b"", out)
    }

    /// Appends a request for an embedded resource, with the lines that ask whether it has changed.
    pub(super) fn compose_embedded(&self, user: &mut User, path: &[u8], lines: &[u8], out: &mut Vec<u8>) {
        // Headers of every request may have placeholders whose values were never set; they are left empty.
        let _ = self.write(&self.program.embedded, None, user, path, lines, out);
    }

    /// Whether the reply to what was sent for `ask` has no body, whatever its head says.
    #[inline]
    pub(super) fn is_bodiless(ask: &Ask, phase: Phase) -> bool {
        ask.is_head && !matches!(phase, Phase::Embedded(_))
    }

    /// The requested path.
    #[inline]
    pub(super) fn path_of<'p>(ask: &'p Ask, phase: Phase, trip: &'p Trip) -> &'p [u8] {
        match &ask.whole {
            Some(whole) if phase == Phase::Page => &whole.path,
            _ => &trip.path,
        }
    }

    /// Writes a path with its values into the trip. If a path begins with a value, that is a link: it is used
    /// unchanged, and may be relative to the previous path, or a whole URL of this host.
    fn write_path(&self, ask: &Ask, user: &mut User, trip: &mut Trip) -> Result<(), Failure> {
        let (values, feeds) = (&self.memory(user).values, &self.program.feeds);
        // Only a link may be relative to the previous path; without one, the buffer is reused.
        let before = ask.link.as_ref().map(|_| std::mem::take(&mut trip.path)).unwrap_or_default();
        trip.path.clear();
        let mut complete = true;
        if let Some(link) = &ask.link {
            complete &= link.write(values, feeds, Escape::None, &mut trip.path);
        }
        complete &= ask.path.write(values, feeds, Escape::Url, &mut trip.path);
        let mut found = true;
        if ask.link.is_some() {
            let path = redirect::resolve(&trip.path, &before, self.tls.is_some(), &self.program.hosts);
            let path = path.filter(|path| path.starts_with(b"/"));
            found = path.is_some();
            trip.path = path.unwrap_or_else(|| b"/".to_vec());
        }
        match (complete, found) {
            (false, _) => Err(Failure::Unset),
            (true, false) => Err(Failure::Redirect),
            (true, true) => Ok(()),
        }
    }

    /// Writes the path of an embedded resource.
    pub(super) fn write_embedded(&self, path: &Template, memory: &Memory, out: &mut Vec<u8>) -> bool {
        path.write(&memory.values, &self.program.feeds, Escape::Url, out)
    }

    /// Appends a request; without a method it is a GET without a body.
    fn write(
        &self,
        ask: &Ask,
        method: Option<&str>,
        user: &mut User,
        path: &[u8],
        lines: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        let from = out.len();
        let feeds = &self.program.feeds;
        let mut complete = true;
        // The body is written first, because the head contains its length, and then moved behind it.
        if let (Some(carried), Some(_)) = (&ask.carried, method) {
            let values = &self.memory(user).values;
            complete &= carried.content.write(values, feeds, carried.escape, out);
        }
        let length = out.len() - from;
        for part in [method.unwrap_or("GET").as_bytes(), b" ", path, b" HTTP/1.1\r\n"] {
            out.extend_from_slice(part);
        }
        for line in &ask.headers {
            match line {
                HeaderLine::Fixed(lines) => out.extend_from_slice(lines),
                HeaderLine::Valued(name, value) => {
                    out.extend_from_slice(name);
                    let at = out.len();
                    complete &= value.write(&self.memory(user).values, feeds, Escape::None, out);
                    // A value from elsewhere must not end the line.
                    out[at..].iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
                    out.extend_from_slice(b"\r\n");
                }
            }
        }
        self.write_cookies(user, path, out);
        out.extend_from_slice(lines);
        if method.is_some() && ask.has_body() {
            out.extend_from_slice(b"Content-Length: ");
            write_number(length as i64, 0, out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out[from..].rotate_left(length);
        if complete { Ok(()) } else { Err(Failure::Unset) }
    }

    fn write_cookies(&self, user: &mut User, path: &[u8], out: &mut Vec<u8>) {
        if let Some(memory) = user
            && !memory.jar.is_empty()
        {
            let now_s = clock::monotonic_ns() / clock::SECOND_NS;
            memory.jar.write(without_query(path), self.tls.is_some(), now_s, out);
        }
    }
}
