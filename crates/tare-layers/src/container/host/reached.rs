//! Where containers are reached, and what is on the way.

use super::{Inner, Network};
use std::net::{IpAddr, Ipv4Addr};
use tare_core::fault::Fault;
use tare_core::host::ServiceStart;

impl Inner {
    /// The address at which the generator reaches an instance.
    pub(super) fn address(&self, instance: &str) -> Result<IpAddr, Fault> {
        match self.options.network {
            Network::Bridge => self.own_address(instance),
            Network::Published | Network::Translated | Network::Slirp4netns | Network::Pasta => Ok(self.published_at()),
            Network::Host => Ok(self.surroundings.address),
        }
    }

    /// The host's address on which ports are published.
    pub(super) fn published_at(&self) -> IpAddr {
        let translated = self.options.network == Network::Translated && self.surroundings.address.is_loopback();
        self.link.as_ref().filter(|_| translated).map_or(self.surroundings.address, |link| link.gateway)
    }

    /// The address at which other containers of the deployment reach an instance.
    pub(super) fn own_address(&self, instance: &str) -> Result<IpAddr, Fault> {
        let Some(link) = self.link.as_ref().filter(|_| self.options.network != Network::Host) else {
            return Ok(self.surroundings.address);
        };
        let networks = self.inspect(instance)?.network_settings.and_then(|settings| settings.networks);
        let address = networks.and_then(|mut all| all.remove(&link.name)).and_then(|end| end.ip_address);
        let parsed = address.and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| Fault::new(format!("the container of '{instance}' has no address on {}", link.name)))
    }

    /// The service with its own names leading to where it will stand, and the address that its container is to ask for.
    /// In a network in user space they lead to its loopback: no other address is known beforehand.
    pub(super) fn seat(&mut self, start: &ServiceStart) -> (ServiceStart, Option<Ipv4Addr>) {
        match self.options.network {
            Network::Slirp4netns | Network::Pasta => (start.clone(), None),
            _ => self.given.seat(start, self.link.as_ref().map(|link| link.gateway), self.surroundings.address),
        }
    }

    /// What requests pass through on their way.
    pub(super) fn path(&self) -> &'static str {
        match (self.options.network, self.surroundings.address.is_loopback()) {
            (Network::Translated, _) | (Network::Published, false) => {
                "published port: address translation to a bridge, then the container's veth"
            }
            (Network::Published, true) => {
                "published port on loopback: the engine's user-land proxy, where it has one, then a bridge"
            }
            (Network::Bridge, _) => "the container's own address: routed to a bridge, then the container's veth",
            (Network::Host, _) => "the host's own network, no bridge and no translation",
            (Network::Slirp4netns, _) => "published port: Podman's forwarder, then the container's loopback",
            (Network::Pasta, _) => "published port: pasta, which copies between sockets and the container's link",
        }
    }
}
