//! The only place in this crate that reads the environment.

use std::ffi::OsString;
use std::path::PathBuf;

/// The container engine that the user chose, if any.
pub(crate) fn docker_host() -> Option<String> {
    std::env::var("DOCKER_HOST").ok().filter(|text| !text.is_empty())
}

/// Where programs are looked for. An empty entry, which a shell takes as the current directory, is ignored.
pub(crate) fn path() -> Vec<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty()).collect()
}

/// Where programs of the system are, which a login without a session may leave out of PATH.
const SYSTEM: [&str; 2] = ["/usr/sbin", "/sbin"];

/// PATH as it is, and behind it the folders of the system's programs that it lacks.
pub(crate) fn path_with_system() -> OsString {
    let stated = path();
    let lacking = SYSTEM.iter().map(PathBuf::from).filter(|folder| !stated.contains(folder));
    let all: Vec<PathBuf> = stated.iter().cloned().chain(lacking).collect();
    // What came out of PATH fits into it again.
    std::env::join_paths(all).unwrap_or_default()
}

/// Where things are kept unless the user says otherwise.
pub(crate) const USUAL_HOME: &str = "/var/lib/tare";

/// Where things are kept between runs: `$TARE_HOME`, else `/var/lib/tare`.
pub(crate) fn home() -> PathBuf {
    let stated = std::env::var_os("TARE_HOME").filter(|home| !home.is_empty());
    let home = stated.map_or_else(|| PathBuf::from(USUAL_HOME), PathBuf::from);
    // Mounts and engines accept no path relative to the current directory.
    std::path::absolute(&home).unwrap_or(home)
}
