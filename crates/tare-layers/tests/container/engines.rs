//! Engines and runtimes that a form names: each is the one that was asked for, and what it leaves is found.

use crate::stage::{self, Stage};
use std::path::Path;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::host::{Availability, ErasedLayer, Host, Wait};
use tare_layers::container::Container;

/// Every check, by name.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("docker_is_had_by_its_name", || had_by_its_name("{engine: docker}", "Docker Engine")),
    ("podman_is_had_by_its_name", || had_by_its_name("{engine: podman, runtime: runc}", "Podman")),
    ("podman_on_a_bridge_is_had", || had_by_its_name("{engine: podman, runtime: runc, network: bridge}", "Podman")),
    ("podman_on_the_host_s_network_is_had", || {
        had_by_its_name("{engine: podman, runtime: runc, network: host}", "Podman");
    }),
    ("what_podman_has_left_is_found", what_podman_has_left_is_found),
    ("docker_starts_containers_with_runc", || started_with("{engine: docker, runtime: runc}", "runc")),
    ("docker_starts_containers_with_crun", || started_with("{engine: docker, runtime: crun}", "crun")),
    ("docker_starts_containers_with_gvisor", || started_with("{engine: docker, runtime: runsc}", "runsc")),
    ("podman_starts_containers_with_crun", || started_with("{engine: podman, runtime: crun}", "crun")),
    ("what_cannot_be_had_says_why", what_cannot_be_had_says_why),
];

/// Why there is no such container on this machine, if there is none.
fn why_not(options: &str) -> Option<Fault> {
    match Container.probe(&stage::options(options), &stage::carrier(Path::new("/"))) {
        Availability::Ready(_) => None,
        Availability::Emulated(_, why) | Availability::Unavailable(why) => Some(why),
    }
}

/// Whether there is none; then it is said.
fn lacks(options: &str) -> bool {
    let why = why_not(options);
    if let Some(why) = &why {
        println!("skipped: {why}");
    }
    why.is_some()
}

/// What the facts say under a name.
fn fact(host: &mut dyn Host, name: &str) -> String {
    host.facts().unwrap().get(name).cloned().unwrap_or_default()
}

fn had_by_its_name(options: &str, name: &str) {
    if lacks(options) {
        return;
    }
    let stage = Stage::new();
    let mut host = stage.open(options);
    let start = stage.service();
    let report = host.resources(&start).unwrap();
    let (_, place) = stage.start(host.as_mut(), &start);
    assert_eq!(fact(host.as_mut(), "engine.name"), name);
    assert_eq!(report.properties["cpus"].value, stage.ask(place, "cpus").unwrap());
    assert_eq!(stage.ask(place, "memory").unwrap(), (48 << 20).to_string());
    let files = host.mapped_files("echo", Wait::always()).unwrap();
    assert_eq!(files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["/bin/service"]);
    host.begin_probe(&[], Duration::from_secs(1)).unwrap();
    let scopes = std::mem::take(&mut stage.notes.lock().unwrap().scopes);
    let own = scopes.iter().find(|scope| scope.name == "echo").unwrap();
    assert!(own.serving && !own.cgroups.is_empty(), "{own:?}");
    host.close().unwrap();
    assert_eq!(stage.leftovers(), []);
}

fn what_podman_has_left_is_found() {
    let options = "{engine: podman, runtime: runc}";
    if lacks(options) {
        return;
    }
    let stage = Stage::new();
    let mut host = stage.open(options);
    stage.start(host.as_mut(), &stage.service());
    // As after a killed run: nobody closes the host.
    std::mem::forget(host);
    let left = stage.leftovers();
    // Its service is only of the run if it was started for it.
    let kinds = left.iter().map(|left| left.kind.as_str()).filter(|kind| *kind != "podman service");
    assert_eq!(kinds.collect::<Vec<_>>(), ["container", "container-network"]);
    for leftover in left {
        Container.remove(&leftover).unwrap();
        Container.remove(&leftover).unwrap();
    }
    assert_eq!(stage.leftovers(), []);
}

fn started_with(options: &str, runtime: &str) {
    if lacks(options) {
        return;
    }
    let stage = Stage::new();
    let mut host = stage.open(options);
    let start = stage.service();
    let (_, place) = stage.start(host.as_mut(), &start);
    assert_eq!(fact(host.as_mut(), "engine.runtime"), runtime);
    assert_ne!(fact(host.as_mut(), "engine.runtime.version"), "");
    let files = host.mapped_files("echo", Wait::always()).unwrap();
    let hides = runtime == "runsc";
    assert_eq!(files.is_empty(), hides, "{files:?}");
    assert!(!hides || host.files_seen(&start, None, Wait::always()).is_err());
    assert_eq!(stage.ask(place, "hello").as_deref(), Some("hello"));
    host.close().unwrap();
    assert_eq!(stage.leftovers(), []);
}

fn what_cannot_be_had_says_why() {
    let rootless = why_not("{engine: podman-rootless}").expect("it is refused");
    assert!(rootless.message.contains("/etc/subuid") && !rootless.remedy.is_empty(), "{rootless}");
    if lacks("{engine: docker}") {
        return;
    }
    let fault = why_not("{engine: docker, runtime: no-such-runtime}").expect("no engine has it");
    assert!(fault.message.contains("has no runtime no-such-runtime; it has"), "{fault}");
    assert!(fault.remedy.contains("/etc/docker/daemon.json"), "{fault}");
}
