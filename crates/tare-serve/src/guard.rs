//! Who may ask. A page of another site can have a browser send requests here, and can have its own name resolve to this
//! address; other users of the machine can connect, too. So requests must name this server as their host, come from its
//! own pages, and bring the key that only the printed link holds. The key is the first part of each page's path: a
//! cookie would be sent to whatever listens on another port of this address, too, because cookies know no ports.

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Method, StatusCode};
use std::io::Read;
use tare_core::fault::{Doing, Fault};

/// Where a browser says which page made it ask.
const FETCH_SITE: &str = "sec-fetch-site";
/// And whether it is to be shown by itself.
const FETCH_MODE: &str = "sec-fetch-mode";

/// Bytes of a key.
const KEY_BYTES: usize = 16;

/// The rules of a server.
#[derive(Debug)]
pub(crate) struct Guard {
    port: u16,
    key: String,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) why: &'static str,
}

impl Guard {
    /// With a new key.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub(crate) fn new(port: u16) -> Result<Guard, Fault> {
        let mut bytes = [0; KEY_BYTES];
        let read = std::fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
        read.doing("read /dev/urandom")?;
        Ok(Guard { port, key: bytes.iter().map(|byte| format!("{byte:02x}")).collect() })
    }

    /// The link that lets a browser in.
    pub(crate) fn link(&self) -> String {
        format!("http://127.0.0.1:{}{}/", self.port, self.base())
    }

    /// What all paths begin with.
    pub(crate) fn base(&self) -> String {
        format!("/{}", self.key)
    }

    fn is_key(&self, key: &str) -> bool {
        // As long for a wrong one as for the right one.
        let differing = key.bytes().zip(self.key.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
        key.len() == self.key.len() && differing == 0
    }

    /// Whether a request may be answered at all.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn admit(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        let refuse = |status, why| Err(Refusal { status, why });
        let mut hosts = headers.get_all(HOST).iter();
        let (host, second) = (hosts.next(), hosts.next());
        if second.is_some() || !host.is_some_and(|host| self.is_own(host, "")) {
            return refuse(StatusCode::MISDIRECTED_REQUEST, "this server answers to 127.0.0.1 and localhost only");
        }
        if !headers.get_all(ORIGIN).iter().all(|origin| self.is_own(origin, "http://")) {
            return refuse(StatusCode::FORBIDDEN, "a page of another site asked for this");
        }
        // A link on another site may lead here; its scripts, frames and pictures may not.
        let says = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
        let from_elsewhere = says(FETCH_SITE, "cross-site") || says(FETCH_SITE, "same-site");
        if from_elsewhere && !says(FETCH_MODE, "navigate") {
            return refuse(StatusCode::FORBIDDEN, "a page of another site asked for this");
        }
        match *method {
            Method::GET | Method::HEAD => Ok(()),
            // What changes something is asked for by a page of this server, whose browser says so.
            Method::POST => {
                let says_where = headers.contains_key(ORIGIN);
                let is_here = headers.get(FETCH_SITE).is_none_or(|site| site == "same-origin");
                let why = "only a page of this server may ask for this";
                if says_where && is_here { Ok(()) } else { refuse(StatusCode::FORBIDDEN, why) }
            }
            _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "records are only read here"),
        }
    }

    /// What a path leads to behind the key, such as `/now`; none without the key.
    pub(crate) fn behind_key<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = path.strip_prefix('/')?;
        let (key, page) = path.split_at(path.find('/')?);
        self.is_key(key).then_some(page)
    }

    fn is_own(&self, value: &HeaderValue, before: &str) -> bool {
        let rest = value.to_str().ok().and_then(|value| value.strip_prefix(before));
        let Some((host, port)) = rest.and_then(|rest| rest.rsplit_once(':')) else { return false };
        (host == "127.0.0.1" || host.eq_ignore_ascii_case("localhost")) && port == self.port.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in of {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_its_own_pages_are_answered() {
        let guard = Guard::new(4000).unwrap();
        let status = |method: Method, of: &[(&'static str, &str)]| {
            guard.admit(&method, &headers(of)).err().map(|refusal| refusal.status.as_u16())
        };
        let host = ("host", "127.0.0.1:4000");
        assert_eq!(status(Method::GET, &[host]), None);
        assert_eq!(status(Method::HEAD, &[("host", "LocalHost:4000"), ("origin", "http://localhost:4000")]), None);
        for wrong in ["evil.example:4000", "127.0.0.1", "127.0.0.1:4001", "127.0.0.1:4000.evil.example", "", ":4000"] {
            assert_eq!(status(Method::GET, &[("host", wrong)]), Some(421), "{wrong}");
        }
        assert_eq!(status(Method::GET, &[]), Some(421));
        assert_eq!(status(Method::GET, &[host, host]), Some(421));
        for wrong in ["null", "http://evil.example", "https://127.0.0.1:4000", "http://127.0.0.1:4001"] {
            assert_eq!(status(Method::GET, &[host, ("origin", wrong)]), Some(403), "{wrong}");
        }
        let elsewhere = ("sec-fetch-site", "cross-site");
        assert_eq!(status(Method::GET, &[host, elsewhere, ("sec-fetch-mode", "no-cors")]), Some(403));
        assert_eq!(status(Method::GET, &[host, elsewhere, ("sec-fetch-mode", "navigate")]), None);
        let own = ("origin", "http://127.0.0.1:4000");
        assert_eq!(status(Method::POST, &[host, own, ("sec-fetch-site", "same-origin")]), None);
        assert_eq!(status(Method::POST, &[host, own, elsewhere, ("sec-fetch-mode", "navigate")]), Some(403));
        assert_eq!(status(Method::POST, &[host]), Some(403), "nobody says which page asks");
        assert_eq!(status(Method::POST, &[host, ("origin", "null")]), Some(403));
        assert_eq!(status(Method::PUT, &[host, own]), Some(405));
    }

    #[test]
    fn a_change_must_name_its_origin() {
        let guard = Guard::new(4000).unwrap();
        let may = |of: &[(&'static str, &str)]| guard.admit(&Method::POST, &headers(of)).is_ok();
        let (host, origin) = (("host", "127.0.0.1:4000"), ("origin", "http://127.0.0.1:4000"));
        assert!(may(&[host, origin]) && may(&[host, origin, ("sec-fetch-site", "same-origin")]));
        assert!(!may(&[host]) && !may(&[origin]) && !may(&[host, ("origin", "null")]));
        for site in ["cross-site", "same-site", "none"] {
            assert!(!may(&[host, origin, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")]), "{site}");
        }
    }

    #[test]
    fn every_path_begins_with_the_key() {
        let guard = Guard::new(4000).unwrap();
        let base = guard.base();
        assert_eq!(guard.link(), format!("http://127.0.0.1:4000{base}/"));
        for page in ["/", "/now", "/run/a/b", "//"] {
            assert_eq!(guard.behind_key(&format!("{base}{page}")), Some(page));
        }
        let twice = format!("/{base}/");
        let (whole, bare, part) = (base.as_str(), &base[1..], &base[..9]);
        let wrong = ["/", "", "/now", "*", "//", whole, bare, part, twice.as_str(), "/\u{e4}/"];
        assert!(wrong.into_iter().all(|path| guard.behind_key(path).is_none()));
        assert!(guard.behind_key(&format!("{}/", &base[..9])).is_none() && Guard::new(4000).unwrap().base() != base);
    }
}
