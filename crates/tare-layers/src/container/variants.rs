//! What could be changed about a container and may win back some of its cost, one change each.

use super::options::{By, Capabilities, ContainerOptions, Limits, Namespaces, Network, Seccomp, Storage};
use tare_core::layer::LayerVariant;
use tare_core::load::LoadOrigin;

/// The changes that the container does not have already. Their names must stay stable: others refer to them.
pub(super) fn variants(now: &ContainerOptions, from: LoadOrigin) -> Vec<LayerVariant<ContainerOptions>> {
    let now = *now;
    let mut found = Vec::new();
    let mut add = |applies: bool, name, changes, trades, options: ContainerOptions| {
        if applies {
            found.push(LayerVariant { name, changes, trades, options });
        }
    };
    let rootless = now.is_rootless();
    let published = now.network == Network::Published;
    let changes = if now.is_in_user_space() {
        "the host's network instead of one in user space"
    } else if published && from == LoadOrigin::Host {
        "the host's network instead of a port published by the user-land proxy"
    } else if now.publishes() {
        "the host's network instead of a port published by address translation"
    } else {
        "the host's network instead of a bridge"
    };
    let trades = "isolation of the network: its ports are the host's";
    let other = ContainerOptions { network: Network::Host, ..now };
    // There a plain user has to be named, which is nothing to try.
    let may_be_there = !rootless || !now.user.is_auto();
    add(may_be_there && now.network != Network::Host, "host-network", changes, trades, other);
    let changes = "a published port that is reached by address translation instead of the user-land proxy";
    let trades = "clients of the host itself must not use the loopback";
    let other = ContainerOptions { network: Network::Translated, ..now };
    add(published && from == LoadOrigin::Host, "translated", changes, trades, other);
    let changes = "the container's own address instead of a published port";
    let trades = "an address that only this machine has a route to";
    add(now.publishes() && !rootless, "bridge", changes, trades, ContainerOptions { network: Network::Bridge, ..now });
    let changes = "a volume instead of the container's writable layer";
    let trades = "nothing but a directory of the host";
    add(
        now.storage == Storage::Overlay,
        "volume",
        changes,
        trades,
        ContainerOptions { storage: Storage::Volume, ..now },
    );
    let changes = "CPUs by number instead of a quota of time";
    let trades = "CPUs that others could have used";
    let has_cpusets = now.by != By::Nspawn;
    let limits = if rootless { Limits::Affinity } else { Limits::Cpuset };
    add(has_cpusets && now.limits == Limits::Quota, "cpuset", changes, trades, ContainerOptions { limits, ..now });
    let changes = "no CPU limit of the container";
    let trades = "what keeps it from the CPUs of others";
    add(now.limits != Limits::None, "no-limits", changes, trades, ContainerOptions { limits: Limits::None, ..now });
    let changes = "no filter of system calls";
    let trades = "security: every system call of the kernel is open to it";
    let other = ContainerOptions { seccomp: Seccomp::Unconfined, ..now };
    add(now.seccomp == Seccomp::Default, "no-seccomp", changes, trades, other);
    let changes = "all capabilities, under no profile";
    let trades = "security: where its user is root, it is the host's root";
    let other = ContainerOptions { capabilities: Capabilities::All, ..now };
    let is_free = !now.by.is_system() && !rootless;
    add(is_free && now.capabilities == Capabilities::Default, "all-capabilities", changes, trades, other);
    let changes = "the host's PID, UTS and cgroup namespaces";
    let trades = "isolation: it sees the host's processes";
    let other = ContainerOptions { namespaces: Namespaces::Host, ..now };
    add(is_free && now.namespaces == Namespaces::Own, "host-namespaces", changes, trades, other);
    found
}

#[cfg(test)]
mod tests {
    use super::super::Container;
    use super::super::options::EngineKind;
    use super::*;
    use tare_core::layer::LayerOptions;

    fn names(options: ContainerOptions) -> Vec<&'static str> {
        let value = serde_json::to_value(options).unwrap();
        let layer: &dyn LayerOptions = &Container;
        let found = layer.variants(&value, LoadOrigin::Outside);
        for variant in &found {
            let changed = |key: &&String| variant.options[key.as_str()] != value[key.as_str()];
            assert_eq!(value.as_object().unwrap().keys().filter(changed).count(), 1, "one thing: {variant:?}");
        }
        found.iter().map(|variant| variant.name).collect()
    }

    #[test]
    fn each_does_one_thing_otherwise_that_the_container_has_not() {
        let usual = ["host-network", "bridge", "no-limits", "no-seccomp", "all-capabilities", "host-namespaces"];
        assert_eq!(names(ContainerOptions::default()), usual);
        let slow = ContainerOptions {
            storage: Storage::Overlay,
            limits: Limits::Quota,
            network: Network::Bridge,
            ..ContainerOptions::default()
        };
        assert_eq!(names(slow)[..4], ["host-network", "volume", "cpuset", "no-limits"]);
        let best = ContainerOptions {
            network: Network::Host,
            limits: Limits::None,
            seccomp: Seccomp::Unconfined,
            capabilities: Capabilities::All,
            namespaces: Namespaces::Host,
            ..ContainerOptions::default()
        };
        assert!(names(best).is_empty());
        assert_eq!(names(ContainerOptions::usual(By::Nspawn, EngineKind::Auto)), ["no-limits", "no-seccomp"]);
        let quota = ContainerOptions { limits: Limits::Quota, ..ContainerOptions::usual(By::Lxc, EngineKind::Auto) };
        assert_eq!(names(quota), ["cpuset", "no-limits", "no-seccomp"]);
        let rootless = ContainerOptions::usual(By::Engine, EngineKind::PodmanRootless);
        assert_eq!(names(rootless), ["no-limits", "no-seccomp"]);
    }

    #[test]
    fn how_a_port_was_published_is_said() {
        let changes = |from| variants(&ContainerOptions::default(), from)[0].changes;
        assert!(changes(LoadOrigin::Host).contains("proxy") && changes(LoadOrigin::Outside).contains("translation"));
    }
}
