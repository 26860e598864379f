//! What contains everything that runs in a form, for code that suspends it while other forms are loaded.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What contains a form's processes, as seen from this machine. Suspending one of these takes microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// A control group of either version, by its directory. One of version 2 is frozen. The processes in one of version
    /// 1 are stopped by signals, because its freezer is a separate hierarchy that not every machine mounts and that
    /// keeps frozen processes from being killed.
    Group(PathBuf),
    /// A process, by its id: a hypervisor, which is stopped by a signal.
    Process(u32),
}
