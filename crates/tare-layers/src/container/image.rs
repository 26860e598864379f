//! Bundles as images of the engine: imported once, then shared by every run.

use super::engine::{CALL_LIMIT, Engine, IMPORT_LIMIT};
use bollard::query_parameters::{CreateImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptionsBuilder};
use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tare_core::bundle::Bundle;
use tare_core::fault::{Doing, Fault};

/// The repository under which bundles are tagged; whatever is in it is ours.
const REPOSITORY: &str = "tare-bundle";
/// The label of a bundle's image; it stays when another import takes over the tag.
const BUNDLE_LABEL: &str = "tare.bundle";
/// How many digits of the digest make the tag: enough that two bundles never share one.
const DIGITS: usize = 32;
/// How much of an archive is handed to the engine at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// A bundle's image in the engine's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedImage {
    /// What the engine calls it: a tag, or an id where the tag has moved on.
    pub name: String,
    /// How much it takes up, bytes.
    pub bytes: u64,
}

/// The name of the image of a bundle with this digest (`sha256:<hex>`).
pub(crate) fn name_of(digest: &str) -> String {
    let hex = digest.rsplit(':').next().unwrap_or(digest);
    format!("{REPOSITORY}:{}", hex.chars().take(DIGITS).collect::<String>())
}

/// The image of a bundle, imported now if the engine does not have it.
///
/// # Errors
/// When the bundle cannot be emitted, or the engine refuses it.
pub(crate) fn ensure(engine: &Engine, bundle: &dyn Bundle) -> Result<String, Fault> {
    let name = name_of(bundle.digest());
    match engine.call(engine.docker().inspect_image(&name)) {
        Ok(_) => return Ok(name),
        Err(error) if error.is_missing() => {}
        Err(error) => return Err(error.doing(format!("look for the image {name}"))),
    }
    let archive = bundle.archive()?;
    import(engine, &archive, &name, bundle.digest())?;
    Ok(name)
}

fn import(engine: &Engine, archive: &Path, name: &str, digest: &str) -> Result<(), Fault> {
    let file = File::open(archive).doing(format!("open the bundle's archive {}", archive.display()))?;
    let (repository, tag) = name.split_once(':').expect("name_of always puts a colon");
    let options = CreateImageOptionsBuilder::new()
        .from_src("-")
        .repo(repository)
        .tag(tag)
        .changes(vec![format!("LABEL {BUNDLE_LABEL}={digest}")])
        .build();
    // Reading blocks this thread, which waits for nothing else meanwhile.
    let chunks = stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        let count = file.read(&mut chunk)?;
        chunk.truncate(count);
        Ok::<_, std::io::Error>((count > 0).then(|| (Bytes::from(chunk), file)))
    });
    let body = bollard::body_try_stream(chunks);
    let progress = engine.docker().create_image(Some(options), Some(body), None);
    let imported = engine.call_within(IMPORT_LIMIT, progress.try_for_each(|_| async { Ok(()) }));
    imported.map_err(|error| {
        let remedy = "see that the file system of the engine's store has space left (docker system df)";
        error.doing(format!("import the bundle's archive {} as an image", archive.display())).remedy(remedy)
    })
}

/// The bundles' images in the engine's store; none when there is no engine.
///
/// # Errors
/// When the engine does not answer.
pub fn cached_images() -> Result<Vec<CachedImage>, Fault> {
    let Some(engine) = Engine::find()? else { return Ok(Vec::new()) };
    let filters = HashMap::from([("label", vec![BUNDLE_LABEL])]);
    let options = ListImagesOptionsBuilder::new().all(true).filters(&filters).build();
    let listed = engine.call(engine.docker().list_images(Some(options)));
    let listed = listed.map_err(|error| error.doing("list the bundles' images"))?;
    let image = |summary: bollard::models::ImageSummary| CachedImage {
        name: summary.repo_tags.iter().find(|tag| tag.contains(REPOSITORY)).cloned().unwrap_or(summary.id),
        bytes: u64::try_from(summary.size).unwrap_or(0),
    };
    let mut images: Vec<CachedImage> = listed.into_iter().map(image).collect();
    images.sort_by(|a, b| a.name.cmp(&b.name));
    images.dedup();
    Ok(images)
}

/// Removes the image of the bundle with this digest, if the engine has it.
///
/// # Errors
/// When the engine does not answer, or something still uses the image.
pub fn remove_image_of(digest: &str) -> Result<(), Fault> {
    remove_image(&name_of(digest))
}

/// Removes a bundle's image, by what [`cached_images`] calls it; one that is gone already is no error.
///
/// # Errors
/// When the engine does not answer, the image is not a bundle's, or something still uses it.
pub fn remove_image(name: &str) -> Result<(), Fault> {
    let Some(engine) = Engine::find()? else { return Ok(()) };
    if !cached_images()?.iter().any(|image| image.name == name) {
        return Ok(());
    }
    // By force: the containers of a dead run may still name it, and they are stopped or removed by their own name.
    let options = RemoveImageOptionsBuilder::new().force(true).build();
    let removed = engine.call_within(CALL_LIMIT, engine.docker().remove_image(name, Some(options), None));
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
        assert_eq!(name_of(&digest), format!("tare-bundle:{}", "ab".repeat(16)));
    }
}
