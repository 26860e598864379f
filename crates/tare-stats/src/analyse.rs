//! A whole record, analysed.

use crate::account::accounts;
use crate::advice::advice_gains;
use crate::analysis::Analysis;
use crate::apparatus::apparatus;
use crate::arm::{Arm, Reason};
use crate::bound::Lean;
use crate::ceiling::{Ceilings, ceilings};
use crate::claim::Claim;
use crate::components::components;
use crate::contrast::{cells, contrasts, pairs};
use crate::equivalence::declare;
use crate::estimate::{Estimate, block_logs, estimate};
use crate::failures::{failed_shares, leans};
use crate::family::{CONFIDENCE, Family, Method};
use crate::finding::explanations;
use crate::follows;
use crate::ladder::ladder_costs;
use crate::metrics::{known_metrics, name_units};
use crate::nested::{Nested, Rounds};
use crate::paired::{BlockLogs, Differences, Precision, smallest_detectable};
use crate::profile::profiles;
use crate::qos::{QosKept, qos_kept};
use crate::ratios::{MetricAnalysis, Ratio};
use crate::response::{load_response, service_costs};
use crate::resting::resting;
use crate::same::{bits, resources};
use crate::scale_out::scale_out;
use crate::stalls::{beyond_baseline, stalls_that_decide};
use crate::steady::never_steady;
use crate::verdict::{RatioSummary, Withheld, judge};
use crate::voids::{counted, measured, replaced_blocks, void_too_often};
use crate::warming::{settling, warming};
use crate::warmth::warmth;
use crate::warn::warnings;
use crate::width::{ended_for_width, missed_aim, widened};
use std::collections::{BTreeMap, BTreeSet};
use tare_core::plan::{blocks, control_arm};
use tare_core::record::{End, FAIRNESS, PEAK_LOAD, Record, TrialData, TrialMetric};
use tare_core::study::Study;
use tare_core::trial::{Outcome, Stage};

/// Ratios that are nearer to each other than this, log scale, do not disagree, however exact they are.
const TRIMMED_APART_MIN: f64 = 1e-3;

/// Everything a report shows of a record. The order of the trials does not matter.
pub fn analyse(record: &Record) -> Analysis {
    let study = &record.header.study;
    let control = control_arm(&study.baseline);
    let arms = arms(record, &control);
    let (measured, counted) = (measured(record), counted(record));
    // A search for the peak measures one thing only, and nothing else measures that.
    let searched = study.peak.is_some();
    let known = known_metrics(record, &measured);
    let several = measured.iter().any(|trial| trial.record.metrics.contains_key(FAIRNESS));
    let is_shown =
        |metric: &&TrialMetric<'_>| (metric.name == PEAK_LOAD) == searched && (metric.name != FAIRNESS || several);
    let shown = || known.iter().filter(is_shown);
    let comparison = Comparison {
        arms: &arms,
        one_level: one_level(study),
        leans: leans(record, &counted, &arms),
        ceilings: ceilings(record, &counted, &arms),
        compared: shown().filter(|metric| metric.compared).count(),
    };
    let awaited = record.header.awaited_metrics();
    let is_awaited = |metric: &TrialMetric<'_>| awaited.contains(&metric.name);
    let as_is = |metric: &TrialMetric<'_>| analyse_metric(&counted, metric, Claim::AS_IS, &comparison);
    let as_is = || shown().filter(|metric| is_awaited(metric)).map(as_is).collect::<Vec<_>>();
    let ended = ended_for_width(record).map(|asked| (asked, widened(&as_is(), asked, &arms)));
    let claim = |metric: &TrialMetric<'_>| Claim::of(ended, is_awaited(metric));
    let mut metrics: Vec<MetricAnalysis> =
        shown().map(|metric| analyse_metric(&counted, metric, claim(metric), &comparison)).collect();
    name_units(record, &mut metrics);
    follows::add(record, &mut metrics, &control);
    let mut analysis = Analysis {
        confidence: CONFIDENCE,
        margin: 0.0,
        baseline: study.baseline.clone(),
        control,
        blocks_planned: blocks(&record.header.plan),
        blocks_replaced: replaced_blocks(record).into_iter().collect(),
        trials_lost: record.lost(),
        blocks_measured: blocks_of(&measured, &study.baseline),
        failed: failed_shares(record, &counted, &arms),
        resting: if study.design.freezes() { Vec::new() } else { resting(&measured, &study.baseline) },
        warming: warming(&counted, &claimed(&arms), &study.baseline),
        settling: settling(&counted, &claimed(&arms), &study.baseline),
        warmth: warmth(&record.trials),
        cpu: accounts(record, &counted, &arms),
        ceilings: comparison.ceilings.clone(),
        apparatus: apparatus(record, &measured, &metrics),
        costs: service_costs(record, &counted, &arms, &metrics),
        response: load_response(record, &counted, &arms, &metrics),
        scale_out: scale_out(record, &arms, &metrics),
        arms,
        ladder: None,
        advice: None,
        contrasts: Vec::new(),
        explanations: Vec::new(),
        profiles: profiles(record),
        metrics,
        bits: bits(record),
        resources: resources(record),
        stalls: Vec::new(),
        missed_aim: None,
        warnings: Vec::new(),
    };
    analysis.ladder =
        study.ladder.as_ref().map(|ladder| ladder_costs(ladder, &study.baseline, &analysis.arms, &analysis.metrics));
    analysis.advice = study.advice.as_ref().map(|advice| advice_gains(advice, &analysis.arms, &analysis.metrics));
    explain(&mut analysis, record, &counted);
    call_equal(&mut analysis, record, &counted);
    analysis.missed_aim = missed_aim(record, &analysis);
    analysis.warnings = warnings(record, &analysis);
    analysis
}

/// In how many blocks an arm was measured.
fn blocks_of(measured: &[&TrialData], arm: &str) -> u32 {
    let trials = measured.iter().map(|trial| &trial.record.trial);
    trials.filter(|trial| trial.arm() == arm).map(|trial| trial.block).collect::<BTreeSet<_>>().len() as u32
}

/// Adds which forms are equivalent, and the stalls that decide.
fn call_equal(analysis: &mut Analysis, record: &Record, counted: &[&TrialData]) {
    let one_level = one_level(&record.header.study);
    let beyond = if one_level { beyond_baseline(&analysis.arms, &analysis.metrics, counted) } else { BTreeMap::new() };
    declare(analysis, record, &beyond);
    analysis.stalls = stalls_that_decide(&analysis.arms, &analysis.metrics, counted, &beyond);
}

/// Adds what else differs, and what differences come from.
fn explain(analysis: &mut Analysis, record: &Record, counted: &[&TrialData]) {
    let (baseline, ladder, advice) = (analysis.baseline.clone(), analysis.ladder.as_ref(), analysis.advice.as_ref());
    let cells = cells(record, counted);
    let pairs = pairs(&baseline, &analysis.arms, ladder, record.header.study.advice.as_ref());
    let by_experiment = (ladder, advice);
    analysis.explanations = explanations(&cells, &pairs, &baseline, &analysis.arms, &analysis.metrics, by_experiment);
    analysis.contrasts = contrasts(&cells, &pairs, &baseline, &analysis.arms);
}

/// What all metrics of a record are compared by.
struct Comparison<'a> {
    arms: &'a [Arm],
    /// Whether trials stay at one level of load.
    one_level: bool,
    /// By arm: where the truth of all its figures lies.
    leans: BTreeMap<String, Lean>,
    /// Where the generator was the limit.
    ceilings: Option<Ceilings>,
    /// How many metrics are compared.
    compared: usize,
}

/// Whether a trial of the study stays at one level, so that its throughput should be steady and its windows are alike.
fn one_level(study: &Study) -> bool {
    study.peak.is_none() && study.load.stays_level()
}

fn arms(record: &Record, control: &str) -> Vec<Arm> {
    let header = &record.header;
    let mut arms = Vec::new();
    for form in &header.study.forms {
        let baseline = form.name == header.study.baseline;
        arms.push(arm(record, &form.name, &form.name, baseline));
        if baseline && header.plan.iter().any(|trial| trial.control) {
            arms.push(Arm { baseline: false, control: true, ..arm(record, control, &form.name, false) });
        }
    }
    arms
}

fn arm(record: &Record, name: &str, form: &str, baseline: bool) -> Arm {
    let state = record.header.forms.get(form);
    let of_arm: Vec<&TrialData> = record.trials.iter().filter(|trial| trial.record.trial.arm() == name).collect();
    let count = |word: &str| of_arm.iter().filter(|trial| trial.record.outcome.word() == word).count() as u32;
    let path = of_arm.iter().map(|trial| &trial.record.path).find(|path| !path.is_empty());
    let in_words = || record.header.study.forms.iter().find(|f| f.name == form).map(tare_core::form::Form::describe);
    let levelled = of_arm.iter().filter(|t| t.record.outcome == Outcome::Measured && one_level(&record.header.study));
    let unsteady = levelled.filter(|trial| never_steady(&trial.seconds));
    let mut never_steady: Vec<u32> = unsteady.map(|trial| trial.record.trial.index).collect();
    never_steady.sort_unstable();
    let mut emulated = state.and_then(|state| state.emulated.clone());
    if emulated.is_none() && of_arm.iter().any(|trial| trial.record.emulated) {
        emulated = Some(tare_core::fault::Fault::new("it ran under emulation"));
    }
    let mut reasons = reasons(&of_arm);
    if let Some(why) = state.and_then(|state| state.unavailable.clone())
        && reasons.is_empty()
    {
        reasons.push(Reason { outcome: "skipped".into(), stage: None, why, trials: Vec::new() });
    }
    Arm {
        name: name.to_owned(),
        form: form.to_owned(),
        describe: state.map(|state| state.describe.clone()).or_else(in_words).unwrap_or_default(),
        baseline,
        control: false,
        weight: record.header.study.forms.iter().find(|known| known.name == form).and_then(|known| known.weight),
        emulated,
        planned: planned(record, name),
        void_p: void_too_often(record, name),
        measured: count("measured"),
        invalid: count("invalid"),
        failed: count("failed"),
        skipped: count("skipped"),
        reasons,
        path: path.cloned().unwrap_or_default(),
        never_steady,
        qos: qos(record, &of_arm),
    }
}

/// A search has its own windows to hold against the QoS.
fn qos(record: &Record, of_arm: &[&TrialData]) -> Option<QosKept> {
    let study = &record.header.study;
    let measured = of_arm.iter().filter(|trial| trial.record.outcome == Outcome::Measured);
    let loads = measured.filter_map(|trial| trial.record.load.as_ref());
    study.qos.as_ref().filter(|_| study.peak.is_none()).map(|qos| qos_kept(qos, loads))
}

/// How many trials an arm should have: those of the plan and of blocks that were run again. A run that ended by
/// itself left no trial out that it should have had; what was lost since it did have.
/// The arms whose figures say something about the real thing.
fn claimed(arms: &[Arm]) -> Vec<&str> {
    arms.iter().filter(|arm| arm.emulated.is_none()).map(|arm| arm.name.as_str()).collect()
}

fn planned(record: &Record, arm: &str) -> u32 {
    let precise = record.end.as_ref().is_some_and(End::is_early);
    let there = || record.trials.iter().map(|trial| &trial.record.trial).filter(|trial| trial.arm() == arm);
    let planned = if precise {
        let lost = record.lost();
        let lost = record.header.plan.iter().filter(|trial| trial.arm() == arm && lost.contains(&trial.index));
        there().filter(|trial| trial.again.is_none()).count() + lost.count()
    } else {
        record.header.plan.iter().filter(|trial| trial.arm() == arm).count()
    };
    (planned + there().filter(|trial| trial.again.is_some()).count()) as u32
}

/// Each reason once, whatever its log says; most frequent first.
fn reasons(trials: &[&TrialData]) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = Vec::new();
    let mut trials: Vec<&&TrialData> = trials.iter().collect();
    trials.sort_by_key(|trial| trial.record.trial.index);
    for trial in trials {
        let outcome = &trial.record.outcome;
        let Some(why) = outcome.why() else { continue };
        let stage: Option<Stage> = match outcome {
            Outcome::Failed { stage, .. } => Some(*stage),
            _ => None,
        };
        let same = |reason: &&mut Reason| {
            reason.outcome == outcome.word() && reason.stage == stage && reason.why.message == why.message
        };
        match reasons.iter_mut().find(same) {
            Some(reason) => reason.trials.push(trial.record.trial.index),
            None => {
                let trials = vec![trial.record.trial.index];
                reasons.push(Reason { outcome: outcome.word().into(), stage, why: why.clone(), trials });
            }
        }
    }
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.trials.len()));
    reasons
}

fn analyse_metric(
    trials: &[&TrialData],
    metric: &TrialMetric<'_>,
    claim: Claim,
    comparison: &Comparison,
) -> MetricAnalysis {
    let nested = Nested::of(trials, metric.name, comparison.one_level);
    let known = |trial: &TrialData| trial.record.metrics.get(metric.name).copied();
    let at_least = |trial: &TrialData| trial.record.at_least.get(metric.name).copied();
    let of_arm = |arm: &Arm| {
        let mut all = estimate(trials, |trial| known(trial).or_else(|| at_least(trial)), &arm.name)?;
        let bounds = trials.iter().filter(|trial| trial.record.trial.arm() == arm.name && at_least(trial).is_some());
        all.at_least = bounds.map(|trial| trial.record.trial.index).collect();
        Some(all)
    };
    let estimates: Vec<Estimate> = comparison.arms.iter().filter_map(of_arm).collect();
    let mut analysis = MetricAnalysis {
        name: metric.name.to_owned(),
        title: metric.title.to_owned(),
        unit: metric.unit.to_owned(),
        more_is_better: metric.more_is_better,
        compared: metric.compared,
        nested,
        method: Method::None,
        noise_floor: None,
        control_differs: false,
        leans: BTreeMap::new(),
        claim,
        estimates,
        ratios: Vec::new(),
    };
    if metric.compared {
        let trimmed = Trimmed::of(trials, metric.name, nested, comparison.arms);
        compare_arms(&mut analysis, metric, &trimmed, claim, comparison);
        if let Some(baseline) = comparison.arms.iter().find(|arm| arm.baseline) {
            for ratio in &mut analysis.ratios {
                ratio.parts = components(trials, metric.name, [&ratio.arm, &baseline.name], &ratio.blocks);
            }
        }
    }
    analysis
}

/// What trials come to without their best and worst windows or slices.
#[derive(Default)]
struct Trimmed {
    /// By arm: the logs of its trials' trimmed values.
    logs: BTreeMap<String, BlockLogs>,
    /// Arms with a trial in which more stood still than is left out.
    still: BTreeSet<String>,
}

impl Trimmed {
    /// Empty where there is nothing to trim.
    fn of(trials: &[&TrialData], metric: &str, nested: Nested, arms: &[Arm]) -> Trimmed {
        if nested == Nested::Whole {
            return Trimmed::default();
        }
        let rounds = Rounds::of(trials, metric);
        let value = |trial: &TrialData| nested.value(trial, metric, &rounds);
        let logs = |arm: &Arm| Some((arm.name.clone(), block_logs(&estimate(trials, value, &arm.name)?)));
        // `Nested::of` has seen that each of them has windows, slices or parts of turns.
        let still = trials.iter().filter(|trial| value(trial).is_none()).map(|trial| trial.record.trial.arm());
        Trimmed { logs: arms.iter().filter_map(logs).collect(), still: still.collect() }
    }
}

fn compare_arms(
    analysis: &mut MetricAnalysis,
    metric: &TrialMetric<'_>,
    trimmed: &Trimmed,
    claim: Claim,
    comparison: &Comparison,
) {
    let (arms, compared) = (comparison.arms, comparison.compared);
    let logs: BTreeMap<&str, BlockLogs> =
        analysis.estimates.iter().map(|estimate| (estimate.arm.as_str(), block_logs(estimate))).collect();
    let Some(baseline) = arms.iter().find(|arm| arm.baseline).and_then(|arm| logs.get(arm.name.as_str())) else {
        return;
    };
    let baseline_name = arms.iter().find(|arm| arm.baseline).map_or("", |arm| arm.name.as_str());
    let others = || arms.iter().filter(|arm| !arm.baseline);
    let control = others().find(|arm| arm.control).and_then(|arm| logs.get(arm.name.as_str()));
    // A ratio to an emulated baseline says as little as one of an emulated form; nor do two emulated runs of the
    // baseline say how far apart equals lie on the real thing.
    let nothing_real = arms.iter().any(|arm| arm.baseline && arm.emulated.is_some());
    let asked = |arm: &&Arm| !arm.control && arm.weight.is_none() && arm.emulated.is_none();
    let claimed = others().filter(|arm| asked(arm) && !nothing_real);
    let forms: Vec<&BlockLogs> = claimed.filter_map(|arm| logs.get(arm.name.as_str())).collect();
    let family = Family::of(baseline, control, &forms);
    let control_differences = control.map(|control| Differences::of(control, baseline));
    let control_differences = control_differences.as_ref().filter(|_| !nothing_real);
    // Of a run without forms it is the control's width that ended it. Beside forms the control is as narrow as they are
    // for no better reason.
    let of_control =
        |precision: Precision| if forms.is_empty() { claim.on(precision) } else { claim.elsewhere(precision) };
    let of_floor = control_differences.and_then(|d| family.floor(d)).map(of_control);
    let floor = control_differences.zip(of_floor).map(|(d, precision)| d.mean().abs() + precision.half_width());
    let alarm = control_differences.and_then(|d| Some(of_control(family.alarm(d, compared)?).interval(d.mean())));
    let differs = alarm.is_some_and(|interval| !interval.contains(1.0));
    let lean = |arm: &Arm| {
        let of_arm = analysis.estimates.iter().find(|estimate| estimate.arm == arm.name);
        let bounds = of_arm.is_some_and(|estimate| !estimate.at_least.is_empty());
        let better = comparison.ceilings.as_ref().is_some_and(|all| all.holds_back(&arm.name, metric.name));
        Lean { worse: bounds || comparison.leans.get(&arm.name).is_some_and(|lean| lean.worse), better }
    };
    let leans = arms.iter().map(|arm| (arm.name.clone(), lean(arm)));
    analysis.leans = leans.filter(|(_, lean)| *lean != Lean::default()).collect();
    let mut ratios = Vec::new();
    for arm in others() {
        let Some(differences) = logs.get(arm.name.as_str()).map(|arm| Differences::of(arm, baseline)) else { continue };
        if differences.n() == 0 {
            continue;
        }
        let precision = match arm.control {
            true => family.alarm(&differences, compared).map(of_control),
            // It stands for itself: nobody chose it among others.
            false if arm.weight.is_some() => family.floor(&differences).map(|precision| claim.elsewhere(precision)),
            false => family.claim(&differences).map(|precision| claim.on(precision)),
        };
        let emulated = nothing_real || arm.emulated.is_some();
        let precision = precision.filter(|_| !emulated);
        let summary = RatioSummary {
            mean: differences.mean(),
            interval: precision.map(|precision| precision.interval(differences.mean())),
            noise_floor: floor,
            emulated,
            withheld: Withheld::by_baseline(arm, arms, differs),
            bound: analysis.bound(&arm.name, baseline_name),
            smallest_detectable: precision
                .map(|precision| smallest_detectable(arm.control, precision, floor.zip(of_floor))),
        };
        let still = [baseline_name, &arm.name].iter().any(|name| trimmed.still.contains(*name));
        let without = trimmed.logs.get(&arm.name).zip(trimmed.logs.get(baseline_name));
        let without = without.map(|(arm, base)| Differences::of(arm, base)).filter(|without| without.n() > 0);
        let without = without.filter(|_| !still).map(|without| without.mean());
        ratios.push(ratio(metric, arm, (&differences, without, still), precision, &summary));
    }
    analysis.method = family.method;
    analysis.noise_floor = floor.map(f64::exp_m1);
    analysis.control_differs = differs;
    analysis.ratios = ratios;
}

fn ratio(
    metric: &TrialMetric<'_>,
    arm: &Arm,
    (differences, trimmed, still): (&Differences, Option<f64>, bool),
    precision: Option<Precision>,
    summary: &RatioSummary,
) -> Ratio {
    let mean = summary.mean;
    let hodges_lehmann = differences.hodges_lehmann();
    let apart = |other: f64| precision.is_some_and(|p| (other - mean).abs() > 0.5 * p.half_width());
    let differs = |trimmed: f64| apart(trimmed) && (trimmed - mean).abs() > TRIMMED_APART_MIN;
    let verdict = judge(metric, summary);
    Ratio {
        arm: arm.name.clone(),
        blocks: differences.blocks.clone(),
        ratio: mean.exp(),
        bound: summary.bound,
        interval: summary.interval,
        standard_error: precision.map(|precision| precision.standard_error),
        degrees: precision.map(|precision| precision.degrees),
        hodges_lehmann: hodges_lehmann.exp(),
        sensitive: apart(hodges_lehmann),
        trimmed: trimmed.map(f64::exp),
        trimming_differs: still || trimmed.is_some_and(differs),
        parts: None,
        follows: None,
        smallest_detectable: summary.smallest_detectable,
        equivalent: None,
        blocks_needed: None,
        equals_beyond_margin: false,
        cold: None,
        still: None,
        verdict,
        withheld: summary.withheld,
    }
}
