//! The host that a guest's agent carries.

use crate::local::LocalHost;
use std::sync::Arc;
use tare_core::fault::Fault;
use tare_core::host::{Carrier, Host, Surroundings};

/// Opens the guest as a host: the same code as on the machine around it.
pub(super) fn open(carrier: Arc<Carrier>, surroundings: &Surroundings) -> Result<Box<dyn Host>, Fault> {
    Ok(Box::new(LocalHost::new(carrier, surroundings.clone())?))
}
