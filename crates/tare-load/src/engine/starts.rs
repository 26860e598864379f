//! Starts operations: which connection takes one, and which operation has to wait.

use super::connection::State;
use super::layout::Manner;
use super::worker::Worker;
use crate::clock;
use crate::operation::{Failure, Flight, Protocol, Reply};
use crate::profile::{NOBODY, Source, Start};

/// The most starts made in one round before events are handled again.
const STARTS_MAX: usize = 64;

impl<P: Protocol> Worker<'_, P> {
    /// Starts what is due.
    #[inline]
    pub(super) fn start_due(&mut self, now_ns: u64) {
        if self.manner == Manner::Closed {
            return self.activate(now_ns);
        }
        for _ in 0..STARTS_MAX {
            let now_ns = clock::monotonic_ns();
            let Some(start) = self.due(now_ns) else { break };
            self.admit(start, now_ns);
        }
    }

    /// Starts operations that were due before the end but had not been started by then. A load held up at the end
    /// starts them late, as at any other time; they were due all the same.
    pub(super) fn start_overdue(&mut self, end_ns: u64) {
        while let Some(start) = self.due(end_ns.saturating_sub(1)) {
            self.admit(start, clock::monotonic_ns());
        }
    }

    /// The next start that is due at `now_ns`.
    #[inline]
    fn due(&mut self, now_ns: u64) -> Option<Start> {
        let (protocol, users) = (self.protocol, &self.users);
        self.source.take(now_ns, |user, variable| protocol.value(&users[user as usize], variable))
    }

    /// Counts an operation that is due, and starts it unless too many are in flight.
    #[inline]
    fn admit(&mut self, start: Start, now_ns: u64) {
        self.recorder.planned(&start, now_ns);
        if self.live >= self.in_flight_max {
            self.recorder.dropped(&start);
            return self.source.done(start.user, now_ns, false);
        }
        self.begun(start.operation);
        self.place(start, now_ns);
    }

    /// In a closed loop: keeps as many connections busy as the level says.
    #[inline]
    pub(super) fn activate(&mut self, now_ns: u64) {
        let Source::Closed(levels) = &self.source else { return };
        // A load that takes turns keeps all or none of them busy.
        if self.orders.seat.is_some() {
            return;
        }
        if !self.orders.layout.levels && self.active == self.connections.len() {
            return;
        }
        let wanted = self.orders.share.of(levels.at(now_ns) as u64) as usize;
        let (before, now) = (self.active, wanted.min(self.connections.len()));
        self.active = now;
        for index in before..now {
            self.begin(index);
        }
    }

    /// Sends the first operations of a connection that was idle.
    pub(super) fn begin(&mut self, index: usize) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        self.refill(index, &mut outgoing, clock::monotonic_ns());
        self.send(index, &mut outgoing);
        self.outgoing = outgoing;
    }

    /// Fills the connection up to the pipeline's depth. The moment of the last reply counts as the moment of sending:
    /// the time between the two is the generator's own work, and in a closed loop the next operation starts when one is
    /// answered.
    #[inline]
    pub(super) fn refill(&mut self, index: usize, outgoing: &mut Vec<u8>, now_ns: u64) {
        if !self.recorder.sending() || self.recorder.over(now_ns).is_some() || index >= self.active {
            return;
        }
        let connection = &mut self.connections[index];
        if connection.state != State::Up {
            return;
        }
        while connection.flights.len() < self.pipeline {
            let operation = self.mix.draw(&mut connection.draw) as u16;
            let (session, user, draw) = (&mut connection.session, &mut self.users[index], &mut connection.draw);
            let token = self.protocol.begin(session, user, operation, draw, outgoing);
            let flight = Flight { planned_ns: now_ns, start_ns: now_ns, token, user: index as u32, operation };
            connection.flights.push_back(flight);
            self.recorder.looped(now_ns, operation);
            self.live += 1;
            self.lingering += u64::from(self.lingers[usize::from(operation)]);
        }
    }

    /// Finds a connection for an operation that is due.
    fn place(&mut self, start: Start, now_ns: u64) {
        match self.manner {
            Manner::Own => {
                let index = start.user as usize;
                let connection = &mut self.connections[index];
                if connection.state == State::Up {
                    return self.launch_alone(index, &start);
                }
                let asleep = connection.socket.is_none() && connection.opened_ns == 0;
                connection.pending = Some(start);
                if asleep {
                    // The user is new: nothing has connected for them yet.
                    connection.opened_ns = now_ns;
                    self.down.push(index);
                }
            }
            Manner::Fresh => self.waiting.push_back(start),
            Manner::Shared => match self.free_connection() {
                Some(index) => self.launch_alone(index, &start),
                None => self.waiting.push_back(start),
            },
            Manner::Closed => unreachable!("a closed loop plans nothing"),
        }
    }

    /// A connection that can take an operation immediately.
    fn free_connection(&mut self) -> Option<usize> {
        loop {
            let index = self.free.pop_front()? as usize;
            let connection = &mut self.connections[index];
            connection.listed = false;
            // It may have been lost since it was listed.
            if connection.state == State::Up && connection.flights.is_empty() {
                return Some(index);
            }
        }
    }

    /// Makes connections for operations that wait for one of their own, as long as free slots are left.
    pub(super) fn connect_waiting(&mut self) {
        for _ in 0..STARTS_MAX {
            let now_ns = clock::monotonic_ns();
            self.end_rests(now_ns);
            let (Some(index), false) = (self.free.front().copied(), self.waiting.is_empty()) else { return };
            let index = index as usize;
            self.free.pop_front();
            self.connections[index].pending = self.waiting.pop_front();
            self.open(index, now_ns);
        }
    }

    /// After a failure a connection slot rests, so that a service that is down is not flooded; the other slots remain
    /// usable.
    fn end_rests(&mut self, now_ns: u64) {
        while let Some(index) = self.resting.front().copied()
            && matches!(self.connections[index as usize].state, State::Down(retry_ns) if retry_ns <= now_ns)
        {
            self.resting.pop_front();
            self.free.push_back(index);
        }
    }

    /// Sends an operation over a free connection.
    #[inline]
    fn launch_alone(&mut self, index: usize, start: &Start) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        self.launch(index, start, &mut outgoing, clock::monotonic_ns());
        self.send(index, &mut outgoing);
        self.outgoing = outgoing;
    }

    /// Begins an operation on a free connection; `start_ns` counts as the moment of sending.
    #[inline]
    fn launch(&mut self, index: usize, start: &Start, outgoing: &mut Vec<u8>, start_ns: u64) {
        let connection = &mut self.connections[index];
        connection.draw = start.draw;
        let user = if start.user == NOBODY { index as u32 } else { start.user };
        let (session, draw) = (&mut connection.session, &mut connection.draw);
        let token = self.protocol.begin(session, &mut self.users[user as usize], start.operation, draw, outgoing);
        let (planned_ns, operation) = (start.planned_ns, start.operation);
        connection.flights.push_back(Flight { planned_ns, start_ns, token, user, operation });
        self.recorder.sent(planned_ns, operation);
    }

    /// The connection is ready for operations. What is to be sent is appended to `outgoing`.
    pub(super) fn ready(&mut self, index: usize, outgoing: &mut Vec<u8>, now_ns: u64) {
        let connection = &mut self.connections[index];
        if !connection.flights.is_empty() {
            return self.protocol.resume(&mut connection.session, outgoing);
        }
        match self.manner {
            Manner::Closed => self.refill(index, outgoing, now_ns),
            Manner::Shared => self.next(index, outgoing, now_ns),
            Manner::Own | Manner::Fresh => {
                let connection = &mut self.connections[index];
                // Connecting is part of an operation that makes a connection of its own.
                let start_ns = if self.manner == Manner::Fresh { connection.opened_ns } else { now_ns };
                if let Some(start) = connection.pending.take() {
                    self.launch(index, &start, outgoing, start_ns);
                }
            }
        }
    }

    /// An operation was completed on a connection that is still open.
    #[inline]
    pub(super) fn answered(
        &mut self,
        index: usize,
        flight: &Flight,
        reply: Reply,
        outgoing: &mut Vec<u8>,
        now_ns: u64,
    ) {
        if self.manner == Manner::Closed {
            return;
        }
        self.source.done(flight.user, now_ns, reply.failure().is_none());
        match self.manner {
            Manner::Shared => self.next(index, outgoing, now_ns),
            Manner::Fresh => self.disconnect(index, Failure::Closed, true),
            Manner::Own | Manner::Closed => {}
        }
    }

    /// Gives a shared connection the operation that has waited longest.
    fn next(&mut self, index: usize, outgoing: &mut Vec<u8>, now_ns: u64) {
        if let Some(start) = self.waiting.pop_front() {
            return self.launch(index, &start, outgoing, now_ns);
        }
        let connection = &mut self.connections[index];
        if !connection.listed {
            connection.listed = true;
            self.free.push_back(index as u32);
        }
    }

    /// An operation that was never sent has failed.
    pub(super) fn give_up(&mut self, start: &Start, now_ns: u64, failure: Failure) {
        self.over(start.operation);
        self.recorder.lost(now_ns, start.planned_ns, start.operation, failure);
        self.source.done(start.user, now_ns, false);
    }

    /// An operation that was sent will not be answered any more. If it waited for news on behalf of a user who has
    /// since left, the server may report that by closing the connection, or never: the answer is no longer awaited, so
    /// it does not count as a failure.
    pub(super) fn lose(&mut self, now_ns: u64, flight: &Flight, failure: Failure) {
        self.over(flight.operation);
        let lingers = self.lingers[usize::from(flight.operation)];
        if lingers && failure.is_silence() && self.source.has_ended(flight.user) {
            self.recorder.let_go(now_ns, flight);
        } else {
            self.recorder.lost(now_ns, flight.planned_ns, flight.operation, failure);
        }
        self.source.done(flight.user, now_ns, false);
    }

    /// An operation came due; it is live until it is completed or lost.
    #[inline]
    pub(super) fn begun(&mut self, operation: u16) {
        self.live += 1;
        self.lingering += u64::from(self.lingers[usize::from(operation)]);
    }

    /// An operation was completed or lost.
    #[inline]
    pub(super) fn over(&mut self, operation: u16) {
        self.live -= 1;
        self.lingering -= u64::from(self.lingers[usize::from(operation)]);
    }

    /// Counts a reply. If a user has ended their companion, as by logging out, the companion's request was legitimate
    /// but may be refused: that does not count as a failure.
    #[inline]
    pub(super) fn count(&mut self, now_ns: u64, flight: &Flight, reply: Reply) {
        self.replies += 1;
        if self.waves.answered(now_ns) {
            self.park();
        }
        match reply.failure() {
            Some(failure) if failure.may_refuse() && self.source.has_ended(flight.user) => {
                self.recorder.after_end(now_ns, flight)
            }
            None if self.is_weight() => self.recorder.uncounted(now_ns, flight, reply),
            None if self.waves.is_rested() => self.recorder.rested(now_ns, flight, reply),
            _ => self.recorder.answered(now_ns, flight, reply),
        }
    }

    /// Whether the operation just answered is part of a ruler's weight, which is spread evenly over the operations it
    /// makes.
    #[inline]
    fn is_weight(&mut self) -> bool {
        let Some(share) = self.orders.plan.weight else { return false };
        self.due += share / (1.0 + share);
        let is = self.due >= 1.0;
        self.due -= f64::from(u8::from(is));
        is
    }

    /// Follows up a right answer to an operation: companions that start with it begin, and what a companion has learnt
    /// from it is passed to its user.
    #[inline]
    pub(super) fn follow_up(&mut self, flight: &Flight, reply: Reply, now_ns: u64) {
        if self.orders.layout.beside == 0 || reply.failure().is_some() {
            return;
        }
        for kind in 0..self.source.kinds() {
            if let Some(companion) = self.source.right(flight.user, flight.operation, kind, now_ns) {
                self.users[companion as usize] = self.protocol.accompany(&self.users[flight.user as usize]);
            }
        }
        if let Some((owner, values)) = self.source.told_by(flight.user) {
            let (before, from) = self.users.split_at_mut(flight.user as usize);
            self.protocol.tell(&from[0], &mut before[owner as usize], values);
        }
    }
}
