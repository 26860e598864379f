//! A request and its expected reply, in their written form.

use serde::{Deserialize, Serialize};

/// Bytes written as text: printable ASCII unchanged, everything else as `\r`, `\n`, `\t`, `\0`, `\\` or `\x41`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Bytes(pub Vec<u8>);

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> String {
        let show = |byte: &u8| match byte {
            b'\\' => "\\\\".to_owned(),
            b'\r' => "\\r".to_owned(),
            b'\n' => "\\n".to_owned(),
            b' '..=b'~' => char::from(*byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        };
        bytes.0.iter().map(show).collect()
    }
}

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            rest = tail;
            if *first != b'\\' {
                bytes.push(*first);
                continue;
            }
            let Some((kind, tail)) = rest.split_first() else { return Err("the text ends in a single '\\'".into()) };
            rest = tail;
            bytes.push(match kind {
                b'r' => b'\r',
                b'n' => b'\n',
                b't' => b'\t',
                b'0' => 0,
                b'\\' => b'\\',
                b'x' => {
                    let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
                    let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                    rest = rest.get(2..).unwrap_or_default();
                    byte.ok_or("after '\\x' two hexadecimal digits are wanted")?
                }
                other => return Err(format!("'\\{}' means nothing here", char::from(*other).escape_default())),
            });
        }
        Ok(Bytes(bytes))
    }
}

/// How a reply ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Until {
    /// With this text.
    Until(Bytes),
    /// After this many bytes; with 0, the operation is only a send and is done once the kernel has accepted it.
    Bytes(u64),
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sent {
    /// These bytes.
    Text(Bytes),
    /// This many bytes of filler; with 0, the operation only receives.
    Filler(u64),
}

/// A request and its expected reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exchange {
    /// The operation's name in the record.
    pub name: String,
    /// How often it is drawn, relative to the others' weights.
    pub weight: u64,
    /// What is sent.
    pub request: Sent,
    /// How the reply ends.
    pub reply: Until,
    /// A text that must be in the reply.
    pub expect: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_survive_being_written_down(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let text = String::from(Bytes(bytes.clone()));
            prop_assert_eq!(Bytes::try_from(text).unwrap().0, bytes);
        }
    }
}
