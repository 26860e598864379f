//! A trial from stage to stage: provision, deploy, populate, settle, measure, verify, teardown.

use crate::bits;
use crate::deploying::path_of_all;
use crate::keeping::{Holding, hold, standing};
use crate::peak::GuidedSearch;
use crate::placing::{ran_on, starts, strayed};
use crate::probe_rests::{probe_rests, rest_half};
use crate::trial::{Early, Entry, PROBE_PERIOD, Trial, TrialInputs, with_end_explained};
use crate::{Apparatus, Clock, Event, Stop};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::host::{Host, Instance, InstanceState, OpenError, SeenFile, ServiceStart, Wait};
use tare_core::load::{Check, LoadSummary, LoadTask, NO_LOCAL_PORT};
use tare_core::peak::{PeakNote, PeakPlan};
use tare_core::record::{FAILED_SHARE, PEAK_LOAD, TrialData};
use tare_core::trial::{Outcome, Stage};
use tare_core::workload::{Replica, Service};
use tare_stats::{OffShare, TrialFigures};

/// How long populating may take: hundreds of millions of keys take long. A service that no longer answers is noticed
/// much sooner, by the load process.
const POPULATE_LIMIT: Duration = Duration::from_secs(3600);
/// The share of operations that may fail because of the generator; with more, the trial says nothing about the service.
const OWN_SHARE_MAX: f64 = 0.01;

/// Runs one trial. `None` if it was stopped: it then leaves no row, and a resumed run repeats it.
pub(crate) fn run_trial(
    inputs: &TrialInputs,
    apparatus: &mut dyn Apparatus,
    clock: &dyn Clock,
    stop: &Stop,
    tell: &mut dyn FnMut(Event),
) -> Option<TrialData> {
    let mut data = inputs.begin(clock.timestamp());
    let (stage, stage_began) = (Stage::Provision, clock.now());
    let mut held = Holding::default();
    let tell = &mut |event: Event| {
        held.note(&event);
        tell(event);
    };
    Trial { inputs, apparatus, clock, stop, tell, data: &mut data, stage, stage_began }.whole();
    // A trial measured before the stop is kept, and so is one kept standing, which had failed before it; one that the
    // stop cut short would be mistaken for a failure.
    let whole = data.record.load.is_some() || held.any();
    if stop.raised() && !whole { None } else { Some(data) }
}

impl Trial<'_, '_> {
    /// Carries out all stages.
    fn whole(&mut self) {
        self.stage_began = self.clock.now();
        (self.tell)(Event::StageStarted { stage: Stage::Provision });
        let starts = starts(self.inputs);
        let letter = if self.inputs.planned.profiled { 'p' } else { 't' };
        let label = format!("{letter}{}", self.inputs.planned.index);
        let mut host = match self.apparatus.open_form(&label, self.inputs.form, &starts) {
            Ok(host) => host,
            Err(error) => {
                self.end(match error {
                    OpenError::Unavailable(why) => Early::Unavailable(why),
                    OpenError::Failed(why) => Early::Failed(why),
                });
                return;
            }
        };
        let mut started = Vec::new();
        if let Err(early) = self.up_to_verify(host.as_mut(), &starts, &mut started) {
            self.keep_logs(host.as_mut(), &started);
            self.end(early);
        } else if self.data.record.outcome != Outcome::Measured {
            self.keep_logs(host.as_mut(), &started);
        }
        self.hold_failed(host.as_mut(), &started);
        self.take_down(host, &started);
    }

    /// Keeps the deployment of a failed trial standing until a person has looked into it, if the apparatus does that.
    fn hold_failed(&mut self, host: &mut dyn Host, started: &[Instance]) {
        if !self.apparatus.keeps_failed() || self.stop.raised() {
            return;
        }
        let Some(deployment) = standing(self.inputs, self.data, host, started) else { return };
        self.leave();
        hold(vec![deployment], self.apparatus, self.clock, self.stop, self.tell);
        // That time belongs to no stage.
        self.stage_began = self.clock.now();
    }

    /// Deploys and populates, and returns where load enters.
    pub(crate) fn stand_up(
        &mut self,
        host: &mut dyn Host,
        starts: &[ServiceStart],
        started: &mut Vec<Instance>,
    ) -> Result<Vec<Entry>, Early> {
        self.data.record.facts = host.facts()?;
        if self.inputs.probe_resources {
            // Instances of a service get the same resources, so the first represents all.
            let first = |start: &&ServiceStart| start.service.replica.as_ref().is_none_or(Replica::is_first);
            for start in starts.iter().filter(first) {
                let report = host.resources(start)?;
                self.data.record.resources.insert(start.instance.clone(), report);
            }
        }
        self.enter(Stage::Deploy);
        let entries = self.deploy_prepared(host, starts, started)?;
        self.enter(Stage::Populate);
        for entry in &entries {
            let plan = self.load_plan(entry, LoadTask::Populate);
            self.drive(host, entry, &plan, POPULATE_LIMIT).map_err(|fault| self.blame(host, started, fault))?;
        }
        Ok(entries)
    }

    fn up_to_verify(
        &mut self,
        host: &mut dyn Host,
        starts: &[ServiceStart],
        started: &mut Vec<Instance>,
    ) -> Result<(), Early> {
        let entries = self.stand_up(host, starts, started)?;
        let entry = &entries[0];
        self.enter(Stage::Settle);
        if let Some(within) = self.inputs.study.design.steady_within {
            self.settle(host, entry, within).map_err(|fault| self.blame(host, started, fault))?;
        }
        host.begin_probe(&[], PROBE_PERIOD)?;
        let half = rest_half(self.inputs.run_seed(), self.inputs.nth_of_its_kind);
        if let rests @ [_, ..] = probe_rests(self.inputs.study, self.inputs.planned, half).as_slice() {
            host.rest_probe(rests)?;
            self.data.record.rest_half = Some(half);
        }
        if self.inputs.planned.profiled {
            host.begin_profile(&[])?;
        }
        let driven = match &self.inputs.study.peak {
            Some(plan) => self.search(entry, plan),
            None if entries.len() > 1 => self.run_together(&entries),
            None => self.run(host, entry, &self.load_plan(entry, LoadTask::Run)),
        };
        let probed = host.end_probe();
        let load = match driven {
            Ok(load) => load,
            Err(fault) => return Err(Early::Failed(self.blame(host, started, fault))),
        };
        self.data.telemetry = probed?;
        if self.inputs.planned.profiled {
            let profile = host.end_profile(load.measure_start_ns, load.measure_end_ns)?;
            self.data.record.profile = Some(profile);
        }
        self.enter(Stage::Verify);
        let figures = tare_stats::trial_metrics(&load, &self.data.telemetry);
        self.verify(host, started, load, figures)
    }

    /// Searches for the peak: guides the load until the search is done.
    fn search(&mut self, entry: &Entry, plan: &PeakPlan) -> Result<LoadSummary, Fault> {
        self.enter(Stage::Measure);
        let qos = self.inputs.study.qos.as_ref().expect("a study with a peak was read with a QoS");
        let load_plan = self.load_plan(entry, LoadTask::Run);
        let mut search = GuidedSearch::begin(plan, qos, self.inputs.known_peak);
        let tell = std::cell::RefCell::new(&mut *self.tell);
        let data = &mut self.data;
        let summary = self.apparatus.guide(
            &load_plan,
            GuidedSearch::patience(plan),
            self.stop,
            &mut |row| {
                data.seconds.push(row.clone());
                tell.borrow_mut()(Event::Second { row: row.clone() });
            },
            &mut |row| {
                let order = search.next(row);
                if let Some(window) = search.last_window() {
                    tell.borrow_mut()(Event::Held { window, unit: plan.unit.clone() });
                }
                order
            },
        )?;
        let mut outcome = search.outcome().ok_or_else(|| Fault::new("the load ended before the search did"))?;
        let off = tare_stats::off_shares(qos, &summary).into_iter();
        let note = |OffShare { operation, asked, had }| PeakNote::MixOff { operation, asked, had };
        outcome.notes.extend(off.map(note));
        tell.borrow_mut()(Event::Searched { words: outcome.describe() });
        data.record.peak = Some(outcome);
        Ok(summary)
    }

    /// Checks whether the measurement may be used. `figures` are its figures, or why there are none. Failures of the
    /// service are part of the result; only failures of the apparatus, and doubts about the result, void it.
    pub(crate) fn verify(
        &mut self,
        host: &mut dyn Host,
        started: &[Instance],
        load: LoadSummary,
        figures: Result<TrialFigures, String>,
    ) -> Result<(), Early> {
        let (mut voids, stop) = (Vec::new(), self.stop);
        for instance in started {
            let name = &instance.instance;
            if self.is_over(name) {
                continue;
            }
            if let InstanceState::Ended(how) = host.state(name)? {
                let fault = Fault::new(format!("service {name} ended under load: {how}"));
                self.data.record.service_ended = Some(name.clone());
                let fault = with_end_explained(fault, &how);
                return Err(fault.with_log(host.log(name).unwrap_or_default()).into());
            }
            let mapped = host.mapped_files(name, Wait::until(&|| stop.raised()))?;
            let service = self.inputs.workload.services.iter().find(|service| service.name == *name);
            let role = service.map_or(name.as_str(), Service::role);
            // Where the form shows none, there is nothing to compare.
            let differs = |bits: &&Vec<SeenFile>| !mapped.is_empty() && **bits != mapped;
            if let Some(reference) = self.inputs.reference_bits.get(role).filter(differs) {
                let difference = bits::differ(reference, &mapped);
                voids.push(format!("service {name} runs different files from the first trial: {difference}"));
            }
            self.data.record.mapped.insert(name.clone(), mapped);
            let compared = |service: &&Service| {
                self.inputs.compare_files && service.replica.as_ref().is_none_or(Replica::is_first)
            };
            if let Some(service) = service.filter(compared) {
                bits::against_bundle(host, service, stop, &mut self.data.record)?;
            }
            let ran_on = ran_on(name, &self.data.telemetry);
            voids.extend(strayed(instance, &ran_on));
            self.data.record.ran_on.insert(name.clone(), ran_on);
        }
        self.data.record.path = path_of_all(started);
        if self.data.record.peak.is_some() {
            self.verify_peak(load, voids);
            return Ok(());
        }
        voids.extend(load.saturated.iter().map(|why| format!("the generator was the limit: {why}")));
        let failed = load.checks.iter().filter(|check| !check.passed);
        let (outcomes, broken): (Vec<_>, Vec<_>) = failed.partition(|check| check.outcome);
        let say = |check: &&Check| format!("check '{}' failed: {}", check.name, check.detail);
        voids.extend(broken.iter().map(say));
        self.data.record.warnings.extend(outcomes.iter().map(say));
        match figures {
            Ok(figures) => (self.data.record.metrics, self.data.record.at_least) = (figures.metrics, figures.at_least),
            Err(why) => voids.push(why),
        }
        let (own, failed) = failures(&load, self.data.record.metrics.get(FAILED_SHARE).copied());
        voids.extend(own);
        self.data.record.warnings.extend(failed);
        self.data.record.load = Some(load);
        if voids.is_empty() {
            self.data.record.logs.clear();
        } else {
            self.data.record.outcome = Outcome::Invalid { why: Fault::new(voids.join("; ")) };
            self.data.record.metrics.clear();
            self.data.record.at_least.clear();
        }
        Ok(())
    }

    /// A search overloads the service on purpose, so failed checks void it only if they must always hold. A search that
    /// found no peak is void.
    fn verify_peak(&mut self, load: LoadSummary, mut voids: Vec<String>) {
        let (broken, strained) = failed_beyond_peak(&load.checks);
        voids.extend(broken);
        self.data.record.warnings.extend(strained);
        self.data.record.load = Some(load);
        let outcome = self.data.record.peak.as_ref().expect("it was asked before");
        self.data.record.warnings.extend(outcome.warnings.iter().cloned());
        match outcome.peak {
            Some(peak) => self.data.record.metrics = [(PEAK_LOAD.to_owned(), peak)].into(),
            None => voids.push(outcome.describe()),
        }
        if voids.is_empty() {
            self.data.record.logs.clear();
        } else {
            let fault = Fault::new(voids.join("; ")).remedy(outcome.remedy());
            self.data.record.outcome = Outcome::Invalid { why: fault };
            self.data.record.metrics.clear();
        }
    }
}

/// What failed operations, of this share, mean: the reason to void the trial, if any, and a warning.
fn failures(load: &LoadSummary, share: Option<f64>) -> (Option<String>, Option<String>) {
    let Some(share) = share.filter(|share| *share > 0.0) else { return (None, None) };
    let mut kinds: Vec<String> = load.failures.iter().map(|(kind, n)| format!("{n} x {kind}")).collect();
    if load.dropped > 0 {
        kinds.push(format!("{} x dropped", load.dropped));
    }
    let said = format!("{:.4} % of the operations failed: {}", share * 100.0, kinds.join(", "));
    let begun: u64 = load.operations.values().map(|operation| operation.count + operation.errors).sum();
    let own = load.failures.get(NO_LOCAL_PORT).copied().unwrap_or(0);
    let own = (own as f64 > OWN_SHARE_MAX * begun as f64).then(|| {
        format!("{own} of {begun} operations failed because the generator had {NO_LOCAL_PORT}: keep connections open")
    });
    (own, Some(said))
}

/// The failed checks that void a search, and those that only warn.
fn failed_beyond_peak(checks: &[Check]) -> (Vec<String>, Vec<String>) {
    let (broken, strained): (Vec<_>, Vec<_>) =
        checks.iter().filter(|check| !check.passed).partition(|check| check.always);
    let say = |checks: Vec<&Check>, when: &str| {
        checks.iter().map(|check| format!("check '{}' failed{when}: {}", check.name, check.detail)).collect()
    };
    (say(broken, ""), say(strained, " beyond the peak"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::OperationSummary;

    #[test]
    fn what_must_hold_always_voids_a_search_too() {
        let check = |name: &str, passed: bool, always: bool| Check {
            name: name.into(),
            passed,
            detail: "3, not 4".into(),
            always,
            outcome: false,
        };
        let checks = [
            check("counts", false, false),
            check("bids", false, true),
            check("a", true, false),
            check("b", true, true),
        ];
        let (broken, strained) = failed_beyond_peak(&checks);
        assert_eq!(broken, ["check 'bids' failed: 3, not 4"]);
        assert_eq!(strained, ["check 'counts' failed beyond the peak: 3, not 4"]);
    }

    #[test]
    fn only_what_the_generator_failed_at_voids() {
        let load = |kind: &str, errors: u64| LoadSummary {
            failures: [(kind.to_owned(), errors)].into(),
            operations: [("get".to_owned(), OperationSummary { count: 90, errors, ..Default::default() })].into(),
            ..LoadSummary::default()
        };
        let (own, said) = failures(&load("timed out", 10), Some(0.1));
        assert_eq!((own, said.as_deref()), (None, Some("10.0000 % of the operations failed: 10 x timed out")));
        assert!(failures(&load(NO_LOCAL_PORT, 10), Some(0.1)).0.unwrap().contains("10 of 100"));
        assert_eq!(failures(&load(NO_LOCAL_PORT, 0), Some(0.0)), (None, None));
    }
}
