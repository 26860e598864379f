//! What a study may specify about a guest.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tare_core::config::{Fields, Node, NodeKind, Place, Problems};

/// The most guests of one form: as many as there are address ranges for what is in them, see [`super::wiring`].
pub(super) const GUESTS_MAX: u64 = 60;
/// QEMU's machine without PCI.
pub(super) const MICROVM: &str = "microvm";
/// The most virtual CPUs that it has.
pub(super) const MICROVM_CPUS_MAX: u32 = 288;
/// Memory that a guest gets in addition to its services' memory, for its kernel and the agent, in bytes.
pub(super) const RESERVE: u64 = 192 << 20;

/// The options of the layer `vm`, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmOptions {
    /// Virtual CPUs of each guest; `None` means what the services ask for.
    pub cpus: Option<u32>,
    /// Each guest's memory in bytes; `None` means what the services, the guest's own system and the inner layers need.
    pub memory: Option<u64>,
    /// How many guests of this kind there are; what is deployed is distributed among them.
    #[serde(default = "one")]
    pub guests: u32,
    /// QEMU's machine type: `q35`, `microvm` or `pc`.
    pub machine: String,
    /// `auto` (KVM where a guest really boots under it), `kvm` or `tcg`.
    pub accelerator: String,
    /// Whether the kernel moves the network packets: `auto`, `on` or `off`.
    pub vhost: String,
    /// Whether the guest's memory consists of huge pages, reserved beforehand.
    pub hugepages: bool,
    /// Whether each virtual CPU is bound to one CPU.
    pub pin: bool,
    /// How disks use the host's page cache: `none` bypasses it, `writeback` uses it, and `unsafe` also ignores the
    /// guest's flush requests. With `directsync`, which bypasses it, and `writethrough`, which does not, every write is
    /// on the disk before it is acknowledged.
    pub cache: String,
    /// Whether disks have their own I/O thread.
    pub iothread: bool,
    /// What backs the disk that the guest writes to, and so the services' volumes.
    #[serde(default)]
    pub disk: Carried,
    /// How QEMU hands I/O to the host's kernel: `threads`, `native` (only when bypassing the page cache), `io_uring`,
    /// or `auto`: `native` where possible.
    #[serde(default = "auto")]
    pub aio: String,
    /// What carries packets between the guest and this machine.
    // The usual one is not written down: forms of older records are still the same forms. So it is with the next.
    #[serde(default, skip_serializing_if = "Network::is_tap")]
    pub network: Network,
    /// Whether passt takes packets from the guest's memory itself (vhost-user) instead of from QEMU.
    #[serde(default, skip_serializing_if = "is_false")]
    pub vhost_user: bool,
}

/// What carries packets between a guest and this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// A tap device on a private bridge: the guest has a network card in a network of this machine's kernel.
    #[default]
    Tap,
    /// passt, a process that opens a socket of this machine for each of the guest's connections.
    Passt,
}

impl Network {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_tap(&self) -> bool {
        *self == Network::Tap
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What backs the guest's writable disk on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carried {
    /// A raw image file, with its space allocated at once.
    #[default]
    Raw,
    /// A qcow2 image, which grows as the guest writes.
    Qcow2,
    /// A block device that the user named. It is formatted for each guest, and only when there is nothing on it.
    Block(PathBuf),
}

fn one() -> u32 {
    1
}

fn auto() -> String {
    "auto".to_owned()
}

impl Default for VmOptions {
    fn default() -> Self {
        VmOptions {
            cpus: None,
            memory: None,
            guests: one(),
            machine: "q35".to_owned(),
            accelerator: "auto".to_owned(),
            vhost: "auto".to_owned(),
            hugepages: false,
            pin: true,
            cache: "none".to_owned(),
            iothread: false,
            disk: Carried::Raw,
            aio: auto(),
            network: Network::Tap,
            vhost_user: false,
        }
    }
}

impl VmOptions {
    /// Whether the machine is QEMU's `microvm`.
    pub(super) fn is_micro(&self) -> bool {
        self.machine == MICROVM
    }

    /// Whether disks must bypass the host's page cache.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.cache.as_str(), "none" | "directsync")
    }

    /// Whether a write is acknowledged only when it is on the disk.
    pub(super) fn is_through(&self) -> bool {
        matches!(self.cache.as_str(), "writethrough" | "directsync")
    }
}

/// Checks a user's options and fills in every default. Returns `None` if it has added problems.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<VmOptions> {
    let before = problems.len();
    let default = VmOptions::default();
    let mut fields = Fields::of(node, "layer 'vm'", problems)?;
    let guests = fields.integer("guests", 1..=GUESTS_MAX, problems).and_then(|guests| u32::try_from(guests).ok());
    let guests = guests.unwrap_or(default.guests);
    let cpus = fields.integer("cpus", 1..=1024, problems).and_then(|cpus| u32::try_from(cpus).ok());
    let memory_place = fields.get("memory").map(|node| node.place);
    let memory = fields.bytes("memory", problems);
    if let (Some(bytes), Some(place)) = (memory, memory_place)
        && bytes < RESERVE
    {
        let hint = format!("at least {} MiB, and what the services need", RESERVE >> 20);
        problems.add(place, "a guest cannot boot with so little memory", hint);
    }
    let mut word = |name, choices: &[&'static str], default: String| {
        fields.choice(name, choices, problems).map_or(default, str::to_owned)
    };
    let machine = word("machine", &["q35", MICROVM, "pc"], default.machine);
    let accelerator = word("accelerator", &["auto", "kvm", "tcg"], default.accelerator);
    let network = word("network", &["tap", "passt"], "tap".to_owned());
    let network = if network == "passt" { Network::Passt } else { Network::Tap };
    let vhost = word("vhost", &["auto", "on", "off"], default.vhost);
    let cache = word("cache", &["none", "writeback", "unsafe", "directsync", "writethrough"], default.cache);
    let aio = word("aio", &["auto", "threads", "native", "io_uring"], default.aio);
    let disk = fields.get("disk").and_then(|node| read_disk(node, problems)).unwrap_or_default();
    let vhost_user = fields.boolean("vhost_user", problems).unwrap_or(default.vhost_user);
    let hugepages = fields.boolean("hugepages", problems).unwrap_or(default.hugepages);
    let pin = fields.boolean("pin", problems).unwrap_or(default.pin);
    let iothread = fields.boolean("iothread", problems).unwrap_or(default.iothread);
    let mut place = |name| fields.get(name).map(|node| node.place);
    let places = Places {
        cpus: place("cpus"),
        disk: place("disk"),
        aio: place("aio"),
        vhost: place("vhost"),
        vhost_user: place("vhost_user"),
    };
    fields.finish(problems);
    let options = VmOptions {
        guests,
        cpus,
        memory,
        machine,
        accelerator,
        vhost,
        hugepages,
        pin,
        cache,
        iothread,
        disk,
        aio,
        network,
        vhost_user,
    };
    add_contradictions(&options, &places, problems);
    (problems.len() == before).then_some(options)
}

/// Where the options are that others may contradict.
struct Places {
    cpus: Option<Place>,
    disk: Option<Place>,
    aio: Option<Place>,
    vhost: Option<Place>,
    vhost_user: Option<Place>,
}

fn add_contradictions(options: &VmOptions, places: &Places, problems: &mut Problems) {
    let guests = options.guests;
    if let Some(place) = places.disk.filter(|_| guests > 1 && matches!(options.disk, Carried::Block(_))) {
        let message = format!("{guests} guests cannot write to one block device");
        problems.add(place, message, "use 'disk: raw' or 'disk: qcow2', for which each guest gets a file of its own");
    }
    let too_many = options.cpus.filter(|cpus| options.is_micro() && *cpus > MICROVM_CPUS_MAX);
    if let Some((place, cpus)) = places.cpus.zip(too_many) {
        let message = format!("QEMU's machine '{MICROVM}' cannot have {cpus} CPUs");
        problems.add(place, message, format!("at most {MICROVM_CPUS_MAX}, or use 'machine: q35'"));
    }
    if let Some(place) = places.aio.filter(|_| options.aio == "native" && !options.is_direct()) {
        let message =
            format!("'aio: native' and 'cache: {}' contradict each other: it goes past the cache", options.cache);
        problems.add(place, message, "use 'cache: none' or 'directsync', or 'aio: threads' or 'io_uring'");
    }
    let passt = options.network == Network::Passt;
    if let Some(place) = places.vhost.filter(|_| passt && options.vhost == "on") {
        let message = "'vhost: on' and 'network: passt' contradict each other: passt moves the packets, not the kernel";
        problems.add(place, message, "leave 'vhost' out, or use 'network: tap'");
    }
    if let Some(place) = places.vhost_user.filter(|_| !passt && options.vhost_user) {
        let message = "'vhost_user: true' says how passt gets at packets, and the network is a tap device";
        problems.add(place, message, "add 'network: passt', or use 'vhost: on', by which the kernel moves them");
    }
}

/// `raw`, `qcow2`, or `{block: /dev/...}`.
fn read_disk(node: &Node, problems: &mut Problems) -> Option<Carried> {
    if matches!(node.kind, NodeKind::Scalar { .. }) {
        let word = node.choice(&["raw", "qcow2"], problems)?;
        return Some(if word == "qcow2" { Carried::Qcow2 } else { Carried::Raw });
    }
    let (kind, place, value) = node.kind("a disk", problems)?;
    if kind != "block" {
        Node::unknown(kind, place, "kind of disk", &["block"], problems);
        return None;
    }
    let path = value.text(problems)?;
    let is_device = path.starts_with("/dev/") && !path.split('/').any(|part| part == "..") && !path.contains('\0');
    if !is_device {
        problems.add(value.place, format!("'{path}' names no device"), "write its path, such as /dev/nvme1n1");
        return None;
    }
    Some(Carried::Block(Path::new(&path).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::config;

    fn options(text: &str) -> Result<VmOptions, Vec<String>> {
        config::read("study.yaml", text, read).map_err(|told| told.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        assert_eq!(options("{}"), Ok(VmOptions::default()));
        let given = options("{cpus: 2, memory: 1GiB, hugepages: true, vhost: off, machine: microvm}").unwrap();
        let wanted = VmOptions {
            cpus: Some(2),
            memory: Some(1 << 30),
            hugepages: true,
            vhost: "off".to_owned(),
            machine: "microvm".to_owned(),
            ..VmOptions::default()
        };
        assert_eq!(given, wanted);
        let disk = |text: &str| options(text).unwrap().disk;
        assert_eq!(disk("disk: qcow2"), Carried::Qcow2);
        assert_eq!(disk("disk: {block: /dev/vdb}"), Carried::Block("/dev/vdb".into()));
        assert_eq!(options("guests: 8").unwrap().guests, 8);
        let given = options("{network: passt, vhost_user: true}").unwrap();
        assert_eq!((given.network, given.vhost_user), (Network::Passt, true));
        let given = options("{cache: directsync, aio: native}").unwrap();
        assert!(given.is_direct() && given.is_through());
    }

    #[test]
    fn options_of_before_there_was_a_choice_are_read() {
        let mut written = serde_json::to_value(VmOptions::default()).unwrap();
        written.as_object_mut().unwrap().retain(|key, _| !["guests", "disk", "aio"].contains(&key.as_str()));
        assert_eq!(serde_json::from_value::<VmOptions>(written).unwrap(), VmOptions::default());
    }

    #[test]
    fn what_cannot_be_is_told_with_what_can() {
        let cases = [
            ("disk: qcow", "did you mean 'qcow2'"),
            ("disk: {blok: /dev/vdb}", "did you mean 'block'"),
            ("disk: {block: /etc/passwd}", "names no device"),
            ("disk: {block: /dev/../etc/passwd}", "names no device"),
            ("{aio: native, cache: writeback}", "contradict each other"),
            ("{guests: 2, disk: {block: /dev/vdb}}", "2 guests cannot write to one block device"),
            ("guests: 61", "60"),
            ("network: pasta", "did you mean 'passt'"),
            ("{network: passt, vhost: on}", "contradict each other: passt moves the packets"),
            ("vhost_user: true", "add 'network: passt'"),
            ("{cpus: 289, machine: microvm}", "QEMU's machine 'microvm' cannot have 289 CPUs"),
        ];
        for (text, wanted) in cases {
            let found = options(text).unwrap_err().join("\n");
            assert!(found.contains(wanted), "{text}: {found}");
        }
    }

    #[test]
    fn every_mistake_is_found() {
        let found = options("{cpus: 0, memory: 16MiB, accelerator: turbo, cach: none}").unwrap_err();
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(found.iter().any(|text| text.contains("did you mean 'cache'?")), "{found:#?}");
    }
}
