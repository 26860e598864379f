//! Whether the generator was what was measured.
//!
//! A worker that never rests proves nothing: a closed loop on a server of about the same speed keeps both busy. What
//! proves it is where the operations wait. There is a fixed number in flight, and each is either with the server (or
//! on its way) or answered and waiting for the generator. A server that is the limit always has work, so a good part
//! of the operations is with it whenever the generator looks; a server that starves has given nearly all of them back
//! already. So a worker is called saturated only when both hold over the whole time measured:
//!
//! - it used more than 98 % of a CPU, so it hardly ever waited for the server, and
//! - a reply found, on average, more than 80 % of the worker's operations answered and waiting together with itself.
//!
//! A burst after a pause of the server crowds replies too, but then the worker rested during the pause. Two stations
//! of equal speed hold half each. A worker that has to share its CPU uses less than 98 % of it and is not accused here.

use std::time::Duration;

const BUSY: f64 = 0.98;
const CROWDED: f64 = 0.80;

/// How hard one worker had to work while it measured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Effort {
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Replies read.
    pub replies: u64,
    /// Over all replies, how many were read in the same round of the event loop.
    pub crowd: u64,
}

/// Why the worker may have been the limit; none when it was not. `in_flight` is how many operations it keeps going.
pub(crate) fn verdict(effort: Effort, measured: Duration, in_flight: u64) -> Option<String> {
    if effort.replies == 0 || measured.is_zero() {
        return None;
    }
    let busy = effort.cpu_ns as f64 / measured.as_nanos() as f64;
    let crowded = effort.crowd as f64 / effort.replies as f64 / in_flight.max(1) as f64;
    if busy <= BUSY || crowded <= CROWDED {
        return None;
    }
    Some(format!(
        "a load worker used {:.0} % of its CPU, and {:.0} % of its operations were answered and waiting for it: the \
         generator, not the service, set the pace; give the load more CPUs",
        busy * 100.0,
        crowded.min(1.0) * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(busy: f64, crowd_each: f64, in_flight: u64) -> bool {
        let effort = Effort { cpu_ns: (busy * 1e10) as u64, replies: 1000, crowd: (crowd_each * 1000.0) as u64 };
        verdict(effort, Duration::from_secs(10), in_flight).is_some()
    }

    #[test]
    fn only_a_worker_that_never_rests_and_holds_nearly_all_operations_is_accused() {
        assert!(judge(0.995, 48.0, 50));
        assert!(!judge(1.0, 25.0, 50), "as fast as the server");
        assert!(!judge(0.90, 50.0, 50), "bursts with pauses between them");
        assert!(!judge(0.45, 1.0, 1), "one connection: the reply is always alone");
        assert!(verdict(Effort::default(), Duration::from_secs(10), 50).is_none());
    }
}
