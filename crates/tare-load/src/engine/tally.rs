//! What a worker counts. It shares nothing while it works: once a second it hands its tally over and takes a fresh one.

use super::timeline::Timeline;
use crate::clock;
use crate::histogram::Histogram;
use crate::protocol::{FAILURES, Failure, Flight, Reply};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use tare_core::fault::Fault;

/// What one worker counted in one span.
pub(crate) struct Tally {
    /// Service times of right answers, by operation.
    pub times: Vec<Histogram>,
    /// Operations without a right answer, by operation.
    pub errors: Vec<u64>,
    /// What went wrong, by kind; broken connections without an operation in flight are here only.
    pub failures: [u64; FAILURES],
    /// CPU time the worker took, ns.
    pub cpu_ns: u64,
    /// Replies that were read.
    pub replies: u64,
    /// Over all replies, how many were read in the same round of the event loop. Divided by `replies`: how many
    /// replies a reply found waiting together with itself.
    pub crowd: u64,
}

impl Tally {
    fn new(operations: usize) -> Box<Self> {
        let times = (0..operations).map(|_| Histogram::new()).collect();
        let errors = vec![0; operations];
        Box::new(Tally { times, errors, failures: [0; FAILURES], cpu_ns: 0, replies: 0, crowd: 0 })
    }

    /// Empties it for another use.
    pub(crate) fn clear(&mut self) {
        self.times.iter_mut().for_each(Histogram::clear);
        self.errors.fill(0);
        self.failures = [0; FAILURES];
        (self.cpu_ns, self.replies, self.crowd) = (0, 0, 0);
    }
}

/// What was sent and answered over a whole run, settling and draining included, by operation: to be held against the
/// server's own counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Requests sent.
    pub sent: Vec<u64>,
    /// Requests answered, rightly or not.
    pub answered: Vec<u64>,
    /// Answers that said that there is nothing.
    pub empty: Vec<u64>,
}

impl Ledger {
    /// An empty one.
    pub(crate) fn new(operations: usize) -> Self {
        Ledger { sent: vec![0; operations], answered: vec![0; operations], empty: vec![0; operations] }
    }

    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: &Ledger) {
        let add = |to: &mut [u64], from: &[u64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.sent, &other.sent);
        add(&mut self.answered, &other.answered);
        add(&mut self.empty, &other.empty);
    }
}

/// What a worker tells the thread that gathers.
pub(crate) enum Report {
    /// All its connections stand.
    Connected,
    /// A span is over.
    Cut {
        /// Which worker.
        worker: usize,
        /// Which span.
        cut: usize,
        /// What was counted in it.
        tally: Box<Tally>,
    },
    /// The worker is done, or failed.
    Ended(Result<Ledger, Fault>),
}

/// A worker's counting side.
pub(crate) struct Recorder {
    /// Over the whole run.
    pub ledger: Ledger,
    worker: usize,
    tally: Box<Tally>,
    timeline: Option<Arc<Timeline>>,
    next: usize,
    next_at_ns: u64,
    cpu_mark_ns: u64,
    out: Sender<Report>,
    spares: Receiver<Box<Tally>>,
}

impl Recorder {
    /// A recorder for worker number `worker`, which hands its tallies to `out` and gets them back from `spares`.
    pub(crate) fn new(worker: usize, operations: usize, out: Sender<Report>, spares: Receiver<Box<Tally>>) -> Self {
        let (ledger, tally) = (Ledger::new(operations), Tally::new(operations));
        Recorder { ledger, worker, tally, timeline: None, next: 0, next_at_ns: u64::MAX, cpu_mark_ns: 0, out, spares }
    }

    /// Tells the gathering thread that this worker is connected.
    pub(crate) fn connected(&self) {
        // A gatherer that is gone has given up; the worker learns it when it asks for the start.
        let _ = self.out.send(Report::Connected);
    }

    /// Counting begins.
    pub(crate) fn begin(&mut self, timeline: Arc<Timeline>) {
        self.tally.clear();
        self.next_at_ns = timeline.cuts[0].at_ns;
        self.cpu_mark_ns = clock::thread_cpu_ns();
        self.timeline = Some(timeline);
    }

    /// Whether operations are to be started: from the beginning to the end of measuring.
    #[inline]
    pub(crate) fn sending(&self) -> bool {
        self.next_at_ns != u64::MAX
    }

    /// When the span ends that is being counted; `u64::MAX` when none is.
    pub(crate) fn next_at_ns(&self) -> u64 {
        self.next_at_ns
    }

    /// Hands over what was counted in every span that is over at `now_ns`.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while now_ns >= self.next_at_ns {
            self.cut();
        }
    }

    #[cold]
    fn cut(&mut self) {
        let Some(timeline) = &self.timeline else { return };
        let cpu_ns = clock::thread_cpu_ns();
        self.tally.cpu_ns = cpu_ns - self.cpu_mark_ns;
        self.cpu_mark_ns = cpu_ns;
        let fresh = self.spares.try_recv().unwrap_or_else(|_| Tally::new(self.tally.errors.len()));
        let tally = std::mem::replace(&mut self.tally, fresh);
        // A gatherer that is gone has raised the stop flag, which ends this worker soon.
        let _ = self.out.send(Report::Cut { worker: self.worker, cut: self.next, tally });
        self.next += 1;
        self.next_at_ns = timeline.cuts.get(self.next).map_or(u64::MAX, |cut| cut.at_ns);
    }

    /// Counts the reply to `flight`, read at `now_ns`.
    #[inline]
    pub(crate) fn answered(&mut self, now_ns: u64, flight: &Flight, reply: Reply) {
        self.advance(now_ns);
        let operation = usize::from(flight.operation);
        self.ledger.answered[operation] += 1;
        match reply {
            Reply::Right => self.tally.times[operation].record(now_ns.saturating_sub(flight.start_ns)),
            Reply::Empty => {
                self.ledger.empty[operation] += 1;
                self.tally.times[operation].record(now_ns.saturating_sub(flight.start_ns));
            }
            Reply::Wrong(failure) => {
                self.tally.errors[operation] += 1;
                self.tally.failures[failure as usize] += 1;
            }
        }
    }

    /// Counts an operation that will not be answered any more.
    pub(crate) fn lost(&mut self, now_ns: u64, flight: &Flight, failure: Failure) {
        self.advance(now_ns);
        self.tally.errors[usize::from(flight.operation)] += 1;
        self.tally.failures[failure as usize] += 1;
    }

    /// Counts a connection that failed with nothing in flight.
    pub(crate) fn broken(&mut self, now_ns: u64, failure: Failure) {
        self.advance(now_ns);
        self.tally.failures[failure as usize] += 1;
    }

    /// Counts a round of the event loop in which `replies` were read.
    #[inline]
    pub(crate) fn round(&mut self, replies: u64) {
        self.tally.replies += replies;
        self.tally.crowd += replies * replies;
    }
}
