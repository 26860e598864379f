//! Files that a test needs.

use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Writes a file, with the folders on its way, and says where it is.
pub fn write(path: &Path, content: &(impl AsRef<[u8]> + ?Sized)) -> PathBuf {
    std::fs::create_dir_all(path.parent().expect("it lies in a folder")).expect("folders can be made");
    std::fs::write(path, content).expect("a file can be written");
    path.to_owned()
}

/// A folder of these files, each with its name and content; gone when dropped.
pub fn tree<C: AsRef<[u8]>>(files: &[(&str, C)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    files.iter().for_each(|(name, content)| drop(write(&folder.path().join(name), content)));
    folder
}
