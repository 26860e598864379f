//! Bundles from a folder on this machine.

use crate::tree::{self, Kind};
use crate::unpack::layer::Assembly;
use crate::unpack::rooted::Below;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tare_core::fault::{Doing, Fault};

/// Copies the tree under `from`. Sockets are left out, and so are devices, which are noted.
pub(crate) fn copy(from: &Path, assembly: &mut Assembly) -> Result<(), Fault> {
    let own = assembly.rooted.inode()?;
    let mut first_names: HashMap<(u64, u64), Below> = HashMap::new();
    tree::walk(&found(from)?, |entry, at| {
        if entry.kind == Kind::Socket {
            return Ok(());
        }
        let path = if entry.path.is_empty() { Below::parse(b".")? } else { Below::parse(&entry.path)? };
        if entry.inode == own {
            return Err(Fault::new("it contains the folder in which Tare builds its bundle")
                .remedy("name another folder, or keep Tare's home elsewhere (TARE_HOME)"));
        }
        if entry.kind.is_device() {
            return assembly.left_out.add(path);
        }
        if entry.links > 1 && entry.kind != Kind::Folder {
            if let Some(first) = first_names.get(&entry.inode) {
                return assembly.rooted.link(&path, first, &mut |_| {}).map(drop);
            }
            first_names.insert(entry.inode, path.clone());
        }
        match entry.kind {
            Kind::File(_) => {
                let mut content = at.open(&entry)?;
                assembly.put(&path, &entry.kind, &entry.meta, &mut content)
            }
            _ => assembly.put(&path, &entry.kind, &entry.meta, &mut std::io::empty()),
        }
    })
}

/// A value that changes whenever anything in the folder does, found without reading the files: the kernel updates a
/// file's change time on every write to it and every change of its metadata.
pub(crate) fn identity(from: &Path) -> Result<String, Fault> {
    let mut hash = Sha256::new();
    tree::walk(&found(from)?, |entry, at| {
        let facts = at.stat().doing(format_args!("read {}", tree::place(from, &entry.path).display()))?;
        hash.update(format!("{}:", entry.path.len()));
        hash.update(&entry.path);
        hash.update(format!("{} {} {} {}\n", facts.st_ino, facts.st_size, facts.st_ctime, facts.st_ctime_nsec));
        Ok(())
    })?;
    Ok(crate::digest::named(hash))
}

fn found(from: &Path) -> Result<PathBuf, Fault> {
    if !from.is_dir() {
        return Err(Fault::new(format!("the folder {} of a bundle does not exist", from.display()))
            .remedy("name an existing folder, relative to the workload's own folder"));
    }
    from.canonicalize().doing(format_args!("find {}", from.display()))
}
