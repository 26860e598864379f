//! Keeps part of the disk free when something is unpacked, because others use it too.

use rustix::fd::AsFd;
use rustix::fs::StatVfs;
use std::fs::File;
use std::io::Write;
use tare_core::fault::{Doing, Fault};
use tare_core::units::show_bytes;

/// A twentieth of a disk, and of its inodes, stays free, up to the following limits.
const FREE_PART: u64 = 20;
/// The most that stays free, bytes.
const FREE_BYTES: u64 = 1 << 30;
/// The most inodes that stay free.
const FREE_INODES: u64 = 10_000;
/// The disk, in words.
const FULL: &str = "on the disk where bundles are kept";

/// The largest archive of an image, bytes, and how many bytes are written between two checks of the disk.
const ARCHIVE_MAX: u64 = 128 << 30;
const STEP: u64 = 4 << 20;

/// A file for an archive of an image. Writing fails at a size that no image has, or when the disk is almost full.
pub(crate) struct Roomy {
    file: File,
    taken: u64,
    looked_for: u64,
    refused: Option<Fault>,
}

impl Roomy {
    /// Writes to `file`.
    pub(crate) fn new(file: File) -> Roomy {
        Roomy { file, taken: 0, looked_for: 0, refused: None }
    }

    /// Why writing failed, if it did.
    pub(crate) fn refused(self) -> Option<Fault> {
        self.refused
    }

    fn admit(&mut self, bytes: u64) -> Result<(), Fault> {
        self.taken += bytes;
        if self.taken > ARCHIVE_MAX {
            return Err(Fault::new("its archive is larger than 128 GiB"));
        }
        if self.taken > self.looked_for {
            check(&self.file, STEP.max(bytes))?;
            self.looked_for = self.taken + STEP;
        }
        Ok(())
    }
}

impl Write for Roomy {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Err(fault) = self.admit(bytes.len() as u64) {
            self.refused = Some(fault);
            return Err(std::io::Error::other("there is no room for it"));
        }
        self.file.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Fails when `bytes` more and one file more would leave too little free on the disk that holds `place`.
pub(crate) fn check(place: impl AsFd, bytes: u64) -> Result<(), Fault> {
    let disk = rustix::fs::fstatvfs(place).doing(format_args!("see what is free {FULL}"))?;
    check_of(&disk, bytes)
}

fn check_of(disk: &StatVfs, bytes: u64) -> Result<(), Fault> {
    let remedy = "free some space (`tare bundle list`, `tare clean --all`), or put TARE_HOME on another disk";
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let stays = (disk.f_blocks.saturating_mul(disk.f_frsize) / FREE_PART).min(FREE_BYTES);
    if bytes.saturating_add(stays) > free {
        let (bytes, free, stays) = (show_bytes(bytes), show_bytes(free), show_bytes(stays));
        let message = format!("{bytes} more are needed {FULL}; {free} are free, of which {stays} are kept free");
        return Err(Fault::new(message).remedy(remedy).as_disk_full());
    }
    // File systems without a fixed number of inodes report none.
    let stays = (disk.f_files / FREE_PART).min(FREE_INODES);
    if disk.f_files > 0 && disk.f_favail <= stays {
        let free = disk.f_favail;
        let message = format!("one more file is needed {FULL}; {free} inodes are free, of which {stays} are kept free");
        return Err(Fault::new(message).remedy(remedy).as_disk_full());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_disk_stays_free() {
        let here = std::fs::File::open(".").unwrap();
        let own = rustix::fs::fstatvfs(&here).unwrap();
        let disk = |blocks: u64, free: u64, files: u64, free_files: u64| {
            let blocks = blocks << 20 >> 12;
            let free = free << 20 >> 12;
            StatVfs { f_frsize: 4096, f_blocks: blocks, f_bavail: free, f_files: files, f_favail: free_files, ..own }
        };
        assert!(check_of(&disk(1 << 20, 5 << 10, 9, 9), 4 << 30).is_ok());
        let told = check_of(&disk(1 << 20, 5 << 10, 9, 9), (4 << 30) + 1).unwrap_err();
        assert!(told.message.contains("5 GiB are free, of which 1 GiB") && told.disk_full, "{told}");
        assert!(told.remedy.contains("TARE_HOME"), "{told}");
        assert!(check_of(&disk(100, 10, 0, 0), 5 << 20).is_ok());
        assert!(check_of(&disk(100, 10, 0, 0), (5 << 20) + 1).is_err());
        assert!(check_of(&disk(100, 10, 0, 0), u64::MAX).is_err());
        let told = check_of(&disk(100, 50, 1000, 50), 0).unwrap_err();
        assert!(told.message.contains("50 inodes are free, of which 50") && told.disk_full, "{told}");
        assert!(check_of(&disk(100, 50, 1000, 51), 0).is_ok());
    }
}
