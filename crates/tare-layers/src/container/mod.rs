//! The container layer: services in containers of an engine that speaks Docker's API, Docker 20.10 and newer or Podman.
//! Which one is an option of each form (`find.rs`), and so is the OCI runtime that it uses (`runtimes.rs`).
//!
//! Its options are described in this crate's `README.md`. With `by: runtime` there is no engine: an OCI runtime starts
//! the service directly, with the container features that the options ask for, see `runtime/`; with `by: nspawn` and
//! `by: lxc` it stands in a system container.
//!
//! Everything made here carries the label `tare.run`; the user's own containers, images, networks and default bridge
//! are never touched. Images made from bundles are kept for later runs, see [`cached_images`], and so are those that
//! the engine has built of a folder, see [`build_image`]. In a guest the image's single layer is the bundle's disk
//! itself, mounted where the engine keeps the layer.

mod build;
mod command;
mod engine;
mod find;
mod guest_engine;
mod host;
mod image;
mod inventory;
mod leftovers;
mod link;
mod netavark;
mod observe;
mod options;
mod podman;
mod podman_files;
mod programs;
mod pull;
mod rootless;
mod run;
mod rungs;
mod runtime;
mod runtime_name;
mod runtimes;
pub(crate) mod socket;
mod spec;
mod variants;

pub use guest_engine::GUEST_MODULES;
pub use options::ContainerOptions;
#[cfg(any(test, fuzzing))]
pub(crate) use {
    observe::{chew_groups, chew_log},
    runtime::chew as chew_runtime_log,
};

pub use build::{BuildWays, NamedBuild, build_image, build_named_image};
pub use image::{CachedImage, cached_images, remove_image};
pub use inventory::{EngineImage, engine_image, engine_name, is_image_name};

use crate::short_version;
use engine::Engine;
use options::{By, Limits, Network};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::host::{
    Availability, CachedItem, Facts, FetchImage, GuestNeeds, Host, Layer, Leftover, LocalOuter, MachineServices,
    OpenError, TrialContext,
};
use tare_core::layer::{LayerRung, LayerUse, LayerVariant, Listens};
use tare_core::load::LoadOrigin;

/// The layer `container`. It needs no memory beyond the services': a service's limit includes its page cache, and the
/// engine was there before.
pub struct Container;

impl Layer for Container {
    type Options = ContainerOptions;

    const NAME: &'static str = "container";
    const ABOUT: &'static str =
        "services in containers of Docker or Podman: namespaces, cgroups, a layered file system, a bridge";
    const PULL: Option<FetchImage> = Some(pull::pull);

    fn read(node: &Node, problems: &mut Problems) -> Option<ContainerOptions> {
        options::read(node, problems)
    }

    fn probe(options: &ContainerOptions, _: &MachineServices) -> Availability {
        if options.by != By::Engine {
            return runtime::probe(options);
        }
        let found = find::find_for(options, None).and_then(|found| found.ok_or_else(no_engine));
        match found.and_then(|engine| runtimes::facts(&engine, &runtimes::of(&engine, options)?)) {
            Ok(facts) => Availability::Ready(facts),
            Err(fault) => Availability::Unavailable(fault),
        }
    }

    fn ways() -> Vec<String> {
        let engine = |engine: &Engine| {
            let told = engine.facts().map_or_else(|fault| fault.message, |facts| words(&facts));
            told + &runtimes::in_words(engine)
        };
        let mut ways = find::in_words(engine);
        let alone = runtime::installed();
        if !alone.is_empty() {
            ways.push(format!("by: runtime ({})", alone.join(", ")));
        }
        ways.extend(runtime::systems());
        ways
    }

    fn words(facts: &Facts) -> String {
        words(facts)
    }

    fn open(
        options: ContainerOptions,
        outer: Box<dyn LocalOuter>,
        surroundings: &TrialContext,
    ) -> Result<Box<dyn Host>, OpenError> {
        match options.by {
            By::Runtime | By::Nspawn | By::Lxc => runtime::open(outer, options, surroundings),
            By::Engine => host::open(outer, options, surroundings),
        }
    }

    fn listens(options: &ContainerOptions) -> Listens {
        match options.network {
            Network::Host => Listens::Everywhere,
            Network::Published | Network::Translated | Network::Slirp4netns | Network::Pasta => Listens::AtItsAddress,
            Network::Bridge => Listens::Apart,
        }
    }

    fn has_quota(options: &ContainerOptions) -> bool {
        options.limits == Limits::Quota
    }

    fn rungs(options: &ContainerOptions, below: &[LayerUse], from: LoadOrigin) -> Vec<LayerRung<ContainerOptions>> {
        rungs::rungs(options, below, from)
    }

    fn variants(options: &ContainerOptions, from: LoadOrigin) -> Vec<LayerVariant<ContainerOptions>> {
        variants::variants(options, from)
    }

    fn in_guest(_: &ContainerOptions) -> GuestNeeds {
        GuestNeeds {
            bundles: vec![guest_engine::recipe()],
            archives: false,
            memory_bytes: ENGINE_MEMORY_BYTES,
            modules: GUEST_MODULES.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn leftovers() -> Result<Vec<Leftover>, Fault> {
        leftovers::leftovers()
    }

    fn remove(leftover: &Leftover) -> Result<(), Fault> {
        leftovers::remove(leftover)
    }

    fn kept() -> Result<Vec<CachedItem>, Fault> {
        Ok([image::kept()?, build::kept()?].concat())
    }

    fn forget(kept: &CachedItem) -> Result<(), Fault> {
        if kept.kind == build::KIND { build::remove(&kept.name) } else { remove_image(&kept.name) }
    }
}

/// What the engine itself occupies in a guest: the daemon, its helper and a shim, with room for their page cache.
const ENGINE_MEMORY_BYTES: u64 = 320 << 20;

/// `Docker Engine 20.10 with runc 1.1, overlay2`.
fn words(facts: &Facts) -> String {
    let version = |key: &str| facts.get(key).map_or_else(String::new, |version| format!(" {}", short_version(version)));
    let runtime = facts.get("engine.runtime").or_else(|| facts.get("runtime.name"));
    let mut text = match (facts.get("engine.name"), runtime) {
        (Some(engine), Some(runtime)) => {
            format!("{engine}{} with {runtime}{}", version("engine.version"), version("engine.runtime.version"))
        }
        (Some(engine), None) => format!("{engine}{}", version("engine.version")),
        (None, runtime) => format!("{}{}", runtime.map_or("a runtime", String::as_str), version("runtime.version")),
    };
    if let Some(driver) = facts.get("engine.storage_driver") {
        text += &format!(", {driver}");
    }
    if facts.get("engine.security").is_some_and(|security| security.contains("name=rootless")) {
        text += ", rootless";
    }
    text
}

/// A container must be the innermost layer.
fn holds_no_layer(layer: &str) -> Fault {
    let message = format!("a container cannot hold the layer '{layer}'");
    Fault::new(message).remedy("let 'container' be the last layer of the form")
}

/// Nothing answers: the engine is not where the user says, not installed, or not running.
fn no_engine() -> Fault {
    if let Some(chosen) = crate::environment::docker_host() {
        return nothing_at(&chosen, &socket::USUAL.map(Path::new));
    }
    if find::docker_is_installed() {
        return Fault::new("a container engine is installed and does not run").remedy(find::START_DOCKER);
    }
    if podman::program().is_some() {
        let remedy = "systemctl start podman.socket; a form may also have it started: 'container: {engine: podman}'";
        return Fault::new("Podman is installed and listens nowhere").remedy(remedy);
    }
    Fault::new("there is no container engine on this machine").remedy("apt-get install docker.io")
}

/// Nothing answers where the user says an engine listens; one may listen at a usual place.
fn nothing_at(chosen: &str, usual: &[&Path]) -> Fault {
    let message = format!("DOCKER_HOST is '{chosen}', and no container engine answers there");
    let remedy = match usual.iter().find(|path| UnixStream::connect(path).is_ok()) {
        Some(path) => format!("unset DOCKER_HOST: an engine listens at {}", path.display()),
        None => "start the engine that listens there, or unset DOCKER_HOST".to_owned(),
    };
    Fault::new(message).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(facts: &[(&str, &str)]) -> Facts {
        facts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_engine_is_known_by_a_few_words() {
        let docker = [
            ("engine.name", "Docker Engine"),
            ("engine.version", "20.10.24+dfsg1"),
            ("engine.runtime", "runc"),
            ("engine.runtime.version", "1.1.5+ds1"),
            ("engine.storage_driver", "overlay2"),
            ("engine.backing_filesystem", "extfs"),
        ];
        assert_eq!(words(&facts(&docker)), "Docker Engine 20.10 with runc 1.1, overlay2");
        let podman = [("engine.name", "Podman"), ("engine.version", "4.3.1"), ("engine.security", "name=rootless")];
        assert_eq!(words(&facts(&podman)), "Podman 4.3, rootless");
        assert_eq!(words(&facts(&[("runtime.name", "crun"), ("runtime.version", "1.8.1")])), "crun 1.8");
        let nspawn = [("runtime.name", "systemd-nspawn"), ("runtime.version", "252.39-1~deb12u2")];
        assert_eq!(words(&facts(&nspawn)), "systemd-nspawn 252.39");
    }

    #[test]
    fn an_engine_that_the_user_chose_and_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&there).unwrap();
        let chosen = "unix:///nowhere.sock";
        let fault = nothing_at(chosen, &[Path::new("/nowhere-else.sock"), &there]);
        assert!(fault.message.contains("DOCKER_HOST is 'unix:///nowhere.sock'"), "{fault}");
        assert!(
            fault.remedy.contains("unset DOCKER_HOST: an engine listens at") && fault.remedy.contains("there.sock")
        );
        let fault = nothing_at(chosen, &[Path::new("/nowhere-else.sock")]);
        assert!(fault.remedy.contains("start the engine") && fault.remedy.contains("or unset DOCKER_HOST"), "{fault}");
    }
}
