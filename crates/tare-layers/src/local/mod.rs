//! Services as plain processes of this machine, rooted in their bundle: the native form, and also how services run
//! inside a guest.

pub(crate) mod accounts;
mod attributes;
mod beside;
mod building;
pub(crate) mod child;
pub(crate) mod command;
pub(crate) mod confinement;
pub(crate) mod content;
mod facts;
pub(crate) mod files;
pub(crate) mod host;
pub(crate) mod hosts;
mod inside;
pub(crate) mod launch;
pub(crate) mod logs;
mod mapped;
pub(crate) mod ports;
pub(crate) mod root;
pub(crate) mod running;
pub(crate) mod shift;
mod stubs;
pub(crate) mod volumes;
pub(crate) mod ways_in;

pub use crate::cgroup::hierarchies::mount_unified;
pub use beside::LoadGroup;
pub use building::BuildGroup;
pub use host::LocalHost;
#[cfg(any(test, fuzzing))]
pub(crate) use mapped::chew as chew_maps;
pub(crate) use mapped::mapped_files;

/// Open files that a service may have, in every form, as soft and hard limit. A fixed figure, so that a guest, which
/// could allow more than its host, gives the same as other forms; low enough for hosts that allow few (20 000 has been
/// seen in hosted virtual machines), high enough for the 10 000 clients that servers commonly expect.
pub const OPEN_FILES: u64 = 16_384;

/// Processes and threads that a service's user may have, in every form: enough for a server with a thread for each of
/// 10 000 clients, and few enough that no service uses up all process ids that a machine commonly has (32 768).
pub const PROCESSES: u64 = 16_384;

/// The largest core dump that a service may leave when it crashes, bytes: effectively none, for it holds secrets, and
/// the disk is not the service's own. With 0 the kernel still hands a dump to a collecting program; with 1 it does not.
pub const CORE_BYTES: u64 = 1;
