//! The guest's disks: bundles it reads, and one it writes to.

use super::machine::Disk;
use super::options::VmOptions;
use crate::agent::GuestDisk;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tare_core::bundle::Recipe;
use tare_core::fault::{Doing, Fault};
use tare_core::host::{Carrier, GuestNeeds, Surroundings};

/// The serial of the disk that the guest writes to.
pub(super) const SCRATCH: &str = "scratch";

/// The disks of a guest, as QEMU and as the guest is told of them.
pub(super) struct Disks {
    pub(super) machine: Vec<Disk>,
    pub(super) guest: Vec<GuestDisk>,
}

/// The disks for what will be started in the guest and for the layers opened there.
///
/// # Errors
/// When a bundle cannot be had as a disk, or the writable disk not be made.
pub(super) fn of(
    carrier: &Carrier,
    options: &VmOptions,
    surroundings: &Surroundings,
    needs: &[GuestNeeds],
    writable: u64,
) -> Result<Disks, Fault> {
    let archives = needs.iter().any(|needs| needs.archives);
    let mut wanted: Vec<(&Recipe, bool)> = Vec::new();
    let services = surroundings.services.iter().map(|start| (&start.service.recipe, archives));
    let layers = needs.iter().flat_map(|needs| needs.bundles.iter().map(|recipe| (recipe, false)));
    for (recipe, archive) in services.chain(layers) {
        if !wanted.contains(&(recipe, archive)) {
            wanted.push((recipe, archive));
        }
    }
    let mut disks = Disks { machine: Vec::new(), guest: Vec::new() };
    for (at, (recipe, archive)) in wanted.into_iter().enumerate() {
        let bundle = carrier.bundles.bundle(recipe)?;
        let file = if archive { bundle.archive()? } else { bundle.disk()? };
        let serial = format!("bundle{at}");
        disks.machine.push(disk(&serial, file, true, options));
        disks.guest.push(GuestDisk { serial, recipe: recipe.clone(), digest: bundle.digest().to_owned(), archive });
    }
    let file = surroundings.scratch.join("guest-scratch.img");
    make_writable(&file, writable)?;
    disks.machine.push(disk(SCRATCH, file, false, options));
    Ok(disks)
}

fn disk(serial: &str, file: PathBuf, read_only: bool, options: &VmOptions) -> Disk {
    let direct = options.cache == "none" && takes_direct(&file);
    Disk { serial: serial.to_owned(), file, read_only, direct, careless: options.cache == "unsafe" }
}

/// Whether the file can be read past the page cache; a tmpfs, for one, cannot.
fn takes_direct(file: &Path) -> bool {
    // Whole sectors only: past the cache there is no such thing as half of one.
    let whole = fs::metadata(file).is_ok_and(|meta| meta.len() % 512 == 0);
    whole && File::options().read(true).custom_flags(libc::O_DIRECT).open(file).is_ok()
}

/// Makes an empty file system in a file. Space is set aside at once where that works, so that the guest's first write
/// to a block costs what every later one does.
fn make_writable(file: &Path, bytes: u64) -> Result<(), Fault> {
    /// More than this is left sparse: it is room for engines, not for what is measured.
    const SET_ASIDE_MAX: u64 = 2 << 30;
    let made = File::create(file).doing(format!("make the guest's disk {}", file.display()))?;
    made.set_len(bytes).doing("size the guest's disk")?;
    if bytes <= SET_ASIDE_MAX {
        // File systems that cannot leave the file sparse, which only costs time.
        let _ = rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, bytes);
    }
    drop(made);
    let made = Command::new("mke2fs")
        .args(["-q", "-F", "-t", "ext4", "-m", "0", "-L", "scratch", "-E"])
        // Nothing is left for the guest to do in the background, where it would disturb the measurement.
        .arg("nodiscard,lazy_itable_init=0,lazy_journal_init=0")
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .doing("run mke2fs for the guest's disk")
        .map_err(|fault| fault.remedy("apt-get install e2fsprogs"))?;
    if made.status.success() {
        return Ok(());
    }
    let log = String::from_utf8_lossy(&made.stderr).into_owned();
    Err(Fault::new("mke2fs could not make the guest's disk").with_log(log))
}
