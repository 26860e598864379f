//! Names of other services in texts: where a name and its port stand together, a reference to the address can stand in
//! their place.

use crate::known::port_of_scheme;
use std::collections::BTreeSet;
use std::ops::Range;

/// A name of a service that was found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Where in the text, with the port.
    pub(crate) range: Range<usize>,
    /// The name.
    pub(crate) name: String,
    /// The port that is meant, if it can be told.
    pub(crate) port: Option<u16>,
    /// Whether the place allows no other meaning than an address.
    pub(crate) sure: bool,
}

/// The names in a text that stand where an address does. `is_name` says which words are names.
pub(crate) fn find(text: &str, is_name: &dyn Fn(&str) -> bool) -> Vec<Mention> {
    let mut found = Vec::new();
    for word in words(text) {
        let name = &text[word.clone()];
        if is_name(name) {
            found.extend(mention(text, word));
        }
    }
    found
}

/// The words of a text that may be names of hosts.
pub(crate) fn words_in(text: &str) -> BTreeSet<&str> {
    words(text).into_iter().map(|range| &text[range]).collect()
}

/// What hosts' names may be made of.
fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// Where these words stand.
fn words(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    for (at, c) in text.char_indices().filter(|(_, c)| in_name(*c)) {
        match words.last_mut() {
            Some(word) if word.end == at => word.end = at + c.len_utf8(),
            _ => words.push(at..at + c.len_utf8()),
        }
    }
    words
}

fn mention(text: &str, word: Range<usize>) -> Option<Mention> {
    let (before, behind) = (&text[..word.start], &text[word.end..]);
    let name = text[word.clone()].to_owned();
    let in_url = before.ends_with("//") || is_further_host(before);
    if in_url {
        let end = behind.find(|c: char| "/?#,;\"'".contains(c) || c.is_whitespace()).unwrap_or(behind.len());
        // It is the user.
        if behind[..end].contains('@') {
            return None;
        }
    }
    let behind_user = before.ends_with('@') && before.contains("://");
    let sure = in_url || behind_user;
    if let Some((port, length)) = port(behind) {
        let begins = before.chars().next_back().is_none_or(|c| ",=( \"'[;@\n\t".contains(c));
        let whole = word.start == 0 && word.end + length == text.len();
        let sure = sure || whole || is_listed(before, &behind[length..]);
        let range = word.start..word.end + length;
        return (sure || begins).then_some(Mention { range, name, port: Some(port), sure });
    }
    if sure && !behind.starts_with(':') {
        return Some(Mention { range: word, name, port: scheme(before).and_then(port_of_scheme), sure });
    }
    None
}

/// Whether a URL that names several hosts ends here, before one of them: `mongodb://a,`.
fn is_further_host(before: &str) -> bool {
    let Some((_, hosts)) = before.strip_suffix(',').and_then(|before| before.rsplit_once("://")) else { return false };
    !hosts.contains(|c: char| "/?#;\"'".contains(c) || c.is_whitespace())
}

/// Whether an address is an item of a list, such as `a:9092,b:9092` or `1@a:9093,2@b:9093`.
fn is_listed(before: &str, behind: &str) -> bool {
    let item = before.strip_suffix('@').map(|before| before.trim_end_matches(|c: char| c.is_ascii_alphanumeric()));
    let before = item.unwrap_or(before);
    let begins = before.is_empty() || before.ends_with(|c: char| ",=( \"'[;\n\t".contains(c));
    begins && (before.trim_end().ends_with(',') || behind.trim_start().starts_with(','))
}

/// The port behind a name, and how long it is with its colon.
fn port(behind: &str) -> Option<(u16, usize)> {
    let rest = behind.strip_prefix(':')?;
    let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    if rest[length..].starts_with(|c: char| in_name(c) && c != '.' || c == '@' || c == ':') {
        return None;
    }
    let port: u16 = rest[..length].parse().ok().filter(|port| *port > 0)?;
    Some((port, length + 1))
}

/// The scheme of the URL that a text ends in.
fn scheme(before: &str) -> Option<&str> {
    let (before, _) = before.rsplit_once("://")?;
    let start = before
        .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '+')
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    Some(&before[start..])
}

/// Whether a variable of this name holds the name of a host.
pub(crate) fn names_host(variable: &str) -> bool {
    const HINTS: [&str; 10] =
        ["HOST", "ADDR", "SERVER", "URL", "URI", "ENDPOINT", "BROKER", "BACKEND", "UPSTREAM", "PRIMARY"];
    let variable = variable.to_ascii_uppercase();
    HINTS.iter().any(|hint| variable.contains(hint))
}

/// Whether the last word of a command, or an argument itself, holds the name of a host: `-h db`, `--host=db`.
pub(crate) fn is_host_argument(last: Option<&str>, argument: &str, name: &str) -> bool {
    let is_flag = |word: &str| word == "-h" || word == "-H" || word.to_ascii_lowercase().ends_with("host");
    match argument.split_once('=') {
        Some((flag, value)) => value == name && flag.starts_with('-') && is_flag(flag),
        None => argument == name && last.is_some_and(|last| last.starts_with('-') && is_flag(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<(String, Option<u16>, bool)> {
        let mentions = find(text, &|name| ["db", "cache", "web-1"].contains(&name));
        mentions.into_iter().map(|one| (text[one.range].to_owned(), one.port, one.sure)).collect()
    }

    fn one(text: &str, range: &str, port: Option<u16>, sure: bool) {
        assert_eq!(found(text), [(range.to_owned(), port, sure)], "{text}");
    }

    #[test]
    fn addresses_are_found_where_they_stand() {
        one("redis://cache:6379/0", "cache:6379", Some(6379), true);
        one("redis://cache/0", "cache", Some(6379), true);
        one("postgres://db:secret@db/db", "db", Some(5432), true);
        one("postgresql+psycopg://u:p@db:5433/x", "db:5433", Some(5433), true);
        one("db:5432", "db:5432", Some(5432), true);
        one("u:p@tcp(db:3306)/x", "db:3306", Some(3306), false);
        one("wait-for db:5432 -- run", "db:5432", Some(5432), false);
        one("http://web-1", "web-1", Some(80), true);
        one("weird://db/x", "db", None, true);
        one("jdbc:mysql://db/x", "db", Some(3306), true);
    }

    #[test]
    fn each_address_of_a_list_is_one() {
        let cases = [
            ("cache:29092,db:29092", ["cache:29092", "db:29092"], [29092_u16, 29092]),
            ("--brokers=cache:1, db:2", ["cache:1", "db:2"], [1, 2]),
            ("1@cache:9093,2@db:9093", ["cache:9093", "db:9093"], [9093, 9093]),
            ("mongodb://u:p@cache:1,db:2/x", ["cache:1", "db:2"], [1, 2]),
            ("mongodb://cache,db/x", ["cache", "db"], [27017, 27017]),
        ];
        for (text, names, ports) in cases {
            let wanted = [0, 1].map(|at: usize| (names[at].to_owned(), Some(ports[at]), true));
            assert_eq!(found(text), wanted, "{text}");
        }
        one("wait-for cache:1 -- run", "cache:1", Some(1), false);
        one("user@db:1521/XE", "db:1521", Some(1521), false);
    }

    #[test]
    fn other_words_are_left_alone() {
        let others = ["db", "my-db:5432", "db.example:5432", "x/db:1", "db:1a", "db:99999", "postgres://db:1@h/x"];
        for text in others {
            assert!(found(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn hosts_are_told_by_what_stands_beside_them() {
        assert!(names_host("DB_HOST") && names_host("redis_url") && !names_host("POSTGRES_DB"));
        assert!(is_host_argument(Some("-h"), "db", "db") && is_host_argument(None, "--host=db", "db"));
        assert!(!is_host_argument(Some("--queue"), "db", "db") && !is_host_argument(None, "db", "db"));
    }

    proptest! {
        #[test]
        fn what_is_found_lies_in_the_text(text in "(db|cache|:|/|@|[a-z0-9é]| |=|//|5432){0,20}") {
            for mention in find(&text, &|name| name == "db" || name == "cache") {
                prop_assert!(text[mention.range].starts_with(&mention.name));
            }
        }
    }
}
