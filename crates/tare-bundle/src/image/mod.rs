//! Bundles from images: an OCI layout (a folder or an archive of one) or what `docker save` writes.

mod manifest;
mod parts;

use crate::digest;
use crate::unpack::compression;
use crate::unpack::layer::Assembly;
use manifest::{Config, Layer};
use parts::Parts;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use tare_core::fault::Fault;

/// How an image says its program is to be started; shown to whoever writes a workload for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// The program and its first arguments.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// The further arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// `NAME=value` for each variable.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Who runs it, as the image writes it; empty for root.
    #[serde(default)]
    pub user: String,
    /// Where it starts; empty for `/`.
    #[serde(default)]
    pub directory: String,
}

/// Builds the tree of the image at `path`, with `work` for what has to be decompressed on the way.
pub(crate) fn build(path: &Path, work: &Path, assembly: &mut Assembly) -> Result<ImageConfig, Fault> {
    let inner = |assembly: &mut Assembly| {
        let parts = Parts::open(path, work)?;
        let image = manifest::read(&parts)?;
        for (index, layer) in image.layers.iter().enumerate() {
            apply(&parts, layer, assembly)
                .map_err(|fault| fault.context(format_args!("layer {} of {}", index + 1, image.layers.len())))?;
        }
        Ok(shown(image.config))
    };
    inner(assembly).map_err(|fault: Fault| fault.context(format_args!("the image {}", path.display())))
}

/// Applies one layer. Its bytes are hashed on the way; when they are not what the manifest says, that is the fault,
/// whatever else they led to. The tree is thrown away then.
fn apply(parts: &Parts, layer: &Layer, assembly: &mut Assembly) -> Result<(), Fault> {
    let mut stored = Hashed::new(parts.open_part(&layer.part)?, layer.stored_digest.is_some());
    let mut plain_digest = None;
    let applied = compression::plain(&mut stored).and_then(|plain| {
        let mut plain = Hashed::new(plain, layer.plain_digest.is_some());
        let applied = assembly.apply(&mut plain, &|_| false);
        if applied.is_ok() {
            plain_digest = plain.digest();
        }
        applied
    });
    // A decoder may stop before the end of what is stored.
    let drained = std::io::copy(&mut stored, &mut std::io::sink());
    if let (Some(wanted), Ok(_)) = (&layer.stored_digest, drained) {
        parts::check(&layer.part, wanted, stored.digest().as_deref())?;
    }
    applied?;
    match &layer.plain_digest {
        Some(wanted) => parts::check(&layer.part, wanted, plain_digest.as_deref()),
        None => Ok(()),
    }
}

fn shown(config: Config) -> ImageConfig {
    let run = config.config.unwrap_or_default();
    ImageConfig {
        entrypoint: run.entrypoint.unwrap_or_default(),
        command: run.command.unwrap_or_default(),
        environment: run.environment.unwrap_or_default(),
        user: run.user.unwrap_or_default(),
        directory: run.directory.unwrap_or_default(),
    }
}

/// Hashes what is read through it.
struct Hashed<R> {
    inner: R,
    hash: Option<Sha256>,
}

impl<R: Read> Hashed<R> {
    fn new(inner: R, wanted: bool) -> Self {
        Hashed { inner, hash: wanted.then(Sha256::new) }
    }

    fn digest(&self) -> Option<String> {
        self.hash.clone().map(digest::named)
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if let Some(hash) = &mut self.hash {
            hash.update(&buffer[..count]);
        }
        Ok(count)
    }
}
