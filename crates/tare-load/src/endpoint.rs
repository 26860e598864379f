//! Which endpoints may be loaded.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use tare_core::fault::Fault;

/// Refuses endpoints outside this machine and private networks: load on somebody else's machine is an attack. The
/// `allowed` addresses were named by the user, who is responsible for them.
///
/// # Errors
/// When the address is not loopback, private (RFC 1918, RFC 4193), reserved for benchmarks (RFC 2544), this machine's
/// own or allowed, or when the port is 0.
pub(crate) fn check(endpoint: SocketAddr, allowed: &[IpAddr]) -> Result<(), Fault> {
    let address = endpoint.ip().to_canonical();
    if endpoint.port() == 0 {
        return Err(Fault::new("the endpoint has port 0, which nothing listens on"));
    }
    if is_inside(address) || is_own(address) || allowed.iter().any(|other| other.to_canonical() == address) {
        return Ok(());
    }
    let message =
        format!("refused to drive load at {endpoint}: it is neither on this machine nor in a private network");
    Err(Fault::new(message)
        .remedy("deploy the service on this machine, or in a network of 10/8, 172.16/12, 192.168/16 or 198.18/15"))
}

fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || is_for_benchmarks(v4),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local(),
    }
}

/// 198.18.0.0/15, which no host on the Internet uses (RFC 2544): a run's own networks are in it.
fn is_for_benchmarks(address: Ipv4Addr) -> bool {
    matches!(address.octets(), [198, 18 | 19, ..])
}

/// Any port will do for asking the kernel for a route; nothing is sent.
const PORT: u16 = 9;

/// Whether the address belongs to this machine: only then does the kernel use it as the source address of packets to
/// it. That a socket can be bound to it proves nothing if `ip_nonlocal_bind` is set.
pub fn is_own(address: IpAddr) -> bool {
    let from = match address {
        // Bound to the address, because for the second address of a network the kernel would otherwise choose the first
        // as the source.
        IpAddr::V4(_) => address,
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let source = || {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect((address, PORT))?;
        socket.local_addr()
    };
    !address.is_unspecified() && !address.is_multicast() && source().is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_only_may_be_bound_are_not_our_own() {
        assert!(is_own("127.0.0.1".parse().unwrap()) && is_own("127.9.9.9".parse().unwrap()));
        let strange = || {
            // SAFETY: only the network namespace of this short-lived thread changes; no descriptor table is unshared.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }?;
            for version in ["ipv4", "ipv6"] {
                std::fs::write(format!("/proc/sys/net/{version}/ip_nonlocal_bind"), "1")?;
            }
            let addresses = ["8.8.8.8", "2001:db8::1"].map(|text| text.parse::<IpAddr>().unwrap());
            for address in addresses {
                UdpSocket::bind((address, 0))?;
            }
            std::io::Result::Ok(addresses.map(is_own))
        };
        match std::thread::spawn(strange).join().unwrap() {
            Ok(own) => assert_eq!(own, [false, false]),
            Err(error) => eprintln!("skipped: this takes root and a network namespace of its own: {error}"),
        }
    }

    #[test]
    fn only_this_machine_and_private_networks_are_driven() {
        for good in [
            "127.0.0.1:1",
            "127.9.9.9:80",
            "10.99.0.2:6379",
            "172.16.0.1:80",
            "192.168.3.4:80",
            "198.19.0.2:80",
            "[::1]:80",
        ] {
            assert_eq!(check(good.parse().unwrap(), &[]), Ok(()), "{good}");
        }
        let bad =
            ["8.8.8.8:53", "172.32.0.1:80", "169.254.169.254:80", "0.0.0.0:80", "[2001:db8::1]:80", "224.0.0.1:80"];
        for bad in bad.into_iter().chain(["[::ffff:8.8.8.8]:80", "127.0.0.1:0", "100.64.0.1:80", "198.20.0.1:80"]) {
            assert!(check(bad.parse().unwrap(), &[]).is_err(), "{bad}");
        }
        assert_eq!(check("8.8.8.8:53".parse().unwrap(), &["8.8.8.8".parse().unwrap()]), Ok(()));
    }
}
