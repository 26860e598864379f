//! Whether a running service sees its bundle's files as they are: scripts, classes and configuration as well as the
//! programs and libraries that it has mapped.

use super::mapped::{Limits, Used, digest_of};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::host::{Carrier, FilesSeen, SeenFile, ServiceStart};

/// What is read at most of what a service sees of its bundle.
const LIMITS: Limits = Limits {
    files: 4_000_000,
    bytes: 8 << 30,
    time: Duration::from_secs(120),
    beyond: |what| format!("its bundle has {what}, too much to tell whether it sees the same files"),
};

/// What a service's bundle holds: what was said of it, else what the store of this machine says.
///
/// # Errors
/// When the bundle cannot be had or read.
pub(crate) fn of_bundle<'a>(
    carrier: &Carrier,
    start: &ServiceStart,
    said: Option<&'a [SeenFile]>,
) -> Result<Cow<'a, [SeenFile]>, Fault> {
    match said {
        Some(files) => Ok(Cow::Borrowed(files)),
        None => Ok(Cow::Owned(carrier.bundles.bundle(&start.service.recipe)?.files(start.service.user)?)),
    }
}

/// Holds what the process sees below its root against the files of its bundle. Where something is mounted in it, there
/// is nothing of the bundle to be seen, and nothing is compared.
///
/// # Errors
/// When the process is gone, or its files cannot be read or are too many.
pub(crate) fn files_seen(pid: u32, bundle: &[SeenFile]) -> Result<FilesSeen, Fault> {
    let process = format!("/proc/{pid}");
    let doing = || format!("see what process {pid} sees of its bundle");
    let mounts = std::fs::read_to_string(Path::new(&process).join("mountinfo")).doing(doing())?;
    let mounted: HashSet<String> = mounts.lines().filter_map(mounted_at).collect();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("{process}/root"), flags, Mode::empty()).doing(doing())?;
    let (mut seen, mut used) = (FilesSeen::default(), Used::of(LIMITS));
    for (at, file) in bundle.iter().enumerate() {
        if is_covered(&mounted, &file.path) {
            continue;
        }
        let found = found_at(&root, &file.path, &mut used, at + 1)
            .map_err(|fault| fault.context(format!("{}, which process {pid} sees", file.path)))?;
        seen.note(&file.path, found.as_deref() == Some(file.digest.as_str()));
    }
    Ok(seen)
}

/// Where a line of `mountinfo` says that something is mounted, in the root of the process that was asked about.
fn mounted_at(line: &str) -> Option<String> {
    let field = line.split(' ').nth(4)?;
    // The kernel writes blanks, tabs, ends of lines and backslashes as three octal digits.
    let mut pieces = field.split('\\');
    let mut path = pieces.next()?.to_owned();
    for piece in pieces {
        let letter = piece.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok())?;
        path.push(char::from(letter));
        path.push_str(&piece[3..]);
    }
    (path != "/").then_some(path)
}

fn is_covered(mounted: &HashSet<String>, path: &str) -> bool {
    let above = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
    above.chain([path]).any(|place| mounted.contains(place))
}

/// What is in the file of this path, or where the link of this path leads; none where neither stands there. No link is
/// followed on the way: the bundle's paths lead through folders.
fn found_at(root: &impl rustix::fd::AsFd, path: &str, used: &mut Used, files: usize) -> Result<Option<String>, Fault> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let found = match rustix::fs::openat2(root, path.trim_start_matches('/'), flags, Mode::empty(), resolve) {
        Ok(found) => found,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error).doing("open it"),
    };
    match FileType::from_raw_mode(rustix::fs::fstat(&found).doing("read it")?.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(&found, "", Vec::new()).doing("read the link")?;
            Ok(Some(format!("-> {}", target.to_string_lossy())))
        }
        FileType::RegularFile => {
            let mut file = File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).doing("open it")?;
            digest_of(&mut file, used, files)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};
    use std::os::unix::fs::symlink;

    fn digest(text: &str) -> String {
        let hash = Sha256::digest(text);
        format!("sha256:{}", hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    }

    #[test]
    fn where_something_is_mounted_nothing_is_compared() {
        let line = |place: &str| format!("36 35 98:0 /mnt1 {place} rw,noatime master:1 - ext3 /dev/root rw");
        let places = ["/", "/etc/hosts", "/with\\040blank", "/a\\134b", "/broken\\09"];
        let mounted: HashSet<String> = places.iter().filter_map(|place| mounted_at(&line(place))).collect();
        assert_eq!(mounted, ["/etc/hosts", "/with blank", "/a\\b"].map(String::from).into());
        let covered = ["/etc/hosts", "/with blank/x/y", "/etc/hosts2", "/etc", "/x"].map(|at| is_covered(&mounted, at));
        assert_eq!(covered, [true, true, false, false, false]);
    }

    #[test]
    fn what_is_not_as_in_the_bundle_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(at("/etc")).unwrap();
        std::fs::write(at("/etc/conf"), "same").unwrap();
        std::fs::write(at("/etc/script"), "another").unwrap();
        symlink("conf", at("/etc/link")).unwrap();
        symlink("etc", at("/by-link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("/etc/pipe"), 0o600.into()).unwrap();
        let root = File::open(folder.path()).unwrap();
        let mut used = Used::of(LIMITS);
        let mut found = |path: &str| found_at(&root, path, &mut used, 1).unwrap();
        assert_eq!(found("/etc/conf"), Some(digest("same")));
        assert_eq!(found("/etc/script"), Some(digest("another")));
        assert_eq!(found("/etc/link").as_deref(), Some("-> conf"));
        for nothing in ["/etc/none", "/etc/conf/x", "/by-link/conf", "/etc/pipe", "/etc"] {
            assert_eq!(found(nothing), None, "{nothing}");
        }
        let mut seen = FilesSeen::default();
        (0..30).for_each(|number| seen.note(&format!("/{number}"), number % 10 == 0));
        assert_eq!((seen.compared, seen.differing.len(), seen.more), (30, FilesSeen::NAMED, 7));
    }

    #[test]
    fn a_process_sees_files_below_its_own_root() {
        let program = std::env::current_exe().unwrap();
        let path = program.to_str().unwrap();
        let file = |digest: String| SeenFile { path: path.to_owned(), digest };
        let own = std::fs::read(&program).unwrap();
        let right: String = Sha256::digest(&own).iter().map(|byte| format!("{byte:02x}")).collect();
        let seen = files_seen(std::process::id(), &[file(format!("sha256:{right}")), file(digest("other"))]).unwrap();
        // Where the build's folder is a mount of its own, nothing is compared.
        assert!(seen.compared == 0 || (seen.compared == 2 && seen.differing == [path]), "{seen:?}");
    }
}
