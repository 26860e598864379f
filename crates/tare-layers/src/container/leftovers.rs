//! What runs have left in the engine: containers and networks with our labels, nothing else.

use super::engine::Engine;
use super::link::remove_network;
use super::spec::{NAME_LABEL, RUN_LABEL};
use super::{find, netavark, podman, run};
use crate::owner::dead_runs;
use crate::register;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::host::Leftover;

const CONTAINER: &str = "container";
const NETWORK: &str = "container-network";

/// How long an engine may take to make what it was asked for by a process that has since been killed.
const MADE_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait before checking again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The containers and networks of any run in all engines, and services of Podman that runs have started. No engine, no
/// leftovers.
///
/// # Errors
/// When there is an engine that does not answer.
pub(crate) fn leftovers() -> Result<Vec<Leftover>, Fault> {
    let engines = find::all_with_ours()?;
    let mut found = settled(&engines)?;
    found.extend(netavark::leftovers(&found));
    // Containers outlive the service that made them, and need none to be removed.
    found.extend(podman::leftovers());
    Ok(found)
}

/// The containers and networks, once those that a dead run was asking for are there, or have had time to be.
fn settled(engines: &[Engine]) -> Result<Vec<Leftover>, Fault> {
    if engines.is_empty() {
        return Ok(Vec::new());
    }
    let until = Instant::now() + MADE_WITHIN;
    let mut asked: Vec<(String, String)> = dead_runs().into_iter().flat_map(asked).collect();
    loop {
        let found = standing_in_all(engines)?;
        let late = Instant::now() > until;
        let (made, open): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|(_, name)| late || found.iter().any(|left| left.name == *name));
        for (run, name) in made {
            register::answered(&run, &name)?;
        }
        if open.is_empty() {
            return Ok(found);
        }
        asked = open;
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// What a dead run has asked the engine for, and the engine may still be making, each with the run.
fn asked(run: String) -> Vec<(String, String)> {
    register::asked(&run).into_iter().map(|name| (run.clone(), name)).collect()
}

/// The same that exist now in any of these engines; containers first, for a network that one uses cannot be removed.
fn standing_in_all(engines: &[Engine]) -> Result<Vec<Leftover>, Fault> {
    let mut all: Vec<Leftover> = Vec::new();
    for engine in engines {
        all.extend(standing(engine)?);
    }
    all.sort_by_key(|left| left.kind != CONTAINER);
    Ok(all)
}

/// The containers and networks that exist now.
fn standing(engine: &Engine) -> Result<Vec<Leftover>, Fault> {
    let filters = HashMap::from([("label", vec![RUN_LABEL, NAME_LABEL])]);
    let options = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    let containers = run::once_tidied(|| engine.call(engine.docker().list_containers(Some(options.clone()))));
    let containers = containers.map_err(|error| error.doing("list the containers of Tare's runs"))?;
    let options = ListNetworksOptionsBuilder::new().filters(&filters).build();
    let networks = engine.call(engine.docker().list_networks(Some(options)));
    let networks = networks.map_err(|error| error.doing("list the networks of Tare's runs"))?;
    let mut found = Vec::new();
    for container in containers {
        let Some(leftover) = labelled(&container) else { continue };
        if !inherits(engine, container.image_id.as_deref().unwrap_or_default())? {
            found.push(leftover);
        }
    }
    // Containers come first: a network is removed only when nothing is attached to it.
    found.extend(networks.iter().filter_map(|network| ours(NETWORK, &network.labels, network.name.as_deref()?)));
    Ok(found)
}

/// The container, if it has a run's labels.
pub(super) fn labelled(container: &ContainerSummary) -> Option<Leftover> {
    let mut names = container.names.iter().flatten().map(|name| name.trim_start_matches('/'));
    names.find_map(|name| ours(CONTAINER, &container.labels, name))
}

/// An item that carries the labels which a run gave to something of this name.
fn ours(kind: &str, labels: &Option<HashMap<String, String>>, name: &str) -> Option<Leftover> {
    let labels = labels.as_ref()?;
    let run = labels.get(RUN_LABEL).filter(|_| labels.get(NAME_LABEL).is_some_and(|labelled| labelled == name))?;
    Some(Leftover { run: run.clone(), kind: kind.to_owned(), name: name.to_owned() })
}

/// Whether a container has our label from its image, which somebody has made from one of our containers: bundles'
/// images do not carry it.
fn inherits(engine: &Engine, image: &str) -> Result<bool, Fault> {
    match engine.call(engine.docker().inspect_image(image)) {
        Ok(image) => {
            let labels = image.config.and_then(|config| config.labels);
            Ok(labels.is_some_and(|labels| labels.contains_key(RUN_LABEL)))
        }
        Err(error) if error.is_missing() => Ok(false),
        Err(error) => Err(error.doing(format!("look at the image {image}"))),
    }
}

/// Removes one of them, if it is still ours; one that is already gone is no error.
///
/// # Errors
/// When it still exists.
pub(crate) fn remove(leftover: &Leftover) -> Result<(), Fault> {
    if leftover.kind == podman::KIND {
        return podman::remove(leftover);
    }
    if leftover.kind == netavark::KIND {
        return netavark::remove(leftover);
    }
    for engine in find::all_with_ours()? {
        if standing(&engine)?.contains(leftover) {
            match leftover.kind.as_str() {
                CONTAINER => run::remove(&engine, &leftover.name)?,
                NETWORK => {
                    remove_network(&engine, &leftover.name)?;
                    netavark::remove_after(&leftover.run, &leftover.name)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_our_labels_under_another_name_is_not_ours() {
        let labels = |pairs: &[(&str, &str)]| {
            Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<HashMap<_, _>>())
        };
        let whole = labels(&[(RUN_LABEL, "abc123"), (NAME_LABEL, "tare-abc123-t1-db")]);
        assert_eq!(ours(CONTAINER, &whole, "tare-abc123-t1-db").unwrap().run, "abc123");
        assert_eq!(ours(CONTAINER, &whole, "experiment"), None);
        assert_eq!(ours(CONTAINER, &labels(&[(RUN_LABEL, "abc123")]), "tare-abc123-t1-db"), None);
        assert_eq!(ours(NETWORK, &None, "tare-abc123-t1"), None);
    }
}
