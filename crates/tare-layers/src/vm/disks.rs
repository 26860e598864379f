//! The guest's disks: bundles it reads, and one it writes to.

use super::block::{self, Claim};
use super::machine::Disk;
use super::options::{Carried, VmOptions};
use crate::agent::GuestDisk;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tare_core::bundle::Recipe;
use tare_core::fault::{Doing, Fault};
use tare_core::host::{GuestNeeds, MachineServices, TrialContext};
use tare_core::workload::Service;

/// The serial number of the disk that the guest writes to.
pub(super) const SCRATCH: &str = "scratch";
/// The file behind it, and the image that is made from that if an image was requested.
pub(super) const RAW_FILE: &str = "guest-scratch.img";
pub(super) const IMAGE_FILE: &str = "guest-scratch.qcow2";

/// A guest's disks, as described to QEMU and to the guest.
pub(super) struct Disks {
    pub(super) machine: Vec<Disk>,
    pub(super) guest: Vec<GuestDisk>,
    /// The device that backs the writable disk, if the user named one.
    pub(super) claim: Option<Claim>,
}

/// The disks for what will be started in the guest and for the layers opened there.
///
/// # Errors
/// When a bundle cannot be had as a disk, or the writable disk cannot be made.
pub(super) fn of(
    carrier: &MachineServices,
    options: &VmOptions,
    surroundings: &TrialContext,
    needs: &[GuestNeeds],
    writable: u64,
) -> Result<Disks, Fault> {
    let wanted = bundles(surroundings.services.iter().map(|start| &start.service), needs);
    let mut disks = Disks { machine: Vec::new(), guest: Vec::new(), claim: None };
    for (at, (recipe, archive)) in wanted.into_iter().enumerate() {
        let bundle = carrier.bundles.bundle(recipe)?;
        let file = if archive { bundle.archive()? } else { bundle.disk()? };
        let serial = format!("bundle{at}");
        disks.machine.push(disk(&serial, file, true, options));
        disks.guest.push(GuestDisk { serial, recipe: recipe.clone(), digest: bundle.digest().to_owned(), archive });
    }
    let raw = surroundings.scratch.join(RAW_FILE);
    let file = match &options.disk {
        Carried::Raw => {
            make_raw(&raw, writable)?;
            raw
        }
        Carried::Qcow2 => {
            let image = surroundings.scratch.join(IMAGE_FILE);
            let made = make_image(&raw, &image, writable);
            let _ = fs::remove_file(&raw);
            made?;
            image
        }
        Carried::Block(device) => {
            let claim = block::examine(device, writable)?;
            // The program that makes a file system on it must find it unclaimed.
            let empty = claim.let_go();
            format(device, Some(writable))?;
            disks.claim = Some(empty.claim_again()?);
            device.clone()
        }
    };
    disks.machine.push(disk(SCRATCH, file, false, options));
    Ok(disks)
}

/// How many disks a guest has that holds these services: those of bundles, and the one that it writes to.
pub(super) fn count<'a>(services: impl Iterator<Item = &'a Service>, needs: &'a [GuestNeeds]) -> usize {
    bundles(services, needs).len() + 1
}

/// The bundles that the guest has as disks, each once, and whether as archives.
fn bundles<'a>(services: impl Iterator<Item = &'a Service>, needs: &'a [GuestNeeds]) -> Vec<(&'a Recipe, bool)> {
    let archives = needs.iter().any(|needs| needs.archives);
    let services = services.map(|service| (&service.recipe, archives));
    let layers = needs.iter().flat_map(|needs| needs.bundles.iter().map(|recipe| (recipe, false)));
    let mut wanted: Vec<(&Recipe, bool)> = Vec::new();
    for bundle in services.chain(layers) {
        if !wanted.contains(&bundle) {
            wanted.push(bundle);
        }
    }
    wanted
}

fn disk(serial: &str, file: PathBuf, read_only: bool, options: &VmOptions) -> Disk {
    let direct = options.is_direct() && takes_direct(&file);
    let image = !read_only && options.disk == Carried::Qcow2;
    let (careless, through) = (options.cache == "unsafe", !read_only && options.is_through());
    Disk { serial: serial.to_owned(), file, image, read_only, direct, careless, through }
}

/// Whether the file can be read past the page cache; a tmpfs, for example, cannot.
fn takes_direct(file: &Path) -> bool {
    // Whole sectors only: direct I/O cannot read half a sector.
    let whole = fs::metadata(file).is_ok_and(|meta| meta.len() % 512 == 0 || !meta.is_file());
    whole && File::options().read(true).custom_flags(libc::O_DIRECT).open(file).is_ok()
}

/// Makes an empty file system in a file. Space is allocated at once if possible, so that the guest's first write to a
/// block costs the same as every later one.
fn make_raw(file: &Path, bytes: u64) -> Result<(), Fault> {
    /// Anything larger is left sparse: it is room for engines, not for what is measured.
    const SET_ASIDE_MAX: u64 = 2 << 30;
    let made = make_sparse(file, bytes)?;
    if bytes <= SET_ASIDE_MAX {
        // Some file systems cannot; the file then stays sparse, which only costs time.
        let _ = rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, bytes);
    }
    drop(made);
    format(file, None)
}

fn make_sparse(file: &Path, bytes: u64) -> Result<File, Fault> {
    let made = File::create(file).doing(format!("make the guest's disk {}", file.display()))?;
    made.set_len(bytes).doing("size the guest's disk")?;
    Ok(made)
}

/// Makes an image with an empty file system in it, by way of the file `raw`. The image contains only what was written
/// to it, so the guest's first write to a block has to allocate it: that is the cost of this kind of disk.
fn make_image(raw: &Path, image: &Path, bytes: u64) -> Result<(), Fault> {
    drop(make_sparse(raw, bytes)?);
    format(raw, None)?;
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-f", "raw", "-O", "qcow2"]).arg(raw).arg(image);
    run(convert, "qemu-utils")
}

/// Makes an empty ext4 in a file, or in the first `bytes` of a device.
fn format(place: &Path, bytes: Option<u64>) -> Result<(), Fault> {
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-F", "-t", "ext4", "-m", "0", "-L", block::LABEL, "-U", block::UUID, "-E"]);
    // Nothing is left for the guest to do in the background, where it would disturb the measurement.
    make.arg("nodiscard,lazy_itable_init=0,lazy_journal_init=0").arg(place);
    make.args(bytes.map(|bytes| format!("{}k", bytes >> 10)));
    run(make, "e2fsprogs")
}

fn run(mut command: Command, package: &str) -> Result<(), Fault> {
    let program = command.get_program().to_string_lossy().into_owned();
    let made = command
        .stdin(Stdio::null())
        .output()
        .doing(format_args!("run {program} for the guest's disk"))
        .map_err(|fault| fault.remedy(format!("apt-get install {package}")))?;
    if made.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&made.stderr).into_owned();
    Err(Fault::new(format!("{program} could not make the guest's disk")).with_log(log))
}

#[cfg(test)]
mod tests {
    use super::super::Vm;
    use super::*;
    use tare_core::bundle::Source;
    use tare_core::host::Layer;

    fn of(package: &str) -> Service {
        let recipe = Recipe::plain(Source::Packages(vec![package.to_owned()]));
        Service { recipe, ..crate::sample::service(package) }
    }

    #[test]
    fn more_bundles_than_a_machine_has_room_for_take_more_guests() {
        let services: Vec<Service> = (1..=22).map(|number| of(&format!("p{number}"))).collect();
        let on = |machine: &str, guests| {
            let options = VmOptions { machine: machine.to_owned(), guests, ..VmOptions::default() };
            Vm::fits(&options, &services)
        };
        let fault = on("microvm", 1).unwrap_err();
        assert!(fault.message.contains("needs 23") && fault.remedy.contains("guests:"), "{fault}");
        assert_eq!((on("microvm", 2), on("q35", 1)), (Ok(()), Ok(())));
    }

    #[test]
    fn services_of_one_bundle_share_a_disk() {
        let services = [of("a"), of("b"), of("a")];
        assert_eq!(count(services.iter(), &[]), 3);
        let engine = GuestNeeds { bundles: vec![of("e").recipe], archives: true, ..GuestNeeds::default() };
        assert_eq!(count(services.iter(), &[engine]), 4);
    }
}
