//! Images that the engines on this machine have, found by their names.

use super::engine::{CallError, Engine};
use super::find;
use bollard::models::ImageInspect;
use bollard::query_parameters::ListImagesOptionsBuilder;
use tare_core::bundle::ENGINE_IMAGE;
use tare_core::fault::Fault;
use tare_core::image::this_architecture;
/// What an image's ID begins with.
const ID: &str = "sha256:";
/// The hexadecimal digits of an ID.
const ID_DIGITS: usize = 64;
/// How many names are proposed for one that the engine does not know.
const PROPOSED: usize = 3;
/// The longest name that is looked up; registries allow 255 bytes and a tag of 128, or a digest.
const NAME_MAX: usize = 512;

/// An image that the engine on this machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineImage {
    /// Its ID, `sha256:` and 64 hexadecimal digits, a digest: when a tag is built again, it leads to another ID.
    pub id: String,
    /// Its names, sorted, such as `redis:7`; none if other images have taken them.
    pub tags: Vec<String>,
    /// The processor that it is built for, in the words of images: `amd64`.
    pub architecture: String,
    /// Its configuration as JSON, in the form of an image's configuration document.
    pub document: Vec<u8>,
}

impl EngineImage {
    /// How a bundle names it: by the name under which it was found, and by its ID, which is what decides.
    /// `docker-daemon:redis:7@sha256:<hex>`.
    pub fn pinned(&self, name: &str) -> String {
        match name.strip_suffix(&self.id).and_then(|name| name.strip_suffix('@')) {
            Some(_) => format!("{ENGINE_IMAGE}{name}"),
            None => format!("{ENGINE_IMAGE}{name}@{}", self.id),
        }
    }
}

/// The name of an image that the engine on this machine has, if `image` is written so: `redis:7` of
/// `docker-daemon:redis:7`.
pub fn engine_name(image: &str) -> Option<&str> {
    image.strip_prefix(ENGINE_IMAGE)
}

/// The ID at the end of a name, see [`EngineImage::pinned`].
pub(super) fn pinned_id(name: &str) -> Option<&str> {
    let (_, id) = name.rsplit_once('@')?;
    let hex = id.strip_prefix(ID)?;
    (hex.len() == ID_DIGITS && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

/// Looks up an image that an engine on this machine has: the first that has it. `name` is a name with a tag (`latest`
/// if there is none), an ID, or a name with an ID behind an `@`, of which the ID decides.
///
/// # Errors
/// No engine answers; or, as a mistake, no engine has such an image, or it is built for another processor.
pub fn engine_image(name: &str) -> Result<EngineImage, Fault> {
    if !is_image_name(name) {
        let fault = Fault::new(format!("'{}' is not the name of an image", name.escape_debug()));
        return Err(fault
            .remedy(format!("write {ENGINE_IMAGE}NAME:TAG, with a name that the engine lists"))
            .as_mistake());
    }
    if let Some((_, found)) = find::first_with(name, |engine| named(engine, name))? {
        return of(name, found);
    }
    let engines = find::all_with_images()?;
    Err(missing(engines.first().ok_or_else(super::no_engine)?, &engines, name)?)
}

/// The engine that has the image with this ID, if one does.
///
/// # Errors
/// When an engine does not answer.
pub(super) fn holder_of(id: &str) -> Result<Option<Engine>, Fault> {
    Ok(find::first_with(id, |engine| inspect(engine, id))?.map(|(engine, _)| engine))
}

/// Looks up an image that this engine has.
///
/// # Errors
/// See [`engine_image`].
pub(super) fn by_name(engine: &Engine, name: &str) -> Result<EngineImage, Fault> {
    match named(engine, name)? {
        Some(found) => of(name, found),
        None => Err(missing(engine, std::slice::from_ref(engine), name)?),
    }
}

/// What the engine says of the image of this name; none if it has no such image.
fn named(engine: &Engine, name: &str) -> Result<Option<ImageInspect>, Fault> {
    // A digest behind a name may also be the one that a registry knows the image by.
    let by_id = pinned_id(name).map(|id| inspect(engine, id)).transpose()?.flatten();
    match by_id {
        Some(found) => Ok(Some(found)),
        None => inspect(engine, name),
    }
}

/// What the engine says of an image; none if it has no such image.
///
/// # Errors
/// When it does not answer.
pub(super) fn inspect(engine: &Engine, name: &str) -> Result<Option<ImageInspect>, Fault> {
    match engine.call(engine.docker().inspect_image(name)) {
        Ok(image) => Ok(Some(image)),
        // A name that no image can have is refused in another way than one that none has.
        Err(CallError::Refused { status: 400 | 404, .. }) => Ok(None),
        Err(error) => Err(error.doing(format!("look for the image {name}"))),
    }
}

/// A name and its tag, `latest` if it has none. A digest is part of the name.
pub(super) fn split(reference: &str) -> (&str, &str) {
    if reference.contains('@') {
        return (reference, "");
    }
    match reference.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (reference, "latest"),
    }
}

/// The names of an image; before Docker 25 one that has none is called `<none>:<none>`.
pub(super) fn real_tags(tags: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut tags: Vec<String> = tags.into_iter().filter(|tag| !tag.contains("<none>")).collect();
    tags.sort();
    tags
}

/// Whether an engine can be asked for an image of this name, which becomes part of a path of its API.
pub fn is_image_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let parts = || name.split('/').all(|part| !["", ".", ".."].contains(&part));
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(fits) && parts()
}

fn of(name: &str, found: ImageInspect) -> Result<EngineImage, Fault> {
    let (architecture, os) = (found.architecture.unwrap_or_default(), found.os.unwrap_or_default());
    let here = this_architecture();
    if !(architecture.is_empty() || architecture == here) || !(os.is_empty() || os == "linux") {
        let message = format!("the image {name} is built for {os}/{architecture}; this machine is linux/{here}");
        let remedy = format!("build or pull it for this machine: --platform linux/{here}");
        return Err(Fault::new(message).remedy(remedy).as_mistake());
    }
    let id = found.id.unwrap_or_default();
    let id = if id.starts_with(ID) { id } else { format!("{ID}{id}") };
    let mut document = serde_json::json!({ "architecture": architecture, "os": os, "config": found.config });
    // The client keeps labels in no order.
    document.sort_all_objects();
    let document = document.to_string().into_bytes();
    Ok(EngineImage { id, tags: real_tags(found.repo_tags.unwrap_or_default()), architecture, document })
}

/// Why there is no image of this name, and which names of `engines` are spelled like it. A person is pointed to
/// `engine`.
///
/// # Errors
/// When an engine does not list its images.
fn missing(engine: &Engine, engines: &[Engine], name: &str) -> Result<Fault, Fault> {
    let mut tags: Vec<String> = Vec::new();
    for engine in engines {
        let options = ListImagesOptionsBuilder::new().build();
        let listed = engine.call(engine.docker().list_images(Some(options)));
        let listed = listed.map_err(|error| error.doing("list the images of the container engine"))?;
        tags.extend(listed.into_iter().flat_map(|image| image.repo_tags));
    }
    let mut tags = real_tags(tags);
    tags.dedup();
    let near = spelled_like(name, &tags);
    let program = engine.command_line();
    let remedy = match near.split_last() {
        None => format!("`{program} images` lists those that it has; `{program} pull {name}` fetches one"),
        Some((one, [])) => format!("did you mean {one}? `{program} images` lists all"),
        Some((last, others)) => {
            format!("did you mean {} or {last}? `{program} images` lists all", others.join(", "))
        }
    };
    Ok(Fault::new(format!("the container engine has no image {name}")).remedy(remedy).as_mistake())
}

/// The names most like this one, the nearest first.
fn spelled_like<'t>(name: &str, tags: &'t [String]) -> Vec<&'t str> {
    let distance = strsim::damerau_levenshtein;
    let last = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let (wanted, tag) = split(name);
    let whole = format!("{wanted}:{tag}");
    let mut near: Vec<(usize, usize, &str)> = tags
        .iter()
        .filter_map(|known| {
            let (other, _) = split(known);
            // The registry and the user are often left out, and a tag is often another than was thought.
            let apart = distance(wanted, other).min(distance(&last(wanted), &last(other)));
            (apart <= 1 + last(other).len() / 4).then(|| (apart, distance(&whole, known), known.as_str()))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().take(PROPOSED).map(|(.., known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(architecture: &str) -> ImageInspect {
        ImageInspect {
            id: Some(format!("sha256:{}", "ab".repeat(32))),
            repo_tags: Some(vec!["b:1".to_owned(), "<none>:<none>".to_owned(), "a:1".to_owned()]),
            architecture: Some(architecture.to_owned()),
            os: Some("linux".to_owned()),
            config: Some(bollard::models::ImageConfig {
                cmd: Some(vec!["/x".to_owned()]),
                exposed_ports: Some(vec!["80/tcp".to_owned()]),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_reference_is_split_where_its_tag_begins() {
        assert_eq!(split("redis"), ("redis", "latest"));
        assert_eq!(split("redis:7"), ("redis", "7"));
        assert_eq!(split("host:5000/redis"), ("host:5000/redis", "latest"));
        assert_eq!(split("host:5000/redis:7"), ("host:5000/redis", "7"));
        assert_eq!(split("redis@sha256:ab"), ("redis@sha256:ab", ""));
    }

    #[test]
    fn an_image_is_pinned_by_its_id_once() {
        let image = of("a:1", inspected(this_architecture())).unwrap();
        let pinned = image.pinned("a:1");
        assert_eq!(pinned, format!("docker-daemon:a:1@sha256:{}", "ab".repeat(32)));
        let name = engine_name(&pinned).unwrap();
        assert_eq!(pinned_id(name), Some(image.id.as_str()));
        assert_eq!(image.pinned(name), pinned);
        assert_eq!(image.tags, ["a:1", "b:1"]);
        assert_eq!(engine_name("redis:7"), None);
        assert_eq!((pinned_id("a:1"), pinned_id("a@sha256:ab"), pinned_id("a:1@x")), (None, None, None));
    }

    #[test]
    fn an_image_says_how_it_is_started_in_the_words_of_its_document() {
        let image = of("a:1", inspected(this_architecture())).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&image.document).unwrap();
        assert_eq!(document["config"]["Cmd"], serde_json::json!(["/x"]));
        assert_eq!(document["config"]["ExposedPorts"], serde_json::json!({"80/tcp": {}}));
    }

    #[test]
    fn an_image_for_another_processor_is_refused() {
        let fault = of("a:1", inspected("s390x")).unwrap_err();
        assert!(fault.mistake && fault.message.contains("the image a:1 is built for linux/s390x"), "{fault}");
        assert!(fault.remedy.contains("--platform linux/"), "{fault}");
    }

    #[test]
    fn names_that_are_spelled_like_it_are_proposed_the_nearest_first() {
        let known = ["my/app:2", "my/app:latest", "registry.example/my/app:1", "postgres:15", "nginx:1", "my/ap:1"];
        let tags = known.map(str::to_owned);
        assert_eq!(spelled_like("my/app:1", &tags)[..2], ["my/app:2", "my/app:latest"]);
        assert_eq!(spelled_like("my/app:1", &tags).len(), 3);
        assert_eq!(spelled_like("postgers", &tags), ["postgres:15"]);
        assert_eq!(spelled_like("ngin", &tags), ["nginx:1"]);
        assert!(spelled_like("memcached", &tags).is_empty());
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        for name in ["", "/x", "a//b", "../containers", "a/../b", "a b", "a?x=1", "ä", "a#b", "a/"] {
            let fault = engine_image(name).unwrap_err();
            assert!(fault.mistake && fault.message.contains("is not the name of an image"), "{name}: {fault}");
        }
        assert!(is_image_name("host:5000/a/b-c_d:1.0@sha256:ab"));
    }
}
