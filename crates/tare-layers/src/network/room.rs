//! Networks for forms that stand side by side: each must be reached at an address of its own.

use super::GeneratorSeat;
use super::{allow_all_ports, set_up};
use crate::netlink::{Netlink, Range};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use tare_core::fault::{Doing, Fault};

/// The third octet of the first room's network. Layers use lower ones.
const FIRST_NETWORK: u8 = 200;
/// The last octet of the first further address of this machine.
const FIRST_ADDRESS: u8 = 100;
/// The number of forms that can stand side by side.
const PLACES: u8 = 50;

/// A network namespace for plain processes, connected to the generator's by a pair of links of its own: as near to the
/// generator as this machine, and with all ports free. It has no name and goes with the processes in it.
#[derive(Debug)]
pub struct Room {
    namespace: File,
    link: String,
    address: Ipv4Addr,
}

impl GeneratorSeat {
    /// Makes the room at `place`, counted from 1.
    ///
    /// # Errors
    /// When there are too many, or this process may not (it needs root).
    pub fn room(&self, place: u8) -> Result<Room, Fault> {
        check_place(place)?;
        let (link, there) = (self.host_interface(), format!("{}{place}", self.inside_interface()));
        let (a, b) = self.subnets();
        let network = FIRST_NETWORK + place;
        let (address, generator) = (Ipv4Addr::new(a, b, network, 1), Ipv4Addr::new(a, b, network, 2));
        let namespace = unnamed_namespace()?;
        let doing = "open the network configuration of a form's namespace";
        let netlink = Netlink::open_in(namespace.as_fd()).doing(doing)?;
        netlink.up("lo").doing("switch the form's loopback on")?;
        netlink.create_veth(&link, &there, self.namespace()).doing(format!("join the links {link} and {there}"))?;
        set_up(&netlink, &link, address, 30)?;
        let doing = "open the network configuration of the generator's namespace";
        let outside = Netlink::open_in(self.namespace()).doing(doing)?;
        set_up(&outside, &there, generator, 30)?;
        Ok(Room { namespace, link, address })
    }

    /// An additional address of this machine, for the form at `place`, counted from 1; it goes with the generator's
    /// link.
    ///
    /// # Errors
    /// When there are too many, or this process may not.
    pub fn address_beside(&self, place: u8) -> Result<IpAddr, Fault> {
        check_place(place)?;
        let (a, b) = self.subnets();
        let address = Ipv4Addr::new(a, b, 0, FIRST_ADDRESS + place);
        let added = super::open()?.add_address(&self.host_interface(), Range { address, prefix: 32 });
        match added {
            // It exists from an earlier block.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            other => other.doing(format!("give this machine the address {address}"))?,
        }
        Ok(address.into())
    }
}

impl Room {
    /// The address at which the generator reaches it.
    pub fn address(&self) -> IpAddr {
        self.address.into()
    }

    /// Moves this thread, and what it starts, into the room.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        rustix::thread::move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .doing("enter the network of the form")
    }

    /// Removes the links, so that their names are free at once.
    ///
    /// # Errors
    /// When they still exist.
    pub fn close(self) -> Result<(), Fault> {
        let netlink = Netlink::open_in(self.namespace.as_fd()).doing("open the network configuration of a form")?;
        netlink.delete(&self.link).doing(format!("remove the link {} of a form", self.link)).map(drop)
    }
}

fn check_place(place: u8) -> Result<(), Fault> {
    if (1..=PLACES).contains(&place) {
        return Ok(());
    }
    Err(Fault::new(format!("at most {PLACES} forms can stand side by side, not {place}")))
}

fn unnamed_namespace() -> Result<File, Fault> {
    let make = || -> std::io::Result<File> {
        // SAFETY: only the network namespace of this short-lived thread changes; no descriptor table is unshared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)? };
        allow_all_ports();
        File::open(format!("/proc/self/task/{}/ns/net", rustix::thread::gettid().as_raw_nonzero()))
    };
    // A thread of its own: namespaces belong to threads, and this thread must not leave its own.
    let made = std::thread::scope(|scope| scope.spawn(make).join().expect("making a namespace does not panic"));
    made.doing("make a network namespace for a form")
}
