//! The kernel's clocks as whole nanoseconds.
//!
//! Samples, seconds of load and windows are matched by time, across processes, so all of them read the same clock in
//! the same unit.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

#[inline]
fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC, ns. Answered without a system call where the kernel's vDSO can.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CLOCK_REALTIME, ns since 1970.
#[inline]
pub fn realtime_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// CPU time of the calling thread, user and system, ns. A system call.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of all threads of this process, user and system, ns. A system call.
#[inline]
pub fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_and_work_takes_cpu_time() {
        // The thread's last: what the others count begins no later.
        let (began_ns, process_ns, thread_ns) = (monotonic_ns(), process_cpu_ns(), thread_cpu_ns());
        while thread_cpu_ns() - thread_ns < 1_000_000 {}
        assert!(monotonic_ns() - began_ns >= 1_000_000);
        assert!(process_cpu_ns() - process_ns >= 1_000_000);
        assert!(realtime_ns() > 1_577_836_800 * SECOND_NS, "it is after 2020");
    }
}
