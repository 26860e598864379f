//! A program that runs on what comes in by links of this machine's network, except the loopback and the run's own
//! links, so that the load does not pass through it. A port of a bridge or a bond is left to the device that it belongs
//! to.

use super::pinned::Pinned;
use crate::netlink::{Link, Netlink};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use tare_bpf::Register::{self, R0, R1, R6};
use tare_bpf::{Attached, Instruction, Kind, Program};

/// The offset in `struct __sk_buff` of the virtual network (VLAN) that a packet claims.
const VLAN: i16 = 24;

/// Protocols of packets, in network byte order.
pub(super) const IPV4: i32 = 0x0800_u16.to_be() as i32;
pub(super) const IPV6: i32 = 0x86dd_u16.to_be() as i32;
/// Their offset in `struct __sk_buff`.
pub(super) const PROTOCOL: i16 = 16;

/// Ends a program: the packet passes on, or it is dropped.
pub(super) const NEXT: [Instruction; 2] = [Instruction::set(R0, -1), Instruction::end()];
pub(super) const DROP: [Instruction; 2] = [Instruction::set(R0, 2), Instruction::end()];

/// What a program is asked about, once it has started.
pub(super) const PACKET: Register = R6;

/// Begins a program. VLAN packets come in by a link of their own, except that VLAN 0 is this very network.
pub(super) fn begin() -> Vec<Instruction> {
    let begin =
        [Instruction::copy(PACKET, R1), Instruction::read_u32(R1, PACKET, VLAN), Instruction::and_number(R1, 0xfff)];
    [&begin[..], &Instruction::unless_equal(R1, 0, &NEXT)].concat()
}

/// The program, and where it runs.
#[derive(Debug)]
pub(super) struct CameIn {
    program: Program,
    /// By link number: what is attached there, and the name that keeps it attached.
    links: BTreeMap<u32, (Attached, Option<PathBuf>)>,
}

impl CameIn {
    /// Attached to no link yet.
    ///
    /// # Errors
    /// When the kernel has no BPF, or does not let this process load a program.
    pub(super) fn load(name: &str, code: &[Instruction]) -> io::Result<CameIn> {
        Ok(CameIn { program: Program::load(Kind::CameIn, name, c"GPL", code)?, links: BTreeMap::new() })
    }

    /// Attaches to the links that this thread's network has by now, except those that `own` says are the run's, and
    /// detaches from all others: those that have become ports, have moved elsewhere or are the run's. `pinned` names
    /// what is new.
    ///
    /// # Errors
    /// When the kernel cannot do it, as before Linux 6.6; the other links are covered then.
    pub(super) fn cover(&mut self, own: &dyn Fn(&Link) -> bool, mut pinned: Option<&mut Pinned>) -> io::Result<()> {
        let links = Netlink::open()?.links()?;
        let wanted: BTreeSet<u32> =
            links.iter().filter(|link| !link.is_port && !own(link)).map(|link| link.index).collect();
        let mut went = Ok(());
        // When a link has gone between two looks, another may have its number.
        let stands = |(index, (attached, _)): (&u32, &(Attached, _))| {
            wanted.contains(index) && attached.is_at_a_link().unwrap_or(true)
        };
        for left in self.links.iter().filter(|link| !stands(*link)).map(|(index, _)| *index).collect::<Vec<_>>() {
            if let Some((_, Some(name))) = self.links.remove(&left) {
                went = went.and(std::fs::remove_file(name));
            }
        }
        for index in wanted {
            if self.links.contains_key(&index) {
                continue;
            }
            let mut attach = || {
                let attached = self.program.attach_to_link(index)?;
                let name = pinned.as_mut().map(|pinned| pinned.add(&attached)).transpose()?;
                Ok::<_, io::Error>((attached, name))
            };
            match attach() {
                Ok(attached) => _ = self.links.insert(index, attached),
                // It has gone in the meantime.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => went = went.and(Err(error)),
            }
        }
        went
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::in_own_network;

    #[test]
    fn a_link_that_has_the_number_of_one_that_has_gone_is_covered_too() {
        in_own_network(|| {
            let netlink = Netlink::open().unwrap();
            netlink.create_bridge_as(77, "first", [2, 0, 0, 0, 0, 1]).unwrap();
            let mut came_in = CameIn::load("test", &NEXT).unwrap();
            let own = |link: &Link| link.name == "lo";
            if let Err(error) = came_in.cover(&own, None) {
                return println!("skipped: {error}");
            }
            let stands = |came_in: &CameIn| came_in.links[&77].0.is_at_a_link().unwrap();
            assert!(stands(&came_in));
            netlink.delete("first").unwrap();
            netlink.create_bridge_as(77, "second", [2, 0, 0, 0, 0, 2]).unwrap();
            assert!(!stands(&came_in), "nothing has looked yet");
            came_in.cover(&own, None).unwrap();
            assert!(stands(&came_in));
        });
    }

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
            let own = |link: &Link| ["lo", "port"].contains(&link.name.as_str());
            if let Err(error) = came_in.cover(&own, None) {
                return println!("skipped: {error}");
            }
            let index = |name: &str| netlink.links().unwrap().into_iter().find(|link| link.name == name).unwrap().index;
            let covered = |came_in: &CameIn| came_in.links.keys().copied().collect::<Vec<_>>();
            assert_eq!(covered(&came_in), [index("bridge")]);
            // A new one is a link like any other until it is a port, as those of containers are.
            netlink.create_veth("late", "other", std::os::fd::AsFd::as_fd(&other)).unwrap();
            came_in.cover(&own, None).unwrap();
            assert_eq!(covered(&came_in), [index("bridge"), index("late")]);
            netlink.enslave("late", "bridge").unwrap();
            came_in.cover(&own, None).unwrap();
            assert_eq!(covered(&came_in), [index("bridge")]);
            netlink.delete("bridge").unwrap();
            came_in.cover(&own, None).unwrap();
            assert!(covered(&came_in).contains(&index("late")), "it stands alone again");
        });
    }
}
