//! A user's cookies (RFC 6265), for the one host that is loaded: Domain is ignored.

use super::date;

/// The most cookies that one user keeps; the oldest is dropped.
const COOKIES_MAX: usize = 50;
/// Longer ones are not kept: 4 KiB.
const COOKIE_MAX: usize = 4096;

/// A cookie: a few words of memory, and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    /// `name=value`, as it is sent.
    pair: Box<[u8]>,
    name: u16,
    path: Box<[u8]>,
    secure: bool,
    /// Of two cookies, the one with the smaller number came first.
    number: u64,
    /// When it expires; CLOCK_MONOTONIC, s.
    until_s: u64,
}

impl Cookie {
    fn name(&self) -> &[u8] {
        &self.pair[..usize::from(self.name)]
    }
}

/// When a cookie arrives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// CLOCK_MONOTONIC, s.
    pub now_s: u64,
    /// The time of day relative to which dates are read, s since 1970: the server's own if it sent one.
    pub unix_s: i64,
}

/// The cookies of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Jar(Vec<Cookie>);

impl Jar {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a cookie.
    pub(super) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let cookie = self.0.iter().find(|cookie| cookie.name() == name)?;
        Some(&cookie.pair[name.len() + 1..])
    }

    /// Stores, changes or deletes a cookie as a Set-Cookie header on a reply for `path` says. Invalid ones are ignored.
    pub(super) fn set(&mut self, header: &[u8], path: &[u8], moment: Moment) {
        let mut parts = header.split(|byte| *byte == b';');
        let Some((name, value)) = parts.next().and_then(halves) else { return };
        if name.is_empty()
            || name.len() + value.len() >= COOKIE_MAX
            || [name, value].concat().iter().any(u8::is_ascii_control)
        {
            return;
        }
        let mut cookie = Cookie {
            pair: [name, b"=", value].concat().into_boxed_slice(),
            name: name.len() as u16,
            path: folder(path).into(),
            secure: false,
            number: self.0.iter().map(|other| other.number + 1).max().unwrap_or(0),
            until_s: u64::MAX,
        };
        let mut aged = false;
        for part in parts {
            let (key, value) = halves(part).unwrap_or((part.trim_ascii(), b""));
            if key.eq_ignore_ascii_case(b"path") && value.first() == Some(&b'/') {
                cookie.path = value.into();
            } else if key.eq_ignore_ascii_case(b"secure") {
                cookie.secure = true;
            } else if key.eq_ignore_ascii_case(b"max-age") {
                // It takes precedence over Expires, wherever it is.
                if let Some(age) = std::str::from_utf8(value).ok().and_then(|text| text.parse::<i64>().ok()) {
                    cookie.until_s = until(moment, age);
                    aged = true;
                }
            } else if let (true, Some(date)) = (key.eq_ignore_ascii_case(b"expires") && !aged, date::parse(value)) {
                cookie.until_s = until(moment, date - moment.unix_s);
            }
        }
        self.0.retain(|other| other.name() != cookie.name() || other.path != cookie.path);
        if cookie.until_s > moment.now_s {
            if self.0.len() == COOKIES_MAX {
                let oldest = self.0.iter().map(|other| other.number).min();
                self.0.retain(|other| Some(other.number) != oldest);
            }
            self.0.push(cookie);
            // The longest path comes first.
            self.0.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        }
    }

    /// Appends the header line for a request for `path`; nothing if there are no cookies to send.
    pub(super) fn write(&mut self, path: &[u8], secure: bool, now_s: u64, out: &mut Vec<u8>) {
        self.0.retain(|cookie| cookie.until_s > now_s);
        let mut first = true;
        for cookie in self.0.iter().filter(|cookie| (secure || !cookie.secure) && covers(&cookie.path, path)) {
            out.extend_from_slice(if first { b"Cookie: " } else { b"; " });
            out.extend_from_slice(&cookie.pair);
            first = false;
        }
        if !first {
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn until(moment: Moment, age: i64) -> u64 {
    moment.now_s.saturating_add_signed(age.max(0))
}

/// `a = b` as (a, b).
fn halves(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = part.iter().position(|byte| *byte == b'=')?;
    Some((part[..at].trim_ascii(), part[at + 1..].trim_ascii()))
}

/// The part of a path before its query.
pub(super) fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

/// The default path of a cookie: up to the last slash.
fn folder(path: &[u8]) -> &[u8] {
    let path = without_query(path);
    match path.iter().rposition(|byte| *byte == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

fn covers(folder: &[u8], path: &[u8]) -> bool {
    let path = without_query(path);
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || folder.last() == Some(&b'/') || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const THEN: Moment = Moment { now_s: 1000, unix_s: 784_111_777 };

    fn sent(jar: &mut Jar, path: &str, secure: bool, now_s: u64) -> String {
        let mut out = Vec::new();
        jar.write(path.as_bytes(), secure, now_s, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn jar(headers: &[&str], path: &str) -> Jar {
        let mut jar = Jar::default();
        headers.iter().for_each(|header| jar.set(header.as_bytes(), path.as_bytes(), THEN));
        jar
    }

    #[test]
    fn cookies_go_back_to_their_paths() {
        let mut kept =
            jar(&["a=1; Path=/", "b=2", "c=3; path=/shop/deep; Secure", "d=4; HttpOnly; Path="], "/shop/x?y=/z");
        assert_eq!(sent(&mut kept, "/shop", false, 1000), "Cookie: b=2; d=4; a=1\r\n");
        assert_eq!(sent(&mut kept, "/shop/deep?x", true, 1000), "Cookie: c=3; b=2; d=4; a=1\r\n");
        assert_eq!(sent(&mut kept, "/shopping", false, 1000), "Cookie: a=1\r\n");
        assert_eq!(sent(&mut jar(&[], "/"), "/", false, 1000), "");
        assert_eq!(kept.value(b"b"), Some(b"2".as_slice()));
        assert_eq!(kept.value(b"x"), None);
    }

    #[test]
    fn cookies_end() {
        let mut kept = jar(
            &[
                "a=1; Max-Age=10; Expires=Sun, 06 Nov 1990 08:49:37 GMT",
                "b=2; Expires=Sun, 06 Nov 1994 08:49:57 GMT",
                "c=3; Max-Age=x",
                "d=4",
            ],
            "/",
        );
        assert_eq!(sent(&mut kept, "/", false, 1009), "Cookie: a=1; b=2; c=3; d=4\r\n");
        assert_eq!(sent(&mut kept, "/", false, 1019), "Cookie: b=2; c=3; d=4\r\n");
        kept.set(b"d=; Max-Age=0", b"/", THEN);
        kept.set(b"c=5; Expires=Thu, 01-Jan-1970 00:00:00 GMT", b"/", THEN);
        assert_eq!(sent(&mut kept, "/", false, 1020), "");
        assert!(kept.is_empty());
    }

    #[test]
    fn a_later_value_replaces_an_earlier_one() {
        assert_eq!(sent(&mut jar(&["a=1", "b=2", "a=3"], "/"), "/", false, 0), "Cookie: b=2; a=3\r\n");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let long = format!("a={}", "x".repeat(COOKIE_MAX));
        assert!(jar(&[&long, "=x", "no cookie", ""], "/").is_empty());
        let many: Vec<String> = (0..200).map(|number| format!("n{number}={number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(jar(&many, "/").0.len(), COOKIES_MAX);
        // The oldest is dropped, not the one with the longest path.
        let mut kept = jar(&many[..COOKIES_MAX], "/");
        kept.set(b"deep=1; Path=/a/b/c", b"/", THEN);
        kept.set(b"last=1", b"/", THEN);
        let gone = ["n0", "n1"].map(|name| kept.value(name.as_bytes()).is_none());
        assert!(gone == [true, true] && kept.value(b"deep").is_some() && kept.value(b"last").is_some());
    }

    proptest! {
        #[test]
        fn anything_else_is_no_panic_and_no_second_line(text in "[ -~\r\n]{0,60}") {
            let mut kept = jar(&[&text], "/");
            let line = sent(&mut kept, "/", true, 0);
            prop_assert!(line.is_empty() || line.find("\r\n") == Some(line.len() - 2));
        }
    }
}
