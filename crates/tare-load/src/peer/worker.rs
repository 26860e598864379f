//! A thread of the peer: one epoll, its share of the connections.
//!
//! Level-triggered, so that a connection with more to do is reported again after the others had their turn. If an echo
//! connection is the thread's only one, the thread waits in the read itself: asking an epoll first makes a round trip
//! several percent longer, and that is not part of what is measured.

use super::counts::{Counters, add};
use crate::clock;
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tare_core::fault::{Doing, Fault};

/// The most bytes received or sent by one system call.
const PIECE: usize = 128 * 1024;
/// The most full pieces of one connection before the others have their turn.
const PIECES_MAX: usize = 16;
/// The longest first line.
const LINE_MAX: usize = 16;
/// The most events taken at once.
const EVENTS: usize = 256;
/// How often a thread waiting for its only connection checks whether it still is the only one.
const ALONE: Duration = Duration::from_millis(20);
/// When no more files can be opened, how long to wait before the next attempt, ns.
const NO_FILES_NS: u64 = 10_000_000;

/// The role of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Not stated yet.
    Unsaid,
    Sink,
    Source,
    Echo,
    Once,
}

/// The connection is to be closed.
struct Over;

struct Connection {
    socket: OwnedFd,
    role: Role,
    // The part of the first line that has arrived.
    line: Vec<u8>,
    // What could not be sent yet; nothing more is read meanwhile.
    unsent: Vec<u8>,
}

/// Accepts connections without end, and gives them to the threads in turn.
pub(super) fn accept(listener: &OwnedFd, epolls: &[OwnedFd], counters: &[Counters]) -> Result<(), Fault> {
    for turn in (0..epolls.len()).cycle() {
        let socket = loop {
            match accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(socket) => break socket,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    let _ = rustix::thread::nanosleep(&clock::timespec(NO_FILES_NS));
                }
                // The client may have gone again.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(Fault::from_error("accept connections", &error)),
            }
        };
        let data = epoll::EventData::new_u64(socket.as_raw_fd() as u64);
        // Counted first, so that a thread waiting for its only connection knows that there is another.
        add(&counters[turn].given, 1);
        epoll::add(&epolls[turn], &socket, data, epoll::EventFlags::IN).doing("watch a connection")?;
        // Its thread takes ownership with its first event.
        let _ = std::os::fd::IntoRawFd::into_raw_fd(socket);
    }
    Ok(())
}

/// One thread of the peer.
pub(super) struct Worker {
    number: usize,
    epolls: Arc<[OwnedFd]>,
    counters: Arc<[Counters]>,
    // By file descriptor.
    connections: Vec<Option<Connection>>,
    // How many of its connections are closed.
    over: u64,
    piece: Vec<u8>,
    filler: Vec<u8>,
}

impl Worker {
    /// A worker with the epoll and the counters of its number.
    pub(super) fn new(number: usize, epolls: Arc<[OwnedFd]>, counters: Arc<[Counters]>) -> Self {
        // Written once, so that the buffer has pages of its own rather than the shared page of zeroes.
        let filler = (0..PIECE).map(|at| b'a' + (at % 26) as u8).collect();
        Worker { number, epolls, counters, connections: Vec::new(), over: 0, piece: vec![0; PIECE], filler }
    }

    /// Serves without end.
    ///
    /// # Errors
    /// When a system call fails.
    pub(super) fn serve(mut self) -> Result<(), Fault> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        loop {
            let ready = match epoll::wait(&self.epolls[self.number], &mut events, None) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Fault::from_error("wait for events", &error)),
            };
            let mut last = 0;
            for event in ready.iter() {
                let (flags, descriptor) = (event.flags, event.data.u64() as usize);
                last = descriptor;
                if self.handle(descriptor, flags).is_err() {
                    self.close(descriptor);
                }
            }
            while self.is_alone(last) {
                if self.read(last, RecvFlags::empty()).is_err() {
                    self.close(last);
                }
            }
        }
    }

    /// Whether this is the thread's only connection, and only has to be answered.
    fn is_alone(&self, descriptor: usize) -> bool {
        let connection = self.connections.get(descriptor).and_then(Option::as_ref);
        connection.is_some_and(|connection| connection.role == Role::Echo && connection.unsent.is_empty())
            && self.counters().given.load(Ordering::Acquire) - self.over == 1
    }

    fn counters(&self) -> &Counters {
        &self.counters[self.number]
    }

    fn handle(&mut self, descriptor: usize, flags: epoll::EventFlags) -> Result<(), Over> {
        if self.connections.len() <= descriptor {
            self.connections.resize_with(descriptor + 1, || None);
        }
        let slot = &mut self.connections[descriptor];
        let connection = slot.get_or_insert_with(|| {
            // SAFETY: `accept` has given up the descriptor to the thread whose epoll names it, and this is its first
            // event: nothing else owns it.
            let socket = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor as i32) };
            Connection { socket, role: Role::Unsaid, line: Vec::new(), unsent: Vec::new() }
        });
        if !connection.unsent.is_empty() {
            return self.answer(descriptor);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            self.read(descriptor, RecvFlags::DONTWAIT)?;
        }
        if matches!(&self.connections[descriptor], Some(Connection { role: Role::Source, .. })) {
            self.pour(descriptor)?;
        }
        Ok(())
    }

    fn connection(&mut self, descriptor: usize) -> Result<&mut Connection, Over> {
        self.connections.get_mut(descriptor).and_then(Option::as_mut).ok_or(Over)
    }

    /// Reads until there is nothing more; a read that does not fill the buffer has emptied the socket.
    fn read(&mut self, descriptor: usize, flags: RecvFlags) -> Result<(), Over> {
        for _ in 0..PIECES_MAX {
            let Some(connection) = &self.connections[descriptor] else { return Err(Over) };
            let received = match recv(&connection.socket, self.piece.as_mut_slice(), flags) {
                Ok((0, _)) => return Err(Over),
                Ok((received, _)) => received,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(()),
                Err(_) => return Err(Over),
            };
            let role = connection.role;
            let begins = if role == Role::Unsaid { self.listen_to(descriptor, received)? } else { 0 };
            self.take(descriptor, begins, received)?;
            let connection = self.connection(descriptor)?;
            if received < PIECE || !connection.unsent.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the first line: the role of the connection. Returns where the bytes after it begin.
    fn listen_to(&mut self, descriptor: usize, received: usize) -> Result<usize, Over> {
        let end = self.piece[..received.min(LINE_MAX)].iter().position(|byte| *byte == b'\n');
        let said = self.piece[..end.unwrap_or(received.min(LINE_MAX))].to_vec();
        let connection = self.connection(descriptor)?;
        connection.line.extend_from_slice(&said);
        let Some(end) = end else {
            return if connection.line.len() < LINE_MAX { Ok(received) } else { Err(Over) };
        };
        let role = match connection.line.as_slice() {
            b"sink" => Role::Sink,
            b"source" => Role::Source,
            b"echo" => Role::Echo,
            b"once" => Role::Once,
            b"counts" => {
                let counts = Counters::sum(&self.counters).text();
                let connection = self.connection(descriptor)?;
                // A few lines fit into every buffer.
                let _ = send(&connection.socket, counts.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                return Err(Over);
            }
            _ => return Err(Over),
        };
        connection.role = role;
        add(&self.counters().opened, 1);
        if role == Role::Source {
            self.watch(descriptor, epoll::EventFlags::IN | epoll::EventFlags::OUT)?;
        }
        if role == Role::Echo {
            let socket = &self.connections[descriptor].as_ref().ok_or(Over)?.socket;
            set_socket_timeout(socket, Timeout::Recv, Some(ALONE)).map_err(|_| Over)?;
        }
        Ok(end + 1)
    }

    /// Handles the bytes received, from `begins` on.
    fn take(&mut self, descriptor: usize, begins: usize, received: usize) -> Result<(), Over> {
        let count = received - begins;
        if count == 0 {
            return Ok(());
        }
        let role = self.connection(descriptor)?.role;
        if role == Role::Unsaid {
            return Ok(());
        }
        add(&self.counters().received, count);
        match role {
            Role::Unsaid | Role::Sink | Role::Source => Ok(()),
            Role::Echo => {
                add(&self.counters().requests, count);
                let connection = self.connections[descriptor].as_ref().ok_or(Over)?;
                let taken = push(connection, &self.piece[begins..received], SendFlags::empty())?;
                add(&self.counters().sent, taken);
                if taken == count {
                    return Ok(());
                }
                let rest = self.piece[begins + taken..received].to_vec();
                self.connection(descriptor)?.unsent = rest;
                self.watch(descriptor, epoll::EventFlags::OUT)
            }
            Role::Once => {
                add(&self.counters().requests, 1);
                let connection = self.connections[descriptor].as_ref().ok_or(Over)?;
                // Held back until the close that follows at once, so that both are sent together: a client that has
                // read the answer knows that the connection is closed, and it is this side that keeps it in TIME_WAIT.
                let taken = push(connection, &self.piece[begins..=begins], SendFlags::MORE)?;
                add(&self.counters().sent, taken);
                Err(Over)
            }
        }
    }

    /// Continues an answer that did not fit.
    fn answer(&mut self, descriptor: usize) -> Result<(), Over> {
        let connection = self.connections[descriptor].as_ref().ok_or(Over)?;
        let taken = push(connection, &connection.unsent, SendFlags::empty())?;
        add(&self.counters().sent, taken);
        let connection = self.connection(descriptor)?;
        connection.unsent.drain(..taken);
        if connection.unsent.is_empty() { self.watch(descriptor, epoll::EventFlags::IN) } else { Ok(()) }
    }

    /// Sends until the kernel accepts no more.
    fn pour(&mut self, descriptor: usize) -> Result<(), Over> {
        for _ in 0..PIECES_MAX {
            let connection = self.connections[descriptor].as_ref().ok_or(Over)?;
            let taken = push(connection, &self.filler, SendFlags::empty())?;
            add(&self.counters().sent, taken);
            if taken < PIECE {
                break;
            }
        }
        Ok(())
    }

    fn watch(&self, descriptor: usize, events: epoll::EventFlags) -> Result<(), Over> {
        let connection = self.connections[descriptor].as_ref().ok_or(Over)?;
        let data = epoll::EventData::new_u64(descriptor as u64);
        epoll::modify(&self.epolls[self.number], &connection.socket, data, events).map_err(|_| Over)
    }

    fn close(&mut self, descriptor: usize) {
        let connection = self.connections.get_mut(descriptor).and_then(Option::take);
        // The descriptor may be reused as soon as it is closed, so its entry is freed first.
        if let Some(connection) = connection {
            let role = connection.role;
            drop(connection);
            self.over += 1;
            if role != Role::Unsaid {
                add(&self.counters().closed, 1);
            }
        }
    }
}

/// Offers bytes to the kernel and returns how many it accepted; 0 when its buffer is full.
fn push(connection: &Connection, bytes: &[u8], flags: SendFlags) -> Result<usize, Over> {
    loop {
        match send(&connection.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT | flags) {
            Ok(taken) => return Ok(taken),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(_) => return Err(Over),
        }
    }
}
