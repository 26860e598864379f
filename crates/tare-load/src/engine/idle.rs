//! How long a worker was idle.

use crate::clock;
use rustix::event::epoll;
use std::mem::MaybeUninit;

/// How often the shortest wait is measured.
const TRIES: u32 = 64;
/// A wait that takes more than this many times as long as the shortest one has slept: putting a thread to sleep and
/// waking it takes longer than that, and reading events that are already there does not.
const SLEPT: u64 = 4;

/// Distinguishes waits that slept from those that found events at once, which count as work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle {
    /// How long it takes to ask the kernel for events without having to wait, ns.
    ask_ns: u64,
}

impl Idle {
    /// Measures it.
    pub(super) fn measured() -> Idle {
        let mut events = [MaybeUninit::uninit(); 1];
        let mut ask_ns = u64::MAX;
        // An epoll of its own: an edge-triggered event read here would not be reported again.
        if let Ok(epoll) = epoll::create(epoll::CreateFlags::CLOEXEC) {
            for _ in 0..TRIES {
                let began_ns = clock::monotonic_ns();
                let asked = epoll::wait(&epoll, &mut events, Some(&clock::timespec(0)));
                if asked.is_ok() {
                    ask_ns = ask_ns.min(clock::monotonic_ns() - began_ns);
                }
            }
        }
        Idle { ask_ns: if ask_ns == u64::MAX { 0 } else { ask_ns } }
    }

    /// The idle time in a wait from `asked_ns` to `woke_ns`.
    #[inline]
    pub(super) fn of(&self, asked_ns: u64, woke_ns: u64) -> u64 {
        let waited_ns = woke_ns - asked_ns;
        if waited_ns > SLEPT * self.ask_ns { waited_ns - self.ask_ns } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wait_that_slept_is_idle() {
        let idle = Idle { ask_ns: 300 };
        assert_eq!((idle.of(1_000, 1_300), idle.of(1_000, 2_200)), (0, 0));
        assert_eq!(idle.of(1_000, 51_000), 49_700);
        let here = Idle::measured();
        println!("  asking for events takes {} ns", here.ask_ns);
        assert!((1..100_000).contains(&here.ask_ns), "{here:?}");
        // Nearly all of an hour's wait is idle.
        assert!(here.of(0, 3_600_000_000_000) > 3_599_000_000_000);
    }
}
