use super::super::Container;
use super::*;
use tare_core::config;
use tare_core::host::Layer;
use tare_core::layer::Listens;

#[test]
fn limits_by_quota_are_known_by_the_options() {
    let of = |limits| Container::has_quota(&ContainerOptions { limits, ..ContainerOptions::default() });
    assert_eq!([Limits::Quota, Limits::Cpuset].map(of), [true, false]);
}

fn read_text(text: &str) -> Result<ContainerOptions, Vec<String>> {
    config::read("study.yaml", text, read).map_err(|told| told.iter().map(ToString::to_string).collect())
}

#[test]
fn no_engine_is_asked_to_give_services_capabilities() {
    let all = ContainerOptions { capabilities: Capabilities::All, ..ContainerOptions::default() };
    assert!(all.refused_by(true).unwrap().message.contains("Podman"));
    assert!(all.refused_by(false).is_none() && ContainerOptions::default().refused_by(true).is_none());
    // A runtime sets them itself.
    assert!(ContainerOptions::usual(By::Runtime, EngineKind::Auto).refused_by(true).is_none());
}

#[test]
fn every_default_is_written_down() {
    assert_eq!(read_text("{}"), Ok(ContainerOptions::default()));
    let value = serde_json::to_value(ContainerOptions::default()).unwrap();
    let written = "{\"network\":\"published\",\"by\":\"engine\",\"runtime\":\"auto\",\
                   \"root\":\"overlay\",\"limits\":\"cpuset\",\"seccomp\":\"default\",\
                   \"capabilities\":\"default\",\
                   \"namespaces\":\"own\",\"storage\":\"volume\",\"read_only\":false}";
    assert_eq!(value.to_string(), written);
    // The engine alone is not: forms of records that are older than this option are still the same forms.
    let podman = serde_json::to_value(read_text("{engine: podman}").unwrap()).unwrap();
    assert_eq!(podman["engine"], "podman");
}

#[test]
fn every_word_is_understood() {
    let text = "{network: host, limits: quota, seccomp: unconfined, storage: overlay, read_only: false, \
                capabilities: all, namespaces: host}";
    let options = read_text(text).unwrap();
    assert_eq!((options.capabilities, options.namespaces), (Capabilities::All, Namespaces::Host));
    assert_eq!((options.network, options.limits), (Network::Host, Limits::Quota));
    assert_eq!((options.seccomp, options.storage), (Seccomp::Unconfined, Storage::Overlay));
    assert_eq!(read_text("{network: bridge, limits: none}").unwrap().network, Network::Bridge);
}

#[test]
fn mistakes_have_a_place_and_a_hint() {
    let found = read_text("network: publishd\nuserland_proxy: true\nlimits: 3\n").unwrap_err();
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].contains("1:10") && found[0].contains("did you mean 'published'?"), "{}", found[0]);
    let found = read_text("storage: overlay\nread_only: true\n").unwrap_err();
    assert!(found[0].contains("2:12") && found[0].contains("contradict"), "{}", found[0]);
}

#[test]
fn by_a_runtime_there_is_what_a_runtime_has() {
    let options = read_text("{by: runtime, root: directory, limits: affinity, runtime: crun}").unwrap();
    assert_eq!((options.by, options.root), (By::Runtime, RootKind::Directory));
    assert_eq!(options.runtime.named(), Some("crun"));
    assert_eq!((options.network, options.limits), (Network::Host, Limits::Affinity));
    assert_eq!((options.seccomp, options.capabilities), (Seccomp::Unconfined, Capabilities::All));
    let engines = "by: runtime\nnetwork: bridge\nseccomp: default\ncapabilities: default\nstorage: overlay\n";
    let found = read_text(engines).unwrap_err();
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].contains("2:10") && found[0].contains("host's network"), "{}", found[0]);
    assert!(found.iter().all(|problem| problem.contains("by: engine")), "{found:#?}");
    let found = read_text("root: directory\nlimits: affinity\n").unwrap_err();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|problem| problem.contains("by: runtime")), "{found:#?}");
    assert!(read_text("{runtime: auto, root: overlay}").is_ok(), "what is so already may be said");
}

#[test]
fn a_system_container_has_what_nspawn_and_lxc_give() {
    let nspawn = read_text("{by: nspawn}").unwrap();
    assert_eq!((nspawn.by, nspawn.network, nspawn.limits), (By::Nspawn, Network::Host, Limits::Affinity));
    let lxc = read_text("{by: lxc, seccomp: unconfined}").unwrap();
    assert_eq!((lxc.by, lxc.limits, lxc.seccomp), (By::Lxc, Limits::Cpuset, Seccomp::Unconfined));
    let others = "by: BY\nengine: docker\nruntime: runc\nnetwork: bridge\nroot: directory\nnamespaces: host\n\
                  capabilities: all\nstorage: overlay\nlimits: LIMITS\nread_only: true\n";
    for (by, limits) in [("nspawn", "cpuset"), ("lxc", "affinity")] {
        let found = read_text(&others.replace("BY", by).replace("LIMITS", limits)).unwrap_err();
        assert_eq!(found.len(), 10, "{found:#?}");
        assert!(found[0].contains("2:9") && found[0].contains(&format!("'by: {by}'")), "{}", found[0]);
        assert!(found.iter().any(|said| said.contains("9:9") && said.contains("limits: quota")), "{found:#?}");
        assert!(found.iter().any(|said| said.contains("10:12") && said.contains("the volumes in it")), "{found:#?}");
    }
}

#[test]
fn an_engine_and_any_runtime_of_it_may_be_asked_for() {
    let options = read_text("{engine: podman, runtime: crun}").unwrap();
    assert_eq!((options.engine, options.runtime.named()), (EngineKind::Podman, Some("crun")));
    let options = read_text("{engine: docker, runtime: io.containerd.kata.v2}").unwrap();
    assert_eq!((options.engine, options.runtime.as_str()), (EngineKind::Docker, "io.containerd.kata.v2"));
    assert_eq!(read_text("{engine: podman-rootless}").unwrap().engine, EngineKind::PodmanRootless);
    let found = read_text("engine: dockr\nruntime: /usr/bin/runc\n").unwrap_err();
    assert!(found[0].contains("1:9") && found[0].contains("did you mean 'docker'?"), "{}", found[0]);
    assert!(found[1].contains("2:10") && found[1].contains("'/usr/bin/runc' is not known here"), "{}", found[1]);
    let found = read_text("by: runtime\nengine: docker\nruntime: runsc\n").unwrap_err();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().any(|problem| problem.contains("2:9") && problem.contains("there is no engine")));
    assert!(found.iter().any(|problem| problem.contains("3:10") && problem.contains("youki")), "{found:#?}");
}

#[test]
fn only_the_hosts_network_is_in_everybodys_way() {
    let words = [("host", Listens::Everywhere), ("published", Listens::AtItsAddress), ("bridge", Listens::Apart)];
    for (network, wanted) in words {
        let options = read_text(&format!("network: {network}")).unwrap();
        assert_eq!(Container::listens(&options), wanted, "{network}");
    }
}
