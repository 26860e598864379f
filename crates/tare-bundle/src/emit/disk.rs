//! A tree as a raw ext4 image, written without mounting anything.

use crate::command;
use crate::tree::{self, Entry, Kind};
use mkext4::sink::FileSink;
use mkext4::{FsBuilder, InodeCount, InodeHandle, Meta, Options, ROOT, SpecialKind};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// The writer of an image; part of its name, because another version writes other bytes.
pub(crate) const WRITER: &str = "mkext4-0.0.3";
/// Free space for what a service writes outside its volumes.
const SLACK_BYTES: u64 = 64 << 20;
const BLOCK: u64 = 4096;

/// Writes the tree under `root` to a new file `out`; `digest` is the tree's and names the file system.
pub(crate) fn write(root: &Path, digest: &str, out: &Path) -> Result<(), Fault> {
    let space = Space::of(root)?;
    let Err(first) = with_mkext4(root, &space, digest, out) else { return Ok(()) };
    // A tree that the first writer cannot express is left to the reference implementation.
    with_mke2fs(root, &space, digest, out)
        .map_err(|second| second.context(format_args!("could not write a disk image ({first})")))
}

/// The space that a tree takes on a disk.
struct Space {
    entries: u64,
    blocks: u64,
}

impl Space {
    fn of(root: &Path) -> Result<Space, Fault> {
        let mut space = Space { entries: 0, blocks: 0 };
        tree::walk(root, |entry, _| {
            space.entries += 1;
            space.blocks += match &entry.kind {
                Kind::File(size) => size.div_ceil(BLOCK),
                Kind::Folder => 4,
                _ => 1,
            };
            Ok(())
        })?;
        Ok(space)
    }

    fn inodes(&self) -> u32 {
        u32::try_from(self.entries + self.entries / 4 + 4096).unwrap_or(u32::MAX)
    }

    /// Size of an image that holds the tree: file blocks, inodes, journal, an eighth for metadata, and free space.
    fn bytes(&self) -> u64 {
        let files = self.blocks * BLOCK;
        (files + files / 8 + u64::from(self.inodes()) * 256 + SLACK_BYTES + (32 << 20)).next_multiple_of(1 << 20)
    }
}

fn with_mkext4(root: &Path, space: &Space, digest: &str, out: &Path) -> Result<(), Fault> {
    let (entries, bytes, inodes) = (&tree::read(root)?, space.bytes(), space.inodes());
    let mut options = Options::new(bytes, uuid(digest), 0);
    options.inodes = InodeCount::Exact(inodes);
    options.label = Some("tare".to_owned());
    options.reserved_percent = 0;
    let mut builder = FsBuilder::new(options).doing("lay out an ext4 file system")?;
    let mut folders: HashMap<&[u8], InodeHandle> = HashMap::new();
    let mut linked: HashMap<(u64, u64), InodeHandle> = HashMap::new();
    let mut fills = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind != Kind::Socket) {
        let doing = || format!("put '{}' into a disk image", tree::shown(&entry.path));
        let handle = declare(&mut builder, entry, &folders, &linked).map_err(|error| match error {
            Declared::Error(error) => Fault::from_error(doing(), &error),
            Declared::NotText => Fault::new(format!("could not {}: its name is not UTF-8", doing())),
        })?;
        let Some(handle) = handle else { continue };
        for (name, value) in &entry.meta.xattrs {
            let name = std::str::from_utf8(name).doing(doing())?;
            builder.set_xattr(handle, name, value).doing(doing())?;
        }
        match entry.kind {
            Kind::Folder => drop(folders.insert(&entry.path, handle)),
            Kind::File(size) if size > 0 => fills.push((handle, entry)),
            _ => {}
        }
        if entry.links > 1 && entry.kind != Kind::Folder {
            linked.insert(entry.inode, handle);
        }
    }
    let layout = builder.seal().doing("lay out an ext4 file system")?;
    let mut sink = FileSink::create(out, layout.image_len()).doing(format_args!("create {}", out.display()))?;
    let mut writer = layout.writer(&mut sink).doing("write the disk image")?;
    for (handle, entry) in fills {
        writer.fill(handle, &mut tree::open_file(root, &entry.path)?).doing("write the disk image")?;
    }
    writer.finish().doing("write the disk image")?;
    Ok(())
}

enum Declared {
    Error(mkext4::Error),
    NotText,
}

impl From<mkext4::Error> for Declared {
    fn from(error: mkext4::Error) -> Self {
        Declared::Error(error)
    }
}

/// Declares one entry; none when it is another name of an earlier one. The root comes first.
fn declare(
    builder: &mut FsBuilder,
    entry: &Entry,
    folders: &HashMap<&[u8], InodeHandle>,
    linked: &HashMap<(u64, u64), InodeHandle>,
) -> Result<Option<InodeHandle>, Declared> {
    let time = (entry.meta.mtime.max(0), 0);
    let meta = Meta::new(entry.meta.mode as u16, entry.meta.uid, entry.meta.gid, time);
    if entry.path.is_empty() {
        builder.set_meta(ROOT, meta)?;
        return Ok(Some(ROOT));
    }
    let (parent, name) = match entry.path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (folders[&entry.path[..slash]], &entry.path[slash + 1..]),
        None => (ROOT, &entry.path[..]),
    };
    let name = std::str::from_utf8(name).map_err(|_| Declared::NotText)?;
    if let Some(first) = linked.get(&entry.inode).filter(|_| entry.links > 1 && entry.kind != Kind::Folder) {
        builder.hardlink(parent, name, *first)?;
        return Ok(None);
    }
    let special = |builder: &mut FsBuilder, kind| builder.mknod(parent, name, meta, kind);
    Ok(Some(match &entry.kind {
        Kind::Folder => builder.mkdir(parent, name, meta)?,
        Kind::File(size) => builder.file(parent, name, meta, *size)?,
        Kind::Link(target) => {
            let target = std::str::from_utf8(target).map_err(|_| Declared::NotText)?;
            builder.symlink(parent, name, target, meta)?
        }
        Kind::Char(major, minor) => special(builder, SpecialKind::Char { major: *major, minor: *minor })?,
        Kind::Block(major, minor) => special(builder, SpecialKind::Block { major: *major, minor: *minor })?,
        Kind::Pipe => special(builder, SpecialKind::Fifo)?,
        Kind::Socket => unreachable!("sockets are left out"),
    }))
}

fn with_mke2fs(root: &Path, space: &Space, digest: &str, out: &Path) -> Result<(), Fault> {
    let (bytes, inodes) = (space.bytes(), space.inodes());
    let _ = std::fs::remove_file(out);
    let id = uuid(digest);
    let hex = crate::digest::hex(&id);
    let id = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    let mut arguments: Vec<String> = ["-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-L", "tare"]
        .iter()
        .map(|argument| (*argument).to_owned())
        .collect();
    let seed = format!("hash_seed={id},lazy_itable_init=0");
    arguments.extend(["-N".to_owned(), inodes.to_string(), "-U".to_owned(), id, "-E".to_owned(), seed]);
    arguments.extend(["-d".to_owned(), root.display().to_string(), out.display().to_string()]);
    arguments.push(format!("{}k", bytes / 1024));
    command::run("mke2fs", "e2fsprogs", &arguments).map(|_| ())
}

/// The identity of a file system, derived from its tree's digest.
fn uuid(digest: &str) -> [u8; 16] {
    let hash = Sha256::digest(digest.as_bytes());
    let mut id = [0_u8; 16];
    id.copy_from_slice(&hash[..16]);
    id[6] = (id[6] & 0x0f) | 0x80;
    id[8] = (id[8] & 0x3f) | 0x80;
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_writers_make_a_file_system_that_is_sound() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), vec![7_u8; 100_000]).unwrap();
        std::fs::hard_link(root.join("a/b/file"), root.join("a/second")).unwrap();
        std::os::unix::fs::symlink("/nowhere", root.join("link")).unwrap();
        let space = Space::of(&root).unwrap();
        type Writer = fn(&Path, &Space, &str, &Path) -> Result<(), Fault>;
        for (name, writer) in [("mkext4", with_mkext4 as Writer), ("mke2fs", with_mke2fs)] {
            let out = folder.path().join(name);
            if let Err(fault) = writer(&root, &space, "sha256:00", &out) {
                assert!(fault.remedy.contains("e2fsprogs"), "{name}: {fault} {}", fault.log);
                println!("skipped: {fault}");
                return;
            }
            match command::run("e2fsck", "e2fsprogs", &["-fn".to_owned(), out.display().to_string()]) {
                Err(fault) if !fault.remedy.is_empty() => println!("skipped: {fault}"),
                Err(fault) => panic!("{name}: {fault}\n{}", fault.log),
                Ok(_) => {}
            }
        }
    }
}
