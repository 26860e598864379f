//! The deployment of a failed trial, described for a person who looks into it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use tare_core::fault::Fault;
use tare_core::host::{InstanceState, WayIn};
use tare_core::plan::PlannedTrial;
use tare_core::trial::Stage;

/// A deployment whose trial failed and which still stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandingDeployment {
    /// The trial.
    pub trial: PlannedTrial,
    /// The stage in which it failed.
    pub stage: Stage,
    /// Why it failed.
    pub why: Fault,
    /// Its services, in the order in which they were started; empty if none was.
    pub services: Vec<StandingService>,
}

/// A service of such a deployment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandingService {
    /// The name under which it was started.
    pub name: String,
    /// Whether it still runs; none if its host does not answer.
    pub state: Option<InstanceState>,
    /// The address at which the load reaches each port, by the port's name.
    pub endpoints: BTreeMap<String, SocketAddr>,
    /// The ways in which a person can enter it.
    pub ways_in: Vec<WayIn>,
    /// The paths of its volumes on this machine, by their paths inside; empty if they are not on it.
    pub volumes: BTreeMap<String, PathBuf>,
    /// The end of its output, without secrets.
    pub log: String,
}
