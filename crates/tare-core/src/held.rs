//! What everything that runs in a form stands in, for whoever keeps it from running while others are loaded.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a form's processes stand in, all of them, as seen from this machine. To keep one from running takes
/// microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// A control group of either version, by its directory: one of version 2 is frozen, the processes in one of version
    /// 1 are stopped by signals, as its freezer is a hierarchy of its own that not every machine mounts, and that keeps
    /// what is frozen from being killed.
    Group(PathBuf),
    /// A process, by its number: a hypervisor, which is stopped by a signal.
    Process(u32),
}
