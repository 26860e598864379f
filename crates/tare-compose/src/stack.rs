//! The services of a Compose file in their starting order, and which of them gets the load.

use crate::model::Service;
use std::collections::BTreeSet;
use std::time::Duration;

/// The services of a Compose file, as a workload has them.
#[derive(Debug, Clone)]
pub struct Stack {
    /// The name of the workload.
    pub(crate) name: String,
    /// The Compose file, for comments.
    pub(crate) file: String,
    /// The services in starting order.
    pub(crate) services: Vec<Planned>,
    /// The number of the service that is loaded, among these.
    pub(crate) loaded: usize,
    /// Its port; none if only its image will tell.
    pub(crate) port: Option<u16>,
    /// A port that two services have.
    pub(crate) shared: Option<u16>,
}

/// A service to be written.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) service: Service,
    /// The command, or none to take the image's.
    pub(crate) command: Option<Vec<String>>,
    /// The ports that are stated; none to take the image's.
    pub(crate) ports: BTreeSet<u16>,
    /// What keeps it from running, a sentence each.
    pub(crate) stops: Vec<String>,
}

impl Stack {
    /// The name in the workload of the service that gets the load.
    pub fn loaded(&self) -> &str {
        &self.services[self.loaded].service.own
    }

    /// The ports at which the Compose file says that this service listens, the likeliest first.
    pub fn ports(&self) -> Vec<u16> {
        let others = self.services[self.loaded].ports.iter().copied();
        self.port.into_iter().chain(others.filter(|port| Some(*port) != self.port)).collect()
    }

    /// The images that the services are made of, as a workload names them.
    pub fn images(&self) -> BTreeSet<&str> {
        self.services.iter().map(|planned| planned.service.image.as_str()).collect()
    }

    /// A port at which two services listen if the load goes to this one: where services share a network, only one of
    /// them can.
    pub fn shared_port(&self, port: u16) -> Option<u16> {
        let mut others = self.services.iter().enumerate().filter(|(number, _)| *number != self.loaded);
        self.shared.or_else(|| others.any(|(_, other)| other.ports.contains(&port)).then_some(port))
    }

    /// The same with its load at this port. With `within`, the loaded service has only so long to become ready. A
    /// service that does not say how long it may take to end has `ends_within`.
    pub(crate) fn loaded_at(&self, port: u16, within: Option<Duration>, ends_within: Duration) -> Stack {
        let mut stack = Stack { port: Some(port), ..self.clone() };
        for Planned { service, .. } in &mut stack.services {
            service.stop_within.get_or_insert(ends_within);
        }
        let Planned { service, ports, .. } = &mut stack.services[self.loaded];
        ports.insert(port);
        service.within = within.or(service.within);
        stack
    }
}
