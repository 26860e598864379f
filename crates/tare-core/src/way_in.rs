//! How a person gets into a deployed service, and at what it writes.

use serde::{Deserialize, Serialize};

/// One thing of a deployed service that a person can look at, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayIn {
    /// What it leads to, as a word: one of the constants here, or a layer's own word.
    pub to: String,
    /// A command for a root shell on this machine, a path on it, or other information in words.
    pub how: String,
}

impl WayIn {
    /// A shell beside the service, in its root, namespaces and network.
    pub const SHELL: &'static str = "shell";
    /// The files that the service sees.
    pub const FILES: &'static str = "files";
    /// Everything the service has written to its standard output and standard error.
    pub const OUTPUT: &'static str = "output";

    /// A way in.
    pub fn new(to: &str, how: impl Into<String>) -> WayIn {
        WayIn { to: to.to_owned(), how: how.into() }
    }
}
