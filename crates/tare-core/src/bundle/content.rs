//! What a file of a recipe holds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// What a file holds. It is written as a text, or as `{base64: ...}` if it is none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Content(Vec<u8>);

/// How a content is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Coded { base64: String },
}

impl Content {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// It as a text, if it is one.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Content {
        Content(bytes)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content(text.into_bytes())
    }
}

impl TryFrom<Written> for Content {
    type Error = base64::DecodeError;

    fn try_from(written: Written) -> Result<Content, base64::DecodeError> {
        match written {
            Written::Text(text) => Ok(Content::from(text)),
            Written::Coded { base64 } => STANDARD.decode(base64).map(Content),
        }
    }
}

impl From<Content> for Written {
    fn from(content: Content) -> Written {
        match String::from_utf8(content.0) {
            Ok(text) => Written::Text(text),
            Err(other) => Written::Coded { base64: STANDARD.encode(other.as_bytes()) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_as_they_are_and_bytes_come_back() {
        let text = Content::from("a: ä\n".to_owned());
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""a: ä\n""#);
        let bytes = Content::from(vec![0xff, 0, b'x']);
        let written = serde_json::to_string(&bytes).unwrap();
        assert_eq!(written, r#"{"base64":"/wB4"}"#);
        for content in [text, bytes] {
            let written = serde_json::to_string(&content).unwrap();
            assert_eq!(serde_json::from_str::<Content>(&written).unwrap(), content);
        }
        assert!(serde_json::from_str::<Content>(r#"{"base64":"?"}"#).is_err());
    }
}
