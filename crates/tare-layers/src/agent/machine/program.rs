//! This very program, which is the same on all machines of a run.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tare_core::fault::{Doing, Fault};

/// This very program, whatever has become of its file.
pub(crate) const PROGRAM: &str = "/proc/self/exe";

/// The SHA-256 of a file, as 64 hexadecimal digits.
pub(crate) fn digest_of(path: &Path) -> Result<String, Fault> {
    let doing = || format!("read {}", path.display());
    let mut hash = Sha256::new();
    let mut file = File::open(path).doing(doing())?;
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece).doing(doing())? {
            0 => break,
            count => hash.update(&piece[..count]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
