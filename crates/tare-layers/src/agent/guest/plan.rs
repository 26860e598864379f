//! What a guest is told first, and how it sets itself up from it.

use super::super::serve;
use super::super::wire::{MESSAGE_MAX, Outcome, Reply, receive_line, send};
use super::{PORT_NAME, PROGRAM, PlacedStore, host};
use crate::network;
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::BufReader;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tare_core::bundle::Recipe;
use tare_core::fault::{Doing, Fault};
use tare_core::host::{Host, Layers, MachineServices, PlacedBundle, TrialContext};
use tare_core::telemetry::Prober;

/// How long a guest waits for a device that was promised to it.
const DEVICE_WITHIN: Duration = Duration::from_secs(20);

/// The whole configuration of a guest, sent to it as the first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPlan {
    /// The guest's address on the private bridge.
    pub address: Ipv4Addr,
    /// The length of the network's prefix, in bits.
    pub prefix: u8,
    /// The host's address on the bridge.
    pub gateway: Ipv4Addr,
    /// The MTU of its network card, bytes; none leaves it as it is.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// The disks with bundles.
    pub bundles: Vec<GuestDisk>,
    /// The serial of the disk that may be written to; it is mounted at `surroundings.scratch`.
    pub scratch: String,
    /// The surroundings as the guest's own host should see them.
    pub surroundings: TrialContext,
}

/// A disk that carries a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestDisk {
    /// The disk's serial number, by which the guest finds it; at most 20 characters.
    pub serial: String,
    /// The bundle's recipe.
    pub recipe: Recipe,
    /// The bundle's digest.
    pub digest: String,
    /// Whether the disk is the bundle's archive itself; otherwise it is a file system with the bundle's tree.
    pub archive: bool,
}

/// Stage 3: reads the plan from the line, follows it, serves.
pub(super) fn follow(prober: fn() -> Result<Box<dyn Prober>, Fault>, layers: Layers) -> Result<(), Fault> {
    let line = open_line()?;
    let mut reader = BufReader::new(line.try_clone().doing("use the agent's line for both directions")?);
    let mut writer = line;
    let plan = receive_plan(&mut reader)?;
    let ready = set_up(&plan, prober, layers);
    let outcome = Outcome::of(ready.as_ref().map(|_| ()).map_err(Clone::clone));
    send(&mut writer, &Reply { id: 0, outcome }).doing("answer the plan")?;
    serve(reader, writer, ready?)
}

fn receive_plan(reader: &mut BufReader<File>) -> Result<GuestPlan, Fault> {
    let deadline = Instant::now() + DEVICE_WITHIN;
    let mut line = Vec::new();
    // The port reads as ended until the hypervisor has told the guest that the other end is open.
    while !receive_line(reader, &mut line).doing(format!("read the plan (at most {MESSAGE_MAX} bytes)"))? {
        if Instant::now() >= deadline {
            return Err(Fault::new("nobody is at the other end of the agent's line"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    serde_json::from_slice(&line).doing("understand the plan")
}

fn set_up(
    plan: &GuestPlan,
    prober: fn() -> Result<Box<dyn Prober>, Fault>,
    layers: Layers,
) -> Result<Box<dyn Host>, Fault> {
    network::link_up_with_address("lo", Ipv4Addr::LOCALHOST, 8)?;
    wait_for(Path::new("/sys/class/net/eth0"), "network interface")?;
    if let Some(mtu) = plan.mtu {
        fs::write("/sys/class/net/eth0/mtu", mtu.to_string()).doing("set the MTU of the network card")?;
    }
    network::link_up_with_address("eth0", plan.address, plan.prefix)?;
    network::route_add(Ipv4Addr::UNSPECIFIED, 0, plan.gateway)?;
    let scratch = &plan.surroundings.scratch;
    mount_disk(&find_disk(&plan.scratch)?, scratch, MountFlags::empty())?;
    let mut placed = Vec::new();
    for disk in &plan.bundles {
        let device = find_disk(&disk.serial)?;
        let directory = PathBuf::from(format!("/bundles/{}", disk.serial));
        if !disk.archive {
            mount_disk(&device, &directory, MountFlags::RDONLY)?;
        }
        let archive = disk.archive.then_some(device);
        placed.push(PlacedBundle { recipe: disk.recipe.clone(), digest: disk.digest.clone(), directory, archive });
    }
    let bundles = Arc::new(PlacedStore::new(placed));
    let carrier = MachineServices { bundles, prober, program: PathBuf::from(PROGRAM), layers };
    host::open(Arc::new(carrier), &plan.surroundings)
}

/// Opens the port by its name; there is no udev here to create a link to it.
fn open_line() -> Result<File, Fault> {
    let deadline = Instant::now() + DEVICE_WITHIN;
    while Instant::now() < deadline {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().filter_map(Result::ok) {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            let device = Path::new("/dev").join(entry.file_name());
            if name.trim() == PORT_NAME && device.exists() {
                return File::options().read(true).write(true).open(device).doing("open the agent's line");
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(Fault::new("the guest has no virtio-serial port for its agent")
        .remedy("check that the guest's kernel has virtio_console and the bus that the machine type uses"))
}

/// The disk with this serial number.
fn find_disk(serial: &str) -> Result<PathBuf, Fault> {
    let deadline = Instant::now() + DEVICE_WITHIN;
    while Instant::now() < deadline {
        for entry in fs::read_dir("/sys/block").into_iter().flatten().filter_map(Result::ok) {
            let found = fs::read_to_string(entry.path().join("serial")).unwrap_or_default();
            let device = Path::new("/dev").join(entry.file_name());
            if found.trim() == serial && device.exists() {
                return Ok(device);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(Fault::new(format!("the guest does not see the disk '{serial}' that was attached to it")))
}

fn mount_disk(device: &Path, at: &Path, flags: MountFlags) -> Result<(), Fault> {
    fs::create_dir_all(at).doing(format!("make {}", at.display()))?;
    mount(device, at, "ext4", flags, None).doing(format!("mount {} on {}", device.display(), at.display()))
}

fn wait_for(path: &Path, what: &str) -> Result<(), Fault> {
    let deadline = Instant::now() + DEVICE_WITHIN;
    while !path.exists() {
        if Instant::now() >= deadline {
            return Err(Fault::new(format!("the guest got no {what} ({})", path.display())));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
