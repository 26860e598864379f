//! From a host's name to its address. The binary is static, so the C library's way, which loads libraries at run time,
//! is not open: names are looked up in /etc/hosts, then asked of the name servers in /etc/resolv.conf.

use crate::cmd::Mistake;
use anyhow::Result;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// How long a name server is waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The longest answer over UDP without extensions (RFC 1035, 4.2.1).
const ANSWER_MAX: usize = 512;

/// The endpoint of `HOST:PORT`.
///
/// # Errors
/// When it is not of that form, or the host has no address that can be found.
pub(super) fn endpoint(target: &str) -> Result<SocketAddr> {
    if let Ok(endpoint) = target.parse::<SocketAddr>() {
        return Ok(endpoint);
    }
    let parts = target.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok());
    let (Some((name, _)), Some(port)) = (parts, port) else {
        let text = format!("'{target}' is no target; write HOST:PORT, such as 127.0.0.1:6379 or [::1]:6379");
        return Err(Mistake::new(text).into());
    };
    Ok(SocketAddr::new(host(name)?, port))
}

/// The address of a host.
///
/// # Errors
/// When none can be found.
pub(super) fn host(name: &str) -> Result<IpAddr> {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return Ok(address);
    }
    if name.eq_ignore_ascii_case("localhost") {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    if let Some(address) = in_hosts(&read("/etc/hosts"), name) {
        return Ok(address);
    }
    let servers = name_servers(&read("/etc/resolv.conf"));
    let mut why = "there is no name server in /etc/resolv.conf".to_owned();
    for server in servers {
        match ask(server, name) {
            Ok(address) => return Ok(address),
            Err(error) => why = error,
        }
    }
    let text = format!("the host '{name}' has no address that can be found: {why}");
    Err(Mistake::new(format!("{text}\n  to do: give its address, or put it into /etc/hosts")).into())
}

fn in_hosts(hosts: &str, name: &str) -> Option<IpAddr> {
    hosts.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    })
}

fn name_servers(conf: &str) -> Vec<IpAddr> {
    let servers = conf.lines().filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok());
    servers.take(3).collect()
}

/// Asks a name server for an IPv4 address.
fn ask(server: IpAddr, name: &str) -> Result<IpAddr, String> {
    let question = question(name).ok_or_else(|| format!("'{name}' is not a host's name"))?;
    let local: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
    let failed = |error: std::io::Error| format!("name server {server}: {error}");
    let socket = UdpSocket::bind((local, 0)).map_err(failed)?;
    socket.connect((server, 53)).map_err(failed)?;
    socket.set_read_timeout(Some(ANSWER_WITHIN)).map_err(failed)?;
    socket.send(&question).map_err(failed)?;
    let mut answer = [0; ANSWER_MAX];
    let length = socket.recv(&mut answer).map_err(|_| format!("name server {server} did not answer"))?;
    first_address(&answer[..length], &question).map_err(|why| format!("name server {server} {why}"))
}

/// A question for the IPv4 address of a name (RFC 1035, 4.1); `None` when it cannot be a name.
fn question(name: &str) -> Option<Vec<u8>> {
    // The id tells stray answers apart; the kernel already takes only those of the server asked.
    let id = (std::process::id() as u16).to_be_bytes();
    let mut bytes = vec![id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.trim_end_matches('.').split('.') {
        if label.is_empty() || label.len() > 63 || !label.is_ascii() {
            return None;
        }
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.extend_from_slice(&[0, 0, 1, 0, 1]);
    (bytes.len() <= 255 + 16).then_some(bytes)
}

/// The first IPv4 address in the answer to a question.
fn first_address(answer: &[u8], question: &[u8]) -> Result<IpAddr, String> {
    let broken = || "answered what cannot be understood".to_owned();
    let word = |at: usize| answer.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    if answer.get(..2) != question.get(..2) || answer.len() < 12 {
        return Err(broken());
    }
    match answer[3] & 15 {
        0 => {}
        3 => return Err("knows no such name".to_owned()),
        code => return Err(format!("answered with error {code}")),
    }
    let mut at = question.len();
    for _ in 0..word(6).unwrap_or(0) {
        at = after_name(answer, at).ok_or_else(broken)?;
        let (kind, length) = (word(at).ok_or_else(broken)?, word(at + 8).ok_or_else(broken)?);
        let data = answer.get(at + 10..at + 10 + usize::from(length)).ok_or_else(broken)?;
        if let (1, [a, b, c, d]) = (kind, data) {
            return Ok(IpAddr::from([*a, *b, *c, *d]));
        }
        at += 10 + usize::from(length);
    }
    Err("has no IPv4 address of it".to_owned())
}

/// Behind a name, which may end in a pointer to another.
fn after_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ports_need_nobody() {
        assert_eq!(endpoint("127.0.0.1:80").unwrap(), "127.0.0.1:80".parse().unwrap());
        assert_eq!(endpoint("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
        assert_eq!(endpoint("localhost:80").unwrap(), "127.0.0.1:80".parse().unwrap());
        for bad in ["127.0.0.1", ":80", "localhost:http", "localhost:99999", ""] {
            assert!(endpoint(bad).unwrap_err().to_string().contains("write HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn hosts_and_name_servers_are_found_in_their_files() {
        let hosts = "# none\n10.0.0.7\tshop.test shop # shopping\n::1 six\n";
        assert_eq!(in_hosts(hosts, "SHOP"), Some([10, 0, 0, 7].into()));
        assert_eq!((in_hosts(hosts, "shopping"), in_hosts(hosts, "none")), (None, None));
        assert_eq!(name_servers("search x\nnameserver 10.0.0.1\n nameserver ::1\n").len(), 2);
    }

    #[test]
    fn an_answer_gives_its_first_address_behind_aliases() {
        let asked = question("a.test").unwrap();
        let mut answer = asked.clone();
        (answer[2], answer[3], answer[7]) = (0x81, 0x80, 2);
        answer.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 2, 0xc0, 12]);
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 5]);
        assert_eq!(first_address(&answer, &asked), Ok([192, 0, 2, 5].into()));
        for length in 0..answer.len() {
            assert!(first_address(&answer[..length], &asked).is_err(), "cut at {length}");
        }
        answer[3] = 0x83;
        assert_eq!(first_address(&answer, &asked), Err("knows no such name".to_owned()));
        assert!(question("a..b").is_none() && question(&"x".repeat(64)).is_none());
    }
}
