//! What is remembered: for a user between operations, for a connection between pieces of a reply.

use super::cookies::Jar;
use super::frame::Frame;
use super::inflate::{Coding, Inflate};
use super::program::Ask;
use crate::operation::Failure;
use crate::protocol::tls::Channel;
use crate::script::Values;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// The most resources that one user remembers; with one more, it forgets all others.
const CACHED_MAX: usize = 4096;
/// The most validators that are shared among users; beyond that, each user has its own.
const SHARED_MAX: usize = 65_536;

/// A user: nothing until there is something to remember.
pub(super) type User = Option<Box<Memory>>;

/// What a user remembers.
#[derive(Debug)]
pub(super) struct Memory {
    pub jar: Jar,
    pub values: Values,
    pub cached: Cached,
}

/// The embedded resources that a user has fetched, by a hash of their path, with the header lines that ask whether they
/// have changed.
#[derive(Debug, Default)]
pub(super) struct Cached(Vec<(u64, Arc<[u8]>)>);

impl Cached {
    /// The lines to ask with, if the user has it.
    pub(super) fn get(&self, key: u64) -> Option<&[u8]> {
        let at = self.0.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(&self.0[at].1)
    }

    pub(super) fn insert(&mut self, key: u64, lines: Arc<[u8]>) {
        match self.0.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(at) => self.0[at].1 = lines,
            Err(_) if self.0.len() == CACHED_MAX => self.0 = vec![(key, lines)],
            Err(at) => self.0.insert(at, (key, lines)),
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Validators, each stored once: one server sends the same to a million users.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<HashSet<Arc<[u8]>>>);

impl Shared {
    pub(super) fn keep(&self, lines: &[u8]) -> Arc<[u8]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lines) = known.get(lines) {
            return Arc::clone(lines);
        }
        let lines: Arc<[u8]> = lines.into();
        if known.len() < SHARED_MAX {
            known.insert(Arc::clone(&lines));
        }
        lines
    }
}

/// The key of a path in [`Cached`].
pub(super) fn key_of(path: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// What is being requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// The request itself.
    #[default]
    Page,
    /// The target of a redirect.
    Redirected,
    /// An embedded resource; whether the request asks if it has changed.
    Embedded(bool),
}

/// A connection and the state of its operation.
#[derive(Default)]
pub(super) struct Session {
    pub frame: Frame,
    pub channel: Option<Channel>,
    /// Whether the peer has announced the end of its data; this exists only in TLS.
    pub ended: bool,
    pub ask: u32,
    pub end: u32,
    pub hops: u8,
    pub phase: Phase,
    pub seen: Seen,
    pub trip: Trip,
    /// A request that is to be sent on a new connection.
    pub left: Vec<u8>,
}

/// What has been seen of a reply.
#[derive(Default)]
pub(super) struct Seen {
    pub status: u16,
    /// Whether it is a redirect that is followed.
    pub follow: bool,
    pub wrong: Option<Failure>,
    /// How much of each needle is matched.
    pub states: Vec<usize>,
    /// The body, as far as it is needed.
    pub kept: Vec<u8>,
    pub coding: Option<Coding>,
    pub inflate: Option<Box<Inflate>>,
    /// The target of the redirect.
    pub location: Vec<u8>,
    /// Header lines that ask whether the resource has changed.
    pub validators: Vec<u8>,
}

/// A buffer larger than this is not kept for the next reply: 8 KiB.
const SPARE_MAX: usize = 8 * 1024;

impl Seen {
    /// Resets it for the reply to `ask`.
    #[inline]
    pub(super) fn restart(&mut self, ask: &Ask) {
        (self.follow, self.wrong, self.coding) = (false, None, None);
        self.states.clear();
        self.states.resize(ask.judge.needles.len(), 0);
        self.location.clear();
        self.validators.clear();
        self.kept.clear();
        self.kept.shrink_to(SPARE_MAX);
    }
}

/// The state of an operation of more than one request.
#[derive(Debug, Default)]
pub(super) struct Trip {
    /// The requested path, unless it is in the program.
    pub path: Vec<u8>,
    paths: Vec<u8>,
    // Where each path ends in `paths`, and how many have been taken out.
    ends: Vec<usize>,
    taken: usize,
}

impl Trip {
    /// Clears the list of paths to ask for.
    pub(super) fn clear(&mut self) {
        self.paths.clear();
        self.ends.clear();
        self.taken = 0;
    }

    /// Adds a path to ask for, unless it is already listed; `write` appends it.
    pub(super) fn push<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let from = self.paths.len();
        let result = write(&mut self.paths);
        if self.list().any(|path| *path == self.paths[from..]) {
            self.paths.truncate(from);
        } else {
            self.ends.push(self.paths.len());
        }
        result
    }

    fn list(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, to)| &self.paths[from..*to])
    }

    /// Takes out the next path and makes it the requested one; returns `false` if there is none.
    pub(super) fn advance(&mut self) -> bool {
        let Some(to) = self.ends.get(self.taken) else { return false };
        let from = if self.taken == 0 { 0 } else { self.ends[self.taken - 1] };
        self.path.clear();
        self.path.extend_from_slice(&self.paths[from..*to]);
        self.taken += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_asked_for_once_and_in_order() {
        let mut trip = Trip::default();
        for path in ["/a", "/b", "/a", "/c"] {
            trip.push(|out| out.extend_from_slice(path.as_bytes()));
        }
        let taken = std::iter::from_fn(|| trip.advance().then(|| trip.path.clone()));
        assert_eq!(taken.collect::<Vec<_>>(), [b"/a", b"/b", b"/c"]);
        trip.clear();
        assert!(!trip.advance());
    }

    #[test]
    fn what_users_remember_is_bounded_and_shared() {
        let (mut cached, shared) = (Cached::default(), Shared::default());
        let lines = shared.keep(b"If-None-Match: x\r\n");
        assert!(Arc::ptr_eq(&lines, &shared.keep(b"If-None-Match: x\r\n")));
        for number in 0..=CACHED_MAX as u64 {
            cached.insert(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), Arc::clone(&lines));
        }
        assert_eq!(cached.0.len(), 1);
        cached.insert(7, shared.keep(b""));
        assert_eq!(cached.get(7), Some(b"".as_slice()));
        assert_eq!(cached.get(8), None);
    }

    #[test]
    fn a_user_without_memory_is_small() {
        assert_eq!(size_of::<User>(), 8);
        assert!(size_of::<Session>() <= 384, "{}", size_of::<Session>());
    }
}
