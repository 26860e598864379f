//! The only place in this crate that reads the time.

use std::time::{Duration, Instant};

/// Time as the runner sees it. Tests pass a clock that they advance themselves.
pub trait Clock {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;
    /// The wall clock, RFC 3339, for readers of the record.
    fn timestamp(&self) -> String;
    /// Waits.
    fn sleep(&self, time: Duration);
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that starts at zero now.
    #[allow(clippy::new_without_default)] // a default that reads the clock would surprise
    pub fn new() -> Self {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn timestamp(&self) -> String {
        jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The time between two timestamps of [`Clock::timestamp`]; none if one is malformed, or time went back.
pub(crate) fn between(earlier: &str, later: &str) -> Option<Duration> {
    let (earlier, later): (jiff::Timestamp, jiff::Timestamp) = (earlier.parse().ok()?, later.parse().ok()?);
    Duration::try_from(later.duration_since(earlier)).ok()
}
