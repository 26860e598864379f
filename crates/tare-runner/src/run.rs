//! A run: carries out the plan block by block.

use crate::alternate::{BlockContext, BlockInputs, run_alternate};
use crate::chop::{BLOCKS_ALONE, LONGEST, Slice, run_chopped};
use crate::duet::{halves, run_duet};
use crate::ending::{Ending, Request};
use crate::keeping::Holding;
use crate::pace::{Pace, end_of_round, fitting};
use crate::progress::Progress;
use crate::stages::run_trial;
use crate::trial::TrialInputs;
use crate::{Apparatus, Clock, Event, RecordDir, Stop, Subscriber, read_record};
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::fault::Fault;
use tare_core::host::SeenFile;
use tare_core::instances::{Ports, has_movable_ports};
use tare_core::plan::{PlannedTrial, blocks, nth_of_its_kind, plan_again, rounds_after};
use tare_core::record::{End, Header, TrialData, TrialRecord};
use tare_core::secrets::take_out;
use tare_core::trial::{Outcome, Stage};
use tare_core::units::CpuSet;
use tare_stats::{decided, is_lead_look, is_look, precise_enough};

/// Why a form that needs another one beside it was skipped.
const NO_PARTNER: &str = "the form to be measured beside it is missing";

/// A run about to be carried out.
pub struct Run<'a> {
    /// The plan and its conditions.
    pub header: &'a Header,
    /// CPUs of the load.
    pub generator_cpus: CpuSet,
    /// CPUs of the system under test.
    pub service_cpus: CpuSet,
    /// The record to write.
    pub record: RecordDir,
    /// The trials already on disk, if a run is continued.
    pub done: Vec<TrialRecord>,
    /// How long its trials take, as far as that is known.
    pub pace: Pace,
}

/// State of a run under way.
pub(crate) struct RunContext<'a> {
    apparatus: &'a mut dyn Apparatus,
    clock: &'a dyn Clock,
    pub(crate) stop: &'a Stop,
    subscriber: Subscriber<'a>,
    began: Duration,
    /// How long earlier processes have worked on this run.
    before: Duration,
    /// How many blocks of the plan there will be, as far as that is known.
    blocks: u32,
    /// Whether, and for how long, deployments of the last trial or block were kept standing.
    held: Holding,
    /// Whether a user asked the run to end after its block.
    request: Request,
}

impl RunContext<'_> {
    /// How long this and earlier processes have worked on this run.
    fn spent(&self) -> Duration {
        self.before + self.clock.now().saturating_sub(self.began)
    }
}

impl Run<'_> {
    /// Carries out the part of the plan that is not on disk yet. A trial that fails is recorded, and the run continues.
    ///
    /// # Errors
    /// Only when the record cannot be written: nothing more could be kept.
    pub fn carry_out(
        mut self,
        apparatus: &mut dyn Apparatus,
        clock: &dyn Clock,
        stop: &Stop,
        subscriber: Subscriber,
    ) -> Result<Ending, Fault> {
        self.record.reopen()?;
        let before = self.record.spent();
        let mut state = Progress::from(&self.header.study, &self.done);
        let (profiles, profiled) = self.profiles();
        let (trials, done) = (self.header.plan.len() as u32 + profiles, self.done.len() as u32 + profiled);
        self.tell(clock, subscriber, &Event::RunStarted { trials, done })?;
        let blocks = blocks(&self.header.plan);
        let (began, held, request) = (clock.now(), Holding::default(), Request::default());
        let mut context = RunContext { apparatus, clock, stop, subscriber, began, before, blocks, held, request };
        let planned = self.planned_blocks(&mut state, &mut context)?.unwrap_or(Ending::Complete);
        let mut ending = planned;
        if !matches!(planned, Ending::Interrupted | Ending::BudgetSpent | Ending::OnRequest) {
            let again = self.blocks_again(&mut state, &mut context)?;
            // Second runs only improve the record: if there is no time for them, what is there still stands.
            ending = again.filter(|again| *again == Ending::Interrupted).unwrap_or(planned);
        }
        if ending != Ending::Interrupted && self.profile(&state, &mut context)? {
            ending = Ending::Interrupted;
        }
        // Nor does an interruption then make intervals wider. If the record said so, a resumed run would measure more.
        let by_itself = matches!(planned, Ending::Fitted | Ending::PreciseEnough | Ending::Decided);
        let how = if by_itself { planned } else { ending }.word().to_owned();
        let asked_by = stop.asked_by().cloned();
        self.record.write_end(&End { ended: clock.timestamp(), how: how.clone(), asked_by })?;
        self.tell(clock, context.subscriber, &Event::RunEnded { how })?;
        Ok(ending)
    }

    /// Runs the blocks of the plan in order. Returns why the run must end, if it must.
    fn planned_blocks(&mut self, state: &mut Progress, context: &mut RunContext) -> Result<Option<Ending>, Fault> {
        let plan = self.header.plan.clone();
        for block in 0..blocks(&plan) {
            let trials: Vec<PlannedTrial> = plan.iter().filter(|trial| trial.block == block).cloned().collect();
            if trials.iter().any(|trial| !self.record.has_trial(trial.index)) {
                let fitted = self.fit(block, state, context)?;
                if fitted.is_some() {
                    return Ok(fitted);
                }
                let later = plan.iter().filter(|trial| trial.block > block && trial.block < context.blocks);
                let later: Duration = later.map(|trial| self.expected(state, trial)).sum();
                let ending = self.block(&trials, later, state, context)?;
                if ending.is_some() {
                    return Ok(ending);
                }
            } else if plan.iter().any(|trial| trial.block > block && self.record.has_trial(trial.index)) {
                // The process that continued with the next block has checked this one.
                continue;
            }
            let ending = self.by_itself_after(block)?;
            if ending.is_some() {
                return Ok(ending);
            }
            if context.stop.asked_by().is_some() && plan.iter().any(|trial| trial.block > block) {
                return Ok(Some(Ending::OnRequest));
            }
        }
        Ok(None)
    }

    /// Computes again, before `block`, how many blocks fit into the given time: from how long trials took, never from
    /// what they measured. Returns why the run must end, if it must. A round that was begun is completed, and the first
    /// round is always carried out.
    fn fit(&mut self, block: u32, state: &Progress, context: &mut RunContext) -> Result<Option<Ending>, Fault> {
        let Header { study, plan, .. } = self.header;
        let Some(most) = study.at_most else { return Ok(None) };
        if study.design.ends_by_itself() {
            let open = plan.iter().filter(|trial| trial.block == block && !self.record.has_trial(trial.index));
            // Intervals are valid however wide they are, but a search that found nothing is not over.
            let whole = block.checked_sub(1).is_some_and(|before| rounds_after(plan, study, before) > 0);
            let for_width = study.design.half_width.is_some() && study.design.best_in.is_none();
            let ending = if whole && for_width { Ending::Fitted } else { Ending::BudgetSpent };
            return Ok(self.over(open, state, context).then_some(ending));
        }
        let round = block..end_of_round(study, plan, block);
        let of_round = plan.iter().filter(|trial| round.contains(&trial.block));
        let begins = block.checked_sub(1).is_some_and(|before| rounds_after(plan, study, before) > 0);
        if !begins || of_round.clone().any(|trial| self.record.has_trial(trial.index)) {
            return Ok(None);
        }
        let left = most.saturating_sub(context.spent());
        let fit = fitting(study, plan, block, left, &mut |trial| self.expected(state, trial));
        if fit != context.blocks {
            context.blocks = fit;
            let trials = plan.iter().filter(|trial| trial.block < fit).count() as u32 + self.profiles().0;
            let round = of_round.map(|trial| self.expected(state, trial)).sum();
            let event = Event::Fitted { most, blocks: fit, of: blocks(plan), trials, round };
            self.tell(context.clock, context.subscriber, &event)?;
        }
        Ok((fit == block).then_some(Ending::Fitted))
    }

    /// Whether these trials, begun now, would exceed the given time. False until a trial was timed.
    fn over<'a>(&self, trials: impl Iterator<Item = &'a PlannedTrial>, state: &Progress, context: &RunContext) -> bool {
        let needed: Duration = trials.map(|trial| self.expected(state, trial)).sum();
        let over = self.header.study.at_most.is_some_and(|most| context.spent() + needed > most);
        over && !state.timed.is_empty()
    }

    /// Whether the study may end after `block`, because it is as precise as it asked for, or has found the best form. A
    /// run that was interrupted gets the same answer again: second runs of blocks do not count here.
    fn by_itself_after(&self, block: u32) -> Result<Option<Ending>, Fault> {
        let Header { study, plan, .. } = self.header;
        let rounds = rounds_after(plan, study, block);
        let width = study.design.half_width.is_some() && is_look(rounds);
        let lead = study.design.best_in.is_some() && is_lead_look(rounds);
        if !width && !lead {
            return Ok(None);
        }
        let mut record = read_record(self.record.path())?;
        record.trials.retain(|trial| trial.record.trial.again.is_none());
        Ok(if width && precise_enough(&record) {
            Some(Ending::PreciseEnough)
        } else {
            (lead && decided(&record)).then_some(Ending::Decided)
        })
    }

    /// Runs blocks with void or failed trials again, as far as allowed.
    fn blocks_again(&mut self, state: &mut Progress, context: &mut RunContext) -> Result<Option<Ending>, Fault> {
        let plan = &self.header.plan;
        let (mut block, mut index) = (blocks(plan), plan.len() as u32);
        loop {
            // First complete a second run that a killed process has left.
            let of = state.again.get(&block).copied().or_else(|| state.outcomes.next());
            let Some(of) = of else { return Ok(None) };
            let trials = plan_again(&self.header.plan, of, block, index, self.header.seed);
            let open = || trials.iter().filter(|trial| !self.record.has_trial(trial.index));
            if open().next().is_some() {
                if context.stop.asked_by().is_some() {
                    return Ok(Some(Ending::OnRequest));
                }
                if self.over(open(), state, context) {
                    return Ok(Some(Ending::BudgetSpent));
                }
                let ending = self.block(&trials, Duration::ZERO, state, context)?;
                if ending.is_some() {
                    return Ok(ending);
                }
            }
            (block, index) = (block + 1, index + trials.len() as u32);
        }
    }

    /// Runs the trials of one block that are not on disk yet. Returns why the run must end, if it must.
    fn block(
        &mut self,
        trials: &[PlannedTrial],
        later: Duration,
        state: &mut Progress,
        context: &mut RunContext,
    ) -> Result<Option<Ending>, Fault> {
        let open: Vec<&PlannedTrial> = trials.iter().filter(|trial| !self.record.has_trial(trial.index)).collect();
        let later = later + self.of_profiles(state);
        if self.header.study.design.arrangement != Arrangement::Blocks {
            let needed: Duration = open.iter().map(|trial| self.expected(state, trial)).sum();
            return self.side_by_side(&open, needed + later, state, context);
        }
        for (at, planned) in open.iter().enumerate() {
            if context.stop.raised() {
                return Ok(Some(Ending::Interrupted));
            }
            let left = later + open[at..].iter().map(|trial| self.expected(state, trial)).sum::<Duration>();
            self.announce(planned, left, context)?;
            let trial_began = context.clock.now();
            let Some(data) = self.one(planned, state, context) else { return Ok(Some(Ending::Interrupted)) };
            let took = context.clock.now().saturating_sub(trial_began + context.held.time());
            self.keep(&data, took, state, context)?;
        }
        Ok(None)
    }

    /// Runs the trials of a block whose forms are deployed side by side. They belong together: if a killed run has left
    /// some of them, the others would be measured at another time, and are skipped.
    fn side_by_side(
        &mut self,
        open: &[&PlannedTrial],
        left: Duration,
        state: &mut Progress,
        context: &mut RunContext,
    ) -> Result<Option<Ending>, Fault> {
        let Some(first) = open.first() else { return Ok(None) };
        if context.stop.raised() {
            return Ok(Some(Ending::Interrupted));
        }
        let (block, again) = (first.block, first.again);
        let whole = self.header.plan.iter().filter(|trial| trial.block == again.unwrap_or(block)).count();
        if open.len() < whole {
            let why = Fault::new("the run was killed while the trials of this block were written");
            for planned in open {
                self.keep(&skipped(planned, &why, context.clock), Duration::ZERO, state, context)?;
            }
            return Ok(None);
        }
        self.announce(first, left, context)?;
        let began = context.clock.now();
        let there = |planned: &&&PlannedTrial| self.header.forms[&planned.form].unavailable.is_none();
        let ran = self.stand_together(&open.iter().filter(there).copied().collect::<Vec<_>>(), state, context);
        // If the stop cut the verification of a form short, that would be mistaken for a failure of the form.
        let cut_short = |data: &TrialData| matches!(data.record.outcome, Outcome::Failed { stage: Stage::Verify, .. });
        let stopped = context.stop.raised() && !context.held.any();
        let whole = |trials: &Vec<TrialData>| !(stopped && trials.iter().any(cut_short));
        let Some(trials) = ran.filter(whole) else { return Ok(Some(Ending::Interrupted)) };
        let took = context.clock.now().saturating_sub(began + context.held.time()) / trials.len().max(1) as u32;
        for mut data in trials {
            take_out(&mut data.record, &self.header.workload.services);
            self.keep(&data, took, state, context)?;
        }
        for planned in open.iter().filter(|planned| !there(planned)) {
            let why = self.header.forms[&planned.form].unavailable.clone();
            let why = why.expect("it was just found not to be there");
            self.keep(&skipped(planned, &why, context.clock), Duration::ZERO, state, context)?;
        }
        Ok(None)
    }

    fn stand_together(
        &self,
        open: &[&PlannedTrial],
        state: &Progress,
        context: &mut RunContext,
    ) -> Option<Vec<TrialData>> {
        let mut inputs: Vec<TrialInputs> = open.iter().map(|planned| self.inputs(planned, state)).collect();
        let Header { study, workload, .. } = self.header;
        if has_movable_ports(workload) {
            let mut ports = Ports::default();
            inputs.iter_mut().for_each(|trial| {
                trial.workload = study.deployed_beside(workload, trial.form, &mut ports);
                trial.own_ports = true;
            });
        }
        let (subscriber, held, request) = (&mut *context.subscriber, &mut context.held, &mut context.request);
        *held = Holding::default();
        let stop = context.stop;
        let mut tell = |event: Event| {
            request.tell(stop, subscriber);
            held.note(&event);
            subscriber(&event);
        };
        let mut block =
            BlockContext { apparatus: context.apparatus, clock: context.clock, stop: context.stop, tell: &mut tell };
        if let Arrangement::Alternate(slices) = self.header.study.design.arrangement {
            return run_alternate(&BlockInputs { trials: &inputs, slices, seed: self.header.seed }, &mut block);
        }
        if let Arrangement::Chop(chop) = &self.header.study.design.arrangement {
            if let [alone] = open {
                let why = Fault::new(NO_PARTNER);
                return Some(vec![skipped(alone, &why, block.clock)]);
            }
            let slice = match chop.slice {
                Some(slice) => Slice::Asked(slice),
                // Emulated forms get no verdict, and comparing lengths would take them minutes.
                None if open.iter().any(|planned| self.pace.of(&planned.form).emulated) => LONGEST,
                None => state.slice_of(open, &study.baseline),
            };
            // Measuring in pieces only shows variation, and explains nothing.
            let alone = chop.pieces.is_none() && self.looks_alone(open);
            return run_chopped(&inputs, slice, chop.pieces, alone, &mut block);
        }
        let why = match (open.len(), self.service_cpus.len()) {
            (2, 2..) => None,
            (2, _) => Some(Fault::new("a duet needs two CPUs for services, one for each form; this machine has one")),
            _ => Some(Fault::new(NO_PARTNER)),
        };
        if let Some(why) = why {
            let why = why.remedy("use `design: blocks` or `design: alternate`");
            return Some(open.iter().map(|planned| skipped(planned, &why, block.clock)).collect());
        }
        let (services, generators) = (halves(&self.service_cpus), halves(&self.generator_cpus));
        for ((inputs, service), generator) in inputs.iter_mut().zip(&services).zip(&generators) {
            (inputs.service_cpus, inputs.generator_cpus) = (service, generator);
        }
        run_duet(&inputs, &mut block)
    }

    /// Whether the deployments of a block are loaded alone as well, so that counters of the whole machine can be
    /// attributed to them: in the first blocks of each form they are.
    fn looks_alone(&self, block: &[&PlannedTrial]) -> bool {
        let earlier = |planned: &PlannedTrial| {
            let of_form = self.header.plan.iter().filter(|trial| trial.arm() == planned.arm());
            of_form.filter(|trial| trial.block < planned.again.unwrap_or(planned.block)).count()
        };
        // The baseline is in every block.
        let others = block.iter().filter(|planned| planned.control || planned.form != self.header.study.baseline);
        others.map(|planned| earlier(planned)).min().unwrap_or(usize::MAX) < BLOCKS_ALONE as usize
    }

    pub(crate) fn announce(
        &mut self,
        planned: &PlannedTrial,
        left: Duration,
        context: &mut RunContext,
    ) -> Result<(), Fault> {
        let blocks = context.blocks.max(planned.block + 1);
        let study = &self.header.study;
        // A run that ends by itself has an unknown number of blocks, but a known time limit.
        let most = study.at_most.filter(|_| study.design.ends_by_itself());
        let left = most.map_or(left, |most| left.min(most.saturating_sub(context.spent())));
        let event = Event::TrialStarted { trial: planned.clone(), blocks, left };
        self.tell(context.clock, context.subscriber, &event)
    }

    /// Writes a trial to disk and notes its outcome.
    fn keep(
        &mut self,
        data: &TrialData,
        took: Duration,
        state: &mut Progress,
        context: &mut RunContext,
    ) -> Result<(), Fault> {
        self.record.write_trial(data)?;
        state.note(&self.header.study, &data.record, took);
        self.tell_end(data, context)
    }

    pub(crate) fn tell_end(&mut self, data: &TrialData, context: &mut RunContext) -> Result<(), Fault> {
        let metric = |name: &str| data.record.metrics.get(name).copied();
        let event = Event::TrialEnded {
            trial: data.record.trial.clone(),
            outcome: data.record.outcome.clone(),
            throughput: metric("throughput"),
            p99_us: metric("p99_us"),
        };
        self.tell(context.clock, context.subscriber, &event)
    }

    pub(crate) fn one(&self, planned: &PlannedTrial, state: &Progress, context: &mut RunContext) -> Option<TrialData> {
        context.held = Holding::default();
        if let Some(why) = &self.header.forms[&planned.form].unavailable {
            return Some(skipped(planned, why, context.clock));
        }
        let inputs = self.inputs(planned, state);
        let (subscriber, held, request) = (&mut *context.subscriber, &mut context.held, &mut context.request);
        let stop = context.stop;
        let mut tell = |event: Event| {
            request.tell(stop, subscriber);
            held.note(&event);
            subscriber(&event);
        };
        let ran = run_trial(&inputs, context.apparatus, context.clock, context.stop, &mut tell);
        ran.map(|mut data| {
            take_out(&mut data.record, &self.header.workload.services);
            data
        })
    }

    fn inputs<'a>(&'a self, planned: &'a PlannedTrial, state: &'a Progress) -> TrialInputs<'a> {
        let header = self.header;
        let form = header.study.forms.iter().find(|form| form.name == planned.form);
        let form = form.expect("the plan names only forms of the study");
        let planned_as = planned.again.unwrap_or(planned.block);
        TrialInputs {
            study: &header.study,
            workload: header.study.deployed(&header.workload, form),
            own_ports: false,
            form,
            planned,
            emulated: header.forms[&planned.form].emulated.is_some(),
            nth_of_its_kind: nth_of_its_kind(&header.plan, &header.study.baseline, planned_as),
            // The same seed for every form of a block, so that all of them get the same requests.
            seed: header.seed.wrapping_add(u64::from(planned.block)),
            generator_cpus: &self.generator_cpus,
            service_cpus: &self.service_cpus,
            placement: header.forms[&planned.form].placement.as_ref(),
            probe_resources: !planned.profiled && !state.probed.contains(&planned.form),
            reference_bits: self.bits_by_service(state),
            compare_files: !planned.profiled && !state.files_compared.contains(&planned.form),
            known_peak: state.peaks.get(&planned.arm()).copied(),
            settle_for: if planned.block == 0 { None } else { state.settle_for(header.study.design.steady_within) },
            resting_cpu: state.resting_cpu(&planned.form),
        }
    }

    /// The files that each service had mapped in the first measured trial; its first instance represents all.
    fn bits_by_service(&self, state: &Progress) -> BTreeMap<String, Vec<SeenFile>> {
        let Some((form, mapped)) = &state.bits else { return BTreeMap::new() };
        let form = self.header.study.forms.iter().find(|known| known.name == *form);
        let deployed = form.map(|form| self.header.study.deployed(&self.header.workload, form));
        let services = deployed.iter().flat_map(|workload| &workload.services).rev();
        services.filter_map(|service| Some((service.role().to_owned(), mapped.get(&service.name)?.clone()))).collect()
    }

    pub(crate) fn expected(&self, state: &Progress, trial: &PlannedTrial) -> Duration {
        state.timed.next(&self.header.study, &self.pace, trial)
    }

    /// Reports the beginnings and ends of the run and of trials to the subscriber and to the record. Events within a
    /// trial go to the subscriber only; the trial itself keeps the lengths of its stages, its seconds and its windows.
    fn tell(&mut self, clock: &dyn Clock, subscriber: Subscriber, event: &Event) -> Result<(), Fault> {
        subscriber(event);
        self.record.write_event(&clock.timestamp(), event)
    }
}

fn skipped(planned: &PlannedTrial, why: &Fault, clock: &dyn Clock) -> TrialData {
    let record = TrialRecord::new(planned.clone(), clock.timestamp(), Outcome::Skipped { why: why.clone() });
    TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
}
