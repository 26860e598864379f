//! Ports below 1024, where services of images often listen, and where only root may unless the machine says otherwise.
//!
//! Engines let everybody listen there in a container's own network. So that a service may do the same in every form,
//! the machine's own bound is lowered for as long as the run stands: no service has more rights in one form than in
//! another.

use crate::leftovers;
use tare_core::fault::{Doing, Fault};

const BOUND: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
/// What the kernel's bound is where nobody has set another.
pub(crate) const USUAL_BOUND: u16 = 1024;
/// The file in a run's directory that holds the bound of before.
const BOUND_BEFORE: &str = "unprivileged-port-start";

/// Lets everybody listen at these ports of this thread's network, in the name of `run`; notes down the bound of before,
/// so that closing the run's mark puts it back.
///
/// # Errors
/// When the bound can be neither read nor written.
pub(crate) fn allow_low_ports(run: &str, ports: impl IntoIterator<Item = u16>) -> Result<(), Fault> {
    let Some(lowest) = ports.into_iter().min().filter(|port| *port < USUAL_BOUND) else { return Ok(()) };
    let before = std::fs::read_to_string(BOUND).doing("see at which ports services may listen")?;
    if before.trim().parse::<u16>().is_ok_and(|bound| bound <= lowest) {
        return Ok(());
    }
    let directory = leftovers::run_directory(run);
    let note = directory.join(BOUND_BEFORE);
    // In a guest there is no mark, and nothing to restore. Elsewhere nothing is changed that could not be put back.
    if directory.is_dir() && !note.exists() {
        std::fs::write(&note, &before).doing(format!("write {}", note.display()))?;
    }
    std::fs::write(BOUND, lowest.to_string()).doing(format!("let a service listen at port {lowest}"))
}

/// Lets everybody listen at every port of this thread's network, which is ours alone.
pub(crate) fn allow_all_ports() {
    // Where the kernel knows no bound, it stays as it is, and the service says what it may not.
    let _ = std::fs::write(BOUND, "0");
}

/// Puts the bound back if this run lowered it.
pub(super) fn restore(run: &str) -> Result<(), Fault> {
    match std::fs::read_to_string(leftovers::run_directory(run).join(BOUND_BEFORE)) {
        Ok(before) => std::fs::write(BOUND, before).doing("put back at which ports everybody may listen"),
        Err(_) => Ok(()),
    }
}
