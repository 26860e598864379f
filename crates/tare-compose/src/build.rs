//! `build:` of a service: how an engine builds its image.

use crate::keys::Keys;
use crate::project::Project;
use crate::sources::{Sources, is_below};
use crate::yaml::{Entry, Kind};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use tare_core::config::Place;

/// The keys that change nothing about what is in the image, or nothing that a service sees.
const IDLE: &[&str] = &[
    "attestations",
    "cache_from",
    "cache_to",
    "isolation",
    "labels",
    "no_cache",
    "no_cache_filter",
    "platforms",
    "provenance",
    "pull",
    "sbom",
    "shm_size",
    "tags",
    "ulimits",
];
/// The keys that only Compose's own builds have.
const BY_HAND: [&str; 8] = [
    "additional_contexts",
    "dockerfile_inline",
    "entitlements",
    "extra_hosts",
    "network",
    "privileged",
    "secrets",
    "ssh",
];

/// How an engine builds the image of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The service, as the Compose file calls it.
    pub service: String,
    /// The image's name: that of `image:`, or the one that Compose gives it.
    pub tag: String,
    /// The file that says so, and where in it.
    pub file: String,
    /// The place in that file.
    pub place: Place,
    /// The folder that is built.
    pub context: PathBuf,
    /// The file in that folder that says how; none for the usual one.
    pub dockerfile: Option<String>,
    /// Arguments of the build, by their names.
    pub args: BTreeMap<String, String>,
    /// The stage that is built; none for the last one.
    pub target: Option<String>,
    /// Why nobody but `docker compose build` can do it, in words; none if an engine can.
    pub by_hand: Option<String>,
}

/// Reads `build:` of a service, whose image is to have this name.
pub(crate) fn read(
    entry: &Entry,
    (service, tag): (&str, &str),
    (project, root): (&Project, &Path),
    sources: &mut Sources,
) -> Build {
    let (file, place) = sources.place(entry.at);
    let mut build = Build {
        service: service.to_owned(),
        tag: tag.to_owned(),
        file,
        place,
        context: PathBuf::new(),
        dockerfile: None,
        args: BTreeMap::new(),
        target: None,
        by_hand: None,
    };
    let mut context = Some((entry.value.at, ".".to_owned()));
    if let Kind::Map(_) = entry.value.kind
        && let Some(mut keys) = Keys::of(&entry.value, "'build'", sources)
    {
        keys.know(IDLE);
        if let Some(Entry { value, .. }) = keys.get("context") {
            context = value.text(sources).map(|text| (value.at, text));
        }
        build.dockerfile = keys.text("dockerfile", sources).filter(|name| !name.is_empty());
        build.target = keys.text("target", sources).filter(|name| !name.is_empty());
        if let Some(entry) = keys.get("args") {
            for (name, _, value) in entry.value.pairs(sources) {
                // One without a value is that of whoever builds.
                if let Some(value) = value.or_else(|| project.environment.get(&name).cloned()) {
                    build.args.insert(name, value);
                }
            }
        }
        let is_idle = |entry: &Entry| matches!(entry.value.scalar(), Some("" | "false" | "default"));
        let asked = BY_HAND.into_iter().filter(|name| keys.get(name).is_some_and(|entry| !is_idle(entry)));
        let asked: Vec<String> = asked.map(|name| format!("'{name}'")).collect();
        if !asked.is_empty() {
            build.by_hand = Some(format!("it has {}", asked.join(" and ")));
        }
        keys.finish(sources);
    } else {
        context = entry.value.text(sources).map(|text| (entry.value.at, text));
    }
    let Some((at, text)) = context else { return build };
    build.context = sources.resolve(at, &text);
    let is_inner = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    let outside = |name: &str| !Path::new(name).components().all(is_inner);
    if is_address(&text) {
        build.by_hand = Some(format!("its context {text} is no folder of this machine"));
    } else if !is_below(root, &build.context) {
        build.by_hand = Some(format!("its context {text} is outside of the folder of the Compose file"));
    } else if let Some(name) = build.dockerfile.as_deref().filter(|name| outside(name)) {
        build.by_hand = Some(format!("{name} is outside of its context"));
    }
    build
}

/// Whether a context is fetched from elsewhere, by the rule of engines.
fn is_address(context: &str) -> bool {
    context.contains("://") || ["git@", "github.com/"].iter().any(|start| context.starts_with(start))
}
