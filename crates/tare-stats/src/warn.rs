//! Of which things of a record and its analysis a reader is warned.

use crate::analysis::Analysis;
use crate::arm::Arm;
use crate::probe_cost::{FormProbeCost, NO_DETAIL, ProbeEffect};
use crate::same::Sameness;
use crate::verdict::Verdict;
use crate::voids::{counted, oftener};
use crate::warmth::slice_of_unknown_warmth;
use crate::warnings::{MachineFacts, Missing, Unfinished, Unsteady, Warning};
use std::collections::BTreeSet;
use tare_core::load::TurnsSummary;
use tare_core::record::{DECIDED, INTERRUPTED, ON_REQUEST, Record, TrialData};
use tare_core::trial::Outcome;

/// Below this p a form's trend is its own: noise alone flags some trials of every form.
const UNSTEADY_P: f64 = 0.01;

/// What a reader must know before believing a figure; gravest first.
pub(crate) fn warnings(record: &Record, analysis: &Analysis) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = missing(record).into_iter().map(|what| Warning::Missing { what }).collect();
    if analysis.emulated_baseline().is_some() {
        warnings.push(Warning::EmulatedBaseline { baseline: analysis.baseline.clone() });
    }
    for metric in analysis.metrics.iter().filter(|metric| metric.control_differs) {
        let floor = metric.noise_floor.unwrap_or_default();
        warnings.push(Warning::EqualsDiffer { metric: metric.title.clone(), floor, machine: machine(record) });
    }
    warnings.extend(void_warnings(record, analysis));
    for bits in &analysis.bits {
        if let Some(first) = bits.differences.first() {
            let (service, path) = (bits.service.clone(), first.path.clone());
            warnings.push(Warning::OtherBits { service, path, more: bits.differences.len() - 1 });
        }
    }
    for service in &analysis.resources {
        // An emulated form makes no claim that could be biased.
        let emulated = |form: &String| analysis.arms.iter().any(|arm| arm.form == *form && analysis.emulated(arm));
        let unequal = service.rows.iter().filter(|row| {
            let mut cells = row.cells.iter().zip(&service.forms);
            row.matters && cells.any(|(cell, form)| cell.sameness == Sameness::Differs && !emulated(form))
        });
        let properties: Vec<String> = unequal.map(|row| row.property.clone()).collect();
        if !properties.is_empty() {
            warnings.push(Warning::UnequalResources { service: service.service.clone(), properties });
        }
    }
    for found in analysis.warmth.iter().filter(|found| found.cold) {
        let longest_ns = found.longest_ns;
        let cold = found.losses.last().map(|loss| (loss.share, loss.slice_ns));
        warnings.extend(cold.map(|(share, slice_ns)| Warning::Cold { share, slice_ns, longest_ns }));
    }
    let unknown = slice_of_unknown_warmth(record, &analysis.warmth);
    warnings.extend(unknown.map(|slice_ns| Warning::WarmthUnknown { slice_ns }));
    warnings.extend(moves_untold(record));
    warnings.extend(probe_warnings(analysis));
    warnings.extend(trimming_warnings(analysis));
    warnings.extend(unsteady_warning(analysis));
    for metric in &analysis.metrics {
        let odd = metric.ratios.iter().filter(|ratio| ratio.sensitive && ratio.verdict != Verdict::Emulated);
        let warning = |arm: &String| Warning::NotNearNormal { arm: arm.clone(), metric: metric.title.clone() };
        warnings.extend(odd.map(|ratio| warning(&ratio.arm)));
    }
    if record.end.as_ref().is_some_and(|end| end.how == DECIDED) {
        warnings.push(Warning::EndedByFinding);
    }
    if let Some(end) = record.end.as_ref().filter(|end| end.how == ON_REQUEST) {
        let (there, planned) = (planned_there(record), record.header.plan.len());
        warnings.push(Warning::EndedOnRequest { by: end.asked_by.clone(), there, planned });
    }
    warnings
}

/// Where what moves cost is left in the ratios. Records of older versions do not say which form could not tell.
fn moves_untold(record: &Record) -> Option<Warning> {
    let measured = counted(record).into_iter().map(|trial| &trial.record);
    let turns: Vec<(u32, String, TurnsSummary)> = measured
        .filter_map(|trial| Some((trial.trial.block, trial.trial.arm(), trial.load.as_ref()?.turns?)))
        .collect();
    let of: BTreeSet<u32> = turns.iter().map(|(block, ..)| *block).collect();
    let untold: Vec<&(u32, String, TurnsSummary)> =
        turns.iter().filter(|(.., turns)| turns.move_ns.is_none()).collect();
    let blocks = untold.iter().map(|(block, ..)| block).collect::<BTreeSet<_>>().len();
    let arms: BTreeSet<&String> = untold.iter().filter(|(.., turns)| turns.untold).map(|(_, arm, _)| arm).collect();
    let arms = arms.into_iter().cloned().collect();
    (blocks > 0).then_some(Warning::MovesUntold { arms, blocks, of: of.len() })
}

/// Forms that the probe costs more than half a per cent, or than counts as a difference, at both ends of its interval.
fn probe_warnings(analysis: &Analysis) -> Vec<Warning> {
    let limit = NO_DETAIL.min(analysis.margin);
    let forms = analysis.apparatus.probe_cost.iter().flat_map(|cost| &cost.forms);
    let of_form = |found: &FormProbeCost| {
        let cpu = found.cpu_per_op.map(|cost| (ProbeEffect::CpuPerOp, cost));
        let all = [Some((ProbeEffect::Throughput, found.throughput)), cpu].into_iter().flatten();
        let named = all.filter(|(changes, cost)| cost.costs_more_than(limit, *changes));
        let warning = |(changes, cost)| Warning::ProbeCosts { form: found.form.clone(), changes, cost };
        named.map(warning).collect::<Vec<_>>()
    };
    forms.flat_map(of_form).collect()
}

/// What of a run is not in its record: trials that were never run, and what was measured and is gone. A comparison of
/// several records says it of each.
pub fn missing(record: &Record) -> Vec<Missing> {
    let seconds = emptied(record, "seconds.jsonl", |trial| trial.seconds.is_empty());
    let telemetry = emptied(record, "telemetry.jsonl", |trial| trial.telemetry.is_empty());
    [incomplete(record), lost(record), seconds, telemetry].into_iter().flatten().collect()
}

fn lost(record: &Record) -> Option<Missing> {
    let (trials, planned) = (record.lost(), record.header.plan.len());
    (!trials.is_empty()).then_some(Missing::TrialsLost { trials, planned })
}

fn emptied(record: &Record, file: &str, is_empty: fn(&TrialData) -> bool) -> Option<Missing> {
    let measured = record.trials.iter().filter(|trial| trial.record.outcome == Outcome::Measured);
    let (without, with): (Vec<&TrialData>, Vec<&TrialData>) = measured.partition(|trial| is_empty(trial));
    let trials: Vec<u32> = without.iter().map(|trial| trial.record.trial.index).collect();
    (!with.is_empty() && !trials.is_empty()).then(|| Missing::Emptied { file: file.to_owned(), trials })
}

/// Whether trials were never run, and why.
fn incomplete(record: &Record) -> Option<Missing> {
    let why = match &record.end {
        None => Unfinished::NoEnd,
        Some(end) if end.is_whole() => return None,
        Some(end) if end.how == INTERRUPTED => Unfinished::Interrupted,
        Some(_) => Unfinished::BudgetSpent,
    };
    Some(Missing::Unfinished { why, there: planned_there(record), planned: record.header.plan.len() })
}

/// How many trials of the plan there are. Blocks that were run again come on top of it.
fn planned_there(record: &Record) -> usize {
    record.trials.iter().filter(|trial| trial.record.trial.again.is_none()).count()
}

/// Whose A/A control fails must be named.
fn machine(record: &Record) -> MachineFacts {
    let fact = |key: &str| record.header.environment.get(key).cloned();
    MachineFacts { cpu: fact("cpu.model"), kernel: fact("kernel") }
}

fn void_warnings(record: &Record, analysis: &Analysis) -> Vec<Warning> {
    let of_arm = analysis.arms.iter().filter_map(|arm| {
        // Whose service ended by itself is an outcome, and counts as one in the test.
        let ended = record.trials.iter().map(|trial| &trial.record);
        let ended = ended.filter(|trial| trial.service_ended.is_some() && trial.trial.arm() == arm.name).count() as u32;
        let ran = arm.invalid + arm.failed + arm.measured;
        let void = (arm.invalid + arm.failed).saturating_sub(ended);
        Some(Warning::VoidTooOften { arm: arm.name.clone(), void, ran, p: arm.void_p? })
    });
    let again: BTreeSet<u32> = record.trials.iter().filter_map(|trial| trial.record.trial.again).collect();
    let blocks = again.len() - analysis.blocks_replaced.len();
    of_arm.chain((blocks > 0).then_some(Warning::BlocksNotWhole { blocks })).collect()
}

/// Ratios that are others without the slowest and fastest windows, and when that was.
fn trimming_warnings(analysis: &Analysis) -> Vec<Warning> {
    let of_metric = analysis.metrics.iter().flat_map(|metric| {
        let apart = metric.ratios.iter().filter(|ratio| ratio.trimming_differs && ratio.arm != analysis.control);
        apart.map(|ratio| Warning::TrimmedApart {
            arm: ratio.arm.clone(),
            metric: metric.title.clone(),
            ratio: ratio.ratio,
            trimmed: ratio.trimmed,
        })
    });
    of_metric.chain(analysis.stalls.iter().map(|stalls| Warning::StoodStill { stalls: stalls.clone() })).collect()
}

/// Which forms have trials that were never steady, in one warning. A trend in a form's trials matters when the other
/// forms show none.
fn unsteady_warning(analysis: &Analysis) -> Option<Warning> {
    let unsteady = |arm: &Arm| {
        let (trials, measured) = (arm.never_steady.len() as u32, arm.measured);
        let others = analysis.arms.iter().filter(|other| other.name != arm.name);
        let others = others.fold((0, 0), |sum, arm| (sum.0 + arm.never_steady.len() as u32, sum.1 + arm.measured));
        let p = oftener((trials, measured), others, UNSTEADY_P);
        Unsteady { arm: arm.name.clone(), trials, measured, p }
    };
    let arms: Vec<Unsteady> = analysis.arms.iter().filter(|arm| !arm.never_steady.is_empty()).map(unsteady).collect();
    (!arms.is_empty()).then_some(Warning::NeverSteady { arms })
}
