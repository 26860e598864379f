//! The name of an OCI runtime, or of a user, as a study states it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest name, bytes.
const MOST: usize = 63;

/// The name of an OCI runtime, or `auto` for the one that is used unless somebody asks for another. It holds its own
/// letters, so that a layer's options stay a plain value that is copied from rung to rung.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct RuntimeName {
    letters: [u8; MOST],
    length: usize,
}

impl RuntimeName {
    /// No runtime in particular.
    pub(crate) const AUTO: RuntimeName = RuntimeName::of("auto");

    const fn of(name: &str) -> RuntimeName {
        let (bytes, mut letters, mut at) = (name.as_bytes(), [0; MOST], 0);
        while at < bytes.len() {
            letters[at] = bytes[at];
            at += 1;
        }
        RuntimeName { letters, length: bytes.len() }
    }

    /// The runtime of this name; `None` if no runtime can have it: it becomes an argument of programs and a part of
    /// their names.
    pub(crate) fn parse(name: &str) -> Option<RuntimeName> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        (begins && name.len() <= MOST && name.bytes().all(fits)).then(|| RuntimeName::of(name))
    }

    /// The name as written.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.letters[..self.length]).expect("only letters of ASCII are taken")
    }

    /// Whether no one in particular was asked for.
    pub(crate) fn is_auto(&self) -> bool {
        *self == RuntimeName::AUTO
    }

    /// The name, if a runtime was asked for.
    pub(crate) fn named(&self) -> Option<&str> {
        (*self != RuntimeName::AUTO).then(|| self.as_str())
    }
}

impl Default for RuntimeName {
    fn default() -> Self {
        RuntimeName::AUTO
    }
}

impl TryFrom<String> for RuntimeName {
    type Error = String;

    fn try_from(name: String) -> Result<RuntimeName, String> {
        RuntimeName::parse(&name).ok_or_else(|| format!("'{}' is not the name of a runtime", name.escape_debug()))
    }
}

impl From<RuntimeName> for String {
    fn from(name: RuntimeName) -> String {
        name.as_str().to_owned()
    }
}

impl fmt::Debug for RuntimeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_s_name_is_no_path_and_no_option() {
        for name in ["runc", "io.containerd.kata.v2", "crun-wasm", "a"] {
            assert_eq!(RuntimeName::parse(name).unwrap().named(), Some(name));
        }
        let long = "x".repeat(MOST + 1);
        for name in ["", "-v", "--root", "/usr/bin/runc", "../runc", "no such name", ".hidden", "ä", long.as_str()] {
            assert!(RuntimeName::parse(name).is_none(), "{name}");
        }
        assert!(RuntimeName::parse(&long[1..]).is_some());
    }

    #[test]
    fn a_runtime_s_name_is_recorded_as_written() {
        let name = RuntimeName::parse("runsc").unwrap();
        let text = serde_json::to_string(&name).unwrap();
        assert_eq!(text, "\"runsc\"");
        assert_eq!(serde_json::from_str::<RuntimeName>(&text).unwrap(), name);
        assert_eq!(serde_json::from_str::<RuntimeName>("\"auto\"").unwrap().named(), None);
        assert!(serde_json::from_str::<RuntimeName>("\"a b\"").is_err());
    }
}
