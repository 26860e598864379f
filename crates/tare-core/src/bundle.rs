//! A bundle is the root filesystem of a service: built once, addressed by digest, emitted as a directory, an image
//! and a disk, so that every form executes the same files.

mod build;
mod content;

pub use build::Build;
pub(crate) use build::read_packages;
pub use content::Content;

use crate::fault::Fault;
use crate::host::SeenFile;
use crate::image::ImageConfig;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// How a bundle is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Recipe {
    /// Where the files come from.
    pub source: Source,
    /// Files put on top, sorted by path: path inside the bundle, content, mode.
    #[serde(default)]
    pub files: Vec<ExtraFile>,
    /// What is built from the workload's own source and put in. Omitted if there is none, so that such a recipe is
    /// written, and remembered, as before there were builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,
}

impl Recipe {
    /// The recipe for what `source` delivers, with nothing on top.
    pub fn plain(source: Source) -> Recipe {
        Recipe { source, files: Vec::new(), build: None }
    }
}

/// What stands before the name of an image that the engine on this machine has; skopeo calls it so, too.
pub const ENGINE_IMAGE: &str = "docker-daemon:";
/// The repository of the images that Tare makes of bundles in an engine; everything in it is Tare's. With a host in
/// front, no engine expands it to something else: Podman puts `localhost/` before a bare name, Docker
/// `docker.io/library/`.
pub const BUNDLE_IMAGES: &str = "localhost/tare-bundle";
/// The same of those that Tare builds of folders with a Dockerfile.
pub const BUILT_IMAGES: &str = "localhost/tare-built";
/// What engines put before a bare name or leave out of a whole one, from the outermost part on.
const IMPLIED: [&str; 4] = ["index.docker.io/", "docker.io/", "library/", "localhost/"];

/// Whether an image of this name would stand among those that Tare makes itself, whichever engine reads the name. The
/// name may have a tag and a digest.
pub fn is_own_image_name(name: &str) -> bool {
    let plain = |name: &str| {
        let name = name.split('@').next().unwrap_or_default();
        // A colon before a slash belongs to the registry's port.
        let last = name.rfind('/').map_or(0, |slash| slash + 1);
        let end = name[last..].find(':').map_or(name.len(), |colon| last + colon);
        let whole = name[..end].to_ascii_lowercase();
        let short = IMPLIED.iter().fold(whole.as_str(), |rest, start| rest.strip_prefix(*start).unwrap_or(rest));
        short.to_owned()
    };
    [BUNDLE_IMAGES, BUILT_IMAGES].into_iter().any(|own| plain(own) == plain(name))
}

/// Where the files of a bundle come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Debian packages and their dependencies, from the host's own apt sources.
    Packages(Vec<String>),
    /// An OCI image: a path to an archive, a layout folder or `docker save` output, a registry reference, or the name
    /// and ID of an image that a container engine on this machine has.
    Image(String),
    /// A copied folder of the host.
    Folder(PathBuf),
    /// The running program itself, for a service that is one of its verbs; only its name is stored.
    Program(String),
}

/// A file put on top of what the source delivers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraFile {
    /// Absolute path inside the bundle.
    pub path: String,
    /// The content.
    pub content: Content,
    /// Permission bits.
    pub mode: u32,
}

/// A built bundle. Emissions are made on first use and cached.
pub trait Bundle: Send + Sync {
    /// `sha256:<hex>` over the merged tree: path, type, mode, uid, gid, xattrs, content.
    fn digest(&self) -> &str;

    /// The tree as a read-only directory.
    ///
    /// # Errors
    /// When it cannot be emitted (no space, no permission).
    fn directory(&self) -> Result<PathBuf, Fault>;

    /// The tree as one uncompressed tar archive, as a container engine imports it. May be a block device.
    ///
    /// # Errors
    /// When it cannot be emitted.
    fn archive(&self) -> Result<PathBuf, Fault>;

    /// The tree as a read-only raw ext4 disk image.
    ///
    /// # Errors
    /// When it cannot be emitted.
    fn disk(&self) -> Result<PathBuf, Fault>;

    /// Its files and links, sorted by path, without those that a service with this user and group may change because it
    /// can write to them or to a folder above them. None if the bundle does not know its files.
    ///
    /// # Errors
    /// When they cannot be read, or there are too many.
    fn files(&self, _user: (u32, u32)) -> Result<Vec<SeenFile>, Fault> {
        Ok(Vec::new())
    }

    /// The configuration of the image it was made from, if it was made from one.
    fn image(&self) -> Option<&ImageConfig> {
        None
    }
}

/// A guest's kernel with the modules it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The bootable image.
    pub image: PathBuf,
    /// The directory that holds `modules.dep`, i.e. `lib/modules/<release>`.
    pub modules: PathBuf,
    /// The release, as `uname -r` will say it in the guest.
    pub release: String,
    /// Its origin, for the report: "the host's own", "Debian cloud kernel 6.1.0-56".
    pub origin: String,
}

/// Builds and keeps bundles.
pub trait BundleStore: Send + Sync {
    /// The bundle of this recipe, built now if it does not exist.
    ///
    /// # Errors
    /// When the source is not available or the tree is refused.
    fn bundle(&self, recipe: &Recipe) -> Result<Arc<dyn Bundle>, Fault>;

    /// Whether the bundle of this recipe exists, so that [`BundleStore::bundle`] takes next to no time.
    fn keeps(&self, _recipe: &Recipe) -> bool {
        false
    }

    /// The kernel for guests.
    ///
    /// # Errors
    /// When the host's own kernel cannot be read and the distribution's cannot be fetched.
    fn kernel(&self) -> Result<Kernel, Fault>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_our_own_images_is_known_however_it_is_written() {
        for repository in ["tare-bundle", "tare-built"] {
            for before in ["", "localhost/", "docker.io/", "docker.io/library/", "index.docker.io/library/"] {
                for after in ["", ":latest", ":0123abcd", "@sha256:00", ":1@sha256:00"] {
                    let name = format!("{before}{repository}{after}");
                    assert!(is_own_image_name(&name), "{name}");
                }
            }
        }
        for other in ["", "redis:7", "tare-bundle-test:1", "mine/tare-built", "localhost:5000/tare-bundle:1", "tare"] {
            assert!(!is_own_image_name(other), "{other}");
        }
    }
}
