//! A trial under way: its inputs, its stage, how its load is driven, how it ends.

use crate::inside::inside;
use crate::{Apparatus, Clock, Event, Stop};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tare_core::command::Ended;
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::host::{Host, Instance, InstanceState, SeenFile};
use tare_core::load::{LoadPlan, LoadSummary};
use tare_core::placement::Placement;
use tare_core::plan::PlannedTrial;
use tare_core::record::{TrialData, TrialRecord};
use tare_core::study::Study;
use tare_core::trial::{Outcome, Stage};
use tare_core::units::CpuSet;
use tare_core::workload::Workload;

/// How a warning about what was left behind begins.
pub(crate) const LEFT: &str = "teardown: ";

/// How much longer than its load a load process may take: for connecting, draining, verifying.
pub(crate) const DRIVE_SLACK: Duration = Duration::from_secs(60);
/// How much longer everything may take in an emulated guest, which is an order of magnitude slower than a machine.
const EMULATED_SLOWDOWN: u32 = 10;
/// How often telemetry is read.
pub(crate) const PROBE_PERIOD: Duration = Duration::from_secs(1);

/// The inputs of a trial.
pub(crate) struct TrialInputs<'a> {
    pub(crate) study: &'a Study,
    /// As deployed in this form: every instance is a service of its own.
    pub(crate) workload: Workload,
    /// Whether it has ports that no other form of its block uses.
    pub(crate) own_ports: bool,
    pub(crate) form: &'a Form,
    pub(crate) planned: &'a PlannedTrial,
    pub(crate) emulated: bool,
    /// How many earlier blocks of the plan are of the kind of its block, or of the block that this one runs again.
    pub(crate) nth_of_its_kind: u32,
    /// The run's seed plus the number of the block.
    pub(crate) seed: u64,
    pub(crate) generator_cpus: &'a CpuSet,
    pub(crate) service_cpus: &'a CpuSet,
    /// Where services run. Without it, each gets as many of the first service CPUs as it asks for.
    pub(crate) placement: Option<&'a Placement>,
    /// Whether the resource probe runs: in the first trial of each form.
    pub(crate) probe_resources: bool,
    /// The files that each service had mapped in the first measured trial of the run.
    pub(crate) reference_bits: BTreeMap<String, Vec<SeenFile>>,
    /// Whether the files that services see are compared with their bundles: in the first measured trial of each form.
    pub(crate) compare_files: bool,
    /// The peak that the arm's last search found.
    pub(crate) known_peak: Option<f64>,
    /// How long to settle until steady, as found by the first block; none in that block, whose trials find it.
    pub(crate) settle_for: Option<Duration>,
    /// The share of a CPU that its services use while others are loaded, if earlier trials have measured it.
    pub(crate) resting_cpu: Option<f64>,
}

impl TrialInputs<'_> {
    /// The seed of all blocks.
    pub(crate) fn run_seed(&self) -> u64 {
        self.seed.wrapping_sub(u64::from(self.planned.block))
    }

    /// The trial before anything of it has happened.
    pub(crate) fn begin(&self, timestamp: String) -> TrialData {
        let mut record = TrialRecord::new(self.planned.clone(), timestamp, Outcome::Measured);
        record.emulated = self.emulated;
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    }
}

/// How long to wait for the load process of a plan.
pub(crate) fn drive_limit(plan: &LoadPlan) -> Duration {
    plan.settle + plan.measure + plan.timeout + DRIVE_SLACK
}

/// Why a trial ended early.
pub(crate) enum Early {
    /// It failed in its current stage.
    Failed(Fault),
    /// This machine cannot have the form.
    Unavailable(Fault),
}

impl From<Fault> for Early {
    fn from(fault: Fault) -> Self {
        Early::Failed(fault)
    }
}

pub(crate) fn no_address(port: &str) -> Early {
    Fault::new(format!("the form has no address for port '{port}'")).into()
}

/// Where load enters a deployment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The instance that is loaded.
    pub(crate) instance: String,
    /// Its address; [`LoadPlan::NOWHERE`] for a load that uses no port.
    pub(crate) endpoint: SocketAddr,
    /// See [`LoadPlan::also`].
    pub(crate) also: Vec<SocketAddr>,
    /// See [`LoadPlan::services`].
    pub(crate) services: BTreeMap<String, Vec<SocketAddr>>,
}

/// A trial under way.
pub(crate) struct Trial<'a, 'b> {
    pub(crate) inputs: &'a TrialInputs<'b>,
    pub(crate) apparatus: &'a mut dyn Apparatus,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) stop: &'a Stop,
    pub(crate) tell: &'a mut dyn FnMut(Event),
    pub(crate) data: &'a mut TrialData,
    pub(crate) stage: Stage,
    pub(crate) stage_began: Duration,
}

/// Adds what to do about a service that has ended as if its work were done.
pub(crate) fn with_end_explained(fault: Fault, how: &str) -> Fault {
    if *how != Ended::Exit(0).to_string() {
        return fault;
    }
    fault.remedy("if it is to do its work and end before the next service starts, write `ready: {ended: true}` for it")
}

impl Trial<'_, '_> {
    /// How much longer than on a plain machine everything may take.
    pub(crate) fn slowdown(&self) -> u32 {
        if self.inputs.emulated { EMULATED_SLOWDOWN } else { 1 }
    }

    /// Whether a service has done its work and ended, so that its host knows it no more.
    pub(crate) fn is_over(&self, instance: &str) -> bool {
        self.data.record.finished.contains_key(instance)
    }

    /// Stops all services, closes the host and waits until nothing is left.
    pub(crate) fn take_down(&mut self, mut host: Box<dyn Host>, started: &[Instance]) {
        self.enter(Stage::Teardown);
        // In reverse order: a service may need those that were started before it.
        for instance in started.iter().rev() {
            if self.is_over(&instance.instance) {
                continue;
            }
            if let Err(fault) = host.stop(&instance.instance) {
                self.data.record.warnings.push(format!("{LEFT}{fault}"));
            }
        }
        if let Err(fault) = host.close() {
            self.data.record.warnings.push(format!("{LEFT}{fault}"));
        }
        self.leave();
    }

    /// Loads and measures, and waits for as long as that may take.
    pub(crate) fn run(&mut self, host: &mut dyn Host, entry: &Entry, plan: &LoadPlan) -> Result<LoadSummary, Fault> {
        self.drive(host, entry, plan, drive_limit(plan))
    }

    pub(crate) fn drive(
        &mut self,
        host: &mut dyn Host,
        entry: &Entry,
        plan: &LoadPlan,
        limit: Duration,
    ) -> Result<LoadSummary, Fault> {
        let (stage, stage_began) = (&mut self.stage, &mut self.stage_began);
        let (clock, tell, data) = (self.clock, &mut *self.tell, &mut self.data);
        let mut inside = inside(host, &entry.instance, self.stop);
        self.apparatus.drive(plan, limit, self.stop, &mut inside, &mut |row| {
            if row.measured && *stage == Stage::Settle {
                let now = clock.now();
                spend(data, Stage::Settle, now.saturating_sub(*stage_began));
                (*stage, *stage_began) = (Stage::Measure, now);
                tell(Event::StageStarted { stage: Stage::Measure });
            }
            data.seconds.push(row.clone());
            tell(Event::Second { row: row.clone() });
        })
    }

    /// When a load fails, the cause is usually on the other side: reports it if it is visible.
    pub(crate) fn blame(&mut self, host: &mut dyn Host, started: &[Instance], fault: Fault) -> Fault {
        for instance in started {
            if self.is_over(&instance.instance) {
                continue;
            }
            match host.state(&instance.instance) {
                Ok(InstanceState::Ended(how)) => {
                    let log = host.log(&instance.instance).unwrap_or_default();
                    let what = format!("service {} ended under load: {how}", instance.instance);
                    self.data.record.service_ended = Some(instance.instance.clone());
                    let fault = Fault::new(format!("{what} (the load process says: {})", fault.message));
                    return with_end_explained(fault, &how).with_log(log);
                }
                Ok(InstanceState::Running) => {}
                Err(gone) => return gone.context(fault.message),
            }
        }
        fault
    }

    pub(crate) fn keep_logs(&mut self, host: &mut dyn Host, started: &[Instance]) {
        for instance in started {
            // The output of one that is over was kept when it ended.
            if self.is_over(&instance.instance) {
                continue;
            }
            if let Ok(log) = host.log(&instance.instance) {
                self.data.record.logs.insert(instance.instance.clone(), log);
            }
        }
    }

    pub(crate) fn end(&mut self, early: Early) {
        self.data.record.metrics.clear();
        self.data.record.at_least.clear();
        self.data.record.outcome = match early {
            Early::Failed(why) => Outcome::Failed { stage: self.stage, why },
            Early::Unavailable(why) => Outcome::Skipped { why },
        };
    }

    pub(crate) fn enter(&mut self, stage: Stage) {
        self.leave();
        self.stage = stage;
        (self.tell)(Event::StageStarted { stage });
    }

    /// Notes that another stage began at an earlier moment.
    pub(crate) fn pass_to(&mut self, stage: Stage, began: Duration) {
        spend(self.data, self.stage, began.saturating_sub(self.stage_began));
        (self.stage, self.stage_began) = (stage, began);
    }

    pub(crate) fn leave(&mut self) {
        let now = self.clock.now();
        spend(self.data, self.stage, now.saturating_sub(self.stage_began));
        self.stage_began = now;
    }
}

/// Adds to the time of a stage, which may be entered more than once.
fn spend(data: &mut TrialData, stage: Stage, time: Duration) {
    *data.record.stages.entry(stage).or_default() += time.as_secs_f64();
}
