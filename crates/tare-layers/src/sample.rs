//! A service for unit tests; each test states only what it is about.

use std::time::Duration;
use tare_core::bundle::{Recipe, Source};
use tare_core::workload::{Readiness, Resources, Service};

/// A service without ports, volumes and options, which shares none of its parts with anybody else.
pub(crate) fn service(name: &str) -> Service {
    let recipe = Recipe::plain(Source::Folder("/nowhere".into()));
    let ready = Readiness::Log { text: "ready".to_owned(), within: Duration::from_secs(1) };
    Service {
        user: (999, 998),
        own_user: false,
        resources: Resources { memory_bytes: 64 << 20, ..Resources::default() },
        stop_within: Duration::from_secs(1),
        ..Service::of(name, recipe, vec!["/bin/service".to_owned()], ready)
    }
}
