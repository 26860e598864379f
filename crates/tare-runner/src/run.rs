//! A run: the plan carried out, block by block.

use crate::trial::{TrialInputs, run_trial};
use crate::{Apparatus, Clock, Event, RecordDir, Stop, Subscriber};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::host::MappedFile;
use tare_core::plan::PlannedTrial;
use tare_core::record::{End, Header, TrialData, TrialRecord};
use tare_core::study::Study;
use tare_core::trial::Outcome;
use tare_core::units::CpuSet;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Every trial of the plan is on disk.
    Complete,
    /// The user asked for the end.
    Interrupted,
    /// Another block would have gone beyond the time given.
    BudgetSpent,
}

impl Ending {
    /// As the record says it.
    pub fn word(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Interrupted => "interrupted",
            Ending::BudgetSpent => "budget spent",
        }
    }
}

/// A run about to be carried out.
pub struct Run<'a> {
    /// What to do, and under which conditions.
    pub header: &'a Header,
    /// CPUs of the load.
    pub generator_cpus: CpuSet,
    /// CPUs of the system under test.
    pub service_cpus: CpuSet,
    /// Where it is kept.
    pub record: RecordDir,
    /// The trials on disk already, when a run goes on.
    pub done: Vec<TrialRecord>,
}

/// What a trial takes beyond settling and measuring, until one of its form was timed: deployment and the rest.
const OVERHEAD_GUESS: Duration = Duration::from_secs(3);
/// The same for a form whose host is emulated.
const OVERHEAD_GUESS_EMULATED: Duration = Duration::from_secs(45);

/// How long these trials will take, by a guess: for a dry run.
pub fn estimate(study: &Study, plan: &[PlannedTrial], emulated: &[String]) -> Duration {
    plan.iter().map(|trial| guess(study, emulated.contains(&trial.form))).sum()
}

fn guess(study: &Study, emulated: bool) -> Duration {
    let overhead = if emulated { OVERHEAD_GUESS_EMULATED } else { OVERHEAD_GUESS };
    study.settle + study.measure + overhead
}

impl Run<'_> {
    /// Carries out what of the plan is not on disk yet. A trial that fails is a row; the others go on.
    ///
    /// # Errors
    /// Only when the record cannot be written: then nothing more can be kept, so nothing more is done.
    pub fn carry_out(
        mut self,
        apparatus: &mut dyn Apparatus,
        clock: &dyn Clock,
        stop: &Stop,
        subscriber: Subscriber,
    ) -> Result<Ending, Fault> {
        let began = clock.now();
        self.record.reopen()?;
        let mut state = Progress::from(&self.done);
        let trials = self.header.plan.len() as u32;
        self.tell(clock, subscriber, &Event::RunStarted { trials, done: self.done.len() as u32 })?;
        let plan = self.header.plan.clone();
        let mut ending = Ending::Complete;
        let mut block = None;
        for (at, planned) in plan.iter().enumerate() {
            if self.record.has_trial(planned.index) {
                continue;
            }
            if stop.raised() {
                ending = Ending::Interrupted;
                break;
            }
            if block != Some(planned.block) {
                block = Some(planned.block);
                let rest = plan[at..].iter().filter(|trial| trial.block == planned.block);
                let needed: Duration = rest.map(|trial| self.expected(&state, trial)).sum();
                let spent = clock.now().saturating_sub(began);
                let over = self.header.study.at_most.is_some_and(|most| spent + needed > most);
                if over && !state.expected.is_empty() {
                    ending = Ending::BudgetSpent;
                    break;
                }
            }
            let left = plan[at..].iter().map(|trial| self.expected(&state, trial)).sum();
            let blocks = self.header.study.repeat;
            self.tell(clock, subscriber, &Event::TrialStarted { trial: planned.clone(), blocks, left })?;
            let trial_began = clock.now();
            let Some(data) = self.one(planned, &state, apparatus, clock, stop, subscriber) else {
                ending = Ending::Interrupted;
                break;
            };
            self.record.write_trial(&data)?;
            state.note(&data.record, clock.now().saturating_sub(trial_began));
            let metric = |name: &str| data.record.metrics.get(name).copied();
            let event = Event::TrialEnded {
                trial: planned.clone(),
                outcome: data.record.outcome.clone(),
                throughput: metric("throughput"),
                p99_us: metric("p99_us"),
            };
            self.tell(clock, subscriber, &event)?;
        }
        self.record.write_end(&End { ended: clock.timestamp(), how: ending.word().to_owned() })?;
        self.tell(clock, subscriber, &Event::RunEnded { how: ending.word().to_owned() })?;
        Ok(ending)
    }

    fn one(
        &self,
        planned: &PlannedTrial,
        state: &Progress,
        apparatus: &mut dyn Apparatus,
        clock: &dyn Clock,
        stop: &Stop,
        subscriber: Subscriber,
    ) -> Option<TrialData> {
        let header = self.header;
        let form_state = &header.forms[&planned.form];
        if let Some(why) = &form_state.unavailable {
            return Some(skipped(planned, why, clock));
        }
        let form = header.study.forms.iter().find(|form| form.name == planned.form);
        let inputs = TrialInputs {
            study: &header.study,
            workload: &header.workload,
            form: form.expect("the plan names only forms of the study"),
            planned,
            emulated: form_state.emulated.is_some(),
            // The same seed for every form of a block, so that all of them are asked the same things.
            seed: header.seed.wrapping_add(u64::from(planned.block)),
            generator_cpus: &self.generator_cpus,
            service_cpus: &self.service_cpus,
            probe_resources: !state.probed.contains(&planned.form),
            reference_bits: &state.bits,
            known_peak: state.peaks.get(&planned.form).copied(),
        };
        run_trial(&inputs, apparatus, clock, stop, &mut |event| subscriber(&event))
    }

    fn expected(&self, state: &Progress, trial: &PlannedTrial) -> Duration {
        let form = &self.header.forms[&trial.form];
        if form.unavailable.is_some() {
            return Duration::ZERO;
        }
        let timed = state.expected.get(&trial.form).copied();
        timed.unwrap_or_else(|| guess(&self.header.study, form.emulated.is_some()))
    }

    /// Tells the subscriber, and the record unless it is a second of load, which the trial keeps itself.
    fn tell(&mut self, clock: &dyn Clock, subscriber: Subscriber, event: &Event) -> Result<(), Fault> {
        subscriber(event);
        self.record.write_event(&clock.timestamp(), event)
    }
}

fn skipped(planned: &PlannedTrial, why: &Fault, clock: &dyn Clock) -> TrialData {
    let record = TrialRecord::new(planned.clone(), clock.timestamp(), Outcome::Skipped { why: why.clone() });
    TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
}

/// What the trials so far have taught.
#[derive(Default)]
struct Progress {
    /// How long the last trial of each form took.
    expected: BTreeMap<String, Duration>,
    /// Forms whose resources were read.
    probed: BTreeSet<String>,
    /// The peak that the last search of each form found.
    peaks: BTreeMap<String, f64>,
    /// What the services had mapped in the first measured trial.
    bits: BTreeMap<String, Vec<MappedFile>>,
}

impl Progress {
    fn from(done: &[TrialRecord]) -> Progress {
        let mut progress = Progress::default();
        for record in done {
            let took = Duration::from_secs_f64(record.stages.values().sum::<f64>().max(0.0));
            progress.note(record, took);
        }
        progress
    }

    fn note(&mut self, record: &TrialRecord, took: Duration) {
        if !matches!(record.outcome, Outcome::Skipped { .. }) {
            self.expected.insert(record.trial.form.clone(), took);
        }
        if let Some(peak) = record.peak.as_ref().and_then(|outcome| outcome.peak) {
            self.peaks.insert(record.trial.form.clone(), peak);
        }
        if !record.resources.is_empty() {
            self.probed.insert(record.trial.form.clone());
        }
        if record.outcome == Outcome::Measured && self.bits.is_empty() {
            self.bits.clone_from(&record.mapped);
        }
    }
}
