//! passt carries a guest's network without a device of this machine's kernel: an unprivileged process that ends the
//! guest's TCP and UDP, and has an ordinary socket of this machine for each of its connections.
//!
//! It exchanges frames with QEMU by a socket, or takes packets from the guest's memory itself (vhost-user). On this
//! machine it listens at the guest's own address, at the ports of the services in it; from outside, nothing differs
//! from a guest at a bridge.

use super::confinement::{Cell, Handed, OwnUser, again};
use super::leftovers;
use super::machine::Card;
use super::options::{Network, VmOptions};
use super::wiring::Plug;
use crate::local::logs::{self, Keeper};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::workload::USUAL_PATH;

/// The MTU that passt offers to guests by DHCP, which ours do not ask, bytes: packets of nearly 64 KiB make up for a
/// line that carries no hints for segmentation.
pub(super) const MTU: u32 = 65_520;
/// What it says goes here, in the guest's scratch directory.
pub(super) const LOG: &str = "guest-passt.log";
/// The program.
const PROGRAM: &str = "passt";
/// How long QEMU may take until it asks for passt.
const MEET_WITHIN: Duration = Duration::from_secs(20);

/// passt on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passt {
    program: PathBuf,
    /// As it reports it, or else as its package has it.
    pub(super) version: String,
    /// Whether it can take packets from a guest's memory.
    vhost_user: bool,
    /// Whether it must be told to write to its standard error; newer versions do.
    told_where: bool,
}

impl Passt {
    /// Finds passt on this machine.
    ///
    /// # Errors
    /// When it is not installed or does not run.
    pub(super) fn find() -> Result<Passt, Fault> {
        let program = crate::environment::path().into_iter().map(|dir| dir.join(PROGRAM)).find(|path| path.is_file());
        let program = program.ok_or_else(|| {
            Fault::new("passt is not installed, so no guest can have 'network: passt'")
                .remedy("apt-get install passt, or use 'network: tap'")
        })?;
        let help = Command::new(&program).arg("--help").stdin(Stdio::null()).output().doing("ask passt what it can")?;
        // Where it goes differs from version to version.
        let help = [help.stdout, help.stderr].concat();
        let offers = |option: &str| String::from_utf8_lossy(&help).split_whitespace().any(|word| word == option);
        let (vhost_user, told_where) = (offers("--vhost-user"), offers("--stderr"));
        let version = version(&program);
        Ok(Passt { program, version, vhost_user, told_where })
    }

    /// The passt that the options ask for, if they ask for one.
    ///
    /// # Errors
    /// When there is none that can do what they ask for.
    pub(super) fn wanted(options: &VmOptions) -> Result<Option<Passt>, Fault> {
        if options.network != Network::Passt {
            return Ok(None);
        }
        let passt = Passt::find()?;
        if options.vhost_user && !passt.vhost_user {
            let message =
                format!("passt {} has no option --vhost-user, so it cannot share a guest's memory", passt.version);
            let remedy = "install passt 2024_11_27 or newer, such as Debian 13's, or leave 'vhost_user' out";
            return Err(Fault::new(message).remedy(remedy));
        }
        Ok(Some(passt))
    }

    /// The facts of a guest whose network it carries as the options say.
    pub(super) fn facts(&self, options: &VmOptions) -> [(&'static str, String); 2] {
        let network = if options.vhost_user { "passt by vhost-user" } else { "passt" };
        [("network", network.to_owned()), ("passt", self.version.clone())]
    }

    /// What can be asked of it here, for people.
    pub(super) fn ways() -> Vec<String> {
        let Ok(passt) = Passt::find() else { return Vec::new() };
        let more = if passt.vhost_user { ", vhost_user: true" } else { "" };
        vec![format!("network: passt (passt {}{more})", passt.version)]
    }

    /// Starts it for a guest in this cell, which was handed its line to QEMU.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(&self, service: &Service<'_>, cell: Cell) -> Result<Running, Fault> {
        let mut keeper = Keeper::default();
        // Append mode: output goes after what is there, wherever the end is by then.
        let log = File::options().create(true).append(true).open(&service.log).doing("make passt's log")?;
        keeper.keep(log.try_clone().doing("share passt's log")?);
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", USUAL_PATH);
        leftovers::mark_passt(service.run, service.guest, &mut command);
        command.args(self.arguments(service));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let user = cell.user();
        // SAFETY: what runs between fork and exec makes only system calls; it neither allocates nor takes locks.
        unsafe { command.pre_exec(move || cell.enter()) };
        let child = command.spawn().doing(format!("start {}", self.program.display()))?;
        Ok(Running { child, log: service.log.clone(), _keeper: keeper, _user: user })
    }

    fn arguments(&self, service: &Service<'_>) -> Vec<String> {
        let Service { plug, gateway, bridge, .. } = service;
        let [_, b, c, d] = gateway.octets();
        let pairs = [
            ("--fd", service.line.to_string()),
            ("--interface", (*bridge).to_owned()),
            ("--address", plug.address.to_string()),
            ("--netmask", super::wiring::PREFIX.to_string()),
            ("--gateway", gateway.to_string()),
            ("--mac-addr", format!("02:7a:72:{b:02x}:{c:02x}:{d:02x}")),
            ("--dns", "none".to_owned()),
            ("--search", "none".to_owned()),
        ];
        let ports: Vec<String> = service.ports.iter().map(u16::to_string).collect();
        let at = format!("{}/{}", plug.address, ports.join(","));
        let forwarded = ["--tcp-ports", "--udp-ports"].map(|option| (option, at.clone()));
        let pairs = pairs.into_iter().chain(forwarded.into_iter().filter(|_| !ports.is_empty()));
        // The guest sets itself up; what it sends to the gateway is not for this machine's loopback.
        let flags = ["--foreground", "--ipv4-only", "--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra", "--no-map-gw"];
        let more = [("--stderr", self.told_where), ("--vhost-user", service.vhost_user)];
        let flags = flags.into_iter().chain(more.into_iter().filter(|(_, is)| *is).map(|(flag, _)| flag));
        flags.map(str::to_owned).chain(pairs.flat_map(|(option, value)| [option.to_owned(), value])).collect()
    }
}

/// What passt is to do for one guest.
pub(super) struct Service<'a> {
    pub(super) run: &'a str,
    /// The guest's name.
    pub(super) guest: &'a str,
    pub(super) plug: &'a Plug,
    pub(super) gateway: Ipv4Addr,
    /// The link that has the guest's address on this machine.
    pub(super) bridge: &'a str,
    /// The ports that are forwarded to the guest, in both protocols.
    pub(super) ports: BTreeSet<u16>,
    pub(super) vhost_user: bool,
    /// The number of its line to QEMU.
    pub(super) line: RawFd,
    /// The file for what it says.
    pub(super) log: PathBuf,
}

/// A running passt. Dropping it kills it.
pub(super) struct Running {
    child: Child,
    log: PathBuf,
    _keeper: Keeper,
    /// Goes to another guest once this one has ended.
    _user: OwnUser,
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Why the guest has no network any more, if it has ended.
    ///
    /// # Errors
    /// When its state cannot be told.
    pub(super) fn ended(&mut self) -> Result<Option<Fault>, Fault> {
        let Some(status) = self.child.try_wait().doing("ask for passt's state")? else { return Ok(None) };
        let words = words(&logs::tail(&self.log).unwrap_or_default());
        let last = words.lines().last().map_or(String::new(), |line| format!(": {line}"));
        let fault = Fault::new(format!("the guest has no network any more: passt ended ({status}){last}"));
        Ok(Some(fault.with_log(words)))
    }

    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// passt's end of its line to QEMU.
pub(super) enum Line {
    /// A connection that QEMU has the other end of.
    Joined(UnixStream),
    /// A socket that QEMU connects to: it passes descriptors of the guest's memory only by connections of its own.
    Awaited(UnixListener),
}

impl Line {
    /// Makes the line: QEMU's end is handed to it, and this end is returned.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn make(vhost_user: bool, scratch: &Path, handed: &mut Handed) -> Result<(Card, Line), Fault> {
        if !vhost_user {
            let (near, far) = UnixStream::pair().doing("make passt's line")?;
            return Ok((Card::Stream(handed.add(far)), Line::Joined(near)));
        }
        let listener = listen(scratch, handed).doing("make passt's socket")?;
        Ok((Card::VhostUser(listener.1), Line::Awaited(listener.0)))
    }

    /// passt's end, once QEMU is at the other one.
    ///
    /// # Errors
    /// When QEMU, which is this user, does not come, or what `alive` says of it.
    pub(super) fn joined(self, qemu: &OwnUser, mut alive: impl FnMut() -> Result<(), Fault>) -> Result<OwnedFd, Fault> {
        let listener = match self {
            Line::Joined(near) => return Ok(near.into()),
            Line::Awaited(listener) => listener,
        };
        let deadline = Instant::now() + MEET_WITHIN;
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let peer = rustix::net::sockopt::socket_peercred(&stream).doing("see who asks for passt")?;
                    if peer.uid.as_raw() == qemu.number() {
                        return Ok(stream.into());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    alive()?;
                    if Instant::now() > deadline {
                        return Err(Fault::new("QEMU does not ask for passt, which is to carry the guest's network"));
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(Fault::from_error("wait until QEMU asks for passt", &error)),
            }
        }
    }
}

/// A socket without a name that QEMU, to which it is handed, connects to by its number.
fn listen(scratch: &Path, handed: &mut Handed) -> io::Result<(UnixListener, RawFd)> {
    // By way of the folder's number, since names of sockets are short.
    let folder = File::open(scratch)?;
    let path = PathBuf::from(again(folder.as_raw_fd())).join("passt.socket");
    let listener = UnixListener::bind(&path)?;
    let open = || {
        listener.set_nonblocking(true)?;
        // QEMU is another user; nobody else has its number, and who connects is looked at.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        Ok(rustix::fs::open(path.as_path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    };
    let opened: io::Result<OwnedFd> = open();
    fs::remove_file(&path)?;
    let number = handed.add(opened?);
    Ok((listener, number))
}

/// What it says of its version, or its package does; "unknown" where neither does.
fn version(program: &Path) -> String {
    // Some versions lose what they have not written when they end, unless they write line by line.
    let mut command = Command::new("stdbuf");
    command.arg("-oL").arg(program).arg("--version").stdin(Stdio::null());
    let said = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    version_in(&said).or_else(|| package_version(program)).unwrap_or_else(|| "unknown".to_owned())
}

fn version_in(said: &str) -> Option<String> {
    let version = said.lines().find_map(|line| line.strip_prefix("passt "))?.trim();
    // Packages built without knowing it say so.
    (!version.is_empty() && !version.starts_with("unknown")).then(|| version.to_owned())
}

fn package_version(program: &Path) -> Option<String> {
    if !program.starts_with("/usr/bin") && !program.starts_with("/bin") {
        return None;
    }
    let said = Command::new("dpkg-query").args(["--show", "--showformat=${Version}", PROGRAM]).output().ok()?;
    let version = String::from_utf8(said.stdout).ok()?.trim().to_owned();
    (said.status.success() && !version.is_empty()).then_some(version)
}

/// What it says, without what it says of the system's log, which it cannot reach.
fn words(log: &str) -> String {
    let lines = log.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let own = lines.filter(|line| !(line.starts_with("Failed to send ") && line.ends_with(" to syslog")));
    own.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(ports: &[u16], vhost_user: bool) -> Vec<String> {
        let plug = Plug {
            tap: "tabc123v".to_owned(),
            address: Ipv4Addr::new(10, 99, 100, 2),
            hardware: "02:74:0a:63:64:02".to_owned(),
            third_octets: (16, 32),
        };
        let service = Service {
            run: "abc123",
            guest: "tare-abc123-t1",
            plug: &plug,
            gateway: Ipv4Addr::new(10, 99, 100, 1),
            bridge: "tabc123b",
            ports: ports.iter().copied().collect(),
            vhost_user,
            line: 7,
            log: "/s/guest-passt.log".into(),
        };
        let passt = Passt { program: "/p".into(), version: "1".to_owned(), vhost_user, told_where: !vhost_user };
        passt.arguments(&service)
    }

    #[test]
    fn it_listens_at_the_guests_address_for_its_services_alone() {
        let text = service(&[6379, 80], false).join(" ");
        for part in [
            "--foreground --ipv4-only",
            "--no-map-gw",
            "--fd 7",
            "--interface tabc123b",
            "--address 10.99.100.2 --netmask 24 --gateway 10.99.100.1 --mac-addr 02:7a:72:63:64:01",
            "--tcp-ports 10.99.100.2/80,6379 --udp-ports 10.99.100.2/80,6379",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(text.contains("--stderr") && !text.contains("vhost"), "{text}");
        let text = service(&[], true).join(" ");
        assert!(text.contains("--vhost-user") && !text.contains("-ports") && !text.contains("--stderr"), "{text}");
    }

    #[test]
    fn a_version_is_what_is_known_of_it() {
        let said = "passt 0.0~git20250503.587980c-2\nCopyright Red Hat\n";
        assert_eq!(version_in(said).as_deref(), Some("0.0~git20250503.587980c-2"));
        for nothing in ["passt unknown version\nCopyright Red Hat\n", "", "passt \n"] {
            assert_eq!(version_in(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn its_last_words_are_its_own() {
        let log =
            "Failed to send 41 bytes to syslog\nTemplate interface: tb (IPv4)\n\nFailed to send 3 bytes to syslog";
        assert_eq!(words(log), "Template interface: tb (IPv4)");
    }

    #[test]
    fn only_its_qemu_gets_a_line_that_shares_memory() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let mut handed = Handed::default();
        let (card, line) = Line::make(true, folder.path(), &mut handed).unwrap();
        let Card::VhostUser(number) = card else { panic!("{card:?}") };
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
        let qemu = Cell::new(false, &Handed::default(), None).unwrap().user();
        // Root, which QEMU is not.
        let stranger = UnixStream::connect(again(number)).unwrap();
        let ours = crate::network::as_user(qemu.number(), || UnixStream::connect(again(number)).unwrap());
        let far = line.joined(&qemu, || Ok(())).unwrap();
        assert_eq!(rustix::io::write(&far, b"x").unwrap(), 1);
        let mut byte = [0];
        io::Read::read_exact(&mut &ours, &mut byte).unwrap();
        drop(stranger);
    }
}
