//! A form that is deployed once, outside of a plan: to look at a service, or to try loads. Nothing of it is recorded.

use crate::placing::starts;
use crate::trial::{Early, LEFT, Trial, TrialInputs};
use crate::{Apparatus, Clock, Event, Stop};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::host::{Host, Instance, InstanceState, OpenError, ServiceStart};
use tare_core::load::{LoadPlan, LoadProfile, LoadSummary, LoadTask};
use tare_core::plan::PlannedTrial;
use tare_core::record::Header;
use tare_core::secrets::take_out_of;
use tare_core::telemetry::Scope;
use tare_core::trial::Stage;
use tare_core::units::CpuSet;
use tare_core::workload::Service;

/// How much longer than its load a load process may take. A try is short, and one that takes long to connect says
/// nothing that is wanted here.
const SLACK: Duration = Duration::from_secs(5);

/// What is deployed once: the first form of a study.
pub struct Once<'a> {
    /// The study, its workload, and what is known of its forms. The plan is not used.
    pub header: &'a Header,
    /// CPUs of the load.
    pub generator_cpus: &'a CpuSet,
    /// CPUs of the system under test.
    pub service_cpus: &'a CpuSet,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Ends it early.
    pub stop: &'a Stop,
}

/// The service that the load addresses, started and not necessarily ready.
pub struct Watched<'h> {
    host: &'h mut dyn Host,
    services: &'h [Service],
    instance: &'h str,
    address: Option<IpAddr>,
}

impl Watched<'_> {
    /// Whether it is still running.
    ///
    /// # Errors
    /// When its host does not answer.
    pub fn state(&mut self) -> Result<InstanceState, Fault> {
        self.host.state(self.instance)
    }

    /// The end of its output, without secrets.
    ///
    /// # Errors
    /// When its host does not answer.
    pub fn log(&mut self) -> Result<String, Fault> {
        let mut log = self.host.log(self.instance)?;
        take_out_of(&mut log, self.services);
        Ok(log)
    }

    /// Where it is reached from this machine; none if it has no port that is known.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Its processes, as this machine sees them; none when it has ended.
    ///
    /// # Errors
    /// When they cannot be determined.
    pub fn processes(&mut self) -> Result<Option<Scope>, Fault> {
        match self.host.serving() {
            Ok(scopes) => Ok(scopes.into_iter().find(|scope| scope.name == self.instance)),
            // It may have ended in between.
            Err(fault) => match self.state()? {
                InstanceState::Ended(_) => Ok(None),
                InstanceState::Running => Err(fault),
            },
        }
    }
}

/// A load that is tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// How operations are started.
    pub profile: LoadProfile,
    /// How long load runs before it counts.
    pub settle: Duration,
    /// How long it counts.
    pub measure: Duration,
    /// How long one operation may take.
    pub timeout: Duration,
}

/// Drives a load at what is deployed, and returns its result.
pub type TryLoad<'a> = dyn FnMut(&Attempt) -> Result<LoadSummary, Fault> + 'a;

impl Once<'_> {
    /// Starts the services in their order. Each but the one that the load addresses must become ready before the next
    /// is started; that one is passed to `watch` when all are started. Then everything is taken down.
    ///
    /// # Errors
    /// Why a service was not started or not ready, what `watch` returned, or what could not be taken down.
    pub fn watch<T>(
        &self,
        apparatus: &mut dyn Apparatus,
        watch: impl FnOnce(&mut Watched<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.deployed(apparatus, |trial, host, starts, started| {
            let inputs = trial.inputs;
            let workload = &inputs.workload;
            let loaded = workload.protocol.service.as_str();
            for start in starts {
                let (start, instance) = trial.start_one(host, start, starts, started)?;
                if start.service.role() != loaded {
                    trial.wait_ready(host, &start, &instance)?;
                }
            }
            let watched = starts.iter().find(|start| start.service.role() == loaded);
            let watched = watched.ok_or_else(|| Fault::new(format!("no service '{loaded}' is deployed")))?;
            let own = started.iter().find(|instance| instance.instance == watched.instance);
            let address = own.and_then(|own| own.endpoints.values().next()).map(SocketAddr::ip);
            let services = &workload.services;
            Ok(watch(&mut Watched { host, services, instance: &watched.instance, address })?)
        })
    }

    /// Deploys the services, writes the data set, and lets `work` try loads at the first loaded instance. Then
    /// everything is taken down.
    ///
    /// # Errors
    /// Why it was not deployed, what `work` returned, or what could not be taken down.
    pub fn load<T>(
        &self,
        apparatus: &mut dyn Apparatus,
        work: impl FnOnce(&mut TryLoad<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.deployed(apparatus, |trial, host, starts, started| {
            let entries = trial.stand_up(host, starts, started)?;
            let entry = entries.first().ok_or_else(|| Fault::new("the load has nowhere to enter"))?;
            let worked = work(&mut |attempt: &Attempt| {
                let Attempt { profile, settle, measure, timeout } = attempt.clone();
                let plan = trial.load_plan(entry, LoadTask::Run);
                let plan = LoadPlan { profile, settle, measure, timeout, ..plan };
                let driven = trial.drive(host, entry, &plan, settle + measure + timeout + SLACK);
                driven.map_err(|fault| trial.blame(host, started, fault))
            });
            Ok(worked?)
        })
    }

    /// Opens the form, has `work` done there, and takes everything down.
    fn deployed<T>(
        &self,
        apparatus: &mut dyn Apparatus,
        work: impl FnOnce(&mut Trial<'_, '_>, &mut dyn Host, &[ServiceStart], &mut Vec<Instance>) -> Result<T, Early>,
    ) -> Result<T, Fault> {
        let Header { study, forms, .. } = self.header;
        let form = study.forms.first().ok_or_else(|| Fault::new(format!("study '{}' has no form", study.name)))?;
        let name = form.name.clone();
        let planned = PlannedTrial { index: 0, block: 0, form: name, control: false, again: None, profiled: false };
        let state = forms.get(&form.name);
        let inputs = TrialInputs {
            study,
            workload: study.deployed(&self.header.workload, form),
            own_ports: false,
            form,
            planned: &planned,
            emulated: state.is_some_and(|state| state.emulated.is_some()),
            nth_of_its_kind: 0,
            seed: self.header.seed,
            generator_cpus: self.generator_cpus,
            service_cpus: self.service_cpus,
            placement: state.and_then(|state| state.placement.as_ref()),
            probe_resources: false,
            reference_bits: BTreeMap::new(),
            compare_files: false,
            known_peak: None,
            settle_for: None,
            resting_cpu: None,
        };
        let starts = starts(&inputs);
        let opened = apparatus.open_form("t0", form, &starts);
        let mut host = opened.map_err(|error| match error {
            OpenError::Unavailable(why) | OpenError::Failed(why) => why,
        })?;
        let (mut data, mut started) = (inputs.begin(self.clock.timestamp()), Vec::new());
        let mut unheard = |_: Event| {};
        let mut trial = Trial {
            inputs: &inputs,
            apparatus,
            clock: self.clock,
            stop: self.stop,
            tell: &mut unheard,
            data: &mut data,
            stage: Stage::Deploy,
            stage_began: self.clock.now(),
        };
        let worked = work(&mut trial, host.as_mut(), &starts, &mut started);
        trial.take_down(host, &started);
        let worked = worked.map_err(|early| match early {
            Early::Failed(why) | Early::Unavailable(why) => without_secrets(why, &inputs.workload.services),
        });
        let left = data.record.warnings.iter().find_map(|warning| warning.strip_prefix(LEFT));
        match (worked, left.map(|left| format!("could not take down what was started: {left}"))) {
            (worked, None) => worked,
            (Ok(_), Some(left)) => Err(Fault::new(left).remedy("tare clean")),
            (Err(why), Some(left)) => Err(why.context(left)),
        }
    }
}

fn without_secrets(mut fault: Fault, services: &[Service]) -> Fault {
    for text in [&mut fault.message, &mut fault.remedy, &mut fault.log] {
        take_out_of(text, services);
    }
    fault
}
