//! Resolves `HOST:PORT` or a host's name to an address.

use crate::mistake::Mistake;
use anyhow::Result;
use std::net::{IpAddr, SocketAddr};

/// The endpoint of `HOST:PORT`.
///
/// # Errors
/// When it has another form, or the host's address cannot be found.
pub(super) fn endpoint(target: &str) -> Result<SocketAddr> {
    if let Ok(endpoint) = target.parse::<SocketAddr>() {
        return Ok(endpoint);
    }
    let parts = target.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok());
    let (Some((name, _)), Some(port)) = (parts, port) else {
        let text = format!("'{target}' is not a target; write HOST:PORT, such as 127.0.0.1:6379 or [::1]:6379");
        return Err(Mistake::new(text).into());
    };
    Ok(SocketAddr::new(host(name)?, port))
}

/// The address of a host.
///
/// # Errors
/// When none can be found.
pub(super) fn host(name: &str) -> Result<IpAddr> {
    tare_load::address_of(name).map_err(|why| {
        let text = format!("cannot find the address of host '{name}': {why}");
        Mistake::new(format!("{text}\n  to do: write its address, or add it to /etc/hosts")).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports_need_no_name_server() {
        assert_eq!(endpoint("127.0.0.1:80").unwrap(), "127.0.0.1:80".parse().unwrap());
        assert_eq!(endpoint("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
        assert_eq!(endpoint("localhost:80").unwrap(), "127.0.0.1:80".parse().unwrap());
        for bad in ["127.0.0.1", ":80", "localhost:http", "localhost:99999", ""] {
            assert!(endpoint(bad).unwrap_err().to_string().contains("write HOST:PORT"), "{bad}");
        }
    }
}
