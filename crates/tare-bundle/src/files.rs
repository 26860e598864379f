//! The digest of each file of a bundle, to be compared with what a service sees in its form.

use crate::digest;
use crate::tree::{self, Kind};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use tare_core::fault::{Doing, Fault};
use tare_core::host::SeenFile;
use tare_core::units::show_bytes;

/// The file's name beside the tree; change it when the format changes.
pub(crate) const KEPT: &str = "files-1.jsonl";
/// About how many bytes an entry takes there.
pub(crate) const LINE_BYTES: u64 = 256;
/// The largest tree that is read, bytes: it is read again in each form.
const READ_MAX: u64 = 4 << 30;
/// The most entries that are read: all are held in memory at once.
const ENTRIES_MAX: u64 = 250_000;

/// A folder, file or link of the tree: one line.
#[derive(Serialize, Deserialize)]
struct Line {
    path: String,
    /// None for a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    mode: u32,
    owner: (u32, u32),
    /// Whether it has an access control list.
    #[serde(default)]
    listed: bool,
}

/// Refuses trees that are too large to read in each form.
pub(crate) fn check(tree_bytes: u64, tree_entries: u64) -> Result<(), Fault> {
    if tree_bytes > READ_MAX {
        let (bytes, most) = (show_bytes(tree_bytes), show_bytes(READ_MAX));
        return Err(Fault::new(format!("the bundle has {bytes} of files; the limit is {most}")));
    }
    if tree_entries > ENTRIES_MAX {
        let message = format!("the bundle has {tree_entries} files; the limit is {ENTRIES_MAX}");
        return Err(Fault::new(message));
    }
    Ok(())
}

/// Writes a line for each entry of the tree under `root` to `out`. Entries whose names are not UTF-8 are left out.
pub(crate) fn write(root: &Path, out: &Path) -> Result<(), Fault> {
    let what = || format!("write {}", out.display());
    let mut into = BufWriter::new(File::create_new(out).doing(what())?);
    tree::walk(root, |entry, at| {
        let Ok(path) = std::str::from_utf8(&entry.path) else { return Ok(()) };
        let digest = match &entry.kind {
            Kind::Folder => None,
            Kind::File(size) => {
                let mut hash = Sha256::new();
                digest::content(&mut hash, &entry, at, *size)?;
                Some(digest::named(hash))
            }
            Kind::Link(target) => Some(format!("-> {}", String::from_utf8_lossy(target))),
            Kind::Char(..) | Kind::Block(..) | Kind::Pipe | Kind::Socket => return Ok(()),
        };
        let listed = entry.meta.xattrs.keys().any(|name| name.starts_with(b"system.posix_acl_"));
        let (mode, owner) = (entry.meta.mode, (entry.meta.uid, entry.meta.gid));
        let line = Line { path: path.to_owned(), digest, mode, owner, listed };
        serde_json::to_writer(&mut into, &line).doing(what())?;
        into.write_all(b"\n").doing(what())
    })?;
    into.flush().doing(what())
}

/// The entries that were written, except those that a service of this user could change.
pub(crate) fn read(kept: &Path, user: (u32, u32)) -> Result<Vec<SeenFile>, Fault> {
    let what = || format!("read {}", kept.display());
    let (mut files, mut open) = (Vec::new(), HashSet::new());
    for line in BufReader::new(File::open(kept).doing(what())?).lines() {
        let line: Line = serde_json::from_str(&line.doing(what())?).doing(what())?;
        // A folder comes before its entries. The root has the empty path, and its entries have no slash.
        let above = line.path.rsplit_once('/').map_or("", |(above, _)| above);
        let below_open = !line.path.is_empty() && open.contains(above);
        let changeable = below_open || line.may_be_changed_by(user);
        match line.digest {
            Some(digest) if !changeable => files.push(SeenFile { path: format!("/{}", line.path), digest }),
            None if changeable => drop(open.insert(line.path)),
            _ => {}
        }
    }
    Ok(files)
}

impl Line {
    /// A link has no permissions of its own. In a folder with the sticky bit, others' entries cannot be replaced.
    fn may_be_changed_by(&self, (user, group): (u32, u32)) -> bool {
        const STICKY: u32 = 0o1000;
        let is_link = self.digest.as_ref().is_some_and(|digest| digest.starts_with("->"));
        let by_group = self.mode & 0o020 != 0 && self.owner.1 == group;
        let by_all = self.mode & 0o002 != 0;
        let kept = self.digest.is_none() && self.mode & STICKY != 0;
        self.owner.0 == user || (!is_link && (self.listed || ((by_group || by_all) && !kept)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn what_a_service_may_change_is_not_among_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        let put = |path: &str, mode: u32| {
            let place = root.join(path);
            match path.ends_with('/') {
                true => std::fs::create_dir_all(&place).unwrap(),
                false => std::fs::write(&place, path).unwrap(),
            }
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        put("/", 0o755);
        ["etc/", "open/", "open/deep/", "sticky/"].iter().for_each(|path| put(path, 0o755));
        put("etc/conf", 0o644);
        put("etc/anybodys", 0o666);
        put("open/deep/x", 0o644);
        put("open/", 0o777);
        put("sticky/x", 0o600);
        put("sticky/", 0o1777);
        put("top", 0o600);
        symlink("etc/conf", root.join("link")).unwrap();

        let out = folder.path().join("kept");
        write(&root, &out).unwrap();
        let of = |user: (u32, u32)| read(&out, user).unwrap();
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let paths: Vec<String> = of((own.0 + 1, own.1 + 1)).into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["/etc/conf", "/link", "/sticky/x", "/top"]);
        assert_eq!(of(own), [], "all of it belongs to it");
        let link = of((own.0 + 1, own.1 + 1)).remove(1);
        assert_eq!(link.digest, "-> etc/conf");
    }

    #[test]
    fn trees_that_take_long_to_read_are_refused() {
        assert!(check(READ_MAX, ENTRIES_MAX).is_ok());
        let told = check(0, ENTRIES_MAX + 1).unwrap_err();
        assert_eq!(told.message, "the bundle has 250001 files; the limit is 250000");
        let told = check(READ_MAX + (1 << 30), 0).unwrap_err();
        assert_eq!(told.message, "the bundle has 5 GiB of files; the limit is 4 GiB");
    }
}
