//! A worker: one thread, one epoll, its share of the connections and of the starts.

use super::connection::{Connection, State, Target, failure_of};
use super::idle::Idle;
use super::layout::{Layout, Manner};
use super::tally::Recorder;
use super::timeline::Timeline;
use super::turn::Worked;
use super::turns::Seat;
use super::waves::{Stuck, Waves};
use crate::clock::{self, SECOND_NS};
use crate::draw::{Draw, Mix};
use crate::operation::{Failure, Ledger, OperationRow, Protocol};
use crate::profile::{Share, Source, Spoken, Start};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use tare_core::fault::{Doing, Fault};
use tare_core::load::LoadPlan;

/// A lost connection is reopened after this long, so that a service that is down is not flooded.
pub(super) const RETRY_NS: u64 = SECOND_NS / 10;
/// The most attempts to connect at one time: below every usual listen backlog.
const CONNECTING_MAX: usize = 64;
/// After this long without a connection the service counts as unreachable: a run does not begin, and one that has begun
/// reports it. Before a run, an attempt still under way may take as long as an operation.
pub(super) const NOBODY_NS: u64 = 2 * SECOND_NS;
/// How long a load that is told to end waits for what is still in flight.
const LAST_ANSWERS_NS: u64 = SECOND_NS;
/// All connections must be established after this long, plus the second figure for each.
const CONNECT_ALL_NS: u64 = 15 * SECOND_NS;
const CONNECT_EACH_NS: u64 = SECOND_NS / 2000;
/// The most bytes received at once; the buffer is shared by all connections of a worker.
const INCOMING: usize = 128 * 1024;
/// The most events taken at once.
const EVENTS: usize = 1024;

/// A worker's orders.
pub(crate) struct Orders<'a> {
    /// The plan.
    pub plan: &'a LoadPlan,
    /// The plan, laid out.
    pub layout: &'a Layout,
    /// This worker's share of it.
    pub share: Share,
    /// Where to connect to.
    pub target: Target,
    /// How long one operation may take, ns.
    pub timeout_ns: u64,
    /// Raised when everything is to end.
    pub stop: &'a AtomicBool,
    /// The load's seat, if it takes turns with others.
    pub seat: Option<&'a Seat>,
}

/// A worker at work.
pub(crate) struct Worker<'a, P: Protocol> {
    pub(super) protocol: &'a P,
    pub(super) orders: Orders<'a>,
    pub(super) recorder: Recorder,
    pub(super) epoll: OwnedFd,
    pub(super) manner: Manner,
    pub(super) pipeline: usize,
    // Whether operations may be completed by being sent.
    pub(super) streams: bool,
    pub(super) source: Source,
    pub(super) mix: Mix,
    pub(super) connections: Vec<Connection<P::Session>>,
    // By number; unless connections are users' own, each connection is a user.
    pub(super) users: Vec<P::User>,
    // In a closed loop: connections below this index are kept busy.
    pub(super) active: usize,
    // Free connections. If each operation makes its own, the free ones are those that are down.
    pub(super) free: VecDeque<u32>,
    // Slots of failed connections made for single operations: they rest, in the order in which they may be used again.
    pub(super) resting: VecDeque<u32>,
    pub(super) waiting: VecDeque<Start>,
    pub(super) in_flight_max: u64,
    // Connections that are down and to be reopened.
    pub(super) down: Vec<usize>,
    // Connections with more to read or to count, which no event will announce; each is listed once.
    pub(super) unfinished: Vec<usize>,
    pub(super) connecting: usize,
    pub(super) up: usize,
    // Operations that came due and are neither completed nor lost.
    pub(super) live: u64,
    // Of these, those answered only when there is news; and which operations are of that kind.
    pub(super) lingering: u64,
    pub(super) lingers: Vec<bool>,
    // When a connection was last up, or none was wanted; and whether an attempt is taking long.
    pub(super) alive_ns: u64,
    slow: bool,
    idle: Idle,
    pub(super) last_failure: Failure,
    pub(super) incoming: Vec<u8>,
    pub(super) outgoing: Vec<u8>,
    pub(super) replies: u64,
    // If turns are taken: whether one is ending, and when its answers came.
    pub(super) parking: bool,
    pub(super) waves: Waves,
    // For a ruler: the fraction of an operation due as its weight.
    pub(super) due: f64,
}

impl<'a, P: Protocol> Worker<'a, P> {
    /// A worker that is not connected yet.
    ///
    /// # Errors
    /// When the kernel cannot provide an epoll.
    pub(crate) fn new(protocol: &'a P, orders: Orders<'a>, recorder: Recorder) -> Result<Self, Fault> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).doing("create an epoll")?;
        let (layout, share, seed) = (orders.layout, orders.share, orders.plan.seed);
        let pipeline = layout.pipeline as usize;
        let make = |local| Connection::new(Draw::new(seed, share.global(local)), protocol.session(), pipeline);
        let connections: Vec<_> = (0..layout.connections_of(share)).map(make).collect();
        let count = connections.len();
        Ok(Worker {
            protocol,
            recorder,
            epoll,
            manner: layout.manner,
            pipeline,
            streams: protocol.streams(),
            source: Source::Closed(crate::profile::Levels::new(0, 0.0)),
            mix: OperationRow::mix(&protocol.operations()),
            users: layout.users_of(share).map(|number| protocol.user(number)).collect(),
            active: count,
            free: if layout.manner == Manner::Fresh { (0..count as u32).collect() } else { VecDeque::new() },
            resting: VecDeque::new(),
            waiting: VecDeque::new(),
            in_flight_max: layout.in_flight.div_ceil(share.workers),
            down: if layout.lazy { Vec::new() } else { (0..count).collect() },
            connections,
            unfinished: Vec::new(),
            connecting: 0,
            up: 0,
            live: 0,
            lingering: 0,
            lingers: protocol.operations().iter().map(|operation| operation.lingers).collect(),
            alive_ns: clock::monotonic_ns(),
            slow: false,
            idle: Idle::measured(),
            last_failure: Failure::TimedOut,
            incoming: vec![0; INCOMING],
            outgoing: Vec::with_capacity(64 * 1024),
            replies: 0,
            parking: false,
            waves: Waves::default(),
            due: 0.0,
            orders,
        })
    }

    /// Connects, waits for the start, drives the load to its end, and waits for the last replies.
    ///
    /// # Errors
    /// When the connections cannot be made. A service that goes away later is counted and reported, not an error.
    pub(crate) fn run(mut self, start: &Receiver<Arc<Timeline>>) -> Result<Ledger, Fault> {
        // Otherwise threads are woken up to 50 us late; if this fails, they still are.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut events = [MaybeUninit::uninit(); EVENTS];
        self.connect_all(&mut events)?;
        self.recorder.connected();
        let Ok(timeline) = start.recv() else { return Ok(self.recorder.ledger) };
        let (layout, plan, share) = (self.orders.layout, self.orders.plan, self.orders.share);
        let (operations, variable) = (self.protocol.operations(), |name: &str| self.protocol.variable(name));
        let spoken = Spoken { operations: &operations, variable: &variable };
        self.source = layout.source(plan, &timeline, spoken, share)?;
        self.recorder.begin(Arc::clone(&timeline));
        self.alive_ns = clock::monotonic_ns();
        if self.manner == Manner::Closed {
            self.active = 0;
            self.activate(timeline.start_ns);
        }
        if let Some(seat) = self.orders.seat {
            self.take_turns(seat, &timeline, &mut events)?;
        }
        let pace_ns = (self.orders.timeout_ns / 10).clamp(SECOND_NS / 1000, SECOND_NS / 10).min(layout.news_ns());
        while self.recorder.sending() && !self.stopped() {
            self.round(&mut events, pace_ns)?;
            self.recorder.listen(&mut self.source);
        }
        if !self.stopped() {
            self.start_overdue(timeline.end_ns());
        }
        self.drain(&mut events, pace_ns, &timeline)?;
        if !self.stopped() && !timeline.told() {
            self.part();
        }
        Ok(self.recorder.finish(timeline.end_ns()))
    }

    /// Works whenever it is this load's turn; returns when there are no more turns, with nothing in flight.
    fn take_turns(
        &mut self,
        seat: &Seat,
        timeline: &Timeline,
        events: &mut [MaybeUninit<epoll::Event>],
    ) -> Result<(), Fault> {
        let (stop, mut seen, mut away_ns) = (self.orders.stop, 0, 0);
        while let Some(turn) = seat.next(seen, || stop.load(Ordering::Relaxed), || timeline.told()) {
            seen = turn.number;
            let early_ns = turn.from_ns.saturating_sub(clock::monotonic_ns());
            std::thread::sleep(std::time::Duration::from_nanos(early_ns));
            // A connection closed while the load rested must not fail an operation sent into it.
            self.round(events, 1)?;
            self.parking = false;
            let start_ns = clock::monotonic_ns();
            self.recorder.advance(start_ns);
            let lost = self.recorder.lost_so_far();
            self.alive_ns = start_ns - away_ns;
            self.active = self.connections.len();
            let until_ns = start_ns + turn.length_ns;
            self.waves = Waves::begin(self.active * self.pipeline, start_ns, until_ns, turn.first_counts);
            for index in 0..self.active {
                self.begin(index);
            }
            seat.begun();
            // The last wave may take as long again as the turn itself.
            let (latest_ns, mut now_ns) = (until_ns + turn.length_ns, clock::monotonic_ns());
            while !self.parking && now_ns < latest_ns && !self.stopped() {
                let next_ns = if now_ns < until_ns { until_ns } else { latest_ns };
                self.round(events, next_ns - now_ns)?;
                now_ns = clock::monotonic_ns();
            }
            let cut = !self.parking;
            self.park();
            let over_ns = latest_ns.max(self.waves.over_ns(start_ns, now_ns));
            let mut stuck = Stuck::after(over_ns, (self.up as u64, self.connections.len() as u64));
            let deadline_ns = latest_ns.saturating_add(self.orders.timeout_ns);
            while self.live > 0 && clock::monotonic_ns() < deadline_ns && !self.stopped() {
                let waiting = self.live;
                self.round(events, SECOND_NS / 1000)?;
                stuck.add(waiting, clock::monotonic_ns());
            }
            // If something was not answered, the wait for it lasted as long as the turn.
            let now_ns = clock::monotonic_ns();
            let lost = self.recorder.lost_so_far() > lost;
            let left = lost || self.live > 0 || self.waves.answers() == 0;
            let end_ns = stuck.end_ns(if left { now_ns } else { self.waves.last_ns() });
            // If there is no connection at the end of a turn, the next turn begins with the same time without one.
            away_ns = if self.up > 0 { 0 } else { now_ns - self.alive_ns };
            // A turn that was cut off, or waited for something that never came, was long for reasons other than its
            // move.
            let amid = self.waves.amid().filter(|_| !cut && !left);
            let answers = self.waves.answers();
            seat.done(turn, Worked { start_ns, end_ns, stuck_ns: stuck.sum_ns(), answers, lost, amid });
        }
        timeline.close();
        self.recorder.listen(&mut self.source);
        Ok(())
    }

    /// The turn ends: nothing is started any more.
    pub(super) fn park(&mut self) {
        (self.active, self.parking) = (0, true);
        self.waves.ebb();
    }

    /// Makes the connections that must be established before anything starts.
    fn connect_all(&mut self, events: &mut [MaybeUninit<epoll::Event>]) -> Result<(), Fault> {
        let begun_ns = clock::monotonic_ns();
        let patience_ns = CONNECT_ALL_NS + self.connections.len() as u64 * CONNECT_EACH_NS;
        while !self.orders.layout.lazy && self.up < self.connections.len() && !self.stopped() {
            self.round(events, SECOND_NS / 200)?;
            let now_ns = clock::monotonic_ns();
            let limit_ns = if self.slow { NOBODY_NS.max(self.orders.timeout_ns) } else { NOBODY_NS };
            let away_ns = now_ns.saturating_sub(self.alive_ns);
            if away_ns > limit_ns {
                return Err(self.nobody(away_ns));
            }
            if now_ns - begun_ns > patience_ns {
                return Err(self.incomplete());
            }
        }
        Ok(())
    }

    /// Waits for the last replies. In a closed loop, what is unanswered by then has failed; windows count that by
    /// themselves.
    fn drain(
        &mut self,
        events: &mut [MaybeUninit<epoll::Event>],
        pace_ns: u64,
        timeline: &Timeline,
    ) -> Result<(), Fault> {
        // An operation may wait for a connection for the whole timeout, and then take as long again.
        let planned_ns = timeline.end_ns().saturating_add(2 * self.orders.timeout_ns);
        // A load told to end does not wait that long. A guided load always ends by request, and its answers count.
        let told_ns = || if timeline.told() { timeline.told_end_ns() } else { u64::MAX };
        let deadline_ns = || planned_ns.min(told_ns().saturating_add(LAST_ANSWERS_NS));
        while self.live > self.lingering && clock::monotonic_ns() < deadline_ns() && !self.stopped() {
            self.round(events, pace_ns)?;
        }
        let now_ns = clock::monotonic_ns();
        let open = if self.orders.layout.planned { &[] } else { self.connections.as_slice() };
        for flight in open.iter().flat_map(|connection| &connection.flights) {
            self.recorder.lost(now_ns, flight.planned_ns, flight.operation, Failure::TimedOut);
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.orders.stop.load(Ordering::Relaxed)
    }

    fn incomplete(&self) -> Fault {
        let (up, all) = (self.up, self.connections.len());
        let message = format!(
            "only {up} of {all} connections to {} could be made: {}",
            self.orders.target,
            self.last_failure.name()
        );
        Fault::new(message).remedy("raise the service's limits on connections and its listen backlog, or ask for fewer")
    }

    fn nobody(&self, away_ns: u64) -> Fault {
        let (endpoint, why, away_s) = (&self.orders.target, self.last_failure.name(), away_ns / SECOND_NS);
        Fault::new(format!("no connection to {endpoint} for {away_s} s: {why}"))
            .remedy("see the service's log: it ended, or does not listen there")
    }

    /// Waits for events until something is due, but for at most about `pace_ns`, and handles them. Periodic work (time
    /// limits, reconnecting) is done when the wait ends; under load that would be far more often than needed, so it is
    /// skipped until `pace_ns` have passed.
    fn round(&mut self, events: &mut [MaybeUninit<epoll::Event>], pace_ns: u64) -> Result<(), Fault> {
        let mut now_ns = clock::monotonic_ns();
        let due_ns = now_ns + pace_ns;
        while now_ns < due_ns {
            // Connecting is work. If local ports are scarce, the kernel searches them one by one.
            let asked_ns = if self.reopen(now_ns) { clock::monotonic_ns() } else { now_ns };
            let pause_ns = match (self.unfinished.is_empty(), self.down.is_empty()) {
                (false, _) => 0,
                (true, false) => RETRY_NS / 10,
                (true, true) if !self.resting.is_empty() => RETRY_NS / 10,
                (true, true) => pace_ns,
            };
            let mut until_ns = due_ns.min(self.recorder.next_at_ns()).min(now_ns + pause_ns);
            if self.recorder.sending() {
                until_ns = until_ns.min(self.source.next_ns());
            }
            let wait = clock::timespec(until_ns.saturating_sub(asked_ns));
            // Time between turns is no load's.
            let is_between = self.parking && self.live == 0;
            let ready = match epoll::wait(&self.epoll, &mut *events, Some(&wait)) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => &mut [],
                Err(error) => return Err(Fault::from_error("wait for events", &error)),
            };
            let woke_ns = clock::monotonic_ns();
            let idle_ns = if is_between { 0 } else { self.idle.of(asked_ns, woke_ns) };
            self.replies = 0;
            let over_ns = self.recorder.over(woke_ns);
            if let Some(end_ns) = over_ns {
                self.start_overdue(end_ns);
            }
            self.finish();
            for event in ready.iter() {
                let (flags, data) = (event.flags, event.data);
                self.handle(data.u64(), flags);
            }
            if self.recorder.sending() && over_ns.is_none() {
                self.start_due(woke_ns);
            }
            if self.manner == Manner::Fresh {
                self.connect_waiting();
            }
            now_ns = clock::monotonic_ns();
            // The worker was held up since it woke.
            if over_ns.is_none()
                && let Some(end_ns) = self.recorder.over(now_ns)
            {
                self.start_overdue(end_ns);
            }
            self.recorder.round((woke_ns, now_ns), idle_ns, self.replies, self.source.next_ns());
            self.recorder.advance(now_ns);
            if !self.recorder.sending() || self.parking && self.live == 0 {
                // While connecting or draining, what the caller waits for may have come.
                break;
            }
        }
        self.look_after(now_ns);
        Ok(())
    }

    /// Ends what took too long.
    fn look_after(&mut self, now_ns: u64) {
        let timeout_ns = self.orders.timeout_ns;
        self.slow = false;
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let since_ns = match connection.state {
                State::Up => connection.flights.front().map(|flight| flight.start_ns),
                // An operation may have begun on the previous connection.
                State::Connecting(since_ns) | State::Greeting(since_ns) => {
                    self.slow |= now_ns.saturating_sub(since_ns) > RETRY_NS;
                    Some(connection.flights.front().map_or(since_ns, |flight| flight.start_ns))
                }
                State::Down(_) => {
                    let late = |start: &Start| now_ns.saturating_sub(start.planned_ns) > timeout_ns;
                    if let Some(start) = self.connections[index].pending.take_if(|start| late(start)) {
                        self.give_up(&start, now_ns, Failure::TimedOut);
                    }
                    None
                }
            };
            if since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) > timeout_ns) {
                self.fail(index, Failure::TimedOut);
            }
        }
        while let Some(start) = self.waiting.front().copied()
            && now_ns.saturating_sub(start.planned_ns) > timeout_ns
        {
            self.waiting.pop_front();
            self.give_up(&start, now_ns, Failure::TimedOut);
        }
        let wanted = !self.down.is_empty() || self.connecting > 0;
        if self.up > 0 || !wanted || self.manner == Manner::Fresh {
            self.alive_ns = now_ns;
        } else {
            self.recorder.away(now_ns.saturating_sub(self.alive_ns), self.last_failure);
        }
    }

    /// Reconnects what is down and due; returns whether there was anything.
    fn reopen(&mut self, now_ns: u64) -> bool {
        let (mut at, mut any) = (0, false);
        while at < self.down.len() && self.connecting < CONNECTING_MAX {
            let index = self.down[at];
            let State::Down(retry_ns) = self.connections[index].state else { unreachable!("it is listed as down") };
            if retry_ns > now_ns {
                at += 1;
                continue;
            }
            self.down.swap_remove(at);
            self.open(index, now_ns);
            any = true;
        }
        any
    }

    /// Begins to connect.
    pub(super) fn open(&mut self, index: usize, now_ns: u64) {
        self.connecting += 1;
        let connection = &mut self.connections[index];
        if let Err(error) = connection.open(&self.orders.target, &self.epoll, index, now_ns) {
            connection.state = State::Connecting(now_ns);
            self.fail(index, failure_of(error));
        }
    }

    /// Ends a connection. What was in flight is lost to `failure`; after an `orderly` end it is reopened at once.
    pub(super) fn disconnect(&mut self, index: usize, failure: Failure, orderly: bool) {
        let now_ns = clock::monotonic_ns();
        let connection = &mut self.connections[index];
        match connection.state {
            State::Up => {
                self.up -= 1;
                self.alive_ns = now_ns;
            }
            State::Connecting(_) | State::Greeting(_) => self.connecting -= 1,
            State::Down(_) => return,
        }
        let mut flights = std::mem::take(&mut connection.flights);
        let pending = connection.pending.take();
        connection.close(if orderly { 0 } else { now_ns + RETRY_NS }, self.protocol.session());
        if !orderly {
            self.last_failure = failure;
            if flights.is_empty() && pending.is_none() {
                self.recorder.broken(now_ns, failure);
            }
        }
        for flight in flights.drain(..) {
            self.lose(now_ns, &flight, failure);
        }
        self.connections[index].flights = flights;
        if let Some(start) = pending {
            self.give_up(&start, now_ns, failure);
        }
        if self.manner == Manner::Fresh {
            if orderly { &mut self.free } else { &mut self.resting }.push_back(index as u32);
        } else {
            self.down.push(index);
        }
    }

    /// The connection is no longer usable.
    #[cold]
    pub(super) fn fail(&mut self, index: usize, failure: Failure) {
        self.disconnect(index, failure, false);
    }
}
