//! Deployment layers: one folder per layer. Every privileged operation of Tare lives in this crate.
//!
//! A host is where services run; a layer opens an inner host on an outer one. The bottom host is [`local::LocalHost`];
//! the same code runs inside a guest, where [`agent`] makes it reachable.

pub mod agent;
pub mod asking;
mod cgroup;
pub mod container;
mod environment;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod hands;
pub mod home;
pub mod lab;
pub mod least;
pub mod leftovers;
pub mod listening;
pub mod local;
pub mod lock;
pub mod marks;
mod mounts;
mod netlink;
pub mod network;
mod noted;
pub mod numbers;
pub mod opened;
pub mod owner;
mod processes;
mod register;
pub mod run_mark;
#[cfg(test)]
mod sample;
mod settings;
pub mod vm;

pub use container::{
    BuildWays, EngineImage, NamedBuild, build_image, build_named_image, engine_image, engine_name, is_image_name,
};

use tare_core::host::Layers;

/// The layers of this crate. A new one is a folder and an entry here; the contract tests run over this list.
pub const LAYERS: Layers = &[&container::Container, &vm::Vm];

/// The first two numbers of a version: `20.10` of `20.10.24+dfsg1`.
pub(crate) fn short_version(version: &str) -> &str {
    let digits = |text: &str| text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let major = digits(version);
    let minor = version[major..].strip_prefix('.').map_or(0, digits);
    match (major, minor) {
        (0, _) => version,
        (major, 0) => &version[..major],
        (major, minor) => &version[..major + 1 + minor],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tare_core::config::{Node, NodeKind, Place, Problems};

    #[test]
    fn a_version_is_known_by_its_first_two_numbers() {
        let long = ["20.10.24+dfsg1", "7.2.22 (Debian 1:7.2)", "9", "1.x", "8+b1", "rolling", ""];
        assert_eq!(long.map(short_version), ["20.10", "7.2", "9", "1", "8", "rolling", ""]);
    }

    #[test]
    fn every_option_of_a_layer_is_described() {
        let readme = include_str!("../README.md");
        for layer in LAYERS {
            let nothing = Node { place: Place::default(), kind: NodeKind::Map(Vec::new()) };
            let options = layer.read(&nothing, &mut Problems::default()).expect("nothing needs to be said");
            let mut known: BTreeSet<&str> = options.as_object().unwrap().keys().map(String::as_str).collect();
            // Options that came later are not written down where they are as usual.
            known.extend(match layer.name() {
                "container" => &["engine", "user"][..],
                "vm" => &["network", "vhost_user"],
                _ => &[],
            });
            let section = readme.split("\n## ").find_map(|part| part.strip_prefix(&format!("`{}`\n", layer.name())));
            let rows = section.expect("each layer has a section").lines().filter_map(|line| line.strip_prefix("| `"));
            let described: BTreeSet<&str> = rows.filter_map(|line| line.split('`').next()).collect();
            assert_eq!(known, described, "{}", layer.name());
        }
    }
}
