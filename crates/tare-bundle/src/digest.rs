//! The content address of a tree.
//!
//! SHA-256 over the entries sorted by the bytes of their paths. Each entry is its path, one letter for its type, its
//! mode, owner and group, its extended attributes sorted by name, and then what its type adds: a file's length and
//! bytes, a link's target, a device's numbers. Every text is preceded by its length (8 bytes, little endian), every
//! number takes 8 bytes, so no two trees are encoded alike. Modification times, inode numbers and the number of names
//! of a file are left out: they do not change what a service executes.

use crate::tree::{self, At, Entry, Kind};
use crate::unpack::layer::MAX_BYTES;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// The prefix of everything hashed, so that a change of this format changes every digest.
const FORMAT: &[u8] = b"tare tree 1\n";

/// A tree's digest, and how large it is.
pub(crate) struct Summed {
    /// `sha256:<hex>`.
    pub(crate) digest: String,
    /// The bytes of its files, counted once for each name.
    pub(crate) bytes: u64,
    /// How many entries it has, the root among them.
    pub(crate) entries: u64,
}

/// Hashes the tree under `root`.
pub(crate) fn of_tree(root: &Path) -> Result<Summed, Fault> {
    let mut hash = Sha256::new();
    hash.update(FORMAT);
    let (mut bytes, mut entries) = (0_u64, 0);
    tree::walk(root, |entry, at| {
        entries += 1;
        if let Kind::File(size) = entry.kind {
            // A file is read once for each of its names.
            bytes = bytes.saturating_add(size);
        }
        if bytes > MAX_BYTES {
            return Err(Fault::new("the files of the tree exceed 64 GiB, counted once for each name"));
        }
        add(&mut hash, &entry, at)
    })?;
    Ok(Summed { digest: named(hash), bytes, entries })
}

fn add(hash: &mut Sha256, entry: &Entry, at: At<'_>) -> Result<(), Fault> {
    if entry.kind == Kind::Socket {
        return Ok(());
    }
    text(hash, &entry.path);
    for value in [entry.meta.mode, entry.meta.uid, entry.meta.gid] {
        number(hash, u64::from(value));
    }
    number(hash, entry.meta.xattrs.len() as u64);
    for (name, value) in &entry.meta.xattrs {
        text(hash, name);
        text(hash, value);
    }
    match &entry.kind {
        Kind::Folder => hash.update(b"d"),
        Kind::File(size) => {
            hash.update(b"f");
            number(hash, *size);
            content(hash, entry, at, *size)?;
        }
        Kind::Link(target) => {
            hash.update(b"l");
            text(hash, target);
        }
        Kind::Char(major, minor) => device(hash, *b"c", *major, *minor),
        Kind::Block(major, minor) => device(hash, *b"b", *major, *minor),
        Kind::Pipe => hash.update(b"p"),
        Kind::Socket => unreachable!("sockets are left out above"),
    }
    Ok(())
}

/// `sha256:<hex>` of a finished hash.
pub(crate) fn named(hash: Sha256) -> String {
    format!("sha256:{}", hex(&hash.finalize()))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds the content of a file of a tree, which has `size` bytes.
pub(crate) fn content(hash: &mut Sha256, entry: &Entry, at: At<'_>, size: u64) -> Result<(), Fault> {
    let mut file = at.open(entry)?;
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
