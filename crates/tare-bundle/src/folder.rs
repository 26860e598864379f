//! Bundles from a folder of this machine.

use crate::tree::{self, Entry, Kind};
use crate::unpack::layer::Assembly;
use crate::unpack::rooted::Below;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// Copies the tree under `from`; sockets are left out, and devices, of which a note is made.
pub(crate) fn copy(from: &Path, assembly: &mut Assembly) -> Result<(), Fault> {
    let entries = read(from)?;
    let mut first_names: HashMap<(u64, u64), &Entry> = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.kind != Kind::Socket) {
        let path = if entry.path.is_empty() { Below::parse(b".")? } else { Below::parse(&entry.path)? };
        if entry.kind.is_device() {
            assembly.left_out.add(path);
            continue;
        }
        if entry.links > 1 && entry.kind != Kind::Folder {
            if let Some(first) = first_names.get(&entry.inode) {
                assembly.rooted.link(&path, &Below::parse(&first.path)?, &mut |_| {})?;
                continue;
            }
            first_names.insert(entry.inode, entry);
        }
        match entry.kind {
            Kind::File(_) => {
                let mut content = tree::open_file(from, &entry.path)?;
                assembly.put(&path, &entry.kind, &entry.meta, &mut content)?;
            }
            _ => assembly.put(&path, &entry.kind, &entry.meta, &mut std::io::empty())?,
        }
    }
    Ok(())
}

/// What changes whenever anything in the folder does, without reading the files: the kernel updates a file's change
/// time with every write to it and with every change of its metadata.
pub(crate) fn identity(from: &Path) -> Result<String, Fault> {
    let mut hash = Sha256::new();
    for entry in read(from)? {
        let place = tree::place(from, &entry.path);
        let facts = std::fs::symlink_metadata(&place).doing(format_args!("read {}", place.display()))?;
        hash.update(format!("{}:", entry.path.len()));
        hash.update(&entry.path);
        hash.update(format!("{} {} {} {}\n", facts.ino(), facts.size(), facts.ctime(), facts.ctime_nsec()));
    }
    Ok(crate::digest::named(hash))
}

fn read(from: &Path) -> Result<Vec<Entry>, Fault> {
    if !from.is_dir() {
        return Err(Fault::new(format!("the folder {} of a bundle does not exist", from.display()))
            .remedy("name an existing directory, relative to the workload's own folder"));
    }
    let from = from.canonicalize().doing(format_args!("find {}", from.display()))?;
    tree::read(&from)
}
