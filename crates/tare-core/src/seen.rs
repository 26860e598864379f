//! Files as services see them: the proof that every form runs the same bits.

use crate::fault::Fault;
use serde::{Deserialize, Serialize};

/// A file as a service sees it in its form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SeenFile {
    /// Its path in the bundle.
    pub path: String,
    /// `sha256:<hex>` of its content; of a symbolic link `-> <target>`.
    pub digest: String,
}

/// How the files that a running service sees in its form compare with those of its bundle. Everything it may read is
/// compared, so that scripts, class archives and configuration are the same too.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FilesSeen {
    /// How many of the bundle's files and links were compared, without those that the service itself may change and
    /// those that engines put into every container.
    pub compared: u64,
    /// How many more would have been compared if the form had not mounted something on or above them, or hidden them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub covered: u64,
    /// The paths of those that it sees differently or not at all; the first [`FilesSeen::NAMED`] of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differing: Vec<String>,
    /// How many there are beyond those named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

impl FilesSeen {
    /// The most that are named.
    pub const NAMED: usize = 20;

    /// The results for some files and for others, combined.
    pub fn add(&mut self, other: FilesSeen) {
        self.compared += other.compared;
        self.covered += other.covered;
        self.more += other.more;
        for path in other.differing {
            if self.differing.len() < FilesSeen::NAMED {
                self.differing.push(path);
            } else {
                self.more += 1;
            }
        }
    }

    /// Counts a file that was compared with the bundle's.
    pub fn note(&mut self, path: &str, same: bool) {
        self.compared += 1;
        if same {
            return;
        }
        if self.differing.len() < FilesSeen::NAMED {
            self.differing.push(path.to_owned());
        } else {
            self.more += 1;
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How long to wait while files are read, which may take minutes.
#[derive(Clone, Copy)]
pub struct Wait<'a>(Option<&'a dyn Fn() -> bool>);

impl<'a> Wait<'a> {
    /// Until `ended` returns true because the user wants to stop. It is called often, so it must be quick.
    pub fn until(ended: &'a dyn Fn() -> bool) -> Self {
        Wait(Some(ended))
    }

    /// However long it takes.
    pub fn always() -> Self {
        Wait(None)
    }

    /// The reader calls this before each file and before each piece of a large one.
    ///
    /// # Errors
    /// When the wait is over: reading must then stop, and what was read so far means nothing.
    pub fn check(self) -> Result<(), Fault> {
        if self.0.is_some_and(|ended| ended()) { Err(Fault::new("interrupted")) } else { Ok(()) }
    }
}
