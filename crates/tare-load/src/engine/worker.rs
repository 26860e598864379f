//! A worker: one thread, one epoll, its share of the connections.

use super::connection::{Connection, State, Target, failure_of};
use super::tally::{Ledger, Recorder};
use super::timeline::Timeline;
use crate::clock::{self, SECOND_NS};
use crate::protocol::{Draw, Failure, Flight, Greeting, Mix, Protocol, Step};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use tare_core::fault::{Doing, Fault};

/// A lost connection is made anew after this long, so that a service that is down is not flooded.
const RETRY_NS: u64 = SECOND_NS / 10;
/// Attempts to connect under way at one time: below every usual listen backlog.
const CONNECTING_MAX: usize = 64;
/// With no connection for this long, the run is over.
const NOBODY_NS: u64 = 2 * SECOND_NS;
/// All connections must stand after this long.
const CONNECT_ALL_NS: u64 = 15 * SECOND_NS;
/// Bytes received at once; shared by all connections of a worker.
const INCOMING: usize = 128 * 1024;
/// Full buffers read from one connection before the others have their turn.
const READS_MAX: u32 = 16;
/// Events taken at once.
const EVENTS: usize = 1024;

/// What a worker is given.
pub(crate) struct Orders<'a> {
    /// Where to connect to.
    pub target: Target,
    /// Operations in flight on each connection.
    pub pipeline: usize,
    /// How long one operation may take, ns.
    pub timeout_ns: u64,
    /// Raised when everything is to end.
    pub stop: &'a AtomicBool,
}

/// A worker at work.
pub(crate) struct Worker<'a, P: Protocol> {
    protocol: &'a P,
    orders: Orders<'a>,
    recorder: Recorder,
    epoll: OwnedFd,
    mix: Mix,
    connections: Vec<Connection<P::Session>>,
    // By number; in a closed loop each connection is a user.
    users: Vec<P::User>,
    // Connections that are down.
    down: Vec<usize>,
    // Connections with more to read, which will not be announced again, and whether their peer is ending.
    unfinished: Vec<(usize, bool)>,
    connecting: usize,
    up: usize,
    in_flight: usize,
    // When a connection was last up.
    alive_ns: u64,
    last_failure: Failure,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    replies: u64,
}

impl<'a, P: Protocol> Worker<'a, P> {
    /// A worker with connections `numbers` of the whole run.
    ///
    /// # Errors
    /// When the kernel has no epoll to give.
    pub(crate) fn new(
        protocol: &'a P,
        orders: Orders<'a>,
        recorder: Recorder,
        seed: u64,
        numbers: impl Iterator<Item = u64> + Clone,
    ) -> Result<Self, Fault> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).doing("create an epoll")?;
        let make = |number| Connection::new(Draw::new(seed, number), protocol.session(), orders.pipeline);
        let connections: Vec<_> = numbers.clone().map(make).collect();
        Ok(Worker {
            protocol,
            orders,
            recorder,
            epoll,
            mix: Mix::of(&protocol.operations()),
            down: (0..connections.len()).collect(),
            connections,
            users: numbers.map(|number| protocol.user(number)).collect(),
            unfinished: Vec::new(),
            connecting: 0,
            up: 0,
            in_flight: 0,
            alive_ns: clock::monotonic_ns(),
            last_failure: Failure::TimedOut,
            incoming: vec![0; INCOMING],
            outgoing: Vec::with_capacity(64 * 1024),
            replies: 0,
        })
    }

    /// Connects, waits for the start, drives the load to its end, waits for the last replies.
    ///
    /// # Errors
    /// When no connection can be made or kept.
    pub(crate) fn run(mut self, start: &Receiver<Arc<Timeline>>) -> Result<Ledger, Fault> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let begun = clock::monotonic_ns();
        while self.up < self.connections.len() && !self.stopped() {
            self.round(&mut events, SECOND_NS / 200)?;
            if clock::monotonic_ns() - begun > CONNECT_ALL_NS {
                return Err(self.incomplete());
            }
        }
        self.recorder.connected();
        let Ok(timeline) = start.recv() else { return Ok(self.recorder.ledger) };
        self.recorder.begin(Arc::clone(&timeline));
        (0..self.connections.len()).for_each(|index| self.begin(index));
        let pace_ns = (self.orders.timeout_ns / 10).clamp(SECOND_NS / 1000, SECOND_NS / 10);
        while self.recorder.sending() && !self.stopped() {
            self.round(&mut events, pace_ns)?;
        }
        let deadline_ns = timeline.measure_end_ns.saturating_add(self.orders.timeout_ns);
        while self.in_flight > 0 && clock::monotonic_ns() < deadline_ns && !self.stopped() {
            self.round(&mut events, pace_ns)?;
        }
        Ok(self.recorder.ledger)
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

    /// Waits for events until something is due but at most about `pace_ns`, and handles them. What is due at a pace
    /// (time limits, connecting anew) is looked after when the wait ends; under load that is far more often than
    /// needed, so it is skipped until `pace_ns` have gone by.
    fn round(&mut self, events: &mut [MaybeUninit<epoll::Event>], pace_ns: u64) -> Result<(), Fault> {
        let mut now_ns = clock::monotonic_ns();
        let due_ns = now_ns + pace_ns;
        while now_ns < due_ns {
            self.reopen(now_ns);
            let pause_ns = match (self.unfinished.is_empty(), self.down.is_empty()) {
                (false, _) => 0,
                (true, false) => RETRY_NS / 10,
                (true, true) => pace_ns,
            };
            let until_ns = due_ns.min(self.recorder.next_at_ns()).min(now_ns + pause_ns);
            let wait = clock::timespec(until_ns.saturating_sub(now_ns));
            let ready = match epoll::wait(&self.epoll, &mut *events, Some(&wait)) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => &mut [],
                Err(error) => return Err(Fault::from_error("wait for events", &error)),
            };
            self.replies = 0;
            for (index, ending) in std::mem::take(&mut self.unfinished) {
                // It may have been closed since, and be on its way to a new start.
                if self.connections[index].socket.is_some() {
                    self.read(index, ending);
                }
            }
            for event in ready.iter() {
                let (flags, data) = (event.flags, event.data);
                self.handle(data.u64() as usize, flags);
            }
            self.recorder.round(self.replies);
            now_ns = clock::monotonic_ns();
            self.recorder.advance(now_ns);
            if !self.recorder.sending() {
                // Connecting or draining: what the caller waits for may have come.
                break;
            }
        }
        self.look_after(now_ns)
    }

    /// Ends what took too long.
    fn look_after(&mut self, now_ns: u64) -> Result<(), Fault> {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let since_ns = match connection.state {
                State::Up => connection.flights.front().map(|flight| flight.start_ns),
                State::Connecting(since_ns) | State::Greeting(since_ns) => Some(since_ns),
                State::Down(_) => None,
            };
            if since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) > self.orders.timeout_ns) {
                self.fail(index, Failure::TimedOut);
            }
        }
        if self.up > 0 || self.connections.is_empty() {
            self.alive_ns = now_ns;
        } else if now_ns.saturating_sub(self.alive_ns) > NOBODY_NS {
            let (endpoint, why) = (&self.orders.target, self.last_failure.name());
            let message = format!("no connection to {endpoint} for 2 s: {why}");
            return Err(Fault::new(message).remedy("see the service's log: it ended, or does not listen there"));
        }
        Ok(())
    }

    /// Connects what is down and due.
    fn reopen(&mut self, now_ns: u64) {
        let mut at = 0;
        while at < self.down.len() && self.connecting < CONNECTING_MAX {
            let index = self.down[at];
            let State::Down(retry_ns) = self.connections[index].state else { unreachable!("it is listed as down") };
            if retry_ns > now_ns {
                at += 1;
                continue;
            }
            self.down.swap_remove(at);
            self.connecting += 1;
            let opened = self.connections[index].open(&self.orders.target, &self.epoll, index as u64, now_ns);
            if let Err(error) = opened {
                self.connections[index].state = State::Connecting(now_ns);
                self.fail(index, failure_of(error));
            }
        }
    }

    fn handle(&mut self, index: usize, flags: epoll::EventFlags) {
        let connection = &mut self.connections[index];
        match connection.state {
            State::Down(_) => return,
            State::Connecting(_) => {
                let Some(socket) = &connection.socket else { return };
                match sockopt::socket_error(socket) {
                    Ok(Ok(())) if flags.contains(epoll::EventFlags::OUT) => self.greet(index),
                    Ok(Ok(())) => return,
                    Ok(Err(error)) | Err(error) => return self.fail(index, failure_of(error)),
                }
            }
            State::Up | State::Greeting(_) if flags.contains(epoll::EventFlags::OUT) => {
                if let Err(error) = connection.flush() {
                    return self.fail(index, failure_of(error));
                }
            }
            State::Up | State::Greeting(_) => {}
        }
        let ending = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if flags.intersects(ending | epoll::EventFlags::IN) {
            self.read(index, flags.intersects(ending));
        }
    }

    /// The connection stands: the protocol may have something to say before operations start.
    fn greet(&mut self, index: usize) {
        let now_ns = clock::monotonic_ns();
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let connection = &mut self.connections[index];
        connection.state = State::Greeting(now_ns);
        let greeting = self.protocol.greet(&mut connection.session, &mut outgoing);
        self.greeted(index, greeting, &mut outgoing, now_ns);
        self.outgoing = outgoing;
    }

    /// Sends what the greeting has to say, and the first operations when it is over.
    fn greeted(&mut self, index: usize, greeting: Greeting, outgoing: &mut Vec<u8>, now_ns: u64) {
        if greeting == Greeting::Ready {
            self.connections[index].state = State::Up;
            self.connecting -= 1;
            self.up += 1;
            self.refill(index, outgoing, now_ns);
        }
        self.send(index, outgoing);
    }

    /// Reads until there is nothing more. A read that does not fill the buffer has emptied the socket, unless the peer
    /// is `ending`: then the end itself is still to be read.
    fn read(&mut self, index: usize, ending: bool) {
        let mut incoming = std::mem::take(&mut self.incoming);
        let mut reads = 0;
        while let Some(socket) = &self.connections[index].socket {
            let received = match recv(socket, incoming.as_mut_slice(), RecvFlags::empty()) {
                Ok((received, _)) => received,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    self.fail(index, failure_of(error));
                    break;
                }
            };
            let now_ns = clock::monotonic_ns();
            if received == 0 {
                self.ended(index, now_ns);
                break;
            }
            self.take(index, &incoming[..received], now_ns);
            if received < incoming.len() && !ending {
                break;
            }
            reads += 1;
            if reads == READS_MAX {
                self.unfinished.push((index, ending));
                break;
            }
        }
        self.incoming = incoming;
    }

    /// The first operations of a connection.
    fn begin(&mut self, index: usize) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        self.refill(index, &mut outgoing, clock::monotonic_ns());
        self.send(index, &mut outgoing);
        self.outgoing = outgoing;
    }

    /// Bytes came: replies, or the greeting's next part. Whatever is to be sent for them goes out at once.
    #[inline]
    fn take(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let connection = &mut self.connections[index];
        if let State::Greeting(_) = connection.state {
            match self.protocol.shake(&mut connection.session, bytes, &mut outgoing) {
                Ok(greeting) => self.greeted(index, greeting, &mut outgoing, now_ns),
                Err(failure) => self.fail(index, failure),
            }
        } else {
            self.feed(index, bytes, &mut outgoing, now_ns);
            self.refill(index, &mut outgoing, now_ns);
            self.send(index, &mut outgoing);
        }
        outgoing.clear();
        self.outgoing = outgoing;
    }

    #[inline]
    fn feed(&mut self, index: usize, mut bytes: &[u8], outgoing: &mut Vec<u8>, now_ns: u64) {
        while !bytes.is_empty() {
            let connection = &mut self.connections[index];
            let Some(flight) = connection.flights.front().copied() else {
                // Nobody asked for this.
                if let Err(failure) = self.protocol.idle(&mut connection.session, bytes, outgoing) {
                    self.fail(index, failure);
                }
                return;
            };
            let (user, draw) = (&mut self.users[flight.user as usize], &mut connection.draw);
            match self.protocol.feed(&mut connection.session, user, &flight, bytes, draw, outgoing) {
                Step::More => return,
                Step::Done { used, reply, last } => {
                    connection.flights.pop_front();
                    self.in_flight -= 1;
                    self.replies += 1;
                    self.recorder.answered(now_ns, &flight, reply);
                    if last {
                        return self.disconnect(index, Failure::Closed, true);
                    }
                    bytes = &bytes[used..];
                }
                Step::Broken(failure) => return self.fail(index, failure),
            }
        }
    }

    /// Brings the connection up to the pipeline's depth. The moment of sending is the moment of the last reply: what
    /// lies between the two is our own work, and in a closed loop the next operation starts when one is answered.
    #[inline]
    fn refill(&mut self, index: usize, outgoing: &mut Vec<u8>, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.state != State::Up || !self.recorder.sending() {
            return;
        }
        while connection.flights.len() < self.orders.pipeline {
            let operation = self.mix.draw(&mut connection.draw) as u16;
            let (session, user, draw) = (&mut connection.session, &mut self.users[index], &mut connection.draw);
            let token = self.protocol.begin(session, user, operation, draw, outgoing);
            let flight = Flight { planned_ns: now_ns, start_ns: now_ns, token, user: index as u32, operation };
            self.recorder.ledger.sent[usize::from(operation)] += 1;
            connection.flights.push_back(flight);
            self.in_flight += 1;
        }
    }

    /// Sends what is to be sent, if the connection still stands.
    #[inline]
    fn send(&mut self, index: usize, outgoing: &mut Vec<u8>) {
        let connection = &mut self.connections[index];
        if !outgoing.is_empty()
            && connection.socket.is_some()
            && let Err(error) = connection.send(outgoing)
        {
            self.fail(index, failure_of(error));
        }
        outgoing.clear();
    }

    /// The peer closed the connection.
    fn ended(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        let flight = connection.flights.front().copied();
        let user = flight.map(|flight| &mut self.users[flight.user as usize]);
        let reply = flight.zip(user).and_then(|(f, user)| self.protocol.closed(&mut connection.session, user, &f));
        let orderly = reply.is_some();
        if let (Some(flight), Some(reply)) = (flight, reply) {
            connection.flights.pop_front();
            self.in_flight -= 1;
            self.replies += 1;
            self.recorder.answered(now_ns, &flight, reply);
        }
        self.disconnect(index, Failure::Closed, orderly);
    }

    /// The connection is of no use any more.
    #[cold]
    fn fail(&mut self, index: usize, failure: Failure) {
        self.disconnect(index, failure, false);
    }

    /// Ends a connection. What was in flight is lost to `failure`; after an `orderly` end it is made anew at once.
    fn disconnect(&mut self, index: usize, failure: Failure, orderly: bool) {
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
        if !orderly {
            self.last_failure = failure;
            if connection.flights.is_empty() {
                self.recorder.broken(now_ns, failure);
            }
        }
        self.in_flight -= connection.flights.len();
        for flight in connection.flights.drain(..) {
            self.recorder.lost(now_ns, &flight, failure);
        }
        connection.close(if orderly { 0 } else { now_ns + RETRY_NS }, self.protocol.session());
        self.down.push(index);
    }
}
