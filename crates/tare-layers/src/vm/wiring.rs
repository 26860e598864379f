//! The guest's network: a private bridge, a tap device on it, and the way there from where the load comes.

use crate::network::{self, Forwarding};
use std::net::Ipv4Addr;
use tare_core::fault::Fault;

/// The third octet of the guest's network; the layers share the address space of their host.
const NETWORK: u8 = 100;
/// The length of its prefix.
pub(super) const PREFIX: u8 = 24;

/// The links of one guest.
pub(super) struct Wiring {
    bridge: String,
    pub(super) tap: String,
    forwarding: Option<Forwarding>,
    /// The host's address on the bridge.
    pub(super) gateway: Ipv4Addr,
    /// The guest's address.
    pub(super) guest: Ipv4Addr,
    /// The guest's hardware address, locally administered.
    pub(super) hardware: String,
    /// From which layers inside the guest take their networks.
    pub(super) inner: (u8, u8),
}

impl Wiring {
    /// Makes the links, named for the guest's `place` when it stands beside others. `inner` says whether layers inside
    /// the guest have networks that must be reached from here.
    ///
    /// # Errors
    /// What could not be made; then nothing is left.
    pub(super) fn make(run: &str, place: u8, subnets: (u8, u8), inner: bool) -> Result<Wiring, Fault> {
        let (a, b) = subnets;
        // The neighbour is kept free for the guest by who chose the subnets.
        let neighbour = b.checked_add(1).unwrap_or(b - 1);
        let beside = if place == 0 { String::new() } else { place.to_string() };
        let mut wiring = Wiring {
            bridge: format!("t{run}b{beside}"),
            tap: format!("t{run}v{beside}"),
            forwarding: None,
            gateway: Ipv4Addr::new(a, b, NETWORK, 1),
            guest: Ipv4Addr::new(a, b, NETWORK, 2),
            hardware: format!("02:74:{a:02x}:{b:02x}:{NETWORK:02x}:02"),
            inner: (a, neighbour),
        };
        match wiring.connect(run, inner) {
            Ok(()) => Ok(wiring),
            Err(fault) => {
                // The first failure is the one to report.
                let _ = wiring.remove();
                Err(fault)
            }
        }
    }

    fn connect(&mut self, run: &str, inner: bool) -> Result<(), Fault> {
        network::bridge_create(&self.bridge, self.gateway, PREFIX)?;
        network::tap_create(&self.tap, &self.bridge)?;
        self.forwarding = Some(network::allow_forwarding(run, &format!("t{run}h"), &self.bridge)?);
        if inner {
            let (a, b) = self.inner;
            network::route_add(Ipv4Addr::new(a, b, 0, 0), 16, self.guest)?;
        }
        Ok(())
    }

    /// Removes the links; the routes go with them.
    ///
    /// # Errors
    /// What is still there.
    pub(super) fn remove(&mut self) -> Result<(), Fault> {
        let rules = self.forwarding.take().map_or(Ok(()), Forwarding::remove);
        let tap = network::link_delete(&self.tap);
        let bridge = network::link_delete(&self.bridge);
        rules.and(tap).and(bridge)
    }
}
