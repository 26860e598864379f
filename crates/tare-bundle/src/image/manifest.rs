//! The documents of an image: its layers and how it is started.

use super::parts::Parts;
use crate::tree;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::image::{HealthCheck, ImageConfig, this_architecture};

/// How deep indexes may be nested, and how many layers an image may have. Engines allow 127.
const MAX_NESTING: usize = 4;
const MAX_LAYERS: usize = 1024;
/// Up to how many manifests are read to find the one of an image.
const MAX_LOOKED_INTO: usize = 32;

/// An image, ready to be unpacked.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) layers: Vec<Layer>,
    config: Config,
}

impl Image {
    /// How it is started, according to its configuration.
    pub(super) fn says(self) -> ImageConfig {
        let run = self.config.config.unwrap_or_default();
        let names = |map: Option<BTreeMap<String, IgnoredAny>>| map.unwrap_or_default().into_keys().collect();
        let shell = run.shell.unwrap_or_default();
        ImageConfig {
            entrypoint: run.entrypoint.unwrap_or_default(),
            command: run.command.unwrap_or_default(),
            environment: run.environment.unwrap_or_default(),
            user: run.user.unwrap_or_default(),
            directory: run.directory.unwrap_or_default(),
            ports: names(run.ports),
            volumes: names(run.volumes),
            stop_signal: run.stop_signal.unwrap_or_default(),
            health: run.health.and_then(|health| health.check(&shell)),
            shell,
        }
    }
}

/// One layer: the part that holds it, and its expected digests, as stored and decompressed.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) part: String,
    pub(super) stored_digest: Option<String>,
    pub(super) plain_digest: Option<String>,
}

/// An image's configuration document. Documents may leave a field out or set it to `null`.
#[derive(Debug, Default, Deserialize)]
struct Config {
    config: Option<Run>,
    #[serde(default, deserialize_with = "or_nothing")]
    architecture: String,
    #[serde(default, deserialize_with = "or_nothing")]
    os: String,
    #[serde(default, deserialize_with = "or_nothing")]
    rootfs: Rootfs,
}

/// How it is started. Sets are written as the keys of a map.
#[derive(Debug, Default, Deserialize)]
struct Run {
    #[serde(default, rename = "Entrypoint", deserialize_with = "one_or_several")]
    entrypoint: Option<Vec<String>>,
    #[serde(default, rename = "Cmd", deserialize_with = "one_or_several")]
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
    #[serde(rename = "StopSignal")]
    stop_signal: Option<String>,
    #[serde(default, rename = "Shell", deserialize_with = "one_or_several")]
    shell: Option<Vec<String>>,
    #[serde(rename = "Healthcheck")]
    health: Option<Health>,
}

/// How it is asked whether it works. Times are in ns; 0 stands for the usual one.
#[derive(Debug, Deserialize)]
struct Health {
    #[serde(default, rename = "Test", deserialize_with = "or_nothing")]
    test: Vec<String>,
    #[serde(default, rename = "Interval", deserialize_with = "or_nothing")]
    interval: i64,
    #[serde(default, rename = "Timeout", deserialize_with = "or_nothing")]
    timeout: i64,
    #[serde(default, rename = "StartPeriod", deserialize_with = "or_nothing")]
    start_period: i64,
    #[serde(default, rename = "Retries", deserialize_with = "or_nothing")]
    retries: i64,
}

impl Health {
    /// The check; none if the image asks for none. Lines are for `shell`.
    fn check(self, shell: &[String]) -> Option<HealthCheck> {
        let time = |nanos: i64| u64::try_from(nanos).ok().filter(|nanos| *nanos > 0).map(Duration::from_nanos);
        let retries = u32::try_from(self.retries).ok().filter(|retries| *retries > 0);
        Some(HealthCheck {
            command: HealthCheck::command_of(&self.test, shell)?,
            interval: time(self.interval).unwrap_or(HealthCheck::INTERVAL),
            timeout: time(self.timeout).unwrap_or(HealthCheck::TIMEOUT),
            start_period: time(self.start_period).unwrap_or_default(),
            retries: retries.unwrap_or(HealthCheck::RETRIES),
        })
    }
}

#[derive(Debug, Default, Deserialize)]
struct Rootfs {
    #[serde(default, deserialize_with = "or_nothing")]
    diff_ids: Vec<String>,
}

/// A value; `null` is read as the default.
fn or_nothing<'d, T: Deserialize<'d> + Default, D: Deserializer<'d>>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// A list of texts, or a single text, which counts as a list of one.
fn one_or_several<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        Several(Vec<String>),
    }
    let texts: Option<Texts> = Option::deserialize(from)?;
    Ok(texts.map(|texts| match texts {
        Texts::One(text) => vec![text],
        Texts::Several(texts) => texts,
    }))
}

#[derive(Debug, Deserialize)]
struct Descriptor {
    #[serde(default, rename = "mediaType", deserialize_with = "or_nothing")]
    media_type: String,
    digest: String,
    platform: Option<Platform>,
    #[serde(rename = "artifactType")]
    artifact_type: Option<IgnoredAny>,
    /// Whether cosign's annotations say that it is about an image.
    #[serde(default, rename = "annotations", deserialize_with = "is_of_cosign")]
    of_cosign: bool,
}

impl Descriptor {
    /// Whether it says that it describes an image, as signatures do, and is none itself.
    fn is_about_another(&self) -> bool {
        self.artifact_type.is_some() || self.of_cosign
    }
}

/// Whether annotations are those with which cosign marks what it has added to an image in a layout.
fn is_of_cosign<'d, D: Deserializer<'d>>(from: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    struct Annotations {
        kind: Option<String>,
    }
    let annotations: Annotations = or_nothing(from)?;
    let kind = annotations.kind.as_deref().and_then(|kind| kind.strip_prefix("dev.cosignproject.cosign/"));
    Ok(kind.is_some_and(|what| !what.starts_with("image")))
}

#[derive(Debug, Deserialize)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    /// The processor's variant: `v7`, or `v3` for newer ones of the same architecture.
    #[serde(default)]
    variant: String,
}

impl Platform {
    /// Whether the image runs on every processor of its architecture.
    fn is_plain(&self) -> bool {
        matches!(self.variant.as_str(), "" | "v1") || (self.architecture == "arm64" && self.variant == "v8")
    }
}

/// An index, which has `manifests`, or a manifest, which has `layers`.
#[derive(Debug, Deserialize)]
struct Node {
    manifests: Option<Vec<Descriptor>>,
    layers: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    #[serde(rename = "artifactType")]
    artifact_type: Option<IgnoredAny>,
}

impl Node {
    /// Whether it describes an image and is none itself. How layers claim to be compressed is not trusted, but that
    /// signatures and bills of materials are no archives is.
    fn is_about_another(&self) -> bool {
        let archive = |layer: &Descriptor| layer.media_type.is_empty() || layer.media_type.contains("tar");
        let others = |layers: &Vec<Descriptor>| !layers.is_empty() && !layers.iter().any(archive);
        let config = self.config.as_ref().is_some_and(|config| !is_configuration(&config.media_type));
        self.artifact_type.is_some() || config || self.layers.as_ref().is_some_and(others)
    }
}

/// An entry of the `manifest.json` of `docker save`.
#[derive(Debug, Deserialize)]
struct Saved {
    #[serde(rename = "Config")]
    config: String,
    #[serde(default, rename = "Layers", deserialize_with = "or_nothing")]
    layers: Vec<String>,
    #[serde(rename = "RepoTags")]
    tags: Option<Vec<String>>,
}

/// How an image is started, by its configuration document alone.
pub(super) fn says_of(document: &[u8]) -> Result<ImageConfig, Fault> {
    let config = parse("configuration", document)?;
    Ok(Image { layers: Vec::new(), config }.says())
}

/// Reads the documents of the one image that `parts` holds for this machine.
pub(super) fn read(parts: &Parts) -> Result<Image, Fault> {
    let image = if parts.has("index.json") {
        read_layout(parts)?
    } else if parts.has("manifest.json") {
        read_saved(parts)?
    } else {
        return Err(Fault::new("it is not an image: it has neither an index.json nor a manifest.json")
            .remedy("use `docker save` (not `docker export`) or an OCI layout; a plain tree is a `folder:` bundle"));
    };
    if image.layers.len() > MAX_LAYERS {
        return Err(Fault::new(format!("it has {} layers; the limit is {MAX_LAYERS}", image.layers.len())));
    }
    let (architecture, os) = (&image.config.architecture, &image.config.os);
    if !(architecture.is_empty() || architecture == this_architecture()) || !(os.is_empty() || os == "linux") {
        let made_for = tree::shown(format!("{os}/{architecture}").as_bytes());
        return Err(Fault::new(format!("it is built for {made_for}; this machine is linux/{}", this_architecture()))
            .remedy(OWN_PROCESSOR));
    }
    Ok(image)
}

const OWN_PROCESSOR: &str = "use the image of the same name for this machine's processor";
const ONE_IMAGE: &str = "save that one image into an archive of its own";

fn read_layout(parts: &Parts) -> Result<Image, Fault> {
    let mut node: Node = parse("index.json", &parts.document("index.json", None)?)?;
    for _ in 0..MAX_NESTING {
        let Some(manifests) = &node.manifests else { break };
        // One that cannot be read is reported if it is chosen.
        let look = |one: &Descriptor| {
            let name = blob(&one.digest).ok()?;
            parse::<Node>(&name, &parts.document(&name, Some(&one.digest)).ok()?).ok()
        };
        let chosen = choose(manifests, look)?;
        let name = blob(&chosen.digest)?;
        node = parse(&name, &parts.document(&name, Some(&chosen.digest))?)?;
    }
    let (Some(layers), Some(config)) = (node.layers, node.config) else {
        return Err(Fault::new("its manifest lacks layers or a configuration"));
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

/// Refuses encrypted layers, and artifacts that other tools store like images. How layers claim to be compressed is not
/// trusted.
fn refuse_others(layers: &[Descriptor], config: &Descriptor) -> Result<(), Fault> {
    if layers.iter().any(|layer| layer.media_type.ends_with("+encrypted")) {
        let fault = Fault::new("its layers are encrypted");
        return Err(fault.remedy("decrypt the image with the tool that encrypted it, then save it"));
    }
    if !is_configuration(&config.media_type) {
        let kind = tree::shown(config.media_type.as_bytes());
        let fault = Fault::new(format!("it is not a container image but an artifact of type {kind}"));
        return Err(fault.remedy("name the image that the artifact belongs to"));
    }
    Ok(())
}

/// Whether a document of this type is an image's configuration.
fn is_configuration(media_type: &str) -> bool {
    media_type.is_empty() || media_type.contains("image")
}

/// The one manifest for this machine. Attestations, whose platform is unknown, are not images; nor are signatures and
/// the like, some of which can only be told by reading them.
fn choose(manifests: &[Descriptor], look: impl Fn(&Descriptor) -> Option<Node>) -> Result<&Descriptor, Fault> {
    // An image with several names is listed once for each.
    let mut seen = BTreeSet::new();
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
        .filter(|one| seen.insert(one.digest.as_str()))
        .collect();
    leave_out(&mut images, |one| one.is_about_another());
    if (2..=MAX_LOOKED_INTO).contains(&images.len()) {
        leave_out(&mut images, |one| look(one).is_some_and(|node| node.is_about_another()));
    }
    // Next to the one for every processor there may be others for newer ones.
    let plain = |one: &Descriptor| one.platform.as_ref().is_none_or(Platform::is_plain);
    if images.iter().filter(|one| plain(one)).count() == 1 {
        images.retain(|one| plain(one));
    }
    match images[..] {
        [one] => Ok(one),
        [] => Err(Fault::new(format!("it holds no image for linux/{}", this_architecture())).remedy(OWN_PROCESSOR)),
        _ => Err(Fault::new(format!("it holds {} images; a bundle is built from one", images.len())).remedy(ONE_IMAGE)),
    }
}

/// Removes what is not an image, unless nothing would remain.
fn leave_out(images: &mut Vec<&Descriptor>, is_other: impl Fn(&Descriptor) -> bool) {
    let kept: Vec<&Descriptor> = images.iter().copied().filter(|one| !is_other(one)).collect();
    if !kept.is_empty() {
        *images = kept;
    }
}

fn read_saved(parts: &Parts) -> Result<Image, Fault> {
    let document = parts.document("manifest.json", None)?;
    if document.trim_ascii_start().starts_with(b"{") {
        return Err(Fault::new("its manifest.json describes one image instead of a list, as skopeo's `dir:` does")
            .remedy("copy it into an OCI layout and name that: `skopeo copy dir:DIR oci:OTHER`"));
    }
    let saved: Vec<Saved> = parse("manifest.json", &document)?;
    let [image] = &saved[..] else {
        let tags: Vec<&str> = saved.iter().flat_map(|one| one.tags.iter().flatten()).map(String::as_str).collect();
        let tags = tree::shown(tags.join(", ").as_bytes());
        let message = format!("it holds {} images ({tags}); a bundle is built from one", saved.len());
        return Err(Fault::new(message).remedy(ONE_IMAGE));
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
            Err(Fault::new(format!("it refers to a part as '{digest}', which is not a sha256 digest")))
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

    fn descriptor(media_type: &str, digest: &str) -> Descriptor {
        let (media_type, digest) = (media_type.to_owned(), digest.to_owned());
        Descriptor { media_type, digest, platform: None, artifact_type: None, of_cosign: false }
    }

    fn chosen(variants: &[&str]) -> Result<String, Fault> {
        let platform = |variant: &str| Platform {
            architecture: this_architecture().to_owned(),
            os: "linux".to_owned(),
            variant: variant.to_owned(),
        };
        let one = |variant: &&str| Descriptor {
            platform: Some(platform(variant)),
            ..descriptor("", &format!("for {variant}"))
        };
        let all: Vec<Descriptor> = variants.iter().map(one).collect();
        choose(&all, |_| None).map(|chosen| chosen.digest.clone())
    }

    /// The digest of the one that is chosen of an index, where each of `documents` is the one of its digest.
    fn of_index(index: &str, documents: &[(&str, &str)]) -> Result<String, String> {
        let index: Node = serde_json::from_str(&format!("{{\"manifests\": [{index}]}}")).unwrap();
        let look = |one: &Descriptor| {
            let text = documents.iter().find(|(digest, _)| *digest == one.digest)?.1;
            Some(serde_json::from_str(text).unwrap())
        };
        let chosen = choose(index.manifests.as_ref().unwrap(), look);
        chosen.map(|chosen| chosen.digest.clone()).map_err(|fault| fault.message)
    }

    #[test]
    fn what_is_about_an_image_is_left_out_beside_it() {
        let others = [
            r#"{"digest": "b", "artifactType": "application/vnd.example.sbom"}"#,
            r#"{"digest": "b", "annotations": {"kind": "dev.cosignproject.cosign/sigs", "x": "y"}}"#,
        ];
        let image =
            r#"{"digest": "a", "artifactType": null, "annotations": {"kind": "dev.cosignproject.cosign/image"}}"#;
        for other in others {
            assert_eq!(of_index(&format!("{other}, {image}"), &[]).as_deref(), Ok("a"), "{other}");
            assert_eq!(of_index(other, &[]).as_deref(), Ok("b"), "alone it is told what it is: {other}");
        }
        // Some are seen for what they are only in their own documents.
        let image = r#"{"layers": [{"digest": "l", "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"}]}"#;
        for document in [
            r#"{"artifactType": "application/vnd.example.sbom", "layers": []}"#,
            r#"{"config": {"digest": "c", "mediaType": "application/vnd.oci.empty.v1+json"}}"#,
            r#"{"layers": [{"digest": "l", "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json"}]}"#,
        ] {
            let index = r#"{"digest": "b"}, {"digest": "a"}"#;
            assert_eq!(of_index(index, &[("a", image), ("b", document)]).as_deref(), Ok("a"), "{document}");
            assert!(of_index(index, &[("a", image), ("b", image)]).unwrap_err().contains("holds 2 images"));
            assert!(of_index(index, &[("a", document)]).is_ok_and(|chosen| chosen == "b"), "{document}");
        }
    }

    #[test]
    fn one_image_under_several_names_is_one() {
        let index = r#"{"digest": "a"}, {"digest": "b", "artifactType": "x"}, {"digest": "a"}"#;
        assert_eq!(of_index(index, &[]).as_deref(), Ok("a"));
    }

    #[test]
    fn what_is_left_empty_or_written_as_one_text_is_read() {
        let config = r#"{"architecture": null, "os": null, "rootfs": {"diff_ids": null}, "config": {"Cmd": "sh",
            "Entrypoint": null, "Env": null, "Volumes": null}}"#;
        let config: Config = serde_json::from_str(config).unwrap();
        assert!(config.architecture.is_empty() && config.rootfs.diff_ids.is_empty());
        let says = Image { layers: Vec::new(), config }.says();
        assert_eq!((says.command, says.entrypoint.len(), says.environment.len()), (vec!["sh".to_owned()], 0, 0));
        let saved: Saved = serde_json::from_str(r#"{"Config": "c", "Layers": null}"#).unwrap();
        assert!(saved.layers.is_empty() && serde_json::from_str::<Config>(r#"{"rootfs": null}"#).is_ok());
        assert!(serde_json::from_str::<Run>(r#"{"Cmd": 1}"#).is_err());
    }

    #[test]
    fn what_is_encrypted_or_an_artifact_is_refused_as_that() {
        let typed = |media_type: &str| descriptor(media_type, "");
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
