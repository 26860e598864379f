//! Services as plain processes of this machine, rooted in their bundle: the native form, and also how services run
//! inside a guest.

pub(crate) mod cgroup;
mod facts;
mod host;
mod launch;
mod mapped;
mod ports;
pub(crate) mod processes;
mod root;

pub use cgroup::mount_unified;
pub use host::LocalHost;
pub use mapped::mapped_files;

/// Open files that a service may have, in every form, as soft and hard limit. Enough for 10^5 connections and their
/// files; far below what the kernel allows (2^20), because some programs allocate or close as many as they are allowed.
pub const OPEN_FILES: u64 = 262_144;
