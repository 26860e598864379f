//! How long a worker had nothing to do.

use crate::clock;
use rustix::event::epoll;
use std::mem::MaybeUninit;

/// How often the shortest question is asked.
const TRIES: u32 = 64;
/// A wait that takes so many times as long as the shortest question has slept: putting a thread to sleep and waking it
/// takes longer than that, and reading events that are there does not.
const SLEPT: u64 = 4;

/// Tells waits that slept from those that found something at once, which are work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle {
    /// What asking the kernel for events takes where it need not wait, ns.
    ask_ns: u64,
}

impl Idle {
    /// By trying it out.
    pub(super) fn measured() -> Idle {
        let mut events = [MaybeUninit::uninit(); 1];
        let mut ask_ns = u64::MAX;
        // Of its own, for what is told once is not told again.
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

    /// How long it was idle in a wait from `asked_ns` to `woke_ns`.
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
        // An hour is an hour.
        assert!(here.of(0, 3_600_000_000_000) > 3_599_000_000_000);
    }
}
