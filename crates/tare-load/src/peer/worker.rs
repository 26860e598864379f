//! A thread of the peer: one epoll, its share of the connections.
//!
//! Level-triggered, so that a connection with more to do comes back by itself after the others had their turn.

use super::counts::{Counters, add};
use crate::clock;
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use std::mem::MaybeUninit;
use std::sync::Arc;
use tare_core::fault::{Doing, Fault};

/// Bytes received or sent by one system call.
const PIECE: usize = 128 * 1024;
/// Full pieces of one connection before the others have their turn.
const PIECES_MAX: usize = 16;
/// The longest first line.
const LINE_MAX: usize = 16;
/// Connections accepted before those that stand have their turn.
const ACCEPTED_MAX: usize = 64;
/// Events taken at once.
const EVENTS: usize = 256;
/// When there are no open files left, so long until the next look, ns.
const NO_FILES_NS: u64 = 10_000_000;

/// What a connection is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It has not said it yet.
    Unsaid,
    Sink,
    Source,
    Echo,
    Once,
}

/// Why a connection is to be closed.
struct Over;

struct Connection {
    socket: OwnedFd,
    role: Role,
    // The part of the first line that has come.
    line: Vec<u8>,
    // What could not be answered yet; nothing more is read meanwhile.
    unsent: Vec<u8>,
}

/// One thread of the peer.
pub(super) struct Worker {
    number: usize,
    epolls: Arc<[OwnedFd]>,
    counters: Arc<[Counters]>,
    listener: Option<OwnedFd>,
    // By descriptor.
    connections: Vec<Option<Connection>>,
    // Whose turn it is to get a connection, for the thread that accepts.
    turn: usize,
    piece: Vec<u8>,
    filler: Vec<u8>,
}

impl Worker {
    /// A worker with the epoll and the counters of its number; the one with the `listener` accepts for all.
    ///
    /// # Errors
    /// When the listener cannot be watched.
    pub(super) fn new(
        number: usize,
        epolls: Arc<[OwnedFd]>,
        counters: Arc<[Counters]>,
        listener: Option<OwnedFd>,
    ) -> Result<Self, Fault> {
        if let Some(listener) = &listener {
            let data = epoll::EventData::new_u64(listener.as_raw_fd() as u64);
            epoll::add(&epolls[number], listener, data, epoll::EventFlags::IN).doing("watch the listener")?;
        }
        // Written once, so that what is sent are pages of its own and not the one page of zeroes.
        let filler = (0..PIECE).map(|at| b'a' + (at % 26) as u8).collect();
        let (connections, piece) = (Vec::new(), vec![0; PIECE]);
        Ok(Worker { number, epolls, counters, listener, connections, turn: 0, piece, filler })
    }

    /// Serves without end.
    ///
    /// # Errors
    /// When the kernel does not let it.
    pub(super) fn serve(mut self) -> Result<(), Fault> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let listener = self.listener.as_ref().map(AsRawFd::as_raw_fd);
        loop {
            let ready = match epoll::wait(&self.epolls[self.number], &mut events, None) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Fault::from_error("wait for events", &error)),
            };
            for event in ready.iter() {
                let (flags, descriptor) = (event.flags, event.data.u64() as i32);
                if Some(descriptor) == listener {
                    self.accept();
                } else if self.handle(descriptor as usize, flags).is_err() {
                    self.close(descriptor as usize);
                }
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters[self.number]
    }

    /// Takes those who knock; each thread in turn gets one.
    fn accept(&mut self) {
        for _ in 0..ACCEPTED_MAX {
            let Some(listener) = &self.listener else { return };
            let socket = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    let pause = clock::timespec(NO_FILES_NS);
                    let _ = rustix::thread::nanosleep(&pause);
                    return;
                }
                // Whoever knocked may have gone again.
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => return,
            };
            let data = epoll::EventData::new_u64(socket.as_raw_fd() as u64);
            let epoll = &self.epolls[self.turn];
            self.turn = (self.turn + 1) % self.epolls.len();
            if epoll::add(epoll, &socket, data, epoll::EventFlags::IN).is_ok() {
                // Its thread takes it over with its first event.
                let _ = std::os::fd::IntoRawFd::into_raw_fd(socket);
            }
        }
    }

    fn handle(&mut self, descriptor: usize, flags: epoll::EventFlags) -> Result<(), Over> {
        if self.connections.len() <= descriptor {
            self.connections.resize_with(descriptor + 1, || None);
        }
        let slot = &mut self.connections[descriptor];
        let connection = slot.get_or_insert_with(|| {
            // SAFETY: `accept` has given the descriptor up to the thread whose epoll names it, and this is its first
            // event: nobody else owns it.
            let socket = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor as i32) };
            Connection { socket, role: Role::Unsaid, line: Vec::new(), unsent: Vec::new() }
        });
        if !connection.unsent.is_empty() {
            return self.answer(descriptor);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            self.read(descriptor)?;
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
    fn read(&mut self, descriptor: usize) -> Result<(), Over> {
        for _ in 0..PIECES_MAX {
            let Some(connection) = &self.connections[descriptor] else { return Err(Over) };
            let received = match recv(&connection.socket, self.piece.as_mut_slice(), RecvFlags::empty()) {
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

    /// The first line: what the connection is to be. Returns where what follows it begins.
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
                let _ = send(&connection.socket, counts.as_bytes(), SendFlags::NOSIGNAL);
                return Err(Over);
            }
            _ => return Err(Over),
        };
        connection.role = role;
        add(&self.counters().opened, 1);
        if role == Role::Source {
            self.watch(descriptor, epoll::EventFlags::IN | epoll::EventFlags::OUT)?;
        }
        Ok(end + 1)
    }

    /// Takes what was received, from `begins` on.
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
                // Held back until the end that follows at once, so that both go out together: who has read the answer
                // knows that the connection is over, and it is this side that has to remember it.
                let taken = push(connection, &self.piece[begins..=begins], SendFlags::MORE)?;
                add(&self.counters().sent, taken);
                Err(Over)
            }
        }
    }

    /// Goes on with an answer that did not fit.
    fn answer(&mut self, descriptor: usize) -> Result<(), Over> {
        let connection = self.connections[descriptor].as_ref().ok_or(Over)?;
        let taken = push(connection, &connection.unsent, SendFlags::empty())?;
        add(&self.counters().sent, taken);
        let connection = self.connection(descriptor)?;
        connection.unsent.drain(..taken);
        if connection.unsent.is_empty() { self.watch(descriptor, epoll::EventFlags::IN) } else { Ok(()) }
    }

    /// Sends until the kernel takes no more.
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
        // The descriptor is free for the next one as soon as it is closed, so its place here is free before that.
        if let Some(connection) = connection {
            let role = connection.role;
            drop(connection);
            if role != Role::Unsaid {
                add(&self.counters().closed, 1);
            }
        }
    }
}

/// How many bytes the kernel takes now; 0 when its buffer is full.
fn push(connection: &Connection, bytes: &[u8], flags: SendFlags) -> Result<usize, Over> {
    loop {
        match send(&connection.socket, bytes, SendFlags::NOSIGNAL | flags) {
            Ok(taken) => return Ok(taken),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(_) => return Err(Over),
        }
    }
}
