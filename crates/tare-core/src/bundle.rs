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
