//! A container by its features: what a process gets that is put into one, in the order in which engines do it.

use super::options::{Capabilities, ContainerOptions, Limits, Namespaces, Network, Seccomp, Storage};
use serde_json::Value;
use tare_core::ladder::LayerRung;
use tare_core::study::LoadOrigin;

/// One feature more in each, up to the container as it is given. What it has not is no rung.
pub(super) fn rungs(options: &Value, from: LoadOrigin) -> Vec<LayerRung> {
    let Ok(whole) = ContainerOptions::from_value(options) else { return Vec::new() };
    let mut now = ContainerOptions {
        network: Network::Host,
        limits: Limits::None,
        seccomp: Seccomp::Unconfined,
        capabilities: Capabilities::All,
        namespaces: Namespaces::Host,
        storage: Storage::Volume,
        read_only: whole.read_only,
    };
    let mut rungs = Vec::new();
    let mut add = |name, adds, now: ContainerOptions| {
        rungs.push(LayerRung { name, adds, options: serde_json::to_value(now).expect("plain words are JSON") });
    };
    add("root", "overlay root, mount namespace, cgroup", now);
    if whole.limits != Limits::None {
        now.limits = whole.limits;
        let quota = whole.limits == Limits::Quota;
        add("limits", if quota { "CPU quota" } else { "CPU set of the cgroup" }, now);
    }
    if whole.namespaces == Namespaces::Own {
        now.namespaces = Namespaces::Own;
        add("namespaces", "PID, IPC, UTS and cgroup namespaces", now);
    }
    let confined = (whole.seccomp == Seccomp::Default, whole.capabilities == Capabilities::Default);
    if confined != (false, false) {
        (now.seccomp, now.capabilities) = (whole.seccomp, whole.capabilities);
        let adds = match confined {
            (true, true) => "seccomp filter, fewer capabilities",
            (true, false) => "seccomp filter",
            (false, _) => "fewer capabilities",
        };
        add("confined", adds, now);
    }
    if whole.storage == Storage::Overlay {
        now.storage = Storage::Overlay;
        add("overlay", "volumes in the container's overlay", now);
    }
    if whole.network != Network::Host {
        now.network = Network::Bridge;
        add("bridge", "network namespace, veth and bridge", now);
    }
    let on_host = from == LoadOrigin::Host;
    if whole.network == Network::Translated || (whole.network == Network::Published && on_host) {
        now.network = Network::Translated;
        add("translated", "published port by address translation", now);
    }
    if whole.network == Network::Published {
        now.network = Network::Published;
        let adds =
            if on_host { "user-land proxy instead of translation" } else { "published port by address translation" };
        add("published", adds, now);
    }
    rungs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(options: ContainerOptions, from: LoadOrigin) -> Vec<String> {
        let value = serde_json::to_value(options).unwrap();
        let rungs = rungs(&value, from);
        assert_eq!(rungs.last().unwrap().options, value, "the last one is the container itself");
        for pair in rungs.windows(2) {
            let changed = |key: &&String| pair[0].options[key.as_str()] != pair[1].options[key.as_str()];
            let keys = pair[0].options.as_object().unwrap().keys().filter(changed).count();
            assert!((1..=2).contains(&keys), "one feature at a time: {pair:?}");
        }
        rungs.iter().map(|rung| rung.name.to_owned()).collect()
    }

    #[test]
    fn a_container_is_climbed_to_by_what_it_has() {
        let usual = names(ContainerOptions::default(), LoadOrigin::Outside);
        assert_eq!(usual, ["root", "limits", "namespaces", "confined", "bridge", "published"]);
        let bare = ContainerOptions {
            network: Network::Host,
            limits: Limits::None,
            seccomp: Seccomp::Unconfined,
            capabilities: Capabilities::All,
            namespaces: Namespaces::Host,
            ..ContainerOptions::default()
        };
        assert_eq!(names(bare, LoadOrigin::Outside), ["root"]);
        let overlay = ContainerOptions { storage: Storage::Overlay, ..bare };
        assert_eq!(names(overlay, LoadOrigin::Outside), ["root", "overlay"]);
    }

    #[test]
    fn on_the_host_itself_a_port_is_published_by_the_proxy() {
        let value = serde_json::to_value(ContainerOptions::default()).unwrap();
        let adds = |from| rungs(&value, from).iter().map(|rung| rung.adds).skip(5).collect::<Vec<_>>();
        let proxied = ["published port by address translation", "user-land proxy instead of translation"];
        assert_eq!(adds(LoadOrigin::Host), proxied);
        assert_eq!(adds(LoadOrigin::Outside), proxied[..1]);
    }
}
