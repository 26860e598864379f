//! The machine that QEMU is told to emulate: its command line, and nothing else.

use super::confinement::{SANDBOX, again, as_it_is};
use super::options::{MICROVM_CPUS_MAX, VmOptions};
use super::size::Size;
use serde_json::json;
use std::fs::File;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// The processor itself.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

impl Engine {
    /// Its name in facts and on QEMU's command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Engine::Kvm => "kvm",
            Engine::Tcg => "tcg",
        }
    }

    /// Kernel arguments for the guest that follow from it. An emulated processor has none of the flaws that kernels
    /// guard against, and each guard costs it a look-up of translated code.
    fn kernel_arguments(self) -> &'static str {
        match self {
            Engine::Kvm => "",
            Engine::Tcg => "mitigations=off ",
        }
    }
}

/// A disk of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disk {
    /// Identifies the disk to the guest.
    pub(super) serial: String,
    /// The file or block device behind it.
    pub(super) file: PathBuf,
    /// Whether the file is a qcow2 image; otherwise the disk is the file itself.
    pub(super) image: bool,
    /// Whether the guest may not write to it.
    pub(super) read_only: bool,
    /// Whether the host's page cache is bypassed; needs a file system that supports this.
    pub(super) direct: bool,
    /// Whether the guest's flush requests are ignored.
    pub(super) careless: bool,
    /// Whether a write is acknowledged only when it is on the disk.
    pub(super) through: bool,
}

impl Disk {
    /// Opens the file or device behind it, for QEMU.
    ///
    /// # Errors
    /// When this process may not.
    pub(super) fn open(&self) -> Result<File, Fault> {
        let opened = File::options().read(true).write(!self.read_only).open(&self.file);
        opened.doing(format!("open the guest's disk {}", self.file.display()))
    }

    /// How QEMU hands its I/O to the kernel, where `wanted` is what the user asked for.
    pub(super) fn aio<'a>(&self, wanted: &'a str) -> &'a str {
        match wanted {
            // It is only asynchronous when bypassing the page cache.
            "auto" | "native" => {
                if self.direct {
                    "native"
                } else {
                    "threads"
                }
            }
            other => other,
        }
    }
}

/// How many disks a guest of this machine can have: each is a virtio device, as are its network card and its agent's
/// line. On PCI these are the slots that the machine itself leaves free. With ACPI, which brings it a second interrupt
/// controller, QEMU's `microvm` has 24 places for such devices.
fn most_disks(options: &VmOptions) -> usize {
    const OTHERS: usize = 2;
    let places = if options.is_micro() { 24 } else { 30 };
    places - OTHERS
}

/// Whether the guest's machine has room for this many disks.
///
/// # Errors
/// That it has not.
pub(super) fn takes_disks(options: &VmOptions, disks: usize) -> Result<(), Fault> {
    let most = most_disks(options);
    if disks <= most {
        return Ok(());
    }
    let message = format!(
        "a guest of the machine type '{}' has room for {most} disks, and this one needs {disks}: one for each bundle \
         in it, and one to write to",
        options.machine
    );
    let usual = VmOptions::default();
    let remedy = if most_disks(&usual) >= disks {
        format!("use 'machine: {}', or more 'guests:', so that each holds fewer services", usual.machine)
    } else {
        "use more 'guests:', so that each holds fewer services".to_owned()
    };
    Err(Fault::new(message).remedy(remedy))
}

/// Whether the guest's machine can have this many CPUs.
///
/// # Errors
/// That it cannot.
pub(super) fn takes_cpus(options: &VmOptions, cpus: u32) -> Result<(), Fault> {
    if !options.is_micro() || cpus <= MICROVM_CPUS_MAX {
        return Ok(());
    }
    let message = format!("a guest of the machine type '{}' cannot have {cpus} CPUs", options.machine);
    Err(Fault::new(message).remedy(format!("give it at most {MICROVM_CPUS_MAX} by 'cpus:', or use 'machine: q35'")))
}

/// Everything that makes up the command line.
pub(super) struct QemuMachine<'a> {
    /// The machine's name, as process lists show it.
    pub(super) name: String,
    pub(super) options: &'a VmOptions,
    pub(super) engine: Engine,
    /// Kernel arguments about the guest's clock, each followed by a space.
    pub(super) clock: &'a str,
    /// The processor model that the guest sees.
    pub(super) cpu: &'a str,
    pub(super) size: &'a Size,
    pub(super) disks: &'a [Disk],
    /// The guest's MAC address.
    pub(super) hardware: String,
    /// Whether QEMU has a system call filter.
    pub(super) sandbox: bool,
    pub(super) open: Open,
}

/// What it is handed open, by file number.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) kernel: RawFd,
    pub(super) initial: RawFd,
    /// One for each disk.
    pub(super) disks: Vec<RawFd>,
    pub(super) card: Card,
    /// Where the serial console's output goes.
    pub(super) console: RawFd,
    /// The agent's line and the control line.
    pub(super) agent: RawFd,
    pub(super) control: RawFd,
}

/// The host's end of the network card, by file number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Card {
    /// A tap device, and the kernel's packet mover (vhost) if it is to be used.
    Tap { tap: RawFd, vhost: Option<RawFd> },
    /// A connection to passt, for frames.
    Stream(RawFd),
    /// A socket at which passt is asked to share the guest's memory.
    VhostUser(RawFd),
}

/// The kernel's command line. A panic ends the guest at once (with `-no-reboot`) instead of leaving it hanging. The
/// kernel passes the word that it does not know, `agent`, to the first process.
pub(super) const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 rdinit=/init agent";

impl QemuMachine<'_> {
    /// QEMU's arguments.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut out = Arguments(Vec::new());
        out.pair("-name", &self.name);
        out.flag("-nodefaults").flag("-no-user-config").flag("-no-reboot").flag("-S");
        out.pair("-display", "none");
        self.board(&mut out);
        if self.sandbox {
            out.pair("-sandbox", SANDBOX);
        }
        out.pair("-kernel", again(self.open.kernel)).pair("-initrd", again(self.open.initial));
        out.pair("-append", format!("{}{}{KERNEL_ARGUMENTS}", self.engine.kernel_arguments(), self.clock));
        let console = out.open(self.open.console);
        out.pair("-chardev", format!("file,id=console,path={console}"));
        out.pair("-serial", "chardev:console");
        out.pair("-chardev", format!("socket,id=control,fd={}", self.open.control));
        out.pair("-mon", "chardev=control,mode=control");
        out.pair("-chardev", format!("socket,id=agent,fd={}", self.open.agent));
        out.pair("-device", self.device("virtio-serial", "id=line"));
        out.pair("-device", format!("virtserialport,bus=line.0,chardev=agent,name={}", crate::agent::PORT_NAME));
        if self.options.iothread {
            out.pair("-object", "iothread,id=disks");
        }
        for (at, (disk, open)) in self.disks.iter().zip(&self.open.disks).enumerate() {
            self.disk(at, disk, *open, &mut out);
        }
        self.netdev(&mut out);
        // No option ROM: the guest boots from -kernel, and the ROM file is in another package.
        let rom = if self.options.is_micro() { "" } else { ",romfile=" };
        // QEMU 7.2 crashes where an emulated guest has several interrupts that another process raises.
        let shared = matches!(self.open.card, Card::VhostUser(_));
        let plain = shared && self.engine == Engine::Tcg && !self.options.is_micro();
        let vectors = if plain { ",vectors=0" } else { "" };
        out.pair("-device", self.device("virtio-net", &format!("netdev=net,mac={}{rom}{vectors}", self.hardware)));
        out.0
    }

    fn board(&self, out: &mut Arguments) {
        let extra = match self.options.machine.as_str() {
            // The guest never uses these devices, and finding them costs it time.
            "q35" => ",usb=off,vmport=off,smbus=off,sata=off,hpet=off",
            "pc" => ",usb=off,vmport=off,hpet=off",
            // With ACPI, which the kernel needs to find the virtio devices.
            _ => ",acpi=on,isa-serial=on,rtc=on",
        };
        let mib = self.size.memory >> 20;
        let nodes = &self.size.nodes;
        // Another process can share only what has a descriptor.
        let shared = matches!(self.open.card, Card::VhostUser(_));
        let own = self.options.hugepages || shared || !nodes.is_empty();
        let memory = if own { ",memory-backend=memory" } else { "" };
        out.pair("-machine", format!("{},accel={}{extra}{memory}", self.options.machine, self.engine.name()));
        if self.options.is_micro() {
            // Devices of virtio 1, as those on PCI Express are, instead of those of the drafts before it.
            out.pair("-global", "virtio-mmio.force-legacy=off");
        }
        out.pair("-cpu", self.cpu);
        out.pair("-smp", format!("{0},sockets=1,cores={0},threads=1", self.size.cpus));
        out.pair("-m", format!("{mib}M"));
        let bound: String = nodes.iter().map(|node| format!(",host-nodes={node}")).collect();
        let bound = if nodes.is_empty() { bound } else { bound + ",policy=bind" };
        if self.options.hugepages || shared {
            let huge = if self.options.hugepages { ",hugetlb=on,prealloc=on" } else { "" };
            let shared = if shared { ",share=on" } else { "" };
            out.pair("-object", format!("memory-backend-memfd,id=memory,size={mib}M{huge}{shared}{bound}"));
        } else if !nodes.is_empty() {
            out.pair("-object", format!("memory-backend-ram,id=memory,size={mib}M{bound}"));
        }
    }

    fn netdev(&self, out: &mut Arguments) {
        let netdev = match self.open.card {
            Card::Tap { tap, vhost } => {
                let vhost = vhost.map_or("vhost=off".to_owned(), |number| format!("vhost=on,vhostfd={number}"));
                format!("tap,id=net,fd={tap},{vhost}")
            }
            Card::Stream(line) => format!("stream,id=net,server=off,addr.type=fd,addr.str={line}"),
            Card::VhostUser(socket) => {
                out.pair("-chardev", format!("socket,id=passt,path={}", again(socket)));
                "vhost-user,id=net,chardev=passt".to_owned()
            }
        };
        out.pair("-netdev", netdev);
    }

    fn disk(&self, at: usize, disk: &Disk, open: RawFd, out: &mut Arguments) {
        let path = out.open(open);
        let file = json!({
            "driver": if is_block_device(&disk.file) { "host_device" } else { "file" },
            "filename": path,
            // One file is a disk of several guests, none of which may write to it.
            "locking": "off",
            "aio": disk.aio(&self.options.aio),
            "cache": {"direct": disk.direct, "no-flush": disk.careless},
            "auto-read-only": false,
            "read-only": disk.read_only,
        });
        let node = json!({
            "driver": if disk.image { "qcow2" } else { "raw" },
            "node-name": format!("disk{at}"),
            "read-only": disk.read_only,
            "cache": {"direct": disk.direct, "no-flush": disk.careless},
            "file": file,
        });
        out.pair("-blockdev", node.to_string());
        let thread = if self.options.iothread { ",iothread=disks" } else { "" };
        let through = if disk.through { ",write-cache=off" } else { "" };
        let properties = format!("drive=disk{at},serial={}{thread}{through}", disk.serial);
        out.pair("-device", self.device("virtio-blk", &properties));
    }

    /// A virtio device on the bus that this machine has.
    fn device(&self, kind: &str, properties: &str) -> String {
        let bus = if self.options.is_micro() { "device" } else { "pci" };
        format!("{kind}-{bus},{properties}")
    }
}

struct Arguments(Vec<String>);

impl Arguments {
    fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.to_owned());
        self
    }

    fn pair(&mut self, flag: &str, value: impl Into<String>) -> &mut Self {
        self.0.extend([flag.to_owned(), value.into()]);
        self
    }

    /// Hands over an open file; returns the path that refers to it.
    fn open(&mut self, number: RawFd) -> String {
        let (path, set) = as_it_is(number);
        self.pair("-add-fd", set);
        path
    }
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_block_device())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::options::{Carried, Network};
    use tare_core::units::CpuSet;

    fn arguments(options: &VmOptions) -> String {
        arguments_on(options, &[])
    }

    fn arguments_on(options: &VmOptions, nodes: &[u32]) -> String {
        let nodes = nodes.iter().copied().collect();
        let size = Size { on: CpuSet::new([1, 2]), cpus: 2, free: false, memory: 300 << 20, nodes, disk: 1 << 30 };
        let disk = |serial: &str, read_only: bool| Disk {
            serial: serial.to_owned(),
            file: format!("/d/{serial}").into(),
            image: !read_only && options.disk == Carried::Qcow2,
            read_only,
            direct: options.is_direct(),
            careless: false,
            through: !read_only && options.is_through(),
        };
        let machine = QemuMachine {
            name: "tare-abc123-t1".to_owned(),
            options,
            engine: Engine::Tcg,
            clock: if options.is_micro() { "tsc=reliable tsc_early_khz=2100000 " } else { "" },
            cpu: "max",
            size: &size,
            disks: &[disk("b0", true), disk("scratch", false)],
            hardware: "02:00:00:00:00:01".to_owned(),
            sandbox: true,
            open: Open {
                kernel: 3,
                initial: 4,
                disks: vec![5, 6],
                card: match options.network {
                    Network::Tap => Card::Tap { tap: 7, vhost: (options.vhost == "on").then_some(8) },
                    Network::Passt if options.vhost_user => Card::VhostUser(7),
                    Network::Passt => Card::Stream(7),
                },
                console: 9,
                agent: 10,
                control: 11,
            },
        };
        machine.arguments().join(" ")
    }

    #[test]
    fn the_machine_is_as_asked_for() {
        let text = arguments(&VmOptions::default());
        for part in [
            "-name tare-abc123-t1",
            "-m 300M",
            "-smp 2,",
            "-sandbox on,",
            "-kernel /proc/self/fd/3 -initrd /proc/self/fd/4",
            "tap,id=net,fd=7,vhost=off",
            "-add-fd fd=6,set=6",
            "\"filename\":\"/dev/fdset/6\"",
            "-add-fd fd=9,set=9 -chardev file,id=console,path=/dev/fdset/9",
            "socket,id=agent,fd=10",
            "-cpu max",
            "-append mitigations=off",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(text.contains("virtio-blk-pci,drive=disk1,serial=scratch"));
        assert!(!text.contains("tsc") && !text.contains("virtio-mmio"), "{text}");
        assert_eq!(text.matches("\"read-only\":true").count(), 2, "{text}");
        let by_the_kernel = arguments(&VmOptions { vhost: "on".to_owned(), ..VmOptions::default() });
        assert!(by_the_kernel.contains("fd=7,vhost=on,vhostfd=8"), "{by_the_kernel}");
    }

    #[test]
    fn memory_comes_from_the_nodes_that_are_named() {
        assert!(!arguments(&VmOptions::default()).contains("memory-backend"));
        let bound = arguments_on(&VmOptions::default(), &[0, 2]);
        assert!(bound.contains("memory-backend=memory"), "{bound}");
        let object = "-object memory-backend-ram,id=memory,size=300M,host-nodes=0,host-nodes=2,policy=bind";
        assert!(bound.contains(object), "{bound}");
        let huge = arguments_on(&VmOptions { hugepages: true, ..VmOptions::default() }, &[1]);
        assert!(huge.contains("prealloc=on,host-nodes=1,policy=bind") && !huge.contains("-ram,"), "{huge}");
    }

    #[test]
    fn passt_is_reached_by_a_connection_or_shares_memory() {
        let by = |vhost_user, hugepages| {
            arguments(&VmOptions { network: Network::Passt, vhost_user, hugepages, ..VmOptions::default() })
        };
        let frames = by(false, false);
        assert!(frames.contains("-netdev stream,id=net,server=off,addr.type=fd,addr.str=7 -device virtio-net-pci"));
        assert!(!frames.contains("memory-backend") && !frames.contains("vectors"), "{frames}");
        assert!(!frames.contains("vhost"), "{frames}");
        let shared = by(true, false);
        for part in [
            ",memory-backend=memory",
            "-object memory-backend-memfd,id=memory,size=300M,share=on",
            "-chardev socket,id=passt,path=/proc/self/fd/7 -netdev vhost-user,id=net,chardev=passt",
            ",romfile=,vectors=0",
        ] {
            assert!(shared.contains(part), "{part} is missing in {shared}");
        }
        assert!(by(true, true).contains("size=300M,hugetlb=on,prealloc=on,share=on"));
    }

    #[test]
    fn disks_are_carried_as_asked_for() {
        let usual = arguments(&VmOptions::default());
        assert!(usual.contains("\"aio\":\"native\"") && !usual.contains("qcow2") && !usual.contains("write-cache"));
        let of = |cache: &str, aio: &str, disk| {
            arguments(&VmOptions { cache: cache.to_owned(), aio: aio.to_owned(), disk, ..VmOptions::default() })
        };
        let image = of("writethrough", "native", Carried::Qcow2);
        assert_eq!(image.matches("\"driver\":\"qcow2\"").count(), 1, "{image}");
        assert!(
            image.contains("serial=scratch,write-cache=off") && !image.contains("serial=b0,write-cache"),
            "{image}"
        );
        assert!(image.contains("\"aio\":\"threads\"") && image.contains("\"direct\":false"), "{image}");
        let through = of("directsync", "io_uring", Carried::Raw);
        assert!(through.contains("\"aio\":\"io_uring\"") && through.contains("\"direct\":true"), "{through}");
    }

    #[test]
    fn a_micro_machine_has_no_pci() {
        let options =
            VmOptions { machine: "microvm".to_owned(), hugepages: true, iothread: true, ..VmOptions::default() };
        let text = arguments(&options);
        assert!(!text.contains("-pci") && !text.contains("romfile"), "{text}");
        for part in [
            "-machine microvm,accel=tcg,acpi=on,isa-serial=on,rtc=on,memory-backend=memory",
            "-global virtio-mmio.force-legacy=off",
            "-append mitigations=off tsc=reliable tsc_early_khz=2100000 console=ttyS0",
            "-device virtio-serial-device,id=line -device virtserialport,bus=line.0,chardev=agent",
            "-device virtio-blk-device,drive=disk0,serial=b0,iothread=disks",
            "-device virtio-blk-device,drive=disk1,serial=scratch,iothread=disks",
            "-device virtio-net-device,netdev=net,mac=02:00:00:00:00:01",
            "hugetlb=on",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }

    #[test]
    fn a_machine_has_room_for_so_many_disks_and_cpus() {
        let on = |machine: &str| VmOptions { machine: machine.to_owned(), ..VmOptions::default() };
        for (machine, most) in [("microvm", 22), ("q35", 28), ("pc", 28)] {
            assert_eq!(takes_disks(&on(machine), most), Ok(()));
            let fault = takes_disks(&on(machine), most + 1).unwrap_err();
            assert!(fault.message.contains(&format!("room for {most} disks")), "{fault}");
            assert_eq!(fault.remedy.contains("machine: q35"), machine == "microvm", "{fault}");
        }
        assert!(!takes_disks(&on("microvm"), 29).unwrap_err().remedy.contains("q35"), "nor has that room for them");
        assert_eq!((takes_cpus(&on("microvm"), 288), takes_cpus(&on("q35"), 300)), (Ok(()), Ok(())));
        let fault = takes_cpus(&on("microvm"), 289).unwrap_err();
        assert!(fault.message.contains("289 CPUs") && fault.remedy.contains("at most 288"), "{fault}");
    }
}
