//! Bundles as engine images: imported once, then shared by every run.

use super::engine::{CallError, Engine, IMPORT_LIMIT, call_limit};
use super::find;
use super::leftovers::labelled;
use super::{run, spec};
use bollard::models::ContainerSummary;
use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListContainersOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder,
};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt, stream};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tare_core::bundle::{BUNDLE_IMAGES, Bundle};
use tare_core::fault::{Doing, Fault};
use tare_core::host::CachedItem;

/// The label of a bundle's image; it stays when another import takes over the tag.
const BUNDLE_LABEL: &str = "tare.bundle";
/// How many digits of the digest form the tag: enough that no two bundles share one.
const DIGITS: usize = 32;
/// How much of an archive is handed to the engine at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// A bundle's image in the engine's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedImage {
    /// What the engine calls it: a tag, or an id if the tag has moved on.
    pub name: String,
    /// How much room it takes up, bytes.
    pub bytes: u64,
    /// The bundle's digest, from the label.
    pub bundle: Option<String>,
}

/// The name of the image of a bundle with this digest (`sha256:<hex>`).
pub(crate) fn name_of(digest: &str) -> String {
    let hex = digest.rsplit(':').next().unwrap_or(digest);
    format!("{BUNDLE_IMAGES}:{}", hex.chars().take(DIGITS).collect::<String>())
}

/// The image of a bundle, imported now if the engine does not have it. Another image that has its name loses that.
///
/// # Errors
/// When the bundle cannot be emitted, or the engine refuses it.
pub(crate) fn ensure(engine: &Engine, bundle: &dyn Bundle) -> Result<String, Fault> {
    let name = name_of(bundle.digest());
    if !is_there(engine, &name, bundle.digest())? {
        let archive = bundle.archive()?;
        import_file(engine, &archive, &name, bundle.digest())?;
        let id = labelled_id(engine, &name, bundle.digest())?;
        seen().extend(id);
    }
    Ok(name)
}

/// The image of a bundle without the bundle's content, and the folder of its layer in the engine's store, as reported
/// by the engine, where the tree must be mounted. `None` when the engine already has the image.
///
/// # Errors
/// When the engine refuses it, or does not keep an image's layer as a folder.
pub(crate) fn ensure_hollow(engine: &Engine, bundle: &dyn Bundle) -> Result<Option<PathBuf>, Fault> {
    let name = name_of(bundle.digest());
    if is_there(engine, &name, bundle.digest())? {
        return Ok(None);
    }
    let what = format!("the empty image {name}");
    let archive = stream::iter([Ok(Bytes::from(hollow_archive(bundle.digest())?))]);
    import(engine, archive, &name, bundle.digest()).map_err(|error| error.doing(format!("import {what}")))?;
    let image = engine.call(engine.docker().inspect_image(&name));
    let image = image.map_err(|error| error.doing(format!("look at {what}")))?;
    let folder = image.graph_driver.and_then(|driver| driver.data.get("UpperDir").map(PathBuf::from));
    folder.map(Some).ok_or_else(|| Fault::new(format!("the container engine keeps the layer of {what} in no folder")))
}

/// An archive of one folder named by the digest: the engine identifies layers by their content, and takes two with the
/// same content as one.
fn hollow_archive(digest: &str) -> Result<Vec<u8>, Fault> {
    let hex = digest.rsplit(':').next().unwrap_or(digest);
    let mut archive = spec::directory_header(hex, (0, 0))?.to_vec();
    archive.extend_from_slice(&[0; 1024]);
    Ok(archive)
}

/// Whether the image of this name is the one that was imported for the bundle with this digest. The name alone proves
/// nothing: whoever may tag an image, such as a build, can take it.
fn is_there(engine: &Engine, name: &str, digest: &str) -> Result<bool, Fault> {
    let Some(id) = labelled_id(engine, name, digest)? else { return Ok(false) };
    if seen().contains(&id) {
        return Ok(true);
    }
    let imported = is_imported(engine, &id)?;
    if imported {
        seen().insert(id);
    }
    Ok(imported)
}

/// The IDs of images that were seen to be imported. An ID is a digest of an image's configuration and layers, so what
/// was seen of one holds for good; and each start of a service asks, and is measured.
fn seen() -> MutexGuard<'static, BTreeSet<String>> {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ID of the image of this name, if there is one and its label says that it is of the bundle with this digest.
fn labelled_id(engine: &Engine, name: &str, digest: &str) -> Result<Option<String>, Fault> {
    match engine.call(engine.docker().inspect_image(name)) {
        Ok(image) => {
            let labels = image.config.and_then(|config| config.labels).unwrap_or_default();
            Ok(image.id.filter(|_| is_labelled(&labels, digest)))
        }
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.doing(format!("look for the image {name}"))),
    }
}

/// Whether an image's labels say that it is of the bundle with this digest.
fn is_labelled(labels: &HashMap<String, String>, digest: &str) -> bool {
    labels.get(BUNDLE_LABEL).is_some_and(|labelled| labelled == digest)
}

fn import_file(engine: &Engine, archive: &Path, name: &str, digest: &str) -> Result<(), Fault> {
    let file = File::open(archive).doing(format!("open the bundle's archive {}", archive.display()))?;
    // Reading blocks this thread, which waits for nothing else at that time.
    let chunks = stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        let count = file.read(&mut chunk)?;
        chunk.truncate(count);
        Ok::<_, std::io::Error>((count > 0).then(|| (Bytes::from(chunk), file)))
    });
    import(engine, chunks, name, digest).map_err(|error| {
        let remedy = "see that the file system of the engine's store has space left (docker system df)";
        error.doing(format!("import the bundle's archive {} as an image", archive.display())).remedy(remedy)
    })
}

fn import<S>(engine: &Engine, archive: S, name: &str, digest: &str) -> Result<(), CallError>
where
    S: Stream<Item = std::io::Result<Bytes>> + Send + 'static,
{
    // The tag goes with the repository: Podman ignores the parameter `tag` of an import.
    let options = CreateImageOptionsBuilder::new()
        .from_src("-")
        .repo(name)
        .changes(vec![format!("LABEL {BUNDLE_LABEL}={digest}")])
        .build();
    let body = bollard::body_try_stream(archive);
    let progress = engine.docker().create_image(Some(options), Some(body), None);
    engine.call_within(IMPORT_LIMIT, progress.try_for_each(|_| async { Ok(()) }))
}

/// The bundles' images in the stores of all engines, each once; none when there is no engine.
///
/// # Errors
/// When an engine does not answer.
pub fn cached_images() -> Result<Vec<CachedImage>, Fault> {
    let mut images: Vec<CachedImage> = Vec::new();
    for engine in find::all()? {
        images.extend(images_of(&engine)?);
    }
    images.sort_by(|a, b| a.name.cmp(&b.name));
    images.dedup_by(|a, b| a.name == b.name);
    Ok(images)
}

fn images_of(engine: &Engine) -> Result<Vec<CachedImage>, Fault> {
    let filters = HashMap::from([("label", vec![BUNDLE_LABEL])]);
    let options = ListImagesOptionsBuilder::new().all(true).filters(&filters).build();
    let listed = engine.call(engine.docker().list_images(Some(options)));
    let listed = listed.map_err(|error| error.doing("list the bundles' images"))?;
    let mut images = Vec::new();
    for summary in listed {
        let Some(name) = name_to_remove(&summary) else { continue };
        if is_imported(engine, &summary.id)? {
            let bytes = u64::try_from(summary.size).unwrap_or(0);
            images.push(CachedImage { name, bytes, bundle: summary.labels.get(BUNDLE_LABEL).cloned() });
        }
    }
    Ok(images)
}

/// The name by which to remove an image that has a bundle's label: our own tag for it, or its id if it has no tag at
/// all. One that has only other people's tags is theirs.
fn name_to_remove(image: &bollard::models::ImageSummary) -> Option<String> {
    let tag = name_of(image.labels.get(BUNDLE_LABEL)?);
    match image.repo_tags.contains(&tag) {
        true => Some(tag),
        // Before Docker 25 an untagged image has this tag.
        false => image.repo_tags.iter().all(|tag| tag == "<none>:<none>").then(|| image.id.clone()),
    }
}

/// Whether an image was imported as it is. One that was built from ours or committed from one of our containers
/// inherits the label, and has the steps that changed it in its history.
fn is_imported(engine: &Engine, id: &str) -> Result<bool, Fault> {
    match engine.call(engine.docker().image_history(id)) {
        Ok(steps) => Ok(steps.len() == 1),
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error.doing(format!("read the history of the image {id}"))),
    }
}

/// A container, running or not, that uses this image and belongs to no run.
fn foreign_user(engine: &Engine, image: &str) -> Result<Option<String>, Fault> {
    let id = match engine.call(engine.docker().inspect_image(image)) {
        Err(error) if error.is_missing() => return Ok(None),
        other => other.map_err(|error| error.doing(format!("look at the image {image}")))?.id,
    };
    let options = ListContainersOptionsBuilder::new().all(true).build();
    let containers = run::once_tidied(|| engine.call(engine.docker().list_containers(Some(options.clone()))));
    let containers = containers.map_err(|error| error.doing("list the containers of the engine"))?;
    let foreign = containers.into_iter().find(|one| one.image_id == id && labelled(one).is_none());
    let name = |container: ContainerSummary| container.names.into_iter().flatten().next().or(container.id);
    Ok(foreign.and_then(name).map(|name| name.trim_start_matches('/').to_owned()))
}

/// The same, as items that the layer keeps.
///
/// # Errors
/// See [`cached_images`].
pub(crate) fn kept() -> Result<Vec<CachedItem>, Fault> {
    let kept = |image: CachedImage| CachedItem { kind: "image".to_owned(), name: image.name, bundle: image.bundle };
    Ok(cached_images()?.into_iter().map(kept).collect())
}

/// Removes a bundle's image from all engines, by the name that [`cached_images`] gives it; one that is already gone is
/// no error.
///
/// # Errors
/// When an engine does not answer, the image is not a bundle's, or something still uses it.
pub fn remove_image(name: &str) -> Result<(), Fault> {
    find::all()?.iter().try_for_each(|engine| remove_from(engine, name))
}

fn remove_from(engine: &Engine, name: &str) -> Result<(), Fault> {
    if !images_of(engine)?.iter().any(|image| image.name == name) {
        return Ok(());
    }
    if let Some(user) = foreign_user(engine, name)? {
        let fault = Fault::new(format!("the image {name} is in use by the container {user}, which is not Tare's"));
        return Err(fault.remedy(format!("{} rm {user}, if it is not needed", engine.command_line())));
    }
    // Forced: containers of a run may still refer to it, and they are stopped or removed by their own name.
    let options = RemoveImageOptionsBuilder::new().force(true).build();
    let removed = engine.call_within(call_limit(), engine.docker().remove_image(name, Some(options), None));
    match removed {
        Ok(_) => Ok(()),
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error.doing(format!("remove the image {name}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_named_by_its_digest() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        assert_eq!(name_of(&digest), format!("localhost/tare-bundle:{}", "ab".repeat(16)));
    }

    #[test]
    fn an_image_that_somebody_has_tagged_is_left_to_them() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let image = |tags: &[&str]| bollard::models::ImageSummary {
            id: "sha256:1".to_owned(),
            labels: HashMap::from([(BUNDLE_LABEL.to_owned(), digest.clone())]),
            repo_tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..Default::default()
        };
        let own = name_of(&digest);
        assert_eq!(name_to_remove(&image(&["mine:1", &own])).as_deref(), Some(own.as_str()), "their tag stays");
        assert_eq!(name_to_remove(&image(&[])).as_deref(), Some("sha256:1"));
        assert_eq!(name_to_remove(&image(&["<none>:<none>"])).as_deref(), Some("sha256:1"));
        assert_eq!(name_to_remove(&image(&["mine:1"])), None);
        assert_eq!(name_to_remove(&image(&["registry/localhost/tare-bundle:1"])), None);
    }

    #[test]
    fn an_image_is_a_bundle_s_by_its_label_and_not_by_its_name() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let labels = |value: &str| HashMap::from([(BUNDLE_LABEL.to_owned(), value.to_owned())]);
        assert!(is_labelled(&labels(&digest), &digest));
        assert!(!is_labelled(&HashMap::new(), &digest));
        assert!(!is_labelled(&labels(&digest.replace("ab", "cd")), &digest));
        assert!(tare_core::bundle::is_own_image_name(&name_of(&digest)), "no build may have such a name");
    }

    #[test]
    fn hollow_images_differ_as_their_bundles_do() {
        let archive = |byte: &str| hollow_archive(&format!("sha256:{}", byte.repeat(32))).unwrap();
        assert!(archive("ab").starts_with("ab".repeat(32).as_bytes()));
        assert_ne!(archive("ab"), archive("cd"));
    }
}
