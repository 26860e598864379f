//! The container layer: services in containers of an engine that speaks Docker's API, Docker 20.10 and newer or Podman.
//!
//! Its options are described in `README.md` of this crate. With `by: runtime` there is no engine: an OCI runtime starts
//! the service by itself, with what of a container it was told to give, see [`runtime`].
//!
//! Everything made here carries the label `tare.run`; the user's own containers, images, networks and default bridge
//! are never touched. Images made of bundles are kept for later runs, see [`cached_images`]. In a guest the image's one
//! layer is the bundle's disk itself, mounted where the engine keeps the layer.

mod command;
mod engine;
mod guest_engine;
mod host;
mod image;
mod leftovers;
mod link;
mod observe;
mod options;
mod pull;
mod run;
mod rungs;
mod runtime;
mod socket;
mod spec;
mod variants;

pub use guest_engine::GUEST_MODULES;
pub use image::{CachedImage, cached_images, remove_image};

use engine::Engine;
use options::{By, ContainerOptions};
use std::path::Path;
use tare_core::fault::Fault;
use tare_core::host::{Availability, Carrier, GuestNeeds, LayerRow};

/// The layer's row in the table of layers.
pub const ROW: LayerRow = LayerRow {
    name: "container",
    about: "services in containers of Docker or Podman: namespaces, cgroups, a layered file system, a bridge",
    options: options::read,
    probe,
    listens: options::listens,
    // What a service is allowed holds its page cache too; the engine was there before.
    memory_bytes: |_, services, _| services,
    rungs: rungs::rungs,
    variants: variants::variants,
    fits: |_, _| Ok(()),
    in_guest,
    open: host::open,
    leftovers: leftovers::leftovers,
    remove: leftovers::remove,
    kept: image::kept,
    forget: |kept| remove_image(&kept.name),
    pull: Some(pull::pull),
    for_tests: false,
};

/// What the engine itself takes up in a guest: the daemon, its helper and a shim, with room for their page cache.
const ENGINE_MEMORY_BYTES: u64 = 320 << 20;

fn probe(options: &serde_json::Value, _: &Carrier) -> Availability {
    if let Ok(options) = ContainerOptions::from_value(options)
        && options.by == By::Runtime
    {
        return runtime::probe(&options);
    }
    let asked = Engine::find().and_then(|found| found.as_ref().map(Engine::facts).transpose());
    match asked {
        Ok(Some(facts)) => Availability::Ready(facts),
        Ok(None) => Availability::Unavailable(no_engine()),
        Err(fault) => Availability::Unavailable(fault),
    }
}

fn in_guest(_: &serde_json::Value) -> GuestNeeds {
    GuestNeeds {
        bundles: vec![guest_engine::recipe()],
        archives: false,
        memory_bytes: ENGINE_MEMORY_BYTES,
        modules: GUEST_MODULES.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// A container is the innermost layer.
fn holds_no_layer(layer: &str) -> Fault {
    let message = format!("a container cannot hold the layer '{layer}'");
    Fault::new(message).remedy("let 'container' be the last layer of the form")
}

/// Nothing answers: not installed, or not running.
fn no_engine() -> Fault {
    let installed = ["/usr/sbin/dockerd", "/usr/bin/dockerd"].iter().any(|path| Path::new(path).exists());
    if installed {
        let remedy = "start it: systemctl start docker, or dockerd where there is no systemd";
        return Fault::new("a container engine is installed and does not run").remedy(remedy);
    }
    Fault::new("there is no container engine on this machine").remedy("apt-get install docker.io")
}
