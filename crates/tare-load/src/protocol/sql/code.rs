//! Error codes of servers.

use std::fmt;

/// A server's code for an error: an SQLSTATE, or a number in digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code([u8; 5]);

impl Code {
    /// The first five characters of a text.
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut code = [b' '; 5];
        code.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        Code(code)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(String::from_utf8_lossy(&self.0).trim_end())
    }
}
