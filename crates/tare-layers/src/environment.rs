//! The one place of this crate where the environment is read.

use std::path::PathBuf;

/// The container engine that the user chose, if any.
pub(crate) fn docker_host() -> Option<String> {
    std::env::var("DOCKER_HOST").ok().filter(|text| !text.is_empty())
}

/// Where programs are looked for.
pub(crate) fn path() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}
