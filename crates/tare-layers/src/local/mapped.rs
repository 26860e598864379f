//! Which files a running service has mapped executable, and their content: the proof that every form runs the same
//! bits.

use super::inside::open_inside;
use rustix::fs::FileType;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::{SeenFile, Wait};
use tare_core::units::{exact_duration, show_bytes};

/// How much is read at most to prove which bits run: how many files, how many bytes of them, and for how long. A
/// service may map a file of any length that takes no room on the disk.
const LIMITS: Limits = Limits {
    files: 10_000,
    bytes: 16 << 30,
    time: Duration::from_secs(120),
    beyond: |what| format!("it maps {what} as programs and libraries, too much to tell which bits run"),
};
/// The most that is read of a process's list of mappings, bytes; the kernel allows some 65000 mappings.
const MAPS_MAX: u64 = 32 << 20;

/// What is read at most.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) files: usize,
    pub(super) bytes: u64,
    pub(super) time: Duration,
    /// The message for exceeding a limit, given which one.
    pub(super) beyond: fn(&str) -> String,
}

/// How much of the limits is used up, and how long to wait for what they allow.
pub(super) struct Used<'a> {
    limits: Limits,
    bytes: u64,
    since: Instant,
    wait: Wait<'a>,
}

impl<'a> Used<'a> {
    pub(super) fn of(limits: Limits, wait: Wait<'a>) -> Self {
        Used { limits, bytes: 0, since: Instant::now(), wait }
    }

    /// Records what was read or is about to be.
    fn note(&mut self, bytes: u64, files: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        let Limits { files: most, bytes: bytes_max, time, beyond: say } = self.limits;
        let beyond = if files > most {
            format!("more than {most} files")
        } else if self.bytes > bytes_max {
            format!("more than {}", show_bytes(bytes_max))
        } else if self.since.elapsed() > time {
            format!("files that take more than {} to read", exact_duration(time))
        } else {
            return Ok(());
        };
        Err(Fault::new(say(&beyond)))
    }
}

/// What distinguishes one state of a file from another without reading it: device, inode, size, and both changes in ns.
type Identity = (u64, u64, u64, i64, i64, i64, i64);

static DIGESTS: LazyLock<Mutex<HashMap<Identity, String>>> = LazyLock::new(Mutex::default);

/// The executable and every executable-mapped shared library of a service, each with the digest of its content, sorted
/// by path. `first` is the process that was started, `others` are those that came of it.
///
/// Content is read through the mapping itself, so it is right inside chroots and containers and after a file was
/// replaced; the path is the one that the process sees. Digests are cached for as long as this process lives.
///
/// # Errors
/// When the first process is gone or maps nothing, a mapped file cannot be read, or nobody waits any longer while one
/// is being read.
pub(crate) fn mapped_files(first: u32, others: &BTreeSet<u32>, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
    mapped_within(first, others, LIMITS, wait)
}

fn mapped_within(first: u32, others: &BTreeSet<u32>, limits: Limits, wait: Wait) -> Result<Vec<SeenFile>, Fault> {
    let (mut found, mut used) = (BTreeMap::new(), Used::of(limits, wait));
    read_maps(first, &mut found, &mut used)?;
    for other in others {
        // It may end at any moment; only the first one's mappings must be readable.
        if read_maps(*other, &mut found, &mut used).is_err() {
            // A file that nobody waited for would be missing, as if this form did not run it.
            wait.check()?;
        }
    }
    used.note(0, found.len())?;
    if found.is_empty() {
        return Err(Fault::new(format!("process {first} maps no file: it has ended or is not a program of its own")));
    }
    Ok(found.into_iter().map(|(path, digest)| SeenFile { path, digest }).collect())
}

fn read_maps(pid: u32, found: &mut BTreeMap<String, String>, used: &mut Used) -> Result<(), Fault> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let mut maps = Vec::new();
    let read = File::open(process.join("maps")).and_then(|file| file.take(MAPS_MAX).read_to_end(&mut maps));
    read.doing(format!("read what process {pid} has mapped"))?;
    let maps = String::from_utf8_lossy(&maps);
    // For a process that was only chrooted, paths are shown as this process sees them; strip its root.
    let root = std::fs::read_link(process.join("root")).doing(format!("find the root of process {pid}"))?;
    for (range, path) in maps.lines().filter_map(executable_mapping) {
        let inside = path_inside(path, &root);
        if found.contains_key(&inside) {
            continue;
        }
        let by_mapping = File::open(process.join("map_files").join(name_of(range)));
        let mut file = match by_mapping {
            Ok(file) => file,
            Err(_) => {
                regular_inside(&process, &inside).doing(format!("read {inside}, which process {pid} has mapped"))?
            }
        };
        let digest = digest_of(&mut file, used, found.len() + 1)
            .map_err(|fault| fault.context(format!("{inside}, which process {pid} has mapped")))?;
        if let Some(digest) = digest {
            found.insert(inside, digest);
        }
    }
    Ok(())
}

/// The name of an address range in `map_files`: without the zeros that `maps` puts before small addresses.
fn name_of(range: &str) -> String {
    range.split('-').map(|bound| bound.trim_start_matches('0')).collect::<Vec<_>>().join("-")
}

/// Opens a file by its path in the root of a process. By now the process may have put something else there: links are
/// followed inside that root, and only a regular file is opened.
fn regular_inside(process: &Path, inside: &str) -> io::Result<File> {
    let root = File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(process.join("root"))?;
    let found = open_inside(&root, inside.trim_start_matches('/'))?;
    if FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file"));
    }
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// The address range and the path in a line of `maps` that is executable and backed by a file.
fn executable_mapping(line: &str) -> Option<(&str, &str)> {
    // "7f00-7f01 r-xp 00000000 fe:00 1234      /usr/lib/x.so": the path is the sixth field and may contain spaces.
    let (range, rest) = line.split_once(' ')?;
    let executable = rest.as_bytes().get(2) == Some(&b'x');
    let path = rest.find('/').map(|at| &rest[at..])?;
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let of_memory = path.starts_with("/memfd:") || path.starts_with("/dev/zero") || path.starts_with("/SYSV");
    // It becomes a file name.
    let is_range = !range.is_empty() && range.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (executable && is_range && !of_memory).then_some((range, path))
}

/// Reads any text as a process's mappings: each range names a file in one folder, each path begins at a root.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(text: &str) {
    for (range, path) in text.lines().filter_map(executable_mapping) {
        let (file, inside) = (name_of(range), path_inside(path, Path::new("/srv/root")));
        assert!(!file.contains(['/', '.']) && inside.starts_with('/'), "{file}: {inside}");
    }
}

fn path_inside(path: &str, root: &Path) -> String {
    match Path::new(path).strip_prefix(root) {
        Ok(rest) if root != Path::new("/") => format!("/{}", rest.display()),
        _ => path.to_owned(),
    }
}

/// `sha256:<hex>` of a file's content; `None` when it is not a regular file.
fn digest_of(file: &mut File, used: &mut Used, files: usize) -> Result<Option<String>, Fault> {
    let data = file.metadata().doing("read it")?;
    if !data.is_file() {
        return Ok(None);
    }
    let identity =
        (data.dev(), data.ino(), data.len(), data.mtime(), data.mtime_nsec(), data.ctime(), data.ctime_nsec());
    if let Some(digest) = DIGESTS.lock().expect("no holder of this lock can panic").get(&identity) {
        return Ok(Some(digest.clone()));
    }
    let digest = hash_of(file, data.len(), used, files)?;
    DIGESTS.lock().expect("no holder of this lock can panic").insert(identity, digest.clone());
    Ok(Some(digest))
}

/// `sha256:<hex>` of the content of a file that has `length` bytes.
pub(super) fn hash_of(file: &mut File, length: u64, used: &mut Used, files: usize) -> Result<String, Fault> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    // Recorded before any of it is read, and again for whatever it grows by in the meantime.
    used.note(length, files)?;
    let mut left = length;
    loop {
        used.wait.check()?;
        let count = file.read(&mut buffer).doing("read it")?;
        if count == 0 {
            break;
        }
        used.note((count as u64).saturating_sub(left), files)?;
        left = left.saturating_sub(count as u64);
        hash.update(&buffer[..count]);
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::process::Command;

    #[test]
    fn what_a_process_has_put_in_place_of_a_file_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (process, outside) = (folder.path().join("7"), folder.path().join("outside"));
        std::fs::create_dir_all(process.join("root/lib")).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        std::fs::write(process.join("root/lib/x"), "own").unwrap();
        std::os::unix::fs::symlink(&outside, process.join("root/lib/out")).unwrap();
        std::os::unix::fs::symlink("/lib/x", process.join("root/lib/in")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, process.join("root/lib/pipe"), 0o600.into()).unwrap();
        let read = |path: &str| regular_inside(&process, path).and_then(io::read_to_string).ok();
        assert_eq!(read("/lib/x").as_deref(), Some("own"));
        assert_eq!(read("/lib/in").as_deref(), Some("own"), "its root is its own");
        assert_eq!((read("/lib/out"), read("/lib/pipe")), (None, None));
        assert_eq!(name_of("00400000-00452000"), "400000-452000");
    }

    #[test]
    fn only_executable_mappings_of_files_count() {
        let line = "7f00-7f01 r-xp 00001000 fe:00 12   /usr/lib/a b.so (deleted)";
        assert_eq!(executable_mapping(line), Some(("7f00-7f01", "/usr/lib/a b.so")));
        for line in [
            "7f00-7f01 r--p 00001000 fe:00 12   /usr/lib/a.so",
            "7ffd-7ffe r-xp 00000000 00:00 0    [vdso]",
            "7ffd-7ffe rwxp 00000000 00:01 12   /memfd:jit (deleted)",
            "7ffd-7ffe rwxp 00000000 00:00 0",
            "../../x r-xp 00000000 fe:00 12   /usr/lib/a.so",
        ] {
            assert_eq!(executable_mapping(line), None, "{line}");
        }
    }

    #[test]
    fn a_path_is_told_as_its_process_sees_it() {
        assert_eq!(path_inside("/srv/root/bin/x", Path::new("/srv/root")), "/bin/x");
        assert_eq!(path_inside("/bin/x", Path::new("/")), "/bin/x");
    }

    #[test]
    fn this_process_maps_its_own_executable() {
        let own = std::env::current_exe().unwrap();
        let files = mapped_files(std::process::id(), &BTreeSet::new(), Wait::always()).unwrap();
        let file = files.iter().find(|file| Path::new(&file.path) == own).expect("the executable is mapped");
        let bytes = std::fs::read(own).unwrap();
        let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(file.digest, format!("sha256:{hex}"));
    }

    #[test]
    fn what_is_read_is_bounded_in_files_bytes_and_time() {
        let told =
            |limits| mapped_within(std::process::id(), &BTreeSet::new(), limits, Wait::always()).unwrap_err().message;
        let all = || Limits { ..LIMITS };
        assert!(told(Limits { files: 0, ..all() }).contains("more than 0 files"));
        assert!(told(Limits { time: Duration::ZERO, ..all() }).contains("0 ms to read"));
        // A sparse file of a terabyte takes no room, but as long to read as a full one.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge");
        std::fs::write(&path, b"x").unwrap();
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let began = Instant::now();
        let mut file = File::open(&path).unwrap();
        let told = digest_of(&mut file, &mut Used::of(LIMITS, Wait::always()), 1).unwrap_err().message;
        assert!(told.contains("more than 16 GiB"), "{told}");
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_large_file_is_read_no_further_than_somebody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        File::create(&path).unwrap().set_len(8 << 30).unwrap();
        let asked = Cell::new(0);
        let ended = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };
        let mut file = File::open(&path).unwrap();
        let told = digest_of(&mut file, &mut Used::of(LIMITS, Wait::until(&ended)), 1).unwrap_err().message;
        assert_eq!((told.as_str(), asked.get()), ("interrupted", 4), "after three pieces");
        // What was read before is known, and nobody has to wait for it.
        let path = folder.path().join("small");
        std::fs::write(&path, "x").unwrap();
        let digest = |wait: Wait| digest_of(&mut File::open(&path).unwrap(), &mut Used::of(LIMITS, wait), 1);
        assert!(digest(Wait::until(&|| true)).is_err());
        let known = digest(Wait::always()).unwrap();
        assert_eq!(digest(Wait::until(&|| true)).unwrap(), known);
    }

    #[test]
    fn what_a_child_maps_is_not_left_out_because_nobody_waited_for_it() {
        let own = std::process::id();
        // This process's own files are known from here on.
        mapped_files(own, &BTreeSet::new(), Wait::always()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().canonicalize().unwrap().join("sleep");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut child = loop {
            match Command::new(&program).arg("60").spawn() {
                // The child of another test holds it open for writing until that child runs its own program.
                Err(busy) if busy.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                other => break other.unwrap(),
            }
        };
        // A child that is started by vfork is here a moment before it maps anything.
        let maps = || std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
        while !maps().contains(program.to_str().unwrap()) {
            std::thread::yield_now();
        }
        let others = BTreeSet::from([child.id()]);
        let cut = mapped_files(own, &others, Wait::until(&|| true));
        let whole = mapped_files(own, &others, Wait::always());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(cut.is_err_and(|fault| fault.message.ends_with("interrupted")));
        assert!(whole.unwrap().iter().any(|file| Path::new(&file.path) == program));
    }

    #[test]
    fn a_process_that_is_gone_is_a_fault() {
        assert!(mapped_files(u32::MAX / 2, &BTreeSet::new(), Wait::always()).is_err());
    }
}
