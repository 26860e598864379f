//! Opens files that somebody else may have provided: only regular files, and never outside their folder.
//!
//! A workload is often somebody else's, and Tare reads it as root. So nothing that it names may lead out of its folder,
//! by `..` or by a link, and only regular files of limited size are opened: reading a pipe or `/dev/zero` would never
//! end, and opening a device may have effects. A name is first examined without opening it (`O_PATH`); only a regular
//! file is then opened for reading, through the descriptor of that examination.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};
use tare_core::units::show_bytes;

/// Flags to examine a name without opening it.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Flags to read it, without waiting for a writer or taking on a controlling terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Reads the file at `path`, wherever its links lead: for files that the user named. The error says what is wrong.
pub(crate) fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    read(&openat(CWD, path, LOOK, Mode::empty()).map_err(words)?, bytes_max)
}

/// Reads the file `name` in `folder`, or in a folder below it: for files that a workload names.
pub(crate) fn read_beneath(folder: &Path, name: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    read(&look_beneath(folder, name)?, bytes_max)
}

/// The SHA-256 digest of the file at `path`, however long, wherever its links lead: for files that the user named.
pub(crate) fn digest_file(path: &Path) -> Result<String, String> {
    let found = openat(CWD, path, LOOK, Mode::empty()).map_err(words)?;
    regular_size(&found)?;
    let mut hash = Sha256::new();
    std::io::copy(&mut reopened(&found)?, &mut Hashing(&mut hash)).map_err(|error| error.to_string())?;
    Ok(shown_digest(hash))
}

/// The same of what was read.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(bytes);
    shown_digest(hash)
}

fn shown_digest(hash: Sha256) -> String {
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Takes what is written into a digest.
struct Hashing<'h>(&'h mut Sha256);

impl std::io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Lists the folder `name` in `folder`: names and their file types.
pub(crate) fn list_beneath(folder: &Path, name: &Path) -> Result<Vec<(String, FileType)>, String> {
    let found = look_beneath(folder, name)?;
    let open = openat(&found, ".", READ | OFlags::DIRECTORY, Mode::empty()).map_err(words)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&open).map_err(words)? {
        let entry = entry.map_err(words)?;
        let name = entry.file_name().to_str().map_err(|_| "a name in it is not UTF-8 text".to_owned())?;
        if ![".", ".."].contains(&name) {
            let kind = rustix::fs::statat(&open, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).map_err(words)?;
            entries.push((name.to_owned(), FileType::from_raw_mode(kind.st_mode)));
        }
    }
    Ok(entries)
}

/// Examines `name` in `folder`. Links are followed as long as they stay below it.
fn look_beneath(folder: &Path, name: &Path) -> Result<OwnedFd, String> {
    // An empty path means the current folder.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let top = openat(CWD, folder, LOOK | OFlags::DIRECTORY, Mode::empty()).map_err(words)?;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let found = loop {
        match openat2(&top, name, LOOK, Mode::empty(), how) {
            // Something was moved meanwhile: try again.
            Err(Errno::AGAIN) => {}
            // Kernels before 5.6, and system call filters that do not know it.
            Err(Errno::NOSYS | Errno::PERM) => break walk(&top, name),
            other => break other,
        }
    };
    found.map_err(|error| match error {
        Errno::XDEV => format!("it leads out of its folder, {}", folder.display()),
        error => words(error),
    })
}

/// The same step by step, for kernels without `openat2`; follows no link at all.
fn walk(top: &OwnedFd, name: &Path) -> Result<OwnedFd, Errno> {
    let mut here = openat(top, ".", LOOK | OFlags::DIRECTORY, Mode::empty())?;
    for part in name.components() {
        let part = match part {
            Component::CurDir => continue,
            Component::Normal(part) => part,
            _ => return Err(Errno::XDEV),
        };
        here = openat(&here, part, LOOK | OFlags::NOFOLLOW, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&here)?.st_mode) == FileType::Symlink {
            return Err(Errno::XDEV);
        }
    }
    Ok(here)
}

/// The size of what was examined, if it is a regular file.
fn regular_size(found: &OwnedFd) -> Result<u64, String> {
    let stat = fstat(found).map_err(words)?;
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => None,
        FileType::Directory => Some("a folder"),
        FileType::Fifo => Some("a named pipe"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("a device"),
        _ => Some("something else"),
    };
    match what {
        Some(what) => Err(format!("it is {what}, not a regular file")),
        None => Ok(u64::try_from(stat.st_size).unwrap_or(u64::MAX)),
    }
}

/// Opens what was examined.
fn reopened(found: &OwnedFd) -> Result<File, String> {
    let by_descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found.as_fd()));
    Ok(File::from(openat(CWD, by_descriptor, READ, Mode::empty()).map_err(words)?))
}

/// Reads what was examined, if it is a regular file of at most `bytes_max` bytes.
fn read(found: &OwnedFd, bytes_max: u64) -> Result<Vec<u8>, String> {
    let longer = || format!("it is longer than {}", show_bytes(bytes_max));
    if regular_size(found)? > bytes_max {
        return Err(longer());
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile, and files in /proc do not state their length.
    reopened(found)?.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > bytes_max { Err(longer()) } else { Ok(bytes) }
}

fn words(error: Errno) -> String {
    std::io::Error::from(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_are_read_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read_file(&at("file"), 5).unwrap(), b"12345");
        assert_eq!(read_beneath(folder.path(), Path::new("./file"), 5).unwrap(), b"12345");
        let known = "sha256:5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5";
        assert_eq!((digest(b"12345").as_str(), digest_file(&at("file"))), (known, Ok(known.to_owned())));
        assert!(digest_file(&at("pipe")).unwrap_err().contains("a named pipe"));
        let cases = [
            (at("file"), 4, "longer than 4 B"),
            (at("pipe"), 9, "a named pipe"),
            (at("socket"), 9, "a socket"),
            (folder.path().to_owned(), 9, "a folder"),
            ("/dev/zero".into(), 9, "a device"),
            ("/proc/self/smaps".into(), 9, "longer than 9 B"),
            (at("missing"), 9, "No such file"),
        ];
        for (path, most, wanted) in cases {
            let told = read_file(&path, most).unwrap_err();
            assert!(told.contains(wanted), "{}: {told}", path.display());
        }
    }

    #[test]
    fn nothing_leads_out_of_a_folder() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("workload");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        std::fs::write(outer.path().join("secret"), "s3cret").unwrap();
        std::fs::write(folder.join("own"), "own").unwrap();
        let links = [
            ("out", "../secret"),
            ("absolute", "/etc/passwd"),
            ("deep/up", "../../secret"),
            ("here", "/proc/self/cwd"),
            ("chain", "out"),
            ("above", ".."),
            ("self", "self"),
        ];
        for (name, to) in links {
            symlink(to, folder.join(name)).unwrap();
        }
        symlink("../own", folder.join("deep/inner")).unwrap();
        let outside =
            ["out", "absolute", "deep/up", "chain", "above/secret", "../secret", "/etc/passwd", "deep/../../secret"];
        for name in outside {
            let told = read_beneath(&folder, Path::new(name), 1 << 20).unwrap_err();
            assert!(told.contains("leads out of its folder"), "{name}: {told}");
        }
        for name in ["here", "here/Cargo.toml", "self"] {
            assert!(read_beneath(&folder, Path::new(name), 1 << 20).is_err(), "{name}");
        }
        assert_eq!(read_beneath(&folder, Path::new("deep/inner"), 9).unwrap(), b"own");
        assert!(list_beneath(&folder, Path::new("above")).unwrap_err().contains("leads out"));
        // Kernels before 5.6.
        let top = openat(CWD, &folder, LOOK | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for name in outside {
            assert_eq!(walk(&top, Path::new(name)).unwrap_err(), Errno::XDEV, "{name}");
        }
        assert!(walk(&top, Path::new("./own")).is_ok());
    }
}
