//! Limits how often costly work is done by what it costs, so that sources stay cheap on machines of any size.

use std::time::Duration;
use tare_clock::{monotonic_ns, thread_cpu_ns};

/// Spaces out work so that it takes at most a share of a CPU.
#[derive(Debug)]
pub(crate) struct Pace {
    share: f64,
    due_ns: u64,
}

impl Pace {
    /// For work that may take this share of a CPU; due at once.
    pub(crate) fn new(share: f64) -> Pace {
        Pace { share, due_ns: 0 }
    }

    /// When the work is due, CLOCK_MONOTONIC, ns.
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Does the work if it is due. It is due again after `least` at the earliest.
    pub(crate) fn keep<T>(&mut self, least: Duration, work: impl FnOnce() -> T) -> Option<T> {
        let begun = self.begin()?;
        let done = work();
        self.end(begun, least);
        Some(done)
    }

    /// Begins the work if it is due; for work that needs the structure that this pace is part of.
    pub(crate) fn begin(&self) -> Option<Begun> {
        let now_ns = monotonic_ns();
        (now_ns >= self.due_ns).then(|| Begun { now_ns, cpu_ns: thread_cpu_ns() })
    }

    /// Ends the work. It is due again after `least` at the earliest.
    pub(crate) fn end(&mut self, begun: Begun, least: Duration) {
        let used_ns = thread_cpu_ns().saturating_sub(begun.cpu_ns);
        self.due_ns = begun.now_ns + (least.as_nanos() as u64).max((used_ns as f64 / self.share) as u64);
    }
}

/// When work began, in real time and in CPU time of the thread.
pub(crate) struct Begun {
    now_ns: u64,
    cpu_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_work_is_done_seldom() {
        let mut pace = Pace::new(0.01);
        let burn = || {
            let before = thread_cpu_ns();
            while thread_cpu_ns() - before < 2_000_000 {}
        };
        let before = monotonic_ns();
        assert!(pace.keep(Duration::from_millis(1), burn).is_some());
        assert!(pace.due_ns() - before >= 200_000_000, "2 ms of 1 % are 200 ms");
        assert_eq!(pace.keep(Duration::ZERO, burn), None);
        let mut cheap = Pace::new(1.0);
        assert!(cheap.keep(Duration::ZERO, || ()).is_some());
    }
}
