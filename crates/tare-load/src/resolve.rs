//! From a host's name to its address. The binary is static and cannot use the C library's resolver, which loads
//! libraries at run time: names are looked up in /etc/hosts, then by the name servers in /etc/resolv.conf.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

/// How long to wait for a name server.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The longest answer over UDP without extensions (RFC 1035, 4.2.1), bytes.
const ANSWER_MAX: usize = 512;
/// How many name servers are asked; the C library asks as many.
const SERVERS_MAX: usize = 3;

/// The address of a host, given by name or as an address; an IPv6 address may be in brackets. Each name server is given
/// two seconds.
///
/// # Errors
/// The reason, in words, if no address can be found.
pub fn address_of(host: &str) -> Result<IpAddr, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return Ok(address);
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    if let Some(address) = in_hosts(&read("/etc/hosts"), host) {
        return Ok(address);
    }
    let servers = name_servers(&read("/etc/resolv.conf"));
    let mut why = "there is no name server in /etc/resolv.conf".to_owned();
    for server in servers {
        match ask(server, host) {
            Ok(address) => return Ok(address),
            Err(error) => why = error,
        }
    }
    Err(why)
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
    servers.take(SERVERS_MAX).collect()
}

/// Asks a name server for an IPv4 address.
fn ask(server: IpAddr, name: &str) -> Result<IpAddr, String> {
    // The id identifies stray answers; the kernel already accepts only those from the server asked.
    let id = std::process::id() as u16;
    let question = question(name, id).ok_or_else(|| format!("'{name}' is not a host's name"))?;
    let local: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let failed = |error: std::io::Error| format!("name server {server}: {error}");
    let socket = UdpSocket::bind((local, 0)).map_err(failed)?;
    socket.connect((server, 53)).map_err(failed)?;
    socket.set_read_timeout(Some(ANSWER_WITHIN)).map_err(failed)?;
    socket.send(&question).map_err(failed)?;
    let mut answer = [0; ANSWER_MAX];
    let length = socket.recv(&mut answer).map_err(|_| format!("name server {server} did not answer"))?;
    first_address(&answer[..length], &question).map_err(|why| format!("name server {server} {why}"))
}

/// A query for the IPv4 address of a name (RFC 1035, 4.1); `None` if the name is not valid.
fn question(name: &str, id: u16) -> Option<Vec<u8>> {
    let id = id.to_be_bytes();
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

/// The first IPv4 address in the answer to a query.
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

/// The position after a name, which may end in a pointer to another.
fn after_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

/// Takes any bytes as a name server's answer: an address that is found is in it, and a truncated answer gives no other
/// one.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew_answer(bytes: &[u8]) {
    let asked = question("a.test", u16::from_be_bytes(*b"id")).expect("it is a name");
    let read = first_address(bytes, &asked);
    if let Ok(IpAddr::V4(address)) = read {
        assert!(bytes.windows(4).any(|four| four == address.octets()), "{address} stands nowhere");
    }
    for length in 0..bytes.len().min(ANSWER_MAX) {
        let cut = first_address(&bytes[..length], &asked);
        assert!(cut.is_err() || cut == read, "cut at {length}: {cut:?}, else {read:?}");
    }
}

/// Takes any text as /etc/hosts, in which the first word is looked up, and as /etc/resolv.conf.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew_files(text: &str) {
    let name = text.split_whitespace().next().unwrap_or_default();
    if let Some(address) = in_hosts(text, name) {
        let has = |line: &str| line.split_whitespace().next().is_some_and(|word| word.parse() == Ok(address));
        assert!(text.lines().any(has), "{address} begins no line");
    }
    let servers = name_servers(text);
    assert!(servers.len() <= SERVERS_MAX.min(text.matches("nameserver").count()), "{servers:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_name_servers_are_found_in_their_files() {
        let hosts = "# none\n10.0.0.7\tshop.test shop # shopping\n::1 six\n";
        assert_eq!(in_hosts(hosts, "SHOP"), Some([10, 0, 0, 7].into()));
        assert_eq!((in_hosts(hosts, "shopping"), in_hosts(hosts, "none")), (None, None));
        assert_eq!(name_servers("search x\nnameserver 10.0.0.1\n nameserver ::1\n").len(), 2);
    }

    #[test]
    fn an_answer_gives_its_first_address_behind_aliases() {
        let asked = question("a.test", 7).unwrap();
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
        assert!(question("a..b", 7).is_none() && question(&"x".repeat(64), 7).is_none());
    }

    #[test]
    fn what_is_written_down_as_an_address_is_asked_of_nobody() {
        assert_eq!(address_of("[::1]"), Ok(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(address_of("10.0.0.7"), Ok([10, 0, 0, 7].into()));
        assert_eq!(address_of("LocalHost"), Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
