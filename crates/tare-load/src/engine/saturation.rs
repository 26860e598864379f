//! Whether the generator, rather than the service, set the pace.
//!
//! **In a closed loop** a worker that never rests proves nothing: a closed loop on a server of about the same speed
//! keeps both busy. The proof is where the operations wait. A fixed number is in flight, and each is either with the
//! server (or on its way) or answered and waiting for the generator. A server that is the limit always has work, so a
//! good part of the operations is with it whenever the generator looks; a server that starves has already given nearly
//! all of them back. So a worker is called saturated only if both of these hold over the whole time measured:
//!
//! - it was idle for less than 2 % of the time, so it hardly ever waited for the server, and
//! - a reply found, on average, more than 80 % of the worker's operations answered and waiting together with itself.
//!
//! A burst after a pause of the server crowds replies too, but then the worker rested during the pause. Two stations of
//! equal speed hold half each. The criterion is the time in which the worker was idle, not the CPU time it was charged:
//! a worker that loses its CPU to other processes or to a hypervisor is as much of a limit as a slow one.
//!
//! **If starts are planned** the plan itself is the witness: the generator is at fault when it makes its starts too
//! late. If an operation then has to wait for a connection, that is the service's doing and does not count as late.
//! Late starts make response times longer than a user's would be. They are called saturation when the 99th percentile
//! of lateness is above 2 ms and above a quarter of the 99th percentile of the response times, so that the generator
//! made a large part of the figure.

use crate::histogram::Histogram;
use std::time::Duration;

const BUSY: f64 = 0.98;
const CROWDED: f64 = 0.80;
/// Lateness below this is normal for how a machine wakes its threads, ns.
const LATE_NS: u64 = 2_000_000;
/// The share of the response time that may be the generator's own lateness.
const LATE_SHARE: f64 = 0.25;

/// How hard one worker worked while it measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Effort {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Time in which it waited with nothing to read, ns.
    pub idle_ns: u64,
    /// Replies read.
    pub replies: u64,
    /// Summed over all replies: how many were read in the same round of the event loop.
    pub crowd: u64,
}

impl Effort {
    /// The share of the measured time for which it used a CPU.
    pub(crate) fn busy(&self, measured: Duration) -> f64 {
        if measured.is_zero() { 0.0 } else { self.cpu_ns as f64 / measured.as_nanos() as f64 }
    }

    /// The share of the measured time in which it was not idle.
    pub(crate) fn awake(&self, measured: Duration) -> f64 {
        if measured.is_zero() { 0.0 } else { (1.0 - self.idle_ns as f64 / measured.as_nanos() as f64).max(0.0) }
    }
}

/// Why the worker may have been the limit; none if it was not. `in_flight` is how many operations it keeps in flight.
pub(crate) fn closed(effort: Effort, measured: Duration, in_flight: u64) -> Option<String> {
    if effort.replies == 0 || measured.is_zero() {
        return None;
    }
    let awake = effort.awake(measured);
    let crowded = effort.crowd as f64 / effort.replies as f64 / in_flight.max(1) as f64;
    if awake <= BUSY || crowded <= CROWDED {
        return None;
    }
    Some(format!(
        "a load worker was not idle for {:.0} % of the time, and {:.0} % of its operations were answered and waiting \
         for it: the generator, not the service, set the pace; give the load more CPUs",
        awake * 100.0,
        crowded.min(1.0) * 100.0
    ))
}

/// Why late starts void what was measured; none if they do not. `busy` is the busiest worker's share of its CPU.
pub(crate) fn planned(late: &Histogram, response: &Histogram, busy: f64) -> Option<String> {
    let (late_ns, response_ns) = (late.quantile(0.99), response.quantile(0.99));
    if late_ns <= LATE_NS || late_ns as f64 <= LATE_SHARE * response_ns as f64 {
        return None;
    }
    let remedy = match busy > BUSY {
        true => "give the load more CPUs or ask for less",
        false => "keep other work off the load's CPUs",
    };
    let ms = |ns: u64| ns as f64 / 1e6;
    Some(format!(
        "one in a hundred operations was started {:.1} ms late or later, of {:.1} ms of response time; the busiest \
         load worker used {:.0} % of its CPU: {remedy}",
        ms(late_ns),
        ms(response_ns),
        busy * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(busy: f64, crowd_each: f64, in_flight: u64) -> bool {
        let idle_ns = ((1.0 - busy) * 1e10) as u64;
        // The CPU time charged does not count: a hypervisor may have had the CPU in between.
        let effort = Effort { cpu_ns: 5_000_000_000, idle_ns, replies: 1000, crowd: (crowd_each * 1000.0) as u64 };
        closed(effort, Duration::from_secs(10), in_flight).is_some()
    }

    #[test]
    fn only_a_worker_that_never_rests_and_holds_nearly_all_operations_is_accused() {
        assert!(judge(0.995, 48.0, 50));
        assert!(!judge(1.0, 25.0, 50), "as fast as the server");
        assert!(!judge(0.90, 50.0, 50), "bursts with pauses between them");
        assert!(!judge(0.45, 1.0, 1), "one connection: the reply is always alone");
        assert!(closed(Effort::default(), Duration::from_secs(10), 50).is_none());
    }

    #[test]
    fn late_starts_are_saturation_when_they_make_the_figure() {
        let of = |ns: u64| {
            let mut histogram = Histogram::new();
            (0..100).for_each(|_| histogram.record(ns));
            histogram
        };
        assert!(planned(&of(3_000_000), &of(4_000_000), 1.0).unwrap().contains("more CPUs"));
        assert!(planned(&of(3_000_000), &of(4_000_000), 0.3).unwrap().contains("other work"));
        assert!(planned(&of(3_000_000), &of(180_000_000), 0.3).is_none(), "a server that stands still");
        assert!(planned(&of(300_000), &of(400_000), 0.3).is_none(), "how threads wake");
        assert!(planned(&Histogram::new(), &Histogram::new(), 0.0).is_none());
    }
}
