//! The host that a guest's agent serves.

use crate::local::LocalHost;
use std::sync::Arc;
use tare_core::fault::Fault;
use tare_core::host::{Host, MachineServices, TrialContext};

/// Opens the guest as a host, with the same code as on the machine around it.
pub(super) fn open(carrier: Arc<MachineServices>, surroundings: &TrialContext) -> Result<Box<dyn Host>, Fault> {
    Ok(Box::new(LocalHost::new(carrier, surroundings.clone())?))
}
