//! The other end of a load that needs no server, only the way to it: takes bytes, sends bytes, answers bytes.
//!
//! It listens on one port, so that a form has only one port to open. The first line of a connection states its role:
//!
//! | line | the peer |
//! |---|---|
//! | `sink` | reads and forgets, until the other side ends |
//! | `source` | writes without end, as fast as it is taken, until the other side ends |
//! | `echo` | answers with what it received; a request is a byte |
//! | `once` | answers the first byte and closes |
//! | `counts` | tells what it has counted, and closes |

mod counts;
mod worker;

pub(crate) use counts::Counts;

use counts::Counters;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tare_core::fault::{Doing, Fault};
use worker::Worker;

/// The most connections waiting to be accepted; the kernel's own limit (`somaxconn`) may be lower.
const BACKLOG: i32 = 4096;

/// How a peer is set up. These settings do not depend on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerOptions {
    /// Where it listens; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// Threads that serve, each with its share of the connections.
    pub threads: u32,
    /// Whether answers go out at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// `SO_SNDBUF`, bytes; without it the kernel sizes the buffer while data flows.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF`, bytes; without it the kernel sizes the buffer while data flows.
    pub receive_buffer: Option<u32>,
}

/// A peer that serves in threads of its own, which nothing waits for: they end with the process.
pub struct Peer {
    address: SocketAddr,
    ends: Receiver<Result<(), Fault>>,
    end: Sender<Result<(), Fault>>,
}

impl Peer {
    /// Starts serving.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(options: &PeerOptions) -> Result<Self, Fault> {
        open_files()?;
        let listener = listen(options).doing(format_args!("listen on {}", options.listen))?;
        let address = listener.local_addr().doing("read the address that is listened on")?;
        let listener = OwnedFd::from(listener);
        let (end, ends) = channel();
        let threads = options.threads.max(1) as usize;
        let counters: Arc<[Counters]> = (0..threads).map(|_| Counters::default()).collect();
        let epolls = (0..threads).map(|_| epoll::create(epoll::CreateFlags::CLOEXEC));
        let epolls: Arc<[OwnedFd]> = epolls.collect::<Result<_, _>>().doing("create an epoll")?;
        for number in 0..threads {
            let worker = Worker::new(number, Arc::clone(&epolls), Arc::clone(&counters));
            let end = end.clone();
            std::thread::spawn(move || end.send(worker.serve()));
        }
        let accepts = end.clone();
        std::thread::spawn(move || accepts.send(worker::accept(&listener, &epolls, &counters)));
        Ok(Peer { address, ends, end })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Serves until SIGTERM or SIGINT. Writes a line to `stdout` once connections are accepted.
///
/// # Errors
/// When it cannot listen, or cannot continue.
pub fn serve_peer(options: &PeerOptions, mut stdout: impl Write) -> Result<(), Fault> {
    // Before any other thread is started, so that all inherit the mask. The signals are waited for because the first
    // process of a container is not ended by a signal that it does not handle.
    let signals = block_signals();
    let peer = Peer::start(options)?;
    let end = peer.end.clone();
    std::thread::spawn(move || end.send(await_signal(&signals)));
    writeln!(stdout, "ready on {}", peer.address).and_then(|()| stdout.flush()).doing("say that it is ready")?;
    peer.ends.recv().unwrap_or(Ok(()))
}

fn block_signals() -> libc::sigset_t {
    // SAFETY: a signal set is plain data, filled in by sigemptyset; only this thread's mask changes.
    unsafe {
        let mut signals = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        libc::sigaddset(&raw mut signals, libc::SIGTERM);
        libc::sigaddset(&raw mut signals, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut());
        signals
    }
}

fn await_signal(signals: &libc::sigset_t) -> Result<(), Fault> {
    let mut signal = 0;
    // SAFETY: both point to values that live until the call returns.
    let error = unsafe { libc::sigwait(signals, &raw mut signal) };
    if error == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(error)).doing("wait for a signal") }
}

/// Options set on the listener apply to the connections that it accepts. A buffer's size must be known before a
/// connection is established, because the window scale follows from it.
fn listen(options: &PeerOptions) -> std::io::Result<std::net::TcpListener> {
    let domain = socket2::Domain::for_address(options.listen);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(options.nodelay)?;
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize)?;
    }
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
    }
    socket.bind(&options.listen.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Raises the limit on open files to its maximum.
fn open_files() -> Result<(), Fault> {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, most).doing("raise the limit on open files")
}
