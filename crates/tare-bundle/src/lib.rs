//! Bundles: the root filesystem of a service, made once from packages, an image or a folder, addressed by the digest
//! of its tree, and emitted as a directory, an archive and a disk, so that every form executes the same files.
//!
//! A store is a directory:
//!
//! ```text
//! recipes/<key>.json      which bundle a recipe led to
//! bundles/<digest>/       bundle.json, lock, and in files: tree, archive.tar, disk-<writer>.ext4, files-1.jsonl
//! kernels/<release>/      kernel.json, vmlinuz, lib/modules/<release>
//! prepared/<key>/         a data set: a directory for each volume, named by its number
//! building/<name>/        a build under way; whoever opens the store removes those whose process is gone
//! locks/<key>             allows one build of a recipe at a time
//! ```
//!
//! **Architecture invariant:** whatever is under `bundles`, `kernels` and `prepared` is complete, because it is put
//! there by a rename; and no path from an archive is ever opened by name, see `unpack/`.

mod bounded;
mod built;
mod clock;
mod command;
mod compile;
mod digest;
mod emit;
mod files;
mod folder;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod image;
mod kernel;
mod names;
mod needs;
mod packages;
mod places;
mod prepared;
mod program;
mod store;
mod tree;
mod unpack;

pub use built::{BundleInfo, BundleListing, ListedFile};
pub use compile::{BoundBuilds, BuildRoom};
pub use image::says_of;
pub use needs::{Needs, needs};
pub use prepared::DataSets;
pub use store::{PullImage, Store, Teller, image_says};
