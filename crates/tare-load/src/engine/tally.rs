//! What a worker counts. Workers share nothing while they work: once a second each hands its tally over and takes a
//! fresh one.

use super::timeline::{Cut, Timeline};
use super::window::{Window, Windows};
use crate::clock;
use crate::histogram::Histogram;
use crate::operation::{Failure, Failures, Flight, Ledger, Reply};
use crate::profile::{Source, Start};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use tare_core::fault::Fault;

/// What one worker counted in one span.
pub(crate) struct Tally {
    /// Response times of right answers, by operation.
    pub times: Vec<Histogram>,
    /// Of these, only those that a window counts, for a log; empty if there is no log or there are no windows.
    pub counted: Vec<Histogram>,
    /// Operations without a right answer, by operation.
    pub errors: Vec<u64>,
    /// Right answers that say there is nothing, by operation.
    pub empty: Vec<u64>,
    /// Right answers that count although their times do not: those of a service that has rested, by operation.
    pub rested: Vec<u64>,
    /// Failures, by kind; connections broken with no operation in flight appear only here.
    pub failures: Failures,
    /// Operations that came due.
    pub offered: u64,
    /// Operations sent.
    pub started: u64,
    /// Operations given up before they were sent.
    pub dropped: u64,
    /// CPU time the worker took, ns.
    pub cpu_ns: u64,
    /// Time in which it waited with nothing to read, ns.
    pub idle_ns: u64,
    /// Replies that were read.
    pub replies: u64,
    /// Summed over all replies: how many were read in the same round of the event loop. Divided by `replies`, this is
    /// how many replies a reply found waiting, including itself.
    pub crowd: u64,
    /// How long rounds of the event loop took.
    pub lag: Histogram,
}

impl Tally {
    fn new(operations: usize, counted: usize) -> Box<Self> {
        let histograms = |count| (0..count).map(|_| Histogram::new()).collect();
        Box::new(Tally {
            times: histograms(operations),
            counted: histograms(counted),
            errors: vec![0; operations],
            empty: vec![0; operations],
            rested: vec![0; operations],
            failures: Failures::default(),
            offered: 0,
            started: 0,
            dropped: 0,
            cpu_ns: 0,
            idle_ns: 0,
            replies: 0,
            crowd: 0,
            lag: Histogram::new(),
        })
    }

    /// Empties it for another use.
    pub(crate) fn clear(&mut self) {
        self.times.iter_mut().chain(&mut self.counted).for_each(Histogram::clear);
        self.errors.fill(0);
        self.empty.fill(0);
        self.rested.fill(0);
        self.failures.clear();
        (self.offered, self.started, self.dropped) = (0, 0, 0);
        (self.cpu_ns, self.idle_ns, self.replies, self.crowd) = (0, 0, 0, 0);
        self.lag.clear();
    }
}

/// What a worker reports to the gathering thread.
pub(crate) enum Report {
    /// All its connections are established.
    Connected,
    /// A span is over.
    Cut {
        /// Which worker.
        worker: usize,
        /// Which span: its number and its bounds.
        cut: (usize, Cut),
        /// What was counted in it.
        tally: Box<Tally>,
    },
    /// A window is complete.
    Window {
        /// Which worker.
        worker: usize,
        /// What was counted in it.
        window: Box<Window>,
    },
    /// What came after the end of measuring to operations begun before it. Windows have counted it already; without
    /// them it completes the figures.
    Rest(Box<Tally>),
    /// The worker is done, or has failed.
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
    next_cut: Cut,
    // When an early end is due; `u64::MAX` if none was requested.
    end_ns: u64,
    cpu_mark_ns: u64,
    // How many of the guide's levels have been taken over.
    heard: usize,
    windows: Option<Windows>,
    out: Sender<Report>,
    spares: Receiver<Box<Tally>>,
}

/// No span is being counted.
const OVER: Cut = Cut { from_ns: u64::MAX, at_ns: u64::MAX, measured: false };

impl Recorder {
    /// A recorder for worker number `worker`, which hands its tallies to `out` and gets them back from `spares`. With
    /// `windows`, operations are also counted by their planned starts; if they are also `logged`, the times that
    /// windows count are kept separately.
    pub(crate) fn new(
        worker: usize,
        operations: usize,
        out: Sender<Report>,
        spares: Receiver<Box<Tally>>,
        windows: Option<Windows>,
        logged: bool,
    ) -> Self {
        let counted = if logged && windows.is_some() { operations } else { 0 };
        let (ledger, tally) = (Ledger::new(operations), Tally::new(operations, counted));
        let (timeline, next, next_cut, end_ns, cpu_mark_ns, heard) = (None, 0, OVER, u64::MAX, 0, 0);
        Recorder { ledger, worker, tally, timeline, next, next_cut, end_ns, cpu_mark_ns, heard, windows, out, spares }
    }

    /// Tells the gathering thread that this worker is connected.
    pub(crate) fn connected(&self) {
        // A gatherer that is gone has given up; the worker finds out when it waits for the start.
        let _ = self.out.send(Report::Connected);
    }

    /// Begins counting.
    pub(crate) fn begin(&mut self, timeline: Arc<Timeline>) {
        self.tally.clear();
        self.next_cut = timeline.cut(0).unwrap_or(OVER);
        self.cpu_mark_ns = clock::thread_cpu_ns();
        if let Some(windows) = &mut self.windows {
            timeline.spans.iter().for_each(|span| windows.push(*span));
        }
        self.timeline = Some(timeline);
    }

    /// Takes over what was requested since the last call: levels, each with a window later than all others, and the
    /// end.
    pub(crate) fn listen(&mut self, source: &mut Source) {
        let turns = self.timeline.as_ref().map(|line| line.news(self.heard)).unwrap_or_default();
        for turn in turns {
            self.heard += 1;
            source.jump(turn.at_ns, turn.span.level);
            if let Some(windows) = &mut self.windows {
                windows.push(turn.span);
            }
        }
        self.heed_end();
    }

    /// Whether operations are being started: from the beginning to the end of measuring.
    #[inline]
    pub(crate) fn sending(&self) -> bool {
        self.next_cut.at_ns != u64::MAX
    }

    /// The end of measuring, if it has passed at `now_ns` and its last span is still being counted.
    #[inline]
    pub(crate) fn over(&self, now_ns: u64) -> Option<u64> {
        let end_ns = self.timeline.as_ref()?.end_ns();
        (now_ns >= end_ns && self.sending()).then_some(end_ns)
    }

    /// When the span being counted ends; `u64::MAX` if none is.
    pub(crate) fn next_at_ns(&self) -> u64 {
        self.next_cut.at_ns
    }

    /// Hands over the counts of every span that is over at `now_ns`.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64) {
        while now_ns >= self.next_cut.at_ns {
            self.cut();
        }
    }

    /// The same, when a worker is in the midst of a batch of answers. Where operations are counted by their planned
    /// starts, the last span stays open: what came due in it while the worker was held up is started, and counted in
    /// it, after the batch.
    #[inline]
    fn pass(&mut self, now_ns: u64) {
        while now_ns >= self.next_cut.at_ns && !self.waits_for_overdue() {
            self.cut();
        }
    }

    /// Whether the span being counted is the last one of operations that are counted by their planned starts.
    #[cold]
    fn waits_for_overdue(&self) -> bool {
        self.windows.is_some() && self.timeline.as_ref().is_some_and(|line| line.end_ns() <= self.next_cut.at_ns)
    }

    /// Checks whether the run was told to end early; if so, counting ends then.
    fn heed_end(&mut self) {
        let Some(timeline) = self.timeline.as_ref().filter(|line| line.told_end_ns() < self.end_ns) else { return };
        self.end_ns = timeline.told_end_ns();
        // A guided load's windows are counted whole or not at all.
        if let (Some(windows), None) = (&mut self.windows, &timeline.guide) {
            windows.end(self.end_ns);
        }
        if self.sending() {
            self.next_cut.at_ns = self.next_cut.at_ns.min(self.end_ns);
            self.pass(clock::monotonic_ns());
        }
    }

    #[cold]
    fn cut(&mut self) {
        let Some(timeline) = &self.timeline else { return };
        let cpu_ns = clock::thread_cpu_ns();
        self.tally.cpu_ns = cpu_ns - self.cpu_mark_ns;
        self.cpu_mark_ns = cpu_ns;
        let fresh =
            self.spares.try_recv().unwrap_or_else(|_| Tally::new(self.tally.errors.len(), self.tally.counted.len()));
        let tally = std::mem::replace(&mut self.tally, fresh);
        // A gatherer that is gone has raised the stop flag, which soon ends this worker.
        let _ = self.out.send(Report::Cut { worker: self.worker, cut: (self.next, self.next_cut), tally });
        self.next += 1;
        let next = timeline.cut(self.next).filter(|cut| cut.from_ns < self.end_ns);
        self.next_cut = next.map_or(OVER, |cut| Cut { at_ns: cut.at_ns.min(self.end_ns), ..cut });
    }

    /// An operation came due, and the generator reached it at `now_ns`.
    #[inline]
    pub(crate) fn planned(&mut self, start: &Start, now_ns: u64) {
        self.tally.offered += 1;
        if let Some(windows) = &mut self.windows {
            windows.planned(start.planned_ns, start.operation, now_ns);
        }
    }

    /// An operation of a closed loop: it is planned and sent at the same moment.
    #[inline]
    pub(crate) fn looped(&mut self, now_ns: u64, operation: u16) {
        self.tally.offered += 1;
        if let Some(windows) = &mut self.windows {
            windows.planned(now_ns, operation, now_ns);
        }
        self.sent(now_ns, operation);
    }

    /// It was sent.
    #[inline]
    pub(crate) fn sent(&mut self, planned_ns: u64, operation: u16) {
        self.ledger.sent[usize::from(operation)] += 1;
        self.tally.started += 1;
        if let Some(windows) = &mut self.windows {
            windows.sent(planned_ns);
        }
    }

    /// It was given up before it was sent: too many were in flight.
    pub(crate) fn dropped(&mut self, start: &Start) {
        self.tally.dropped += 1;
        if let Some(windows) = &mut self.windows {
            windows.dropped(start.planned_ns, start.operation);
        }
    }

    /// Counts the reply to `flight`, read at `now_ns`.
    #[inline]
    pub(crate) fn answered(&mut self, now_ns: u64, flight: &Flight, reply: Reply) {
        self.pass(now_ns);
        let operation = usize::from(flight.operation);
        self.ledger.answered[operation] += 1;
        match reply {
            Reply::Right => self.tally.times[operation].record(now_ns.saturating_sub(flight.planned_ns)),
            Reply::Empty => {
                self.ledger.empty[operation] += 1;
                self.tally.empty[operation] += 1;
                self.tally.times[operation].record(now_ns.saturating_sub(flight.planned_ns));
            }
            Reply::Wrong(failure) => {
                self.tally.errors[operation] += 1;
                self.tally.failures.count(failure);
            }
        }
        if let Some(windows) = &mut self.windows
            && windows.answered(now_ns, flight, reply)
            && let Some(counted) = self.tally.counted.get_mut(operation)
        {
            counted.record(now_ns.saturating_sub(flight.planned_ns));
        }
    }

    /// Counts a refusal that came after its companion was ended: the operation was answered, and is neither right nor a
    /// failure.
    pub(crate) fn after_end(&mut self, now_ns: u64, flight: &Flight) {
        self.let_go(now_ns, flight);
        self.ledger.answered[usize::from(flight.operation)] += 1;
    }

    /// Counts an operation left unanswered after its companion was ended: it is neither right nor a failure.
    pub(crate) fn let_go(&mut self, now_ns: u64, flight: &Flight) {
        self.pass(now_ns);
        if let Some(windows) = &mut self.windows {
            windows.after_end(flight.planned_ns, flight.operation);
        }
    }

    /// Counts a right answer of a service that has rested: its time is not representative of one that never rests.
    pub(crate) fn rested(&mut self, now_ns: u64, flight: &Flight, reply: Reply) {
        self.uncounted(now_ns, flight, reply);
        let operation = usize::from(flight.operation);
        self.tally.rested[operation] += 1;
        self.tally.empty[operation] += u64::from(reply == Reply::Empty);
    }

    /// How many operations have been lost, that is failed without an answer, so far.
    pub(crate) fn lost_so_far(&self) -> u64 {
        self.ledger.lost.iter().sum()
    }

    /// Records an answer that belongs to a ruler's weight: the operation was made and answered, and appears in no
    /// figure.
    pub(crate) fn uncounted(&mut self, now_ns: u64, flight: &Flight, reply: Reply) {
        self.pass(now_ns);
        let operation = usize::from(flight.operation);
        self.ledger.answered[operation] += 1;
        self.ledger.empty[operation] += u64::from(reply == Reply::Empty);
    }

    /// Counts an operation that will not be answered any more.
    pub(crate) fn lost(&mut self, now_ns: u64, planned_ns: u64, operation: u16, failure: Failure) {
        self.pass(now_ns);
        self.ledger.lost[usize::from(operation)] += 1;
        self.tally.errors[usize::from(operation)] += 1;
        self.tally.failures.count(failure);
        if let Some(windows) = &mut self.windows {
            windows.failed(planned_ns, operation, failure);
        }
    }

    /// Counts a connection that failed with nothing in flight; after the end of measuring that is not counted.
    pub(crate) fn broken(&mut self, now_ns: u64, failure: Failure) {
        self.pass(now_ns);
        if !self.sending() || self.over(now_ns).is_some() {
            return;
        }
        self.tally.failures.count(failure);
        if let Some(windows) = &mut self.windows {
            windows.broken(now_ns, failure);
        }
    }

    /// There has been no connection for `away_ns`, because of `failure`; this matters only while operations are to be
    /// started.
    pub(crate) fn away(&mut self, away_ns: u64, failure: Failure) {
        if self.sending() && self.ledger.away.is_none_or(|(longest_ns, _)| longest_ns < away_ns) {
            self.ledger.away = Some((away_ns, failure));
        }
    }

    /// Counts a round of the event loop from `woke_ns` to `now_ns` in which `replies` were read, after `idle_ns` of
    /// idleness. The next start is due at `next_ns`: if that has passed already, its window is not over.
    #[inline]
    pub(crate) fn round(&mut self, (woke_ns, now_ns): (u64, u64), idle_ns: u64, replies: u64, next_ns: u64) {
        self.tally.idle_ns += idle_ns;
        self.tally.replies += replies;
        self.tally.crowd += replies * replies;
        self.tally.lag.record(now_ns - woke_ns);
        if let Some(windows) = &mut self.windows {
            windows.round(now_ns, replies, idle_ns);
            while let Some(window) = windows.complete(now_ns.min(next_ns)) {
                let _ = self.out.send(Report::Window { worker: self.worker, window });
            }
        }
    }

    /// The run is over: hands over what came after the end, and the windows that were over by `end_ns`, even if answers
    /// are missing.
    pub(crate) fn finish(mut self, end_ns: u64) -> Ledger {
        // If measuring had not begun by then, nothing was measured.
        if self.timeline.as_ref().is_some_and(|line| line.measure_start_ns < end_ns) {
            let _ = self.out.send(Report::Rest(self.tally));
        }
        if let Some(windows) = &mut self.windows {
            while let Some(window) = windows.rest(end_ns) {
                let _ = self.out.send(Report::Window { worker: self.worker, window });
            }
        }
        self.ledger
    }
}
