//! Several instances of one deployment loaded at the same time, each by a process of its own.

use crate::Event;
use crate::trial::{Entry, Trial, drive_limit};
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary, LoadTask, SecondRow};
use tare_core::record::FAIRNESS;
use tare_core::trial::Stage;
use tare_core::units::CpuSet;

/// The metrics kept for each instance.
const KEPT: [&str; 4] = ["throughput", "p50_us", "p99_us", "failed_share"];

/// The generator's CPUs for each of `count` load processes: disjoint if there are enough, else one each in turn.
pub(crate) fn shares(cpus: &CpuSet, count: usize) -> Vec<CpuSet> {
    let all = cpus.cpus();
    if all.is_empty() {
        return vec![CpuSet::default(); count];
    }
    let each = (all.len() / count).max(1);
    let share = |at: usize| CpuSet::new(all.iter().copied().cycle().skip(at * each % all.len()).take(each));
    (0..count).map(share).collect()
}

impl Trial<'_, '_> {
    /// The plans, one for each entry: the same load with different requests, each on its own CPUs.
    fn plans(&self, entries: &[Entry]) -> Vec<LoadPlan> {
        let shares = shares(self.inputs.generator_cpus, entries.len());
        let plan = |(at, (entry, cpus)): (usize, (&Entry, CpuSet))| {
            let plan = self.load_plan(entry, LoadTask::Run);
            LoadPlan { cpus, seed: plan.seed.wrapping_add((at as u64) << 40), ..plan }
        };
        entries.iter().zip(shares).enumerate().map(plan).collect()
    }

    /// Loads and measures all of them, keeps the result of each, and returns the sum.
    pub(crate) fn run_together(&mut self, entries: &[Entry]) -> Result<LoadSummary, Fault> {
        let plans = self.plans(entries);
        let limit = drive_limit(&plans[0]);
        let mut seconds: Vec<Vec<SecondRow>> = vec![Vec::new(); entries.len()];
        let (tell, mut measuring) = (&mut *self.tell, None);
        let clock = self.clock;
        let driven = self.apparatus.drive_all(&plans, limit, self.stop, Vec::new(), &mut |at, row| {
            if at == 0 {
                if row.measured && measuring.is_none() {
                    measuring = Some(clock.now());
                    tell(Event::StageStarted { stage: Stage::Measure });
                }
                tell(Event::Second { row: row.clone() });
            }
            seconds[at].push(row.clone());
        });
        if let Some(began) = measuring {
            self.pass_to(Stage::Measure, began);
        }
        self.data.seconds.extend(added(&seconds));
        let mut loads = Vec::new();
        for (entry, driven) in entries.iter().zip(driven) {
            let name = &entry.instance;
            let mut load = driven.map_err(|fault| fault.context(format!("the load at {name}")))?;
            for check in &mut load.checks {
                check.name = format!("{name}: {}", check.name);
            }
            load.saturated = load.saturated.map(|why| format!("{why} (at {name})"));
            let metrics = tare_stats::trial_metrics(&load, &[]);
            let metrics = metrics.map_err(|why| Fault::new(format!("instance {name}: {why}")))?.metrics;
            let kept = KEPT.iter().filter_map(|metric| Some(((*metric).to_owned(), *metrics.get(*metric)?)));
            self.data.record.instances.insert(name.clone(), kept.collect());
            loads.push(load);
        }
        let mut all = tare_stats::side_by_side(&loads).map_err(Fault::new)?;
        let throughputs = self.data.record.instances.values().filter_map(|metrics| metrics.get("throughput").copied());
        let fairness = tare_stats::fairness(&throughputs.collect::<Vec<_>>());
        all.metrics.extend(fairness.map(|fairness| (FAIRNESS.to_owned(), fairness)));
        Ok(all)
    }
}

/// The seconds of all instances as those of one: counts are added, of times the worst is taken.
fn added(seconds: &[Vec<SecondRow>]) -> Vec<SecondRow> {
    let Some((first, rest)) = seconds.split_first() else { return Vec::new() };
    let mut sum = first.clone();
    for (at, row) in sum.iter_mut().enumerate() {
        for other in rest.iter().filter_map(|rows| rows.get(at)) {
            row.operations += other.operations;
            row.errors += other.errors;
            row.offered += other.offered;
            row.started += other.started;
            row.dropped += other.dropped;
            row.p50_us = row.p50_us.max(other.p50_us);
            row.p99_us = row.p99_us.max(other.p99_us);
            row.max_us = row.max_us.max(other.max_us);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_processes_share_the_generator_s_cpus() {
        let words = |cpus: CpuSet, count| shares(&cpus, count).iter().map(CpuSet::to_string).collect::<Vec<_>>();
        assert_eq!(words(CpuSet::new(4..8), 2), ["4-5", "6-7"]);
        assert_eq!(words(CpuSet::new(4..8), 3), ["4", "5", "6"]);
        assert_eq!(words(CpuSet::new([1, 3]), 3), ["1", "3", "1"]);
        assert_eq!(words(CpuSet::default(), 2), ["", ""]);
    }

    #[test]
    fn seconds_add_up() {
        let row = |operations, p99_us| SecondRow { operations, p99_us, ..SecondRow::default() };
        let sum = added(&[vec![row(1, 5.0), row(2, 5.0)], vec![row(10, 9.0)]]);
        let told: Vec<(u64, f64)> = sum.iter().map(|row| (row.operations, row.p99_us)).collect();
        assert_eq!(told, [(11, 9.0), (2, 5.0)]);
    }
}
