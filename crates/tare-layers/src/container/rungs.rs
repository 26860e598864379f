//! A container broken down by features: what a process gets when it is put into one, in the order in which engines do
//! it.
//!
//! An engine gives a root, a cgroup and a mount namespace only together, so the first rungs are started by an OCI
//! runtime alone. A plain process already has its own root, by a mount namespace and `pivot_root`, and a cgroup for its
//! memory.

use super::options::{
    By, Capabilities, ContainerOptions, EngineKind, Limits, Namespaces, Network, RootKind, Seccomp, Storage,
};
use tare_core::layer::{LayerRung, LayerUse};
use tare_core::load::LoadOrigin;

/// Rungs, one after another.
struct Rungs {
    now: ContainerOptions,
    found: Vec<LayerRung<ContainerOptions>>,
}

impl Rungs {
    fn add(&mut self, name: &'static str, adds: &'static str) {
        self.found.push(LayerRung { name, adds, options: self.now });
    }
}

/// Each adds one feature, up to the container as configured, on the layers `below`. What the container lacks is no
/// rung.
pub(super) fn rungs(
    whole: &ContainerOptions,
    below: &[LayerUse],
    from: LoadOrigin,
) -> Vec<LayerRung<ContainerOptions>> {
    // In a guest there is nothing that starts containers except the engine, and such a form is refused.
    if whole.by != By::Engine && !below.is_empty() {
        return Vec::new();
    }
    if whole.is_rootless() {
        return vec![LayerRung { name: "whole", adds: "a container of rootless Podman as a whole", options: *whole }];
    }
    if !whole.stands_alone() {
        return vec![LayerRung { name: "whole", adds: "a container of this runtime as a whole", options: *whole }];
    }
    let now = ContainerOptions {
        by: By::Engine,
        root: RootKind::Overlay,
        network: Network::Host,
        limits: Limits::None,
        seccomp: Seccomp::Unconfined,
        capabilities: Capabilities::All,
        namespaces: Namespaces::Host,
        storage: Storage::Volume,
        ..*whole
    };
    let mut rungs = Rungs { now, found: Vec::new() };
    if below.is_empty() {
        by_runtime(&mut rungs, whole);
        if whole.by == By::Engine {
            (rungs.now.by, rungs.now.engine) = (By::Engine, whole.engine);
            rungs.add("engine", "what else an engine does: shim, log");
        }
    } else {
        rungs.add("root", "overlay root, mount namespace, cgroup");
        limits(&mut rungs, whole);
        if whole.namespaces == Namespaces::Own {
            rungs.now.namespaces = Namespaces::Own;
            rungs.add("namespaces", "PID and UTS namespaces");
        }
    }
    if whole.by == By::Engine {
        by_engine(&mut rungs, whole, from);
    }
    rungs.found
}

fn by_runtime(rungs: &mut Rungs, whole: &ContainerOptions) {
    (rungs.now.by, rungs.now.engine) = (By::Runtime, EngineKind::Auto);
    (rungs.now.root, rungs.now.limits) = (RootKind::Directory, Limits::Affinity);
    rungs.add("group", "cgroup that accounts CPU time; chroot");
    if whole.limits != Limits::Affinity {
        limits(rungs, whole);
    }
    if whole.namespaces == Namespaces::Own {
        rungs.now.namespaces = Namespaces::Own;
        rungs.add("namespaces", "mount, PID and UTS namespaces");
    }
    if whole.root == RootKind::Overlay {
        rungs.now.root = RootKind::Overlay;
        rungs.add("root", "overlay root");
    }
}

fn limits(rungs: &mut Rungs, whole: &ContainerOptions) {
    let bound = rungs.now.limits == Limits::Affinity;
    rungs.now.limits = whole.limits;
    match whole.limits {
        Limits::Quota => rungs.add("limits", "CPU quota"),
        Limits::None if bound => rungs.add("limits", "no CPUs of its own"),
        Limits::None => {}
        Limits::Cpuset | Limits::Affinity => rungs.add("limits", "CPU set of the cgroup"),
    }
}

/// The features that only an engine gives.
fn by_engine(rungs: &mut Rungs, whole: &ContainerOptions, from: LoadOrigin) {
    let confined = (whole.seccomp == Seccomp::Default, whole.capabilities == Capabilities::Default);
    if confined != (false, false) {
        (rungs.now.seccomp, rungs.now.capabilities) = (whole.seccomp, whole.capabilities);
        let adds = match confined {
            (true, true) => "seccomp filter, fewer capabilities",
            (true, false) => "seccomp filter",
            (false, _) => "fewer capabilities",
        };
        rungs.add("confined", adds);
    }
    if whole.storage == Storage::Overlay {
        rungs.now.storage = Storage::Overlay;
        rungs.add("overlay", "volumes in the container's overlay");
    }
    if whole.network != Network::Host {
        rungs.now.network = Network::Bridge;
        rungs.add("bridge", "network namespace, veth and bridge");
    }
    let on_host = from == LoadOrigin::Host;
    if whole.network == Network::Translated || (whole.network == Network::Published && on_host) {
        rungs.now.network = Network::Translated;
        rungs.add("translated", "published port by address translation");
    }
    if whole.network == Network::Published {
        rungs.now.network = Network::Published;
        let adds =
            if on_host { "user-land proxy instead of translation" } else { "published port by address translation" };
        rungs.add("published", adds);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Container;
    use super::super::options::EngineKind;
    use super::*;
    use serde_json::Value;
    use tare_core::layer::LayerOptions;

    fn names(options: ContainerOptions, below: &[LayerUse], from: LoadOrigin) -> Vec<String> {
        let layer: &dyn LayerOptions = &Container;
        let value = serde_json::to_value(options).unwrap();
        let rungs = layer.rungs(&value, below, from);
        assert_eq!(rungs.last().unwrap().options, value, "the last one is the container itself");
        for pair in rungs.windows(2) {
            let changed = |key: &&String| pair[0].options[key.as_str()] != pair[1].options[key.as_str()];
            let keys = pair[0].options.as_object().unwrap().keys().filter(changed).count();
            let most = if ["confined", "engine"].contains(&pair[1].name) { 2 } else { 1 };
            assert!((1..=most).contains(&keys), "one feature at a time: {pair:?}");
        }
        // What is recorded must be something that a user could have written.
        for rung in &rungs {
            let text = rung.options.to_string();
            let read = tare_core::config::read("rung", &text, |node, problems| layer.read(node, problems));
            assert_eq!(read.as_ref(), Ok(&rung.options), "{text}");
        }
        rungs.iter().map(|rung| rung.name.to_owned()).collect()
    }

    fn bare() -> ContainerOptions {
        ContainerOptions {
            network: Network::Host,
            limits: Limits::None,
            seccomp: Seccomp::Unconfined,
            capabilities: Capabilities::All,
            namespaces: Namespaces::Host,
            ..ContainerOptions::default()
        }
    }

    #[test]
    fn a_container_is_climbed_to_by_what_it_has() {
        let outside = |options| names(options, &[], LoadOrigin::Outside);
        let usual = ["group", "limits", "namespaces", "root", "engine", "confined", "bridge", "published"];
        assert_eq!(outside(ContainerOptions::default()), usual);
        assert_eq!(outside(bare()), ["group", "limits", "root", "engine"]);
        let overlay = ContainerOptions { storage: Storage::Overlay, ..bare() };
        assert_eq!(outside(overlay), ["group", "limits", "root", "engine", "overlay"]);
        let quota = ContainerOptions { limits: Limits::Quota, ..bare() };
        assert_eq!(outside(quota), ["group", "limits", "root", "engine"]);
    }

    #[test]
    fn by_a_runtime_alone_there_are_no_rungs_of_an_engine() {
        let outside = |options| names(options, &[], LoadOrigin::Outside);
        let runtime = ContainerOptions { by: By::Runtime, ..bare() };
        assert_eq!(outside(runtime), ["group", "limits", "root"]);
        let least = ContainerOptions { root: RootKind::Directory, limits: Limits::Affinity, ..runtime };
        assert_eq!(outside(least), ["group"]);
        let own = ContainerOptions { namespaces: Namespaces::Own, ..least };
        assert_eq!(outside(own), ["group", "namespaces"]);
    }

    #[test]
    fn what_only_an_engine_calls_is_one_rung() {
        let outside = |options| names(options, &[], LoadOrigin::Outside);
        let runtime = |name| super::super::runtime_name::RuntimeName::parse(name).unwrap();
        let usual = outside(ContainerOptions::default());
        let named = ContainerOptions { runtime: runtime("crun"), engine: EngineKind::Podman, ..Default::default() };
        assert_eq!(outside(named), usual);
        assert_eq!(outside(ContainerOptions::usual(By::Nspawn, EngineKind::Auto)), ["whole"]);
        assert_eq!(outside(ContainerOptions::usual(By::Lxc, EngineKind::Auto)), ["whole"]);
        let sealed = ContainerOptions { runtime: runtime("runsc"), ..Default::default() };
        assert_eq!(outside(sealed), ["whole"]);
    }

    #[test]
    fn in_a_guest_an_engine_gives_all_together() {
        let guest = [LayerUse { layer: "guest".to_owned(), options: Value::Null }];
        let inside = |options| names(options, &guest, LoadOrigin::Outside);
        let usual = ["root", "limits", "namespaces", "confined", "bridge", "published"];
        assert_eq!(inside(ContainerOptions::default()), usual);
        assert_eq!(inside(bare()), ["root"]);
    }

    #[test]
    fn on_the_host_itself_a_port_is_published_by_the_proxy() {
        let usual = ContainerOptions::default();
        let adds = |from| rungs(&usual, &[], from).iter().map(|rung| rung.adds).skip(7).collect::<Vec<_>>();
        let proxied = ["published port by address translation", "user-land proxy instead of translation"];
        assert_eq!(adds(LoadOrigin::Host), proxied);
        assert_eq!(adds(LoadOrigin::Outside), proxied[..1]);
    }
}
