//! Data sets that are restored from a kept copy instead of being loaded again in each trial.

use crate::apparatus::{DataSet, Restored};
use crate::trial::{Early, Entry, Trial};
use tare_core::fault::Fault;
use tare_core::host::{Host, Instance, ServiceStart};
use tare_core::workload::{Prepared, Service};

/// The fact of a trial that says where its data came from.
const FACT: &str = "data";
const LOADED: &str = "loaded in this deployment";
const RESTORED: &str = "restored from a kept copy";

/// The data set of a deployment, and the services that create it. None if one of its volumes is not on this machine.
fn data_set(prepared: &Prepared, host: &dyn Host, starts: &[ServiceStart]) -> Option<(DataSet, Vec<ServiceStart>)> {
    let services: Vec<Service> = starts.iter().map(|start| start.service.clone()).collect();
    let makers: Vec<Service> = prepared.makers(&services).into_iter().cloned().collect();
    let named = |name: &str| makers.iter().any(|maker| maker.name == name);
    let making: Vec<ServiceStart> = starts.iter().filter(|start| named(&start.service.name)).cloned().collect();
    let holds = |start: &&ServiceStart| prepared.volumes.iter().any(|of| of == start.service.role());
    let holding: Vec<&ServiceStart> = making.iter().filter(holds).collect();
    let places: Option<Vec<_>> = holding.iter().map(|start| host.volumes(start)).collect();
    let places = places?.into_iter().flatten().collect();
    let holders = holding.iter().map(|start| start.service.name.clone()).collect();
    Some((DataSet { makers, holders, places }, making))
}

impl Trial<'_, '_> {
    /// Starts every service. Those with a prepared data set start on a copy of it if possible.
    pub(crate) fn deploy_prepared(
        &mut self,
        host: &mut dyn Host,
        starts: &[ServiceStart],
        started: &mut Vec<Instance>,
    ) -> Result<Vec<Entry>, Early> {
        let Some(prepared) = &self.inputs.workload.prepared else { return self.deploy(host, starts, started) };
        let found = data_set(prepared, host, starts);
        let restored = match &found {
            Some((data, making)) => self.prepare(host, data, making, started)?,
            None => false,
        };
        let fact = if restored { RESTORED } else { LOADED };
        self.data.record.facts.insert(FACT.to_owned(), fact.to_owned());
        let deployed = self.deploy(host, starts, started);
        match (deployed, found) {
            (Err(Early::Failed(fault)), Some((data, _))) if restored && !self.stop.raised() => {
                Err(Early::Failed(self.distrust(&data, fault)))
            }
            (deployed, _) => deployed,
        }
    }

    /// Puts a copy of the data in place. If none is kept yet, first deploys the services that create the data, only to
    /// keep a copy, so that the first trial is like all others. `false` if the services must load the data themselves.
    fn prepare(
        &mut self,
        host: &mut dyn Host,
        data: &DataSet,
        making: &[ServiceStart],
        started: &mut Vec<Instance>,
    ) -> Result<bool, Early> {
        match self.restore(data) {
            Restored::Whole => return Ok(true),
            Restored::Unkept => return Ok(false),
            Restored::Missing => {}
        }
        self.start_all(host, making, started)?;
        // Stop in reverse order, each to its end: the copy must be what a service leaves, not a state in between.
        while let Some(instance) = started.last() {
            if !self.is_over(&instance.instance) {
                host.stop(&instance.instance)?;
            }
            started.pop();
        }
        // They are started once more, and so end once more.
        self.data.record.finished.clear();
        // Without a copy the data are loaded once more, as if none could be kept.
        let kept = self.apparatus.keep(data).is_ok();
        Ok(kept && self.restore(data) == Restored::Whole)
    }

    /// Restores a copy. A failure is not fatal, but leaves a warning.
    fn restore(&mut self, data: &DataSet) -> Restored {
        self.apparatus.restore(data).unwrap_or_else(|fault| {
            self.data.record.warnings.push(format!("the kept data could not be restored and were loaded: {fault}"));
            Restored::Unkept
        })
    }

    /// Removes a copy on which services did not start, so that it is not used again.
    fn distrust(&mut self, data: &DataSet, fault: Fault) -> Fault {
        let forgotten = match self.apparatus.forget(data) {
            Ok(()) => "it was removed, so that the next trial loads the data anew".to_owned(),
            Err(fault) => format!("it could not be removed: {fault}"),
        };
        fault.context(format!("on data that were {RESTORED} ({forgotten})"))
    }
}
