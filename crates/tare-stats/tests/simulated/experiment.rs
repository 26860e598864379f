//! Experiments on machines of random numbers: planned as a run is, recorded as a run's record, for `analyse` to judge.

use crate::simulated::noise::{Environment, Random, Setting};
use crate::simulated::records;
use std::time::Duration;
use tare_core::design::{Arrangement, Slices};
use tare_core::load::SecondRow;
use tare_core::plan::{PlannedTrial, plan, slice_order};
use tare_core::record::{Record, Slice, TrialData, TrialRecord};
use tare_core::study::Study;
use tare_core::trial::Outcome;

/// Start-up and warm-up that a deployment costs, s, before anything can be measured.
pub(crate) const START_UP_S: f64 = 150.0;
/// What every further deployment of a block costs when they stand side by side, s.
const FURTHER_S: f64 = 30.0;
/// Operations a second of a deployment to which nothing happens.
const RATE: f64 = 1e5;

/// What is to be simulated.
#[derive(Clone)]
pub(crate) struct Experiment {
    pub(crate) setting: Setting,
    pub(crate) arrangement: Arrangement,
    pub(crate) blocks: u32,
    /// How long each deployment is measured in each block, s.
    pub(crate) measure_s: f64,
    pub(crate) start_up_s: f64,
    /// By form beside the baseline: the true log ratio.
    pub(crate) effects: Vec<f64>,
}

impl Experiment {
    pub(crate) fn new(setting: Setting, arrangement: Arrangement, blocks: u32, measure_s: f64) -> Experiment {
        Experiment { setting, arrangement, blocks, measure_s, start_up_s: START_UP_S, effects: vec![0.0] }
    }

    pub(crate) fn effects(self, effects: &[f64]) -> Experiment {
        Experiment { effects: effects.to_vec(), ..self }
    }

    fn study(&self) -> Study {
        let names: Vec<String> = (0..=self.effects.len()).map(|form| format!("f{form}")).collect();
        let mut study = records::study(&names.iter().map(String::as_str).collect::<Vec<_>>(), self.blocks);
        study.design.arrangement = self.arrangement.clone();
        study.measure = Duration::from_secs_f64(self.measure_s);
        study
    }

    /// How long a block takes, s: every deployment in turn, or all of them side by side.
    pub(crate) fn block_s(&self) -> f64 {
        let arms = self.effects.len() as f64 + 2.0;
        match &self.arrangement {
            Arrangement::Blocks => arms * (self.start_up_s + self.measure_s),
            Arrangement::Duet => self.start_up_s + self.measure_s,
            Arrangement::Alternate(slices) => {
                let rounds = f64::from(slices.rounds(Duration::from_secs_f64(self.measure_s)));
                let slice_s = (slices.settle + slices.measure).as_secs_f64();
                self.start_up_s + (arms - 1.0) * FURTHER_S + arms * rounds * slice_s
            }
            Arrangement::Chop(_) => self.start_up_s + (arms - 1.0) * FURTHER_S + arms * self.measure_s,
        }
    }

    /// How long the whole experiment takes, s.
    pub(crate) fn length_s(&self) -> f64 {
        let rounds = if self.arrangement == Arrangement::Duet { self.effects.len() + 1 } else { 1 };
        f64::from(self.blocks) * self.block_s() * rounds as f64
    }

    /// Carries it out.
    pub(crate) fn carry_out(&self, random: &mut Random) -> Record {
        let study = self.study();
        let seed = (random.uniform() * 1e15) as u64;
        let plan = plan(&study, &[], seed);
        let step_s = if matches!(self.arrangement, Arrangement::Alternate(_)) { 5.0 } else { 15.0 };
        let environment = Environment::draw(random, &self.setting, self.length_s(), step_s);
        let trials = match &self.arrangement {
            Arrangement::Blocks => self.in_turn(&plan, &environment, random),
            Arrangement::Duet => self.duet(&plan, &environment, random),
            Arrangement::Alternate(slices) => self.alternate(&plan, slices, seed, &environment, random),
            Arrangement::Chop(_) => self.chop(&plan, &environment, random),
        };
        records::record(study, plan, trials)
    }

    /// The same trials as in blocks, but all of one form, then all of the next.
    pub(crate) fn one_form_first(&self, random: &mut Random) -> Record {
        let study = self.study();
        let mut plan = plan(&study, &[], 1);
        plan.sort_by_key(PlannedTrial::arm);
        let environment = Environment::draw(random, &self.setting, self.length_s(), 15.0);
        let trials = self.in_turn(&plan, &environment, random);
        records::record(study, plan, trials)
    }

    /// What a deployment's figures differ by throughout: what it is, and what it happened to get.
    fn own(&self, planned: &PlannedTrial, random: &mut Random) -> f64 {
        let form: usize = planned.form[1..].parse().expect("forms are numbered");
        let effect = if form == 0 { 0.0 } else { self.effects[form - 1] };
        effect + self.setting.deployment(random)
    }

    fn in_turn(&self, plan: &[PlannedTrial], environment: &Environment, random: &mut Random) -> Vec<TrialData> {
        let slot_s = self.start_up_s + self.measure_s;
        let trials = plan.iter().enumerate().map(|(place, planned)| {
            let own = self.own(planned, random);
            let from_s = place as f64 * slot_s + self.start_up_s;
            self.trial(
                planned,
                from_s,
                |from, to, random| environment.mean(from, to) + own + self.setting.measurement(random, to - from),
                random,
            )
        });
        trials.collect()
    }

    fn duet(&self, plan: &[PlannedTrial], environment: &Environment, random: &mut Random) -> Vec<TrialData> {
        let half = self.setting.of_one_half();
        let mut halves = || Environment::draw(random, &half, self.length_s(), 15.0);
        let halves = [halves(), halves()];
        let trials = plan.iter().enumerate().map(|(place, planned)| {
            let own = self.own(planned, random);
            let from_s = f64::from(planned.block) * self.block_s() + self.start_up_s;
            self.trial(
                planned,
                from_s,
                |from, to, random| {
                    // A loaded neighbour makes every measurement somewhat less exact.
                    let measurement = 1.3 * self.setting.measurement(random, to - from);
                    environment.mean(from, to) + halves[place % 2].mean(from, to) + own + measurement
                },
                random,
            )
        });
        trials.collect()
    }

    fn alternate(
        &self,
        plan: &[PlannedTrial],
        slices: &Slices,
        seed: u64,
        environment: &Environment,
        random: &mut Random,
    ) -> Vec<TrialData> {
        let rounds = slices.rounds(Duration::from_secs_f64(self.measure_s));
        let (settle_s, measure_s) = (slices.settle.as_secs_f64(), slices.measure.as_secs_f64());
        let arms = self.effects.len() + 2;
        let mut trials: Vec<TrialData> = plan.iter().map(empty).collect();
        for (block, trials) in trials.chunks_mut(arms).enumerate() {
            let own: Vec<f64> = trials.iter().map(|trial| self.own(&trial.record.trial, random)).collect();
            let first_s = block as f64 * self.block_s() + self.start_up_s + (arms - 1) as f64 * FURTHER_S;
            for (place, arm) in slice_order(arms, rounds, block as u32, seed).into_iter().enumerate() {
                let from_s = first_s + place as f64 * (settle_s + measure_s) + settle_s;
                let log = environment.mean(from_s, from_s + measure_s) + own[arm];
                let throughput = RATE * (log + self.setting.measurement(random, measure_s)).exp();
                trials[arm].record.slices.push(Slice {
                    round: (place / arms) as u32,
                    place: place as u32,
                    start_ns: (from_s * 1e9) as u64,
                    end_ns: ((from_s + measure_s) * 1e9) as u64,
                    metrics: [("throughput".to_owned(), throughput)].into(),
                });
            }
        }
        for trial in &mut trials {
            let slices = trial.record.slices.iter();
            let mean = slices.map(|slice| slice.metrics["throughput"]).sum::<f64>() / f64::from(rounds);
            trial.record.metrics.insert("throughput".into(), mean);
        }
        trials
    }

    /// The load moves faster than anything changes: what the machine does meanwhile falls on all forms alike.
    fn chop(&self, plan: &[PlannedTrial], environment: &Environment, random: &mut Random) -> Vec<TrialData> {
        let arms = self.effects.len() + 2;
        let mut trials: Vec<TrialData> = plan.iter().map(empty).collect();
        for (block, trials) in trials.chunks_mut(arms).enumerate() {
            let first_s = block as f64 * self.block_s() + self.start_up_s + (arms - 1) as f64 * FURTHER_S;
            let of_all = environment.mean(first_s, first_s + arms as f64 * self.measure_s);
            for trial in trials {
                let own = self.own(&trial.record.trial, random);
                let throughput = RATE * (of_all + own + self.setting.measurement(random, self.measure_s)).exp();
                trial.record.metrics.insert("throughput".into(), throughput);
            }
        }
        trials
    }

    /// A trial that is measured from `from_s` on, in rows of 15 s whose logs `log` draws.
    fn trial(
        &self,
        planned: &PlannedTrial,
        from_s: f64,
        log: impl Fn(f64, f64, &mut Random) -> f64,
        random: &mut Random,
    ) -> TrialData {
        let mut data = empty(planned);
        let (mut at_s, mut total) = (from_s, 0);
        while at_s < from_s + self.measure_s - 1e-6 {
            let seconds = (from_s + self.measure_s - at_s).min(15.0);
            let operations = (RATE * seconds * log(at_s, at_s + seconds, random).exp()).round() as u64;
            at_s += seconds;
            total += operations;
            let at_ns = (at_s * 1e9) as u64;
            data.seconds.push(SecondRow { at_ns, measured: true, seconds, operations, ..SecondRow::default() });
        }
        data.record.metrics.insert("throughput".into(), total as f64 / self.measure_s);
        data
    }
}

pub(crate) fn empty(planned: &PlannedTrial) -> TrialData {
    let record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
    TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
}
