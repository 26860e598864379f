//! What the kernel reports about the load's own sockets.

use rustix::fd::{AsFd, AsRawFd};
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Offsets in the kernel's `struct tcp_info` of linux/tcp.h, which only ever grows at its end.
const SND_MSS: usize = 16;
const PMTU: usize = 60;
const TOTAL_RETRANS: usize = 100;
const TCP_INFO_BYTES: usize = 104;

/// The facts about one socket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    nodelay: bool,
    congestion: String,
    mss: u32,
    mtu: u32,
    send_buffer: usize,
    receive_buffer: usize,
}

/// The facts about sockets: about the first that was established, then about those still open at the end.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    seen: Mutex<Option<(Seen, bool, u64)>>,
}

impl Sockets {
    /// Inspects a socket. New connections after the first one would show nothing new.
    pub(super) fn look(&self, socket: &impl AsFd, ending: bool) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.is_some() && !ending {
            return;
        }
        let Some((now, retransmitted)) = ask(socket) else { return };
        *seen = match seen.take() {
            // Buffers grow while data flows: the largest is reported.
            Some((before, true, sum)) => {
                let send_buffer = now.send_buffer.max(before.send_buffer);
                let receive_buffer = now.receive_buffer.max(before.receive_buffer);
                Some((Seen { send_buffer, receive_buffer, ..now }, true, sum + retransmitted))
            }
            _ => Some((now, ending, retransmitted)),
        };
    }

    /// As text, for the record.
    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((seen, at_end, retransmitted)) = &*seen else { return BTreeMap::new() };
        let mut facts = BTreeMap::from([
            ("client.tcp.nodelay".to_owned(), seen.nodelay.to_string()),
            ("client.tcp.congestion".to_owned(), seen.congestion.clone()),
            ("client.tcp.mss_bytes".to_owned(), seen.mss.to_string()),
            ("client.tcp.path_mtu_bytes".to_owned(), seen.mtu.to_string()),
            ("client.tcp.send_buffer_bytes".to_owned(), seen.send_buffer.to_string()),
            ("client.tcp.receive_buffer_bytes".to_owned(), seen.receive_buffer.to_string()),
        ]);
        if *at_end {
            facts.insert("client.tcp.retransmitted_segments".to_owned(), retransmitted.to_string());
        }
        facts
    }
}

/// The facts about a socket, and how many segments it has retransmitted; none if it is not a connected TCP socket.
fn ask(socket: &impl AsFd) -> Option<(Seen, u64)> {
    let info = tcp_info(socket)?;
    let number =
        |at: usize| info.get(at..at + 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four bytes")));
    let seen = Seen {
        nodelay: sockopt::tcp_nodelay(socket).ok()?,
        congestion: sockopt::tcp_congestion(socket).unwrap_or_else(|_| "unknown".to_owned()),
        mss: number(SND_MSS)?,
        mtu: number(PMTU)?,
        send_buffer: sockopt::socket_send_buffer_size(socket).ok()?,
        receive_buffer: sockopt::socket_recv_buffer_size(socket).ok()?,
    };
    Some((seen, u64::from(number(TOTAL_RETRANS)?)))
}

fn tcp_info(socket: &impl AsFd) -> Option<Vec<u8>> {
    let mut info = [0_u8; TCP_INFO_BYTES];
    let mut length = TCP_INFO_BYTES as libc::socklen_t;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to `info`, which has that many, and reports how many it wrote.
    let result = unsafe {
        libc::getsockopt(descriptor, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut length)
    };
    (result == 0).then(|| info[..(length as usize).min(TCP_INFO_BYTES)].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_tells_what_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nodelay(true).unwrap();
        let sockets = Sockets::default();
        assert!(sockets.facts().is_empty());
        sockets.look(&socket, false);
        let facts = sockets.facts();
        let number = |name: &str| facts[&format!("client.tcp.{name}")].parse::<u64>().unwrap();
        assert_eq!(facts["client.tcp.nodelay"], "true");
        // Initially half the MTU on the loopback; an IPv4 header and a TCP header together are 40 bytes.
        let (mss, mtu) = (number("mss_bytes"), number("path_mtu_bytes"));
        assert!(mss >= 500 && mss + 40 <= mtu && mtu <= 65_536, "{facts:?}");
        assert!(!facts.contains_key("client.tcp.retransmitted_segments"));
        sockopt::set_socket_send_buffer_size(&socket, 20_000).unwrap();
        sockets.look(&socket, false);
        assert_eq!(sockets.facts(), facts, "only the end tells more");
        sockets.look(&socket, true);
        // The kernel doubles the requested size, for its own needs.
        assert_eq!(sockets.facts()["client.tcp.send_buffer_bytes"], "40000");
        assert_eq!(sockets.facts()["client.tcp.retransmitted_segments"], "0");
    }
}
