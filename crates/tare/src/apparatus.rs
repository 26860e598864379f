//! The real apparatus: opens layers on this machine and drives load from a separate process.

use crate::catalog;
use crate::driver::{Asked, Driver};
use crate::standing;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tare_bundle::DataSets;
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::host::{Host, MachineServices, OpenError, ServiceStart, TrialContext};
use tare_core::load::{LoadOrder, LoadPlan, LoadSummary, LoadTask, SecondRow, WindowRow};
use tare_core::units::CpuSet;
use tare_layers::local::{LoadGroup, LocalHost};
use tare_layers::marks;
use tare_layers::network::{GeneratorSeat, Networks};
use tare_runner::{Apparatus, DataSet, Place, Restored, RunInside, Stop};

/// How long a readiness check waits for its connection to be accepted.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);
/// How much longer than its tool may take a load process is waited for.
const TOOL_SLACK: Duration = Duration::from_secs(10);

/// This machine, as a run uses it.
pub(crate) struct LocalApparatus {
    pub(crate) run: String,
    pub(crate) carrier: Arc<MachineServices>,
    /// The namespace of the load generator; none if it uses the host's loopback.
    pub(crate) seat: Option<GeneratorSeat>,
    pub(crate) address: IpAddr,
    pub(crate) subnets: (u8, u8),
    /// Networks of the forms deployed side by side; without a seat, also those of the first form.
    pub(crate) beside: Networks,
    /// Whether the user was warned that other machines can reach these networks.
    pub(crate) reached: bool,
    pub(crate) cpus: CpuSet,
    /// CPUs for hypervisors' own threads, which are no virtual CPUs; empty if they share those of services.
    pub(crate) hypervisor: CpuSet,
    pub(crate) scratch: PathBuf,
    /// An empty group, with which the run's own lasts between loads: what a load used is still counted when it has
    /// ended and the last counters are read.
    pub(crate) group: Option<LoadGroup>,
    /// Where data sets are kept; none after one could not be kept.
    pub(crate) data_sets: Option<DataSets>,
    /// Whether deployments whose trial failed are kept standing for somebody to look into them.
    pub(crate) keep_failed: bool,
}

impl Apparatus for LocalApparatus {
    fn open_form(&mut self, label: &str, form: &Form, services: &[ServiceStart]) -> Result<Box<dyn Host>, OpenError> {
        let around = self.surroundings(label, services);
        let host = LocalHost::new(self.carrier.clone(), TrialContext { inner: form.layers.clone(), ..around.clone() })?;
        open_layers(Box::new(host), form, &around)
    }

    fn open_beside(
        &mut self,
        label: &str,
        place: Place,
        form: &Form,
        services: &[ServiceStart],
    ) -> Result<Box<dyn Host>, OpenError> {
        let Place { number, own_ports } = place;
        let around = TrialContext { place: number, ..self.surroundings(label, services) };
        let address = match &self.seat {
            // A plain process listens on every address, so two of them would need the same ports.
            Some(seat) if form.layers.is_empty() && !own_ports => {
                let host = LocalHost::in_room(self.carrier.clone(), around, seat.room(number)?)?;
                return Ok(Box::new(host));
            }
            Some(seat) => seat.address_beside(number)?,
            // The loopback has one address, on which only ports tell forms apart.
            None if own_ports => self.address,
            None => {
                let fault = Fault::new("forms cannot be deployed side by side on the loopback with the same ports");
                return Err(OpenError::Unavailable(fault.remedy("use `from: outside` or `design: blocks`")));
            }
        };
        let around = TrialContext { address, subnets: self.beside.at(number)?, ..around };
        let host = LocalHost::new(self.carrier.clone(), TrialContext { inner: form.layers.clone(), ..around.clone() })?;
        open_layers(Box::new(host), form, &around)
    }

    fn restore(&mut self, data: &DataSet) -> Result<Restored, Fault> {
        let Some(sets) = &self.data_sets else { return Ok(Restored::Unkept) };
        let whole = sets.restore(&self.key(data)?, &data.places)?;
        Ok(if whole { Restored::Whole } else { Restored::Missing })
    }

    fn keep(&mut self, data: &DataSet) -> Result<(), Fault> {
        let key = self.key(data)?;
        let Some(sets) = &self.data_sets else { return Err(Fault::new("this run keeps no data sets")) };
        let kept = sets.keep(&key, &data.places);
        if kept.is_err() {
            // Otherwise each trial would load its data twice, only to fail again.
            self.data_sets = None;
        }
        kept
    }

    fn forget(&mut self, data: &DataSet) -> Result<(), Fault> {
        let key = self.key(data)?;
        self.data_sets.as_ref().map_or(Ok(()), |sets| sets.remove(&key))
    }

    fn keeps_failed(&self) -> bool {
        self.keep_failed
    }

    fn hold(&mut self, stop: &Stop) {
        standing::wait(stop);
    }

    fn reachable(&mut self, endpoint: SocketAddr) -> bool {
        let Some(seat) = &self.seat else { return TcpStream::connect_timeout(&endpoint, CONNECT_LIMIT).is_ok() };
        seat.reach(endpoint, CONNECT_LIMIT).is_ok()
    }

    fn drive(
        &mut self,
        plan: &LoadPlan,
        limit: Duration,
        stop: &Stop,
        inside: &mut RunInside,
        each_second: &mut dyn FnMut(&SecondRow),
    ) -> Result<LoadSummary, Fault> {
        let asked = Asked { each_second, next: None, inside: Some(inside) };
        self.unguided(plan)?.wait(plan.task, patience(plan, limit), stop, asked)
    }

    fn guide(
        &mut self,
        plan: &LoadPlan,
        limit: Duration,
        stop: &Stop,
        each_second: &mut dyn FnMut(&SecondRow),
        next: &mut dyn FnMut(Option<&WindowRow>) -> LoadOrder,
    ) -> Result<LoadSummary, Fault> {
        let mut driver = self.driver(plan)?;
        driver.tell(&next(None))?;
        driver.wait(plan.task, limit, stop, Asked { each_second, next: Some(next), inside: None })
    }

    fn drive_all(
        &mut self,
        plans: &[LoadPlan],
        limit: Duration,
        stop: &Stop,
        insides: Vec<&mut RunInside>,
        each_second: &mut dyn FnMut(usize, &SecondRow),
    ) -> Vec<Result<LoadSummary, Fault>> {
        let limit = plans.iter().map(|plan| patience(plan, limit)).max().unwrap_or(limit);
        // Start all before waiting for one.
        let drivers: Vec<_> = plans.iter().map(|plan| (plan.task, self.unguided(plan))).collect();
        let mut insides = insides.into_iter();
        let mut drivers = drivers.into_iter().map(|(task, driver)| (task, driver, insides.next()));
        let Some((task, first, inside)) = drivers.next() else { return Vec::new() };
        let (driven, rows) = std::thread::scope(|scope| {
            // The seconds of the other loads are passed on at the end: nobody could watch several lines at once.
            let others: Vec<_> = drivers
                .map(|(task, driver, inside)| {
                    scope.spawn(move || {
                        let mut rows = Vec::new();
                        let mut keep = |row: &SecondRow| rows.push(row.clone());
                        let asked = Asked { each_second: &mut keep, next: None, inside: shortened(inside) };
                        let driven = driver.and_then(|mut driver| driver.wait(task, limit, stop, asked));
                        (driven, rows)
                    })
                })
                .collect();
            let mut tell = |row: &SecondRow| each_second(0, row);
            let asked = Asked { each_second: &mut tell, next: None, inside: shortened(inside) };
            let mut driven = vec![first.and_then(|mut driver| driver.wait(task, limit, stop, asked))];
            let mut all_rows = Vec::new();
            for other in others {
                let (other, rows) = other.join().expect("waiting for a load process does not panic");
                driven.push(other);
                all_rows.push(rows);
            }
            (driven, all_rows)
        });
        for (at, rows) in rows.iter().enumerate() {
            rows.iter().for_each(|row| each_second(at + 1, row));
        }
        driven
    }
}

/// How long to wait for the load process of a plan: at least as long as its options let a run take.
fn patience(plan: &LoadPlan, limit: Duration) -> Duration {
    let within = catalog::protocol(&plan.protocol).and_then(|protocol| protocol.runs_within(&plan.options));
    let within = within.filter(|_| plan.task == LoadTask::Run);
    within.map_or(limit, |within| limit.max(plan.settle + within + TOOL_SLACK))
}

impl LocalApparatus {
    fn key(&self, data: &DataSet) -> Result<String, Fault> {
        DataSets::key(self.carrier.bundles.as_ref(), &data.makers, &data.holders)
    }

    fn driver(&self, plan: &LoadPlan) -> Result<Driver, Fault> {
        let mut command = Driver::command();
        marks::mark_process(&self.run, &mut command);
        if let Some(seat) = &self.seat {
            seat.enter(&mut command);
        }
        Driver::start(command, LoadGroup::make(&self.run)?, plan)
    }

    /// A load process that gets no orders, except results of commands that it runs inside the form.
    fn unguided(&self, plan: &LoadPlan) -> Result<Driver, Fault> {
        let mut driver = self.driver(plan)?;
        let protocol = catalog::protocol(&plan.protocol);
        if protocol.is_none_or(|protocol| !protocol.facts(&plan.options).runs_inside) {
            driver.told_all();
        }
        Ok(driver)
    }

    fn surroundings(&self, label: &str, services: &[ServiceStart]) -> TrialContext {
        TrialContext {
            run: self.run.clone(),
            trial: label.to_owned(),
            scratch: self.scratch.join(label),
            address: self.address,
            subnets: self.subnets,
            cpus: self.cpus.clone(),
            hypervisor: self.hypervisor.clone(),
            services: services.to_vec(),
            inner: Vec::new(),
            place: 0,
            third_octets: tare_core::host::third_octets(),
        }
    }
}

/// Shortens a lifetime: a reference for the duration of the load need not live as long as what it refers to.
fn shortened<'a>(inside: Option<&'a mut RunInside<'_>>) -> Option<&'a mut RunInside<'a>> {
    match inside {
        Some(inside) => Some(inside),
        None => None,
    }
}

/// Opens the layers of a form on this machine, outermost first.
fn open_layers(mut host: Box<dyn Host>, form: &Form, around: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
    for (at, layer) in form.layers.iter().enumerate() {
        host = host.open(layer, &TrialContext { inner: form.layers[at + 1..].to_vec(), ..around.clone() })?;
    }
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tare_core::config;
    use tare_core::load::LoadProfile;

    #[test]
    fn a_tool_is_waited_for_as_long_as_it_may_run() {
        let (limit, profile) = (Duration::from_secs(60), LoadProfile::Closed { connections: 1, pipeline: 1 });
        let of = |name: &str, options| LoadPlan::of(name, options, ([127, 0, 0, 1], 9).into(), profile.clone());
        let exec = catalog::protocol("exec").unwrap();
        let read = |text: &str| config::read("w.yaml", text, |node, problems| exec.read(node, problems)).unwrap();
        let tool = of("exec", read("command: [wrk]\nwithin: 10m\n"));
        assert_eq!(patience(&tool, limit), tool.settle + Duration::from_secs(600) + TOOL_SLACK);
        assert_eq!(patience(&LoadPlan { task: LoadTask::Populate, ..tool }, limit), limit);
        assert_eq!(patience(&of("exec", read("command: [wrk]\nwithin: 1s\n")), limit), limit);
        assert_eq!(patience(&of("null", json!({})), limit), limit);
    }
}
