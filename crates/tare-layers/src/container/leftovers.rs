//! What runs left in the engine: containers and networks with our label, nothing else.

use super::engine::Engine;
use super::link::remove_network;
use super::run;
use super::spec::RUN_LABEL;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};
use std::collections::HashMap;
use tare_core::fault::Fault;
use tare_core::host::Leftover;

const CONTAINER: &str = "container";
const NETWORK: &str = "container-network";

/// The containers and networks of any run. No engine, no leftovers.
///
/// # Errors
/// When an engine is there and does not answer.
pub(crate) fn leftovers() -> Result<Vec<Leftover>, Fault> {
    let Some(engine) = Engine::find()? else { return Ok(Vec::new()) };
    let filters = HashMap::from([("label", vec![RUN_LABEL])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let containers = engine.call(engine.docker().list_containers(Some(options)));
    let containers = containers.map_err(|error| error.doing("list the containers of Tare's runs"))?;
    let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
    let networks = engine.call(engine.docker().list_networks(Some(options)));
    let networks = networks.map_err(|error| error.doing("list the networks of Tare's runs"))?;
    let leftover = |kind: &str, labels: Option<HashMap<String, String>>, name: Option<String>| {
        let run = labels?.remove(RUN_LABEL)?;
        Some(Leftover { run, kind: kind.to_owned(), name: name?.trim_start_matches('/').to_owned() })
    };
    let containers = containers.into_iter().filter_map(|container| {
        let name = container.names.and_then(|names| names.into_iter().next()).or(container.id);
        leftover(CONTAINER, container.labels, name)
    });
    let networks = networks.into_iter().filter_map(|network| leftover(NETWORK, network.labels, network.name));
    // Containers come first: a network is removed only when nothing is attached to it.
    Ok(containers.chain(networks).collect())
}

/// Removes one of them, if it still carries our label; one that is gone already is no error.
///
/// # Errors
/// When it is still there.
pub(crate) fn remove(leftover: &Leftover) -> Result<(), Fault> {
    let Some(engine) = Engine::find()? else { return Ok(()) };
    match leftover.kind.as_str() {
        CONTAINER => {
            let labels = run::inspect(&engine, &leftover.name)?.and_then(|found| found.config?.labels);
            match labels.is_some_and(|labels| labels.contains_key(RUN_LABEL)) {
                true => run::remove(&engine, &leftover.name),
                false => Ok(()),
            }
        }
        NETWORK if leftovers()?.contains(leftover) => remove_network(&engine, &leftover.name),
        _ => Ok(()),
    }
}
