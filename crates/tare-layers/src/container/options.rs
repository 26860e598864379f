//! What a study may specify about a container.

use super::runtime_name::RuntimeName;
use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, Problems};
use tare_core::fault::Fault;
use tare_core::host::{Facts, ServiceStart};

/// What root may do without a filter of system calls. It may also read keys of the machine's root.
const UNFILTERED: &str =
    "no filter of system calls would keep it from a user namespace, in which it has every capability";
/// What root may do under the filter of systemd-nspawn, which is of names of system calls alone, and so lets clone and
/// unshare pass with any flags; and with the control groups that nspawn delegates to whom it starts.
const FILTERED_BY_NSPAWN: &str = "nspawn's filter of system calls would leave it user namespaces, in which it has \
                                  every capability, and nspawn would let it write to control groups";
/// What root may do under LXC's filter, which denies five calls and forced unmounting, and with a `/proc` of which LXC
/// makes `sys` and `sysrq-trigger` read-only, and nothing else.
const FILTERED_BY_LXC: &str = "LXC's filter of system calls would leave it user namespaces, in which it has every \
                               capability, and LXC would let it write to the machine's /proc/irq and /proc/bus";

/// Who puts a service into its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum By {
    /// A container engine.
    #[default]
    Engine,
    /// An OCI runtime alone, of the kind that engines use.
    Runtime,
    /// systemd-nspawn: a system container.
    Nspawn,
    /// LXC: the same.
    Lxc,
}

impl By {
    /// Whether its containers are of those that are made for whole systems: they have all namespaces and a filter of
    /// system calls, and a process stays to look after each.
    pub(super) fn is_system(self) -> bool {
        matches!(self, By::Nspawn | By::Lxc)
    }

    /// What a study asks for it by.
    fn option(self) -> &'static str {
        match self {
            By::Engine => "by: engine",
            By::Runtime => "by: runtime",
            By::Nspawn => "by: nspawn",
            By::Lxc => "by: lxc",
        }
    }
}

/// Which container engine that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EngineKind {
    /// The one that the user chose, or the first that answers at a usual place.
    #[default]
    Auto,
    /// Docker Engine.
    Docker,
    /// Podman, as root.
    Podman,
    /// Podman, as a plain user of this machine.
    PodmanRootless,
}

impl EngineKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    fn is_auto(&self) -> bool {
        *self == EngineKind::Auto
    }
}

/// The runtimes that Tare can call by itself: they take the same arguments.
pub(super) const ALONE: [&str; 4] = ["auto", "runc", "crun", "youki"];
/// The runtimes that engines commonly know by these names. Others are taken too: an engine's settings name them.
const COMMON: [&str; 6] = ["auto", "runc", "crun", "youki", "runsc", "kata"];

/// What a container's root file system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RootKind {
    /// A writable layer of its own over the bundle.
    #[default]
    Overlay,
    /// The bundle's directory itself, read-only, as for a plain process.
    Directory,
}

/// How the generator reaches a service in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Network {
    /// A private bridge; each port is published on the host's address, as `docker run -p` does.
    Published,
    /// The same, but on the bridge's own address where the load is on the host: there, even the host's own clients
    /// reach it by address translation and not through the engine's user-land proxy.
    Translated,
    /// A private bridge; clients use the container's own address, without translation.
    Bridge,
    /// The host's own network: no bridge, no address of its own.
    Host,
    /// Of rootless Podman: in user space, by slirp4netns; each port is published on the host's address.
    Slirp4netns,
    /// The same by pasta.
    Pasta,
}

/// How a service's whole CPUs are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Limits {
    /// As many CPUs as it is given, by cpuset.
    Cpuset,
    /// The same CPUs, to which its process is bound like a plain one.
    Affinity,
    /// CPU time by quota, on any CPU of the system under test.
    Quota,
    /// Neither; only the confinement to the CPUs of the system under test remains.
    None,
}

/// Which system call filter applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Seccomp {
    /// The engine's own profile.
    Default,
    /// No filter.
    Unconfined,
}

/// Which capabilities a container has, if its user has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Capabilities {
    /// The engine's own choice, under its own AppArmor profile if the host has it.
    #[default]
    Default,
    /// All of them, under no profile.
    All,
}

/// Whose processes, names and shared memory a container sees, and with a runtime also whose mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Namespaces {
    /// PID and UTS namespaces of its own, and with version 2 cgroups a cgroup namespace.
    #[default]
    Own,
    /// The host's. With a runtime it has no mount namespace of its own either, and its root is set by chroot.
    Host,
}

/// Where a service's volumes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Storage {
    /// A directory of the host, bound into the container: as durable and as fast as for a plain process.
    Volume,
    /// The container's own writable layer.
    Overlay,
}

/// The options of the container layer, with every default filled in; this crate's `README.md` explains each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerOptions {
    pub(crate) network: Network,
    #[serde(default)]
    pub(crate) by: By,
    // The usual one is not written down: forms of older records are still the same forms.
    #[serde(default, skip_serializing_if = "EngineKind::is_auto")]
    pub(crate) engine: EngineKind,
    /// As whom rootless Podman runs.
    #[serde(default, skip_serializing_if = "RuntimeName::is_auto")]
    pub(crate) user: RuntimeName,
    #[serde(default)]
    pub(crate) runtime: RuntimeName,
    #[serde(default)]
    pub(crate) root: RootKind,
    pub(crate) limits: Limits,
    pub(crate) seccomp: Seccomp,
    #[serde(default)]
    pub(crate) capabilities: Capabilities,
    #[serde(default)]
    pub(crate) namespaces: Namespaces,
    pub(crate) storage: Storage,
    pub(crate) read_only: bool,
}

impl Default for ContainerOptions {
    fn default() -> Self {
        ContainerOptions {
            network: Network::Published,
            by: By::Engine,
            engine: EngineKind::Auto,
            user: RuntimeName::AUTO,
            runtime: RuntimeName::AUTO,
            root: RootKind::Overlay,
            limits: Limits::Cpuset,
            seccomp: Seccomp::Default,
            capabilities: Capabilities::Default,
            namespaces: Namespaces::Own,
            storage: Storage::Volume,
            read_only: false,
        }
    }
}

impl ContainerOptions {
    /// The defaults: a runtime alone has no bridge, no filter and no choice of capabilities, and system containers have
    /// no bridge.
    pub(super) fn usual(by: By, engine: EngineKind) -> ContainerOptions {
        let usual = ContainerOptions { engine, ..ContainerOptions::default() };
        match by {
            By::Engine if usual.is_rootless() => {
                ContainerOptions { network: Network::Slirp4netns, limits: Limits::Affinity, ..usual }
            }
            By::Engine => usual,
            By::Runtime => ContainerOptions {
                by,
                network: Network::Host,
                seccomp: Seccomp::Unconfined,
                capabilities: Capabilities::All,
                ..usual
            },
            // It knows no sets of CPUs.
            By::Nspawn => ContainerOptions { by, network: Network::Host, limits: Limits::Affinity, ..usual },
            By::Lxc => ContainerOptions { by, network: Network::Host, ..usual },
        }
    }

    /// Why an engine cannot be asked for such a container: Podman passes the capabilities that it gives a container on
    /// to a user who is not root as well (ambient capabilities), and in no form does a service have any.
    pub(super) fn refused_by(&self, is_podman: bool) -> Option<Fault> {
        let hands_on = is_podman && self.by == By::Engine && self.capabilities == Capabilities::All;
        hands_on.then(|| {
            Fault::new("Podman gives 'capabilities: all' to the service itself, which is unprivileged in every form")
                .remedy("leave it out, or use 'engine: docker'")
        })
    }

    /// Why a service cannot run as its image does in such a container: as root it would have more of the machine than
    /// any container has.
    pub(super) fn refused_as_image(&self, start: &ServiceStart) -> Option<Fault> {
        let (option, why) = self.leaves_to_root()?;
        start.service.as_image.then(|| {
            let message = format!("service '{}' has 'as_image', and so may be root", start.instance);
            Fault::new(format!("{message}: with '{option}' {why}"))
                .remedy(format!("leave '{option}' out of the container's options, or 'as_image' out of the service"))
        })
    }

    /// The option with which root in the container would have more of the machine than an engine leaves it, and what.
    fn leaves_to_root(&self) -> Option<(&'static str, &'static str)> {
        Some(match (self.namespaces, self.by) {
            (Namespaces::Host, _) => ("namespaces: host", "it could signal every process of the machine"),
            (Namespaces::Own, By::Engine) if self.capabilities == Capabilities::All => {
                ("capabilities: all", "it would have every capability")
            }
            (Namespaces::Own, By::Engine) if self.seccomp == Seccomp::Unconfined => ("seccomp: unconfined", UNFILTERED),
            (Namespaces::Own, By::Engine) => return None,
            // It is told which capabilities a service has, whatever stands there, and sets no filter.
            (Namespaces::Own, By::Runtime) => (By::Runtime.option(), UNFILTERED),
            // The filter of these two could be another one (`linux.seccomp` of nspawn's bundle, LXC's profile). But
            // commands beside a service are started by Tare, which sets none: they would be root without a filter.
            (Namespaces::Own, By::Nspawn) => (By::Nspawn.option(), FILTERED_BY_NSPAWN),
            (Namespaces::Own, By::Lxc) => (By::Lxc.option(), FILTERED_BY_LXC),
        })
    }

    /// Whether the features of the container can be had one by one, of a runtime that can be called without an engine.
    pub(super) fn stands_alone(&self) -> bool {
        !self.by.is_system() && ALONE.contains(&self.runtime.as_str())
    }

    /// Whether the service's ports are published on a host address.
    pub(crate) fn publishes(&self) -> bool {
        matches!(self.network, Network::Published | Network::Translated) || self.is_in_user_space()
    }

    /// Whether a program in user space makes the container's network.
    pub(crate) fn is_in_user_space(&self) -> bool {
        matches!(self.network, Network::Slirp4netns | Network::Pasta)
    }

    /// Whether a plain user of this machine runs the engine.
    pub(crate) fn is_rootless(&self) -> bool {
        self.engine == EngineKind::PodmanRootless
    }

    /// The options, for the record.
    pub(crate) fn facts(&self) -> Facts {
        let options = serde_json::to_value(self).expect("plain words and booleans are JSON");
        let words = options.as_object().into_iter().flatten();
        let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        words.map(|(key, value)| (format!("container.{key}"), text(value))).collect()
    }
}

/// Checks a user's options and fills in every default. Returns `None` if it has added problems.
pub(crate) fn read(node: &Node, problems: &mut Problems) -> Option<ContainerOptions> {
    let before = problems.len();
    let mut fields = Fields::of(node, "layer 'container'", problems)?;
    let by = match fields.choice("by", &["engine", "runtime", "nspawn", "lxc"], problems) {
        Some("runtime") => By::Runtime,
        Some("nspawn") => By::Nspawn,
        Some("lxc") => By::Lxc,
        _ => By::Engine,
    };
    let engine = match fields.choice("engine", &["auto", "docker", "podman", "podman-rootless"], problems) {
        Some("docker") => EngineKind::Docker,
        Some("podman") => EngineKind::Podman,
        Some("podman-rootless") => EngineKind::PodmanRootless,
        _ => EngineKind::Auto,
    };
    let mut options = ContainerOptions::usual(by, engine);
    options.user = fields.get("user").and_then(|node| read_user(node, problems)).unwrap_or_default();
    let runtime = fields.get("runtime").and_then(|node| read_runtime(node, by, problems));
    options.runtime = runtime.unwrap_or_default();
    if let Some(word) = fields.choice("root", &["overlay", "directory"], problems) {
        options.root = if word == "directory" { RootKind::Directory } else { RootKind::Overlay };
    }
    let networks = ["published", "translated", "bridge", "host", "slirp4netns", "pasta"];
    if let Some(word) = fields.choice("network", &networks, problems) {
        options.network = match word {
            "slirp4netns" => Network::Slirp4netns,
            "pasta" => Network::Pasta,
            "translated" => Network::Translated,
            "bridge" => Network::Bridge,
            "host" => Network::Host,
            _ => Network::Published,
        };
    }
    if let Some(word) = fields.choice("limits", &["cpuset", "affinity", "quota", "none"], problems) {
        options.limits = match word {
            "affinity" => Limits::Affinity,
            "quota" => Limits::Quota,
            "none" => Limits::None,
            _ => Limits::Cpuset,
        };
    }
    if let Some(word) = fields.choice("seccomp", &["default", "unconfined"], problems) {
        options.seccomp = if word == "unconfined" { Seccomp::Unconfined } else { Seccomp::Default };
    }
    if let Some(word) = fields.choice("capabilities", &["default", "all"], problems) {
        options.capabilities = if word == "all" { Capabilities::All } else { Capabilities::Default };
    }
    if let Some(word) = fields.choice("namespaces", &["own", "host"], problems) {
        options.namespaces = if word == "host" { Namespaces::Host } else { Namespaces::Own };
    }
    if let Some(word) = fields.choice("storage", &["volume", "overlay"], problems) {
        options.storage = if word == "overlay" { Storage::Overlay } else { Storage::Volume };
    }
    let read_only = fields.get("read_only");
    options.read_only = read_only.and_then(|node| node.boolean(problems)).unwrap_or(false);
    check_together(&options, &mut fields, problems);
    fields.finish(problems);
    (problems.len() == before).then_some(options)
}

/// The user that rootless Podman is to run as; whether this machine has it is seen where the form runs.
fn read_user(node: &Node, problems: &mut Problems) -> Option<RuntimeName> {
    let text = node.text(problems)?;
    let named = RuntimeName::parse(&text);
    if named.is_none() {
        problems.add(node.place, format!("'{text}' is not the name of a user"), "name a user of the machine");
    }
    named
}

/// The runtime that is asked for: with an engine any that it may know, else one that Tare can call.
fn read_runtime(node: &Node, by: By, problems: &mut Problems) -> Option<RuntimeName> {
    let text = node.text(problems)?;
    let is_called = by == By::Engine || ALONE.contains(&text.as_str());
    if !is_called && COMMON.contains(&text.as_str()) {
        let hint = format!("use one of {}, or leave 'by: runtime' out: an engine calls it", ALONE.join(", "));
        problems.add(node.place, format!("'{text}' is not called without an engine"), hint);
        return None;
    }
    let named = RuntimeName::parse(&text).filter(|_| is_called);
    if named.is_none() {
        let known: &[&str] = if by == By::Runtime { &ALONE } else { &COMMON };
        problems.add_unknown(node.place, format!("'{text}' is not known here"), &text, known);
    }
    named
}

/// Refuses options that contradict each other, and those that only the engine or only a runtime can provide.
fn check_together(options: &ContainerOptions, fields: &mut Fields, problems: &mut Problems) {
    let mut refuse = |is: bool, key: &'static str, message: &str, hint: &str| {
        if let Some(node) = fields.get(key).filter(|_| is) {
            problems.add(node.place, message, hint);
        }
    };
    let message = "'read_only: true' and 'storage: overlay' contradict each other: volumes would not be writable";
    let hint = "use 'storage: volume', or leave 'read_only' out";
    refuse(options.read_only && options.storage == Storage::Overlay, "read_only", message, hint);
    let rootless = options.is_rootless();
    let hint = "add 'engine: podman-rootless', or leave it out";
    refuse(!rootless && !options.user.is_auto(), "user", "only rootless Podman has a user", hint);
    let message = "only rootless Podman has a network in user space";
    refuse(!rootless && options.is_in_user_space(), "network", message, hint);
    match options.by {
        By::Runtime => {
            let alone = "by a runtime alone";
            let message = format!("{alone} there is no engine");
            let hint = "leave 'engine' out, or use 'by: engine'";
            refuse(options.engine != EngineKind::Auto, "engine", &message, hint);
            let message = format!("{alone} a container has the host's network: bridges and ports are the engine's");
            refuse(options.network != Network::Host, "network", &message, "use 'network: host', or 'by: engine'");
            let message = format!("{alone} there is no filter of system calls: the default one is the engine's");
            let hint = "use 'seccomp: unconfined', or 'by: engine'";
            refuse(options.seccomp == Seccomp::Default, "seccomp", &message, hint);
            let message = format!("{alone} a container has all capabilities: which are taken is the engine's choice");
            let hint = "use 'capabilities: all', or 'by: engine'";
            refuse(options.capabilities == Capabilities::Default, "capabilities", &message, hint);
            let message = format!("{alone} volumes are directories of the host");
            refuse(options.storage == Storage::Overlay, "storage", &message, "use 'storage: volume', or 'by: engine'");
        }
        By::Nspawn | By::Lxc => check_system(options, &mut refuse),
        By::Engine => {
            let add = "add 'by: runtime', or leave it out";
            let message = "an engine always puts a layer for writing over the bundle";
            refuse(options.root == RootKind::Directory, "root", message, add);
            let message = "an engine binds no process to CPUs, only a cgroup";
            refuse(options.limits == Limits::Affinity && !rootless, "limits", message, add);
            let bridged = !options.is_in_user_space() && options.network != Network::Host;
            let message = "rootless Podman can make no bridge that the load reaches";
            let hint = "use 'network: slirp4netns', 'pasta' or 'host'";
            refuse(rootless && bridged, "network", message, hint);
            let message = "rootless Podman may make no control group, and so no CPU set";
            let hint = "use 'limits: affinity': the service is bound to the same CPUs";
            refuse(rootless && options.limits == Limits::Cpuset, "limits", message, hint);
            let message = "a container of rootless Podman cannot have the machine's processes for its own";
            refuse(rootless && options.namespaces == Namespaces::Host, "namespaces", message, "leave it out");
        }
    }
}

/// Refuses what a system container has not.
fn check_system(options: &ContainerOptions, refuse: &mut impl FnMut(bool, &'static str, &str, &str)) {
    let by = options.by.option();
    let message = format!("with '{by}' there is no engine");
    refuse(options.engine != EngineKind::Auto, "engine", &message, "leave 'engine' out, or use 'by: engine'");
    let message = format!("with '{by}' there is no OCI runtime");
    refuse(options.runtime.named().is_some(), "runtime", &message, "leave 'runtime' out, or use 'by: runtime'");
    let message = format!("with '{by}' a container has the host's network: bridges and ports are an engine's");
    refuse(options.network != Network::Host, "network", &message, "use 'network: host', or 'by: engine'");
    let message =
        format!("with '{by}' a container has a layer for writing over the bundle: its folders are made in it");
    refuse(options.root != RootKind::Overlay, "root", &message, "use 'root: overlay', or 'by: runtime'");
    let message = format!("with '{by}' a container has namespaces of its own");
    refuse(options.namespaces != Namespaces::Own, "namespaces", &message, "use 'namespaces: own', or 'by: runtime'");
    let message = format!("with '{by}' a container has the capabilities of every form");
    let hint = "leave 'capabilities' out, or use 'by: engine'";
    refuse(options.capabilities != Capabilities::Default, "capabilities", &message, hint);
    let message = format!("with '{by}' volumes are directories of the host");
    refuse(options.storage == Storage::Overlay, "storage", &message, "use 'storage: volume', or 'by: engine'");
    let message = format!("with '{by}' a read-only root makes the volumes in it read-only too");
    refuse(options.read_only, "read_only", &message, "leave it out, or use 'by: engine'");
    let hint = "use 'limits: affinity', 'limits: quota' or 'limits: none'";
    let message = "systemd-nspawn binds a container's processes to CPUs, and makes no set of CPUs";
    refuse(options.by == By::Nspawn && options.limits == Limits::Cpuset, "limits", message, hint);
    let message = "LXC makes a set of CPUs, and binds no process to them";
    let hint = "use 'limits: cpuset', 'limits: quota' or 'limits: none'";
    refuse(options.by == By::Lxc && options.limits == Limits::Affinity, "limits", message, hint);
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
