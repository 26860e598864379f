//! The container layer: services in containers of an engine that speaks Docker's API, Docker 20.10 and newer or Podman.
//!
//! Its options, with their defaults first:
//!
//! - `network: published | bridge | host`: a private bridge with each port published, as `docker run -p` does; a
//!   private bridge whose addresses are reached directly; or the host's own network.
//! - `limits: cpuset | quota | none`: whether the service's CPUs are enforced by cpuset, by CPU quota, or not at all.
//!   The memory limit, and a `cpu_quota` that the service itself states, always apply.
//! - `seccomp: default | unconfined`: whether the engine's filter of system calls applies.
//! - `storage: volume | overlay`: whether volumes are directories of the host bound into the container, as durable as
//!   for a plain process, or lie in the container's writable layer.
//! - `read_only: false | true`: whether the root filesystem is mounted read-only.
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
mod socket;
mod spec;
mod variants;

pub use guest_engine::GUEST_MODULES;
pub use image::{CachedImage, cached_images, remove_image};

use engine::Engine;
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

fn probe(_: &serde_json::Value, _: &Carrier) -> Availability {
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

/// Nothing answers: not installed, or not running.
fn no_engine() -> Fault {
    let installed = ["/usr/sbin/dockerd", "/usr/bin/dockerd"].iter().any(|path| Path::new(path).exists());
    if installed {
        let remedy = "start it: systemctl start docker, or dockerd where there is no systemd";
        return Fault::new("a container engine is installed and does not run").remedy(remedy);
    }
    Fault::new("there is no container engine on this machine").remedy("apt-get install docker.io")
}
