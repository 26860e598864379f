//! What an address asks for.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What is written plainly in an address.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What scripts add to an address, and links do not have.
const OF_SCRIPTS: [&str; 3] = ["part", "again", "chosen"];

/// The parameters of an address, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads what is behind the question mark.
    pub(crate) fn of(text: Option<&str>) -> Query {
        let pairs = form_urlencoded::parse(text.unwrap_or_default().as_bytes());
        // What is typed may have blanks around it; so may the name of a record, whose own they are.
        let value = |name: &str, value: &str| if name == "run" { value.to_owned() } else { value.trim().to_owned() };
        Query(pairs.map(|(name, of)| (name.to_string(), value(&name, &of))).collect())
    }

    /// The first parameter of this name, unless it is empty.
    pub(crate) fn one<'a>(&'a self, name: &str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// All of this name that are not empty.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// The same parameters, but this one with another value, as an address has them.
    pub(crate) fn with(&self, name: &str, value: &str) -> String {
        let others = self
            .0
            .iter()
            .filter(|(key, value)| key != name && !OF_SCRIPTS.contains(&key.as_str()) && !value.is_empty());
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(others.map(|(key, value)| (key, value)));
        text.append_pair(name, value);
        text.finish()
    }

    /// All parameters that are not empty, as an address has them.
    pub(crate) fn whole(&self) -> String {
        let all = self.0.iter().filter(|(key, value)| !OF_SCRIPTS.contains(&key.as_str()) && !value.is_empty());
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(all.map(|(key, value)| (key, value)));
        text.finish()
    }
}

/// A name as part of an address.
pub(crate) fn encoded(name: &str) -> String {
    utf8_percent_encode(name, PLAIN).to_string()
}

/// The name that part of an address stands for; none if that is not UTF-8.
pub(crate) fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(|name| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_an_address() {
        for name in ["2026-cost/memory", "a b&c=d?e#f%2e", "\u{e4}<script>\"'"] {
            assert_eq!(decoded(&encoded(name)).as_deref(), Some(name));
        }
        assert_eq!(decoded("%ff"), None);
    }

    #[test]
    fn a_parameter_is_replaced_and_empty_ones_are_left_out() {
        let query = Query::of(Some("q=a+b%26&page=2&study=&run=x&run=y"));
        assert_eq!(query.one("q"), Some("a b&"));
        assert_eq!(query.one("study"), None);
        assert_eq!(
            Query::of(Some("q=+a+&run=+b+")),
            Query(vec![("q".into(), "a".into()), ("run".into(), " b ".into())])
        );
        assert_eq!(query.all("run").collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(query.with("page", "3"), "q=a+b%26&run=x&run=y&page=3");
        assert_eq!(query.whole(), "q=a+b%26&page=2&run=x&run=y");
    }
}
