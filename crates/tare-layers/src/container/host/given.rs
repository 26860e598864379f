//! The addresses of containers on the run's own network. They are given here and not by the engine, for a service is
//! told before it starts where its own name leads.

use crate::local::hosts::on_machine;
use std::net::{IpAddr, Ipv4Addr};
use tare_core::host::ServiceStart;

/// The highest address of a network of 256. The engine gives the lowest to what asks for none, such as the resource
/// probe.
const HIGHEST: u8 = 254;
/// The lowest one that is given here.
const LOWEST: u8 = 32;

/// How many addresses were given. None is given twice: an engine may take its time to believe that one is free.
#[derive(Debug, Default)]
pub(super) struct Given(u8);

impl Given {
    /// The service with its own names leading to where it will stand, and the address that its container is to ask for.
    /// Without a `gateway` it stands in the machine's network, at the machine's address.
    pub(super) fn seat(
        &mut self,
        start: &ServiceStart,
        gateway: Option<IpAddr>,
        machine: IpAddr,
    ) -> (ServiceStart, Option<Ipv4Addr>) {
        let Some(gateway) = gateway else { return (on_machine(start, machine), None) };
        match self.next(gateway) {
            Some(own) => (start.standing_at(own.into()), Some(own)),
            None => (start.clone(), None),
        }
    }

    /// The next address beside this gateway; none when there are no more.
    fn next(&mut self, gateway: IpAddr) -> Option<Ipv4Addr> {
        let IpAddr::V4(gateway) = gateway else { return None };
        let last = HIGHEST.checked_sub(self.0).filter(|last| *last >= LOWEST)?;
        self.0 += 1;
        let [a, b, c, _] = gateway.octets();
        Some(Ipv4Addr::new(a, b, c, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_container_gets_another_address_until_there_are_no_more() {
        let (mut given, gateway) = (Given::default(), IpAddr::from([10, 99, 16, 1]));
        let first: Vec<String> = (0..2).filter_map(|_| given.next(gateway)).map(|at| at.to_string()).collect();
        assert_eq!(first, ["10.99.16.254", "10.99.16.253"]);
        assert_eq!((0..300).filter_map(|_| given.next(gateway)).count(), 221);
        assert_eq!(given.next(gateway), None);
        assert_eq!(Given::default().next("fd00::1".parse().unwrap()), None);
    }
}
