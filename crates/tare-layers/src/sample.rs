//! A service for unit tests, of which each states only what it is about.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tare_core::bundle::{Recipe, Source};
use tare_core::workload::{Readiness, Resources, Service};

/// A service without ports, volumes and options, which gives none of its parts to anybody else.
pub(crate) fn service(name: &str) -> Service {
    Service {
        name: name.to_owned(),
        recipe: Recipe::plain(Source::Folder(PathBuf::from("/nowhere"))),
        command: vec!["/bin/service".to_owned()],
        environment: BTreeMap::new(),
        user: (999, 998),
        own_user: false,
        ports: BTreeMap::new(),
        ready: Readiness::Log { text: "ready".to_owned(), within: Duration::from_secs(1) },
        volumes: BTreeMap::new(),
        resources: Resources { cpus: 1, cpu_quota: None, memory_bytes: 64 << 20 },
        stop_within: Duration::from_secs(1),
        options: BTreeMap::new(),
        instances: 1,
        directory: None,
        image: None,
        replica: None,
    }
}
