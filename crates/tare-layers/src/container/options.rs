//! What a study may say about a container.

use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, Problems};
use tare_core::fault::{Doing, Fault};
use tare_core::host::Listens;

/// How the generator reaches a service in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Network {
    /// A private bridge; each port is published on the host's address, as `docker run -p` does.
    Published,
    /// The same on the bridge's own address where the load sits on the host: there even clients of the host itself
    /// reach it by address translation, and not by the engine's user-land proxy.
    Translated,
    /// A private bridge; the container's own address is addressed, without translation.
    Bridge,
    /// The host's own network: no bridge, no address of its own.
    Host,
}

/// How a service's whole CPUs are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Limits {
    /// As many CPUs as it is given, by cpuset.
    Cpuset,
    /// CPU time by quota, on any CPU of the system under test.
    Quota,
    /// Neither; only the fence around the CPUs of the system under test stays.
    None,
}

/// Which filter of system calls applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Seccomp {
    /// The engine's own profile.
    Default,
    /// No filter.
    Unconfined,
}

/// Which capabilities a container has, where its user has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Capabilities {
    /// The engine's own choice, under its own AppArmor profile where the host has that.
    #[default]
    Default,
    /// All, under no profile.
    All,
}

/// Whose processes, names and shared memory a container sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Namespaces {
    /// PID, IPC, UTS and cgroup namespaces of its own.
    #[default]
    Own,
    /// The host's.
    Host,
}

/// Where a service's volumes live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Storage {
    /// A directory of the host, bound into the container: as durable and as fast as for a plain process.
    Volume,
    /// The container's own writable layer.
    Overlay,
}

/// The options of the container layer, every default filled in:
///
/// - `network: published | translated | bridge | host` (default `published`): how requests get in.
/// - `limits: cpuset | quota | none` (default `cpuset`): how the service's CPUs are enforced. Its memory limit, and a
///   `cpu_quota` that it states itself, always apply.
/// - `seccomp: default | unconfined` (default `default`): the filter of system calls.
/// - `capabilities: default | all` (default `default`): which capabilities it has.
/// - `namespaces: own | host` (default `own`): whose processes, names and shared memory it sees.
/// - `storage: volume | overlay` (default `volume`): where the service's volumes live.
/// - `read_only: true | false` (default `false`): whether the root filesystem is mounted read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContainerOptions {
    pub(crate) network: Network,
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
    /// Whether the service's ports are published on an address of the host.
    pub(crate) fn publishes(&self) -> bool {
        matches!(self.network, Network::Published | Network::Translated)
    }

    /// The options as [`read`] wrote them down.
    ///
    /// # Errors
    /// When somebody else wrote them.
    pub(crate) fn from_value(value: &serde_json::Value) -> Result<Self, Fault> {
        serde_json::from_value(value.clone()).doing("understand the options of the container layer")
    }
}

/// Checks a user's options and writes them down with every default filled in. `None` adds problems.
pub(crate) fn read(node: &Node, problems: &mut Problems) -> Option<serde_json::Value> {
    let before = problems.len();
    let mut fields = Fields::of(node, "layer 'container'", problems)?;
    let mut options = ContainerOptions::default();
    if let Some(word) = fields.choice("network", &["published", "translated", "bridge", "host"], problems) {
        options.network = match word {
            "translated" => Network::Translated,
            "bridge" => Network::Bridge,
            "host" => Network::Host,
            _ => Network::Published,
        };
    }
    if let Some(word) = fields.choice("limits", &["cpuset", "quota", "none"], problems) {
        options.limits = match word {
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
    if let Some(node) = read_only.filter(|_| options.read_only && options.storage == Storage::Overlay) {
        let message = "'read_only: true' and 'storage: overlay' contradict each other: volumes would not be writable";
        problems.add(node.place, message, "use 'storage: volume', or leave 'read_only' out");
    }
    fields.finish(problems);
    let value = serde_json::to_value(options).expect("plain words and booleans are JSON");
    (problems.len() == before).then_some(value)
}

/// Where services in containers with these options listen.
pub(crate) fn listens(options: &serde_json::Value) -> Listens {
    match ContainerOptions::from_value(options).map(|options| options.network) {
        Ok(Network::Host) => Listens::Everywhere,
        Ok(Network::Published | Network::Translated) => Listens::AtItsAddress,
        Ok(Network::Bridge) | Err(_) => Listens::Apart,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::config::parse;

    fn read_text(text: &str) -> Result<ContainerOptions, Vec<String>> {
        let mut problems = Problems::new("study.yaml", text);
        let value = parse(text, &mut problems).and_then(|node| read(&node, &mut problems));
        match value {
            Some(value) if problems.is_empty() => Ok(ContainerOptions::from_value(&value).unwrap()),
            _ => Err(problems.into_vec().iter().map(ToString::to_string).collect()),
        }
    }

    #[test]
    fn every_default_is_written_down() {
        assert_eq!(read_text("{}"), Ok(ContainerOptions::default()));
        let value = serde_json::to_value(ContainerOptions::default()).unwrap();
        let written = "{\"network\":\"published\",\"limits\":\"cpuset\",\"seccomp\":\"default\",\"capabilities\":\"default\",\
                       \"namespaces\":\"own\",\"storage\":\"volume\",\"read_only\":false}";
        assert_eq!(value.to_string(), written);
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
    fn only_the_hosts_network_is_in_everybodys_way() {
        let words = [("host", Listens::Everywhere), ("published", Listens::AtItsAddress), ("bridge", Listens::Apart)];
        for (network, wanted) in words {
            let options = read_text(&format!("network: {network}")).unwrap();
            assert_eq!(listens(&serde_json::to_value(options).unwrap()), wanted, "{network}");
        }
    }
}
