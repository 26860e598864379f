use super::*;
use crate::network::closed::{CLOSED_MAX, IPV6_ALONE, TRANSPORTS, key};
use crate::network::{as_user, bind_ipv6_alone, in_own_network};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::thread::scope;

/// A user id that nobody has.
const USER: u32 = 95_001;

/// Ports of both protocols and both families, chosen by the kernel, as keys, with what holds them.
fn four() -> (Vec<Key>, impl Send) {
    let places = [SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))];
    let streams = places.map(|place| TcpListener::bind(place).unwrap());
    let datagrams = places.map(|place| UdpSocket::bind(place).unwrap());
    let streamed = streams.iter().map(|socket| key(TRANSPORTS[0], socket.local_addr().unwrap()));
    let sent = datagrams.iter().map(|socket| key(TRANSPORTS[1], socket.local_addr().unwrap()));
    (streamed.chain(sent).collect(), (streams, datagrams))
}

/// Runs `check` in a network of its own, where this many ports may be closed; a machine that cannot do it says so.
fn with_doors(room: u32, check: impl FnOnce(&Doors, &Closed) + Send) {
    in_own_network(|| {
        let closed = Map::new(room).unwrap();
        match Doors::open(&closed) {
            Ok(doors) => check(&doors, &closed),
            Err(error) => println!("skipped: {error}"),
        }
    });
}

#[test]
fn what_a_user_binds_is_closed_here_and_nowhere_else() {
    with_doors(CLOSED_MAX, |doors, closed| {
        let none = as_user(USER, four);
        assert_eq!(closed.entries(), [], "nobody is watched");
        doors.watch(USER).unwrap();
        let other = as_user(USER + 1, four);
        let elsewhere = as_user(USER, || scope(|scope| scope.spawn(in_other_network).join().unwrap()));
        assert_eq!(closed.entries(), [], "another user, or another network");
        let (mut bound, held) = as_user(USER, four);
        let mut entries = closed.entries();
        entries.sort_unstable();
        bound.sort_unstable();
        assert_eq!(entries, bound.into_iter().map(|key| (key, USER)).collect::<Vec<_>>());
        doors.leave(USER);
        let after = as_user(USER, four);
        assert_eq!(closed.entries().len(), 4, "what is bound afterwards stays open");
        drop((none, other, elsewhere, after));
        assert_eq!(closed.entries().len(), 4, "others' sockets are closed");
        drop(held);
        assert_eq!(closed.entries(), [], "the kernel gives such a number to somebody else next");
    });
}

#[test]
fn a_port_stays_closed_until_the_last_socket_that_has_it() {
    with_doors(CLOSED_MAX, |doors, closed| {
        doors.watch(USER).unwrap();
        let (first, second, connected) = as_user(USER, || {
            let (first, second) = sharing("127.0.0.1:0".parse().unwrap());
            // An accepted connection has the listener's port too, and was not bound.
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let server = listener.accept().unwrap().0;
            drop((client, server));
            (first, second, listener)
        });
        assert_eq!(closed.entries().len(), 2);
        drop(first);
        assert_eq!(closed.entries().len(), 2, "another has the port still");
        drop(second);
        assert_eq!(closed.entries().len(), 1);
        drop(connected);
        assert_eq!(closed.entries(), []);
    });
}

/// One thread closes the last socket of a port while another binds it, over and over.
#[test]
fn a_port_that_is_bound_while_its_last_socket_is_closed_is_closed() {
    with_doors(CLOSED_MAX, |doors, closed| {
        doors.watch(USER).unwrap();
        as_user(USER, || {
            let first = bind_shared("127.0.0.1:0".parse().unwrap());
            let place: SocketAddr = rustix::net::getsockname(&first).unwrap().try_into().unwrap();
            let mut last = first;
            for round in 0..3_000 {
                let meet = std::sync::Barrier::new(2);
                last = scope(|scope| {
                    let closing = scope.spawn(|| {
                        meet.wait();
                        drop(last);
                    });
                    meet.wait();
                    let next = bind_shared(place);
                    closing.join().unwrap();
                    next
                });
                assert_eq!(closed.entries().len(), 1, "round {round}: it is open");
            }
            drop(last);
        });
        assert_eq!(closed.entries(), [], "nobody has it any more");
    });
}

/// Two threads are the first to bind a port, at once, over and over, and one of them closes first.
#[test]
fn a_port_that_two_bind_at_once_stays_closed_until_both_are_closed() {
    with_doors(CLOSED_MAX, |doors, closed| {
        doors.watch(USER).unwrap();
        as_user(USER, || {
            for round in 0..3_000_u16 {
                let place = SocketAddr::from((Ipv4Addr::LOCALHOST, 20_000 + round));
                let meet = std::sync::Barrier::new(2);
                let at_once = || {
                    meet.wait();
                    bind_shared(place)
                };
                let (first, second) = scope(|scope| {
                    let other = scope.spawn(at_once);
                    (at_once(), other.join().unwrap())
                });
                drop(first);
                assert_eq!(closed.entries().len(), 1, "round {round}: it is open");
                drop(second);
                assert_eq!(closed.entries(), [], "round {round}: nobody has it any more");
            }
        });
    });
}

#[test]
fn a_socket_that_is_bound_again_has_one_port_closed() {
    with_doors(CLOSED_MAX, |doors, closed| {
        doors.watch(USER).unwrap();
        as_user(USER, || {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
            for round in 0..20 {
                rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).unwrap();
                let place: SocketAddr = rustix::net::getsockname(&socket).unwrap().try_into().unwrap();
                assert_eq!(closed.entries(), [(key(TRANSPORTS[1], place), USER)], "round {round}");
                // The kernel takes back a port that it chose.
                rustix::net::connect_unspec(&socket).unwrap();
            }
        });
        assert_eq!(closed.entries(), []);
    });
}

/// Two datagram sockets at the same place.
fn sharing(place: SocketAddr) -> (OwnedFd, OwnedFd) {
    let first = bind_shared(place);
    let taken: SocketAddr = rustix::net::getsockname(&first).unwrap().try_into().unwrap();
    (first, bind_shared(taken))
}

/// A datagram socket at a place that others may share.
fn bind_shared(place: SocketAddr) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    rustix::net::sockopt::set_socket_reuseport(&socket, true).unwrap();
    rustix::net::bind(&socket, &place).unwrap();
    socket
}

#[test]
fn it_is_closed_in_its_protocol_and_at_its_address() {
    with_doors(CLOSED_MAX, |doors, closed| {
        doors.watch(USER).unwrap();
        let (tcp, udp) = (TRANSPORTS[0], TRANSPORTS[1]);
        let noted = |wanted: Key, why: &str| assert_eq!(closed.entries(), [(wanted, USER)], "{why}");
        for place in ["127.0.0.2:0", "0.0.0.0:0", "[::1]:0", "[::]:0", "[::ffff:127.0.0.1]:0"] {
            let held = as_user(USER, || TcpListener::bind(place).unwrap());
            noted(key(tcp, held.local_addr().unwrap()), place);
            drop(held);
            let held = as_user(USER, || UdpSocket::bind(place).unwrap());
            noted(key(udp, held.local_addr().unwrap()), place);
        }
        for (kind, transport) in [(SocketType::STREAM, tcp), (SocketType::DGRAM, udp)] {
            let (held, place) = as_user(USER, || bind_ipv6_alone(kind, 0));
            let [a, b, c, d, port] = key(transport, place);
            noted([a, b, c, d, port | IPV6_ALONE], "IPv6 alone");
            drop(held);
        }
    });
}

/// As root of a user namespace, which is how anybody can have their own network.
fn in_other_network() -> Option<(Vec<Key>, impl Send)> {
    let flags = rustix::thread::UnshareFlags::NEWNET | rustix::thread::UnshareFlags::NEWUSER;
    // SAFETY: only this thread is moved, and it ends with that.
    unsafe { rustix::thread::unshare_unsafe(flags) }.ok().map(|()| four())
}

#[test]
fn a_port_for_which_there_is_no_room_is_denied() {
    with_doors(1, |doors, _| {
        doors.watch(USER).unwrap();
        let (first, second) = as_user(USER, || (TcpListener::bind("0.0.0.0:0"), TcpListener::bind("0.0.0.0:0")));
        assert!(first.is_ok());
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    });
}

/// They run for each bind, and for nothing else.
#[test]
fn neither_connections_nor_what_is_said_on_them_pass_it() {
    with_doors(CLOSED_MAX, |doors, _| {
        doors.watch(USER).unwrap();
        let listener = as_user(USER, || TcpListener::bind("127.0.0.1:0").unwrap());
        let place = listener.local_addr().unwrap();
        // Others on this machine may bind as well; a connecting client does not.
        let runs = || doors.programs.iter().map(|program| program.runs().unwrap()).sum::<u64>();
        let _counted = tare_bpf::count_runs().unwrap();
        let least = (0..20).map(|_| {
            let before = runs();
            for _ in 0..100 {
                let mut client = TcpStream::connect(place).unwrap();
                io::Write::write_all(&mut client, b"x").unwrap();
                io::Read::read_exact(&mut listener.accept().unwrap().0, &mut [0]).unwrap();
            }
            runs() - before
        });
        assert_eq!(least.min(), Some(0), "for 100 connections");
        let before = runs();
        as_user(USER, || drop(TcpListener::bind("127.0.0.1:0").unwrap()));
        assert!(runs() > before, "a bind passes it");
    });
}
