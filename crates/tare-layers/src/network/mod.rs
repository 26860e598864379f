//! Links, addresses, forwarding and the namespace that load comes from. Everything made here is named after its run, so
//! that it can be found and removed after a crash.

mod arrivals;
mod beside;
mod came_in;
mod closed;
mod doors;
mod fence;
mod forwarding;
mod low_ports;
mod pinned;
mod private;
mod room;
mod seat;
mod subnets;
mod tap;
mod to_all;

pub use beside::Networks;
pub(crate) use fence::Fenced;
pub use forwarding::{Forwarding, allow_forwarding};
pub(crate) use forwarding::{iptables, remove_rules, runs_with_rules};
pub(crate) use low_ports::{LowPorts, USUAL_BOUND, UserHere, allow_all_ports};
pub(crate) use pinned::{is_pinned, take_down};
pub use room::Room;
pub use seat::GeneratorSeat;
pub(crate) use seat::{namespaces_named_like_ours, remove_namespace, seat_link};
pub use subnets::free_subnets;
pub use tap::{tap_create, tap_open};

use crate::marks;
use crate::netlink::{Netlink, Range};
use crate::register::{self, Kind};
use std::net::Ipv4Addr;
#[cfg(test)]
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
#[cfg(test)]
use std::os::fd::OwnedFd;
use tare_core::fault::{Doing, Fault};

/// The longest name a link can have, in bytes.
pub const LINK_NAME_MAX: usize = 15;

fn open() -> Result<Netlink, Fault> {
    Netlink::open().doing("open the kernel's network configuration")
}

/// Creates a bridge with an address, and brings it up.
///
/// # Errors
/// When the name is taken or this process may not change the network (it needs root).
pub fn bridge_create(name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Fault> {
    registered(name, || make_bridge(name, address, prefix))
}

fn make_bridge(name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Fault> {
    let netlink = open()?;
    // A fixed, locally administered address: a bridge that borrows the address of its first port changes it when that
    // port goes, and hosts that had learnt it wait for a new one.
    let [_, b, c, d] = address.octets();
    netlink.create_bridge(name, [0x02, 0x7a, 0x72, b, c, d]).doing(format!("make the bridge {name}"))?;
    let finish = || {
        mark(&netlink, name)?;
        no_ipv6(name)?;
        set_up(&netlink, name, address, prefix)?;
        accept_any_path(name)
    };
    finish().inspect_err(|_| {
        let _ = netlink.delete(name);
    })
}

/// Makes a link, or has it made, on behalf of the run that its name contains.
pub(crate) fn registered<T>(name: &str, make: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    match marks::run_of_link(name) {
        Some(run) => register::make(run, Kind::Link, name, make),
        None => make(),
    }
}

/// Writes the run that a link's name contains into its alias, so that people see whose it is.
fn mark(netlink: &Netlink, name: &str) -> Result<(), Fault> {
    let Some(run) = marks::run_of_link(name) else { return Ok(()) };
    netlink.set_alias(name, &marks::full_mark(run)).doing(format!("mark the link {name} as one of run {run}"))
}

fn set_up(netlink: &Netlink, name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Fault> {
    netlink
        .add_address(name, Range { address, prefix })
        .doing(format!("give the link {name} the address {address}/{prefix}"))?;
    netlink.up(name).doing(format!("switch the link {name} on"))
}

/// Disables IPv6 on a link: a guest could otherwise make itself this machine's router by an advertisement.
fn no_ipv6(name: &str) -> Result<(), Fault> {
    match std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1") {
        // This machine has no IPv6 at all.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        written => written.doing(format!("switch IPv6 off at the link {name}")),
    }
}

/// Loosens the reverse-path filter for a link: the kernel takes the stricter of the link's and the machine's setting,
/// except that "loose" beats "strict". In strict mode a reply that leaves by another link causes the request to be
/// dropped.
fn accept_any_path(name: &str) -> Result<(), Fault> {
    std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "2")
        .doing(format!("loosen the reverse-path filter of the link {name}"))
}

/// Gives an existing link an address and brings it up.
///
/// # Errors
/// When there is no such link, it already has the address, or this process may not.
pub fn link_up_with_address(name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Fault> {
    set_up(&open()?, name, address, prefix)
}

/// Gives an existing link one more address of this machine, which nothing else has.
///
/// # Errors
/// When there is no such link, it already has the address, or this process may not.
pub fn address_add(name: &str, address: Ipv4Addr) -> Result<(), Fault> {
    let one = Range { address, prefix: 32 };
    open()?.add_address(name, one).doing(format!("give the link {name} the address {address}"))
}

/// Brings an existing link up.
///
/// # Errors
/// When there is no such link or this process may not.
pub fn link_up(name: &str) -> Result<(), Fault> {
    open()?.up(name).doing(format!("switch the link {name} on"))
}

/// Removes a link; a missing one is no error, and one that merely has the name of a run's link belongs to somebody
/// else.
///
/// # Errors
/// When it is still there.
pub fn link_delete(name: &str) -> Result<(), Fault> {
    if marks::run_of_link(name).is_some_and(|run| register::is_foreign(run, Kind::Link, name)) {
        return Ok(());
    }
    open()?.delete(name).doing(format!("remove the link {name}")).map(drop)
}

/// Adds a route to `to/prefix` through the gateway `via`; prefix 0 is the default route.
///
/// # Errors
/// When the gateway cannot be reached or the route already exists.
pub fn route_add(to: Ipv4Addr, prefix: u8, via: Ipv4Addr) -> Result<(), Fault> {
    open()?.add_route(Range { address: to, prefix }, via).doing(format!("add the route to {to}/{prefix} via {via}"))
}

/// Creates two joined links: `name` here, `peer` in the network namespace that `namespace` refers to.
///
/// # Errors
/// When a name is taken or this process may not.
pub fn veth_create(name: &str, peer: &str, namespace: BorrowedFd<'_>) -> Result<(), Fault> {
    let make = || {
        let netlink = open()?;
        netlink.create_veth(name, peer, namespace).doing(format!("join the links {name} and {peer}"))?;
        mark(&netlink, name)
    };
    registered(name, make)
}

/// Names of the links whose name starts with `prefix`.
///
/// # Errors
/// When the kernel does not answer.
pub fn links(prefix: &str) -> Result<Vec<String>, Fault> {
    let links = open()?.links().doing("list the links")?;
    Ok(links.into_iter().map(|link| link.name).filter(|name| name.starts_with(prefix)).collect())
}

/// Runs `check` in a network of its own, in which the loopback is up; says so where that cannot be had.
#[cfg(test)]
pub(crate) fn in_own_network(check: impl FnOnce() + Send) {
    let Some(()) = tare_testkit::needs::root() else { return };
    let inside = || {
        // SAFETY: NEWNET gives this thread a network of its own; it ends with this closure.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
        link_up("lo").unwrap();
        check();
    };
    std::thread::scope(|scope| scope.spawn(inside).join().unwrap());
}

/// Another network, which exists for as long as this is kept.
#[cfg(test)]
pub(crate) fn other_network() -> std::fs::File {
    let make = || {
        // SAFETY: NEWNET gives this thread a network of its own; it ends with this closure.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.unwrap();
        std::fs::File::open("/proc/thread-self/ns/net").unwrap()
    };
    std::thread::scope(|scope| scope.spawn(make).join().unwrap())
}

/// What `act` gives in a network, in a thread that ends with it.
#[cfg(test)]
pub(crate) fn as_inside<T: Send>(network: &std::fs::File, act: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(network), kind).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(inside).join().unwrap())
}

/// What `act` gives as a user, in a thread that ends with it.
#[cfg(test)]
pub(crate) fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    let inside = || {
        // SAFETY: the raw call changes this thread alone, which ends here.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) }, 0);
        act()
    };
    std::thread::scope(|scope| scope.spawn(inside).join().unwrap())
}

/// A socket that hears at a port of every address of IPv6, and of none of IPv4; and its place. Port 0 is any.
#[cfg(test)]
pub(crate) fn bind_ipv6_alone(kind: rustix::net::SocketType, port: u16) -> (OwnedFd, SocketAddr) {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET6, kind, None).unwrap();
    rustix::net::sockopt::set_ipv6_v6only(&socket, true).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))).unwrap();
    if kind == rustix::net::SocketType::STREAM {
        rustix::net::listen(&socket, 16).unwrap();
    }
    let place = rustix::net::getsockname(&socket).unwrap().try_into().unwrap();
    (socket, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_speaks_no_ipv6() {
        in_own_network(|| {
            make_bridge("bridge0", Ipv4Addr::new(10, 99, 0, 1), 30).unwrap();
            let off = |link: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6"));
            assert_eq!(["lo", "bridge0"].map(|link| off(link).unwrap()), ["0\n", "1\n"]);
        });
    }
}
