//! The one place of this crate where the wall clock is read.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now.
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Now, in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
