//! The agent as the first process of a guest, in three stages of the same program.
//!
//! 1. As `/init` of the initial file system: loads modules, moves the root onto a tmpfs (the initial one cannot be
//!    pivoted away from, which container runtimes do), and starts itself anew there.
//! 2. As process 1 on the new root: mounts what a system needs, starts stage 3, buries orphans, and powers the guest
//!    off when stage 3 ends, however it ends.
//! 3. As an ordinary process: takes the [`GuestPlan`] from the line, sets network and disks up, and serves.

mod first;
mod host;
mod plan;
mod store;

pub use plan::{GuestDisk, GuestPlan};
pub use store::PlacedStore;

use std::path::Path;
use tare_core::fault::Fault;
use tare_core::host::Layers;
use tare_core::telemetry::Prober;

/// The name of the virtio-serial port that is the agent's line.
pub(crate) const PORT_NAME: &str = "tare-agent";
/// Stands where the agent runs in a guest that Tare made.
const MARKER: &str = "/run/tare/guest";
/// The agent's own program on the guest's root.
const PROGRAM: &str = "/bin/tare";
/// On the kernel's command line: say [`GUEST_SAYS`] on the console and power off; asks whether guests boot at all.
pub(crate) const GUEST_HELLO: &str = "tare.hello";
/// What a guest says to [`GUEST_HELLO`].
pub(crate) const GUEST_SAYS: &str = "tare: the guest is alive";

/// What `tare agent` does: carries a host in a guest, from the guest's first moment to its last. Never returns; in a
/// guest, it ends with the machine powered off.
///
/// Refuses to run anywhere else: it would mount over a living system.
pub fn run_guest(prober: fn() -> Result<Box<dyn Prober>, Fault>, layers: Layers) -> ! {
    let first_process = std::process::id() == 1;
    let on_new_root = Path::new(MARKER).exists();
    let ended = match (first_process, on_new_root) {
        (true, false) => first::enter(),
        (true, true) => first::keep(),
        (false, true) => plan::follow(prober, layers),
        (false, false) => {
            eprintln!("error: 'agent' is what Tare starts inside its guests; here it has nothing to do");
            std::process::exit(2);
        }
    };
    if let Err(fault) = ended {
        // The console is the only place where it can still be read; the host quotes its last lines.
        eprintln!("tare agent: {fault}");
    }
    if first_process {
        first::power_off();
    }
    std::process::exit(1);
}
