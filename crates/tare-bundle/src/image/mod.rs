//! Bundles from images: an OCI layout (a folder or an archive of one), or an archive written by `docker save`.

mod manifest;
mod parts;

use crate::digest;
use crate::unpack::compression;
use crate::unpack::layer::Assembly;
use crate::unpack::rooted::Below;
use manifest::Layer;
use parts::{Opened, Parts};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use tare_core::fault::{Doing, Fault};
use tare_core::image::ImageConfig;

/// What to do when a path names no image.
pub(crate) const NAME_ONE: &str =
    "name an archive (`docker save -o FILE IMAGE`), an OCI layout, or an image's reference";

/// Builds the tree of the image at `path`; `work` takes the decompressed archive if need be.
pub(crate) fn build(path: &Path, work: &Path, assembly: &mut Assembly) -> Result<ImageConfig, Fault> {
    let inner = |assembly: &mut Assembly| {
        let parts = Parts::open(path, work)?;
        let image = manifest::read(&parts)?;
        let whole = std::fs::metadata(path).doing("see how large it is")?;
        assembly.expect(if whole.is_file() { whole.len() } else { 0 });
        for (index, layer) in image.layers.iter().enumerate() {
            assembly.expect(parts.bytes_in_folder(&layer.part)?);
            apply(&parts, layer, assembly)
                .map_err(|fault| fault.context(format_args!("layer {} of {}", index + 1, image.layers.len())))?;
        }
        let says = image.says();
        make_directory(&says, assembly)?;
        Ok(says)
    };
    inner(assembly).map_err(|fault: Fault| of(path, fault))
}

/// The configuration of the image at `path`, without unpacking it; none if that would take decompressing it.
pub(crate) fn look(path: &Path) -> Result<Option<ImageConfig>, Fault> {
    let inner = || {
        let Opened::Plain(parts) = Opened::open(path)? else { return Ok(None) };
        manifest::read(&parts).map(|image| Some(image.says()))
    };
    inner().map_err(|fault| of(path, fault))
}

/// How an image is started, as its configuration document says: for an image of which nothing else is here yet.
///
/// # Errors
/// When the document is not an image's configuration.
pub fn says_of(document: &[u8]) -> Result<ImageConfig, Fault> {
    manifest::says_of(document)
}

fn of(path: &Path, fault: Fault) -> Fault {
    fault.context(format_args!("the image {}", path.display()))
}

/// Makes the image's working directory if its layers lack it, as engines do.
fn make_directory(says: &ImageConfig, assembly: &mut Assembly) -> Result<(), Fault> {
    let Some(directory) = says.start_directory() else { return Ok(()) };
    let path = &directory[1..];
    if assembly.rooted.kind(&Below::parse(path.as_bytes())?)?.is_some() {
        return Ok(());
    }
    assembly.put_folder(path, 0o755)
}

/// Applies one layer and hashes its bytes on the way. If they do not match the manifest, that is the error to report,
/// whatever else went wrong because of it. The tree is then thrown away.
fn apply(parts: &Parts, layer: &Layer, assembly: &mut Assembly) -> Result<(), Fault> {
    let mut stored = Hashed::new(parts.open_part(&layer.part)?, layer.stored_digest.is_some());
    let mut plain_digest = None;
    let applied = compression::plain(&mut stored, compression::LAYER_WINDOW_LOG).and_then(|plain| {
        let mut plain = Hashed::new(plain, layer.plain_digest.is_some());
        let applied = assembly.apply(&mut plain, &|_| false);
        if applied.is_ok() {
            plain_digest = plain.digest();
        }
        applied
    });
    // A decoder may stop before the end of the stored bytes.
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

/// A reader that hashes what is read through it.
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
