//! Ports below 1024, where services of images often listen, and where only root may unless the machine says otherwise.
//!
//! Engines let everybody listen there in a container's own network. So that a service may do the same in every form,
//! the machine's own bound is lowered for as long as the run stands: no service has more rights in one form than in
//! another.

use crate::settings;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

const BOUND: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
/// What the kernel's bound is where nobody has set another.
pub(crate) const USUAL_BOUND: u16 = 1024;
/// Lets everybody listen at these ports of this thread's network, in the name of `run`. Closing the run's mark puts
/// the bound back.
///
/// # Errors
/// When the bound can be neither read nor written.
pub(crate) fn allow_low_ports(run: &str, ports: impl IntoIterator<Item = u16>) -> Result<(), Fault> {
    let Some(lowest) = ports.into_iter().min().filter(|port| *port < USUAL_BOUND) else { return Ok(()) };
    let before = std::fs::read_to_string(BOUND).doing("see at which ports services may listen")?;
    if before.trim().parse::<u16>().is_ok_and(|bound| bound <= lowest) {
        return Ok(());
    }
    settings::change(run, Path::new(BOUND), &lowest.to_string())
        .map_err(|fault| fault.context(format!("let a service listen at port {lowest}")))
}

/// Lets everybody listen at every port of this thread's network, which is ours alone.
pub(crate) fn allow_all_ports() {
    // Where the kernel knows no bound, it stays as it is, and the service says what it may not.
    let _ = std::fs::write(BOUND, "0");
}
