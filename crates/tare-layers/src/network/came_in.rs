//! A program that is run for what comes in by links of this machine's network: not by the loopback, nor by the run's
//! own, so that the load does not pass it. A port of a bridge or a bond is left to what it is a port of.

use super::netlink::{Link, Netlink};
use std::collections::BTreeMap;
use std::io;
use tare_bpf::Register::{self, R0, R1, R6};
use tare_bpf::{Attached, Instruction, Kind, Program};

/// Where `struct __sk_buff` holds the virtual network (VLAN) that a packet says it is of.
const VLAN: i16 = 24;

/// Protocols of packets, in the network's order.
pub(super) const IPV4: i32 = 0x0800_u16.to_be() as i32;
pub(super) const IPV6: i32 = 0x86dd_u16.to_be() as i32;
/// Where `struct __sk_buff` holds them.
pub(super) const PROTOCOL: i16 = 16;

/// Ends a program: nothing is known against the packet, or it is dropped.
pub(super) const NEXT: [Instruction; 2] = [Instruction::set(R0, -1), Instruction::end()];
pub(super) const DROP: [Instruction; 2] = [Instruction::set(R0, 2), Instruction::end()];

/// What a program is asked about, once it has begun.
pub(super) const PACKET: Register = R6;

/// Begins a program. Packets of a virtual network come by a link of its own, but that of number 0 is this very network.
pub(super) fn begin() -> Vec<Instruction> {
    let begin =
        [Instruction::copy(PACKET, R1), Instruction::read_u32(R1, PACKET, VLAN), Instruction::and_number(R1, 0xfff)];
    [&begin[..], &Instruction::unless_equal(R1, 0, &NEXT)].concat()
}

/// The program, and where it is run.
#[derive(Debug)]
pub(super) struct CameIn {
    program: Program,
    /// By the number of the link.
    links: BTreeMap<u32, Attached>,
}

impl CameIn {
    /// At no link yet.
    ///
    /// # Errors
    /// When the kernel has no BPF, or does not let this process have a program.
    pub(super) fn load(name: &str, code: &[Instruction]) -> io::Result<CameIn> {
        Ok(CameIn { program: Program::load(Kind::CameIn, name, c"GPL", code)?, links: BTreeMap::new() })
    }

    /// At the links of this thread's network that are there by now, unless `own` says that they are the run's. Those
    /// that are new are handed to `keep`.
    ///
    /// # Errors
    /// When the kernel does not know how, as before Linux 6.6, and what `keep` says.
    pub(super) fn cover(
        &mut self,
        own: &dyn Fn(&Link) -> bool,
        mut keep: impl FnMut(&Attached) -> io::Result<()>,
    ) -> io::Result<()> {
        for link in Netlink::open()?.links()?.into_iter().filter(|link| !link.is_port && !own(link)) {
            if self.links.contains_key(&link.index) {
                continue;
            }
            let attached = match self.program.attach_to_link(link.index) {
                // It has gone meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                other => other?,
            };
            keep(&attached)?;
            self.links.insert(link.index, attached);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::in_own_network;

    #[test]
    fn a_port_of_a_bridge_is_left_to_the_bridge() {
        in_own_network(|| {
            let netlink = Netlink::open().unwrap();
            netlink.create_bridge("bridge", [2, 0, 0, 0, 0, 1]).unwrap();
            netlink.create_bridge("port", [2, 0, 0, 0, 0, 2]).unwrap();
            let other = crate::network::other_network();
            netlink.create_veth("ours", "theirs", std::os::fd::AsFd::as_fd(&other)).unwrap();
            netlink.enslave("ours", "bridge").unwrap();
            let mut came_in = CameIn::load("test", &NEXT).unwrap();
            let mut count = 0;
            let counted = |_: &Attached| {
                count += 1;
                Ok(())
            };
            if let Err(error) = came_in.cover(&|link| ["lo", "port"].contains(&link.name.as_str()), counted) {
                return println!("skipped: {error}");
            }
            assert_eq!(count, 1);
            let bridge = netlink.links().unwrap().into_iter().find(|link| link.name == "bridge").unwrap();
            assert!(came_in.links.contains_key(&bridge.index));
        });
    }
}
