//! What a reader must be told before the figures. Words are made of it where reports are made.

use crate::analyse::counted;
use crate::analysis::{Analysis, Verdict};
use crate::same::Sameness;
use crate::stalls::Stalls;
use crate::voids::oftener;
use serde::Serialize;
use std::collections::BTreeSet;
use tare_core::design::{Arrangement, Chop};
use tare_core::load::TurnsSummary;
use tare_core::record::{DECIDED, INTERRUPTED, Record, TrialData};
use tare_core::trial::Outcome;

/// Below this p a form's trend is its own: noise alone flags some trials of every form.
const UNSTEADY_P: f64 = 0.01;

/// Something to know before believing a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Warning {
    /// Something of the run is not in its record.
    Missing {
        /// What.
        what: Missing,
    },
    /// The baseline was measured under emulation: no ratio says anything of the real thing.
    EmulatedBaseline {
        /// The baseline.
        baseline: String,
    },
    /// The A/A control differs from the baseline: this machine treats equals differently.
    EqualsDiffer {
        /// In which metric, for readers.
        metric: String,
        /// How far equals may lie apart, as a share: effects below are noise.
        floor: f64,
        /// The machine, by the facts that it tells of itself: its processor and its kernel.
        machine: Machine,
    },
    /// An arm's trials are void or failed more often than the others'.
    VoidTooOften {
        /// The arm.
        arm: String,
        /// So many void or failed.
        void: u32,
        /// Of so many that were carried out.
        ran: u32,
        /// Fisher's p.
        p: f64,
    },
    /// Blocks with void trials that were run again and did not come out whole either.
    BlocksNotWhole {
        /// How many.
        blocks: usize,
    },
    /// The forms did not run the same files.
    OtherBits {
        /// Of which service.
        service: String,
        /// The first file that differs.
        path: String,
        /// How many more do.
        more: usize,
    },
    /// The forms did not have the same resources.
    UnequalResources {
        /// Of which service.
        service: String,
        /// Which resources.
        properties: Vec<String>,
    },
    /// A ratio is another one without the slowest and fastest windows.
    TrimmedApart {
        /// The arm.
        arm: String,
        /// The metric, for readers.
        metric: String,
        /// The ratio over all of the time.
        ratio: f64,
        /// The same without the best and the worst fifth of it; none where a trial stood still for longer than that.
        trimmed: Option<f64>,
    },
    /// When that was.
    StoodStill {
        /// The arm, and its stalls.
        stalls: Stalls,
    },
    /// Throughput changed while it was measured.
    NeverSteady {
        /// In which arms.
        arms: Vec<Unsteady>,
    },
    /// The mean and the Hodges-Lehmann estimate disagree: blocks are not near-normal.
    NotNearNormal {
        /// The arm.
        arm: String,
        /// The metric, for readers.
        metric: String,
    },
    /// A service needs longer to get warm than slices of a chopped load last.
    Cold {
        /// The share of its rate that it loses in turns half as long as the slices, or somewhat shorter.
        share: f64,
        /// How long such turns are, ns.
        slice_ns: u64,
        /// How long slices are: the longest there are, ns.
        longest_ns: u64,
    },
    /// Whether a service is cold in the slices of a chopped load was looked for and could not be told.
    WarmthUnknown {
        /// How long slices are, a mean of all turns, ns.
        slice_ns: u64,
    },
    /// In some blocks of a chopped load one form's turns do not tell what its moves cost, so no form's are taken off.
    MovesUntold {
        /// Forms that cannot tell.
        arms: Vec<String>,
        /// In so many blocks.
        blocks: usize,
        /// Of so many.
        of: usize,
    },
    /// The run ended because of what it had found: ratios lean away from 1.
    EndedByFinding,
}

/// What a machine says of itself, as far as it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Its processor's model.
    pub cpu: Option<String>,
    /// Its kernel's release.
    pub kernel: Option<String>,
}

/// An arm with trials that were never steady.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unsteady {
    /// The arm.
    pub arm: String,
    /// So many trials.
    pub trials: u32,
    /// Of so many measured.
    pub measured: u32,
    /// Fisher's p, where that is more often than in the others.
    pub p: Option<f64>,
}

/// What of a run is not in its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Missing {
    /// Trials that were never run.
    Unfinished {
        /// Why.
        why: Unfinished,
        /// Trials that are there.
        there: usize,
        /// Of so many planned.
        planned: usize,
    },
    /// Trials that were run and are gone: a ratio from what is left may be another one, above all if somebody chose
    /// what to remove.
    TrialsLost {
        /// Which.
        trials: Vec<u32>,
        /// Of so many planned.
        planned: usize,
    },
    /// Trials that measured something, without any row of what the others have rows of.
    Emptied {
        /// The file that is empty.
        file: String,
        /// Which trials.
        trials: Vec<u32>,
    },
}

/// Why a run has fewer trials than it planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unfinished {
    /// The record has no end: the run goes on, or was killed.
    NoEnd,
    /// It was interrupted.
    Interrupted,
    /// Its time was spent.
    BudgetSpent,
}

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
    warnings.extend(warmth_unknown(record, analysis));
    warnings.extend(moves_untold(record));
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
    warnings
}

/// Turns so long are not held against longer ones, ns.
const LONG_NS: u64 = 700_000_000;

/// Where slices are as long as the run found them, and nothing came of holding several lengths against each other.
pub(crate) fn warmth_unknown(record: &Record, analysis: &Analysis) -> Option<Warning> {
    let Arrangement::Chop(Chop { slice: None, pieces: None, .. }) = &record.header.study.design.arrangement else {
        return None;
    };
    // Older versions compared no lengths.
    if record.trials.iter().all(|trial| trial.record.lengths.is_empty()) {
        return None;
    }
    let turns = record.trials.iter().filter_map(|trial| trial.record.load.as_ref()?.turns);
    let slices: Vec<u64> = turns.filter(|turns| turns.turns > 0).map(|turns| turns.slice_ns).collect();
    let slice_ns = slices.iter().sum::<u64>().checked_div(slices.len() as u64)?;
    (analysis.warmth.is_empty() && slice_ns < LONG_NS).then_some(Warning::WarmthUnknown { slice_ns })
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
    // Blocks that were run again come on top of the plan.
    let there = record.trials.iter().filter(|trial| trial.record.trial.again.is_none()).count();
    Some(Missing::Unfinished { why, there, planned: record.header.plan.len() })
}

/// Whose A/A control fails must be named.
fn machine(record: &Record) -> Machine {
    let fact = |key: &str| record.header.environment.get(key).cloned();
    Machine { cpu: fact("cpu.model"), kernel: fact("kernel") }
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
    let unsteady = |arm: &crate::analysis::Arm| {
        let (trials, measured) = (arm.never_steady.len() as u32, arm.measured);
        let others = analysis.arms.iter().filter(|other| other.name != arm.name);
        let others = others.fold((0, 0), |sum, arm| (sum.0 + arm.never_steady.len() as u32, sum.1 + arm.measured));
        let p = oftener((trials, measured), others, UNSTEADY_P);
        Unsteady { arm: arm.name.clone(), trials, measured, p }
    };
    let arms: Vec<Unsteady> = analysis.arms.iter().filter(|arm| !arm.never_steady.is_empty()).map(unsteady).collect();
    (!arms.is_empty()).then_some(Warning::NeverSteady { arms })
}
