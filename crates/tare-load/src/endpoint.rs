//! Which endpoints load may be driven at.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use tare_core::fault::Fault;

/// Refuses endpoints outside this machine and private networks: load against a stranger's machine is an attack. What is
/// `allowed` was named by the user, who answers for it.
///
/// # Errors
/// When the address is neither loopback, private (RFC 1918, RFC 4193) nor this machine's own.
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
        .remedy("deploy the service on this machine, or in a network of 10/8, 172.16/12 or 192.168/16"))
}

fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local(),
    }
}

/// Whether the address belongs to this machine: only then can a socket be bound to it.
pub fn is_own(address: IpAddr) -> bool {
    !address.is_unspecified() && !address.is_multicast() && UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_and_private_networks_are_driven() {
        for good in ["127.0.0.1:1", "127.9.9.9:80", "10.99.0.2:6379", "172.16.0.1:80", "192.168.3.4:80", "[::1]:80"] {
            assert_eq!(check(good.parse().unwrap(), &[]), Ok(()), "{good}");
        }
        let bad =
            ["8.8.8.8:53", "172.32.0.1:80", "169.254.169.254:80", "0.0.0.0:80", "[2001:db8::1]:80", "224.0.0.1:80"];
        for bad in bad.into_iter().chain(["[::ffff:8.8.8.8]:80", "127.0.0.1:0", "100.64.0.1:80"]) {
            assert!(check(bad.parse().unwrap(), &[]).is_err(), "{bad}");
        }
        assert_eq!(check("8.8.8.8:53".parse().unwrap(), &["8.8.8.8".parse().unwrap()]), Ok(()));
    }
}
