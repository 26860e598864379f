//! The documents of an image: which layers it has and how it is started.

use super::parts::Parts;
use crate::tree;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::image::ImageConfig;

/// How many indexes may stand one inside the other, and how many layers an image may have. Engines allow 127.
const MAX_NESTING: usize = 4;
const MAX_LAYERS: usize = 1024;

/// An image, ready to be unpacked.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) layers: Vec<Layer>,
    config: Config,
}

impl Image {
    /// How it says that its program is to be started.
    pub(super) fn says(self) -> ImageConfig {
        let run = self.config.config.unwrap_or_default();
        let names = |map: Option<BTreeMap<String, IgnoredAny>>| map.unwrap_or_default().into_keys().collect();
        ImageConfig {
            entrypoint: run.entrypoint.unwrap_or_default(),
            command: run.command.unwrap_or_default(),
            environment: run.environment.unwrap_or_default(),
            user: run.user.unwrap_or_default(),
            directory: run.directory.unwrap_or_default(),
            ports: names(run.ports),
            volumes: names(run.volumes),
        }
    }
}

/// One layer: the part that holds it, and the digests it must have, as stored and decompressed.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) part: String,
    pub(super) stored_digest: Option<String>,
    pub(super) plain_digest: Option<String>,
}

/// An image's configuration document.
#[derive(Debug, Default, Deserialize)]
struct Config {
    config: Option<Run>,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    rootfs: Rootfs,
}

/// How it is started. The documents write `null` as well as leaving things out. What is a set is written as the keys of
/// a map.
#[derive(Debug, Default, Deserialize)]
struct Run {
    #[serde(rename = "Entrypoint")]
    entrypoint: Option<Vec<String>>,
    #[serde(rename = "Cmd")]
    command: Option<Vec<String>>,
    #[serde(rename = "Env")]
    environment: Option<Vec<String>>,
    #[serde(rename = "User")]
    user: Option<String>,
    #[serde(rename = "WorkingDir")]
    directory: Option<String>,
    #[serde(rename = "ExposedPorts")]
    ports: Option<BTreeMap<String, IgnoredAny>>,
    #[serde(rename = "Volumes")]
    volumes: Option<BTreeMap<String, IgnoredAny>>,
}

#[derive(Debug, Default, Deserialize)]
struct Rootfs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Descriptor {
    #[serde(default, rename = "mediaType")]
    media_type: String,
    digest: String,
    platform: Option<Platform>,
}

#[derive(Debug, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    /// Of a processor: `v7`, or `v3` for newer ones of the same architecture.
    #[serde(default)]
    variant: String,
}

impl Platform {
    /// Whether the image asks for no more than any processor of its architecture has.
    fn is_plain(&self) -> bool {
        matches!(self.variant.as_str(), "" | "v1") || (self.architecture == "arm64" && self.variant == "v8")
    }
}

/// An index or a manifest: the one has `manifests`, the other `layers`.
#[derive(Debug, Deserialize)]
struct Node {
    manifests: Option<Vec<Descriptor>>,
    layers: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
}

/// An entry of the `manifest.json` of `docker save`.
#[derive(Debug, Deserialize)]
struct Saved {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
    #[serde(rename = "RepoTags")]
    tags: Option<Vec<String>>,
}

/// Reads the documents of the one image that `parts` holds for this machine.
pub(super) fn read(parts: &Parts) -> Result<Image, Fault> {
    let image = if parts.has("index.json") {
        read_layout(parts)?
    } else if parts.has("manifest.json") {
        read_saved(parts)?
    } else {
        return Err(Fault::new("it is no image: there is neither an index.json nor a manifest.json in it")
            .remedy("use `docker save` (not `docker export`) or an OCI layout; a plain tree is a `folder:` bundle"));
    };
    if image.layers.len() > MAX_LAYERS {
        return Err(Fault::new(format!("it has {} layers; the limit is {MAX_LAYERS}", image.layers.len())));
    }
    let (architecture, os) = (&image.config.architecture, &image.config.os);
    if !(architecture.is_empty() || architecture == this_architecture()) || !(os.is_empty() || os == "linux") {
        let made_for = tree::shown(format!("{os}/{architecture}").as_bytes());
        return Err(Fault::new(format!("it is made for {made_for} and this is linux/{}", this_architecture()))
            .remedy("use the image of the same name for this machine's processor"));
    }
    Ok(image)
}

/// What images call this machine's processor.
fn this_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn read_layout(parts: &Parts) -> Result<Image, Fault> {
    let mut node: Node = parse("index.json", &parts.document("index.json", None)?)?;
    for _ in 0..MAX_NESTING {
        let Some(manifests) = &node.manifests else { break };
        let chosen = choose(manifests)?;
        let name = blob(&chosen.digest)?;
        node = parse(&name, &parts.document(&name, Some(&chosen.digest))?)?;
    }
    let (Some(layers), Some(config)) = (node.layers, node.config) else {
        return Err(Fault::new("its manifest names no layers and no configuration"));
    };
    refuse_others(&layers, &config)?;
    let name = blob(&config.digest)?;
    let config = parse(&name, &parts.document(&name, Some(&config.digest))?)?;
    let layers = layers.into_iter().map(|layer| {
        let part = blob(&layer.digest)?;
        Ok(Layer { part, stored_digest: Some(layer.digest), plain_digest: None })
    });
    Ok(Image { layers: layers.collect::<Result<_, Fault>>()?, config })
}

/// Refuses what is kept where images are and is none: encrypted layers, and artifacts of other tools. What layers are
/// compressed with is not believed.
fn refuse_others(layers: &[Descriptor], config: &Descriptor) -> Result<(), Fault> {
    if layers.iter().any(|layer| layer.media_type.ends_with("+encrypted")) {
        let fault = Fault::new("its layers are encrypted");
        return Err(fault.remedy("decrypt the image with the tool that encrypted it, and save it as it is then"));
    }
    let is_image = config.media_type.is_empty() || config.media_type.contains("image");
    if !is_image {
        let kind = tree::shown(config.media_type.as_bytes());
        let fault = Fault::new(format!("it is no image of a container but an artifact, of the type {kind}"));
        return Err(fault.remedy("name the image that the artifact is about"));
    }
    Ok(())
}

/// The one manifest for this machine. Attestations, which carry an unknown platform, are no images.
fn choose(manifests: &[Descriptor]) -> Result<&Descriptor, Fault> {
    let mut images: Vec<&Descriptor> = manifests
        .iter()
        .filter(|one| {
            one.media_type.is_empty() || one.media_type.contains("manifest") || one.media_type.contains("index")
        })
        .filter(|one| {
            one.platform
                .as_ref()
                .is_none_or(|platform| platform.architecture == this_architecture() && platform.os == "linux")
        })
        .collect();
    // One image under several names is listed once for each.
    images.dedup_by(|one, other| one.digest == other.digest);
    // Beside one for every processor there may be more that ask for a newer one.
    let plain = |one: &Descriptor| one.platform.as_ref().is_none_or(Platform::is_plain);
    if images.iter().filter(|one| plain(one)).count() == 1 {
        images.retain(|one| plain(one));
    }
    match images[..] {
        [one] => Ok(one),
        [] => Err(Fault::new(format!("it holds no image for linux/{}", this_architecture()))
            .remedy("use the image of the same name for this machine's processor")),
        _ => Err(Fault::new(format!("it holds {} images, and a bundle is made of one", images.len()))
            .remedy("save the one image into an archive of its own")),
    }
}

fn read_saved(parts: &Parts) -> Result<Image, Fault> {
    let saved: Vec<Saved> = parse("manifest.json", &parts.document("manifest.json", None)?)?;
    let [image] = &saved[..] else {
        let tags: Vec<&str> = saved.iter().flat_map(|one| one.tags.iter().flatten()).map(String::as_str).collect();
        let tags = tree::shown(tags.join(", ").as_bytes());
        return Err(Fault::new(format!("it holds {} images ({tags}), and a bundle is made of one", saved.len()))
            .remedy("save the one image into an archive of its own"));
    };
    let name = image.config.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
    let digest = (name.len() == 64).then(|| format!("sha256:{name}"));
    let config: Config = parse(&image.config, &parts.document(&image.config, digest.as_deref())?)?;
    let digests = &config.rootfs.diff_ids;
    if digests.len() != image.layers.len() {
        return Err(Fault::new(format!(
            "its manifest names {} layers and its configuration {}",
            image.layers.len(),
            digests.len()
        )));
    }
    let layers = image.layers.iter().zip(digests).map(|(part, digest)| {
        blob(digest)?;
        Ok(Layer { part: part.clone(), stored_digest: None, plain_digest: Some(digest.clone()) })
    });
    Ok(Image { layers: layers.collect::<Result<_, Fault>>()?, config })
}

/// The part that holds the bytes of this digest.
fn blob(digest: &str) -> Result<String, Fault> {
    match digest.strip_prefix("sha256:") {
        Some(hex) if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) => {
            Ok(format!("blobs/sha256/{hex}"))
        }
        _ => {
            let digest = tree::shown(&digest.as_bytes()[..digest.len().min(100)]);
            Err(Fault::new(format!("it names a part by '{digest}', which is no sha256 digest")))
        }
    }
}

fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes)
        .map_err(|error| Fault::from_error(format_args!("read its part '{}'", tree::shown(name.as_bytes())), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variants: &[&str]) -> Result<String, Fault> {
        let one = |variant: &&str| Descriptor {
            media_type: String::new(),
            digest: format!("for {variant}"),
            platform: Some(Platform {
                architecture: this_architecture().to_owned(),
                os: "linux".to_owned(),
                variant: (*variant).to_owned(),
            }),
        };
        let all: Vec<Descriptor> = variants.iter().map(one).collect();
        choose(&all).map(|chosen| chosen.digest.clone())
    }

    #[test]
    fn what_is_encrypted_or_an_artifact_is_refused_as_that() {
        let typed =
            |media_type: &str| Descriptor { media_type: media_type.to_owned(), digest: String::new(), platform: None };
        let image = typed("application/vnd.oci.image.config.v1+json");
        let layers =
            ["application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar+gzip+encrypted"];
        assert!(refuse_others(&[typed(layers[1])], &image).unwrap_err().message.contains("encrypted"));
        let chart = refuse_others(&[], &typed("application/vnd.cncf.helm.config.v1+json")).unwrap_err();
        assert!(chart.message.contains("helm"), "{chart}");
        for config in ["application/vnd.docker.container.image.v1+json", ""] {
            refuse_others(&[typed(layers[0])], &typed(config)).unwrap();
        }
    }

    #[test]
    fn of_images_for_newer_processors_the_one_for_all_is_chosen() {
        assert_eq!(chosen(&["v3", ""]).unwrap(), "for ");
        assert_eq!(chosen(&["v1", "v2", "v3"]).unwrap(), "for v1");
        assert_eq!(chosen(&["v3"]).unwrap(), "for v3");
        assert!(chosen(&["", "v1"]).unwrap_err().message.contains("holds 2 images"));
    }
}
