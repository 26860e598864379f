//! The store: finds the bundle of a recipe, or builds it.

use crate::built::{self, Built, BundleInfo, BundleListing, Facts};
use crate::compile::BoundBuilds;
use crate::digest::{self, Summed};
use crate::places::{self, Places};
use crate::unpack::layer::Assembly;
use crate::unpack::room::Roomy;
use crate::unpack::rooted::{Below, Rooted};
use crate::{compile, folder, image, kernel, packages, program};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tare_core::bundle::{Bundle, BundleStore, Kernel, Recipe, Source};
use tare_core::fault::{Doing, Fault};
use tare_core::image::ImageConfig;

/// Part of every recipe's key: raise it when the same recipe gives another tree.
const MAKER: u32 = 2;

/// Part of what identifies an image: change it when more is read of an image's configuration, so that what was kept of
/// it before is not taken for all.
const IMAGE_READER: &str = " with health check";

/// Directories on which every form mounts a world-writable tmpfs. Some engines give the mount the mode of the directory
/// below it, whatever they are asked for, so the directories get the mode that the mount should have.
const IN_MEMORY: [&str; 2] = ["tmp", "run"];

/// Fetches an image by its reference.
pub trait PullImage: Send + Sync {
    /// Writes the image `reference` to `into`, as `docker save` does.
    ///
    /// # Errors
    /// When there is no engine, the image cannot be fetched, or `into` accepts no more; marked as a mistake where the
    /// reference is wrong.
    fn pull(&self, reference: &str, into: &mut dyn Write) -> Result<(), Fault>;
}

/// Receives messages for the user about long work that the user did not ask for by name.
pub type Teller = dyn Fn(&str) + Send + Sync;

/// Bundles, kept in one directory on this machine and shared by all runs.
pub struct Store {
    places: Places,
    puller: Option<Box<dyn PullImage>>,
    bounds: Option<Box<dyn BoundBuilds>>,
    teller: Option<Box<Teller>>,
    /// The bundles that this process has used. Kept so that they cannot be removed until the process ends.
    known: Mutex<HashMap<String, Arc<Built>>>,
}

/// What is remembered of a recipe that was built.
#[derive(Serialize, Deserialize)]
struct LedTo {
    digest: String,
    recipe: Recipe,
    /// Changes when the source does, see [`identity`].
    #[serde(default)]
    identity: String,
    /// The image's configuration, if the source is an image. It is kept here and not with the bundle: images with the
    /// same files may have different configurations.
    #[serde(default)]
    image: Option<ImageConfig>,
}

impl LedTo {
    /// The recipes remembered in the folder `recipes`, the latest first.
    fn all(recipes: &Path) -> Vec<LedTo> {
        let items = std::fs::read_dir(recipes).into_iter().flatten().flatten();
        let dated = items.map(|item| (item.metadata().and_then(|facts| facts.modified()).ok(), item.path()));
        let mut dated: Vec<_> = dated.collect();
        dated.sort();
        let read = |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
        dated.iter().rev().filter_map(|(_, path)| read(path)).collect()
    }
}

/// How an image starts its program, as far as that can be read without fetching or unpacking it and without write
/// access: from the image itself, or from what the store in `root` remembers of it. `None` if that is not enough, or if
/// there is no such file.
///
/// # Errors
/// When the path names no image.
pub fn image_says(root: &Path, image: &str) -> Result<Option<ImageConfig>, Fault> {
    if is_path(image) {
        if !Path::new(image).exists() {
            return Ok(None);
        }
        if let Some(says) = image::look(Path::new(image))? {
            return Ok(Some(says));
        }
    }
    let source = Source::Image(image.to_owned());
    let identity = identity(&source)?;
    let kept = LedTo::all(&root.join(places::RECIPES)).into_iter();
    Ok(kept.filter(|led_to| led_to.recipe.source == source && led_to.identity == identity).find_map(|led| led.image))
}

impl Store {
    /// Opens the store in the directory `root`, which is created if it is missing. Removes what interrupted builds
    /// left there.
    ///
    /// # Errors
    /// When the directory cannot be made or written to.
    pub fn open(root: &Path) -> Result<Store, Fault> {
        Ok(Store { places: Places::open(root)?, puller: None, bounds: None, teller: None, known: Mutex::default() })
    }

    /// Fetches images named by a reference through `puller`.
    #[must_use]
    pub fn with_puller(mut self, puller: Box<dyn PullImage>) -> Self {
        self.puller = Some(puller);
        self
    }

    /// Bounds builds of workloads' own source by `bounds`.
    #[must_use]
    pub fn with_bounds(mut self, bounds: Box<dyn BoundBuilds>) -> Self {
        self.bounds = Some(bounds);
        self
    }

    /// Tells `teller` before anything but bundles is fetched: the kernel for guests.
    #[must_use]
    pub fn with_teller(mut self, teller: Box<Teller>) -> Self {
        self.teller = Some(teller);
        self
    }

    /// Builds the recipe again even if there is a bundle of it: for newer packages, or a reference that has moved.
    ///
    /// # Errors
    /// As [`BundleStore::bundle`].
    pub fn refresh(&self, recipe: &Recipe) -> Result<Arc<dyn Bundle>, Fault> {
        Ok(self.obtain(recipe, true)?)
    }

    /// All bundles, the last used first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn list(&self) -> Result<Vec<BundleInfo>, Fault> {
        let mut infos = Vec::new();
        for folder in self.folders()? {
            infos.push(built::info(&folder)?);
        }
        infos.sort_by(|a, b| (b.used_at, &b.digest).cmp(&(a.used_at, &a.digest)));
        Ok(infos)
    }

    /// Everything about the bundle whose digest begins with `prefix` (with or without `sha256:`), after checking its
    /// tree against its digest.
    ///
    /// # Errors
    /// When no bundle or more than one begins so, or the tree was changed.
    pub fn show(&self, prefix: &str) -> Result<BundleListing, Fault> {
        built::listing(&self.find(prefix)?)
    }

    /// Removes the bundle whose digest begins with `prefix`, with its archive and disk.
    ///
    /// # Errors
    /// When no bundle or more than one begins so, or it is in use.
    pub fn remove(&self, prefix: &str) -> Result<(), Fault> {
        let folder = self.find(prefix)?;
        let digest = built::read_facts(&folder)?.digest;
        let what = || format!("remove the bundle {digest}");
        let lock = places::lock_file(&folder.join("lock"), FlockOperation::NonBlockingLockExclusive);
        let _lock = lock.map_err(|_| {
            Fault::new(format!("the bundle {digest} is in use")).remedy("wait until the run that uses it has ended")
        })?;
        for item in std::fs::read_dir(self.places.recipes()).doing(what())?.flatten() {
            let led_to = std::fs::read(item.path()).ok().and_then(|b| serde_json::from_slice::<LedTo>(&b).ok());
            if led_to.is_none_or(|led_to| led_to.digest == digest) {
                std::fs::remove_file(item.path()).doing(what())?;
            }
        }
        // Moved first, so that nobody ever finds half of it.
        let work = self.places.workplace()?;
        std::fs::rename(&folder, work.path.join("removed")).doing(what())
    }

    fn folders(&self) -> Result<Vec<PathBuf>, Fault> {
        let bundles = self.places.bundles();
        let items = std::fs::read_dir(&bundles).doing(format_args!("list {}", bundles.display()))?;
        Ok(items.flatten().map(|item| item.path()).filter(|path| path.join("bundle.json").is_file()).collect())
    }

    fn find(&self, prefix: &str) -> Result<PathBuf, Fault> {
        let hex = prefix.trim_start_matches("sha256:");
        let mut found = self.folders()?;
        found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(hex)));
        let why = match (&found[..], hex) {
            (_, "") => "an empty digest names no bundle".to_owned(),
            ([one], _) => return Ok(one.clone()),
            ([], _) => format!("there is no bundle whose digest begins with '{hex}'"),
            (many, _) => format!("{} bundles have digests that begin with '{hex}'", many.len()),
        };
        Err(Fault::new(why).remedy("`tare bundle list` shows the digests").as_mistake())
    }

    fn obtain(&self, recipe: &Recipe, refresh: bool) -> Result<Arc<Built>, Fault> {
        let key = key(recipe)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = known.get(&key).filter(|_| !refresh) {
            return Ok(built.clone());
        }
        let _lock = self.places.lock(&key)?;
        let mut built = if refresh { None } else { self.recall(&key)? };
        if built.is_none() {
            let identity = identity(&recipe.source)?;
            let (digest, image) = self.build(recipe)?;
            let led_to = LedTo { digest: digest.clone(), recipe: recipe.clone(), identity, image: image.clone() };
            let bytes = serde_json::to_vec_pretty(&led_to).doing("write down a recipe")?;
            built = Built::open(&self.places, &digest, image)?;
            places::write_whole(&self.places.recipe(&key), &bytes, mode_of(recipe))?;
        }
        let built = Arc::new(built.ok_or_else(|| Fault::new("the bundle was removed right after it was built"))?);
        known.insert(key, built.clone());
        Ok(built)
    }

    fn recall(&self, key: &str) -> Result<Option<Built>, Fault> {
        let Ok(bytes) = std::fs::read(self.places.recipe(key)) else { return Ok(None) };
        match serde_json::from_slice::<LedTo>(&bytes) {
            // From before the configurations of images were kept.
            Ok(LedTo { recipe: Recipe { source: Source::Image(_), .. }, image: None, .. }) => Ok(None),
            Ok(led_to) => Built::open(&self.places, &led_to.digest, led_to.image),
            Err(_) => Ok(None),
        }
    }

    /// Builds the recipe and returns the digest of the tree, and the configuration of its image if it has one.
    fn build(&self, recipe: &Recipe) -> Result<(String, Option<ImageConfig>), Fault> {
        let work = self.places.workplace()?;
        let made = work.path.join("bundle");
        let root = built::tree_of(&made);
        let what = || format!("build in {}", work.path.display());
        std::fs::DirBuilder::new().mode(0o755).create(&made).doing(what())?;
        std::fs::DirBuilder::new().mode(0o700).create(made.join("files")).doing(what())?;
        std::fs::DirBuilder::new().mode(0o755).create(&root).doing(what())?;
        let rooted = Rooted::open(&root)?;
        let mut assembly = Assembly::new(rooted);
        assembly.put_folder(".", 0o755)?;
        let (mut versions, mut config) = (Vec::new(), None);
        match &recipe.source {
            Source::Packages(names) => versions = packages::build(names, &work.path, &mut assembly)?,
            Source::Image(image) => {
                let file = self.image_file(image, &work.path)?;
                config = Some(image::build(&file, &work.path, &mut assembly).map_err(of_input)?);
            }
            Source::Folder(from) => folder::copy(from, &mut assembly).map_err(of_input)?,
            Source::Program(_) => program::put(&mut assembly)?,
        }
        if let Some(build) = &recipe.build {
            let Source::Packages(own) = &recipe.source else {
                return Err(Fault::new("only a bundle of packages can have a `build:`").as_mistake());
            };
            compile::run(build, own, &work.path, &mut assembly, self.bounds.as_deref())?;
        }
        for file in &recipe.files {
            let relative = file.path.strip_prefix('/').unwrap_or(&file.path);
            assembly
                .put_bytes(relative, file.mode & 0o7777, file.content.bytes())
                .map_err(|fault| fault.context(format_args!("could not put {} into the bundle", file.path)))?;
        }
        for path in IN_MEMORY {
            let kind = assembly.rooted.kind(&Below::parse(path.as_bytes())?)?;
            if kind == Some(rustix::fs::FileType::Directory) {
                assembly.put_folder(path, 0o1777)?;
            }
        }
        let left_out = assembly.left_out.shown();
        assembly.finish()?;
        let digest = self.keep(recipe, &made, Found { packages: versions, image: config.clone(), left_out })?;
        Ok((digest, config))
    }

    /// Moves a built tree to its place in the store, unless the same tree is already there.
    fn keep(&self, recipe: &Recipe, made: &Path, found: Found) -> Result<String, Fault> {
        let root = built::tree_of(made);
        let Summed { digest, bytes: tree_bytes, entries: tree_entries } = digest::of_tree(&root)?;
        let built_at = crate::clock::unix_seconds();
        let (recipe, mode) = (recipe.clone(), mode_of(recipe));
        let Found { packages, image, left_out } = found;
        let facts =
            Facts { digest: digest.clone(), recipe, built_at, tree_bytes, tree_entries, packages, image, left_out };
        let what = || format!("keep the bundle {digest}");
        let bytes = serde_json::to_vec_pretty(&facts).doing(what())?;
        places::write_whole(&made.join("bundle.json"), &bytes, mode)?;
        let folder = std::fs::File::create(made.join("lock")).doing(what())?;
        // All of it must be on disk before its name is.
        rustix::fs::syncfs(&folder).doing(what())?;
        let place = self.places.bundle(&digest);
        match std::fs::rename(made, &place) {
            Err(_) if place.join("bundle.json").is_file() => Ok(digest),
            other => other.map(|()| digest.clone()).doing(what()),
        }
    }

    fn image_file(&self, image: &str, work: &Path) -> Result<PathBuf, Fault> {
        if is_path(image) {
            return Ok(PathBuf::from(image));
        }
        let Some(puller) = &self.puller else {
            return Err(Fault::new(format!(
                "the image {image} would have to be fetched, and there is no container engine"
            ))
            .remedy("start a container engine, or save the image on another machine and name the archive's path")
            .as_mistake());
        };
        let archive = work.join("pulled.tar");
        let file = File::create_new(&archive).doing(format_args!("write {}", archive.display()))?;
        let mut into = Roomy::new(file);
        let pulled = puller.pull(image, &mut into);
        into.refused().map(of_input).map_or(pulled, Err)?;
        Ok(archive)
    }
}

/// What was learnt while a tree was built.
struct Found {
    packages: Vec<String>,
    image: Option<ImageConfig>,
    left_out: Vec<String>,
}

impl BundleStore for Store {
    fn bundle(&self, recipe: &Recipe) -> Result<Arc<dyn Bundle>, Fault> {
        Ok(self.obtain(recipe, false)?)
    }

    fn keeps(&self, recipe: &Recipe) -> bool {
        key(recipe).is_ok_and(|key| matches!(self.recall(&key), Ok(Some(_))))
    }

    fn kernel(&self) -> Result<Kernel, Fault> {
        kernel::find(&self.places, &|text: &str| self.teller.iter().for_each(|tell| tell(text)))
    }
}

/// The mode of a stored recipe: only its owner may read one with files of a workload, which may hold secrets.
fn mode_of(recipe: &Recipe) -> u32 {
    if recipe.files.is_empty() && recipe.build.is_none() { 0o644 } else { 0o600 }
}

/// Whether an image is named by a path and not by a reference, no part of which begins with a dot. That a file of this
/// name exists proves nothing: anybody could have put one into the folder in which Tare is started.
fn is_path(image: &str) -> bool {
    image.starts_with(['/', '.']) || image.contains("/.")
}

/// The key of a recipe: everything that decides its tree, as far as that is known without building it.
fn key(recipe: &Recipe) -> Result<String, Fault> {
    let mut hash = Sha256::new();
    hash.update(format!("{MAKER} {} ", std::env::consts::ARCH));
    hash.update(serde_json::to_vec(recipe).doing("write down a recipe")?);
    hash.update(identity(&recipe.source)?);
    Ok(digest::hex(&hash.finalize())[..32].to_owned())
}

/// A value that changes when a source changes under its name, where anything tells that.
fn identity(source: &Source) -> Result<String, Fault> {
    Ok(match source {
        Source::Packages(_) => {
            let distribution = packages::sources::Distribution::of_host()?;
            format!(" {} {}", distribution.id, distribution.codename)
        }
        Source::Image(image) if is_path(image) && Path::new(image).is_dir() => {
            folder::identity(Path::new(image)).map_err(of_input)? + IMAGE_READER
        }
        Source::Image(image) if is_path(image) => {
            let facts = std::fs::metadata(image).doing(format_args!("find the image {image}"));
            let facts = facts.map_err(|fault| fault.remedy(image::NAME_ONE).as_mistake())?;
            let (time, nanos) = (facts.ctime(), facts.ctime_nsec());
            format!(" {} {} {time} {nanos}{IMAGE_READER}", facts.ino(), facts.size())
        }
        Source::Image(_) => IMAGE_READER.to_owned(),
        Source::Folder(from) => folder::identity(from).map_err(of_input)?,
        Source::Program(_) => program::identity()?,
    })
}

/// A failure to read an image or a folder is the user's mistake, unless the disk is full.
fn of_input(fault: Fault) -> Fault {
    if fault.disk_full { fault } else { fault.as_mistake() }
}
