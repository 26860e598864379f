//! One blocking connection, for what is not measured: readiness, population, the server's own counts.

use super::{Failure, Flight, Greeting, Protocol, Step};
use crate::draw::Draw;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn limit_read(&self, limit: Duration) -> std::io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(limit)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(limit)),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }
}

/// A blocking connection on which nothing waits longer than its time limit. It carries what a protocol asks outside of
/// its operations: [`Link::to`], [`Link::send`], [`Link::receive`], and first [`Link::greet`] if the protocol has a
/// greeting.
pub struct Link {
    stream: Stream,
    // The address or path it is connected to.
    endpoint: String,
    limit: Duration,
    buffer: Vec<u8>,
    // The part of the buffer that was received and not consumed yet.
    from: usize,
    to: usize,
    ended: bool,
}

impl Link {
    /// Connects within `limit`, which then applies to every exchange. A plan's `timeout` is how long one operation may
    /// take; longer tasks, such as filling a database, need a longer limit.
    ///
    /// # Errors
    /// When nothing accepts the connection.
    pub fn open(endpoint: SocketAddr, limit: Duration) -> Result<Self, Fault> {
        let limit = limit.max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&endpoint, limit).doing(format_args!("connect to {endpoint}"))?;
        stream.set_nodelay(true).doing("set TCP_NODELAY")?;
        stream.set_write_timeout(Some(limit)).doing("limit the time of a write")?;
        Ok(Link::over(Stream::Tcp(stream), endpoint.to_string(), limit))
    }

    /// Connects to a UNIX socket; `limit` applies to every exchange.
    ///
    /// # Errors
    /// When nothing accepts the connection.
    pub fn open_unix(path: &Path, limit: Duration) -> Result<Self, Fault> {
        let limit = limit.max(Duration::from_millis(1));
        let stream = UnixStream::connect(path).doing(format_args!("connect to {}", path.display()))?;
        stream.set_write_timeout(Some(limit)).doing("limit the time of a write")?;
        Ok(Link::over(Stream::Unix(stream), path.display().to_string(), limit))
    }

    /// Connects to the address or socket that the protocol's operations use.
    ///
    /// # Errors
    /// When nothing accepts the connection.
    pub fn to<P: Protocol>(protocol: &P, endpoint: SocketAddr, limit: Duration) -> Result<Self, Fault> {
        match protocol.socket() {
            Some(path) => Link::open_unix(path, limit),
            None => Link::open(endpoint, limit),
        }
    }

    fn over(stream: Stream, endpoint: String, limit: Duration) -> Self {
        Link { stream, endpoint, limit, buffer: vec![0; 64 * 1024], from: 0, to: 0, ended: false }
    }

    /// Sends `bytes`.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.stream.write_all(bytes).doing(format_args!("send to {}", self.endpoint))
    }

    /// Receives more bytes of the reply; returns `false` if the peer has closed.
    ///
    /// # Errors
    /// When nothing comes before `deadline` or the connection fails.
    fn more(&mut self, deadline: Instant) -> Result<bool, Fault> {
        let left = deadline.saturating_duration_since(Instant::now());
        let late = || Fault::new(format!("{} did not answer within {:?}", self.endpoint, self.limit));
        if left.is_zero() {
            return Err(late());
        }
        self.stream.limit_read(left).doing("limit the time of a read")?;
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

    /// Passes received bytes to `take` until it has a result: `take` returns how many bytes it took, and its result
    /// once there is one. Without a result it must take all of them and keep what it needs, such as half a line: bytes
    /// that it leaves are passed to it again at once, without new ones, so taking none is an error. Bytes left when it
    /// has a result are passed to the next `take`.
    ///
    /// # Errors
    /// When nothing comes in time, the peer closes, or `take` returns a fault.
    pub fn receive<T>(&mut self, take: impl FnMut(&[u8]) -> Result<(usize, Option<T>), Fault>) -> Result<T, Fault> {
        self.receive_until(self.deadline(), take)
    }

    /// When an exchange that begins now must be over.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Like [`Link::receive`], for one part of an exchange that must be over at `deadline`.
    ///
    /// # Errors
    /// When nothing comes in time, the peer closes, or `take` returns a fault.
    pub fn receive_until<T>(
        &mut self,
        deadline: Instant,
        mut take: impl FnMut(&[u8]) -> Result<(usize, Option<T>), Fault>,
    ) -> Result<T, Fault> {
        loop {
            if self.from < self.to {
                let (used, result) = take(&self.buffer[self.from..self.to])?;
                self.from += used;
                if let Some(result) = result {
                    return Ok(result);
                }
                if used == 0 {
                    let message = "the protocol took nothing of what was received; this is a defect of tare";
                    return Err(Fault::new(message).remedy("report it"));
                }
            }
            if self.from == self.to && !self.more(deadline)? {
                return Err(Fault::new(format!("{} closed the connection before it had answered", self.endpoint)));
            }
        }
    }

    /// Opens the conversation: exchanges what the protocol requires before operations may start.
    ///
    /// # Errors
    /// When the greeting fails.
    pub fn greet<P: Protocol>(&mut self, protocol: &P) -> Result<P::Session, Fault> {
        let mut session = protocol.session();
        self.shake(protocol, &mut session)?;
        Ok(session)
    }

    fn shake<P: Protocol>(&mut self, protocol: &P, session: &mut P::Session) -> Result<(), Fault> {
        let (mut out, deadline) = (Vec::new(), self.deadline());
        let mut greeting = protocol.greet(session, &mut out);
        loop {
            if !out.is_empty() {
                self.send(&out)?;
                out.clear();
            }
            if greeting == Greeting::Ready {
                return Ok(());
            }
            let shake = |bytes: &[u8]| Ok((bytes.len(), Some(protocol.shake(session, bytes, &mut out))));
            let shaken = self.receive_until(deadline, shake)?;
            greeting = shaken.map_err(|failure| {
                Fault::new(format!("{} did not let the load in: {}", self.endpoint, failure.name()))
            })?;
        }
    }

    /// The peer has closed the connection in the middle of an operation that continues on a new one.
    fn renew<P: Protocol>(&mut self, protocol: &P, session: &mut P::Session, out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Ok(endpoint) = self.endpoint.parse() {
            *self = Link::open(endpoint, self.limit)?;
        } else {
            *self = Link::open_unix(Path::new(&self.endpoint), self.limit)?;
        }
        self.shake(protocol, session)?;
        protocol.resume(session, out);
        Ok(())
    }

    /// Carries out one operation.
    ///
    /// # Errors
    /// When the reply is not the right one.
    pub fn operate<P: Protocol>(
        &mut self,
        protocol: &P,
        session: &mut P::Session,
        user: &mut P::User,
        operation: u16,
        draw: &mut Draw,
    ) -> Result<(), Fault> {
        let mut out = Vec::new();
        let token = protocol.begin(session, user, operation, draw, &mut out);
        let flight = Flight { token, operation, ..Flight::default() };
        let endpoint = self.endpoint.clone();
        let fault =
            |failure: Failure| Fault::new(format!("{endpoint} did not answer as it should: {}", failure.name()));
        let reply = loop {
            if !out.is_empty() {
                self.send(&out)?;
                out.clear();
            }
            let mut renew = false;
            let result = self.receive(|bytes| match protocol.feed(session, user, &flight, bytes, draw, &mut out) {
                Step::More => Ok((bytes.len(), (!out.is_empty()).then_some(None))),
                Step::Done { used, reply, .. } => Ok((used, Some(Some(reply)))),
                Step::Reopen => {
                    renew = true;
                    Ok((bytes.len(), Some(None)))
                }
                Step::Broken(failure) => Err(fault(failure)),
            });
            match result {
                Ok(Some(reply)) => break reply,
                Ok(None) if renew => self.renew(protocol, session, &mut out)?,
                Ok(None) => {}
                // A reply may be ended by the end of the connection.
                Err(cause) if self.ended => match protocol.closed(session, user, &flight) {
                    Some(reply) => break reply,
                    None if protocol.goes_on(session) => self.renew(protocol, session, &mut out)?,
                    None => return Err(cause),
                },
                Err(cause) => return Err(cause),
            }
        };
        if !out.is_empty() {
            self.send(&out)?;
        }
        reply.failure().map_or(Ok(()), |failure| Err(fault(failure)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_nothing_and_has_no_result_is_not_asked_for_ever() {
        let echo = tare_testkit::peer::answering(|_, piece| Some(piece.to_vec()));
        let mut link = Link::open(echo, Duration::from_secs(10)).unwrap();
        link.send(b"four").unwrap();
        let told = link.receive::<()>(|_| Ok((0, None))).unwrap_err();
        assert!(told.message.contains("took nothing"), "{told}");
        // A result may leave everything to the next one.
        let mut seen = Vec::new();
        while seen.len() < 4 {
            link.receive(|bytes| Ok((0, Some(bytes.len())))).unwrap();
            link.receive(|bytes| {
                seen.push(bytes[0]);
                Ok((1, Some(())))
            })
            .unwrap();
        }
        assert_eq!(seen, b"four");
    }
}
