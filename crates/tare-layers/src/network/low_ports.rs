//! Ports below 1024, where services from images often listen, and where only root may unless the machine says
//! otherwise.
//!
//! Engines let everybody listen there in a container's own network. To let a service do the same in every form, without
//! giving it a capability in any, a BPF program is asked before each bind on this machine: it lets a service's user
//! bind the ports that its workload declares, and allows nobody anything else. The machine's own bound stays as it is.
//! Where such programs are not available, the bound is lowered for the duration of the run, and this is reported.

use super::closed::call;
use super::doors::{ALLOW, this_network};
use crate::cgroup::hierarchies;
use crate::settings;
use std::io;
use std::path::Path;
use tare_bpf::Register::{self, R0, R1, R6, R7, R10};
use tare_bpf::{Attached, Function, Instruction, Kind, Map, Program};
use tare_core::fault::{Doing, Fault};

const BOUND: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
/// The kernel's bound where nobody has set another.
pub(crate) const USUAL_BOUND: u16 = 1024;
/// How many ports may be allowed at once.
const ALLOWED_MAX: u32 = 16_384;

/// The offset in `struct bpf_sock_addr` of the requested port, in network byte order.
const ASKED: i16 = 24;
/// Where the program keeps its query on the stack: the port, and above it the user.
const WHO: i16 = -8;
/// Ends a program: the bind is allowed as if by root.
const ALLOW_LOW: [Instruction; 2] = [Instruction::set(R0, 3), Instruction::end()];

/// Which user of this machine a service's processes run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserHere {
    /// The service's own.
    Same,
    /// Another one that its engine uses instead, in a user namespace.
    Another,
    /// Whoever its image has: it is root in there, and may become any other user.
    Several,
}

impl UserHere {
    /// Why what its processes bind cannot be told by a user; `None` when it can.
    pub(super) fn why_not_told(self) -> Option<String> {
        match self {
            UserHere::Same => None,
            UserHere::Another => Some("its engine gives it another user".to_owned()),
            UserHere::Several => Some("it has all users of its image".to_owned()),
        }
    }
}

/// Services' low ports in this machine's network, allowed for as long as this is kept.
#[derive(Debug, Default)]
pub(crate) struct LowPorts(Option<Allowed>);

#[derive(Debug)]
struct Allowed {
    /// The network in which each port is allowed, by port and user.
    table: Map<u64, u64>,
    network: u64,
    _at_each_bind: [Attached; 2],
}

impl LowPorts {
    /// Lets a user, which the service is here or not, listen at those of these ports in this thread's network that are
    /// low. The return value is for the record: whom else this has let listen there. Closing the mark of `run` undoes
    /// it.
    ///
    /// # Errors
    /// When the machine's bound cannot be read or written where it has to be.
    pub(crate) fn allow(
        &mut self,
        run: &str,
        ports: impl Iterator<Item = u16>,
        (user, here): (u32, UserHere),
    ) -> Result<String, Fault> {
        let parsed = |text: String| text.trim().parse::<u16>().ok();
        let now = parsed(std::fs::read_to_string(BOUND).doing("see at which ports services may listen")?);
        let Some(now) = now else { return Ok(String::new()) };
        let bound = settings::before(run, Path::new(BOUND)).and_then(parsed).unwrap_or(now);
        let low: Vec<u16> = ports.filter(|port| *port < bound).collect();
        let Some(lowest) = low.iter().min() else { return Ok(String::new()) };
        let refused = here.why_not_told().or_else(|| self.allow_here(&low, user).err().map(|error| error.to_string()));
        let everybody = |from, why: &str| format!("; everybody on this machine may listen from port {from} on: {why}");
        let Some(why) = refused else {
            // The bound stays lowered until the run ends, and each deployment until then says so.
            let why = "an earlier service of this run needed it";
            return Ok(if now < bound { everybody(now, why) } else { String::new() });
        };
        if *lowest < now {
            settings::change(run, Path::new(BOUND), &lowest.to_string())
                .map_err(|fault| fault.context(format!("let a service listen at port {lowest}")))?;
        }
        Ok(everybody(now.min(*lowest), &why))
    }

    fn allow_here(&mut self, ports: &[u16], user: u32) -> io::Result<()> {
        if self.0.is_none() {
            self.0 = Some(Allowed::open()?);
        }
        let allowed = self.0.as_ref().expect("it was opened right before");
        ports.iter().try_for_each(|port| allowed.table.insert(key(*port, user), allowed.network))
    }

    /// Takes back what a service was allowed.
    pub(super) fn take_back(&mut self, ports: impl Iterator<Item = u16>, user: u32) {
        let Some(allowed) = &self.0 else { return };
        for port in ports {
            // What was not allowed needs nothing more.
            let _ = allowed.table.remove(key(port, user));
        }
    }
}

impl Allowed {
    /// Allows nothing yet.
    ///
    /// # Errors
    /// When no version 2 cgroups are mounted as a whole, the kernel has no such programs, as before Linux 5.14, or
    /// another one is attached there exclusively.
    fn open() -> io::Result<Allowed> {
        let (root, table, network) = (hierarchies::root_of_all()?, Map::new(ALLOWED_MAX)?, this_network()?);
        let at = |kind| Program::load(kind, "tare_low_ports", c"GPL", &code(&table))?.attach_to_cgroup(&root);
        Ok(Allowed { _at_each_bind: [at(Kind::Bind4)?, at(Kind::Bind6)?], table, network })
    }
}

/// A port and a user, combined as the program combines them.
fn key(port: u16, user: u32) -> u64 {
    u64::from(user) << 32 | u64::from(port.to_be())
}

/// In words: `if table[port, user] == socket.network { allow low ports } else { as usual }`.
fn code(table: &Map<u64, u64>) -> Vec<Instruction> {
    const BIND: Register = R6;
    const NETWORK: Register = R7;
    [
        &[
            Instruction::copy(BIND, R1),
            Instruction::call(Function::GroupAndUser),
            Instruction::write_u32(R10, WHO + 4, R0),
            Instruction::read_u32(R1, BIND, ASKED),
            Instruction::write_u32(R10, WHO, R1),
        ][..],
        &call(Function::LookUp, table, WHO, WHO),
        &Instruction::if_equal(R0, 0, &ALLOW),
        &[
            Instruction::read_u64(NETWORK, R0, 0),
            Instruction::copy(R1, BIND),
            Instruction::call(Function::Network),
            Instruction::skip_if_same(R0, NETWORK, 2),
        ],
        &ALLOW,
        &ALLOW_LOW,
    ]
    .concat()
}

/// Lets everybody listen at every port of this thread's network, which is ours alone.
pub(crate) fn allow_all_ports() {
    // If the kernel has no bound, nothing changes, and the service reports what it may not do.
    let _ = std::fs::write(BOUND, "0");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{as_inside, as_user, in_own_network, other_network};
    use crate::run_mark::RunMark;
    use std::net::{TcpListener, UdpSocket};

    /// A user id that nobody has.
    const USER: u32 = 95_010;

    /// At which of these ports a user may bind, with every protocol and family: all of them or none.
    fn may(user: u32, ports: [u16; 3]) -> [bool; 3] {
        let one = |port: u16| {
            let places = [format!("0.0.0.0:{port}"), format!("[::1]:{port}")];
            let bound = places.each_ref().map(|place| (TcpListener::bind(place), UdpSocket::bind(place)));
            let went = bound.iter().flat_map(|(stream, datagrams)| [stream.is_ok(), datagrams.is_ok()]);
            let went: Vec<bool> = went.collect();
            assert!(went.iter().all(|one| *one == went[0]), "{user} at {port}: {went:?}");
            went[0]
        };
        as_user(user, || ports.map(one))
    }

    #[test]
    fn a_user_alone_may_listen_at_the_ports_that_are_its_own() {
        in_own_network(|| {
            let (ports, all) = ([80, 443, 81], [80, 443, 8080]);
            assert_eq!(may(USER, ports), [false; 3]);
            let mut low = LowPorts::default();
            let said = low.allow("none00", all.into_iter(), (USER, UserHere::Same)).unwrap();
            if !said.is_empty() {
                return println!("skipped: {said}");
            }
            assert_eq!(may(USER, ports), [true, true, false]);
            assert_eq!(may(USER + 1, ports), [false; 3], "another user");
            assert_eq!(as_inside(&other_network(), || may(USER, ports)), [false; 3], "another network");
            assert_eq!(std::fs::read_to_string(BOUND).unwrap().trim(), "1024", "the machine's own bound");
            low.take_back([80].into_iter(), USER);
            assert_eq!(may(USER, ports), [false, true, false]);
            drop(low);
            assert_eq!(may(USER, ports), [false; 3]);
        });
    }

    #[test]
    fn a_user_that_nobody_knows_needs_the_machine_s_bound() {
        in_own_network(|| {
            let mark = RunMark::create("b01db2").unwrap();
            let mut low = LowPorts::default();
            let mut allow = |ports: &[u16]| low.allow(mark.run(), ports.iter().copied(), (USER, UserHere::Another));
            assert_eq!(allow(&[8080]).unwrap(), "");
            let said = allow(&[443, 90]).unwrap();
            assert!(said.contains("from port 90 on: its engine"), "{said}");
            assert_eq!(may(USER, [89, 90, 443]), [false, true, true]);
            let again = allow(&[443]).unwrap();
            assert!(again.contains("from port 90 on: its engine"), "of each deployment: {again}");
            mark.close().unwrap();
            assert_eq!(std::fs::read_to_string(BOUND).unwrap().trim(), "1024", "it was put back");
        });
    }
}
