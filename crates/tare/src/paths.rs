//! Where things are kept. The only file of this crate that reads the environment.

use std::path::{Path, PathBuf};

/// Where bundles, guests' parts and the history live: `$TARE_HOME`, else `/var/lib/tare`.
pub(crate) fn home() -> PathBuf {
    std::env::var_os("TARE_HOME").map_or_else(|| PathBuf::from("/var/lib/tare"), PathBuf::from)
}

/// Where bundles are kept.
pub(crate) fn bundles() -> PathBuf {
    home().join("bundles")
}

/// The index over records.
pub(crate) fn history() -> PathBuf {
    home().join("history.db")
}

/// Where records go unless the user says otherwise.
pub(crate) fn records() -> PathBuf {
    PathBuf::from("records")
}

/// Folders in which shipped studies and workloads may stand: here, and above the program, for one that was built in
/// its source tree and is called from elsewhere.
pub(crate) fn data_folders(kind: &str) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(kind)];
    if let Ok(program) = std::env::current_exe() {
        folders.extend(program.ancestors().skip(1).take(4).map(|folder| folder.join(kind)));
    }
    folders
}

/// Whether colour is wanted on a terminal (<https://no-color.org>).
pub(crate) fn colour_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// `path` as it would be typed from here.
pub(crate) fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).map_or_else(|_| path.to_owned(), Path::to_owned)
}
