//! Texts with placeholders for values.

use super::feed::Feeds;
use super::number::write_number;
use super::spec::FeedId;
use super::values::{Names, Slot, ValueRef, Values};
use tare_core::config::{Node, Problems};

/// How a value is changed when it is written; the text around it is never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Unchanged.
    None,
    /// For a URL or a form: everything except letters, digits and `-._~` as `%41` (RFC 3986, 2.3).
    Url,
    /// For the inside of a JSON string (RFC 8259, 7).
    Json,
}

/// A text with placeholders for values, compiled. `${name}` is a variable or a feed, `${feed.column}` a column of a
/// table, `${name:06}` a number with at least six digits, and `$${` stands for `${`. Any other `$` is itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    // Each placeholder, with the end of the bytes before it.
    places: Vec<Place>,
    feeds: Box<[FeedId]>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    before: usize,
    slot: Slot,
    width: u8,
}

/// A part of a template as written.
enum Part<'t> {
    Text(&'t str),
    Place { name: &'t str, width: u8 },
}

/// Splits a text at its placeholders.
fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            // In `$${` the first character is dropped, and what follows is no placeholder.
            parts.push(Part::Text(&rest[..at - 1]));
            parts.push(Part::Text("${"));
            rest = &rest[at + 2..];
            continue;
        }
        parts.push(Part::Text(&rest[..at]));
        let inside = &rest[at + 2..];
        let end = inside.find('}').ok_or("a '${' has no '}'")?;
        parts.push(place(&inside[..end])?);
        rest = &inside[end + 1..];
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

fn place(inside: &str) -> Result<Part<'_>, String> {
    let Some((name, width)) = inside.split_once(':') else { return Ok(Part::Place { name: inside, width: 0 }) };
    let digits = width.strip_prefix('0').and_then(|digits| digits.parse().ok());
    let width = digits.filter(|digits| (1..=20).contains(digits));
    let width = width.ok_or_else(|| format!("in '${{{inside}}}' a width from 01 to 020 is wanted behind the colon"))?;
    Ok(Part::Place { name, width })
}

impl Template {
    /// Compiles a text.
    ///
    /// # Errors
    /// What is wrong with it: an unknown name, a placeholder without an end.
    pub(crate) fn compile(text: &str, names: &Names) -> Result<Template, String> {
        let mut template = Template::default();
        let mut feeds = Vec::new();
        for part in parts(text)? {
            match part {
                Part::Text(text) => template.bytes.extend_from_slice(text.as_bytes()),
                Part::Place { name, width } => {
                    let slot = names.slot(name).ok_or_else(|| unknown(name, names))?;
                    feeds.extend(names.feed(name));
                    template.places.push(Place { before: template.bytes.len(), slot, width });
                }
            }
        }
        feeds.sort_unstable();
        feeds.dedup();
        template.feeds = feeds.into();
        Ok(template)
    }

    /// Appends another template: this one's text is followed by the other's.
    pub(crate) fn append(&mut self, other: Template) {
        let before = self.bytes.len();
        self.bytes.extend(other.bytes);
        self.places.extend(other.places.into_iter().map(|place| Place { before: before + place.before, ..place }));
        let mut feeds: Vec<_> = self.feeds.iter().chain(&other.feeds).copied().collect();
        feeds.sort_unstable();
        feeds.dedup();
        self.feeds = feeds.into();
    }

    /// Appends bytes unchanged, in which nothing is a placeholder.
    pub(crate) fn append_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Reads a text from a user's file, checks it, and returns it as written.
    pub(crate) fn read(node: &Node, names: &Names, problems: &mut Problems) -> Option<String> {
        let text = node.text(problems)?;
        Template::check(&text, node, names, problems).then_some(text)
    }

    /// Checks a text found at `node`; adds a problem unless it compiles.
    pub(crate) fn check(text: &str, node: &Node, names: &Names, problems: &mut Problems) -> bool {
        let compiled = Template::compile(text, names);
        if let Err(message) = &compiled {
            problems.add(node.place, message, "${name} is a value; write $${ for the characters themselves");
        }
        compiled.is_ok()
    }

    /// The feeds that fill its placeholders, each once, in order.
    pub(crate) fn feeds(&self) -> &[FeedId] {
        &self.feeds
    }

    /// The text, if it has no placeholders.
    pub(crate) fn fixed(&self) -> Option<&[u8]> {
        self.places.is_empty().then_some(&self.bytes)
    }

    /// The variable, if the template consists of one placeholder without a width.
    pub(crate) fn only(&self) -> Option<Slot> {
        match self.places[..] {
            [Place { slot, width: 0, .. }] if self.bytes.is_empty() => Some(slot),
            _ => None,
        }
    }

    /// Whether it has a placeholder for a variable.
    pub(crate) fn uses(&self, slot: Option<Slot>) -> bool {
        self.places.iter().any(|place| Some(place.slot) == slot)
    }

    /// Appends the text with its values; returns `false` if one of them was never set and so was left out.
    #[inline]
    pub(crate) fn write(&self, values: &Values, feeds: &Feeds, escape: Escape, out: &mut Vec<u8>) -> bool {
        let (mut at, mut complete) = (0, true);
        for place in &self.places {
            out.extend_from_slice(&self.bytes[at..place.before]);
            at = place.before;
            match values.get(place.slot, feeds.texts()) {
                ValueRef::Number(number) => write_number(number, place.width, out),
                ValueRef::Text(text) => escape.write(text, out),
                ValueRef::Unset => complete = false,
            }
        }
        out.extend_from_slice(&self.bytes[at..]);
        complete
    }
}

fn unknown(name: &str, names: &Names) -> String {
    let known = names.known();
    if known.is_empty() {
        return format!("'${{{name}}}' is no value; no feed or capture is declared");
    }
    format!("'${{{name}}}' is no value; there are {}", known.join(", "))
}

/// The feeds of several templates, and further ones, each once, in order.
pub(crate) fn union<'t>(
    templates: impl IntoIterator<Item = &'t Template>,
    others: impl IntoIterator<Item = FeedId>,
) -> Box<[FeedId]> {
    let templates = templates.into_iter().flat_map(|template| template.feeds.iter().copied());
    let mut feeds: Vec<FeedId> = templates.chain(others).collect();
    feeds.sort_unstable();
    feeds.dedup();
    feeds.into()
}

impl Escape {
    /// Appends a value.
    pub(crate) fn write(self, value: &[u8], out: &mut Vec<u8>) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        let hex = |byte: u8| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
        match self {
            Escape::None => out.extend_from_slice(value),
            Escape::Url => value.iter().for_each(|byte| match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
                byte => {
                    out.push(b'%');
                    out.extend(hex(*byte));
                }
            }),
            Escape::Json => value.iter().for_each(|byte| match byte {
                b'"' | b'\\' => out.extend([b'\\', *byte]),
                b'\n' => out.extend(b"\\n"),
                0..=0x1f => {
                    out.extend(b"\\u00");
                    out.extend(hex(*byte));
                }
                byte => out.push(*byte),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::spec::FeedSpecs;
    use super::*;
    use proptest::prelude::*;

    fn names() -> Names {
        let mut names = Names::default();
        names.declare("word").unwrap();
        names.declare("number").unwrap();
        names
    }

    fn written(text: &str, word: &str, escape: Escape) -> Result<String, String> {
        let names = names();
        let template = Template::compile(text, &names)?;
        let feeds = Feeds::new(&FeedSpecs::default());
        let mut values = Values::new(&names);
        values.text_mut(names.slot("word").unwrap()).extend_from_slice(word.as_bytes());
        values.set_number(names.slot("number").unwrap(), 42);
        let mut out = Vec::new();
        assert!(template.write(&values, &feeds, escape, &mut out), "every variable has a value");
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_stand_in_their_places() {
        let plain = |text: &str| written(text, "w", Escape::None).unwrap();
        assert_eq!(plain("a${word}b${number}"), "awb42");
        assert_eq!(plain("${word}${number:06}${word}"), "w000042w");
        assert_eq!(plain("$ $$ $a {} $${word} $"), "$ $$ $a {} ${word} $");
        assert_eq!(plain(""), "");
    }

    #[test]
    fn values_are_escaped_and_the_text_around_is_not() {
        assert_eq!(written("?q=${word}&", "a b&é~", Escape::Url).unwrap(), "?q=a%20b%26%C3%A9~&");
        assert_eq!(written("\"${word}\"", "a\"\\\n\u{1}", Escape::Json).unwrap(), "\"a\\\"\\\\\\n\\u0001\"");
    }

    #[test]
    fn mistakes_are_named() {
        let why = |text| written(text, "", Escape::None).unwrap_err();
        assert!(why("${wodr}").contains("'${wodr}' is no value; there are number, word"));
        assert!(why("a ${word").contains("no '}'"));
        for width in ["${number:6}", "${number:}", "${number:021}", "${number:00}", "${number:0x}"] {
            assert!(why(width).contains("a width"), "{width}");
        }
    }

    #[test]
    fn a_value_that_was_never_set_is_told() {
        let names = names();
        let template = Template::compile("<${word}>", &names).unwrap();
        let mut out = Vec::new();
        let feeds = Feeds::new(&FeedSpecs::default());
        assert!(!template.write(&Values::new(&names), &feeds, Escape::None, &mut out));
        assert_eq!(out, b"<>");
        assert_eq!(template.fixed(), None);
    }

    proptest! {
        #[test]
        fn json_escapes_are_read_back(word in any::<String>()) {
            let json = written("\"${word}\"", &word, Escape::Json).unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), word);
        }

        #[test]
        fn any_text_compiles_or_is_refused(text in "[a${}:0w]{0,12}") {
            let _ = Template::compile(&text, &names());
        }

        #[test]
        fn a_text_without_places_is_itself(text in "[^$]{0,20}") {
            let template = Template::compile(&text, &names()).unwrap();
            prop_assert_eq!(template.fixed(), Some(text.as_bytes()));
        }
    }
}
