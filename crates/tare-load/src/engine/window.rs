//! Counts by planned start: an operation belongs to the window in which it was to start, whenever it is answered. So
//! operations that wait while a server stalls are counted where they were due, and an answer that comes after the end
//! is not forgotten.

use super::saturation::Effort;
use super::timeline::Span;
use crate::clock;
use crate::histogram::Histogram;
use crate::operation::{Failure, Failures, Flight, Reply};
use std::collections::VecDeque;

/// The results of one operation within a window.
pub(crate) struct Outcomes {
    /// Planned starts.
    pub planned: u64,
    /// Answered correctly.
    pub answered: u64,
    /// Answered correctly, later than the limit.
    pub over_limit: u64,
    /// Answered wrongly or lost.
    pub failed: u64,
    /// Given up before it was sent.
    pub dropped: u64,
    /// Refused or left unanswered after their companion was ended: treated as if they had not been planned.
    pub after_end: u64,
    /// From the planned start to the right answer.
    pub response: Histogram,
    /// From the send to the right answer.
    pub service: Histogram,
}

impl Outcomes {
    fn new() -> Self {
        let (response, service) = (Histogram::new(), Histogram::new());
        Outcomes { planned: 0, answered: 0, over_limit: 0, failed: 0, dropped: 0, after_end: 0, response, service }
    }

    /// Operations about which nothing is known yet.
    pub(crate) fn unanswered(&self) -> u64 {
        self.planned - self.answered - self.failed - self.dropped
    }
}

/// What one worker counted in one window.
pub(crate) struct Window {
    /// Its number, its bounds and its level.
    pub span: Span,
    /// Operations sent.
    pub started: u64,
    /// By operation.
    pub outcomes: Vec<Outcomes>,
    /// Failures, by kind.
    pub failures: Failures,
    /// How late starts were by the generator's own fault.
    pub late: Histogram,
    /// How hard the worker worked during it.
    pub effort: Effort,
    outstanding: u64,
    // The thread's CPU time when the window began; none before it began and after it was over.
    cpu_mark_ns: Option<u64>,
}

impl Window {
    /// An empty window.
    pub(crate) fn new(span: Span, operations: usize) -> Box<Self> {
        Box::new(Window {
            span,
            started: 0,
            outcomes: (0..operations).map(|_| Outcomes::new()).collect(),
            failures: Failures::default(),
            late: Histogram::new(),
            effort: Effort::default(),
            outstanding: 0,
            cpu_mark_ns: None,
        })
    }

    /// Adds what another worker counted in the same window.
    pub(crate) fn merge(&mut self, other: &Window) {
        self.started += other.started;
        for (to, from) in self.outcomes.iter_mut().zip(&other.outcomes) {
            to.planned += from.planned;
            to.answered += from.answered;
            to.over_limit += from.over_limit;
            to.failed += from.failed;
            to.dropped += from.dropped;
            to.after_end += from.after_end;
            to.response.merge(&from.response);
            to.service.merge(&from.service);
        }
        self.failures.merge(&other.failures);
        self.late.merge(&other.late);
    }
}

/// The windows that one worker counts.
pub(crate) struct Windows {
    open: VecDeque<Box<Window>>,
    // By operation: the limit of its response time, ns.
    limits: Vec<u64>,
    // By operation: whether nobody waits for its answer.
    lingers: Vec<bool>,
    // How long a window waits for answers after its end.
    patience_ns: u64,
}

impl Windows {
    /// No windows yet. `limits` are the limits of response times, by operation, ns. Answers are awaited for
    /// `patience_ns` after the end of a window, except those of operations that linger: of these, the ones still
    /// unanswered when the window closes are not counted.
    pub(crate) fn new(limits: Vec<u64>, lingers: Vec<bool>, patience_ns: u64) -> Self {
        Windows { open: VecDeque::new(), limits, lingers, patience_ns }
    }

    /// Adds the next window.
    pub(crate) fn push(&mut self, span: Span) {
        self.open.push_back(Window::new(span, self.limits.len()));
    }

    /// Counts nothing that was planned for `end_ns` or later.
    pub(crate) fn end(&mut self, end_ns: u64) {
        self.open.retain(|window| window.span.from_ns < end_ns);
        self.open.iter_mut().for_each(|window| window.span.to_ns = window.span.to_ns.min(end_ns));
    }

    #[inline]
    fn of(&mut self, planned_ns: u64) -> Option<&mut Window> {
        let holds = |window: &&mut Box<Window>| window.span.from_ns <= planned_ns && planned_ns < window.span.to_ns;
        self.open.iter_mut().rev().find(holds).map(|window| &mut **window)
    }

    /// An operation was due, and the generator reached it at `now_ns`.
    #[inline]
    pub(crate) fn planned(&mut self, planned_ns: u64, operation: u16, now_ns: u64) {
        let awaited = self.awaited(operation);
        let Some(window) = self.of(planned_ns) else { return };
        window.outcomes[usize::from(operation)].planned += 1;
        window.late.record(now_ns.saturating_sub(planned_ns));
        window.outstanding += awaited;
    }

    /// It was sent.
    #[inline]
    pub(crate) fn sent(&mut self, planned_ns: u64) {
        if let Some(window) = self.of(planned_ns) {
            window.started += 1;
        }
    }

    /// It was given up: too many were in flight.
    pub(crate) fn dropped(&mut self, planned_ns: u64, operation: u16) {
        let awaited = self.awaited(operation);
        let Some(window) = self.of(planned_ns) else { return };
        window.outcomes[usize::from(operation)].dropped += 1;
        window.outstanding -= awaited;
    }

    /// It was answered; returns whether that was right and within a window.
    #[inline]
    pub(crate) fn answered(&mut self, now_ns: u64, flight: &Flight, reply: Reply) -> bool {
        let limit_ns = self.limits[usize::from(flight.operation)];
        if let Some(failure) = reply.failure() {
            self.failed(flight.planned_ns, flight.operation, failure);
            return false;
        }
        let awaited = self.awaited(flight.operation);
        let Some(window) = self.of(flight.planned_ns) else { return false };
        let response_ns = now_ns.saturating_sub(flight.planned_ns);
        let outcomes = &mut window.outcomes[usize::from(flight.operation)];
        outcomes.answered += 1;
        outcomes.over_limit += u64::from(response_ns > limit_ns);
        outcomes.response.record(response_ns);
        outcomes.service.record(now_ns.saturating_sub(flight.start_ns));
        window.outstanding -= awaited;
        true
    }

    /// It was refused, or its connection closed, after its companion had been ended.
    pub(crate) fn after_end(&mut self, planned_ns: u64, operation: u16) {
        let awaited = self.awaited(operation);
        let Some(window) = self.of(planned_ns) else { return };
        let outcomes = &mut window.outcomes[usize::from(operation)];
        outcomes.planned -= 1;
        outcomes.after_end += 1;
        window.outstanding -= awaited;
    }

    /// It failed.
    pub(crate) fn failed(&mut self, planned_ns: u64, operation: u16, failure: Failure) {
        let awaited = self.awaited(operation);
        let Some(window) = self.of(planned_ns) else { return };
        window.outcomes[usize::from(operation)].failed += 1;
        window.failures.count(failure);
        window.outstanding -= awaited;
    }

    /// A connection failed with nothing in flight.
    pub(crate) fn broken(&mut self, now_ns: u64, failure: Failure) {
        if let Some(window) = self.of(now_ns) {
            window.failures.count(failure);
        }
    }

    /// A round of the event loop is over in which `replies` were read, after `idle_ns` of idleness.
    #[inline]
    pub(crate) fn round(&mut self, now_ns: u64, replies: u64, idle_ns: u64) {
        for window in &mut self.open {
            if now_ns >= window.span.from_ns && now_ns < window.span.to_ns {
                window.effort.idle_ns += idle_ns;
                window.effort.replies += replies;
                window.effort.crowd += replies * replies;
                if window.cpu_mark_ns.is_none() {
                    window.cpu_mark_ns = Some(clock::thread_cpu_ns());
                }
            } else if now_ns >= window.span.to_ns
                && let Some(mark_ns) = window.cpu_mark_ns.take()
            {
                window.effort.cpu_ns += clock::thread_cpu_ns() - mark_ns;
            }
        }
    }

    /// The next window that is complete at `now_ns`.
    #[inline]
    pub(crate) fn complete(&mut self, now_ns: u64) -> Option<Box<Window>> {
        let first = self.open.front()?;
        let over = now_ns >= first.span.to_ns && first.cpu_mark_ns.is_none();
        let late = now_ns >= first.span.to_ns.saturating_add(self.patience_ns);
        if over && (first.outstanding == 0 || late) { self.close() } else { None }
    }

    /// 1 if a window waits for the answer to this operation, 0 if not.
    #[inline]
    fn awaited(&self, operation: u16) -> u64 {
        u64::from(!self.lingers[usize::from(operation)])
    }

    /// Removes the first window as it is: operations that linger and are still unanswered are treated as not planned.
    fn close(&mut self) -> Option<Box<Window>> {
        let mut window = self.open.pop_front()?;
        for (outcomes, lingers) in window.outcomes.iter_mut().zip(&self.lingers) {
            outcomes.planned -= if *lingers { outcomes.unanswered() } else { 0 };
        }
        Some(window)
    }

    /// The next window that was over at `now_ns`, complete or not.
    pub(crate) fn rest(&mut self, now_ns: u64) -> Option<Box<Window>> {
        self.round(now_ns, 0, 0);
        let over = self.open.front().is_some_and(|first| now_ns >= first.span.to_ns);
        if over { self.close() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn flight(planned_ns: u64, start_ns: u64) -> Flight {
        Flight { planned_ns, start_ns, ..Flight::default() }
    }

    #[test]
    fn an_operation_belongs_to_the_window_of_its_planned_start() {
        let mut windows = Windows::new(vec![50], vec![false], 1000);
        windows.push(Span { number: 0, level: 1.0, from_ns: 100, to_ns: 200 });
        windows.push(Span { number: 1, level: 2.0, from_ns: 200, to_ns: 300 });
        for planned_ns in [99, 100, 150, 160, 199, 200] {
            windows.planned(planned_ns, 0, planned_ns + 5);
        }
        windows.answered(250, &flight(99, 99), Reply::Right);
        windows.sent(150);
        windows.answered(160, &flight(150, 155), Reply::Right);
        windows.answered(290, &flight(199, 210), Reply::Empty);
        windows.dropped(160, 0);
        assert!(windows.complete(320).is_none(), "one is still awaited");
        windows.failed(100, 0, Failure::Reset);
        let first = windows.complete(320).unwrap();
        let outcomes = &first.outcomes[0];
        assert_eq!((outcomes.planned, outcomes.answered, outcomes.over_limit), (4, 2, 1));
        assert_eq!((outcomes.failed, outcomes.dropped, outcomes.unanswered()), (1, 1, 0));
        assert_eq!((outcomes.response.longest(), outcomes.service.longest()), (91, 80));
        assert_eq!((first.started, first.failures.named()["connection reset"], first.late.total()), (1, 1, 4));
        let mut news = Windows::new(vec![50], vec![true], 1000);
        news.push(Span { number: 0, level: 1.0, from_ns: 100, to_ns: 200 });
        [110, 120, 130, 140].into_iter().for_each(|planned_ns| news.planned(planned_ns, 0, planned_ns));
        news.answered(190, &flight(110, 110), Reply::Right);
        news.failed(120, 0, Failure::Reset);
        news.after_end(140, 0);
        let window = news.complete(200).expect("nobody waits for news");
        let outcomes = &window.outcomes[0];
        assert_eq!((outcomes.planned, outcomes.unanswered(), outcomes.after_end), (2, 0, 1));
        assert!(windows.complete(1299).is_none());
        assert_eq!(windows.complete(1300).unwrap().outcomes[0].unanswered(), 1, "patience has an end");
    }
}
