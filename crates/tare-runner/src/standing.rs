//! What stands of a trial that failed, for whoever is to look into it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use tare_core::fault::Fault;
use tare_core::host::{InstanceState, WayIn};
use tare_core::plan::PlannedTrial;
use tare_core::trial::Stage;

/// A deployment whose trial failed, and which stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandingDeployment {
    /// The trial.
    pub trial: PlannedTrial,
    /// In which stage it failed.
    pub stage: Stage,
    /// Why.
    pub why: Fault,
    /// Its services, in the order in which they were started; empty where none was.
    pub services: Vec<StandingService>,
}

/// A service of such a deployment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandingService {
    /// The name under which it was started.
    pub name: String,
    /// Whether it still runs; none where its host does not answer.
    pub state: Option<InstanceState>,
    /// Where the load reaches each port, by the port's name.
    pub endpoints: BTreeMap<String, SocketAddr>,
    /// How a person gets into it.
    pub ways_in: Vec<WayIn>,
    /// Where its volumes stand on this machine, by their paths inside; empty where they do not.
    pub volumes: BTreeMap<String, PathBuf>,
    /// The end of its output, without secrets.
    pub log: String,
}
