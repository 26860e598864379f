//! Logs that services, guests and their hypervisors write as they like: only the end of each is kept, on the disk and
//! in records, with a line that says how much is left out.
//!
//! Nothing stands between a service and its log, since that would cost the service time. Instead the file is checked a
//! few times a second, and if it is too long the kernel frees the blocks at its beginning: a hole, which the writer
//! does not notice.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tare_core::units::show_bytes;

/// How much of a log is handed over, bytes.
pub(crate) const SHOWN_MAX: u64 = 64 << 10;
/// How much of a log stays on the disk, bytes: as much as a container engine is told to keep.
pub(crate) const KEPT_MAX: u64 = 16 << 20;
/// The unit in which the kernel counts a file's disk usage, bytes.
const BLOCK: u64 = 512;
/// How often logs are checked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Keeps logs short until it is dropped.
#[derive(Default)]
pub(crate) struct Keeper {
    logs: Arc<Mutex<Vec<File>>>,
    /// The thread that checks, if there is anything to check; it ends with this.
    looking: Option<Sender<()>>,
}

impl Keeper {
    /// Also keeps this file short; `log` is a descriptor of it that may write. Without a thread the file grows.
    pub(crate) fn keep(&mut self, log: File) {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).push(log);
        if self.looking.is_some() {
            return;
        }
        let (sender, ended) = channel();
        let logs = self.logs.clone();
        let look = move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                logs.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(shorten);
            }
        };
        self.looking = std::thread::Builder::new().name("logs".to_owned()).spawn(look).is_ok().then_some(sender);
    }
}

/// Frees the beginning of a log that takes up too much of the disk. Its blocks decide, since a file that was made long
/// without writing, or that is written at its beginning, keeps its length. What the file system cannot free stays.
fn shorten(log: &File) {
    let Ok(facts) = log.metadata() else { return };
    if facts.blocks() * BLOCK > KEPT_MAX {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Some file systems cannot, and then the file grows.
        let _ = fallocate(log, hole, 0, facts.len().saturating_sub(KEPT_MAX / 2).max(1));
    }
    // Blocks may be allocated beyond the end, where no hole frees them; setting the end anew does.
    let Ok(facts) = log.metadata() else { return };
    if facts.blocks() * BLOCK > facts.len().saturating_add(KEPT_MAX) {
        let _ = log.set_len(facts.len());
    }
}

/// The end of a log, after a line that says how much came before it, if anything did.
pub(crate) fn tail(path: &Path) -> std::io::Result<String> {
    end_of(&File::open(path)?)
}

/// The same of a log that is open. Whoever writes at the same position must have ended: it is moved.
pub(crate) fn end_of(mut file: &File) -> std::io::Result<String> {
    let left_out = file.metadata()?.len().saturating_sub(SHOWN_MAX);
    file.seek(SeekFrom::Start(left_out))?;
    let mut bytes = Vec::new();
    file.take(SHOWN_MAX).read_to_end(&mut bytes)?;
    Ok(said(left_out) + &String::from_utf8_lossy(&bytes))
}

/// The line that says how much of a log is left out.
pub(crate) fn said(left_out: u64) -> String {
    if left_out == 0 {
        return String::new();
    }
    format!("[{} of output before this are left out]\n", show_bytes(left_out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    use std::time::Instant;

    #[test]
    fn what_is_left_out_of_a_log_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "all of it\n").unwrap();
        assert_eq!(tail(&path).unwrap(), "all of it\n");
        std::fs::write(&path, [&vec![b'x'; 64 << 10][..], b"the end\n"].concat()).unwrap();
        let shown = tail(&path).unwrap();
        assert!(shown.starts_with("[8 B of output before this are left out]\nxxx"), "{}", &shown[..80]);
        assert!(shown.ends_with("xthe end\n"));
    }

    #[test]
    fn what_is_taken_of_the_disk_beyond_the_end_of_a_log_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = File::options().create(true).append(true).open(&path).unwrap();
        log.write_all(b"a line\n").unwrap();
        if let Err(error) = fallocate(&log, FallocateFlags::KEEP_SIZE, 0, 4 * KEPT_MAX) {
            return println!("skipped: this file system takes nothing beforehand: {error}");
        }
        let on_disk = || std::fs::metadata(&path).unwrap().blocks() * BLOCK;
        if on_disk() < 4 * KEPT_MAX {
            return println!("skipped: this file system takes nothing beforehand");
        }
        shorten(&log);
        assert!(on_disk() <= KEPT_MAX, "{} bytes", on_disk());
        log.write_all(b"the end\n").unwrap();
        assert!(tail(&path).unwrap().ends_with("the end\n"));
    }

    #[test]
    fn a_log_without_end_takes_no_more_of_the_disk_than_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = File::options().create(true).append(true).open(&path).unwrap();
        let mut keeper = Keeper::default();
        keeper.keep(log.try_clone().unwrap());
        let piece = vec![b'x'; 1 << 20];
        let on_disk = || std::fs::metadata(&path).unwrap().blocks() * 512;
        for _ in 0..3 {
            (0..20).for_each(|_| log.write_all(&piece).unwrap());
            let deadline = Instant::now() + Duration::from_secs(20);
            while on_disk() > KEPT_MAX && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(on_disk() <= KEPT_MAX, "{} bytes", on_disk());
        }
        log.write_all(b"the end\n").unwrap();
        let shown = tail(&path).unwrap();
        assert!(
            shown.starts_with("[59.9 MiB of output before this") && shown.ends_with("xthe end\n"),
            "{}",
            &shown[..60]
        );
    }
}
