//! A service of a Compose file, as far as a workload can have it.

use crate::build::Build;
use crate::sources::At;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tare_core::image::{HealthCheck, ImageConfig};
use tare_core::workload::{StopSignal, Volume};

/// A service.
#[derive(Debug, Clone, Default)]
pub(crate) struct Service {
    /// Its name in the Compose file.
    pub(crate) name: String,
    /// Its name in the workload, which allows fewer characters.
    pub(crate) own: String,
    /// Where it begins.
    pub(crate) at: At,
    /// Where its bundle comes from, as a workload writes it.
    pub(crate) image: String,
    /// What its image says, if that is known.
    pub(crate) says: Option<ImageConfig>,
    /// How an engine builds its image, which it must do first; none if the image comes from elsewhere.
    pub(crate) build: Option<Build>,
    /// What replaces the image's entry point.
    pub(crate) entrypoint: Option<Words>,
    /// What replaces the image's command.
    pub(crate) command: Option<Words>,
    /// Its variables, in the order in which they were found.
    pub(crate) environment: Vec<Variable>,
    /// User and group, by number.
    pub(crate) user: Option<(u32, u32)>,
    /// Where it starts.
    pub(crate) directory: Option<String>,
    /// The TCP ports at which it listens.
    pub(crate) ports: BTreeSet<u16>,
    /// Of its published TCP ports the first whose protocol is known, else the first.
    pub(crate) published: Option<u16>,
    /// Further names by which others reach it, as the file writes them.
    pub(crate) aliases: Vec<Alias>,
    /// Names by which it calls other services, each with the other's name in the Compose file.
    pub(crate) calls: Vec<(String, Alias)>,
    /// The names by which others find it, beside the one that it has in the workload.
    pub(crate) names: Vec<String>,
    /// The services that start before it.
    pub(crate) after: Vec<Dependency>,
    /// Its volumes, by path.
    pub(crate) volumes: BTreeMap<String, Volume>,
    /// Files on top of its image, by path, each with the file in the workload's folder.
    pub(crate) files: BTreeMap<String, Copied>,
    /// CPU time that it may use, in CPUs.
    pub(crate) cpus: Option<f64>,
    /// How many CPUs its `cpuset` names.
    pub(crate) cpuset: Option<u32>,
    /// Memory in bytes.
    pub(crate) memory: Option<u64>,
    /// The signal that asks it to end.
    pub(crate) stop_signal: Option<StopSignal>,
    /// How long it may take to end after that.
    pub(crate) stop_within: Option<Duration>,
    /// How long it may take to become ready, from its health check.
    pub(crate) within: Option<Duration>,
    /// Its health check.
    pub(crate) health: Option<Health>,
    /// How it is told that it is ready.
    pub(crate) ready: Ready,
    /// Whether it shares the machine's network under Compose, where other services are at the loopback.
    pub(crate) on_machine: bool,
    /// Where it says that it is not started again once it has ended.
    pub(crate) once: Option<At>,
}

/// A health check.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    /// Where its command stands; none if the image names it.
    pub(crate) at: Option<At>,
    pub(crate) check: HealthCheck,
}

/// How it is told that a service is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ready {
    /// By its port, or once it runs if it has none.
    #[default]
    Port,
    /// By its health check.
    Health,
    /// By its end: it does its work and is gone.
    Ended,
}

/// A further name of a service.
#[derive(Debug, Clone)]
pub(crate) struct Alias {
    pub(crate) name: String,
    pub(crate) at: At,
    /// The key that has it.
    pub(crate) key: &'static str,
}

/// The words of a command, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    pub(crate) at: At,
    pub(crate) words: Vec<String>,
}

/// A variable of a service's environment.
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) at: At,
    pub(crate) text: String,
}

/// A service that starts before another one.
#[derive(Debug, Clone)]
pub(crate) struct Dependency {
    /// Its name in the Compose file.
    pub(crate) name: String,
    pub(crate) at: At,
    /// Whether it may be missing.
    pub(crate) optional: bool,
    pub(crate) condition: Condition,
}

/// What another service waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// That it has been started.
    Started,
    /// That its health check succeeds.
    Healthy,
    /// That it has ended with exit code 0.
    Completed,
}

/// A file that is copied into the workload's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Its name in that folder.
    pub(crate) name: String,
    /// Its content.
    pub(crate) content: Vec<u8>,
    /// What named it.
    pub(crate) at: At,
    /// The service's key that named it.
    pub(crate) of: &'static str,
}

impl Service {
    /// The name of one of its keys, for notes.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("services.{}.{name}", self.name)
    }
}
