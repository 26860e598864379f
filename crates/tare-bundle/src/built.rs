//! A bundle in the store.

use crate::places::{self, Places};
use crate::tree::{self, Kind};
use crate::unpack::room;
use crate::{digest, emit, files};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::UNIX_EPOCH;
use tare_core::bundle::{Bundle, Recipe, Source};
use tare_core::fault::{Doing, Fault};
use tare_core::host::SeenFile;
use tare_core::image::ImageConfig;

/// The contents of `bundle.json`, which lies beside the tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) digest: String,
    pub(crate) recipe: Recipe,
    pub(crate) built_at: u64,
    pub(crate) tree_bytes: u64,
    pub(crate) tree_entries: u64,
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    #[serde(default)]
    pub(crate) image: Option<ImageConfig>,
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
}

/// A bundle as lists of bundles show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleInfo {
    /// `sha256:<hex>` of the tree.
    pub digest: String,
    /// The recipe it was first built from, in words.
    pub recipe: String,
    /// Bytes of all files of the tree.
    pub tree_bytes: u64,
    /// Entries of the tree.
    pub tree_entries: u64,
    /// Bytes of the archive, if it has been emitted.
    pub archive_bytes: Option<u64>,
    /// Bytes that the disk image takes on disk, if it has been emitted; it is sparse.
    pub disk_bytes: Option<u64>,
    /// When it was built, seconds since 1970.
    pub built_at: u64,
    /// When it was last used, seconds since 1970.
    pub used_at: u64,
}

/// Everything about one bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleListing {
    /// The bundle itself.
    pub info: BundleInfo,
    /// Where its tree is.
    pub directory: PathBuf,
    /// The packages in it: name, version, architecture. Empty when it was not built from packages.
    pub packages: Vec<String>,
    /// How to start the program, according to the image from which the bundle was first built.
    pub image: Option<ImageConfig>,
    /// Devices of its source that were left out.
    pub left_out: Vec<String>,
    /// The entries of its tree, sorted by path.
    pub files: Vec<ListedFile>,
}

/// One entry of a bundle's tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFile {
    /// Absolute path inside the bundle; with ` -> target` for a link.
    pub path: String,
    /// Type and permissions as in `-0644`: a letter as `ls` writes it, then the octal bits.
    pub mode: String,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Bytes of a file; 0 for anything else.
    pub bytes: u64,
}

/// A bundle in use: it cannot be removed while this value lives.
pub(crate) struct Built {
    folder: PathBuf,
    places: Places,
    facts: Facts,
    /// What the requested image says: other images may have the same tree.
    image: Option<ImageConfig>,
    emitting: Mutex<()>,
    _lock: File,
}

impl Built {
    /// Opens the bundle of this digest for use; none if it does not exist, or no longer does.
    pub(crate) fn open(places: &Places, digest: &str, image: Option<ImageConfig>) -> Result<Option<Built>, Fault> {
        let folder = places.bundle(digest);
        if !folder.is_dir() {
            return Ok(None);
        }
        let what = || format!("use the bundle {digest}");
        let Ok(lock) = places::lock_file(&folder.join("lock"), FlockOperation::LockShared) else { return Ok(None) };
        // It may have been removed while we waited for the lock.
        let Ok(facts) = read_facts(&folder) else { return Ok(None) };
        lock.set_modified(crate::clock::now()).doing(what())?;
        Ok(Some(Built { folder, places: places.clone(), facts, image, emitting: Mutex::new(()), _lock: lock }))
    }

    /// The file that `write` makes from the tree, of about `wanted` bytes: made once, and kept under this name.
    fn emit(
        &self,
        name: &str,
        wanted: u64,
        write: impl FnOnce(&Path, &Path) -> Result<(), Fault>,
    ) -> Result<PathBuf, Fault> {
        let path = self.folder.join("files").join(name);
        let _mine = self.emitting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if path.exists() {
            return Ok(path);
        }
        let key = self.facts.digest.trim_start_matches("sha256:");
        let _lock = self.places.lock(key)?;
        if path.exists() {
            return Ok(path);
        }
        let work = self.places.workplace()?;
        let part = work.path.join("emission");
        room::check(File::open(&work.path).doing("look at the disk where bundles are kept")?, wanted)
            .map_err(|fault| fault.context(format_args!("could not emit {name}")))?;
        write(&tree_of(&self.folder), &part).map_err(|fault| fault.context(format_args!("could not emit {name}")))?;
        let what = || format!("keep {}", path.display());
        let file = File::open(&part).doing(what())?;
        file.sync_all().doing(what())?;
        rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o444)).doing(what())?;
        std::fs::rename(&part, &path).doing(what())?;
        Ok(path)
    }
}

impl Built {
    /// Estimated size of the whole tree as an archive or a disk: each entry adds a header and padding.
    fn whole(&self) -> u64 {
        self.facts.tree_bytes.saturating_add(self.facts.tree_entries.saturating_mul(1536))
    }
}

impl Bundle for Built {
    fn digest(&self) -> &str {
        &self.facts.digest
    }

    fn directory(&self) -> Result<PathBuf, Fault> {
        Ok(tree_of(&self.folder))
    }

    fn archive(&self) -> Result<PathBuf, Fault> {
        self.emit("archive.tar", self.whole(), |root, out| {
            let file = File::create_new(out).doing(format_args!("create {}", out.display()))?;
            emit::archive::write(root, &file)
        })
    }

    fn disk(&self) -> Result<PathBuf, Fault> {
        self.emit(&disk_name(), self.whole(), |root, out| emit::disk::write(root, &self.facts.digest, out))
    }

    fn files(&self, user: (u32, u32)) -> Result<Vec<SeenFile>, Fault> {
        files::check(self.facts.tree_bytes, self.facts.tree_entries)?;
        let wanted = self.facts.tree_entries.saturating_mul(files::LINE_BYTES);
        let kept = self.emit(files::KEPT, wanted, files::write)?;
        files::read(&kept, user)
    }

    fn image(&self) -> Option<&ImageConfig> {
        self.image.as_ref()
    }
}

/// Where the tree of the bundle in `folder` is. Other users cannot enter the directory above it, because a tree may
/// hold set-id programs.
pub(crate) fn tree_of(folder: &Path) -> PathBuf {
    folder.join("files/tree")
}

pub(crate) fn read_facts(folder: &Path) -> Result<Facts, Fault> {
    let path = folder.join("bundle.json");
    let bytes = std::fs::read(&path).doing(format_args!("read {}", path.display()))?;
    serde_json::from_slice(&bytes).doing(format_args!("read {}", path.display()))
}

/// The bundle in `folder` as lists show it.
pub(crate) fn info(folder: &Path) -> Result<BundleInfo, Fault> {
    let facts = read_facts(folder)?;
    let used = std::fs::metadata(folder.join("lock")).and_then(|facts| facts.modified()).unwrap_or(UNIX_EPOCH);
    let size = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(folder.join("files").join(name)).ok().map(|facts| facts.blocks() * 512)
    };
    Ok(BundleInfo {
        digest: facts.digest,
        recipe: in_words(&facts.recipe),
        tree_bytes: facts.tree_bytes,
        tree_entries: facts.tree_entries,
        archive_bytes: size("archive.tar"),
        disk_bytes: size(&disk_name()),
        built_at: facts.built_at,
        used_at: used.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
    })
}

/// Everything about the bundle in `folder`. Reads its whole tree to check the digest.
pub(crate) fn listing(folder: &Path) -> Result<BundleListing, Fault> {
    let facts = read_facts(folder)?;
    let directory = tree_of(folder);
    let found = digest::of_tree(&directory)?.digest;
    if found != facts.digest {
        return Err(Fault::new(format!("the tree of {} was changed: it is {found} now", facts.digest))
            .remedy("remove the bundle, then build it again"));
    }
    let mut files = Vec::new();
    tree::walk(&directory, |entry, _| {
        files.push(listed(&entry));
        Ok(())
    })?;
    let (packages, image, left_out) = (facts.packages, facts.image, facts.left_out);
    Ok(BundleListing { info: info(folder)?, directory, packages, image, left_out, files })
}

fn listed(entry: &tree::Entry) -> ListedFile {
    let (letter, bytes) = match entry.kind {
        Kind::Folder => ('d', 0),
        Kind::File(size) => ('-', size),
        Kind::Link(_) => ('l', 0),
        Kind::Char(..) => ('c', 0),
        Kind::Block(..) => ('b', 0),
        Kind::Pipe => ('p', 0),
        Kind::Socket => ('s', 0),
    };
    let mut path = format!("/{}", tree::shown(&entry.path));
    if let Kind::Link(target) = &entry.kind {
        path.push_str(&format!(" -> {}", tree::shown(target)));
    }
    let mode = format!("{letter}{:04o}", entry.meta.mode);
    ListedFile { path, mode, owner: (entry.meta.uid, entry.meta.gid), bytes }
}

fn disk_name() -> String {
    format!("disk-{}.ext4", emit::disk::WRITER)
}

fn in_words(recipe: &Recipe) -> String {
    let source = match &recipe.source {
        Source::Packages(names) => format!("packages {}", names.join(", ")),
        Source::Image(image) => format!("image {image}"),
        Source::Folder(folder) => format!("folder {}", folder.display()),
        Source::Program(name) => format!("program {name}"),
    };
    let source = match &recipe.build {
        Some(build) => {
            let sources: Vec<&str> = build.sources.keys().map(String::as_str).collect();
            let paths: Vec<&str> = build.installs.keys().map(String::as_str).collect();
            format!("{source}, with {} built from {}", paths.join(", "), sources.join(", "))
        }
        None => source,
    };
    match recipe.files.len() {
        0 => source,
        1 => format!("{source}, with 1 file put on top"),
        count => format!("{source}, with {count} files put on top"),
    }
}
