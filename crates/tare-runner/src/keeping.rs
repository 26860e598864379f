//! Keeps deployments whose trial failed standing until a person has looked into them, if the apparatus does that.

use crate::placing::starts;
use crate::standing::{StandingDeployment, StandingService};
use crate::trial::TrialInputs;
use crate::{Apparatus, Clock, Event, Stop};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tare_core::command::Ended;
use tare_core::host::{Host, Instance, InstanceState, ServiceStart};
use tare_core::record::TrialData;
use tare_core::secrets::take_out;
use tare_core::trial::Outcome;

/// The deployment of a trial, if the trial failed. The output of its services must have been kept before.
pub(crate) fn standing(
    inputs: &TrialInputs,
    data: &mut TrialData,
    host: &mut dyn Host,
    started: &[Instance],
) -> Option<StandingDeployment> {
    let record = &mut data.record;
    // The run removes secrets only after the trial, but this is shown before.
    take_out(record, &inputs.workload.services);
    let Outcome::Failed { stage, why } = &record.outcome else { return None };
    let starts = starts(inputs);
    let service = |instance: &Instance| {
        let name = &instance.instance;
        let start = starts.iter().find(|start| start.instance == *name);
        // Of one that has done its work nothing is left to enter.
        let over = record.finished.contains_key(name);
        StandingService {
            name: name.clone(),
            state: if over { Some(InstanceState::Ended(Ended::Exit(0).to_string())) } else { host.state(name).ok() },
            endpoints: instance.endpoints.clone(),
            ways_in: if over { Vec::new() } else { host.ways_in(name) },
            volumes: start.map_or_else(BTreeMap::new, |start| volumes(host, start)),
            log: record.logs.get(name).cloned().unwrap_or_default(),
        }
    };
    let services = started.iter().map(service).collect();
    Some(StandingDeployment { trial: inputs.planned.clone(), stage: *stage, why: why.clone(), services })
}

fn volumes(host: &dyn Host, start: &ServiceStart) -> BTreeMap<String, PathBuf> {
    let paths = host.volumes(start).unwrap_or_default();
    start.service.volumes.keys().cloned().zip(paths).collect()
}

/// Announces the deployments and waits until they may go, or the user stops the run. They are not touched meanwhile.
pub(crate) fn hold(
    deployments: Vec<StandingDeployment>,
    apparatus: &mut dyn Apparatus,
    clock: &dyn Clock,
    stop: &Stop,
    tell: &mut dyn FnMut(Event),
) {
    let began = clock.now();
    tell(Event::KeptStanding { deployments });
    apparatus.hold(stop);
    tell(Event::LetGo { after: clock.now().saturating_sub(began) });
}

/// How long deployments of the last trial or block were kept standing, if any were.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Holding(Option<Duration>);

impl Holding {
    /// Notes an event.
    pub(crate) fn note(&mut self, event: &Event) {
        if let Event::LetGo { after } = event {
            self.0 = Some(self.0.unwrap_or_default() + *after);
        }
    }

    /// Whether any were kept. If so, they failed before the user stopped the run.
    pub(crate) fn any(self) -> bool {
        self.0.is_some()
    }

    /// How long they were kept; zero if none were.
    pub(crate) fn time(self) -> Duration {
        self.0.unwrap_or_default()
    }
}
