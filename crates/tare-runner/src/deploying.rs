//! Starts the services of a form, until load can enter.

use crate::trial::{Early, Entry, Trial, no_address};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tare_core::host::{Host, Instance, ServiceStart};
use tare_core::instances::{introduced, known_names};
use tare_core::load::{Inside, LoadPlan, LoadTask};
use tare_core::qos::Qos;
use tare_core::secrets::with_secrets;
use tare_core::workload::Service;

/// The first entry, extended to spread its connections over all entries.
fn one_site(entries: Vec<Entry>) -> Vec<Entry> {
    let mut entries = entries.into_iter();
    let first = entries.next();
    let also = entries.map(|other| other.endpoint).collect();
    first.map(|first| Entry { also, ..first }).into_iter().collect()
}

/// The service about to be started, with the addresses and names of those that are running.
fn introduce(
    host: &dyn Host,
    start: &ServiceStart,
    starts: &[ServiceStart],
    mut started: Vec<Instance>,
) -> ServiceStart {
    for other in started.iter_mut().filter(|other| !host.beside(start, &other.instance)) {
        other.peers.clear();
    }
    let running: Vec<(&Service, &Instance)> = starts.iter().map(|start| &start.service).zip(&started).collect();
    let (service, names) = (introduced(&start.service, &running), known_names(&start.service, &running));
    ServiceStart { service, names, ..start.clone() }
}

/// The addresses of a tile's instances: by service if it has one port, and by `service.port`.
fn services_of(tile: u32, starts: &[ServiceStart], started: &[Instance]) -> BTreeMap<String, Vec<SocketAddr>> {
    let mut services: BTreeMap<String, Vec<SocketAddr>> = BTreeMap::new();
    for (start, instance) in starts.iter().zip(started).filter(|(start, _)| start.service.tile() == tile) {
        let role = start.service.role();
        for (port, endpoint) in &instance.endpoints {
            services.entry(format!("{role}.{port}")).or_default().push(*endpoint);
            if instance.endpoints.len() == 1 {
                services.entry(role.to_owned()).or_default().push(*endpoint);
            }
        }
    }
    services
}

impl Trial<'_, '_> {
    /// Starts every service, one after the other, each when those before it are ready.
    pub(crate) fn deploy(
        &mut self,
        host: &mut dyn Host,
        starts: &[ServiceStart],
        started: &mut Vec<Instance>,
    ) -> Result<Vec<Entry>, Early> {
        self.start_all(host, starts, started)?;
        self.entries(starts, started)
    }

    /// The same, without finding where load enters.
    pub(crate) fn start_all(
        &mut self,
        host: &mut dyn Host,
        starts: &[ServiceStart],
        started: &mut Vec<Instance>,
    ) -> Result<(), Early> {
        for start in starts {
            let (start, instance) = self.start_one(host, start, starts, started)?;
            self.wait_ready(host, &start, &instance)?;
        }
        Ok(())
    }

    /// Starts the next service, which then knows the addresses of those before it. It need not be ready yet.
    pub(crate) fn start_one(
        &mut self,
        host: &mut dyn Host,
        start: &ServiceStart,
        starts: &[ServiceStart],
        started: &mut Vec<Instance>,
    ) -> Result<(ServiceStart, Instance), Early> {
        let start = introduce(host, start, starts, started.clone());
        let told = ServiceStart { service: with_secrets(&start.service)?, ..start.clone() };
        let instance = host.start(&told).map_err(|fault| fault.context(format!("service {}", start.instance)))?;
        started.push(instance.clone());
        let told = &mut self.data.record.warnings;
        for warning in &instance.warnings {
            // A service that creates data is started twice.
            if !told.contains(warning) {
                told.push(warning.clone());
            }
        }
        Ok((start, instance))
    }

    /// Where load enters: at each instance of the loaded service, or at the first for all of them.
    fn entries(&self, starts: &[ServiceStart], started: &[Instance]) -> Result<Vec<Entry>, Early> {
        let spoken = &self.inputs.workload.protocol;
        let loaded = starts.iter().zip(started).filter(|(start, _)| start.service.role() == spoken.service);
        let entry = |(start, instance): (&ServiceStart, &Instance)| {
            let endpoint = match &spoken.port {
                None => LoadPlan::NOWHERE,
                Some(port) => instance.endpoints.get(port).copied().ok_or_else(|| no_address(port))?,
            };
            let services = services_of(start.service.tile(), starts, started);
            Ok(Entry { instance: instance.instance.clone(), endpoint, also: Vec::new(), services })
        };
        let entries = loaded.map(entry).collect::<Result<Vec<Entry>, Early>>()?;
        Ok(if spoken.spread { one_site(entries) } else { entries })
    }

    pub(crate) fn load_plan(&self, entry: &Entry, task: LoadTask) -> LoadPlan {
        let study = self.inputs.study;
        let spoken = &self.inputs.workload.protocol;
        let service = self.inputs.workload.services.iter().find(|service| service.role() == spoken.service);
        LoadPlan {
            task,
            also: entry.also.clone(),
            services: entry.services.clone(),
            settle: study.settle,
            measure: study.measure,
            timeout: study.timeout * self.slowdown(),
            seed: self.inputs.seed,
            cpus: self.inputs.generator_cpus.clone(),
            limits: study.qos.as_ref().map(Qos::longest).unwrap_or_default(),
            inside: service.map(|service| Inside { cpus: service.resources.cpus }),
            // A weight does not reduce the data set.
            weight: self.inputs.form.weight.filter(|_| task == LoadTask::Run),
            // Checking readiness and populating need no guided load.
            ..LoadPlan::of(
                &spoken.protocol,
                spoken.options.clone(),
                entry.endpoint,
                if task == LoadTask::Run { study.load.clone() } else { study.load.base().clone() },
            )
        }
    }
}

/// The path of the load to the last of several instances, followed by the remarks on any of them, such as who else may
/// reach it.
pub(crate) fn path_of_all(started: &[Instance]) -> String {
    let way = started.last().and_then(|instance| instance.path.split("; ").next());
    let mut all: Vec<&str> = way.into_iter().collect();
    for said in started.iter().flat_map(|instance| instance.path.split("; ").skip(1)) {
        if !all.contains(&said) {
            all.push(said);
        }
    }
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_instance_s_path_is_kept_and_said_once() {
        let at = |path: &str| Instance {
            instance: "redis".to_owned(),
            endpoints: BTreeMap::new(),
            peers: BTreeMap::new(),
            path: path.to_owned(),
            cpus: None,
            warnings: Vec::new(),
        };
        let open = "; open to other machines too: no fence; everybody may listen from port 80 on: it said so";
        let started =
            [at(&format!("loopback{open}")), at("loopback"), at("veth; open to other machines too: no fence")];
        assert_eq!(path_of_all(&started), format!("veth{open}"));
        assert_eq!((path_of_all(&started[1..2]), path_of_all(&[])), ("loopback".to_owned(), String::new()));
    }
}
