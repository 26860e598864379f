//! One blocking connection, for what is not measured: readiness, population, the server's own counts.

use crate::protocol::{Failure, Flight, Protocol, Step};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};

/// A blocking connection on which nothing waits longer than its time limit.
pub(crate) struct Link {
    stream: TcpStream,
    endpoint: SocketAddr,
    limit: Duration,
    buffer: Vec<u8>,
    // What of the buffer was received and not consumed yet.
    from: usize,
    to: usize,
    ended: bool,
}

impl Link {
    /// Connects within `limit`, which then holds for every exchange.
    ///
    /// # Errors
    /// When nothing accepts the connection.
    pub(crate) fn open(endpoint: SocketAddr, limit: Duration) -> Result<Self, Fault> {
        let limit = limit.max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&endpoint, limit).doing(format_args!("connect to {endpoint}"))?;
        stream.set_nodelay(true).doing("set TCP_NODELAY")?;
        stream.set_write_timeout(Some(limit)).doing("limit the time of a write")?;
        Ok(Link { stream, endpoint, limit, buffer: vec![0; 64 * 1024], from: 0, to: 0, ended: false })
    }

    /// Sends `bytes`.
    ///
    /// # Errors
    /// When the connection fails.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.stream.write_all(bytes).doing(format_args!("send to {}", self.endpoint))
    }

    /// More bytes of the reply; none when the peer has closed.
    ///
    /// # Errors
    /// When nothing comes before `deadline` or the connection fails.
    fn more(&mut self, deadline: Instant) -> Result<bool, Fault> {
        let left = deadline.saturating_duration_since(Instant::now());
        let late = || Fault::new(format!("{} did not answer within {:?}", self.endpoint, self.limit));
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_read_timeout(Some(left)).doing("limit the time of a read")?;
        match self.stream.read(&mut self.buffer) {
            Ok(received) => {
                (self.from, self.to) = (0, received);
                self.ended = received == 0;
                Ok(received > 0)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(late()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(Fault::from_error(format_args!("read from {}", self.endpoint), &error)),
        }
    }

    /// Feeds what comes to `take` until it says it has enough: it is handed bytes and returns how many it took, and
    /// its result once there is one.
    ///
    /// # Errors
    /// When nothing comes in time, the peer closes, or `take` finds a fault.
    pub(crate) fn receive<T>(
        &mut self,
        mut take: impl FnMut(&[u8]) -> Result<(usize, Option<T>), Fault>,
    ) -> Result<T, Fault> {
        let deadline = Instant::now() + self.limit;
        loop {
            if self.from < self.to {
                let (used, result) = take(&self.buffer[self.from..self.to])?;
                self.from += used;
                if let Some(result) = result {
                    return Ok(result);
                }
            }
            if self.from == self.to && !self.more(deadline)? {
                return Err(Fault::new(format!("{} closed the connection before it had answered", self.endpoint)));
            }
        }
    }

    /// Awaits the reply to `flight`, which was sent already.
    ///
    /// # Errors
    /// When the reply is not the right one.
    pub(crate) fn reply<P: Protocol>(&mut self, protocol: &P, flight: &Flight) -> Result<(), Fault> {
        let mut stream = protocol.stream();
        let endpoint = self.endpoint;
        let fault =
            |failure: Failure| Fault::new(format!("{endpoint} did not answer as it should: {}", failure.name()));
        let result = self.receive(|bytes| match protocol.feed(&mut stream, flight, bytes) {
            Step::More => Ok((bytes.len(), None)),
            Step::Done { used, reply, .. } => Ok((used, Some(reply))),
            Step::Broken(failure) => Err(fault(failure)),
        });
        let reply = match result {
            Ok(reply) => reply,
            // A reply may be ended by the end of the connection.
            Err(cause) if self.ended => protocol.closed(&mut stream, flight).ok_or(cause)?,
            Err(cause) => return Err(cause),
        };
        reply.failure().map_or(Ok(()), |failure| Err(fault(failure)))
    }
}
