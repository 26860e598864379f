//! A block whose forms are deployed side by side: all but one are frozen, and the load moves between them in slices.

use crate::keeping::{hold, standing};
use crate::placing::starts;
use crate::standing::StandingDeployment;
use crate::trial::{Early, Entry, LEFT, PROBE_PERIOD, Trial, TrialInputs};
use crate::{Apparatus, Clock, Event, Place, Stop};
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::design::{Arrangement, Slices};
use tare_core::fault::Fault;
use tare_core::host::{Host, Instance, OpenError};
use tare_core::load::{LoadPlan, LoadTask};
use tare_core::plan::slice_order;
use tare_core::record::{BUSY_PER_OP, Slice, TrialData};
use tare_core::trial::{Outcome, Stage};
use tare_stats::SliceLoad;

/// The inputs of a block.
pub(crate) struct BlockInputs<'a, 'b> {
    /// Its trials, in the order of deployment.
    pub(crate) trials: &'a [TrialInputs<'b>],
    pub(crate) slices: Slices,
    /// Seed of the order of slices.
    pub(crate) seed: u64,
}

/// What the block works with.
pub(crate) struct BlockContext<'a> {
    pub(crate) apparatus: &'a mut dyn Apparatus,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) stop: &'a Stop,
    pub(crate) tell: &'a mut dyn FnMut(Event),
}

/// A deployment of the block.
pub(crate) struct Deployment<'a, 'b> {
    inputs: &'a TrialInputs<'b>,
    pub(crate) data: TrialData,
    pub(crate) host: Option<Box<dyn Host>>,
    started: Vec<Instance>,
    /// Where load enters; none if it has ended early.
    pub(crate) entry: Option<Entry>,
    pub(crate) parts: Vec<SliceLoad>,
    /// Whether it only remains to be taken down.
    concluded: bool,
}

/// Runs the trials of a block side by side. `None` if it was stopped: it then leaves no row.
pub(crate) fn run_alternate(inputs: &BlockInputs, context: &mut BlockContext) -> Option<Vec<TrialData>> {
    let mut standing = stand_up(inputs.trials, true, context);
    let block = inputs.trials.first().map_or(0, |inputs| inputs.planned.block);
    let measure = inputs.trials.first().map_or(Duration::ZERO, |inputs| inputs.study.measure);
    let rounds = inputs.slices.rounds(measure);
    let order = slice_order(standing.len(), rounds, block, inputs.seed);
    for (place, arm) in order.into_iter().enumerate() {
        if !context.stop.raised() {
            standing[arm].slice(place, inputs.trials.len(), inputs.slices, context);
        }
    }
    finish(standing, context)
}

/// Deploys all trials of a block, one after the other.
pub(crate) fn stand_up<'a, 'b>(
    inputs: &'a [TrialInputs<'b>],
    freeze: bool,
    context: &mut BlockContext,
) -> Vec<Deployment<'a, 'b>> {
    let mut standing: Vec<Deployment> =
        inputs.iter().map(|inputs| Deployment::new(inputs, context.clock.timestamp())).collect();
    for (at, deployment) in standing.iter_mut().enumerate() {
        if !context.stop.raised() {
            deployment.stand_up(at as u8 + 1, freeze, context);
        }
    }
    standing
}

/// Verifies all of them and takes them down. In between, failed ones are kept standing, if the apparatus does that and
/// the run was not stopped. `None` if the run was stopped: the block then leaves no row.
pub(crate) fn finish(mut standing: Vec<Deployment>, context: &mut BlockContext) -> Option<Vec<TrialData>> {
    let stopped = context.stop.raised();
    if context.apparatus.keeps_failed() && !stopped {
        // All of them first: a stop while one is kept standing would look like a failure of those not yet verified.
        for deployment in &mut standing {
            deployment.conclude(stopped, context);
        }
        hold_failed(&mut standing, context);
    }
    for deployment in &mut standing {
        deployment.finish(stopped, context);
    }
    (!stopped).then(|| standing.into_iter().map(|deployment| deployment.data).collect())
}

fn hold_failed(block: &mut [Deployment], context: &mut BlockContext) {
    let failed: Vec<_> = block.iter_mut().filter_map(Deployment::if_failed).collect();
    if !failed.is_empty() && !context.stop.raised() {
        hold(failed, context.apparatus, context.clock, context.stop, context.tell);
    }
}

impl<'a, 'b> Deployment<'a, 'b> {
    fn new(inputs: &'a TrialInputs<'b>, timestamp: String) -> Self {
        let data = inputs.begin(timestamp);
        let (host, started, entry, parts) = (None, Vec::new(), None, Vec::new());
        Deployment { inputs, data, host, started, entry, parts, concluded: false }
    }

    /// The trial, continued in `stage`.
    pub(crate) fn trial<'t>(
        inputs: &'t TrialInputs<'b>,
        data: &'t mut TrialData,
        stage: Stage,
        context: &'t mut BlockContext,
    ) -> Trial<'t, 'b> {
        (context.tell)(Event::StageStarted { stage });
        Self::trial_in(inputs, data, stage, context)
    }

    /// The same, but without an event.
    fn trial_in<'t>(
        inputs: &'t TrialInputs<'b>,
        data: &'t mut TrialData,
        stage: Stage,
        context: &'t mut BlockContext,
    ) -> Trial<'t, 'b> {
        let stage_began = context.clock.now();
        let BlockContext { apparatus, clock, stop, tell } = context;
        Trial { inputs, apparatus: &mut **apparatus, clock: *clock, stop, tell: &mut **tell, data, stage, stage_began }
    }

    /// Deploys it and, if `freeze` is set, freezes it until its turn comes.
    fn stand_up(&mut self, number: u8, freeze: bool, context: &mut BlockContext) {
        let mut trial = Self::trial(self.inputs, &mut self.data, Stage::Provision, context);
        let starts = starts(trial.inputs);
        let label = format!("t{}", self.inputs.planned.index);
        let place = Place { number, own_ports: self.inputs.own_ports };
        let host = match trial.apparatus.open_beside(&label, place, self.inputs.form, &starts) {
            Ok(host) => self.host.insert(host),
            Err(OpenError::Unavailable(why)) => return trial.end(Early::Unavailable(why)),
            Err(OpenError::Failed(why)) => return trial.end(Early::Failed(why)),
        };
        let stood = trial.stand_up(host.as_mut(), &starts, &mut self.started);
        let rest = |host: &mut dyn Host| if freeze { host.freeze() } else { Ok(()) };
        match stood.and_then(|entries| rest(host.as_mut()).map(|()| entries).map_err(Early::Failed)) {
            Ok(entries) => self.entry = entries.into_iter().next(),
            Err(early) => {
                trial.keep_logs(host.as_mut(), &self.started);
                trial.end(early);
            }
        }
        trial.leave();
    }

    /// Thaws it, loads it for one slice, freezes it again.
    fn slice(&mut self, place: usize, arms: usize, slices: Slices, context: &mut BlockContext) {
        let (Some(entry), Some(host)) = (&self.entry, &mut self.host) else { return };
        (context.tell)(Event::SliceStarted { trial: self.inputs.planned.clone() });
        let mut trial = Self::trial(self.inputs, &mut self.data, Stage::Settle, context);
        let round = place / arms;
        let plan = trial.load_plan(entry, LoadTask::Run);
        // The first slice of a deployment is also its warm-up.
        let settle = if round == 0 { slices.settle.max(plan.settle) } else { slices.settle };
        // The requests differ between rounds, but not between the forms of a round.
        let seed = plan.seed.wrapping_add((round as u64) << 32);
        let plan = LoadPlan { settle, measure: slices.measure, seed, ..plan };
        match one_slice(&mut trial, host.as_mut(), entry, &plan) {
            Ok((load, telemetry)) => {
                trial.leave();
                self.data.record.slices.push(Slice {
                    round: round as u32,
                    place: place as u32,
                    start_ns: load.measure_start_ns,
                    end_ns: load.measure_end_ns,
                    metrics: BTreeMap::new(),
                });
                self.parts.push((load, telemetry));
            }
            Err(fault) => {
                trial.leave();
                self.fail(fault, context);
            }
        }
    }

    /// Starts sampling it while it is not loaded. Returns whether that is possible.
    pub(crate) fn begin_rest(&mut self) -> bool {
        let there = self.entry.is_some();
        self.host.as_mut().is_some_and(|host| there && host.begin_probe(&[], PROBE_PERIOD).is_ok())
    }

    /// Ends it after a failure under load, and looks for the cause.
    pub(crate) fn fail(&mut self, fault: Fault, context: &mut BlockContext) {
        let Some(host) = &mut self.host else { return };
        let mut trial = Self::trial(self.inputs, &mut self.data, Stage::Measure, context);
        let fault = trial.blame(host.as_mut(), &self.started, fault);
        trial.keep_logs(host.as_mut(), &self.started);
        trial.end(Early::Failed(fault));
        self.entry = None;
        // It should no longer disturb the others; if it cannot be frozen, nothing more can be done.
        let _ = host.freeze();
    }

    /// Its description for a person who looks into it, if it failed.
    fn if_failed(&mut self) -> Option<StandingDeployment> {
        let host = self.host.as_mut()?;
        standing(self.inputs, &mut self.data, host.as_mut(), &self.started)
    }

    /// Verifies its measurement, unless that was done, and takes it down.
    fn finish(&mut self, stopped: bool, context: &mut BlockContext) {
        self.conclude(stopped, context);
        let Some(host) = self.host.take() else { return };
        Self::trial_in(self.inputs, &mut self.data, Stage::Verify, context).take_down(host, &self.started);
    }

    /// Verifies its measurement and leaves it running. Does nothing the second time.
    fn conclude(&mut self, stopped: bool, context: &mut BlockContext) {
        if std::mem::replace(&mut self.concluded, true) {
            return;
        }
        let Some(host) = &mut self.host else { return };
        let mut trial = Self::trial(self.inputs, &mut self.data, Stage::Verify, context);
        if let Err(fault) = host.thaw() {
            trial.data.record.warnings.push(format!("{LEFT}{fault}"));
        }
        if self.entry.is_some() && !stopped {
            let verified = verify(&mut trial, host.as_mut(), &self.started, std::mem::take(&mut self.parts));
            if let Err(early) = verified {
                trial.end(early);
            }
            if trial.data.record.outcome != Outcome::Measured {
                trial.keep_logs(host.as_mut(), &self.started);
            }
        }
        trial.leave();
    }
}

fn one_slice(trial: &mut Trial, host: &mut dyn Host, entry: &Entry, plan: &LoadPlan) -> Result<SliceLoad, Fault> {
    host.thaw()?;
    host.begin_probe(&[], PROBE_PERIOD)?;
    let driven = trial.run(host, entry, plan);
    let probed = host.end_probe();
    let load = driven?;
    host.freeze()?;
    Ok((load, probed?))
}

fn verify(trial: &mut Trial, host: &mut dyn Host, started: &[Instance], parts: Vec<SliceLoad>) -> Result<(), Early> {
    let (load, figures) = match tare_stats::sliced(&parts) {
        Ok(mut sliced) => {
            // Two forms share the machine, so its counters belong to neither.
            if trial.inputs.study.design.arrangement == Arrangement::Duet {
                let all = sliced.by_slice.iter_mut().chain([&mut sliced.figures.metrics]);
                all.for_each(|metrics| _ = metrics.remove(BUSY_PER_OP));
            }
            // Frozen forms use nothing while others are loaded.
            let resting = trial.data.record.resting_cpu.or(trial.inputs.resting_cpu);
            if let Some(resting) = resting.filter(|_| !trial.inputs.study.design.freezes()) {
                let removed = tare_stats::leave_out_rest(&mut sliced.figures.metrics, &sliced.load, resting);
                let warning = |name| format!("{name} is unknown: at least half of it was used in the turns of others");
                trial.data.record.warnings.extend(removed.into_iter().map(warning));
            }
            for (slice, metrics) in trial.data.record.slices.iter_mut().zip(sliced.by_slice) {
                slice.metrics = metrics;
            }
            (sliced.load, Ok(sliced.figures))
        }
        Err(why) => (parts.first().map(|(load, _)| load.clone()).unwrap_or_default(), Err(why)),
    };
    trial.data.telemetry = parts.into_iter().flat_map(|(_, telemetry)| telemetry).collect();
    trial.verify(host, started, load, figures)
}
