//! One connection of the load: a socket, the operations in flight on it, and the bytes that could not be sent yet.

use crate::draw::Draw;
use crate::operation::{Failure, Flight, SocketOptions};
use crate::profile::Start;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, ipproto, send, socket_with, sockopt,
};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Where connections go.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    /// Addresses that connections go to in turn, and the options set on their sockets.
    Tcp(Vec<SocketAddr>, SocketOptions),
    /// A UNIX socket.
    Unix(SocketAddrUnix),
}

impl Target {
    /// Begins to open the connection with this number: returns a socket that is connected or connecting.
    fn connect(&self, number: usize) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, connected) = match self {
            Target::Tcp(endpoints, options) => {
                let endpoint = &endpoints[number % endpoints.len()];
                let family = if endpoint.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
                sockopt::set_tcp_nodelay(&socket, options.nodelay)?;
                // Set before connecting, because the window scale follows from the buffer size.
                if let Some(bytes) = options.send_buffer {
                    sockopt::set_socket_send_buffer_size(&socket, bytes as usize)?;
                }
                if let Some(bytes) = options.receive_buffer {
                    sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
                }
                let connected = connect(&socket, endpoint);
                (socket, connected)
            }
            Target::Unix(path) => {
                let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                let connected = connect(&socket, path);
                (socket, connected)
            }
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Tcp(endpoints, _) => {
                let all: Vec<String> = endpoints.iter().map(SocketAddr::to_string).collect();
                f.write_str(&all.join(", "))
            }
            Target::Unix(path) => write!(f, "{}", path.path().unwrap_or_default().to_string_lossy()),
        }
    }
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not connected; the next attempt is not made before this moment, CLOCK_MONOTONIC, ns.
    Down(u64),
    /// Connecting since this moment.
    Connecting(u64),
    /// Connected; the protocol's greeting began at this moment.
    Greeting(u64),
    /// Ready for operations.
    Up,
}

/// A connection. `S` is the protocol's session.
pub(crate) struct Connection<S> {
    /// What the connection is doing.
    pub state: State,
    /// Operations sent and not yet answered, oldest first. Never more than the pipeline's depth, so it never grows.
    pub flights: VecDeque<Flight>,
    /// The protocol's session.
    pub session: S,
    /// The source of its random choices.
    pub draw: Draw,
    /// The socket, unless the connection is down.
    pub socket: Option<OwnedFd>,
    /// An operation waiting for the connection to be established.
    pub pending: Option<Start>,
    /// When the last attempt to connect began.
    pub opened_ns: u64,
    /// Whether it is in the list of free connections.
    pub listed: bool,
    /// Whether it is in the list of connections with more to do, and if so, whether the peer is closing it.
    pub unfinished: Option<bool>,
    // Distinguishes events of this socket from those of earlier sockets.
    generation: u32,
    unsent: Vec<u8>,
    unsent_from: usize,
}

impl<S> Connection<S> {
    /// A connection that is not open yet.
    pub(crate) fn new(draw: Draw, session: S, pipeline: usize) -> Self {
        let flights = VecDeque::with_capacity(pipeline);
        Connection {
            state: State::Down(0),
            flights,
            session,
            draw,
            socket: None,
            pending: None,
            opened_ns: 0,
            listed: false,
            unfinished: None,
            generation: 0,
            unsent: Vec::new(),
            unsent_from: 0,
        }
    }

    /// Begins to connect. The socket is registered once, edge-triggered, for all events, so no further system call is
    /// spent on registration.
    ///
    /// # Errors
    /// When no attempt could be made.
    pub(crate) fn open(&mut self, target: &Target, epoll: &OwnedFd, index: usize, now_ns: u64) -> Result<(), Errno> {
        self.opened_ns = now_ns;
        self.generation = self.generation.wrapping_add(1);
        let socket = target.connect(index)?;
        let events = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(epoll, &socket, epoll::EventData::new_u64(u64::from(self.generation) << 32 | index as u64), events)?;
        self.socket = Some(socket);
        self.state = State::Connecting(now_ns);
        Ok(())
    }

    /// Whether an event's key is this socket's.
    #[inline]
    pub(crate) fn owns(&self, key: u64) -> bool {
        (key >> 32) as u32 == self.generation
    }

    /// Closes the socket and drops what was unsent. What was in flight stays, for the caller to account for.
    pub(crate) fn close(&mut self, retry_ns: u64, session: S) {
        self.socket = None;
        self.state = State::Down(retry_ns);
        self.session = session;
        self.unsent.clear();
        self.unsent_from = 0;
    }

    /// Sends `bytes` after anything still unsent; keeps what the kernel does not accept.
    ///
    /// # Errors
    /// When the connection is broken.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
            return Ok(());
        }
        let taken = self.push(bytes)?;
        if taken < bytes.len() {
            self.unsent.extend_from_slice(&bytes[taken..]);
        }
        Ok(())
    }

    /// Sends unsent bytes, as far as the kernel accepts them.
    ///
    /// # Errors
    /// When the connection is broken.
    #[inline]
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        while self.unsent_from < self.unsent.len() {
            let taken = self.push(&self.unsent[self.unsent_from..])?;
            if taken == 0 {
                return Ok(());
            }
            self.unsent_from += taken;
        }
        self.unsent.clear();
        self.unsent_from = 0;
        Ok(())
    }

    /// Whether the kernel has accepted everything.
    pub(crate) fn flushed(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Offers bytes to the kernel and returns how many it accepted; 0 when its buffer is full.
    ///
    /// # Errors
    /// When the connection is broken.
    pub(crate) fn push(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::NOTCONN) };
        loop {
            match send(socket, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(0),
                other => return other,
            }
        }
    }
}

/// What a system call's error means for an operation.
pub(crate) fn failure_of(error: Errno) -> Failure {
    match error {
        Errno::CONNREFUSED => Failure::Refused,
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Failure::Reset,
        Errno::TIMEDOUT => Failure::TimedOut,
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN | Errno::NETDOWN | Errno::NOENT => {
            Failure::Unreachable
        }
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Failure::NoPort,
        _ => Failure::Connection,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn connections_go_to_all_addresses_in_turn() {
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let target = Target::Tcp(addresses, SocketOptions::default());
        let sockets: Vec<OwnedFd> = (0..7).map(|number| target.connect(number).unwrap()).collect();
        let reached = listeners.map(|listener| {
            listener.set_nonblocking(true).unwrap();
            listener.incoming().take_while(Result::is_ok).count()
        });
        assert_eq!((sockets.len(), reached), (7, [3, 2, 2]));
        assert_eq!(target.to_string().matches(", ").count(), 2);
    }
}
