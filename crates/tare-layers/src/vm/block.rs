//! A block device that the user named for the guest's writable disk. It is formatted, so it must hold nothing, and
//! nobody else may use it; while a guest has it, it is claimed, and afterwards it is empty again.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tare_core::fault::{Doing, Fault};

/// The label of a writable disk's file system.
pub(super) const LABEL: &str = "tare-scratch";
/// The UUID that identifies a file system left by a dead run, and no other.
pub(super) const UUID: &str = "74617265-0d15-4c0f-9a6e-5c2a7c4be901";
/// How many bytes at the start must be zero, and are zero again when a guest returns the device. Everything that
/// identifies file systems and partition tables is there.
const START: usize = 1 << 20;
/// The exit code by which blkid says that it recognises nothing there.
const NOTHING: i32 = 2;

/// A device that nobody else can mount, format or claim for as long as this is kept.
#[derive(Debug)]
pub(super) struct Claim {
    device: PathBuf,
    file: File,
}

/// A device that was claimed, and will be claimed again.
#[derive(Debug)]
pub(super) struct Released(PathBuf);

impl Released {
    /// # Errors
    /// When somebody was faster.
    pub(super) fn claim_again(self) -> Result<Claim, Fault> {
        claim(&self.0)
    }
}

impl Claim {
    /// Releases the device.
    pub(super) fn let_go(self) -> Released {
        Released(self.device)
    }

    /// Erases what identifies the file system, and releases the device: it is as it was found.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub(super) fn empty(mut self) -> Result<(), Fault> {
        let zeros = vec![0; START];
        let written = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.write_all(&zeros));
        written.and_then(|()| self.file.sync_all()).doing(format_args!("empty {}", self.device.display()))
    }
}

/// Checks whether a device may be formatted and has room for `bytes`; claims it.
///
/// # Errors
/// When it is not a block device, too small, in use, or holds anything but what a dead run left.
pub(super) fn examine(device: &Path, bytes: u64) -> Result<Claim, Fault> {
    let shown = device.display();
    let kind = std::fs::metadata(device).doing(format_args!("look at {shown}"))?.file_type();
    if !kind.is_block_device() {
        return Err(Fault::new(format!("{shown} is no block device"))
            .remedy("name a device under 'block:', or write 'disk: raw' for a file that Tare makes"));
    }
    let mut claim = claim(device)?;
    let there = claim.file.seek(SeekFrom::End(0)).doing(format_args!("ask for the size of {shown}"))?;
    if there < bytes.max(START as u64) {
        let message = format!("{shown} has {} MiB, the guest's disk needs {}", there >> 20, bytes.div_ceil(1 << 20));
        return Err(Fault::new(message).remedy("name a larger device, or give the services smaller volumes"));
    }
    match content(&mut claim)? {
        None => Ok(claim),
        Some(content) => Err(Fault::new(format!(
            "{shown} holds {content}, and Tare formats no device that holds anything"
        ))
        .remedy(format!(
            "name another device; or, if nothing on it is needed, empty it: wipefs --all {shown}, then \
                 dd if=/dev/zero of={shown} bs=1M count=1"
        ))),
    }
}

fn claim(device: &Path) -> Result<Claim, Fault> {
    let shown = device.display();
    // For a block device, "exclusively" means: not while it is mounted, swapped to or part of another device.
    let opened = File::options().read(true).write(true).custom_flags(libc::O_EXCL).open(device);
    match opened {
        Ok(file) => Ok(Claim { device: device.to_owned(), file }),
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Err(Fault::new(format!(
            "{shown} is in use: mounted, swapped to, part of another device or of another guest"
        ))
        .remedy("name a device that nothing uses; lsblk shows what does")),
        Err(error) => Err(Fault::from_error(format_args!("open {shown}"), &error)),
    }
}

/// What a device holds, in words; `None` when it is empty or has what a dead run left.
fn content(claim: &mut Claim) -> Result<Option<String>, Fault> {
    let said = Command::new("blkid")
        .args(["--probe", "--output", "export"])
        .arg(&claim.device)
        .stdin(Stdio::null())
        .output()
        .doing("run blkid")
        .map_err(|fault| fault.remedy("apt-get install util-linux"))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    if said.status.code() != Some(NOTHING) {
        return Ok(if is_ours(&text) { None } else { Some(describe(&text)) });
    }
    let mut start = vec![0; START];
    claim.file.seek(SeekFrom::Start(0)).doing("read the device")?;
    claim.file.read_exact(&mut start).doing("read the device")?;
    Ok(start.iter().any(|byte| *byte != 0).then(|| "data of a kind that is not known".to_owned()))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    value.filter(|value| !value.is_empty())
}

fn is_ours(text: &str) -> bool {
    field(text, "TYPE") == Some("ext4") && field(text, "UUID") == Some(UUID) && field(text, "LABEL") == Some(LABEL)
}

fn describe(text: &str) -> String {
    match (field(text, "TYPE"), field(text, "PTTYPE")) {
        (Some(kind), _) => match field(text, "LABEL") {
            Some(label) => format!("{kind} called '{label}'"),
            None => kind.to_owned(),
        },
        (None, Some(table)) => format!("partitions ({table})"),
        (None, None) => "several things at once, or what cannot be read".to_owned(),
    }
}

/// Reads any text as blkid's description of a device: whatever it is, one line describes it, and only what has all
/// three marks is ours.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(text: &str) {
    let said = describe(text);
    assert!(!said.is_empty() && !said.contains('\n'), "{said:?}");
    let has = |name: &str, value: &str| text.lines().any(|line| line == format!("{name}={value}"));
    let is_marked = has("TYPE", "ext4") && has("UUID", UUID) && has("LABEL", LABEL);
    assert!(is_marked || !is_ours(text), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop device over a new file; removed with it.
    struct Loop {
        device: PathBuf,
        _file: tempfile::NamedTempFile,
    }

    impl Loop {
        /// `None` if this machine has none to give.
        fn new(mib: u64) -> Option<Loop> {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(mib << 20).unwrap();
            let made = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().ok()?;
            let device = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim());
            (made.status.success()).then_some(Loop { device, _file: file })
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
        }
    }

    fn run(program: &str, arguments: &[&str], device: &Path) {
        let done = Command::new(program).args(arguments).arg(device).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn refusal(device: &Path, bytes: u64) -> String {
        examine(device, bytes).unwrap_err().message
    }

    #[test]
    fn only_a_device_that_holds_nothing_is_taken() {
        let Some(disk) = Loop::new(24) else {
            println!("skipped: no loop device");
            return;
        };
        let device = &disk.device;
        let claimed = examine(device, 16 << 20).unwrap();
        assert!(refusal(device, 0).contains("in use"), "it is claimed");
        drop(claimed);
        assert!(refusal(device, 32 << 20).contains("has 24 MiB, the guest's disk needs 32"));

        run("mke2fs", &["-q", "-F", "-t", "ext4", "-L", "letters"], device);
        assert!(refusal(device, 0).contains("holds ext4 called 'letters'"));
        run("mke2fs", &["-q", "-F", "-t", "ext4", "-L", LABEL], device);
        assert!(refusal(device, 0).contains("holds ext4"), "the name alone makes it none of ours");
        run("mke2fs", &["-q", "-F", "-t", "ext4", "-L", LABEL, "-U", UUID], device);
        examine(device, 0).expect("what a dead run left").empty().unwrap();
        examine(device, 0).expect("it is as it was found");

        let mut file = File::options().write(true).open(device).unwrap();
        file.seek(SeekFrom::Start(5000)).unwrap();
        file.write_all(b"of a kind that nobody knows").unwrap();
        file.sync_all().unwrap();
        assert!(refusal(device, 0).contains("not known"));
    }

    #[test]
    fn what_is_no_device_is_refused() {
        assert!(refusal(Path::new("/dev/null"), 0).contains("no block device"));
        assert!(examine(Path::new("/dev/no-such-device"), 0).is_err());
    }

    #[test]
    fn words_of_blkid_are_understood() {
        let ours = format!("DEVNAME=/dev/x\nLABEL={LABEL}\nUUID={UUID}\nVERSION=1.0\nTYPE=ext4\nUSAGE=filesystem\n");
        assert!(is_ours(&ours) && !is_ours(&ours.replace("ext4", "ext3")) && !is_ours(""));
        assert_eq!(describe("DEVNAME=/dev/x\nPTUUID=1\nPTTYPE=gpt\n"), "partitions (gpt)");
        assert_eq!(describe("TYPE=crypto_LUKS\nUUID=1\n"), "crypto_LUKS");
        assert!(describe("").contains("several") && describe("TYPE=\n").contains("several"));
    }
}
