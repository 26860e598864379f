//! Handles what comes over connections, and what is sent.

use super::connection::{Connection, State, failure_of};
use super::layout::Manner;
use super::worker::{RETRY_NS, Worker};
use crate::clock;
use crate::operation::{Failure, Greeting, Protocol, Step};
use rustix::event::{PollFd, PollFlags, epoll, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown, sockopt};

/// The most full buffers read from one connection before the others have their turn.
const READS_MAX: u32 = 16;
/// The most operations completed on one connection by being sent before the others have their turn.
const STREAMED_MAX: u32 = 256;
/// One that sends something counts as this many.
const SENT_WEIGHT: u32 = STREAMED_MAX / READS_MAX;

impl<P: Protocol> Worker<'_, P> {
    /// Handles an event of the connection that `key` names.
    pub(super) fn handle(&mut self, key: u64, flags: epoll::EventFlags) {
        let index = (key & u64::from(u32::MAX)) as usize;
        let connection = &mut self.connections[index];
        if !connection.owns(key) {
            // The event is of an earlier socket.
            return;
        }
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
                self.pump(index);
            }
            State::Up | State::Greeting(_) => {}
        }
        let ending = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if flags.intersects(ending | epoll::EventFlags::IN) {
            self.read(index, flags.intersects(ending));
        }
    }

    /// The connection is established: the protocol may have to greet before operations start.
    fn greet(&mut self, index: usize) {
        let now_ns = clock::monotonic_ns();
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let connection = &mut self.connections[index];
        connection.state = State::Greeting(now_ns);
        if let Some(socket) = &connection.socket {
            self.protocol.observe(socket, false);
        }
        let greeting = self.protocol.greet(&mut connection.session, &mut outgoing);
        self.greeted(index, greeting, &mut outgoing, now_ns);
        self.outgoing = outgoing;
    }

    /// Sends the greeting's bytes, and the first operations once it is over.
    fn greeted(&mut self, index: usize, greeting: Greeting, outgoing: &mut Vec<u8>, now_ns: u64) {
        if greeting == Greeting::Ready {
            self.connections[index].state = State::Up;
            self.connecting -= 1;
            self.up += 1;
            self.ready(index, outgoing, now_ns);
        }
        self.send(index, outgoing);
    }

    /// Reads until there is nothing more. A read that does not fill the buffer has emptied the socket, unless the peer
    /// is `ending`: then the end itself is still to be read.
    pub(super) fn read(&mut self, index: usize, ending: bool) {
        if self.connections[index].unfinished.is_some() {
            return self.postpone(index, ending);
        }
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
            // Operations already completed are counted before more is read, so that none is forgotten.
            if reads == READS_MAX || self.connections[index].unfinished.is_some() {
                self.postpone(index, ending);
                break;
            }
        }
        self.incoming = incoming;
    }

    /// The connection has more to do, which no event will announce; the others have their turn first.
    fn postpone(&mut self, index: usize, ending: bool) {
        let unfinished = &mut self.connections[index].unfinished;
        if unfinished.is_none() {
            self.unfinished.push(index);
        }
        *unfinished = Some(ending || *unfinished == Some(true));
    }

    /// Resumes the connections that had more to do.
    pub(super) fn finish(&mut self) {
        for index in std::mem::take(&mut self.unfinished) {
            let Some(ending) = self.connections[index].unfinished.take() else { continue };
            // It may have been closed since, and be waiting to be reopened.
            if self.connections[index].socket.is_none() {
                continue;
            }
            self.pump(index);
            match self.connections[index].unfinished {
                Some(_) => self.postpone(index, ending),
                None => self.read(index, ending),
            }
        }
    }

    /// Handles bytes that came: replies, or the next part of the greeting. What is to be sent in response goes out at
    /// once.
    #[inline]
    fn take(&mut self, index: usize, bytes: &[u8], now_ns: u64) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        let connection = &mut self.connections[index];
        if let State::Greeting(_) = connection.state {
            match self.protocol.shake(&mut connection.session, bytes, &mut outgoing) {
                Ok(greeting) => self.greeted(index, greeting, &mut outgoing, now_ns),
                Err(failure) => {
                    // An alert that gives the reason is sent if the peer still listens.
                    let _ = connection.send(&outgoing);
                    self.fail(index, failure);
                }
            }
        } else if self.feed(index, bytes, &mut outgoing, now_ns) {
            if self.manner == Manner::Closed {
                self.refill(index, &mut outgoing, now_ns);
            }
            self.send(index, &mut outgoing);
        }
        outgoing.clear();
        self.outgoing = outgoing;
    }

    /// Takes the replies in `bytes`; returns whether the connection is still open.
    #[inline]
    fn feed(&mut self, index: usize, mut bytes: &[u8], outgoing: &mut Vec<u8>, now_ns: u64) -> bool {
        while !bytes.is_empty() {
            let connection = &mut self.connections[index];
            let Some(flight) = connection.flights.front().copied() else {
                // These bytes answer no operation.
                let idle = self.protocol.idle(&mut connection.session, bytes, outgoing);
                return idle.map_err(|failure| self.fail(index, failure)).is_ok();
            };
            let (user, draw) = (&mut self.users[flight.user as usize], &mut connection.draw);
            match self.protocol.feed(&mut connection.session, user, &flight, bytes, draw, outgoing) {
                Step::More => return true,
                Step::Done { used, reply, last } => {
                    connection.flights.pop_front();
                    self.over(flight.operation);
                    self.count(now_ns, &flight, reply);
                    self.follow_up(&flight, reply, now_ns);
                    if last {
                        self.source.done(flight.user, now_ns, reply.failure().is_none());
                        self.disconnect(index, Failure::Closed, true);
                        return false;
                    }
                    bytes = &bytes[used..];
                    if self.manner == Manner::Shared && !bytes.is_empty() {
                        // The operation waiting for this connection was not sent yet, so these bytes are not its
                        // answer.
                        let surplus = std::mem::take(&mut bytes);
                        let idle = self.protocol.idle(&mut self.connections[index].session, surplus, outgoing);
                        if let Err(failure) = idle {
                            self.source.done(flight.user, now_ns, reply.failure().is_none());
                            self.fail(index, failure);
                            return false;
                        }
                    }
                    self.answered(index, &flight, reply, outgoing, now_ns);
                    if self.connections[index].state != State::Up {
                        return false;
                    }
                }
                Step::Reopen => {
                    self.renew(index);
                    return false;
                }
                Step::Broken(failure) => {
                    self.fail(index, failure);
                    return false;
                }
            }
        }
        true
    }

    /// Sends `outgoing` if the connection is still open.
    #[inline]
    pub(super) fn send(&mut self, index: usize, outgoing: &mut Vec<u8>) {
        let connection = &mut self.connections[index];
        if !outgoing.is_empty()
            && connection.socket.is_some()
            && let Err(error) = connection.send(outgoing)
        {
            self.fail(index, failure_of(error));
        }
        outgoing.clear();
        if self.streams {
            self.stream(index, outgoing);
        }
    }

    /// Resumes a connection whose operations are completed by being sent.
    pub(super) fn pump(&mut self, index: usize) {
        if self.streams {
            let mut outgoing = std::mem::take(&mut self.outgoing);
            self.stream(index, &mut outgoing);
            self.outgoing = outgoing;
        }
    }

    /// Completes operations that end by being sent, and sends the next ones, as long as the kernel accepts them.
    fn stream(&mut self, index: usize, outgoing: &mut Vec<u8>) {
        let mut streamed = 0;
        while streamed < STREAMED_MAX {
            let connection = &mut self.connections[index];
            if connection.state != State::Up || !connection.flushed() {
                return;
            }
            let bulk = self.protocol.bulk(&connection.session);
            if !bulk.is_empty() {
                match connection.push(bulk) {
                    Ok(taken) => {
                        self.protocol.poured(&mut connection.session, taken);
                        if taken < bulk.len() {
                            // The kernel's buffer is full; an event reports when there is room again.
                            return;
                        }
                    }
                    Err(error) => return self.fail(index, failure_of(error)),
                }
                streamed += SENT_WEIGHT;
                continue;
            }
            let Some(flight) = connection.flights.front().copied() else { return };
            let Some(reply) = self.protocol.flushed(&mut connection.session, &flight) else { return };
            connection.flights.pop_front();
            let now_ns = clock::monotonic_ns();
            self.over(flight.operation);
            self.count(now_ns, &flight, reply);
            self.follow_up(&flight, reply, now_ns);
            self.answered(index, &flight, reply, outgoing, now_ns);
            if self.manner == Manner::Closed {
                self.refill(index, outgoing, now_ns);
            }
            streamed += if outgoing.is_empty() { 1 } else { SENT_WEIGHT };
            let connection = &mut self.connections[index];
            if connection.socket.is_some()
                && let Err(error) = connection.send(outgoing)
            {
                self.fail(index, failure_of(error));
            }
            outgoing.clear();
        }
        self.postpone(index, false);
    }

    /// Ends connections so that both sides have seen every byte. Nothing is counted any more, so this may block.
    pub(super) fn part(&mut self) {
        let standing = || self.connections.iter().filter_map(|connection| connection.socket.as_ref());
        standing().for_each(|socket| self.protocol.observe(socket, true));
        if !self.protocol.parts() {
            return;
        }
        for socket in standing() {
            let _ = shutdown(socket, Shutdown::Write);
        }
        let deadline_ns = clock::monotonic_ns().saturating_add(self.orders.timeout_ns);
        for index in 0..self.connections.len() {
            self.read_to_the_end(index, deadline_ns);
        }
    }

    fn read_to_the_end(&mut self, index: usize, deadline_ns: u64) {
        let Connection { socket: Some(socket), session, .. } = &mut self.connections[index] else { return };
        loop {
            match recv(&*socket, self.incoming.as_mut_slice(), RecvFlags::empty()) {
                Ok((0, _)) => return,
                Ok((received, _)) => {
                    let bytes = &self.incoming[..received];
                    if self.protocol.idle(session, bytes, &mut Vec::new()).is_err() {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let wait = clock::timespec(deadline_ns.saturating_sub(clock::monotonic_ns()));
                    let mut look = [PollFd::new(&*socket, PollFlags::IN)];
                    if !matches!(poll(&mut look, Some(&wait)), Ok(1..) | Err(Errno::INTR)) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// The peer closes the connection in the middle of an operation that continues: it is reopened, and keeps the
    /// operation and the session.
    #[cold]
    fn renew(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let session = std::mem::replace(&mut connection.session, self.protocol.session());
        connection.close(0, session);
        self.up -= 1;
        self.alive_ns = clock::monotonic_ns();
        self.down.push(index);
    }

    /// The peer closed the connection.
    fn ended(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.state != State::Up {
            // During the greeting nothing is answered, and a server that does not let us in is not asked again at once.
            return self.fail(index, Failure::Closed);
        }
        let flight = connection.flights.front().copied();
        let user = flight.map(|flight| &mut self.users[flight.user as usize]);
        let reply = flight.zip(user).and_then(|(f, user)| self.protocol.closed(&mut connection.session, user, &f));
        if reply.is_none() && self.protocol.goes_on(&connection.session) {
            return self.renew(index);
        }
        // A server may close a connection that has long been idle: that is no failure. A server that closes it right
        // away is not asked again soon.
        let rested = now_ns.saturating_sub(connection.opened_ns) > RETRY_NS;
        let idle = flight.is_none() && connection.pending.is_none() && rested;
        let orderly = reply.is_some() || idle;
        if let (Some(flight), Some(reply)) = (flight, reply) {
            connection.flights.pop_front();
            self.over(flight.operation);
            self.count(now_ns, &flight, reply);
            self.follow_up(&flight, reply, now_ns);
            self.source.done(flight.user, now_ns, reply.failure().is_none());
        }
        self.disconnect(index, Failure::Closed, orderly);
    }
}
