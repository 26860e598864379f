//! The files of this machine, as far as a Compose file names them. This crate opens none itself.

use std::path::Path;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// A regular file.
    File {
        /// Whether its owner may execute it.
        executable: bool,
    },
    /// A folder.
    Folder,
    /// Anything else, such as a socket.
    Other,
}

/// Reads the files that a Compose file names.
pub trait Disk {
    /// What stands at this path; none if nothing does.
    fn at(&self, path: &Path) -> Option<Thing>;

    /// The content of a regular file.
    ///
    /// # Errors
    /// Why it cannot be read, in words for the place that named it.
    fn read(&self, path: &Path) -> Result<Vec<u8>, String>;

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// As [`Disk::read`].
    fn list(&self, path: &Path) -> Result<Vec<String>, String>;
}
