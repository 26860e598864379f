//! The network of a form's guests: a private bridge, a tap device on it for each guest, and the route there from where
//! the load comes. Where passt carries a guest's network, the bridge has no port: its address, and those of the guests,
//! are this machine's.

use super::options::{Network, VmOptions};
use crate::network::{self, Forwarding, LowPorts, UserHere};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use tare_core::fault::Fault;
use tare_core::host::{TrialContext, third_octets};

/// The third octet of the guests' network; layers share the address space of their host.
const NETWORK: u8 = 100;
/// The length of its prefix.
pub(super) const PREFIX: u8 = 24;
/// Third octets for the networks in each of several guests: a /22 each. A single guest has as many as a host.
const THIRDS: u8 = 4;
const THIRDS_PREFIX: u8 = 22;

/// The links of a form's guests.
pub(super) struct Wiring {
    pub(super) bridge: String,
    /// What carries packets from this machine into a guest, for people.
    way: &'static str,
    rules: Vec<Forwarding>,
    /// What each guest's passt may do beyond other processes.
    low: LowPorts,
    /// Whom else that has let do it, for the record.
    let_others: String,
    /// The host's address on the bridge.
    pub(super) gateway: Ipv4Addr,
    /// One for each guest.
    pub(super) plugs: Vec<Plug>,
    /// The range that layers inside the guests take their networks from.
    pub(super) inner: (u8, u8),
}

/// Where one guest is connected to the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plug {
    pub(super) tap: String,
    /// The guest's address.
    pub(super) address: Ipv4Addr,
    /// The guest's hardware address, locally administered.
    pub(super) hardware: String,
    /// See [`TrialContext::third_octets`].
    pub(super) third_octets: (u8, u8),
}

impl Wiring {
    /// Makes the links of all guests, named for the form's place if it stands beside others.
    ///
    /// # Errors
    /// What could not be made; then nothing is left behind.
    pub(super) fn make(surroundings: &TrialContext, options: &VmOptions) -> Result<Wiring, Fault> {
        let guests = options.guests as usize;
        let (run, (a, b)) = (&surroundings.run, surroundings.subnets);
        // Whoever chose the subnets keeps the neighbour free for guests.
        let neighbour = b.checked_add(1).unwrap_or(b - 1);
        let beside = if surroundings.place == 0 { String::new() } else { surroundings.place.to_string() };
        let mut wiring = Wiring {
            bridge: format!("t{run}b{beside}"),
            way: match options.network {
                Network::Tap => "private bridge, tap",
                Network::Passt if options.vhost_user => "passt by vhost-user",
                Network::Passt => "passt",
            },
            rules: Vec::new(),
            low: LowPorts::default(),
            let_others: String::new(),
            gateway: Ipv4Addr::new(a, b, NETWORK, 1),
            plugs: plugs(&format!("t{run}v{beside}"), (a, b), guests),
            inner: (a, neighbour),
        };
        let connected = match options.network {
            Network::Tap => wiring.connect(run, !surroundings.inner.is_empty()),
            Network::Passt => wiring.take_addresses(),
        };
        match connected {
            Ok(()) => Ok(wiring),
            Err(fault) => {
                // Report the first failure, not one in the cleanup.
                let _ = wiring.remove();
                Err(fault)
            }
        }
    }

    /// `inner` says whether layers inside the guests have networks that must be reached from here.
    fn connect(&mut self, run: &str, inner: bool) -> Result<(), Fault> {
        network::bridge_create(&self.bridge, self.gateway, PREFIX)?;
        for plug in &self.plugs {
            network::tap_create(&plug.tap, &self.bridge)?;
        }
        self.rules.push(network::allow_forwarding(run, &format!("t{run}h"), &self.bridge)?);
        let several = self.plugs.len() > 1;
        if several {
            self.rules.push(network::allow_forwarding(run, &self.bridge, &self.bridge)?);
        }
        if inner {
            let (a, b) = self.inner;
            for plug in &self.plugs {
                let (third, prefix) = if several { (plug.third_octets.0, THIRDS_PREFIX) } else { (0, 16) };
                network::route_add(Ipv4Addr::new(a, b, third, 0), prefix, plug.address)?;
            }
        }
        Ok(())
    }

    /// Takes the guests' addresses for this machine, where each guest's passt listens at its own.
    fn take_addresses(&self) -> Result<(), Fault> {
        network::bridge_create(&self.bridge, self.gateway, PREFIX)?;
        self.plugs.iter().try_for_each(|plug| network::address_add(&self.bridge, plug.address))
    }

    /// Lets passt, which is this user, listen at those of these ports that are low.
    ///
    /// # Errors
    /// See [`LowPorts::allow`].
    pub(super) fn let_listen(&mut self, run: &str, ports: &BTreeSet<u16>, user: u32) -> Result<(), Fault> {
        let others = self.low.allow(run, ports.iter().copied(), (user, UserHere::Same))?;
        if !self.let_others.contains(&others) {
            self.let_others.push_str(&others);
        }
        Ok(())
    }

    /// How packets get into one of the guests, for the record.
    pub(super) fn path(&self, inside: &str) -> String {
        let of = if self.plugs.len() > 1 { format!(", one of {}", self.plugs.len()) } else { String::new() };
        format!("veth, {} and virtio-net into a guest{of}, {inside}{}", self.way, self.let_others)
    }

    /// Removes the links; the routes go with them.
    ///
    /// # Errors
    /// What still exists.
    pub(super) fn remove(&mut self) -> Result<(), Fault> {
        let rules = self.rules.drain(..).map(Forwarding::remove).fold(Ok(()), Result::and);
        self.low = LowPorts::default();
        let taps = self.plugs.iter().map(|plug| network::link_delete(&plug.tap)).fold(Ok(()), Result::and);
        rules.and(taps).and(network::link_delete(&self.bridge))
    }
}

fn plugs(tap: &str, (a, b): (u8, u8), guests: usize) -> Vec<Plug> {
    let plug = |at: u8| {
        let usual = third_octets();
        let first = usual.0 + THIRDS * at;
        Plug {
            tap: if guests > 1 { format!("{tap}g{}", at + 1) } else { tap.to_owned() },
            address: Ipv4Addr::new(a, b, NETWORK, 2 + at),
            hardware: format!("02:74:{a:02x}:{b:02x}:{NETWORK:02x}:{:02x}", 2 + at),
            third_octets: if guests > 1 { (first, first.saturating_add(THIRDS)) } else { usual },
        }
    };
    (0..guests).map(|at| plug(u8::try_from(at).expect("there are few guests"))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::options::GUESTS_MAX;
    use super::*;

    #[test]
    fn as_many_guests_as_may_be_have_links_and_ranges_of_their_own() {
        let alone = plugs("tabc123v", (10, 254), 1);
        assert_eq!((alone[0].tap.as_str(), alone[0].third_octets), ("tabc123v", third_octets()));
        let all = plugs("tabc123v200", (10, 254), GUESTS_MAX as usize);
        for (at, plug) in all.iter().enumerate() {
            assert!(plug.tap.len() <= network::LINK_NAME_MAX, "{}", plug.tap);
            assert_eq!(plug.third_octets.0 % THIRDS, 0, "a /{THIRDS_PREFIX} begins there");
            assert!(plug.third_octets.0 < plug.third_octets.1);
            for other in &all[..at] {
                assert!(plug.third_octets.0 >= other.third_octets.1 && plug.address != other.address);
                assert!(plug.tap != other.tap && plug.hardware != other.hardware);
            }
        }
    }
}
