//! The run's own bridge network: the user's default bridge is never touched.

use super::engine::{CallError, Engine};
use super::netavark;
use super::options::Network;
use super::spec;
use crate::network::{self, Forwarding};
use crate::register;
use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use tare_core::fault::Fault;
use tare_core::host::TrialContext;

/// A bridge network in the engine, with the rules that let the generator in.
pub(crate) struct Link {
    /// What the engine calls it.
    pub(crate) name: String,
    /// The bridge's name among this machine's links.
    pub(crate) bridge: String,
    /// The host's own address on the bridge.
    pub(crate) gateway: IpAddr,
    run: String,
    forwarding: Option<Forwarding>,
}

/// The bridge's name: the run's mark and two characters derived from the trial's.
fn bridge_name(run: &str, trial: &str) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    // FNV-1a, 32 bits: any hash will do, as two networks of a run exist side by side only for moments.
    let hash = trial.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let digit = |value: u32| char::from(DIGITS[value as usize % DIGITS.len()]);
    format!("t{run}c{}{}", digit(hash), digit(hash / 36))
}

impl Link {
    /// Makes the network for `mode`; none for the host's own network.
    ///
    /// # Errors
    /// When the engine refuses or no subnet is free. Then nothing is left behind.
    pub(crate) fn open(engine: &Engine, mode: Network, surroundings: &TrialContext) -> Result<Option<Link>, Fault> {
        if mode == Network::Host {
            return Ok(None);
        }
        let name = format!("tare-{}-{}", surroundings.run, surroundings.trial);
        let bridge = bridge_name(&surroundings.run, &surroundings.trial);
        let create = || create(engine, mode, surroundings, &name, &bridge);
        let gateway = if engine.is_podman() {
            // Docker makes the bridge with the network; Podman with a container, and anew after its last one has gone.
            // There it stays announced: it has no identity that lasts.
            register::intend(&surroundings.run, register::Kind::Link, &bridge)?;
            netavark::note(&surroundings.run, &name, &bridge)?;
            create()?
        } else {
            network::registered(&bridge, create)?
        };
        let mut link = Link { name, bridge, gateway, run: surroundings.run.clone(), forwarding: None };
        // Podman lets packets to published ports pass as well, but not where Docker stands beside it, whose policy for
        // all others' is to drop them.
        let is_kept_out = mode == Network::Bridge || engine.is_podman();
        if is_kept_out && !surroundings.address.is_loopback() {
            let outside = network::seat_link(&surroundings.run);
            match network::allow_forwarding(&surroundings.run, &outside, &link.bridge) {
                Ok(forwarding) => link.forwarding = Some(forwarding),
                Err(fault) => {
                    // Report the first failure, not one in the cleanup.
                    let _ = link.close(engine);
                    return Err(fault);
                }
            }
        }
        Ok(Some(link))
    }

    /// Removes the rules and the network.
    ///
    /// # Errors
    /// When something of it is left.
    pub(crate) fn close(self, engine: &Engine) -> Result<(), Fault> {
        let rules = self.forwarding.map_or(Ok(()), Forwarding::remove);
        remove_network(engine, &self.name)?;
        if engine.is_podman() {
            netavark::remove_after(&self.run, &self.name)?;
        }
        rules
    }
}

/// Makes the network in the first free range, and returns the host's address in it.
fn create(engine: &Engine, mode: Network, at: &TrialContext, name: &str, bridge: &str) -> Result<IpAddr, Fault> {
    let mut options = HashMap::from([("com.docker.network.bridge.name".to_owned(), bridge.to_owned())]);
    if mode == Network::Bridge && engine.has_gateway_mode() {
        // Since Docker 28, packets from outside to a container's own address are dropped unless the network allows
        // them.
        options.insert("com.docker.network.bridge.gateway_mode_ipv4".to_owned(), "nat-unprotected".to_owned());
    }
    let mut refusal = None;
    let ((a, b), (first, behind)) = (at.subnets, at.third_octets);
    for third in first..behind {
        let gateway = Ipv4Addr::new(a, b, third, 1);
        let range = IpamConfig {
            subnet: Some(format!("{a}.{b}.{third}.0/24")),
            gateway: Some(gateway.to_string()),
            ..Default::default()
        };
        let request = NetworkCreateRequest {
            name: name.to_owned(),
            driver: Some("bridge".to_owned()),
            ipam: Some(Ipam { config: Some(vec![range]), ..Default::default() }),
            enable_ipv6: Some(false),
            options: Some(options.clone()),
            labels: Some(spec::labels(&at.run, name)),
            ..Default::default()
        };
        let create = || engine.call(engine.docker().create_network(request));
        match register::asking(&at.run, name, create)? {
            Ok(_) => return Ok(gateway.into()),
            Err(CallError::Refused { status, message }) if is_taken(&message) => {
                refusal = Some(CallError::Refused { status, message });
            }
            Err(error) => return Err(error.doing(format!("make the container network {name}"))),
        }
    }
    let refusal = refusal.expect("there are third octets to choose of");
    Err(refusal.doing(format!("make the container network {name}")))
}

/// Whether the engine says that the address range is in use: Docker's words, then Podman's.
fn is_taken(message: &str) -> bool {
    message.contains("overlap") || message.contains("already used") || message.contains("already being used")
}

/// Removes a network from the engine; one that is already gone is no error.
///
/// # Errors
/// When it still exists.
pub(crate) fn remove_network(engine: &Engine, name: &str) -> Result<(), Fault> {
    match engine.call(engine.docker().remove_network(name)) {
        Ok(()) => Ok(()),
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error.doing(format!("remove the container network {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridges_name_fits_and_carries_its_run() {
        for trial in ["a", "b01-container-2", "aa"] {
            let name = bridge_name("abc123", trial);
            assert!(name.len() <= network::LINK_NAME_MAX && name.starts_with("tabc123c"), "{name}");
        }
        assert_ne!(bridge_name("abc123", "b1"), bridge_name("abc123", "b2"));
    }
}
