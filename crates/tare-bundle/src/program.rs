//! Bundles of this very program, for a service that is one of its verbs.

use crate::tree::{Kind, Meta};
use crate::unpack::layer::Assembly;
use crate::unpack::rooted::Below;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use tare_core::fault::{Doing, Fault};

/// The running program itself, even if its file has been replaced since.
const OWN: &str = "/proc/self/exe";
/// Directories that serve as mount points or are written to when a service runs.
const FOLDERS: [(&str, u32); 8] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("proc", 0o755),
    ("run", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("usr/bin", 0o755),
];
/// The program needs no library and no configuration; these files are for people who look into its root.
const FILES: [(&str, &str); 2] = [
    ("etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
];

/// Puts the running program into the tree, as /usr/bin/tare.
pub(crate) fn put(assembly: &mut Assembly) -> Result<(), Fault> {
    for (path, mode) in FOLDERS {
        assembly.put_folder(path, mode)?;
    }
    for (path, content) in FILES {
        assembly.put_text(path, 0o644, content)?;
    }
    let mut own = open()?;
    let bytes = own.metadata().doing("read the size of the running program")?.len();
    let meta = Meta { mode: 0o755, ..Meta::default() };
    assembly.put(&Below::parse(b"usr/bin/tare")?, &Kind::File(bytes), &meta, &mut own)
}

/// A value that changes whenever the running program does.
pub(crate) fn identity() -> Result<String, Fault> {
    let (mut hash, mut own) = (Sha256::new(), open()?);
    let mut piece = vec![0; 1 << 20];
    loop {
        match own.read(&mut piece).doing("read the running program")? {
            0 => return Ok(crate::digest::named(hash)),
            bytes => hash.update(&piece[..bytes]),
        }
    }
}

fn open() -> Result<File, Fault> {
    File::open(OWN).doing("read the running program")
}
