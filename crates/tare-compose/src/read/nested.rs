//! Maps inside of others that a workload has no word for: what differs is noted, and a key that Compose does not know
//! is a mistake there, too.

use crate::keys::Keys;
use crate::project::Project;
use crate::sources::{Sources, Weight};
use crate::yaml::{Entry, Value};

/// The keys of an item of `develop.watch`.
const WATCH: &[&str] = &["action", "exec", "ignore", "include", "initial_sync", "path", "target"];
/// Keys of `deploy` about a cluster's business, each with its own keys.
pub(super) const DEPLOY: [(&str, &[&str]); 4] = [
    ("placement", &["constraints", "max_replicas_per_node", "preferences"]),
    ("restart_policy", &["condition", "delay", "max_attempts", "window"]),
    ("rollback_config", UPDATE),
    ("update_config", UPDATE),
];
const UPDATE: &[&str] = &["delay", "failure_action", "max_failure_ratio", "monitor", "order", "parallelism"];

/// Refuses the keys of a map that are none of these.
pub(super) fn check(value: &Value, what: &str, known: &[&'static str], sources: &mut Sources) {
    if let Some(mut keys) = Keys::of(value, what, sources) {
        keys.know(known);
        keys.finish(sources);
    }
}

/// Refuses unknown keys inside of a service's key of which nothing is kept.
pub(super) fn check_service(entry: &Entry, sources: &mut Sources) {
    match entry.key.as_str() {
        "logging" => check(&entry.value, "'logging'", &["driver", "options"], sources),
        "develop" => {
            check(&entry.value, "'develop'", &["watch"], sources);
            let watch = entry.value.entries().iter().find(|entry| entry.key == "watch");
            let items = watch.map(|watch| watch.value.items(sources).to_vec()).unwrap_or_default();
            items.iter().for_each(|item| check(item, "an item of 'watch'", WATCH, sources));
        }
        _ => {}
    }
}

/// Notes what the file's volumes and networks ask for and no form has.
pub(crate) fn sections(project: &Project, sources: &mut Sources) {
    for Entry { key, value, .. } in project.section("volumes") {
        let Some(mut keys) = Keys::of(value, format!("volume '{key}'"), sources) else { continue };
        keys.know(&["external", "labels", "name"]);
        for name in ["driver", "driver_opts"] {
            let instead = "the volume begins empty in each trial, and lies where the form has its volumes";
            note(keys.get(name), &["local"], &format!("volumes.{key}.{name}"), instead, sources);
        }
        keys.finish(sources);
    }
    for Entry { key, value, .. } in project.section("networks") {
        let Some(mut keys) = Keys::of(value, format!("network '{key}'"), sources) else { continue };
        keys.know(&["attachable", "enable_ipv4", "external", "labels", "name"]);
        for (name, instead) in [
            ("driver", "the form decides about the network"),
            ("driver_opts", "the form decides about the network"),
            ("enable_ipv6", "services reach each other by IPv4"),
            ("internal", "the form decides what services can reach outside"),
            ("ipam", "the form decides which addresses services have"),
        ] {
            let idle = ["bridge", "default", "false", "overlay"];
            note(keys.get(name), &idle, &format!("networks.{key}.{name}"), instead, sources);
        }
        keys.finish(sources);
    }
}

/// Notes a key, unless it has one of the values that ask for nothing.
fn note(entry: Option<&Entry>, idle: &[&str], key: &str, instead: &str, sources: &mut Sources) {
    let asks = |entry: &&Entry| match entry.value.scalar() {
        Some(text) => !text.is_empty() && !idle.contains(&text),
        None => true,
    };
    if let Some(entry) = entry.filter(asks) {
        sources.note(entry.at, key, Weight::Differs, instead);
    }
}
