//! CPU time per operation and by service: which tier of a workload pays for a form, at one load or at each level.
//!
//! On the host every service has a scope of its own. What runs in guests the host sees as their hypervisors only; then
//! services are told as the guest counts them, and what their hypervisors used beyond that as the rest. Where a guest
//! claims more than its hypervisor used, nothing can be told apart.

use super::{answered, level_figure, levels_of, only, window};
use crate::arm::Arm;
use crate::claim::Claim;
use crate::cpu::{cpu_total_s, spent};
use crate::estimate::{Estimate, block_logs, estimate};
use crate::family::CONFIDENCE;
use crate::interval::Interval;
use crate::paired::Differences;
use crate::ratios::MetricAnalysis;
use crate::verdict::Withheld;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::design::Arrangement;
use tare_core::load::LoadSummary;
use tare_core::record::{CPU_PER_OP, Record, TrialData};
use tare_core::telemetry::{TelemetryRow, Vantage};

/// What each service costs at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceCosts {
    /// The level of a load in steps; none of a load that stays as it is.
    pub level: Option<f64>,
    /// The arms of which it is known.
    pub arms: Vec<ArmCosts>,
}

/// What each service costs in one arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmCosts {
    /// The arm.
    pub arm: String,
    /// The services, in the order of the workload, then what works for them.
    pub parts: Vec<PartCost>,
}

/// What one service, or what works for it, costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartCost {
    /// The service, all of its instances together; or the scope of what works for services.
    pub name: String,
    /// Who counted it.
    pub seen: Seen,
    /// CPU time per operation, us.
    pub estimate: Estimate,
    /// How it compares with the same part of the baseline, where both have it in a block and neither is emulated.
    pub ratio: Option<CostRatio>,
}

/// Who counted CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// The host.
    Host,
    /// The guest that it runs in.
    Guest,
    /// The host, less what guests counted for services.
    Rest,
}

/// A part's cost by the baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostRatio {
    /// The ratio, inside blocks.
    pub ratio: f64,
    /// Its interval: those of all parts and forms at this load hold together (Student's t, Bonferroni, 95 %). None
    /// below three blocks, and where the report withholds its verdict on the form's CPU time per operation.
    pub interval: Option<Interval>,
    /// The difference that this is at the baseline's mean, us per operation.
    pub difference_us: f64,
}

impl CostRatio {
    /// Whether its interval excludes 1.
    pub fn is_clear(&self) -> bool {
        self.interval.is_some_and(|interval| !interval.contains(1.0))
    }
}

impl ArmCosts {
    /// The sum of all parts, us per operation.
    pub fn total_us(&self) -> f64 {
        self.parts.iter().map(|part| part.estimate.mean).sum()
    }

    /// The parts that have a ratio: those that differ beyond chance first, the largest difference in CPU time before
    /// the others.
    pub fn differing(&self) -> Vec<(&PartCost, CostRatio)> {
        let mut parts: Vec<(&PartCost, CostRatio)> =
            self.parts.iter().filter_map(|part| Some((part, part.ratio?))).collect();
        let size = |ratio: &CostRatio| ratio.difference_us.abs();
        parts.sort_by(|(_, a), (_, b)| b.is_clear().cmp(&a.is_clear()).then(size(b).total_cmp(&size(a))));
        parts
    }
}

/// A part and who counted it.
type Part = (usize, String, Seen);

/// By part: CPU time per operation, us.
type Costs = BTreeMap<Part, f64>;

/// What each service costs, at each level or at the one load; nothing where trials of a block run at the same time,
/// where a search chose the load, and where no arm has more than one part beside what its hypervisors used.
pub(crate) fn service_costs(
    record: &Record,
    counted: &[&TrialData],
    arms: &[Arm],
    metrics: &[MetricAnalysis],
) -> Vec<ServiceCosts> {
    let study = &record.header.study;
    if study.design.arrangement != Arrangement::Blocks || study.peak.is_some() {
        return Vec::new();
    }
    let services: Vec<&str> = record.header.workload.services.iter().map(|service| service.name.as_str()).collect();
    let steps: Vec<Option<usize>> = match levels_of(&study.load) {
        Some((_, levels)) => (0..levels.len()).map(Some).collect(),
        None => vec![None],
    };
    let level = |number: usize| levels_of(&study.load).map(|(_, levels)| levels[number]);
    let whole = metrics.iter().find(|metric| metric.name == CPU_PER_OP);
    let of_step = |step: &Option<usize>| {
        let by_trial: BTreeMap<u32, Costs> = counted
            .iter()
            .filter_map(|trial| Some((trial.record.trial.index, costs(trial, *step, &services)?)))
            .collect();
        ServiceCosts { level: step.and_then(level), arms: compared(counted, &by_trial, arms, whole) }
    };
    let all: Vec<ServiceCosts> = steps.iter().map(of_step).collect();
    // With one service and nothing else that works for it, there is nothing to be told apart.
    let told = |arm: &ArmCosts| arm.parts.iter().filter(|part| part.seen != Seen::Rest).count();
    let several = all.iter().flat_map(|costs| &costs.arms).any(|arm| told(arm) > 1);
    if several { all.into_iter().filter(|costs| !costs.arms.is_empty()).collect() } else { Vec::new() }
}

/// What a trial spent on each part, at the level of a number or in all. None where a part cannot be read, or a tool
/// inside the form spent time that belongs to no service.
fn costs(trial: &TrialData, step: Option<usize>, services: &[&str]) -> Option<Costs> {
    let load = trial.record.load.as_ref().filter(|load| load.inside.is_none())?;
    let (span, operations) = match step {
        Some(number) => {
            let window = window(trial, number)?;
            // None where the generator may have been the limit, or nothing was answered.
            level_figure("throughput", trial, window)?;
            (only(load, window)?, answered(window))
        }
        None => (load.clone(), load.operations.values().map(|operation| operation.count).sum()),
    };
    let by_operation = 1e6 / operations as f64;
    let host = seen(trial, Vantage::Host, &span, services)?;
    let guests = seen(trial, Vantage::Guest, &span, services).unwrap_or_default();
    let sum = |of: &BTreeMap<(usize, String), f64>| of.values().sum::<f64>();
    let rest = sum(&host) - sum(&guests);
    let part = |(place, name): (usize, String), seen: Seen, s: f64| ((place, name, seen), s * by_operation);
    if guests.is_empty() || rest < 0.0 {
        return Some(host.into_iter().map(|(of, s)| part(of, Seen::Host, s)).collect());
    }
    let names: Vec<&str> = host.keys().map(|(_, name)| name.as_str()).collect();
    let rest = part((usize::MAX, names.join(", ")), Seen::Rest, rest);
    Some(guests.into_iter().map(|(of, s)| part(of, Seen::Guest, s)).chain([rest]).collect())
}

/// CPU time, s, of what serves, by service and its place in the workload; what is no service comes behind. None where
/// there is nothing, or one of them cannot be read.
fn seen(
    trial: &TrialData,
    vantage: Vantage,
    span: &LoadSummary,
    services: &[&str],
) -> Option<BTreeMap<(usize, String), f64>> {
    let mut scopes: BTreeMap<&str, Vec<&TelemetryRow>> = BTreeMap::new();
    for row in trial.telemetry.iter().filter(|row| row.serving && row.vantage == vantage) {
        scopes.entry(&row.scope).or_default().push(row);
    }
    let mut parts = BTreeMap::new();
    for (scope, rows) in &scopes {
        *parts.entry(part_of(scope, services)).or_insert(0.0) += spent(rows, cpu_total_s, span)?;
    }
    // What works for services may be there and have nothing to do, as a proxy of ports that nobody asks.
    parts.retain(|(place, _), s| *place < services.len() || *s > 0.0);
    (!parts.is_empty()).then_some(parts)
}

/// Which service a scope is an instance of; scopes that differ in a number alone are one.
fn part_of(scope: &str, services: &[&str]) -> (usize, String) {
    let is_numbers =
        |rest: &str| rest.strip_prefix('-').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '-'));
    let is_of = |service: &str| scope.strip_prefix(service).is_some_and(|rest| rest.is_empty() || is_numbers(rest));
    let found = services.iter().enumerate().filter(|(_, service)| is_of(service)).max_by_key(|(_, name)| name.len());
    let name = || scope.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches([' ', '-']).to_owned();
    found.map_or_else(|| (services.len(), name()), |(place, service)| (place, (*service).to_owned()))
}

/// The costs of every arm, with their ratios to the baseline's: parts of the `whole`, which say no more than it may.
fn compared(
    counted: &[&TrialData],
    by_trial: &BTreeMap<u32, Costs>,
    arms: &[Arm],
    whole: Option<&MetricAnalysis>,
) -> Vec<ArmCosts> {
    let of_arm = |arm: &Arm| -> Vec<(Part, Estimate)> {
        let trials = counted.iter().filter(|trial| trial.record.trial.arm() == arm.name);
        let costs = trials.filter_map(|trial| by_trial.get(&trial.record.trial.index));
        let parts: BTreeSet<Part> = costs.flat_map(BTreeMap::keys).cloned().collect();
        let value = |part: &Part, trial: &TrialData| by_trial.get(&trial.record.trial.index)?.get(part).copied();
        let estimate = |part: &Part| estimate(counted, |trial| value(part, trial), &arm.name);
        parts.into_iter().filter_map(|part| Some((part.clone(), estimate(&part)?))).collect()
    };
    let all: Vec<(&Arm, Vec<(Part, Estimate)>)> = arms.iter().map(|arm| (arm, of_arm(arm))).collect();
    let baseline = all.iter().find(|(arm, _)| arm.baseline && arm.emulated.is_none());
    let there = |name: &str| baseline.and_then(|(_, parts)| parts.iter().find(|((_, known, _), _)| known == name));
    let is_claimed = |arm: &Arm| !arm.baseline && !arm.control && arm.emulated.is_none();
    let claims = all.iter().filter(|(arm, _)| is_claimed(arm)).flat_map(|(_, parts)| parts);
    let family = claims.filter(|((_, name, _), _)| there(name).is_some()).count().max(1);
    let claim = whole.map_or(Claim::AS_IS, |whole| whole.claim);
    let differs = whole.is_some_and(|whole| whole.control_differs);
    let costs = |(arm, parts): &(&Arm, Vec<(Part, Estimate)>)| {
        let withheld = baseline.and_then(|(baseline, _)| Withheld::of(arm, baseline, differs));
        let bound = baseline.zip(whole).and_then(|((baseline, _), whole)| whole.bound(&arm.name, &baseline.name));
        let is_said = withheld.is_none() && bound.is_none();
        let part = |((_, name, seen), estimate): &(Part, Estimate)| {
            let base = there(name).filter(|_| !arm.baseline && arm.emulated.is_none() && *seen != Seen::Rest);
            let ratio = base.and_then(|(_, base)| ratio(estimate, base, family, claim));
            let ratio = ratio.map(|ratio| CostRatio { interval: ratio.interval.filter(|_| is_said), ..ratio });
            PartCost { name: name.clone(), seen: *seen, estimate: estimate.clone(), ratio }
        };
        ArmCosts { arm: arm.name.clone(), parts: parts.iter().map(part).collect() }
    };
    all.iter().map(costs).filter(|costs| !costs.parts.is_empty()).collect()
}

fn ratio(here: &Estimate, there: &Estimate, family: usize, claim: Claim) -> Option<CostRatio> {
    let differences = Differences::of(&block_logs(here), &block_logs(there));
    if differences.n() == 0 {
        return None;
    }
    let mean = differences.mean();
    let level = 1.0 - 0.5 * (1.0 - CONFIDENCE) / family as f64;
    let interval = differences.precision(level).map(|precision| claim.elsewhere(precision).interval(mean));
    let base = there.geometric_mean.unwrap_or(there.mean);
    Some(CostRatio { ratio: mean.exp(), interval, difference_us: base * (mean.exp() - 1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::OperationSummary;
    use tare_core::plan::PlannedTrial;
    use tare_core::record::TrialRecord;
    use tare_core::trial::Outcome;

    const SECOND: u64 = 1_000_000_000;

    /// A trial of ten seconds and 1000 operations, in which scopes use these shares of a CPU.
    fn trial(shares: &[(Vantage, &str, f64)]) -> TrialData {
        let planned =
            PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        let get = OperationSummary { count: 1_000, ..OperationSummary::default() };
        let (measure_start_ns, measure_end_ns) = (SECOND, 11 * SECOND);
        let operations = [("get".to_owned(), get)].into();
        record.load = Some(LoadSummary { operations, measure_start_ns, measure_end_ns, ..LoadSummary::default() });
        let row = |at: u64, (vantage, scope, share): &(Vantage, &str, f64)| TelemetryRow {
            at_ns: at * SECOND,
            vantage: *vantage,
            scope: (*scope).to_owned(),
            serving: true,
            values: [("cpu_total_s".to_owned(), share * at as f64)].into(),
        };
        let telemetry = [0, 6, 12].iter().flat_map(|at| shares.iter().map(move |one| row(*at, one))).collect();
        TrialData { record, seconds: Vec::new(), telemetry }
    }

    fn told(shares: &[(Vantage, &str, f64)]) -> Vec<(String, Seen, f64)> {
        let costs = costs(&trial(shares), None, &["web", "app", "app-2x"]).unwrap();
        costs.into_iter().map(|((_, name, seen), us)| (name, seen, us.round())).collect()
    }

    #[test]
    fn instances_of_a_service_are_one_part_in_the_order_of_the_workload() {
        let host = |scope, share| (Vantage::Host, scope, share);
        let shares =
            [host("app-1", 0.2), host("app-2", 0.1), host("port proxy", 0.01), host("web", 0.05), host("app-2x", 0.03)];
        let shares = [&shares[..], &[host("idle proxy", 0.0)]].concat();
        let wanted = [("web", 500.0), ("app", 3_000.0), ("app-2x", 300.0), ("port proxy", 100.0)];
        assert_eq!(told(&shares), wanted.map(|(name, us)| (name.to_owned(), Seen::Host, us)));
    }

    #[test]
    fn guests_tell_their_services_and_hypervisors_what_is_left() {
        let guest = |scope, share| (Vantage::Guest, scope, share);
        let both = [(Vantage::Host, "hypervisor 1", 0.3), (Vantage::Host, "hypervisor 2", 0.2)];
        let inside = [guest("web", 0.1), guest("app", 0.25)];
        let found = told(&[both.as_slice(), &inside].concat());
        let wanted =
            [("web", Seen::Guest, 1_000.0), ("app", Seen::Guest, 2_500.0), ("hypervisor", Seen::Rest, 1_500.0)];
        assert_eq!(found, wanted.map(|(name, seen, us)| (name.to_owned(), seen, us)));
        let more = told(&[both.as_slice(), &[guest("web", 0.9)]].concat());
        assert_eq!(more, [("hypervisor".to_owned(), Seen::Host, 5_000.0)], "it claims more than there was");
    }

    #[test]
    fn a_ratio_is_made_inside_blocks_and_its_interval_holds_for_the_whole_family() {
        let of = |values: [f64; 3]| {
            let values = (0..).zip(values).map(|(block, value)| crate::BlockValue { block, trial: block, value });
            Estimate {
                arm: String::new(),
                values: values.collect(),
                at_least: Vec::new(),
                mean: 0.0,
                geometric_mean: Some(100.0),
                interval: None,
            }
        };
        let (here, there) = (of([150.0, 76.0, 298.0]), of([100.0, 50.0, 200.0]));
        let alone = ratio(&here, &there, 1, Claim::AS_IS).unwrap();
        assert!((alone.ratio - 1.503).abs() < 1e-3 && (alone.difference_us - 50.3).abs() < 0.1, "{alone:?}");
        assert!(
            alone.is_clear()
                && ratio(&here, &there, 30, Claim::AS_IS).unwrap().interval.unwrap().high
                    > alone.interval.unwrap().high
        );
        let mut short = here;
        short.values.pop();
        assert_eq!(ratio(&short, &there, 1, Claim::AS_IS).unwrap().interval, None, "two blocks make none");
    }
}
