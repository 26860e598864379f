//! The agent as the first process of a guest, in three stages of the same program.
//!
//! 1. As `/init` of the initial file system: loads modules, moves the root onto a tmpfs (the initial one cannot be
//!    pivoted away from, which container runtimes do), and restarts itself there.
//! 2. As process 1 on the new root: mounts what a system needs, starts stage 3, reaps orphans, and powers the guest off
//!    when stage 3 ends, however it ends.
//! 3. As an ordinary process: reads the [`GuestPlan`] from the line, sets up network and disks, and serves.

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

/// The name of the virtio-serial port that the agent talks over.
pub(crate) const PORT_NAME: &str = "tare-agent";
/// This file exists where the agent runs in a guest that Tare made.
const MARKER: &str = "/run/tare/guest";
/// The agent's program on the guest's root.
const PROGRAM: &str = "/bin/tare";
/// A kernel command-line word: print [`GUEST_SAYS`] on the console and power off. It tests whether guests boot at all.
pub(crate) const GUEST_HELLO: &str = "tare.hello";
/// What a guest prints in answer to [`GUEST_HELLO`].
pub(crate) const GUEST_SAYS: &str = "tare: the guest is alive";

/// What `tare agent` does: serves a host in a guest, from the guest's first moment to its last. Never returns; in a
/// guest, it ends by powering the machine off.
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
            eprintln!(
                "error: 'agent' is what Tare starts inside its guests, and with pipes on machines of a lab; here it has \
                 nothing to do"
            );
            std::process::exit(2);
        }
    };
    if let Err(fault) = ended {
        // The console is the only place where this can still be read; the host quotes its last lines.
        eprintln!("tare agent: {fault}");
    }
    if first_process {
        first::power_off();
    }
    std::process::exit(1);
}
