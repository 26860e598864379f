//! Data sets that are restored from a kept copy instead of being made again in each trial.

use crate::apparatus::{DataSet, Restored};
use crate::trial::{Early, Entry, Trial};
use tare_core::fault::Fault;
use tare_core::host::{Host, Instance, ServiceStart};
use tare_core::workload::{Prepared, Service};

/// The fact of a trial that says how its data came about.
const FACT: &str = "data";
const LOADED: &str = "loaded in this deployment";
const RESTORED: &str = "restored from a kept copy";

/// The data set of a deployment, and what it takes to make it. None where a volume of it stands nowhere.
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
    /// Starts every service, those that hold a prepared data set on a copy of it, if it can be had.
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

    /// Puts a copy of the data into its places, and keeps one before if there is none: then all that makes the data is
    /// deployed for that alone, so that the first trial is like all others. `false` leaves it to the services to load.
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
        // Last started, first stopped, and each to its end: what is copied is what a service leaves, not what it is at.
        while let Some(instance) = started.last() {
            host.stop(&instance.instance)?;
            started.pop();
        }
        // Without a copy the data are loaded once more, as they would be by who keeps none.
        let kept = self.apparatus.keep(data).is_ok();
        Ok(kept && self.restore(data) == Restored::Whole)
    }

    /// A copy that cannot be restored is no reason to fail, but one to be told.
    fn restore(&mut self, data: &DataSet) -> Restored {
        self.apparatus.restore(data).unwrap_or_else(|fault| {
            self.data.record.warnings.push(format!("the kept data were not restored, and loaded instead: {fault}"));
            Restored::Unkept
        })
    }

    /// Services did not come up on a restored copy: nobody else is to have it.
    fn distrust(&mut self, data: &DataSet, fault: Fault) -> Fault {
        let forgotten = match self.apparatus.forget(data) {
            Ok(()) => "it was removed, so that the next trial loads the data anew".to_owned(),
            Err(fault) => format!("it could not be removed: {fault}"),
        };
        fault.context(format!("on data that were {RESTORED} ({forgotten})"))
    }
}
