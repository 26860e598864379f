//! The content address of a tree.
//!
//! SHA-256 over the entries sorted by the bytes of their paths. Each entry is its path, one letter for its type, its
//! mode, owner and group, its extended attributes sorted by name, and then what its type adds: a file's length and
//! bytes, a link's target, a device's numbers. Every text is preceded by its length (8 bytes, little endian), every
//! number takes 8 bytes, so no two trees can be written the same way. Modification times, inode numbers and the number
//! of names a file has are no part of it: they say nothing about what a service executes.

use crate::tree::{self, Entry, Kind};
use crate::unpack::layer::MAX_BYTES;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// What goes before everything else, so that a change of this format changes every digest.
const FORMAT: &[u8] = b"tare tree 1\n";

/// The digest of the tree under `root` whose entries are `entries`: `sha256:<hex>`.
pub(crate) fn of_tree(root: &Path, entries: &[Entry]) -> Result<String, Fault> {
    // A file of several names is read for each.
    let size = |entry: &Entry| if let Kind::File(size) = entry.kind { size } else { 0 };
    if entries.iter().map(size).fold(0, u64::saturating_add) > MAX_BYTES {
        return Err(Fault::new("the files of the tree are more than 64 GiB, each counted by all of its names"));
    }
    let mut hash = Sha256::new();
    hash.update(FORMAT);
    for entry in entries.iter().filter(|entry| entry.kind != Kind::Socket) {
        text(&mut hash, &entry.path);
        for value in [entry.meta.mode, entry.meta.uid, entry.meta.gid] {
            number(&mut hash, u64::from(value));
        }
        number(&mut hash, entry.meta.xattrs.len() as u64);
        for (name, value) in &entry.meta.xattrs {
            text(&mut hash, name);
            text(&mut hash, value);
        }
        match &entry.kind {
            Kind::Folder => hash.update(b"d"),
            Kind::File(size) => {
                hash.update(b"f");
                number(&mut hash, *size);
                content(&mut hash, root, entry, *size)?;
            }
            Kind::Link(target) => {
                hash.update(b"l");
                text(&mut hash, target);
            }
            Kind::Char(major, minor) => device(&mut hash, *b"c", *major, *minor),
            Kind::Block(major, minor) => device(&mut hash, *b"b", *major, *minor),
            Kind::Pipe => hash.update(b"p"),
            Kind::Socket => unreachable!("sockets are filtered out above"),
        }
    }
    Ok(named(hash))
}

/// `sha256:<hex>` of a finished hash.
pub(crate) fn named(hash: Sha256) -> String {
    format!("sha256:{}", hex(&hash.finalize()))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds what is in a file of the tree under `root`, which has `size` bytes.
pub(crate) fn content(hash: &mut Sha256, root: &Path, entry: &Entry, size: u64) -> Result<(), Fault> {
    let mut file = tree::open_file(root, &entry.path)?;
    let mut buffer = vec![0_u8; 1 << 18];
    let mut read = 0;
    loop {
        let count = file.read(&mut buffer).doing(format_args!("read {}", tree::shown(&entry.path)))?;
        if count == 0 {
            break;
        }
        read += count as u64;
        hash.update(&buffer[..count]);
    }
    if read != size {
        return Err(Fault::new(format!("{} changed while it was read", tree::shown(&entry.path))));
    }
    Ok(())
}

fn device(hash: &mut Sha256, letter: [u8; 1], major: u32, minor: u32) {
    hash.update(letter);
    number(hash, u64::from(major));
    number(hash, u64::from(minor));
}

fn text(hash: &mut Sha256, bytes: &[u8]) {
    number(hash, bytes.len() as u64);
    hash.update(bytes);
}

fn number(hash: &mut Sha256, value: u64) {
    hash.update(value.to_le_bytes());
}
