//! Where a Location leads (RFC 3986, 5.2), as long as it stays on the host that is loaded.

/// The path and query to ask for next, or none if it leads elsewhere. `hosts` are the names of this host, with and
/// without port; `path` is the path just requested.
pub(super) fn resolve(location: &[u8], path: &[u8], secure: bool, hosts: &[String]) -> Option<Vec<u8>> {
    let location = location.trim_ascii();
    let location = location.split(|byte| *byte == b'#').next().unwrap_or_default();
    if location.iter().any(|byte| !byte.is_ascii_graphic()) {
        return None;
    }
    let scheme = if secure { b"https:".as_slice() } else { b"http:" };
    let location = match location.iter().position(|byte| matches!(byte, b':' | b'/' | b'?')) {
        Some(at) if location[at] == b':' => {
            let (given, rest) = location.split_at(at + 1);
            if !given.eq_ignore_ascii_case(scheme) || !rest.starts_with(b"//") {
                return None;
            }
            rest
        }
        _ => location,
    };
    if let Some(rest) = location.strip_prefix(b"//") {
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (host, rest) = rest.split_at(end);
        if !hosts.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(host)) {
            return None;
        }
        return Some(if rest.first() == Some(&b'/') { tidy(rest) } else { [b"/", rest].concat() });
    }
    let query = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    Some(match location.first() {
        None => path.to_vec(),
        Some(b'/') => tidy(location),
        Some(b'?') => [&path[..query], location].concat(),
        Some(_) => {
            let folder = path[..query].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
            tidy(&[&path[..folder], location].concat())
        }
    })
}

/// Removes `.` and `..` from a path.
fn tidy(path: &[u8]) -> Vec<u8> {
    let end = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    let (path, query) = path.split_at(end);
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut parts = path.split(|byte| *byte == b'/').skip(1).peekable();
    while let Some(part) = parts.next() {
        let dots = matches!(part, b"." | b"..");
        if part == b".." {
            kept.pop();
        }
        match (dots, parts.peek().is_none()) {
            (false, _) => kept.push(part),
            (true, true) => kept.push(b""),
            (true, false) => {}
        }
    }
    [b"/", kept.join(b"/".as_slice()).as_slice(), query].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leads(location: &str) -> Option<String> {
        let hosts = ["shop.test".to_owned(), "127.0.0.1:8080".to_owned()];
        let path = resolve(location.as_bytes(), b"/a/b?c=/d", true, &hosts)?;
        Some(String::from_utf8(path).unwrap())
    }

    #[test]
    fn places_on_the_same_host_are_found() {
        for (location, path) in [
            ("/x?y", "/x?y"),
            ("x", "/a/x"),
            ("?z", "/a/b?z"),
            ("../x/./y", "/x/y"),
            ("/x/../../y/..", "/"),
            ("x/.", "/a/x/"),
            ("https://shop.test/x", "/x"),
            ("HTTPS://Shop.Test?x", "/?x"),
            ("//127.0.0.1:8080", "/"),
            ("/x#part", "/x"),
            ("x:y/z", ""),
            ("x/y:z", "/a/x/y:z"),
            ("", "/a/b?c=/d"),
            ("/x?y=../z", "/x?y=../z"),
        ] {
            assert_eq!(leads(location).unwrap_or_default(), path, "{location}");
        }
    }

    #[test]
    fn other_places_are_not_followed() {
        for location in
            ["http://shop.test/x", "https://other.test/", "//other.test/x", "mailto:x@y", "/a b", "/x\r\nA: b"]
        {
            assert_eq!(leads(location), None, "{location}");
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_a_path(location in "[a-z./?:#]{0,20}") {
            if let Some(path) = leads(&location) {
                prop_assert!(path.starts_with('/'), "{}", path);
                prop_assert!(!path.split('?').next().unwrap().split('/').any(|part| part == ".."), "{}", path);
            }
        }
    }
}
