//! The clocks this process reads; no other file reads them.

use rustix::time::Timespec;
pub(crate) use tare_clock::{SECOND_NS, monotonic_ns, realtime_ns, thread_cpu_ns};

/// The time of day, s since 1970.
pub(crate) fn unix_s() -> i64 {
    (realtime_ns() / SECOND_NS) as i64
}

/// A span of nanoseconds as the kernel wants it.
pub(crate) fn timespec(span_ns: u64) -> Timespec {
    Timespec { tv_sec: (span_ns / SECOND_NS) as i64, tv_nsec: (span_ns % SECOND_NS) as i64 }
}

/// A duration in ns; anything above 500 years is cut off.
pub(crate) fn span_ns(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
